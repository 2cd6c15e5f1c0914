"""Which trace gives the answer (first, last, majority, best or weighted) at every step of a walk.

A select sees `Prefix`, the statistics of what has been revealed, and nothing else. It has one of two methods: `chooses`
gives the number of an answer, whose earliest generated trace is taken, `takes` the step whose trace is taken. A frozen
dataclass with one of them is a select, too: `WrappedSelect` puts it into the form of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import ClassVar

import numpy as np

from replay.sampling.over_orders import DrawnTraces
from toolkit.errors import LimitError, RuleError, user_code
from toolkit.stopping.declared import Rule, WrappedRule
from toolkit.stopping.prefix import NONE, SCORES, VOTES, Prefix

METHODS = ("chooses", "takes")
MOST_SETS = 200_000
"""The most sets of an example's traces that an exact mean goes over, such as all sets of three of 100 traces."""


class Select(Rule, key="select", noun="select", says="choice"):
    """A select: a frozen dataclass whose fields are its parameters, with a method `chooses(self, seen)` that gives the
    number (E, S) of an answer after each step, below 0 for none, or `takes(self, seen)`: a step from 1, 0 for none.
    """

    one_trace: ClassVar[bool] = False
    """Whether the select needs a cap of one trace."""
    by_score: ClassVar[bool] = False
    """Whether it takes the trace with the highest score; prediction sets, and means over verifications, need that."""
    sums_scores: ClassVar[bool] = False
    """Whether it adds up scores, so that a negative score counts against an answer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len([name for name in METHODS if hasattr(self.implementation, name)]) > 1:
            raise RuleError(f"{self.label} has both `chooses` and `takes`: leave one of them out")
        if self.decision_method == "chooses" and VOTES not in self.reads:
            raise RuleError(
                f"{self.label} chooses an answer, so it reads votes: "
                f"add `reads: ClassVar = {tuple(sorted(self.reads | {VOTES}))}` to it"
            )

    @property
    def decision_method(self) -> str:
        return next(name for name in METHODS if hasattr(self.implementation, name))

    over_sets: ClassVar[int | None] = None
    """The most traces of which `over_orders` goes over all sets, but for the one set of all; None: of any number."""

    def has_exact_mean(self, drawn: int | None = None) -> bool:
        """Whether it may have an exact mean over all orders, of so many drawn traces or of any number."""
        return self.over_orders is not None and (self.over_sets is None or drawn is not None)

    def can_go_over_sets(self, drawn: int, size: int) -> bool:
        """Whether it can go over all sets of so many of an example's `size` traces, all of them at least."""
        few = self.over_sets is None or drawn >= size
        return few or (drawn <= (self.over_sets or 0) and comb(size, drawn) <= MOST_SETS)

    def check_number_of_sets(self, drawn: int, size: int) -> None:
        """Raise LimitError where it would go over too many, or too large, sets of so many of an example's traces."""
        if not self.can_go_over_sets(drawn, size):
            raise LimitError(
                f"`expected` of `{self}` goes over all sets of {drawn} of an example's {size:,} traces: it takes up to "
                f"{self.over_sets} of them with at most {MOST_SETS:,} sets, or all; others take `orders = 20`"
            )

    @property
    def over_orders(self) -> Callable[[DrawnTraces], np.ndarray] | None:
        """The function for the probability (E, T) of each trace to be chosen, over all orders; None: there is none."""
        return None

    def decide_checked(self, seen: Prefix) -> np.ndarray:
        """Place of the chosen trace after each step: int (E, S); NONE before the first valid trace."""
        if not self.is_checked_by_run:
            return self._trace_places(seen.by_answer_code, getattr(self, self.decision_method)(seen.by_answer_code))
        with user_code(self.label):
            decision = np.asarray(getattr(self.implementation, self.decision_method)(self.visible_part(seen)))
        if decision.shape != seen.traces.shape or decision.dtype.kind not in "iu":
            raise RuleError(
                f"{self.label} gives {decision.dtype} of shape {decision.shape}; `{self.decision_method}` must give "
                f"integers of shape {seen.traces.shape}, one for every example and step"
            )
        if self.decision_method == "takes":
            self._raise_on_steps(decision > seen.step, "takes the trace of a step that comes later")
            return self._trace_places(seen, decision)
        later = (seen.answers > 0) & (decision >= seen.answers)
        self._raise_on_steps(later, "chooses an answer that no step has revealed yet")
        return self._trace_places(seen, np.where(seen.answers > 0, decision, NONE))

    def _trace_places(self, seen: Prefix, decision: np.ndarray) -> np.ndarray:
        """Places (E, S) of the traces of steps, or of the earliest trace of an answer; NONE where there is none."""
        known = decision > 0 if self.decision_method == "takes" else decision >= 0
        if self.decision_method == "chooses":
            return np.where(known, np.take_along_axis(seen.answer_places, np.where(known, decision, 0), axis=1), NONE)
        revealed, at = seen.revealed_walk, np.where(known, decision, 1) - 1
        known &= np.take_along_axis(revealed.code, at, axis=1) >= 0
        return np.where(known, np.take_along_axis(revealed.at, at, axis=1), NONE)

    def _raise_on_steps(self, mask: np.ndarray, problem: str) -> None:
        if mask.any():
            raise RuleError(f"{self.label} {problem}: after step {int(mask.any(axis=0).argmax()) + 1}")


@dataclass(frozen=True)
class FirstTrace(Select, name="first", reads=(), trusted=True, one_trace=True):
    """Take the first trace, whatever follows."""

    def takes(self, seen: Prefix) -> np.ndarray:
        return np.ones_like(seen.step)

    @property
    def over_orders(self) -> Callable[[DrawnTraces], np.ndarray]:
        return DrawnTraces.first_drawn_probability


@dataclass(frozen=True)
class LastTrace(Select, name="last", reads=(), trusted=True):
    """Take the last trace drawn, such as the guess that has seen most of an unfolding question."""

    def takes(self, seen: Prefix) -> np.ndarray:
        return seen.step


@dataclass(frozen=True)
class MajorityVote(Select, name="majority", reads={VOTES}, trusted=True):
    """Take the earliest trace with the most frequent answer (self-consistency, Wang et al. 2023); `tie` breaks ties."""

    def chooses(self, seen: Prefix) -> np.ndarray:
        return seen.leader

    @property
    def over_orders(self) -> Callable[[DrawnTraces], np.ndarray]:
        return DrawnTraces.majority_probability


@dataclass(frozen=True)
class BestOfN(Select, name="best", reads={SCORES}, trusted=True, by_score=True):
    """Take the verified trace with the highest score (best-of-N); of equal ones the earliest generated."""

    def takes(self, seen: Prefix) -> np.ndarray:
        return seen.best_step

    @property
    def over_orders(self) -> Callable[[DrawnTraces], np.ndarray]:
        return DrawnTraces.highest_score_probability


@dataclass(frozen=True)
class WeightedVote(Select, name="weighted", reads={VOTES, SCORES}, trusted=True, sums_scores=True, counts_votes=False):
    """Take the earliest trace of the answer with the highest sum of scores (weighted vote).

    A tie goes to the answer with the verified trace that was generated first, unless `tie` says otherwise.
    """

    over_sets: ClassVar[int | None] = 3

    def chooses(self, seen: Prefix) -> np.ndarray:
        return seen.sum_leader

    @property
    def over_orders(self) -> Callable[[DrawnTraces], np.ndarray]:
        return DrawnTraces.weighted_vote_probability


class WrappedSelect(WrappedRule, Select):
    """A user's select: a class with a method `chooses` or `takes`, which must declare what it reads."""

    @property
    def reads(self) -> frozenset[str]:
        if self.declared_names is None:
            raise RuleError(
                f"{self.label} does not say what it reads: add `reads: ClassVar = ('votes',)` to it, or what it needs"
            )
        return self.declared_names
