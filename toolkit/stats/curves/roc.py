"""Area under the ROC curve of scores for correctness: pooled, and within examples. Ties count one half."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.errors import MismatchError
from toolkit.stats.curves.arrays import Interval, PairedInterval, interval, unit_numbers
from toolkit.stats.limits.intervals import ResampledValues
from toolkit.stats.limits.student import single_critical_value, student_to_normal, two_sided_p
from toolkit.stats.metrics.resamples import THREADS, Counts, Resamples, Settings
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import Strata
from toolkit.table_rows import starts_of_equal_runs

GATHER_BYTES = 64 * 2**20
"""Traces' resampled weights held at once."""


def _select_scored_and_judged(scores: ArrayLike, correct: ArrayLike, number: Ints | None
          ) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.int64]]:  # fmt: skip
    """Scores, verdicts (right or wrong) and example numbers of the traces with both a score and a judgement. number:
    of each trace's example; None: all of one.
    """
    score = np.asarray(scores, np.float64)
    right = np.asarray(correct, np.float64)
    number = np.zeros(len(score), np.int64) if number is None else number
    if not len(score) == len(right) == len(number):
        raise MismatchError(
            f"`scores` ({len(score)}), `correct` ({len(right)}) and `group` ({len(number)}) differ in length"
        )
    known = ~np.isnan(score) & ~np.isnan(right)
    return score[known], right[known] > 0.5, number[known]


def _codes(group: ArrayLike) -> NDArray[np.int64]:
    """The place of each value among the distinct ones. Whole numbers that lie close together are not sorted."""
    values = np.asarray(group)
    if not np.issubdtype(values.dtype, np.integer) or not len(values) or np.ptp(values) > 4 * len(values):
        return np.unique(values, return_inverse=True)[1]
    offset = values - values.min()
    places: NDArray[np.int64] = np.cumsum(np.bincount(offset) > 0) - 1
    return places[offset]


def _average_ranks(score: Floats, number: Ints) -> Floats:
    """The rank of each score within its number, from 1; equal scores share the mean of their ranks."""
    order = np.lexsort((score, number)) if number.any() else np.argsort(score)
    ordered, of = score[order], number[order]
    group, first = starts_of_equal_runs(of), starts_of_equal_runs(of, ordered)
    size = np.diff(first, append=len(of))
    ranks = np.empty(len(score))
    ranks[order] = np.repeat(first + (size + 1) / 2, size) - np.repeat(group, np.diff(group, append=len(of)))
    return ranks


def aucs_by_group(scores: ArrayLike, correct: ArrayLike, group: ArrayLike) -> NDArray[np.float64]:
    """The AUC of each distinct group in ascending order; NaN for a group without both right and wrong traces."""
    every = _codes(group)
    score, right, number = _select_scored_and_judged(scores, correct, every)
    size = int(every.max(initial=-1)) + 1
    if not len(score):
        return np.full(size, np.nan)
    positives = np.bincount(number, weights=right, minlength=size)
    negatives = np.bincount(number, minlength=size) - positives
    wins = np.bincount(number, weights=np.where(right, _average_ranks(score, number), 0.0), minlength=size)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (wins - positives * (positives + 1) / 2) / (positives * negatives)


def auc(scores: ArrayLike, correct: ArrayLike) -> float:
    """The probability that a right trace scores above a wrong one, over all traces pooled. Ties count one half.

    Traces without a score or a judgement (NaN) are left out. NaN when all that remain are right, or all wrong.
    """
    values = aucs_by_group(scores, correct, np.zeros(len(np.asarray(scores)), np.int64))
    return float(values[0]) if len(values) else float("nan")


def auc_within(scores: ArrayLike, correct: ArrayLike, group: ArrayLike) -> float:
    """The mean over examples (`group`) of the AUC among an example's right and wrong traces; NaN when none has both."""
    values = aucs_by_group(scores, correct, group)
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


@dataclass(frozen=True)
class AucIntervals:
    """Both AUCs with intervals. Their `n` count examples: with a scored trace, and with right and wrong traces."""

    auc: Interval
    auc_within: Interval


def auc_intervals(
    scores: ArrayLike,
    correct: ArrayLike,
    group: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    stratum: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> AucIntervals:
    """The pooled and the within-example AUC of traces with percentile intervals, resampled by example (`group`).

    Where fewer than 100 examples have a right trace, or a wrong one, the pooled auc has limits on the logit scale, from
    the variance of its influences (E. R. DeLong et al., Biometrics 44 (1988) 837): percentiles cover 73 to 93 % there.

    `cluster`: a cluster for each trace, resampled instead; `stratum`: the stratum of each, within which these are
    drawn. Work grows with traces × resamples: about 2 s for 37,000
    traces and 10,000 resamples on two cores. Examples without a scored and judged trace are left out beforehand.
    """
    score, right, number = _select_scored_and_judged(scores, correct, None if group is None else _codes(group))
    known = ~np.isnan(np.asarray(scores, np.float64)) & ~np.isnan(np.asarray(correct, np.float64))
    units = unit_numbers(number if cluster is None else np.asarray(cluster)[known])
    examples, first = np.unique(number, return_index=True)
    pooled = auc(score, right)
    if len(examples) == 0:
        nothing = Interval(None, None, None, 0, None)
        return AucIntervals(nothing, nothing)
    strata = None
    if stratum is not None:
        names, place = np.unique(np.asarray(stratum)[known][first], return_inverse=True)
        strata = Strata.of("", place, tuple(map(str, names)), units[first], None)
    within = interval(
        aucs_by_group(score, right, number),
        cluster=units[first],
        settings=Settings(settings.resamples, settings.level, "percentile", settings.seed),
        rate=False,
        strata=strata,
    )
    of_unit = None if strata is None else strata.number[np.unique(units[first], return_index=True)[1]]
    return AucIntervals(_pooled_interval(pooled, score, right, units, of_unit, len(examples), settings), within)


def _pooled_interval(
    pooled: float, score: Floats, right: NDArray[np.bool_], units: NDArray[np.int64], stratum: Ints | None,
    examples: int, settings: Settings,
) -> Interval:  # fmt: skip
    size = int(units.max()) + 1
    if np.isnan(pooled) or size < 2:
        return Interval(None if np.isnan(pooled) else pooled, None, None, examples, None)
    if min(len(np.unique(units[right])), len(np.unique(units[~right]))) < FEW_OF_A_KIND:
        order = np.lexsort((right, score))  # what rounding leaves over hangs on no order of the rows
        area = pooled_auc(score[order], right[order], units[order], size)
        alone = (area if stratum is None else area.with_strata(stratum)).interval(settings.level)
        return Interval(pooled, alone.low, alone.high, examples, alone.method and "logit")
    order = np.argsort(score, kind="stable")
    score, right, units = score[order], right[order], units[order]
    wrong_unit, right_unit = units[~right], units[right]
    below = np.searchsorted(score[~right], score[right], "left")
    upto = np.searchsorted(score[~right], score[right], "right")
    tied = not np.array_equal(below, upto)
    step = max(1, GATHER_BYTES // (8 * len(score)))

    def values(counts: Counts) -> Floats:
        """The pooled AUC of some resamples, from their counts (rows, units). Integer sums make it exact."""
        weight = np.take(counts, right_unit, axis=1).astype(np.float32)
        lost = np.zeros((len(counts), len(wrong_unit) + 1))
        np.cumsum(np.take(counts, wrong_unit, axis=1), axis=1, dtype=np.float64, out=lost[:, 1:])
        beaten = np.take(lost, below, axis=1)
        twice = np.einsum("ij,ij->i", weight, beaten + np.take(lost, upto, axis=1) if tied else 2 * beaten)
        with np.errstate(invalid="ignore", divide="ignore"):
            return twice / (2 * weight.sum(axis=1, dtype=np.float64) * lost[:, -1])

    parts: list[Floats] = []
    with ThreadPoolExecutor(THREADS) as pool:
        for counts in Resamples(size, settings.resamples, settings.seed, stratum).blocks_of_counts():
            parts += pool.map(values, [counts[i : i + step] for i in range(0, len(counts), step)])
    ordered = ResampledValues.of(np.concatenate(parts)[None])
    if not ordered.has_enough[0]:
        return Interval(pooled, None, None, examples, None)
    low, high = ordered.percentile_limits(settings.level)
    return Interval(pooled, float(low[0]), float(high[0]), examples, "percentile")


FEW_OF_A_KIND = 100
"""Examples with a right trace, or a wrong one, below which percentiles of resampled areas cover too little."""

LEAST_UNITS = 3
"""Units below which there is no interval."""


@dataclass(frozen=True)
class InfluencedEstimate:
    """An estimate (NaN where there is none), the influence (U,) of each unit on it, and the number of units."""

    estimate: float
    influence: Floats
    units: int

    def with_strata(self, stratum: Ints) -> InfluencedEstimate:
        """The same estimate with its variance taken within strata (U,). A stratum of G units adds G / (G − 1) times the
        squares of its influences less their mean.
        """
        count = np.bincount(stratum)
        moved = self.influence - (np.bincount(stratum, self.influence) / count)[stratum]
        times = count / np.maximum(count - 1, 1) * max(1, self.units - 1) / max(self.units, 1)
        return replace(self, influence=moved * np.sqrt(times)[stratum])

    def interval(self, level: float = 0.95, widened: float = 1.0) -> Interval:
        """The delta method's interval of a rate or an area, on the logit scale. `widened` multiplies the error."""
        if np.isnan(self.estimate):
            return Interval(None, None, None, self.units, None)
        room = self.estimate * (1 - self.estimate)
        error = widened * _standard_error(self.influence, self.units)
        if self.units < LEAST_UNITS or room <= 0 or not error:
            return Interval(self.estimate, None, None, self.units, None)
        centre, half = (
            np.log(self.estimate / (1 - self.estimate)),
            single_critical_value(level, self.units) * error / room,
        )
        low, high = (float(1 / (1 + np.exp(-end))) for end in (centre - half, centre + half))
        return Interval(self.estimate, low, high, self.units, "t")

    def difference_to(self, other: InfluencedEstimate, level: float = 0.95, widened: float = 1.0) -> PairedInterval:
        """The difference of two estimates on the same units, with its interval and p-value."""
        difference, units = self.estimate - other.estimate, max(self.units, other.units)
        if np.isnan(difference):
            return PairedInterval(None, None, None, None, units, None)
        error = widened * _standard_error(self.influence - other.influence, units)
        if units < LEAST_UNITS or not error:
            return PairedInterval(difference, None, None, None, units, None)
        half = single_critical_value(level, units) * error
        size = student_to_normal(np.array(abs(difference) / error), units - 1)
        low, high = max(-1.0, difference - half), min(1.0, difference + half)
        return PairedInterval(difference, low, high, float(two_sided_p(size)), units, "t")


def _standard_error(influence: Floats, units: int) -> float:
    return math.sqrt(units / max(1, units - 1) * math.fsum((influence**2).tolist()))


def pooled_auc(score: Floats, right: NDArray[np.bool_], unit: Ints, size: int) -> InfluencedEstimate:
    """The probability that a right trace scores above a wrong one. `unit` (N,): numbers below `size`, NaN left out."""
    scored = ~np.isnan(score)
    score, right, unit = score[scored], right[scored], unit[scored]
    good, bad = score[right], score[~right]
    known = len(np.unique(unit))
    if not len(good) or not len(bad):
        return InfluencedEstimate(np.nan, np.zeros(size), known)
    above = _share_below(good, np.sort(bad))
    below = 1 - _share_below(bad, np.sort(good))
    area = float(above.mean())
    influence = np.bincount(unit[right], above - area, size) / len(good)
    influence += np.bincount(unit[~right], below - area, size) / len(bad)
    return InfluencedEstimate(area, influence, known)


def _share_below(values: Floats, others: Floats) -> Floats:
    """The share of `others` (sorted) that lie below each of `values`. Ties count one half."""
    ends = np.searchsorted(others, values, "left") + np.searchsorted(others, values, "right")
    return ends / (2 * len(others))


def grouped_auc(score: Floats, right: NDArray[np.bool_], group: ArrayLike, unit: Ints, size: int) -> InfluencedEstimate:
    """The mean AUC over the examples (`group`) with right and wrong traces. The rest is as in `pooled_auc`."""
    _, first = np.unique(np.asarray(group), return_index=True)
    return mean_with_influences(aucs_by_group(score, right, group), unit[first], size)


def mean_with_influences(values: Floats, unit: Ints, size: int) -> InfluencedEstimate:
    """The mean of one value an example, with each unit's influence. `unit` (n,): numbers below `size`; NaN left out."""
    known = ~np.isnan(values)
    if not known.any():
        return InfluencedEstimate(np.nan, np.zeros(size), 0)
    mean = float(values[known].mean())
    influence = np.bincount(unit[known], values[known] - mean, size) / known.sum()
    return InfluencedEstimate(mean, influence, len(np.unique(unit[known])))
