"""How well scores predict repairs: discrimination and calibration, for labels from 0 to 1 (means over rollouts).

A label of 0.5 counts as half a repair and half none, so that each example has one weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolkit.stats.curves.arrays import Interval, interval
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.resamples import Settings

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
    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class Bin:
    """One point of the reliability curve: scores from `low` to `high`, their mean, the mean label, how many."""

    low: float
    high: float
    score: float
    label: float
    n: int


@dataclass(frozen=True)
class WideBin:
    """Some of the ten bins together: scores from `low` to `high`, their mean, the interval of the mean label."""

    low: float
    high: float
    score: float
    label: Interval
    n: int


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


def reliability(scores: Floats, labels: Floats) -> tuple[Bin, ...]:
    """Bins of equal width over 0 to 1 that hold any score; 1 belongs to the last."""
    place = bin_places(scores)
    return tuple(
        Bin(i / BINS, (i + 1) / BINS, float(scores[on].mean()), float(labels[on].mean()), int(on.sum()))
        for i in range(BINS)
        if (on := place == i).any()
    )


def bin_places(scores: Floats) -> Ints:
    """The number of the bin of each score within 0 and 1; 1 belongs to the last."""
    return np.clip((scores * BINS).astype(np.int64), 0, BINS - 1)


def wide_bins(
    scores: Floats, labels: Floats, unit: Ints, settings: Settings, least: int = LEAST_IN_BIN
) -> tuple[WideBin, ...]:
    """The bins, neighbours taken together until each holds `least` examples, with the interval of the mean label.

    From the lowest score up; a rest that is too small joins the bin before it. `unit` (N,): the clusters that are
    resampled. Nothing where scores are no probabilities.
    """
    if not len(scores) or not bool(((scores >= 0) & (scores <= 1)).all()):
        return ()
    groups: list[list[Bin]] = [[]]
    for one in reliability(scores, labels):
        groups[-1].append(one)
        if sum(each.n for each in groups[-1]) >= least:
            groups.append([])
    rest = groups.pop()
    if rest:
        groups[-1:] = [groups[-1] + rest] if groups else [rest]
    return tuple(_wide(group, scores, labels, unit, settings) for group in groups)


def _wide(group: list[Bin], scores: Floats, labels: Floats, unit: Ints, settings: Settings) -> WideBin:
    low, high = group[0].low, group[-1].high
    place = bin_places(scores)
    on = (place >= round(low * BINS)) & (place < round(high * BINS))
    found = interval(labels[on], cluster=unit[on], settings=settings)
    return WideBin(low, high, float(scores[on].mean()), found, int(on.sum()))
