"""Which trace gives the answer: first, majority, best and weighted, at every step of a walk.

A select says what it reads, and finds the place (in the order of generation) of the chosen trace after each step. A
user's own select is a frozen dataclass, which `replay.sampling.own_selects` puts into the form of the ones here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import numpy as np

from replay.sampling.declared import Untrusted, likeness
from replay.sampling.prefix import NONE, SCORES, VOTES, Prefix, Revealed


class WalkedTraces(Protocol):
    """What a select needs of a walk: what its steps reveal, and the statistics by the scores themselves."""

    @property
    def revealed(self) -> Revealed:
        """What each step reveals."""
        ...

    @property
    def scored_prefix(self) -> Prefix:
        """Statistics after each step, by scores that are not calibrated."""
        ...


class Select(ABC):
    """A select rule: a frozen dataclass whose fields are its parameters."""

    reads: ClassVar[frozenset[str]]
    """What it reads: `votes`, `scores`, `features:NAME`, `examples:NAME`."""
    trusted: ClassVar[bool] = False
    """Whether this very class is known to read no more; every other is shown what it declares. Not inherited."""
    one_trace: ClassVar[bool] = False
    """Whether it goes with a cap of one trace alone."""
    by_score: ClassVar[bool] = False
    """Whether it takes the trace with the highest score, so that exact means over orders and sets are defined."""
    sums_scores: ClassVar[bool] = False
    """Whether it adds scores up, so that negative ones count against an answer."""

    @property
    def name(self) -> str:
        """What messages and records call it."""
        return type(self).__name__

    def __str__(self) -> str:
        return self.name

    @property
    def checked(self) -> bool:
        """Whether it is held to what it declares, and checked for looking ahead at the start of a run."""
        return not vars(type(self)).get("trusted", False)

    def record(self) -> dict[str, Any]:
        """The rule as plain data."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {"rule": self.name} | settings

    def shown(self, seen: Revealed) -> Any:
        """What it is shown of the traces."""
        return seen.shown(self.reads) if self.checked else seen

    def places(self, walk: WalkedTraces) -> np.ndarray:
        """Place of the chosen trace after each step of a walk: int (E, S), NONE where nothing valid is seen."""
        return self.place(self.shown(walk.revealed))

    def untrusted(self, walk: WalkedTraces) -> Untrusted:
        """What it chooses on a walk, to be checked for looking ahead."""

        def decide(seen: Revealed) -> np.ndarray:
            return np.asarray(self.place(self.shown(seen)))

        return Untrusted(f"select `{self.name}`", "choice", walk.revealed, decide, likeness(self))

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
    """Earliest trace with the highest sum of scores over its answer (weighted vote).

    A tie goes to the answer with the verified trace that was generated first.
    """

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
