"""Stopping rules: each says for every step of every example whether a policy stops there.

A rule sees `Prefix`, the statistics of what has been revealed, and nothing else. A frozen dataclass with a method
`holds` is a rule, too: `WrappedStop` puts it into the form of the others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from toolkit.errors import RequiredError, RuleError, user_code
from toolkit.settings import setting
from toolkit.stopping.declared import FEATURE, SIGNAL, DeclaredPrefix, Rule, WrappedRule
from toolkit.stopping.prefix import SCORES, TRACE_SIGNALS, VOTES, Prefix

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Compared:
    """What a rule compares after each step, (E, S) each: the name of a statistic, its value, and the value to reach.

    The value is NaN where the rule is not looked at. The rule holds where the value reaches the threshold, but for the
    rounding that it allows.
    """

    statistic: np.ndarray
    value: np.ndarray
    threshold: np.ndarray

    @classmethod
    def one(cls, statistic: str, value: np.ndarray, threshold: float) -> Compared:
        """One statistic compared with one threshold at all steps; a value that is not finite counts as unknown."""
        known = np.where(np.isfinite(value), value, np.nan)
        return cls(np.full(value.shape, statistic, dtype=object), known, np.full(value.shape, float(threshold)))


class StopRule(Rule, key="stop", noun="stopping rule", says="decision"):
    """A stopping rule: a frozen dataclass whose fields are its parameters."""

    cuts: ClassVar[bool] = True
    """Whether the rule can end a walk before the cap."""
    between_verifications: ClassVar[bool] = False
    """Whether the rule may stop between two verifications, after everything is generated."""
    raw_scores: ClassVar[bool] = False
    """Whether the rule's parameters are in units of the verifier's scores."""
    calibrates: ClassVar[bool] = False
    """Whether calibrated scores may decide the rule."""

    @property
    def verification_budget(self) -> int | None:
        """The number of verifications at which the rule stops, if that is all it does; else None."""
        return None

    @property
    def named_verifier(self) -> str | None:
        """The verifier that the rule names itself; None without one."""
        return None

    @property
    def statistic_key(self) -> Hashable:
        """A key of all settings but the threshold, if the rule compares a statistic with a threshold; else None."""
        return None

    @property
    def null_reason(self) -> str:
        """Why an example is partial if the rule reads a null there, in words; empty where it never does."""
        return ""

    def undecidable_steps(self, seen: Prefix) -> np.ndarray | None:
        """The steps, bool (E, S), at which what the rule reads is null, so that it cannot decide; None: nowhere."""
        return None

    def compared(self, seen: Prefix) -> Compared | None:
        """The statistic and the threshold that an explanation shows; None where the rule compares no number."""
        return None

    @property
    def knows_needed_traces(self) -> bool:
        """Whether the rule has the method `needed_traces`: how many more traces it needs at least."""
        return False

    def statistic(self, seen: Prefix) -> np.ndarray:
        """The statistic that the rule compares with its threshold: float (E, S), -inf where it cannot hold."""
        raise NotImplementedError(f"{self.label} compares no statistic")

    def needed_traces(self, seen: Prefix) -> np.ndarray:
        """The fewest traces after which the rule would hold, seen from step 0 to S, if all further ones gave the
        leading answer, or any one answer where none leads: int (E, S + 1); more than S if S more are too few. For rules
        with `knows_needed_traces`.
        """
        raise NotImplementedError(f"{self.label} does not say how many traces it needs")

    @abstractmethod
    def holds(self, seen: Prefix) -> np.ndarray:
        """Whether the rule holds after each step: bool (E, S), from statistics (E, S) of what was revealed."""

    def decide_checked(self, seen: Prefix) -> np.ndarray:
        """Whether the rule holds after each step: bool (E, S). Raises ThinkbackError when the rule fails."""
        with user_code(self.label):
            decided = np.asarray(self.holds(self.visible_part(seen)))
        if decided.shape != seen.traces.shape or decided.dtype != bool:
            raise RuleError(
                f"{self.label} gives {decided.dtype} of shape {decided.shape}; `holds` must give "
                f"bool of shape {seen.traces.shape}, one for every example and step"
            )
        return decided

    def stopping_step(self, seen: Prefix, limit: np.ndarray, ends: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """The step (E,) at which the rule ends a walk whose last step is `limit` (E,), and whether it held there (E,).

        `ends`: after which steps it is looked at besides the last, bool (S,) or (E, S); None: after each.
        """
        return _stopping_step(self.decide_checked(seen), limit, ends)


class CrossingRule(StopRule):
    """A rule that holds once a statistic reaches a threshold; a thousand thresholds then share one computation.

    Rules with the same `statistic_key` have the same statistic.
    """

    reached: ClassVar[str]
    """The parameter that holds the threshold."""

    @property
    def threshold(self) -> float:
        return float(getattr(self, self.reached))

    @property
    def statistic_key(self) -> Hashable:
        """A key of all settings but the threshold."""
        others = (field.name for field in fields(self) if field.name != self.reached)  # type: ignore[arg-type]
        return type(self), self.reached, *(getattr(self, name) for name in others)

    @abstractmethod
    def statistic(self, seen: Prefix) -> np.ndarray:
        """The statistic: float (E, S), -inf where the rule cannot hold."""

    def holds(self, seen: Prefix) -> np.ndarray:
        return self.statistic(seen) >= self.threshold

    def compared(self, seen: Prefix) -> Compared:
        """The statistic and the threshold, under the name of the threshold's parameter."""
        return Compared.one(self.reached, self.statistic(seen), float(getattr(self, self.reached)))

    def stopping_step(self, seen: Prefix, limit: np.ndarray, ends: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        if ends is not None or self.is_checked_by_run:
            return super().stopping_step(seen, limit, ends)
        highest = seen.compute_once(self.statistic_key, lambda: np.maximum.accumulate(self.statistic(seen).T, axis=0))
        return crossing_step(highest, self.threshold, limit)


@dataclass(frozen=True)
class Never(StopRule, name="none", reads=(), cuts=False, between_verifications=True, trusted=True):
    """The absence of a rule: the policy runs to its cap."""

    def holds(self, seen: Prefix) -> np.ndarray:
        return np.zeros(seen.traces.shape, dtype=bool)

    def stopping_step(self, seen: Prefix, limit: np.ndarray, ends: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        return limit, np.zeros(len(limit), dtype=bool)


@dataclass(frozen=True)
class Budget(CrossingRule, name="budget", trusted=True):
    """Stop after a fixed number of traces, of verifications or of completion tokens; one of them is given."""

    traces: int | None = setting(None, low=1)
    verifications: int | None = setting(None, low=1)
    completion_tokens: int | None = setting(None, low=1)

    def __post_init__(self) -> None:
        if sum(value is not None for value in vars(self).values()) != 1:
            raise RequiredError("stop `budget` needs exactly one of `traces`, `verifications` and `completion_tokens`")
        super().__post_init__()

    @property
    def reads(self) -> frozenset[str]:
        """What the rule reads: `scores` if it counts verifications, so that the policy verifies."""
        return frozenset() if self.verifications is None else frozenset({SCORES})

    @property
    def between_verifications(self) -> bool:  # type: ignore[override]
        return self.verifications is not None

    @property
    def verification_budget(self) -> int | None:
        return self.verifications

    @property
    def reached(self) -> str:  # type: ignore[override]
        return next(name for name, value in vars(self).items() if value is not None)

    @property
    def knows_needed_traces(self) -> bool:
        return self.completion_tokens is None

    @property
    def null_reason(self) -> str:
        return "" if self.knows_needed_traces else "`completion_tokens` is null for a trace that stop `budget` counts"

    def undecidable_steps(self, seen: Prefix) -> np.ndarray | None:
        return None if self.knows_needed_traces else np.isnan(seen.completion_tokens)

    def needed_traces(self, seen: Prefix) -> np.ndarray:
        return _counts_from_start(-self._count_so_far(seen)) + int(self.threshold)

    def statistic(self, seen: Prefix) -> np.ndarray:
        return self._count_so_far(seen).astype(np.float64)

    def _count_so_far(self, seen: Prefix) -> np.ndarray:
        return np.asarray(seen.verified if self.reached == "verifications" else getattr(seen, self.reached))


@dataclass(frozen=True)
class Margin(CrossingRule, name="margin", reads={VOTES, SCORES}, reached="margin", trusted=True, counts_votes=False):
    """Stop where the best answer leads the second best by `margin` in score (thesis on fact checking, algorithm 2).

    Looked at once `min_valid` traces are verified; while they all give one answer, it takes `single_label` of them
    instead.
    """

    margin: float = setting(0.15, low=0, what="a number of at least 0")
    min_valid: int = setting(3, low=1)
    single_label: int = setting(5, low=1)
    between_verifications: ClassVar[bool] = True
    raw_scores: ClassVar[bool] = True
    calibrates: ClassVar[bool] = True

    @property
    def threshold(self) -> float:
        """The margin, minus a tolerance for the rounding of differences."""
        return self.margin - TOLERANCE

    def statistic(self, seen: Prefix) -> np.ndarray:
        """The lead once enough traces are verified; infinite from `single_label` on if all give one answer."""
        alone = np.where(seen.verified >= self.single_label, np.inf, -np.inf)
        lead = np.where(seen.verified_answers > 1, seen.lead, alone)
        return np.where(seen.verified >= self.min_valid, lead, -np.inf)

    def compared(self, seen: Prefix) -> Compared:
        """The lead and the margin; while it is too early for these, the number verified and the one awaited."""
        alone = seen.verified_answers <= 1
        waits = alone | (seen.verified < self.min_valid)
        least = np.where(alone, max(self.min_valid, self.single_label), self.min_valid)
        return Compared(
            np.where(waits, "verified", "lead").astype(object),
            np.where(waits, seen.verified, seen.lead),
            np.where(waits, least, self.margin),
        )


@dataclass(frozen=True)
class Agreement(CrossingRule, name="agreement", trusted=True, reads={VOTES}, reached="confidence"):
    """Stop once the leading answer would stay ahead with this probability (adaptive consistency, Aggarwal et al. 2023).

    Compares the two highest vote counts v1 >= v2 through the Beta posterior: 1 - BetaCDF(1/2; v1 + 1, v2 + 1) =
    P(Binomial(v1 + v2 + 1, 1/2) <= v1), computed exactly.
    """

    confidence: float = setting(0.95, low=0, high=1)

    def statistic(self, seen: Prefix) -> np.ndarray:
        """Posterior probability that the leading answer stays ahead, from the first vote on."""
        most = int(seen.votes.max(initial=0)) + 1
        pairs, place = np.unique(seen.votes.astype(np.int64) * most + seen.second_votes, return_inverse=True)
        ahead = np.array([_lead_probability(int(p) // most, int(p) % most) for p in pairs])
        return np.where(seen.votes > 0, ahead[place.reshape(seen.votes.shape)], -np.inf)

    @property
    def knows_needed_traces(self) -> bool:
        return True

    def needed_traces(self, seen: Prefix) -> np.ndarray:
        votes, most = (
            np.stack([_counts_from_start(seen.votes), _counts_from_start(seen.second_votes)], axis=-1),
            seen.votes.shape[1],
        )
        pairs, place = np.unique(votes.reshape(-1, 2), axis=0, return_inverse=True)
        more = [self._fewest_votes_to_hold(first, second, most) for first, second in pairs.tolist()]
        return np.asarray(np.array(more, dtype=np.int64)[place.reshape(votes.shape[:2])])

    def _fewest_votes_to_hold(self, first: int, second: int, most: int) -> int:
        """The fewest votes for the first answer with which the rule holds; `most` + 1 if `most` are too few."""
        enough = (n for n in range(1, most + 1) if _lead_probability(first + n, second) >= self.confidence)
        return next(enough, most + 1)


@dataclass(frozen=True)
class AtLeast(CrossingRule, name="at_least", reached="score", trusted=True):
    """Stop after `patience` traces in a row with at least `score`, by a verifier, a feature or a signal of the trace.

    An invalid trace has no score by a verifier, and breaks the row.
    """

    score: float = setting(above=-np.inf, below=np.inf, what="a finite number")
    verifier: str | None = setting(None, what="a name")
    feature: str | None = setting(None, what="a name")
    signal: str | None = setting(None, choices=tuple(TRACE_SIGNALS))
    patience: int = setting(1, low=1)

    def __post_init__(self) -> None:
        if sum(name is not None for name in (self.verifier, self.feature, self.signal)) != 1:
            raise RequiredError("stop `at_least` needs exactly one of `verifier`, `feature` and `signal`")
        super().__post_init__()

    @property
    def reads(self) -> frozenset[str]:
        if self.verifier is not None:
            return frozenset({SCORES})
        return frozenset({f"{FEATURE}{self.feature}" if self.signal is None else SIGNAL + TRACE_SIGNALS[self.signal]})

    @property
    def named_verifier(self) -> str | None:
        return self.verifier

    @property
    def null_reason(self) -> str:
        what = f"feature `{self.feature}`" if self.signal is None else f"signal `{self.signal}`"
        return "" if self.verifier is not None else f"{what} is null for a trace that stop `at_least` reads"

    def _compared_value(self, seen: Prefix) -> np.ndarray:
        """The value (E, S) of each step's trace that the rule compares; NaN for null."""
        if self.verifier is not None:
            return np.asarray(seen.last_score)
        return seen.features[str(self.feature)] if self.signal is None else seen.signals[TRACE_SIGNALS[self.signal]]

    def undecidable_steps(self, seen: Prefix) -> np.ndarray | None:
        return None if self.verifier is not None else np.isnan(self._compared_value(seen))

    def statistic(self, seen: Prefix) -> np.ndarray:
        """The lowest value of the last `patience` traces; -inf before there are so many, and where one has no value."""
        value = self._compared_value(seen)
        value = np.where(np.isnan(value), -np.inf, value)
        least = value.copy()
        for back in range(1, min(self.patience, value.shape[1] + 1)):
            least[:, back:] = np.minimum(least[:, back:], value[:, :-back])
        least[:, : self.patience - 1] = -np.inf
        return least


@dataclass(frozen=True)
class Window(StopRule, name="window", reads={VOTES}, trusted=True):
    """Stop at a block of `size` traces with one valid answer (early-stopping self-consistency, Li et al. 2024)."""

    size: int = setting(low=1)

    def holds(self, seen: Prefix) -> np.ndarray:
        return (seen.traces % self.size == 0) & (seen.run >= self.size)

    def compared(self, seen: Prefix) -> Compared:
        return Compared.one("run", np.where(seen.traces % self.size == 0, seen.run, np.nan), self.size)


@dataclass(frozen=True)
class Says(StopRule, name="says", reads={VOTES}, trusted=True, counts_votes=False):
    """Stop at the first trace that gives the answer `answer`."""

    answer: str = setting(what="a text")

    def holds(self, seen: Prefix) -> np.ndarray:
        return np.asarray(seen.answer_matches[self.answer])


class WrappedStop(WrappedRule, StopRule):
    """A user's stopping rule; one that declares nothing reads all but columns, and makes no verifications."""

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({VOTES}) if self.declared_names is None else self.declared_names

    def visible_part(self, seen: Prefix) -> Any:
        """The statistics that the rule declares; those of votes and scores where it declares nothing."""
        reads = frozenset({VOTES, SCORES}) if self.declared_names is None else self.reads
        return DeclaredPrefix(seen, reads, self.label)

    def holds(self, seen: Prefix) -> np.ndarray:
        return np.asarray(self.rule.holds(seen))


@lru_cache(maxsize=65_536)
def _lead_probability(first: int, second: int) -> float:
    """P(Binomial(first + second + 1, 1/2) <= first), that the leader stays ahead; exact, then rounded once."""
    n = first + second + 1
    ways = total = 1
    for heads in range(first):
        ways = ways * (n - heads) // (heads + 1)
        total += ways
    return total / 2**n


def _counts_from_start(counts: np.ndarray) -> np.ndarray:
    """Counts (E, S + 1) from step 0 on: the counts (E, S) after each step, with 0 before them."""
    return np.pad(counts.astype(np.int64), ((0, 0), (1, 0)))


def evaluated_steps(steps: int, limit: np.ndarray, ends: np.ndarray | None) -> np.ndarray:
    """Mask (E, steps) of the steps at which a rule is evaluated: those in `ends` (None: all) and the limit (E,)."""
    step = np.arange(1, steps + 1)
    looked = step <= limit[:, None]
    return looked if ends is None else looked & (ends | (step == limit[:, None]))


def block_end_steps(rule: StopRule, seen: Prefix) -> np.ndarray:
    """The traces that end a block, bool (E, S), if a block has as many as the rule needs when all of them agree."""
    steps = seen.step
    needed = np.maximum(rule.needed_traces(seen), 1)
    ends, at = np.zeros(steps.shape, dtype=bool), np.zeros(len(steps), dtype=np.int64)
    rows = np.arange(len(steps))
    while steps.shape[1] and (at < steps.shape[1]).any():
        at = np.minimum(at + needed[rows, at], steps.shape[1])
        ends[rows, at - 1] = True
    return ends


def _stopping_step(
    holds: np.ndarray, limit: np.ndarray, ends: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The first step at which a rule holds, else the last step allowed.

    `holds` is bool (E, S), column s - 1 standing for step s; `limit` int (E,) is the last step of each example (0:
    none). The rule is looked at after the steps in `ends` and at the limit. Returns the step (E,) and whether the rule
    held there (E,).
    """
    looked = holds & evaluated_steps(holds.shape[1], limit, ends)
    first = looked.argmax(axis=1)
    ruled = looked[np.arange(len(first)), first]
    return np.where(ruled, first + 1, limit), ruled


def crossing_step(highest: np.ndarray, threshold: float, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Stopping steps of a crossing rule, from its statistic's running maximum `highest` (S, E), steps first."""
    small = np.int8 if len(highest) < 128 else np.int32  # the sum is the slow part of a large sweep
    below = (highest < threshold).view(np.int8).sum(axis=0, dtype=small).astype(np.int32)
    ruled = below < limit
    return np.where(ruled, below + 1, limit), ruled
