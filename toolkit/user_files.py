"""Python files of a user's: a frozen dataclass of theirs, read from a file by its name, with its fields checked."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.errors import FormatError, InvalidError, NotFoundError, error_prefix, listed, quote, user_code
from toolkit.settings import NAMES, as_kind, converted


def load_file(path: Path, what: str) -> types.ModuleType:
    """The module of a user's file, in which errors look for `what`.

    Raises ThinkbackError where there is no such file, or it does not load.
    """
    if not path.is_file():
        raise NotFoundError(f"no file of {what} at {path}")
    spec = importlib.util.spec_from_file_location(f"thinkback_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FormatError(f"{path} is not a Python file; write {what.partition(' ')[0]} into a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a folder that is read stays as it was
    try:
        with user_code(str(path), "does not load"):
            spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


def has_method(item: object, names: Iterable[str]) -> bool:
    """Whether an item is a frozen dataclass with one of these methods."""
    frozen = getattr(getattr(item, "__dataclass_params__", None), "frozen", False)
    methods = any(callable(getattr(item, name, None)) for name in names)
    return inspect.isclass(item) and is_dataclass(item) and bool(frozen) and methods


def convert_parameters(rule: Any, what: str) -> Any:
    """A user's rule with each parameter converted to its type; messages call the rule `what`.

    Numpy's numbers and lists for tuples are welcome. Raises ThinkbackError where a parameter is of another type.
    """
    with error_prefix(f"{what}: "):
        changed = {}
        for field, hint in _typed_fields(type(rule)):
            stored = getattr(rule, field.name)
            value = (
                converted(type(rule), field.name, stored) if "low" in field.metadata else _value_of_hint(hint, stored)
            )
            if value is _OTHER:
                raise InvalidError(f"`{field.name}` is {quote(stored)}; it takes {_types_text(hint)}")
            if type(value) is not type(stored):
                changed[field.name] = value
        with user_code(what):
            return replace(rule, **changed) if changed else rule


_OTHER: Any = object()
"""A value of another type than its field's."""


def _typed_fields(cls: type) -> list[tuple[Any, Any]]:
    """The parameters of a rule with their types; empty where the types cannot be resolved."""
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # a name that exists for type checkers alone
        return []
    return [(field, hints[field.name]) for field in fields(cls) if field.init]


def _kinds_of_hint(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def _value_of_hint(hint: Any, given: Any) -> Any:
    """A value as its type says; `_OTHER` if it is of another type; unchanged if the type is not in the table."""
    parts = _kinds_of_hint(hint)
    if any(typing.get_origin(part) is not typing.Literal and part not in (*NAMES, type(None)) for part in parts):
        return given
    if given is None:
        return None if type(None) in parts else _OTHER
    for part in parts:
        if typing.get_origin(part) is typing.Literal:
            if any(type(given) is type(one) and given == one for one in typing.get_args(part)):
                return given
        elif part is not type(None) and (value := as_kind(part, given)) is not None:
            return value
    return _OTHER


def _types_text(hint: Any) -> str:
    words = []
    for part in _kinds_of_hint(hint):
        if typing.get_origin(part) is typing.Literal:
            words.append(f"one of {listed([str(one) for one in typing.get_args(part)])}")
        else:
            words.append("nothing" if part is type(None) else NAMES[part])
    return " or ".join(words)
