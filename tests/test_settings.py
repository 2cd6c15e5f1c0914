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


BAD: list[tuple[str, Any, tuple[str, ...]]] = [
    ("name", 3, ("invalid", "`name`", "3")),
    ("name", None, ("invalid", "`name`")),
    ("count", 0, ("invalid", "`count`", "0", "1", "9")),
    ("count", 2.0, ("invalid", "`count`", "2.0", "1", "9")),
    ("count", True, ("invalid", "`count`", "1", "9")),
    ("limit", 0, ("invalid", "`limit`", "0", "1")),
    ("limit", 2**31, ("invalid", "`limit`", "2147483648", "2,147,483,647")),
    ("limit", 10**400, ("invalid", "2,147,483,647")),
    ("share", 1, ("invalid", "`share`", "1", "0")),
    ("share", math.nan, ("invalid", "`share`", "0", "1")),
    ("rate", "1", ("invalid", "`rate`", "'1'", "0")),
    ("rate", math.inf, ("invalid", "`rate`", "0")),
    ("rate", 10**400, ("invalid", "0")),
    ("rate", 16**5000, ("invalid", "`rate`", "0")),
    ("flag", 1, ("invalid", "`flag`", "1")),
    ("flag", {"a": 1}, ("invalid", "`flag`")),
    ("colour", "geen", ("unknown", "`colour`", "`green`", "`red`", "'geen'")),
    ("colour", ["red"], ("invalid", "`colour`", "`red`", "`green`", "'red'")),
    ("mode", "laz", ("unknown", "`mode`", "`lazy`", "'laz'")),
    ("some", ["red", "gren"], ("unknown", "`some`", "`green`", "'gren'")),
    ("listed", "ab", ("invalid", "`listed`", "'ab'")),
    ("listed", {"a", "b"}, ("invalid", "`listed`")),
    ("whole", [1, -1], ("invalid", "`whole`", "0")),
    ("heats", [6], ("invalid", "`heats`", "0", "5", "[6]")),
    ("options", [1], ("invalid", "`options`", "[1]")),
]


@pytest.mark.parametrize(("name", "given", "refusal"), BAD, ids=range(len(BAD)))
def test_a_mistake_is_one_line_with_the_value(name: str, given: Any, refusal: tuple[str, ...]) -> None:
    for make in (lambda: Kinds(**{"name": "n", name: given}), lambda: from_table(Kinds, {"name": "n", name: given})):
        with refuses(*refusal):
            make()


@pytest.mark.parametrize(
    ("table", "refusal"),
    [
        ({"nam": "n"}, ("unknown", "`nam`", "`[step.a]`", "`name`")),
        ({"name\n": "n"}, ("unknown", "`[step.a]`", "'name\\n'")),
        ({}, ("required", "`step.a.name`")),
        ({"name": "n", "count": "3"}, ("invalid", "`step.a.count`", "'3'", "1", "9")),
        ({"name": "n", "even": 3}, ("error", "`step.a.even`")),
        ({"name": "n", "inner": {}}, ("required", "`step.a.inner.size`")),
        ({"name": "n", "inner": {"size": 0}}, ("invalid", "`step.a.inner.size`", "0", "1")),
        ({"name": "n", "inner": {"size": 1, "words": {"a": 1}}}, ("invalid", "`step.a.inner.words`")),
        ({"name": "n", "inner": 3}, ("invalid", "`step.a.inner`", "3")),
        ({"name": "n", "parts": [{"size": 1}, {"size": 0}]}, ("invalid", "`step.a.parts.2.size`", "0")),
        ({"name": "n", "parts": {"size": 1}}, ("invalid", "`step.a.parts`", "'size'", "1")),
        ([1], ("invalid", "`step.a`", "[1]")),
    ],
)
def test_a_table_s_mistake_names_its_place(table: Any, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        from_table(Kinds, table, "step.a")


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
