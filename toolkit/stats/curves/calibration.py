"""How well scores predict repairs: discrimination and calibration, for labels from 0 to 1 (means over rollouts).

A label of 0.5 counts as half a repair and half none, so that each example has one weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toolkit.stats.curves.arrays import Interval, interval, unit_numbers
from toolkit.stats.limits.clusters import worth_in_trials
from toolkit.stats.limits.intervals import ResampledValues, wilson
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.scan import kish_number
from toolkit.stats.metrics.spill import Floats, Ints

BINS = 10
LEAST_IN_BIN = 20
"""Examples that a bin with an interval holds at the least, unless there are fewer in all."""


@dataclass(frozen=True)
class CalibrationScores:
    """Numbers of scores against labels; NaN where the labels are of one class. `bins` are ten of equal width."""

    auroc: float
    auprc: float
    brier: float
    ece: float
    rate: float  # mean label
    n: int
    bins: tuple[_Bin, ...]


@dataclass(frozen=True)
class _Bin:
    """One point of the reliability curve: scores from `low` to `high`, their mean, the mean label, how many."""

    low: float
    high: float
    score: float
    label: float
    n: int


@dataclass(frozen=True)
class ScoreBin:
    """Scores from `low` to `high`, their mean, the mean label with its interval, how many of how many clusters.

    Where these are too few, `score` is NaN and `label` unknown.
    """

    low: float
    high: float
    score: float
    label: Interval
    n: int
    clusters: int


def calibration(scores: Floats, labels: Floats) -> CalibrationScores:
    """AUROC (ties one half), AUPRC (average precision), Brier score, expected calibration error, reliability curve.

    `scores` (N,); where some lie outside 0 and 1 they are no probabilities, and the last three are NaN, NaN and empty.
    `labels` (N,) within 0 and 1. ECE is over ten bins of equal width (Guo et al. 2017).
    """
    from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

    total = len(scores)
    if not total:
        return CalibrationScores(np.nan, np.nan, np.nan, np.nan, np.nan, 0, ())
    repairs = float(labels.sum())
    # every example once in each class, 1 and 0, with the weight that its label gives
    classes, weights = np.repeat([1.0, 0.0], total), np.concatenate([labels, 1 - labels])
    on = weights > 0
    classes, chosen, weights = classes[on], np.tile(scores, 2)[on], weights[on]
    probabilities = bool(((scores >= 0) & (scores <= 1)).all())
    bins = reliability(scores, labels) if probabilities else ()
    brier = brier_score_loss(classes, chosen, sample_weight=weights, pos_label=1) if probabilities else np.nan
    return CalibrationScores(
        auroc=float(roc_auc_score(classes, chosen, sample_weight=weights)) if 0 < repairs < total else np.nan,
        auprc=float(average_precision_score(classes, chosen, sample_weight=weights)) if repairs > 0 else np.nan,
        brier=float(brier),
        ece=sum(one.n * abs(one.score - one.label) for one in bins) / total if probabilities else np.nan,
        rate=repairs / total,
        n=total,
        bins=bins,
    )


def reliability(scores: Floats, labels: Floats) -> tuple[_Bin, ...]:
    """Bins of equal width over 0 to 1 that hold any score; 1 belongs to the last."""
    place = _bin_places(scores)
    return tuple(
        _Bin(i / BINS, (i + 1) / BINS, float(scores[on].mean()), float(labels[on].mean()), int(on.sum()))
        for i in range(BINS)
        if (on := place == i).any()
    )


def _bin_places(scores: Floats) -> Ints:
    """The number of the bin of each score within 0 and 1; 1 belongs to the last."""
    return np.clip((scores * BINS).astype(np.int64), 0, BINS - 1)


def wide_bins(
    scores: Floats, labels: Floats, unit: Ints, settings: Settings, least: int = LEAST_IN_BIN
) -> tuple[ScoreBin, ...]:
    """The bins, neighbours taken together until each holds `least` examples, with the interval of the mean label.

    From the lowest score up; a rest that is too small joins the bin before it. `unit` (N,): the clusters that are
    resampled. Nothing where scores are no probabilities.
    """
    if not len(scores) or not bool(((scores >= 0) & (scores <= 1)).all()):
        return ()
    groups: list[list[_Bin]] = [[]]
    for one in reliability(scores, labels):
        groups[-1].append(one)
        if sum(each.n for each in groups[-1]) >= least:
            groups.append([])
    rest = groups.pop()
    if rest:
        groups[-1:] = [groups[-1] + rest] if groups else [rest]
    return tuple(_wide(group, scores, labels, unit, settings) for group in groups)


def _wide(group: list[_Bin], scores: Floats, labels: Floats, unit: Ints, settings: Settings) -> ScoreBin:
    low, high = group[0].low, group[-1].high
    place = _bin_places(scores)
    on = (place >= round(low * BINS)) & (place < round(high * BINS))
    label = interval(labels[on], cluster=unit[on], settings=settings)
    return ScoreBin(low, high, float(scores[on].mean()), label, int(on.sum()), len(np.unique(unit[on])))


LEAST, LEAST_CLUSTERS = 20, 10
"""Scores, and clusters, that a bin needs for a share of its own."""


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
    bins: tuple[ScoreBin, ...] = ()


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
    place = _bin_places(score)
    brier, ece = _resampled(score, label, units, place, settings)
    return ClusteredCalibration(
        *plain,
        Interval(whole.brier, *brier, size, "percentile"),
        Interval(whole.ece, *ece, size, "percentile"),
        _chance(score, label, units, place),
        tuple(_bin(i, score[place == i], label[place == i], units[place == i], settings.level) for i in range(BINS)),
    )


def _share_interval(label: ArrayLike, cluster: ArrayLike, level: float = 0.95) -> Interval:
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
        trials = float(worth_in_trials(single, variance, most, np.array([kish_number(units)]), level)[0])
    low, high = wilson(rate * trials, trials, level)
    return Interval(rate, low, high, n, "wilson")


def _bin(number: int, score: Floats, label: Floats, units: Ints, level: float) -> ScoreBin:
    mean, share = np.nan, Interval(None, None, None, len(score), None)
    clusters = len(np.unique(units))
    if len(score) >= LEAST and clusters >= LEAST_CLUSTERS:
        mean, share = float(score.mean()), _share_interval(label, units, level)
    return ScoreBin(number / BINS, (number + 1) / BINS, mean, share, len(score), clusters)


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
