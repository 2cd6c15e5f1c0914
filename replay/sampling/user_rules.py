"""A user's own stopping rules and selects: read from a Python file or given as classes, their fields checked.

A stopping rule is a frozen dataclass with a method `holds(self, seen)`; a select is one with a method
`chooses(self, seen)` or `takes(self, seen)`. In this form a rule is shipped, too.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
import types
import typing
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any, cast

from toolkit.errors import FormatError, InvalidError, NotFoundError, RuleError, errors_begin, listed, quote, user_code
from toolkit.settings import NAMES, converted, of_kind

GivenRules = str | Path | type | Iterable[type] | None
"""Types that a function takes for a user's rules."""
STOP_SHAPE = "a stopping rule is a frozen dataclass with a method `holds(self, seen)`"
SELECT_SHAPE = "a select is a frozen dataclass with a method `chooses(self, seen)` or `takes(self, seen)`"
STOP_METHODS, SELECT_METHODS = ("holds",), ("chooses", "takes")


def user_rules(rules: GivenRules) -> dict[str, type]:
    """A user's stopping rules and selects by class name, from a Python file or as classes.

    Raises ThinkbackError where there is none, or the file does not load.
    """
    if rules is None:
        return {}
    if not isinstance(rules, str | Path):
        classes = [rules] if isinstance(rules, type) else list(rules)
        for rule in classes:
            if not _is_rule(rule):
                raise InvalidError(f"{quote(rule)} is not a stopping rule or select: {STOP_SHAPE}; {SELECT_SHAPE}")
        return {rule.__name__: rule for rule in classes}
    path = Path(rules)
    if not path.is_file():
        raise NotFoundError(f"no file of stopping rules or selects at {path}")
    spec = importlib.util.spec_from_file_location(f"thinkback_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise FormatError(f"{path} is not a Python file; write rules into a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a folder that is read stays as it was
    try:
        with user_code(str(path), "does not load"):
            spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    mine = [item for _, item in inspect.getmembers(module, inspect.isclass) if item.__module__ == module.__name__]
    by_name = {item.__name__: cast(type, item) for item in mine if _is_rule(item)}
    for item in mine:
        if item.__name__ not in by_name and any(hasattr(item, name) for name in (*STOP_METHODS, *SELECT_METHODS)):
            shape = STOP_SHAPE if hasattr(item, STOP_METHODS[0]) else SELECT_SHAPE
            raise RuleError(f"{path}: `{item.__name__}` is not a frozen dataclass: {shape}")
    if not by_name:
        raise RuleError(f"{path} has no stopping rule and no select: {STOP_SHAPE}; {SELECT_SHAPE}")
    return by_name


def has_method(item: object, names: Iterable[str]) -> bool:
    """Whether an item is a frozen dataclass with one of these methods."""
    frozen = getattr(getattr(item, "__dataclass_params__", None), "frozen", False)
    methods = any(callable(getattr(item, name, None)) for name in names)
    return inspect.isclass(item) and is_dataclass(item) and bool(frozen) and methods


def checked_fields(rule: Any, what: str) -> Any:
    """A user's rule with each parameter converted to its type; messages call the rule `what`.

    Numpy's numbers and lists for tuples are welcome. Raises ThinkbackError where a parameter is of another type.
    """
    with errors_begin(f"{what}: "):
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


def _is_rule(item: object) -> bool:
    return has_method(item, (*STOP_METHODS, *SELECT_METHODS))


_OTHER: Any = object()
"""A value of another type than its field's."""


def _typed_fields(cls: type) -> list[tuple[Any, Any]]:
    """The parameters of a rule with their types; empty where the types cannot be resolved."""
    try:
        hints = typing.get_type_hints(cls)
    except Exception:  # a name that exists for type checkers alone
        return []
    return [(field, hints[field.name]) for field in fields(cls) if field.init]


def _union_types(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the one type."""
    union = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    return typing.get_args(hint) if union else (hint,)


def _value_of_hint(hint: Any, given: Any) -> Any:
    """A value as its type says; `_OTHER` if it is of another type; unchanged if the type is not in the table."""
    parts = _union_types(hint)
    if any(typing.get_origin(part) is not typing.Literal and part not in (*NAMES, type(None)) for part in parts):
        return given
    if given is None:
        return None if type(None) in parts else _OTHER
    for part in parts:
        if typing.get_origin(part) is typing.Literal:
            if any(type(given) is type(one) and given == one for one in typing.get_args(part)):
                return given
        elif part is not type(None) and (value := of_kind(part, given)) is not None:
            return value
    return _OTHER


def _types_text(hint: Any) -> str:
    """The types of a parameter, in words."""
    words = []
    for part in _union_types(hint):
        if typing.get_origin(part) is typing.Literal:
            words.append(f"one of {listed([str(one) for one in typing.get_args(part)])}")
        else:
            words.append("nothing" if part is type(None) else NAMES[part])
    return " or ".join(words)
