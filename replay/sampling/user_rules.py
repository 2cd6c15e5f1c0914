"""A user's own stopping rules and selects: read from a Python file or given as classes, their fields checked.

A stopping rule is a frozen dataclass with a method `holds(self, seen)`; a select is one with a method
`chooses(self, seen)` or `takes(self, seen)`. In this form a rule is shipped, too.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from pathlib import Path
from typing import cast

from toolkit.errors import InvalidError, RuleError, quote
from toolkit.user_files import has_method, load_file

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
    module = load_file(path, "stopping rules or selects")
    mine = [item for _, item in inspect.getmembers(module, inspect.isclass) if item.__module__ == module.__name__]
    by_name = {item.__name__: cast(type, item) for item in mine if _is_rule(item)}
    for item in mine:
        if item.__name__ not in by_name and any(hasattr(item, name) for name in (*STOP_METHODS, *SELECT_METHODS)):
            shape = STOP_SHAPE if hasattr(item, STOP_METHODS[0]) else SELECT_SHAPE
            raise RuleError(f"{path}: `{item.__name__}` is not a frozen dataclass: {shape}")
    if not by_name:
        raise RuleError(f"{path} has no stopping rule and no select: {STOP_SHAPE}; {SELECT_SHAPE}")
    return by_name


def _is_rule(item: object) -> bool:
    return has_method(item, (*STOP_METHODS, *SELECT_METHODS))
