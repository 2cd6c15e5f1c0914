"""TOML tables into frozen dataclasses: strict keys, kinds and bounds, each mistake one line that names its place.

Here too: how a recipe's file is parsed, and where the paths that it names are found.
"""

from __future__ import annotations

import dataclasses
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from toolkit.errors import ThinkbackError, suggest

Made = TypeVar("Made")

_NAMES = {
    str: "text in quotes",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple[str, ...]: "a list of texts in quotes",
    tuple[int, ...]: "a list of whole numbers",
    Mapping[str, Any]: "a table",
    Mapping[str, str]: "a table of texts in quotes",
}


def setting(
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Iterable[str] = (),
    read: Callable[[Any, str], Any] | None = None,
    identity: bool = True,
) -> Any:
    """A field of a settings class: its default, its bounds or choices, or a function (value, place) that reads it.

    `identity=False` marks what may change between two runs of one log, for it does not change what is written.
    """
    marks = {"low": low, "high": high, "choices": tuple(choices), "read": read, "identity": identity}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=marks)
    return dataclasses.field(default=default, metadata=marks)


def from_table(cls: type[Made], table: Any, place: str) -> Made:
    """An instance of a settings class from a TOML table. `place` names the table in errors, as `sample.n15`."""
    if not isinstance(table, Mapping):
        raise ThinkbackError(f"`{place}` must be a table")
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for key in table:
        if key not in fields:
            raise ThinkbackError(f"unknown key `{key}` in `[{place}]`; {suggest(key, fields)}")
    values = {}
    for name, field in fields.items():
        if name in table:
            values[name] = _value(field, hints[name], table[name], f"{place}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ThinkbackError(f"`{place}.{name}` is missing")
    return cls(**values)


def flatten(value: Any, place: str = "") -> dict[str, Any]:
    """The settings that make a log what it is, as dotted names and JSON values; listed tables by their pool or name."""
    if dataclasses.is_dataclass(value):
        kept = [field.name for field in dataclasses.fields(value) if field.metadata.get("identity", True)]
        items: Iterable[tuple[str, Any]] = [(name, getattr(value, name)) for name in kept]
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


def _value(field: dataclasses.Field[Any], hint: Any, given: Any, place: str) -> Any:
    marks = field.metadata
    if marks.get("read") is not None:
        return marks["read"](given, place)
    made = of_kind(hint, given, place)
    if marks["choices"]:
        for item in made if isinstance(made, tuple) else (made,):
            if item not in marks["choices"]:
                raise ThinkbackError(f"`{place}` can't be `{item}`; {suggest(item, marks['choices'])}")
    check_bounds(made, place, marks["low"], marks["high"])
    return made


def of_kind(hint: Any, given: Any, place: str) -> Any:
    """A TOML value in the kind that a field's type says (a whole number may stand for a number); or ThinkbackError."""
    kind = _plain(hint)
    made = _convert(kind, given)
    if made is None:
        raise ThinkbackError(f"`{place}` must be {_NAMES[kind]}, not {given!r}")
    return made


def check_bounds(number: Any, place: str, low: float | None, high: float | None) -> None:
    """ThinkbackError where a number is outside its bounds."""
    if low is not None and number < low:
        raise ThinkbackError(f"`{place}` must be at least {low}, not {number}")
    if high is not None and number > high:
        raise ThinkbackError(f"`{place}` must be at most {high}, not {number}")


def _plain(hint: Any) -> Any:
    """`X` for `X | None`."""
    if isinstance(hint, types.UnionType):
        return next(part for part in typing.get_args(hint) if part is not type(None))
    return hint


def _convert(kind: Any, given: Any) -> Any:
    """The value in the field's kind; None where it is of another."""
    if kind is bool or isinstance(given, bool):
        return given if kind is bool and isinstance(given, bool) else None
    if kind is float:
        return float(given) if isinstance(given, int | float) else None
    if kind in (str, int):
        return given if isinstance(given, kind) else None
    if kind in (tuple[str, ...], tuple[int, ...]):
        item = typing.get_args(kind)[0]
        right = isinstance(given, list) and all(isinstance(i, item) and not isinstance(i, bool) for i in given)
        return tuple(given) if right else None
    if not isinstance(given, Mapping):
        return None
    if kind == Mapping[str, str] and not all(isinstance(item, str) for item in given.values()):
        return None
    return dict(given)


def parse_toml(path: Path) -> dict[str, Any]:
    """The tables of a recipe's file. ThinkbackError where it can't be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThinkbackError(f"recipe `{path.name}` is no TOML: {error}") from None
    except OSError as error:
        raise ThinkbackError(f"recipe `{path.name}` can't be read: {error.strerror}") from None


def find_beside(folder: Path, path: str) -> Path:
    """A path of a recipe in `folder`: beside it where that exists, else as it stands, in the working directory."""
    beside = folder / path
    return beside if beside.exists() else Path(path)


def model_beside(folder: Path, model: str) -> str:
    """A model's folder, found like any path of a recipe in `folder`, or the model's name as it stands."""
    found = find_beside(folder, model)
    return str(found) if found.is_dir() else model
