"""Settings classes: strict however they are made, from a table or in Python, and one line a mistake."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest

from tests.errors import refuses
from toolkit.errors import ThinkbackError
from toolkit.settings import Checked, check, flatten, from_table, setting


def _even(given: Any, place: str) -> int:
    if not isinstance(given, int) or given % 2:
        raise ThinkbackError(f"`{place}` must be even")
    return given


@dataclass(frozen=True)
class Inner(Checked):
    """A table within a table."""

    size: int = setting(low=1)
    words: Mapping[str, str] = setting({})


@dataclass(frozen=True, kw_only=True)
class Kinds(Checked):
    """One field of every kind."""

    name: str = setting()
    count: int = setting(3, low=1, high=9)
    share: float = setting(0.5, above=0, below=1)
    rate: float = setting(1.0, above=0)
    limit: int | None = setting(None, low=1)
    flag: bool = setting(False)
    colour: str = setting("red", choices=("red", "green"))
    mode: Literal["lazy", "eager"] = setting("lazy")
    listed: tuple[str, ...] = setting(())
    some: tuple[str, ...] = setting((), choices=("red", "green"))
    whole: tuple[int, ...] = setting((), low=0)
    heats: tuple[float, ...] = setting((), low=0, high=5)
    options: Mapping[str, Any] = setting({}, identity=False)
    even: int = setting(2, read=_even)
    inner: Inner | None = setting(None)
    parts: tuple[Inner, ...] = setting(())
    else_: int = setting(0)
    free: Any = None


GOOD: list[tuple[str, Any, Any]] = [
    ("name", "x", "x"),
    ("name", np.str_("x"), "x"),
    ("count", 9, 9),
    ("count", np.int64(2), 2),
    ("share", np.float32(0.5), 0.5),
    ("share", Fraction(1, 4), 0.25),
    ("rate", 2, 2.0),
    ("limit", None, None),
    ("flag", np.bool_(True), True),
    ("some", ["green"], ("green",)),
    ("listed", (word for word in "ab"), ("a", "b")),
    ("whole", np.arange(3), (0, 1, 2)),
    ("heats", [1, 0.5], (1.0, 0.5)),
    ("options", {"a": [1]}, {"a": [1]}),
    ("free", object, object),
    ("inner", {"size": 2}, Inner(2)),
    ("parts", [{"size": 2}, Inner(3)], (Inner(2), Inner(3))),
]


@pytest.mark.parametrize(("name", "given", "kept"), GOOD)
def test_a_value_is_kept_in_plain_types(name: str, given: Any, kept: Any) -> None:
    made = Kinds(**{"name": "n", name: given})
    assert getattr(made, name) == kept
    assert type(getattr(made, name)) is type(kept)


def test_a_table_gives_the_same_as_keyword_arguments() -> None:
    table = {"name": "n", "count": 4, "listed": ["a"], "inner": {"size": 2}, "else": 5}
    assert from_table(Kinds, table) == Kinds(name="n", count=4, listed=("a",), inner=Inner(2), else_=5)


BAD: list[tuple[str, Any, str]] = [
    ("name", 3, "`name` is 3; it takes a string"),
    ("name", None, "`name` is None; it takes a string"),
    ("count", 0, "`count` is 0; it takes an integer from 1 to 9"),
    ("count", 2.0, "`count` is 2.0; it takes an integer from 1 to 9"),
    ("count", True, "`count` is True; it takes an integer from 1 to 9"),
    ("limit", 0, "`limit` is 0; it takes an integer, at least 1"),
    ("limit", 2**31, "`limit` is 2147483648; it takes an integer of at most 2,147,483,647"),
    ("limit", 10**400, "; it takes an integer of at most 2,147,483,647"),
    ("share", 1, "`share` is 1; it takes a number between 0 and 1"),
    ("share", math.nan, "`share` is nan; it takes a number between 0 and 1"),
    ("rate", "1", "`rate` is '1'; it takes a number above 0"),
    ("rate", math.inf, "`rate` is inf; it takes a number above 0"),
    ("rate", 10**400, "; it takes a number above 0"),
    ("rate", 16**5000, "`rate` is an integer of thousands of digits; it takes a number above 0"),
    ("flag", 1, "`flag` is 1; it takes true or false"),
    ("colour", "geen", "`colour` is 'geen'; did you mean `green`? there are: `green`, `red`"),
    ("colour", ["red"], "`colour` is ['red']; it takes one of `red`, `green`"),
    ("mode", "laz", "`mode` is 'laz'; did you mean `lazy`?"),
    ("some", ["red", "gren"], "`some` is 'gren'; did you mean `green`?"),
    ("listed", "ab", "`listed` is 'ab'; it takes a list of strings"),
    ("listed", {"a", "b"}, "; it takes a list of strings"),
    ("whole", [1, -1], "`whole` is [1, -1]; it takes a list of integers, at least 0"),
    ("heats", [6], "`heats` is [6]; it takes a list of numbers from 0 to 5"),
    ("options", [1], "`options` is [1]; it takes a table"),
]


@pytest.mark.parametrize(("name", "given", "message"), BAD, ids=range(len(BAD)))
def test_a_mistake_is_one_line_with_the_value(name: str, given: Any, message: str) -> None:
    for make in (lambda: Kinds(**{"name": "n", name: given}), lambda: from_table(Kinds, {"name": "n", name: given})):
        with pytest.raises(ThinkbackError) as caught:
            make()
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"nam": "n"}, "unknown key `nam` in `[step.a]`; did you mean `name`?"),
        ({"name\n": "n"}, "unknown key 'name\\n' in `[step.a]`"),
        ({}, "`step.a.name` is required"),
        ({"name": "n", "count": "3"}, "`step.a.count` is '3'; it takes an integer from 1 to 9"),
        ({"name": "n", "even": 3}, "`step.a.even` must be even"),
        ({"name": "n", "inner": {}}, "`step.a.inner.size` is required"),
        ({"name": "n", "inner": {"size": 0}}, "`step.a.inner.size` is 0; it takes an integer, at least 1"),
        ({"name": "n", "inner": {"size": 1, "words": {"a": 1}}}, "it takes a table of strings"),
        ({"name": "n", "inner": 3}, "`step.a.inner` is 3; it takes a table"),
        ({"name": "n", "parts": [{"size": 1}, {"size": 0}]}, "`step.a.parts.2.size` is 0; it takes an integer"),
        ({"name": "n", "parts": {"size": 1}}, "`step.a.parts` is {'size': 1}; it takes a list of tables"),
        ([1], "`step.a` is [1]; it takes a table"),
    ],
)
def test_a_table_s_mistake_names_its_place(table: Any, message: str) -> None:
    with pytest.raises(ThinkbackError) as caught:
        from_table(Kinds, table, "step.a")
    assert message in str(caught.value)


def test_values_are_quoted_in_a_hundred_characters() -> None:
    with pytest.raises(ThinkbackError) as caught:
        Kinds(name=list(range(30_000)))
    assert len(str(caught.value)) < 150
    with pytest.raises(ThinkbackError) as caught:
        from_table(Kinds, {"x" * 5_000: 1})
    assert len(str(caught.value)) < 500


@dataclass(frozen=True)
class Pair:
    """Two settings that go together."""

    low: int = setting(0)
    high: int = setting(1)

    def __post_init__(self) -> None:
        check(self)
        if self.low > self.high:
            raise ThinkbackError("`low` is above `high`")


def test_what_a_class_checks_besides_names_the_place_of_its_table() -> None:
    with refuses("error", "`low`", "`high`"):
        Pair(2, 1)
    with refuses("error", "`low`", "`high`"):
        from_table(Pair, {"low": 2})
    with refuses("error", "`range`", "`low`", "`high`"):
        from_table(Pair, {"low": 2}, "range")


def test_settings_flattened_are_json_under_dotted_names() -> None:
    made = Kinds(name="n", listed=["a"], inner=Inner(2, {"k": "v"}), options={"left": "out"})
    flat = flatten(made)
    assert flat["listed"] == ["a"]
    assert (flat["inner.size"], flat["inner.words.k"]) == (2, "v")
    assert not any(name.startswith("options") for name in flat)
    assert flatten({"steps": (Named("x"), Named("y"))}) == {"steps.x.name": "x", "steps.y.name": "y"}


@dataclass(frozen=True)
class Named(Checked):
    """A table of a list."""

    name: str = setting()
