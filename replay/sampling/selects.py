"""Which trace gives the answer: first, majority, best and weighted, at every step of a walk.

A select says what it reads, and finds the place (in the order of generation) of the chosen trace after each step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from replay.sampling.prefix import NONE, SCORES, VOTES, Revealed


class Select(ABC):
    """A select rule: a frozen dataclass whose fields are its parameters."""

    reads: ClassVar[frozenset[str]]
    """What it reads of the traces: `votes`, `scores`."""
    trusted: ClassVar[bool] = False
    """Whether this very class is known to read no more; every other is shown what it declares. Not inherited."""
    one_trace: ClassVar[bool] = False
    """Whether it goes with a cap of one trace alone."""
    by_score: ClassVar[bool] = False
    """Whether it takes the trace with the highest score, so that exact means over orders and sets are defined."""
    sums_scores: ClassVar[bool] = False
    """Whether it adds scores up, so that negative ones count against an answer."""

    def shown(self, seen: Revealed) -> Any:
        """What it is shown of the traces."""
        return seen if vars(type(self)).get("trusted", False) else seen.shown(self.reads)

    @abstractmethod
    def place(self, seen: Revealed) -> np.ndarray:
        """Place of the chosen trace after each step: int (E, S), NONE where nothing valid is seen."""


@dataclass(frozen=True)
class First(Select):
    """The first trace, whatever follows."""

    reads: ClassVar[frozenset[str]] = frozenset()
    trusted: ClassVar[bool] = True
    one_trace: ClassVar[bool] = True

    def place(self, seen: Revealed) -> np.ndarray:
        """Place 0 where it is valid."""
        return np.broadcast_to(np.where(seen.code[:, :1] >= 0, 0, NONE), seen.code.shape)


@dataclass(frozen=True)
class Majority(Select):
    """Earliest trace with the most frequent answer (self-consistency, Wang et al. 2023); tie: earliest answer."""

    reads: ClassVar[frozenset[str]] = frozenset({VOTES})
    trusted: ClassVar[bool] = True

    def place(self, seen: Revealed) -> np.ndarray:
        """Where the winner of the vote first appeared."""
        return _earliest(seen, seen.votes.winner)


@dataclass(frozen=True)
class BestOfN(Select):
    """The verified trace with the highest score (best-of-N); tie: earliest generated."""

    reads: ClassVar[frozenset[str]] = frozenset({SCORES})
    trusted: ClassVar[bool] = True
    by_score: ClassVar[bool] = True

    def place(self, seen: Revealed) -> np.ndarray:
        """Place of the best trace so far."""
        return seen.best.place


@dataclass(frozen=True)
class WeightedVote(Select):
    """Earliest trace with the highest sum of scores over its answer (weighted vote); tie: earliest verified."""

    reads: ClassVar[frozenset[str]] = frozenset({VOTES, SCORES})
    trusted: ClassVar[bool] = True
    sums_scores: ClassVar[bool] = True

    def place(self, seen: Revealed) -> np.ndarray:
        """Where the answer with the highest sum first appeared."""
        return _earliest(seen, seen.sums)


def _earliest(seen: Revealed, answer: np.ndarray) -> np.ndarray:
    """Place of the earliest generated trace with each answer code (E, S); NONE where none was generated.

    The latter happens after a score that the log lacks, where the example is partial anyway.
    """
    place = np.take_along_axis(seen.first_place, np.maximum(answer, 0), axis=1)
    return np.where((answer >= 0) & (place < seen.code.shape[1]), place, NONE)
