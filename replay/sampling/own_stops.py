"""Stops as policies hold them: the built-in ones by name or table, and a user's own, held to what they declare.

A user's rule is a frozen dataclass with a method `holds(self, seen)`. `reads = ("votes", "scores")` says what it reads;
one with `needs_scores = True` reads scores; one that declares nothing may read votes, and its policy verifies only if
something else needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from replay.sampling.declared import DeclaredPrefix, names_read
from replay.sampling.known import STOPS
from replay.sampling.own_rules import STOP_METHODS, STOP_SHAPE, checked_fields, has_method
from replay.sampling.prefix import SCORES, VOTES, Prefix
from replay.sampling.stops import StopRule
from toolkit.errors import ThinkbackError, nearest, own_code, require_known, shown
from toolkit.settings import from_table

TABLE = 'a table such as { rule = "margin", margin = 0.15 }'


@dataclass(frozen=True)
class OwnStop(StopRule):
    """A user's rule in the form of the built-in ones."""

    rule: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", checked_fields(self.rule, self.told))
        _ = self.reads  # refused at once where it is none

    @property
    def name(self) -> str:  # type: ignore[override]
        """The name of its class."""
        return type(self.rule).__name__

    @property
    def told(self) -> str:
        """What messages call it."""
        return f"stopping rule `{self.name}`"

    @property
    def declared(self) -> frozenset[str] | None:
        """What it says that it reads; None where it does not say."""
        with own_code(self.told):
            said = getattr(self.rule, "reads", None)
        return None if said is None else names_read(said, self.told)

    @property
    def reads(self) -> frozenset[str]:
        """What it declares; else votes, and scores if it needs them."""
        scores = frozenset({SCORES}) if getattr(self.rule, "needs_scores", False) else frozenset()
        return scores | (frozenset({VOTES}) if self.declared is None else self.declared)

    def record(self) -> dict[str, Any]:
        """The rule with its parameters."""
        return {"rule": self.name} | {field.name: getattr(self.rule, field.name) for field in fields(self.rule)}

    def shown(self, seen: Prefix) -> Any:
        """What it declares; votes and scores where it declares nothing."""
        reads = frozenset({VOTES, SCORES}) if self.declared is None else self.reads
        return DeclaredPrefix(seen, reads, self.told)

    def holds(self, seen: Prefix) -> np.ndarray:
        """What the rule says."""
        return np.asarray(self.rule.holds(seen))


def stop_rule(given: Any) -> StopRule:
    """A stop as a policy holds it: a built-in rule as it is, its name, its table, or a user's own rule."""
    if isinstance(given, StopRule):
        return given
    if isinstance(given, str | Mapping):
        return stop_from(given, {})
    if has_method(type(given), STOP_METHODS):
        return OwnStop(given)
    if isinstance(given, type):
        raise ThinkbackError(f"`stop` is the class `{given.__name__}`; it takes a rule: `{given.__name__}(…)`")
    raise ThinkbackError(f"`stop` is {shown(given)}; it takes {TABLE}, or a rule of your own: {STOP_SHAPE}")


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
    mine = {key: rule for key, rule in own.items() if has_method(rule, STOP_METHODS)}
    known: dict[str, type] = {**STOPS, **mine}
    require_known(name, known, f"unknown stopping rule `{name}`")
    values = {key: value for key, value in table.items() if key != "rule"}
    with own_code(f"stopping rule `{name}`"):
        return stop_rule(from_table(known[name], values, "stop"))
