"""Selects as policies hold them: the built-in ones by name, and a user's own, held to what they declare.

A user's select is a frozen dataclass with `reads` and one of two methods: `chooses(self, seen)` gives the number of an
answer, whose earliest generated trace is taken; `takes(self, seen)` gives the step whose trace is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from replay.sampling.declared import DeclaredPrefix, Untrusted, likeness, names_read
from replay.sampling.known import SELECTS
from replay.sampling.own_rules import SELECT_METHODS, SELECT_SHAPE, checked_fields, has_method
from replay.sampling.per_answer import by_appearance
from replay.sampling.prefix import NONE, VOTES, Prefix, Revealed
from replay.sampling.selects import Select, WalkedTraces
from toolkit.errors import ThinkbackError, listed, own_code, require_known, shown, suggest
from toolkit.settings import from_table

TABLE = 'a table such as { rule = "Mine", k = 3 }'


@dataclass(frozen=True)
class OwnSelect(Select):
    """A user's select in the form of the built-in ones."""

    rule: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "rule", checked_fields(self.rule, self.told))
        if all(callable(getattr(self.rule, name, None)) for name in SELECT_METHODS):
            raise ThinkbackError(f"{self.told} has both `chooses` and `takes`: leave one of them out")
        reads = self.reads  # refused at once where it is none
        if not self._takes_steps and VOTES not in reads:
            raise ThinkbackError(
                f"{self.told} chooses an answer, so it reads votes: "
                f"add `reads: ClassVar = {tuple(sorted(reads | {VOTES}))}` to it"
            )

    def __hash__(self) -> int:
        return hash(likeness(self.rule))

    @property
    def name(self) -> str:
        """The name of its class."""
        return type(self.rule).__name__

    @property
    def told(self) -> str:
        """What messages call it."""
        return f"select `{self.name}`"

    @property
    def reads(self) -> frozenset[str]:  # type: ignore[override]
        """What it declares; a select must."""
        with own_code(self.told):
            said = getattr(self.rule, "reads", None)
        if said is None:
            raise ThinkbackError(
                f"{self.told} does not say what it reads: add `reads: ClassVar = ('votes',)` to it, or what it needs"
            )
        return names_read(said, self.told)

    def record(self) -> dict[str, Any]:
        """The rule with its parameters."""
        return {"rule": self.name} | {field.name: getattr(self.rule, field.name) for field in fields(self.rule)}

    def place(self, seen: Revealed) -> np.ndarray:
        """A user's select is shown statistics, which `places` has."""
        raise NotImplementedError

    def places(self, walk: WalkedTraces) -> np.ndarray:
        """Place of the chosen trace after each step of a walk."""
        return self._placed(walk.scored_prefix)

    def untrusted(self, walk: WalkedTraces) -> Untrusted:
        """What it chooses on a walk."""
        return Untrusted(self.told, "choice", walk.scored_prefix, self._placed, self)

    @property
    def _takes_steps(self) -> bool:
        return callable(getattr(self.rule, "takes", None))

    def _placed(self, seen: Prefix) -> np.ndarray:
        method = "takes" if self._takes_steps else "chooses"
        with own_code(self.told):
            given = np.asarray(getattr(self.rule, method)(DeclaredPrefix(seen, self.reads, self.told)))
        if given.shape != seen.traces.shape or given.dtype.kind not in "iu":
            raise ThinkbackError(
                f"{self.told} gives {given.dtype} of shape {given.shape}; `{method}` must give integers of shape "
                f"{seen.traces.shape}, one for every example and step"
            )
        return self._of_steps(seen, given) if self._takes_steps else self._of_answers(seen, given)

    def _of_steps(self, seen: Prefix, step: np.ndarray) -> np.ndarray:
        """Places of the traces of steps (E, S), from 1; NONE where the trace has no answer."""
        self._refuse(step > seen.step, "takes the trace of a step that comes later")
        revealed, at = seen.walk, np.maximum(step, 1) - 1
        valid = (step > 0) & (np.take_along_axis(revealed.code, at, axis=1) >= 0)
        return np.where(valid, np.take_along_axis(revealed.at, at, axis=1), NONE)

    def _of_answers(self, seen: Prefix, answer: np.ndarray) -> np.ndarray:
        """Places of the earliest generated traces with answers (E, S); NONE before there is any."""
        self._refuse((seen.answers > 0) & (answer >= seen.answers), "chooses an answer that no step has revealed yet")
        places = by_appearance(seen.walk.code).places(seen.walk.first_place)
        known = (answer >= 0) & (seen.answers > 0)
        return np.where(known, np.take_along_axis(places, np.where(known, answer, 0), axis=1), NONE)

    def _refuse(self, wrong: np.ndarray, what: str) -> None:
        if wrong.any():
            raise ThinkbackError(f"{self.told} {what}: after step {int(wrong.any(axis=0).argmax()) + 1}")


def select_rule(given: Any) -> Select | str:
    """A select as a policy holds it: the name of a built-in one, or a user's own."""
    if isinstance(given, Select):
        return next((name for name, select in SELECTS.items() if select == given), given)
    if isinstance(given, str | Mapping):
        return select_from(given, {})
    if has_method(type(given), SELECT_METHODS):
        return OwnSelect(given)
    raise ThinkbackError(
        f"`select` is {shown(given)}; it takes one of {listed(list(SELECTS))}, {TABLE}, or a select of your own: "
        f"{SELECT_SHAPE}"
    )


def select_from(given: object, own: Mapping[str, type]) -> Select | str:
    """A select from its name or table in a policy file; `own` are the user's rules by class name."""
    if isinstance(given, str) and given not in own:
        if given not in SELECTS:
            raise ThinkbackError(f"`select` is {shown(given)}; {suggest(given, (*SELECTS, *_selects(own)))}")
        return given
    table = {"rule": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("rule"), str):
        raise ThinkbackError(f"`select` is {shown(given)}; it takes one of {listed(list(SELECTS))}, or {TABLE}")
    name, mine = str(table["rule"]), _selects(own)
    require_known(name, (*SELECTS, *mine), f"unknown select `{name}`")
    values = {key: value for key, value in table.items() if key != "rule"}
    if name in mine:
        with own_code(f"select `{name}`"):
            return OwnSelect(from_table(mine[name], values, "select"))
    if values:
        raise ThinkbackError(f"select `{name}` has no parameters; leave out {listed(list(values))}")
    return name


def selector_of(select: Select | str) -> Select:
    """The select that a policy holds, by its name or itself."""
    return SELECTS[select] if isinstance(select, str) else select


def _selects(own: Mapping[str, type]) -> dict[str, type]:
    return {name: rule for name, rule in own.items() if has_method(rule, SELECT_METHODS)}
