"""Calibration of scores that come in clusters, such as those of an example's traces, with intervals over the clusters.

A bin's share of right ones has Wilson's interval with as many trials as its variance over clusters is worth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toolkit.stats.curves.arrays import Interval, unit_numbers
from toolkit.stats.curves.calibration import BINS, bin_places, calibration
from toolkit.stats.limits.clusters import worth_in_trials
from toolkit.stats.limits.intervals import ResampledValues, wilson
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.resamples import Resamples, Settings

LEAST, LEAST_CLUSTERS = 20, 10
"""Scores, and clusters, that a bin needs for a share of its own."""


@dataclass(frozen=True)
class ReliabilityBin:
    """Scores from `low` to `high`: how many of how many clusters, their mean, and the share of right ones.

    The last two are None where the bin holds too few.
    """

    low: float
    high: float
    n: int
    clusters: int
    score: float | None = None
    right: Interval | None = None


@dataclass(frozen=True)
class ClusteredCalibration:
    """How well scores tell the chance of being right. `ece` and `bins` are of ten bins of equal width.

    `chance`: the ECE that calibrated scores would have on average, by luck alone. Where scores are no probabilities,
    `brier`, `ece` and `chance` are None, and there are no bins.
    """

    n: int
    clusters: int
    rate: float
    score: float
    auroc: float
    brier: Interval | None
    ece: Interval | None
    chance: float | None = None
    bins: tuple[ReliabilityBin, ...] = ()


def clustered_calibration(
    scores: ArrayLike,
    right: ArrayLike,
    cluster: ArrayLike,
    *,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> ClusteredCalibration:
    """Calibration of at least one score (N,), each right (1) or not (0); `cluster` are resampled together.

    Intervals of Brier score and ECE are percentiles of resampled ones. Resampling adds luck to an ECE, so that its
    interval says nothing where it is hardly above `chance`.
    """
    score, label = np.asarray(scores, np.float64), np.asarray(right, np.float64)
    units = unit_numbers(cluster)
    size = int(units.max()) + 1
    whole = calibration(score, label)
    plain = (len(score), size, whole.rate, float(score.mean()), whole.auroc)
    if not whole.bins:
        return ClusteredCalibration(*plain, None, None)
    place = bin_places(score)
    brier, ece = _resampled(score, label, units, place, settings)
    return ClusteredCalibration(
        *plain,
        Interval(whole.brier, *brier, size, "percentile"),
        Interval(whole.ece, *ece, size, "percentile"),
        _chance(score, label, units, place),
        tuple(_bin(i, score[place == i], label[place == i], units[place == i], settings.level) for i in range(BINS)),
    )


def share_interval(label: ArrayLike, cluster: ArrayLike, level: float = 0.95) -> Interval:
    """Share of right ones with Wilson's interval, its trials as many as the share's variance over clusters is worth.

    With n labels in C clusters, d the sum in each of label − share: the variance is C/(C − 1) · Σd²/n², and
    share · (1 − share) / variance the trials, times (z/t)², n at the most. Without clusters they are the labels.
    """
    values, units = np.asarray(label, np.float64), unit_numbers(cluster)
    n, size, rate = len(values), int(units.max()) + 1, float(values.mean())
    trials = float(n)
    if size < n:
        d = np.bincount(units, weights=values - rate, minlength=size)
        variance = np.array([size / max(size - 1, 1) * float((d**2).sum()) / n**2])
        single, most = np.array([rate * (1 - rate)]), np.array([n])
        trials = float(worth_in_trials(single, variance, most, np.array([size]), level)[0])
    low, high = wilson(rate * trials, trials, level)
    return Interval(rate, low, high, n, "wilson")


def _bin(number: int, score: Floats, label: Floats, units: Ints, level: float) -> ReliabilityBin:
    clusters = len(np.unique(units))
    ends = number / BINS, (number + 1) / BINS
    if len(score) < LEAST or clusters < LEAST_CLUSTERS:
        return ReliabilityBin(*ends, len(score), clusters)
    return ReliabilityBin(*ends, len(score), clusters, float(score.mean()), share_interval(label, units, level))


def _chance(score: Floats, label: Floats, units: Ints, place: Ints) -> float | None:
    """The mean of the ECE were every bin's deviation normal about 0, with its variance over clusters."""
    size = int(units.max()) + 1
    if size < 2:
        return None
    sums = np.zeros((BINS, size))
    np.add.at(sums, (place, units), score - label)
    centred = sums - sums.mean(axis=1, keepdims=True)
    spread = np.sqrt(size / (size - 1) * (centred**2).sum(axis=1))  # of a bin's sum of deviations
    return float(np.sqrt(2 / np.pi) * spread.sum() / len(score))


def _resampled(
    score: Floats, label: Floats, units: Ints, place: Ints, settings: Settings
) -> tuple[tuple[float | None, float | None], tuple[float | None, float | None]]:
    """Percentile limits of the Brier score and of the ECE."""
    size = int(units.max()) + 1
    if size < 2:
        return (None, None), (None, None)
    sums = np.zeros((size, BINS + 2))  # by cluster: score − label of each bin, squared errors, how many
    np.add.at(sums, (units, place), score - label)
    sums[:, BINS] = np.bincount(units, weights=(score - label) ** 2, minlength=size)
    sums[:, BINS + 1] = np.bincount(units, minlength=size)
    parts = [counts @ sums for counts in Resamples(size, settings.resamples, settings.seed).by_rows()]
    drawn = np.concatenate(parts)
    total = drawn[:, -1]
    values = np.stack([drawn[:, BINS] / total, np.abs(drawn[:, :BINS]).sum(axis=1) / total])
    ordered = ResampledValues.of(values)
    low, high = ordered.percentile(settings.level)
    (brier, ece) = [(float(low[i]), float(high[i])) if ordered.enough[i] else (None, None) for i in range(2)]
    return brier, ece
