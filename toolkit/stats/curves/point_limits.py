"""Limits of the single points of a curve: those that the same numbers have in the tables of a run."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.possible import within
from toolkit.stats.curves.gate_steps import GateSteps, ratio
from toolkit.stats.limits.clusters import FEWEST_CLUSTERS, jackknife_variance, korn_graubard, student
from toolkit.stats.limits.intervals import MIN_EVENTS, wilson
from toolkit.stats.limits.studentised import Spread, studentised_limits
from toolkit.stats.metrics.kept import Floats
from toolkit.stats.metrics.outcomes import CHUNK

STILL = 1e-20
"""A variance below this share of the square of the mean is rounding."""


def point_limits(
    steps: GateSteps, metric: str, estimate: Floats, low: Floats, high: Floats, level: float
) -> tuple[Floats, Floats]:
    """Limits of a metric at every point (P + 1,), from its percentile limits.

    Rates of independent examples get Wilson's where events are few, those of clusters Korn and Graubard's; costs are
    studentised, and those of clusters get Student's.
    """
    on, rate = steps.known(metric), steps.among.get(metric, (metric,))[0] in steps.rate
    top, of = steps.among.get(metric, (metric, None))
    if steps.independent and rate:
        return _few_events(steps, top, of, on, low, high, level)
    left = _LeftOut.of(steps, top, of, on, estimate)
    if rate:
        ends = _korn_graubard(steps, top, of, on, estimate, left, level)
    else:
        ends = _cost(steps, estimate, low, high, left, level)
    enough = left.units >= (2 if steps.independent else FEWEST_CLUSTERS)
    possible = within(estimate, ends[0], ends[1], 0.0, 1.0 if rate else np.inf)
    return np.where(enough, possible[0], np.nan), np.where(enough, possible[1], np.nan)


def _few_events(
    steps: GateSteps, top: str, of: str | None, on: NDArray[np.bool_], low: Floats, high: Floats, level: float
) -> tuple[Floats, Floats]:
    low, high = low.copy(), high.copy()
    events = steps.totals(top, on)
    trials = np.full(len(events), float(on.sum())) if of is None else steps.totals(of, on)
    events, trials = np.round(events, 9), np.round(trials, 9)  # they are sums of steps along the band
    few = (np.minimum(events, trials - events) < MIN_EVENTS) & (trials > 0)
    for p in np.flatnonzero(few).tolist():
        some = trials[p] > 1
        low[p], high[p] = wilson(float(events[p]), float(trials[p]), level) if some else (math.nan, math.nan)
    return low, high


def _parted(values: Floats) -> Floats:
    """1 where a value is neither 0 nor 1."""
    return ((values != 0) & (values != 1)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """What the units say of a value at every point, (P + 1,) each.

    `first`, `second`: sums of d and d², d being what leaving a unit out adds to the value; `spread`: of what each unit
    adds to the value, as in tables; `units`: that have a part in it.
    """

    first: Floats
    second: Floats
    spread: Spread
    units: Floats

    @classmethod
    def of(cls, steps: GateSteps, top: str, of: str | None, on: NDArray[np.bool_], estimate: Floats) -> _LeftOut:
        """In blocks of units."""
        from scipy.sparse import csc_matrix

        names = [name for name in (top, of) if name is not None]
        units, unit = np.unique(steps.unit[on], return_inverse=True)
        shape = steps.points + 1, len(units)
        kept = [np.bincount(unit, weights=steps.kept[name][on], minlength=len(units)) for name in names]
        moved = [(steps.fired[name] - steps.kept[name])[on] for name in names]
        gained = [csc_matrix((values, (steps.group[on], unit)), shape=shape) for values in moved]
        examples = np.bincount(unit, minlength=len(units)).astype(np.float64)
        wholes = [steps.totals(name, on)[:, None] for name in names]
        whole: Floats = wholes[-1] if of is not None else np.full((shape[0], 1), examples.sum())
        sums, known = np.zeros((4, shape[0])), np.zeros(shape[0])
        for start in range(0, len(units), CHUNK):
            cut = slice(start, start + CHUNK)
            mine = [np.cumsum(g[:, cut].toarray(), axis=0) + k[cut] for g, k in zip(gained, kept, strict=True)]
            counted = mine[-1] if of is not None else np.broadcast_to(examples[cut], mine[0].shape)
            d = np.nan_to_num(ratio(wholes[0] - mine[0], whole - counted) - estimate[:, None])
            added = (mine[0] - estimate[:, None] * counted) * ratio(np.full(whole.shape, float(len(units))), whole)
            sums += [part.sum(axis=1) for part in (d, d**2, added**2, added**3)]
            known += (counted > 0).sum(axis=1)
        return cls(sums[0], sums[1], Spread(sums[2] / len(units), sums[3] / len(units)), known)


def _korn_graubard(
    steps: GateSteps, top: str, of: str | None, on: NDArray[np.bool_], estimate: Floats, left: _LeftOut, level: float
) -> Floats:
    parted = sum(steps.totals(name, on, _parted) for name in (top, of) if name is not None)
    count = np.full(len(estimate), float(on.sum())) if of is None else steps.totals(of, on)
    ends, known = np.full((2, len(estimate)), np.nan), np.isfinite(estimate)
    variance = jackknife_variance(left.first, left.second, left.units)
    most = np.where(parted < 0.5, count, np.inf)
    ends[:, known] = korn_graubard(estimate[known], variance[known], most[known], left.units[known], level)
    return ends


def _cost(steps: GateSteps, estimate: Floats, low: Floats, high: Floats, left: _LeftOut, level: float) -> Floats:
    if steps.independent:
        ends = np.array(studentised_limits(estimate, low, high, left.spread))
    else:
        variance = jackknife_variance(left.first, left.second, left.units)
        ends = np.array(student(estimate, variance, left.units, level)[:2])
    return np.where(left.spread.second > STILL * estimate**2, ends, (low, high))
