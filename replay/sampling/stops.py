"""When a policy stops: each rule says, for every step of every example at once, whether it holds there.

A rule sees `Prefix`, the statistics of what has been revealed, and nothing else. A user's own rule is a
frozen dataclass with a `holds` method (and `needs_scores = True` when it reads scores); `Rule` describes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from replay.sampling.prefix import Prefix
from toolkit.errors import ThinkbackError

TOLERANCE = 1e-9


@runtime_checkable
class Rule(Protocol):
    """A stopping rule: a frozen dataclass whose fields are its parameters.

    One that reads scores says so with `needs_scores = True`; without it the policy does not verify for its sake.
    """

    def holds(self, seen: Prefix) -> np.ndarray:
        """Whether the rule holds after each step: bool (E, S), from statistics (E, S) of what was revealed."""
        ...


class Threshold(ABC):
    """A rule that holds once a statistic reaches a threshold, so that a thousand thresholds share one pass.

    Rules with the same `family` have the same statistic.
    """

    @property
    @abstractmethod
    def threshold(self) -> float:
        """The value to reach."""

    @property
    @abstractmethod
    def family(self) -> Hashable:
        """Everything about the rule but its threshold."""

    @abstractmethod
    def strength(self, seen: Prefix) -> np.ndarray:
        """The statistic: float (E, S), -inf where the rule cannot hold."""

    def holds(self, seen: Prefix) -> np.ndarray:
        """Wherever the statistic reaches the threshold: bool (E, S)."""
        return self.strength(seen) >= self.threshold


@dataclass(frozen=True)
class Never:
    """No rule: the policy runs to its cap."""

    needs_scores: ClassVar[bool] = False

    def holds(self, seen: Prefix) -> np.ndarray:
        """Nowhere."""
        return np.zeros(seen.traces.shape, dtype=bool)


@dataclass(frozen=True)
class Budget(Threshold):
    """A fixed number of traces or of verifications, whichever is given (exactly one, at least 1)."""

    traces: int | None = None
    verifications: int | None = None
    needs_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if (self.traces is None) == (self.verifications is None):
            raise ThinkbackError("stop `budget` needs exactly one of `traces` and `verifications`")
        _at_least("budget", "traces", self.traces, 1)
        _at_least("budget", "verifications", self.verifications, 1)

    @property
    def threshold(self) -> float:
        """How many."""
        return float(self.traces or self.verifications or 0)

    @property
    def family(self) -> Hashable:
        """Traces or verifications."""
        return Budget, self.traces is None

    def strength(self, seen: Prefix) -> np.ndarray:
        """How many are paid."""
        return (seen.verified if self.traces is None else seen.traces).astype(np.float64)


@dataclass(frozen=True)
class Margin(Threshold):
    """The best answer leads the second best by `margin` in verifier score (thesis on fact checking, algorithm 2).

    Looked at once `min_valid` traces are verified; while they all give one answer, it takes `single_label`
    of them instead.
    """

    margin: float = 0.15
    min_valid: int = 3
    single_label: int = 5
    needs_scores: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _number("margin", "margin", self.margin)
        if not 0 <= self.margin < float("inf"):
            raise ThinkbackError(f"stop `margin`: `margin` is {self.margin}; it takes a number from 0")
        _at_least("margin", "min_valid", self.min_valid, 1)
        _at_least("margin", "single_label", self.single_label, 1)

    @property
    def threshold(self) -> float:
        """The margin, less a hair for the rounding of differences."""
        return self.margin - TOLERANCE

    @property
    def family(self) -> Hashable:
        """When the lead is looked at."""
        return Margin, self.min_valid, self.single_label

    def strength(self, seen: Prefix) -> np.ndarray:
        """The lead once enough are verified; while they give one answer, infinite from `single_label` on."""
        alone = np.where(seen.verified >= self.single_label, np.inf, -np.inf)
        lead = np.where(seen.verified_answers > 1, seen.lead, alone)
        return np.where(seen.verified >= self.min_valid, lead, -np.inf)


@dataclass(frozen=True)
class Agreement(Threshold):
    """Adaptive consistency (Aggarwal et al. 2023): the leading answer would stay ahead with this confidence.

    Compares the two highest vote counts v1 >= v2 through the Beta posterior:
    1 - BetaCDF(1/2; v1 + 1, v2 + 1) = P(Binomial(v1 + v2 + 1, 1/2) <= v1), computed exactly.
    """

    confidence: float = 0.95
    needs_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _number("agreement", "confidence", self.confidence)
        if not 0 <= self.confidence <= 1:
            raise ThinkbackError(f"stop `agreement`: `confidence` is {self.confidence}; it takes a number from 0 to 1")

    @property
    def threshold(self) -> float:
        """The confidence."""
        return float(self.confidence)

    @property
    def family(self) -> Hashable:
        """All agreement rules read one statistic."""
        return Agreement

    def strength(self, seen: Prefix) -> np.ndarray:
        """Posterior probability that the leading answer stays ahead, from the first vote on."""
        most = int(seen.votes.max(initial=0)) + 1
        pairs, place = np.unique(seen.votes.astype(np.int64) * most + seen.second_votes, return_inverse=True)
        chance = np.array([lead_probability(int(p) // most, int(p) % most) for p in pairs])
        return np.where(seen.votes > 0, chance[place.reshape(seen.votes.shape)], -np.inf)


@dataclass(frozen=True)
class Window:
    """Early-stopping self-consistency (Li et al. 2024): a block of `size` traces that all give one valid answer."""

    size: int
    needs_scores: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _at_least("window", "size", self.size, 1)

    def holds(self, seen: Prefix) -> np.ndarray:
        """At the end of each block of `size` traces that agree."""
        return (seen.traces % self.size == 0) & (seen.run >= self.size)


@lru_cache(maxsize=65_536)
def lead_probability(first: int, second: int) -> float:
    """P(Binomial(first + second + 1, 1/2) <= first), rounded once from the exact value."""
    n = first + second + 1
    ways = total = 1
    for heads in range(first):
        ways = ways * (n - heads) // (heads + 1)
        total += ways
    return total / 2**n


STOPS: dict[str, type[Rule]] = {
    "none": Never,
    "budget": Budget,
    "margin": Margin,
    "agreement": Agreement,
    "window": Window,
}


def rule_parameters(rule: type[Rule]) -> tuple[str, ...]:
    """Names of a rule's parameters, in the order in which the dataclass declares them."""
    return tuple(f.name for f in fields(rule))  # type: ignore[arg-type]


def decisions(rule: Rule, seen: Prefix) -> np.ndarray:
    """What a rule says of every example and step: bool (E, S). Raises ThinkbackError when it fails."""
    name = type(rule).__name__
    try:
        decided = np.asarray(rule.holds(seen))
    except Exception as error:
        raise ThinkbackError(f"stopping rule `{name}` fails: {type(error).__name__}: {error}") from error
    if decided.shape != seen.traces.shape or decided.dtype != bool:
        raise ThinkbackError(
            f"stopping rule `{name}` gives {decided.dtype} of shape {decided.shape}; `holds` must give "
            f"bool of shape {seen.traces.shape}, one for every example and step"
        )
    return decided


def looked_at(steps: int, limit: np.ndarray, width: int) -> np.ndarray:
    """Where a rule is looked at: after every `width` steps and at the limit (E,); bool (E, steps)."""
    step = np.arange(1, steps + 1)
    looked = step <= limit[:, None]
    return looked if width == 1 else looked & ((step % width == 0) | (step == limit[:, None]))


def stopping_step(holds: np.ndarray, limit: np.ndarray, width: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """First step at which a rule holds, else the last step allowed.

    `holds` is bool (E, S), column s - 1 standing for step s; `limit` int (E,) is the last step of each
    example (0: none). The rule is looked at after every `width` steps and at the limit.
    Returns the step (E,) and whether the rule held there (E,).
    """
    looked = holds & looked_at(holds.shape[1], limit, width)
    first = looked.argmax(axis=1)
    ruled = looked[np.arange(len(first)), first]
    return np.where(ruled, first + 1, limit), ruled


def crossing_step(highest: np.ndarray, threshold: float, limit: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same for a threshold rule: `highest` float (S, E) is its statistic's running maximum, steps first."""
    small = np.int8 if len(highest) < 128 else np.int32  # the sum is the slow part of a large sweep
    below = (highest < threshold).view(np.int8).sum(axis=0, dtype=small).astype(np.int32)
    ruled = below < limit
    return np.where(ruled, below + 1, limit), ruled


def _at_least(rule: str, name: str, value: object, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise ThinkbackError(f"stop `{rule}`: `{name}` is {value!r}; it takes a whole number, at least {least}")


def _number(rule: str, name: str, value: object) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or value != value:
        raise ThinkbackError(f"stop `{rule}`: `{name}` is {value!r}; it takes a number")
