"""How well scores predict repairs: discrimination and calibration, for labels from 0 to 1 (means over rollouts).

A label of 0.5 counts as half a repair and half none, so that each example has one weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from toolkit.stats.curves.arrays import Interval, interval, unit_numbers
from toolkit.stats.limits.clusters import effective_trials
from toolkit.stats.limits.intervals import ResampledValues, wilson
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.scan import kish_number
from toolkit.stats.metrics.spill import Floats, Ints

BINS = 10
LEAST_IN_BIN = 20
"""Examples that a bin with an interval holds at the least, unless there are fewer in all."""


@dataclass(frozen=True)
class CalibrationScores:
    """Measures of how well scores predict labels; NaN where labels are of one class. `bins`: ten of equal width."""

    auroc: float
    auprc: float
    brier: float
    ece: float
    rate: float  # mean label
    n: int
    bins: tuple[_Bin, ...]


@dataclass(frozen=True)
class _Bin:
    """A point of the reliability curve: scores from `low` to `high`, their mean, the mean label, how many scores."""

    low: float
    high: float
    score: float
    label: float
    n: int


@dataclass(frozen=True)
class ScoreBin:
    """Scores from `low` to `high`: their mean, the mean label with interval, the numbers of scores and clusters.

    Where these are too few, `score` is NaN and `label` unknown.
    """

    low: float
    high: float
    score: float
    label: Interval
    n: int
    clusters: int


def calibration(scores: Floats, labels: Floats) -> CalibrationScores:
    """Measures scores against labels: AUROC (ties one half), AUPRC, Brier score, calibration error, reliability curve.

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
    """The bins of equal width over 0 to 1 that hold any score. A score of 1 belongs to the last."""
    place = _bin_numbers(scores)
    return tuple(
        _Bin(i / BINS, (i + 1) / BINS, float(scores[on].mean()), float(labels[on].mean()), int(on.sum()))
        for i in range(BINS)
        if (on := place == i).any()
    )


def _bin_numbers(scores: Floats) -> Ints:
    """The number of the bin of each score within 0 and 1; 1 belongs to the last."""
    return np.clip((scores * BINS).astype(np.int64), 0, BINS - 1)


def wide_bins(
    scores: Floats, labels: Floats, unit: Ints, settings: Settings, least: int = LEAST_IN_BIN
) -> tuple[ScoreBin, ...]:
    """Joins neighbouring bins until each holds `least` examples, and gives the interval of each one's mean label.

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
    return tuple(_join_bins(group, scores, labels, unit, settings) for group in groups)


def _join_bins(group: list[_Bin], scores: Floats, labels: Floats, unit: Ints, settings: Settings) -> ScoreBin:
    low, high = group[0].low, group[-1].high
    place = _bin_numbers(scores)
    on = (place >= round(low * BINS)) & (place < round(high * BINS))
    label = interval(labels[on], cluster=unit[on], settings=settings)
    return ScoreBin(low, high, float(scores[on].mean()), label, int(on.sum()), len(np.unique(unit[on])))


LEAST, LEAST_CLUSTERS = 20, 10
"""Scores, and clusters, that a bin needs for a share of its own."""


@dataclass(frozen=True)
class ClusteredCalibration:
    """How well scores predict the probability of being right. `ece` and `bins` rest on ten bins of equal width.

    `ece`: less its bias, with what the data do not rule out; from 0 on where they cannot tell it from 0. `chance`: the
    ECE that calibrated scores would have on average, by luck alone. Where scores are no probabilities, `brier`, `ece`
    and `chance` are None, and there are no bins.
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

    @property
    def reliability_points(self) -> tuple[tuple[float, float, float | None, float | None], ...]:
        """Mean score, share of right items and its limits, of each bin that holds enough of them."""
        labels = ((one.score, one.label) for one in self.bins)
        return tuple((x, y.estimate, y.low, y.high) for x, y in labels if y.estimate is not None)


def clustered_calibration(
    scores: ArrayLike,
    right: ArrayLike,
    cluster: ArrayLike,
    *,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> ClusteredCalibration:
    """The calibration of scores (N,) of items that are `right` (1) or not (0); a `cluster` is resampled together.

    The interval of the Brier score is of percentiles of resampled ones; for that of the ECE see `_ece_interval`.
    """
    score, label = np.asarray(scores, np.float64), np.asarray(right, np.float64)
    units = unit_numbers(cluster)
    size = int(units.max()) + 1
    whole = calibration(score, label)
    plain = (len(score), size, whole.rate, float(score.mean()), whole.auroc)
    if not whole.bins:
        return ClusteredCalibration(*plain, None, None)
    place = _bin_numbers(score)
    brier = _brier_limits(score, label, units, settings)
    return ClusteredCalibration(
        *plain,
        Interval(whole.brier, *brier, size, "percentile"),
        _ece_interval(whole.ece, score, label, units, place, settings),
        _calibrated_ece(score, label, units, place),
        tuple(
            _clustered_bin(i, score[place == i], label[place == i], units[place == i], settings.level)
            for i in range(BINS)
        ),
    )


def _share_interval(label: ArrayLike, cluster: ArrayLike, level: float = 0.95) -> Interval:
    """The share of right items with Wilson's interval; the trials match the share's variance over clusters.

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
        trials = float(effective_trials(single, variance, most, np.array([kish_number(units)]), level)[0])
    low, high = wilson(rate * trials, trials, level)
    return Interval(rate, low, high, n, "wilson")


def _clustered_bin(number: int, score: Floats, label: Floats, units: Ints, level: float) -> ScoreBin:
    mean, share = np.nan, Interval(None, None, None, len(score), None)
    clusters = len(np.unique(units))
    if len(score) >= LEAST and clusters >= LEAST_CLUSTERS:
        mean, share = float(score.mean()), _share_interval(label, units, level)
    return ScoreBin(number / BINS, (number + 1) / BINS, mean, share, len(score), clusters)


def _bin_deviations(score: Floats, label: Floats, units: Ints, place: Ints) -> tuple[Floats, Floats]:
    """Each bin's sum of score − label over the number of scores (BINS,), and the covariance over clusters."""
    size = int(units.max()) + 1
    sums = np.zeros((size, BINS))
    np.add.at(sums, (units, place), (score - label) / len(score))
    centred = sums - sums.mean(axis=0)
    return sums.sum(axis=0), size / max(size - 1, 1) * centred.T @ centred


def _calibrated_ece(score: Floats, label: Floats, units: Ints, place: Ints) -> float | None:
    """The ECE to expect of calibrated scores: its mean if each bin's deviation were normal about 0."""
    if int(units.max()) < 1:
        return None
    _, covariance = _bin_deviations(score, label, units, place)
    return float(np.sqrt(2 / np.pi) * np.sqrt(np.diag(covariance)).sum())


HALVINGS = 16
"""Steps by which a limit of the ECE is searched between 0 and 1."""


def _ece_interval(plain: float, score: Floats, label: Floats, units: Ints, place: Ints, settings: Settings) -> Interval:
    """The ECE less its bias, with an interval of all true values that a test does not reject.

    Luck adds to an ECE, and resampling adds it again: percentiles of resampled ones hold a true ECE of 0 never. The
    bias is what normal deviations, with the covariance of the bins over clusters, add to the observed ones (A. Kumar,
    P. Liang and T. Ma, NeurIPS 2019). A true ECE is retained where the observed one is in the central part of those of
    bins that deviate by so much in all, and by normal luck. They do so as observed, or all bins alike: the interval
    holds what either retains. No bin varies less than tosses with its share, two more of them made up, one right.
    """
    size, n = int(units.max()) + 1, len(score)
    if size < 2:
        return Interval(plain, None, None, size, None)
    moved, covariance = _bin_deviations(score, label, units, place)
    count, right = np.bincount(place, minlength=BINS), np.bincount(place, weights=label, minlength=BINS)
    share, diagonal = (right + 1) / (count + 2), np.diag_indices(BINS)
    covariance[diagonal] = np.maximum(covariance[diagonal], count * share * (1 - share) / n**2)
    values, vectors = np.linalg.eigh(covariance)
    normal = np.random.default_rng([settings.seed, BINS]).standard_normal((settings.resamples, BINS))
    drawn = normal @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
    estimate = max(0.0, 2 * plain - float(np.abs(moved + drawn).sum(axis=1).mean()))
    directions = [count / n] if not plain else [count / n, moved / plain]
    tails = (1 - settings.level) / 2, (1 + settings.level) / 2
    ends = [[_true_ece_limit(plain, direction, drawn, tail) for direction in directions] for tail in tails]
    return Interval(estimate, min(*ends[1], estimate), max(*ends[0], plain), size, "inverted")


def _true_ece_limit(observed: float, direction: Floats, deviations: Floats, tail_share: float) -> float:
    """The true ECE under which the observed one is the quantile `tail_share` of resampled ones; 0 if none is so low."""

    def is_high_enough(true: float) -> bool:
        return bool(np.quantile(np.abs(true * direction + deviations).sum(axis=1), tail_share) >= observed)

    low, high = 0.0, 0.0 if is_high_enough(0.0) else 1.0
    for _ in range(HALVINGS if high else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if is_high_enough(middle) else (middle, high)
    return high


def _brier_limits(score: Floats, label: Floats, units: Ints, settings: Settings) -> tuple[float | None, float | None]:
    size = int(units.max()) + 1
    if size < 2:
        return None, None
    sums = np.stack([np.bincount(units, weights=(score - label) ** 2), np.bincount(units)], axis=1)
    drawn = np.concatenate(
        [counts @ sums for counts in Resamples(size, settings.resamples, settings.seed).blocks_of_counts()]
    )
    low, high = ResampledValues.of((drawn[:, 0] / drawn[:, 1])[None]).percentile_limits(settings.level)
    return float(low[0]), float(high[0])
