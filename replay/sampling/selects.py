"""Which trace gives the answer: first, majority, best and weighted, at every step of a trajectory.

Each function maps a trajectory to the place (in the order of generation) of the chosen trace after step
0, 1, ... S: int32 (E, S + 1), -1 where nothing valid is seen, so that the prediction is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from replay.sampling.prefix import NONE

if TYPE_CHECKING:
    from replay.engine.trajectory import Trajectory


def first(trajectory: Trajectory) -> np.ndarray:
    """The first trace, whatever follows."""
    valid = np.where(trajectory.code[:, :1] >= 0, 0, NONE)
    return _from_step_zero(np.broadcast_to(valid, trajectory.code.shape))


def majority(trajectory: Trajectory) -> np.ndarray:
    """Earliest trace with the most frequent answer (self-consistency, Wang et al. 2023); tie: earliest answer."""
    return _from_step_zero(_earliest(trajectory, trajectory.votes.winner))


def best(trajectory: Trajectory) -> np.ndarray:
    """The verified trace with the highest score (best-of-N); tie: earliest generated."""
    return _from_step_zero(trajectory.best.place)


def weighted(trajectory: Trajectory) -> np.ndarray:
    """Earliest trace with the highest sum of scores over its answer (weighted vote); tie: earliest verified."""
    return _from_step_zero(_earliest(trajectory, trajectory.sums))


def _earliest(trajectory: Trajectory, answer: np.ndarray) -> np.ndarray:
    """Place of the earliest generated trace with each answer code (E, S); NONE where none was generated.

    The latter happens after a score that the log lacks, where the example is partial anyway.
    """
    place = np.take_along_axis(trajectory.first_place, np.maximum(answer, 0), axis=1)
    return np.where((answer >= 0) & (place < trajectory.code.shape[1]), place, NONE)


def _from_step_zero(place: np.ndarray) -> np.ndarray:
    """Put step 0, at which nothing is chosen, before the others."""
    nothing = np.full((len(place), 1), NONE, dtype=np.int32)
    return np.concatenate([nothing, place.astype(np.int32)], axis=1)


SELECTS: dict[str, Callable[[Trajectory], np.ndarray]] = {
    "first": first,
    "majority": majority,
    "best": best,
    "weighted": weighted,
}
