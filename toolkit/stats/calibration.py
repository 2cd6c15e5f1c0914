"""How well scores tell repairs: discrimination and calibration, for labels from 0 to 1 (means over rollouts).

A label of 0.5 counts as half a repair and half none, so that each example has one weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolkit.stats.blocks import Floats

BINS = 10


@dataclass(frozen=True)
class Calibration:
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


def calibration(scores: Floats, labels: Floats) -> Calibration:
    """AUROC (ties one half), AUPRC (average precision), Brier score, expected calibration error, reliability curve.

    `scores` (N,); where some lie outside 0 and 1 they are no chances, and the last three are NaN, NaN and empty.
    `labels` (N,) within 0 and 1. ECE is over ten bins of equal width (Guo et al. 2017).
    """
    chances = bool(((scores >= 0) & (scores <= 1)).all())
    bins = reliability(scores, labels) if chances else ()
    total = len(scores)
    return Calibration(
        auroc=auroc(scores, labels),
        auprc=auprc(scores, labels),
        brier=float(np.mean(labels * (1 - scores) ** 2 + (1 - labels) * scores**2)) if total and chances else np.nan,
        ece=float(sum(one.n * abs(one.score - one.label) for one in bins) / total) if total and chances else np.nan,
        rate=float(labels.mean()) if total else np.nan,
        n=total,
        bins=bins,
    )


def auroc(scores: Floats, labels: Floats) -> float:
    """Chance that a repair has a higher score than a non-repair, ties one half; NaN with one class."""
    right, wrong = _by_score(scores, labels)
    if right.sum() <= 0 or wrong.sum() <= 0:
        return float("nan")
    below = np.concatenate([[0.0], np.cumsum(wrong)[:-1]])
    return float((right * (below + wrong / 2)).sum() / (right.sum() * wrong.sum()))


def auprc(scores: Floats, labels: Floats) -> float:
    """Average precision: precision at every distinct score, weighted by the recall gained; NaN without repairs."""
    right, wrong = (column[::-1] for column in _by_score(scores, labels))
    if right.sum() <= 0:
        return float("nan")
    precision = np.cumsum(right) / np.cumsum(right + wrong)
    return float((precision * right).sum() / right.sum())


def reliability(scores: Floats, labels: Floats) -> tuple[Bin, ...]:
    """Bins of equal width over 0 to 1 that hold any score; 1 belongs to the last."""
    place = np.clip((scores * BINS).astype(np.int64), 0, BINS - 1)
    return tuple(
        Bin(i / BINS, (i + 1) / BINS, float(scores[on].mean()), float(labels[on].mean()), int(on.sum()))
        for i in range(BINS)
        if (on := place == i).any()
    )


def _by_score(scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
    """Weights of repairs and of non-repairs at each distinct score, ascending."""
    _, place = np.unique(scores, return_inverse=True)
    right = np.asarray(np.bincount(place, weights=labels), np.float64)
    return right, np.asarray(np.bincount(place, weights=1 - labels), np.float64)
