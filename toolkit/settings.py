"""Frozen dataclasses of settings, from TOML tables or keyword arguments, with strict keys, types and bounds; each
mistake is an error of one line.

A settings class marks its fields with `setting` and calls `check` from `__post_init__`, which `Checked` does for it. It
is then strict however it is made: from a TOML table by `from_table`, or in Python, where numpy's numbers and lists for
tuples are welcome. A field may itself be of a settings class, or a tuple of them.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Set
from contextvars import ContextVar
from numbers import Integral, Real
from typing import Any, Literal, TypeVar

import numpy as np

from toolkit.errors import InvalidError, RequiredError, ThinkbackError, UnknownError, argument, listed, quote, suggest

Instance = TypeVar("Instance")

_read: ContextVar[tuple[type | None, Mapping[str, Any]]] = ContextVar("read", default=(None, {}))
"""The class that `from_table` is building, and its values as the fields will hold them."""

NAMES: Mapping[Any, str] = {
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of strings",
    tuple[int, ...]: "a list of integers",
    tuple[float, ...]: "a list of numbers",
    Mapping[str, Any]: "a table",
    Mapping[str, str]: "a table of strings",
}
"""The types of fields, with their names in messages."""


MOST = 2**31 - 1
"""The largest integer of a field that has only a lower bound, because such a field counts something."""


def setting(
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Iterable[str] = (),
    what: str = "",
    read: Callable[[Any, str], Any] | None = None,
    identity: bool = True,
    key: bool = True,
) -> Any:
    """Declares a field of a settings class: its default, its bounds or choices, or a function (value, place) that reads
    it.

    A mapping as `choices` is asked when a value is checked, so that what is added to it later is known. `low` and
    `high` are allowed themselves, `above` and `below` are not. `what` says in words what the field takes, where its
    kind and bounds do not. `identity=False` marks what may change between two runs of one log, since it does not change
    what is written; `key=False` what no table gives.
    """
    known = choices if isinstance(choices, Mapping) else tuple(choices)
    marks = {
        "low": low, "high": high, "above": above, "below": below, "choices": known, "what": what,
        "read": read, "identity": identity, "key": key,
    }  # fmt: skip
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=marks)
    return dataclasses.field(default=default, metadata=marks)


def from_table(cls: type[Instance], table: Any, place: str = "") -> Instance:
    """Makes an instance of a settings class from a TOML table.

    `place` names the table in errors, as `sample.n15`; without it they name the key alone. A field whose name ends in
    `_` stands for the key without it, such as `else`. Fields that do not compare are results, which no table gives.
    What the class itself finds wrong, of several settings together, is said with the place in front.
    """
    if not isinstance(table, Mapping):
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a table")
    every = dataclasses.fields(cls)  # type: ignore[arg-type]
    given = [field for field in every if field.init and field.compare and field.metadata.get("key", True)]
    fields = {field.name.rstrip("_"): field for field in given}
    for key in table:
        if key not in fields:
            where = f" in `[{place}]`" if place else ""
            raise UnknownError(f"unknown key {_quoted_key(key)}{where}; {suggest(str(key), fields)}")
    for key, field in fields.items():
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if missing and key not in table:
            raise RequiredError(f"`{_dotted_name(place, key)}` is required")
    read = {fields[key].name: converted(cls, fields[key].name, table[key], _dotted_name(place, key)) for key in table}
    before = _read.set((cls, read))
    try:
        return cls(**read)
    except ThinkbackError as error:
        if not place:
            raise
        raise error.with_subject(f"`{place}`: ") from None
    finally:
        _read.reset(before)


class Checked:
    """A base for settings classes that need no checks beyond those of their fields."""

    def __post_init__(self) -> None:
        check(self)


def check(instance: Any) -> None:
    """Checks every field declared by `setting`, and sets its plain value. Call it from `__post_init__`.

    What `from_table` has read of this class is in place, and is not checked again.
    """
    cls: Any = type(instance)
    of, read = _read.get()
    for name in _checked_fields(cls):
        value = getattr(instance, name)
        if of is not cls or read.get(name, read) is not value:
            object.__setattr__(instance, name, converted(cls, name, value))


def converted(cls: type, name: str, given: Any, place: str = "") -> Any:
    """A value as field `name` of a settings class holds it. Raises ThinkbackError where it is of another kind.

    `place` names it in errors; without it, it is an argument.
    """
    place, label = place or name.rstrip("_"), f"`{place}`" if place else argument(name.rstrip("_"))
    marks, kind, optional, item = _field_facts(cls, name)
    if marks.get("read") is not None:
        return marks["read"](given, place)
    if "low" not in marks:  # a field that `setting` did not make, of a class that checks itself
        return given
    if given is None and optional:
        return None
    if item is not None:
        return _read_tables(item, given, place) if _is_list(kind) else _read_table(item, given, place)
    known = tuple(marks["choices"]) or (typing.get_args(kind) if typing.get_origin(kind) is Literal else ())
    value = as_kind(str if known and not _is_list(kind) else kind, given)
    if known and not _is_list(kind) and value is None:
        raise InvalidError(f"{label} is {quote(given)}; it takes one of {listed(known)}")
    if value is None or not _within_bounds(value, marks):
        raise InvalidError(f"{label} is {quote(given)}; it takes {_accepted_values_text(kind, marks)}")
    counts = marks["low"] is not None and marks["high"] is None and marks["below"] is None
    for item in value if isinstance(value, tuple) else (value,):
        if counts and isinstance(item, int) and item > MOST:
            raise InvalidError(f"{label} is {quote(item)}; it takes an integer of at most {MOST:,}")
        if known and item not in known:
            raise UnknownError(f"{label} is {quote(item)}; {suggest(str(item), known)}")
    return value


def flatten(value: Any, place: str = "") -> dict[str, Any]:
    """The settings that determine what is written, as dotted names with JSON values. Tables in a list go by their pool
    or name.
    """
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value) if field.metadata.get("identity", True)]
        items: Iterable[tuple[str, Any]] = [(name, getattr(value, name)) for name in names]
    elif isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, tuple) and any(dataclasses.is_dataclass(item) for item in value):
        items = [(getattr(item, "pool", None) or item.name, item) for item in value]
    else:
        return {place: list(value) if isinstance(value, tuple) else value}
    flat: dict[str, Any] = {}
    for name, item in items:
        flat |= flatten(item, f"{place}.{name}" if place else str(name))
    return flat


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types in a union, or a hint's single type."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def as_kind(kind: Any, value: Any) -> Any:
    """A value converted to the type of a field (an integer also counts as a number); None where it does not fit."""
    if isinstance(value, np.ndarray) and value.ndim == 0:  # one number, as numpy's reductions may give it
        value = value[()]
    if isinstance(value, bool | np.bool_):
        return bool(value) if kind is bool else None
    if kind is int:
        return int(value) if isinstance(value, Integral) else None
    if kind is float:
        return _as_float(value) if isinstance(value, Real) else None
    if kind in (str, bool):
        return str(value) if kind is str and isinstance(value, str) else None
    if _is_list(kind):
        return _typed_tuple(typing.get_args(kind)[0], value)
    if isinstance(value, Mapping) and (kind != Mapping[str, str] or all(isinstance(v, str) for v in value.values())):
        return dict(value)
    return None


def is_sequence(value: object) -> bool:
    """Whether a value is a sequence such as a list, an array or a series. Texts and tables are not."""
    single = isinstance(value, np.ndarray) and value.ndim == 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) and not single


BOUNDS: Mapping[str, tuple[str, Callable[[float, float], bool]]] = {
    "low": ("at least", operator.ge), "above": ("above", operator.gt), "high": ("at most", operator.le),
    "below": ("below", operator.lt),
}  # fmt: skip
"""The bounds that a field may have: in words, and what holds for a number within it."""


def _accepted_values_text(kind: Any, marks: Mapping[str, Any]) -> str:
    """The words for what a field accepts: its kind and its bounds."""
    if marks["what"]:
        return str(marks["what"])
    name, bounds = (
        NAMES.get(kind, NAMES[str]),
        {key: _bound_text(marks[key]) for key in BOUNDS if marks[key] is not None},
    )
    match list(bounds):
        case ["low", "high"]:
            return f"{name} from {bounds['low']} to {bounds['high']}"
        case ["above", "below"]:
            return f"{name} between {bounds['above']} and {bounds['below']}"
    text = " and ".join(f"{BOUNDS[key][0]} {bound}" for key, bound in bounds.items())
    return f"{name}{', ' if text.startswith('at') else ' ' if text else ''}{text}"


def _bound_text(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() else f"{bound:g}"


def _is_list(kind: Any) -> bool:
    return typing.get_origin(kind) is tuple


def _read_table(cls: Any, value: Any, place: str) -> Any:
    return value if isinstance(value, cls) else from_table(cls, value, place)


def _read_tables(cls: Any, value: Any, place: str) -> tuple[Any, ...]:
    if not is_sequence(value):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a list of tables")
    return tuple(_read_table(cls, one, f"{place}.{number}") for number, one in enumerate(value, start=1))


def _as_float(value: Real) -> float | None:
    """The number as a float; None for NaN, and where it is too large."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return None if math.isnan(number) else number


def _typed_tuple(item: Any, values: Any) -> tuple[Any, ...] | None:
    """The sequence as a tuple of items of one type; None for other values, such as sets, which have no order."""
    if not is_sequence(values) or isinstance(values, Set):
        return None
    values = tuple(values)
    if item in (str, int) and set(map(type, values)) <= {item}:  # a million hashes of questions
        return values
    items = tuple(as_kind(item, value) for value in values)
    return None if any(one is None for one in items) else items


def _within_bounds(value: Any, marks: Mapping[str, Any]) -> bool:
    bounds = [(holds, marks[key]) for key, (_, holds) in BOUNDS.items() if marks[key] is not None]
    numbers = [one for one in (value if isinstance(value, tuple) else (value,)) if isinstance(one, int | float)]
    return all(abs(number) != math.inf and holds(number, bound) for number in numbers for holds, bound in bounds)


@functools.cache
def _checked_fields(cls: type) -> tuple[str, ...]:
    """The names of the fields declared by `setting`, without those whose `read` function has read them from a table."""
    marked = ((field.name, field.metadata) for field in dataclasses.fields(cls))
    return tuple(name for name, marks in marked if "read" in marks and marks["read"] is None)


@functools.cache
def _field_facts(cls: type, name: str) -> tuple[Mapping[str, Any], Any, bool, Any]:
    """What is declared of a field: its marks, its kind, whether it may be None, and its settings class, if any."""
    marks = next(field.metadata for field in dataclasses.fields(cls) if field.name == name)
    if "low" not in marks or marks["read"] is not None:
        return marks, None, False, None
    kinds = kinds_of(_field_types(cls)[name])
    kind = next(kind for kind in kinds if kind is not type(None))
    item = typing.get_args(kind)[0] if _is_list(kind) else kind
    return marks, kind, type(None) in kinds, item if dataclasses.is_dataclass(item) else None


@functools.cache
def _field_types(cls: type) -> Mapping[str, Any]:
    return typing.get_type_hints(cls)


def _dotted_name(place: str, key: str) -> str:
    return f"{place}.{key}" if place else key


def _quoted_key(key: Any) -> str:
    plain = isinstance(key, str) and key.isprintable() and len(key) <= 100
    return f"`{key}`" if plain else quote(key)
