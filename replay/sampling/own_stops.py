"""A user's own stopping rules: read from a Python file or given as classes, and held to what they declare.

A rule is a frozen dataclass with a method `holds(self, seen)`. `reads = ("votes", "scores")` says what it reads; one
with `needs_scores = True` reads scores; one that declares nothing may read votes, and its policy verifies only if
something else needs it.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from replay.sampling.known import STOPS
from replay.sampling.prefix import SCORES, VOTES, Prefix
from replay.sampling.stops import StopRule, names_read
from toolkit.errors import ThinkbackError, nearest, own_code, require_known, shown
from toolkit.settings import from_table

SHAPE = "a stopping rule is a frozen dataclass with a method `holds(self, seen)`"
TABLE = 'a table such as { rule = "margin", margin = 0.15 }'


@dataclass(frozen=True)
class OwnStop(StopRule):
    """A user's rule in the form of the built-in ones."""

    rule: Any

    def __post_init__(self) -> None:
        _ = self.reads  # refused at once where it is none

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its class."""
        return type(self.rule).__name__

    @property
    def declared(self) -> frozenset[str] | None:
        """What it says that it reads; None where it does not say."""
        said = getattr(self.rule, "reads", None)
        return None if said is None else names_read(said, self.name)

    @property
    def reads(self) -> frozenset[str]:
        """What it declares; else votes, and scores if it needs them."""
        scores = frozenset({SCORES}) if getattr(self.rule, "needs_scores", False) else frozenset()
        return scores | (frozenset({VOTES}) if self.declared is None else self.declared)

    def record(self) -> dict[str, Any]:
        """The rule with its parameters."""
        return {"rule": self.name} | {field.name: getattr(self.rule, field.name) for field in fields(self.rule)}

    def shown(self, seen: Prefix) -> Any:
        """What it declares; everything where it declares nothing."""
        return seen if self.declared is None else super().shown(seen)

    def holds(self, seen: Prefix) -> np.ndarray:
        """What the rule says."""
        return np.asarray(self.rule.holds(seen))


def stop_rule(given: Any) -> StopRule:
    """A stop as a policy holds it: a built-in rule as it is, its name, its table, or a user's own rule."""
    if isinstance(given, StopRule):
        return given
    if isinstance(given, str | Mapping):
        return stop_from(given, {})
    if is_own_rule(type(given)):
        return OwnStop(given)
    if isinstance(given, type):
        raise ThinkbackError(f"`stop` is the class `{given.__name__}`; it takes a rule: `{given.__name__}(…)`")
    raise ThinkbackError(f"`stop` is {shown(given)}; it takes {TABLE}, or a rule of your own: {SHAPE}")


def stop_from(table: object, own: Mapping[str, type]) -> StopRule:
    """A rule from its table in a policy file, or from its name; `own` are the user's rules by class name."""
    table = {"rule": table} if isinstance(table, str) else table
    if not isinstance(table, Mapping):
        raise ThinkbackError(f"`stop` takes {TABLE}, not {shown(table)}")
    if "rule" not in table:
        for key in (key for key in table if nearest(str(key), ["rule"])):
            raise ThinkbackError(f"unknown key `{key}` of `stop`; did you mean `rule`? It takes {TABLE}")
        raise ThinkbackError(f"`stop` has no `rule`; it takes {TABLE}")
    if not isinstance(table["rule"], str):
        raise ThinkbackError(f"`stop.rule` is {shown(table['rule'])}; it takes the name of a rule, as in {TABLE}")
    name = str(table["rule"])
    known: dict[str, type] = {**STOPS, **own}
    require_known(name, known, f"unknown stopping rule `{name}`")
    values = {key: value for key, value in table.items() if key != "rule"}
    with own_code(f"stopping rule `{name}`"):
        return stop_rule(from_table(known[name], values, "stop"))


def own_rules(rules: str | Path | Iterable[type] | None) -> dict[str, type]:
    """A user's stopping rules by class name, from a Python file or as classes.

    Raises ThinkbackError where there is none, or the file does not load.
    """
    if rules is None:
        return {}
    if not isinstance(rules, str | Path):
        own = list(rules)
        for rule in own:
            if not is_own_rule(rule):
                raise ThinkbackError(f"{shown(rule)} is not a stopping rule: {SHAPE}")
        return {rule.__name__: rule for rule in own}
    path = Path(rules)
    if not path.is_file():
        raise ThinkbackError(f"no file of stopping rules at {path}")
    spec = importlib.util.spec_from_file_location(f"thinkback_rules_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ThinkbackError(f"{path} is not a Python file; stopping rules live in a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    with own_code(str(path), "does not load"):
        spec.loader.exec_module(module)
    mine = [item for _, item in inspect.getmembers(module, inspect.isclass) if item.__module__ == module.__name__]
    found = {item.__name__: cast(type, item) for item in mine if is_own_rule(item)}
    almost = next((item.__name__ for item in mine if hasattr(item, "holds") and item.__name__ not in found), None)
    if almost or not found:
        what = f"`{almost}` is not a frozen dataclass" if almost else "it has no stopping rule"
        raise ThinkbackError(f"{path}: {what}: {SHAPE}")
    return found


def is_own_rule(item: object) -> bool:
    """Whether it is a frozen dataclass with a method `holds`."""
    frozen = getattr(getattr(item, "__dataclass_params__", None), "frozen", False)
    return inspect.isclass(item) and is_dataclass(item) and bool(frozen) and hasattr(item, "holds")
