"""How sure a Pareto front is: in what share of normal draws each policy is on it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.kept import Floats


def front_shares(drawn: Iterable[tuple[Floats, Floats]]) -> Floats:
    """Share of the draws (P,) in which each point is on the front, from blocks of (quality, cost), (P, draws) each."""
    total, size = None, 0
    for quality, cost in drawn:
        on = on_front(quality, cost).sum(axis=1)
        total = on if total is None else total + on
        size += quality.shape[1]
    return np.zeros(0) if total is None else total / size


def on_front(quality: Floats, cost: Floats) -> NDArray[np.bool_]:
    """Which points no other beats in each draw (P, draws): points that are equal in both count as one."""
    order = np.lexsort((-quality, cost), axis=0)
    ordered = np.take_along_axis(quality, order, axis=0)
    best = np.maximum.accumulate(ordered, axis=0)
    on = np.ones(quality.shape, bool)
    on[1:] = ordered[1:] > best[:-1]
    out = np.empty(quality.shape, bool)
    np.put_along_axis(out, order, on, axis=0)
    return out
