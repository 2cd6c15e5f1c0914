"""Which policies are told apart by one metric: sets of ranks, ties with the leader, adjusted p-values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.stats.bootstrap.influence import Series, influences
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.many.simultaneous import (
    MOST_PAIRED,
    SCREENING,
    JointEstimates,
    all_pairs,
    bonferroni,
    bonferroni_critical,
    covariance_of,
    error_of,
    rank_sets,
    screened,
    to_one,
)
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.resamples import Settings


@dataclass(frozen=True)
class Standing:
    """Who takes part: those that can lead, who does, and the baseline of the others."""

    among: Sequence[int]
    leader: int
    baseline: int | None


def told_apart(
    sample: WholeSample, series: Series, standing: Standing, covariance: Floats | None, settings: Settings
) -> tuple[Floats, float]:
    """What is told of the policies (7, P) by one metric, NaN: nothing; and the critical value that differences to the
    baseline share, NaN without one.

    The lowest and the highest rank of each; 1 where it is not told apart from the leader; the p-value of its difference
    to the leader, adjusted for all pairs, and to the baseline, adjusted for all differences to it, with the limits that
    hold for all of these. Where `covariance` is None there are more series than can be paired: then no ranks, and only
    those that can be the best are compared with each other, and differences to the baseline have Bonferroni's bound.
    """
    leads, owner = series.owner[list(standing.among)], series.owner
    copies = np.bincount(leads[leads >= 0], minlength=len(series))
    leader = int(owner[standing.leader])
    base = -1 if standing.baseline is None else int(owner[standing.baseline])
    falling = series.metric.column.cost
    worth = -series.value if falling else series.value
    found, critical = np.full((7, len(series)), np.nan), math.nan
    if covariance is not None:
        estimates = joint_estimates(sample, series, worth, covariance)
        if leader >= 0:
            found[:4] = _paired(estimates, copies, leader, settings)
        if base >= 0:
            against = to_one(estimates, base, settings)
            critical = against.critical
            found[4] = against.p_values(base)
            limits = (-against.high, -against.low) if falling else (against.low, against.high)
            found[5:, against.first] = limits
    else:
        if leader >= 0:
            found[2:4] = _possible(sample, series, worth, copies, leader, settings)
        if base >= 0:
            error, apart = _errors(sample, series, base), series.value - series.value[base]
            found[4] = bonferroni(apart, error, sample.units.count)
            critical = bonferroni_critical(len(series), sample.units.count, settings.level)
            found[5:] = np.where(error > 0, [apart - critical * error, apart + critical * error], np.nan)
    of_policies = np.where(owner >= 0, found[:, owner], np.nan)
    alone = np.setdiff1d(np.arange(len(owner)), standing.among)
    of_policies[:4, alone] = np.nan
    if standing.baseline is not None:
        of_policies[4:, standing.baseline] = np.nan
    of_policies[3, standing.leader] = np.nan
    return of_policies, critical


def _paired(estimates: JointEstimates, copies: Ints, leader: int, settings: Settings) -> Floats:
    """Lowest and highest rank, tie with the leader, adjusted p-value (4, S), from all pairs of those with copies."""
    out = np.full((4, len(copies)), np.nan)
    some = np.flatnonzero(copies)
    found = all_pairs(estimates.some(some), settings)
    place = int(np.searchsorted(some, leader))
    told = found.better[place] | found.better[:, place]
    out[:, some] = [*rank_sets(found, copies[some]), ~told, found.p_values(place)]
    return out


def _possible(
    sample: WholeSample, series: Series, worth: Floats, copies: Ints, leader: int, settings: Settings
) -> Floats:
    """Tie with the leader and adjusted p-value (2, S): a part of the error rate finds those that are told apart from it
    by Bonferroni's bound, the rest is for all pairs of those that are left, if these are few enough.
    """
    out = np.full((2, len(copies)), np.nan)
    some = np.flatnonzero(copies)
    error = _errors(sample, series, leader)
    p_value = screened(worth[leader] - worth[some], error[some], sample.units.count) / SCREENING
    left = some[p_value > 1 - settings.level]
    out[:, some] = p_value > 1 - settings.level, np.minimum(p_value, 1.0)
    if len(left) <= min(MOST_PAIRED, sample.units.most_statistics):
        rest = replace(settings, level=1 - (1 - SCREENING) * (1 - settings.level))
        few = series.some(left)
        covariance = covariance_of(influences(sample, [few]))
        estimates = joint_estimates(sample, few, worth[left], covariance)
        _, _, ties, p_value = _paired(estimates, np.ones(len(left), np.int64), int(np.searchsorted(left, leader)), rest)
        out[:, left] = ties, np.minimum(1.0, p_value / (1 - SCREENING))
    return out


def joint_estimates(sample: WholeSample, series: Series, worth: Floats, covariance: Floats) -> JointEstimates:
    """Of the series, each `worth` so much, with what exact tests of 0/1 outcomes take."""
    sums = cluster_sums(sample, series)
    return JointEstimates(worth, covariance, sample.units.count, trials_of(sample, series), sums)


def cluster_sums(sample: WholeSample, series: Series) -> Floats | None:
    """Sums of outcomes of 0 to 1 over each cluster (S, G), where all values are shares of the same clustered examples.

    They are signed so that more is better, as the values are for which they stand.
    """
    if sample.independent or not series.metric.column.rate or series.statistics.shape[1] != 2 or not len(series):
        return None
    events, weights = series.statistics.T
    if (weights != weights[0]).any() or (sample.scan.reach[events] > sample.scan.reach[weights[0]]).any():
        return None
    rows = np.concatenate(list(sample.units.chunks([sample.scan.statistics[i] for i in events])), axis=1)
    return -rows if series.metric.column.cost else rows


def trials_of(sample: WholeSample, series: Series) -> int | None:
    """How many examples the values are shares of, where each is a unit of 0 or 1 and all are over the same."""
    if not (sample.independent and series.metric.column.rate and series.statistics.shape[1] == 2):
        return None
    events, weights = series.statistics.T
    alike = (weights == weights[0]).all() and sample.scan.binary[np.append(events, weights[0])].all()
    return round(sample.scan.total[weights[0]]) if alike else None


def _errors(sample: WholeSample, series: Series, reference: int) -> Floats:
    """Standard errors (S,) of the differences to one of the series, from one pass and no matrix of all."""
    own, apart = np.zeros(len(series)), np.zeros(len(series))
    for block in _groups(sample, series, reference):
        own += block[0]
        apart += block[1]
    return error_of(series.value - series.value[reference], apart, own + own[reference], sample.units.count)


def _groups(sample: WholeSample, series: Series, reference: int) -> Iterator[tuple[Floats, Floats]]:
    """Squares summed over a chunk of units: of influences, and of their differences to the reference's (S,)."""
    most = max(1, min(MOST_PAIRED, sample.units.most_statistics // 2))
    for start in range(0, len(series), most):
        here = np.arange(start, min(start + most, len(series)))
        own, apart = np.zeros(len(series)), np.zeros(len(series))
        for block in influences(sample, [series.some(here), series.some(np.array([reference]))]):
            own[here] += np.einsum("ij,ij->i", block[:-1], block[:-1])
            moved = block[:-1] - block[-1]
            apart[here] += np.einsum("ij,ij->i", moved, moved)
        yield own, apart
