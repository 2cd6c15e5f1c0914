"""Intervals of F1 where the bootstrap sees too little: few errors, or few examples of a class.

A resample of a sample without errors has none either, so the bootstrap's interval has no width. The F1 of one class
is a function of a proportion, which has a score interval. The means of several get the delta method after one pseudo-
error is added, spread evenly over the cells of the confusion matrix in which there could be one.

Arrays end in the classes (…, K) that have gold. An F1 or a mean of F1s moves with the sums of true positives, of
predictions and of gold by class: `Slopes` are its derivatives by them, so that what an example adds is linear in them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.metrics.kept import Floats

FEW_ERRORS = 30
"""With fewer errors the delta method takes over from the bootstrap; of differences: examples where one policy errs."""

FEW_GOLD, FEWEST_GOLD = 10, 5
"""Below ten examples with the class as gold an interval is marked, below five there is none."""


def jaccard_limits(right: Floats, wrong: Floats, level: float) -> tuple[Floats, Floats]:
    """Limits of F1 = 2J/(1 + J) from Wilson's limits of J = TP/(TP + FP + FN), given TP and FP + FN.

    With 9 right and 1 wrong J = 0.9 has the limits 0.596 and 0.982, so that F1 = 0.947 has 0.747 and 0.991.
    """
    z = NORMAL.inv_cdf((1 + level) / 2)
    trials = right + wrong
    with np.errstate(invalid="ignore", divide="ignore"):
        share = right / trials
        middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
        half = z / (1 + z * z / trials) * np.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    low = np.where(right == 0, 0.0, np.maximum(middle - half, 0.0))
    high = np.where(wrong == 0, 1.0, np.minimum(middle + half, 1.0))
    return 2 * low / (1 + low), 2 * high / (1 + high)


@dataclass(frozen=True, eq=False)
class Slopes:
    """A mean of F1s and its derivatives by the sums of each class (…, K)."""

    value: Floats  # (…)
    right: Floats  # by true positives
    named: Floats  # by predictions
    gold: Floats  # by gold

    @classmethod
    def of(cls, right: Floats, named: Floats, gold: Floats, weighted: bool) -> Slopes:
        """At these sums; the F1s count alike, or by gold."""
        both = named + gold
        f1 = 2 * right / both
        total = gold.sum(axis=-1, keepdims=True)
        weight = gold / total if weighted else np.full(gold.shape, 1 / gold.shape[-1])
        value = (weight * f1).sum(axis=-1, keepdims=True)
        by_named = -weight * f1 / both
        by_gold = by_named + ((f1 - value) / total if weighted else 0.0)
        return cls(value[..., 0], 2 * weight / both, by_named, by_gold)


def pseudo_error(right: Floats, named: Floats, gold: Floats, classes: int) -> tuple[Floats, Floats, Floats]:
    """The sums with one error more, 1/(K(K − 1)) in each cell off the diagonal: 1/K a class in predictions and gold."""
    return right, named + 1 / classes, gold + 1 / classes


def pseudo_pair(right: Floats, named: Floats, gold: Floats, classes: int) -> tuple[Floats, Floats, Floats]:
    """Either policy's sums with one example more that exactly one of the two has right, in all 2K(K − 1) ways alike."""
    return right + 1 / (2 * classes), named + 1 / classes, gold + 1 / classes


def pseudo_error_square(slopes: Slopes, classes: int) -> Floats:
    """What the pseudo-error adds to the sum of squares: the mean of (gold_g + named_a)² over the cells g ≠ a."""
    return _off_diagonal(slopes.gold, slopes.named, classes) / (classes * (classes - 1))


def pseudo_pair_square(one: Slopes, two: Slopes, classes: int) -> Floats:
    """The same for a difference: where one is right it adds right + named + gold of the class, else as an error."""
    sides = [_off_diagonal(a.right + a.named + a.gold - b.gold, -b.named, classes) for a, b in ((one, two), (two, one))]
    return (sides[0] + sides[1]) / (2 * classes * (classes - 1))


def _off_diagonal(rows: Floats, columns: Floats, classes: int) -> Floats:
    """Σ (rows_g + columns_a)² over g ≠ a; classes beyond the arrays' own have zeros."""
    squares = (rows**2).sum(axis=-1) + (columns**2).sum(axis=-1)
    products = rows.sum(axis=-1) * columns.sum(axis=-1) - (rows * columns).sum(axis=-1)
    return (classes - 1) * squares + 2 * products


def delta_limits(
    value: Floats, square: Floats, estimate: Floats, least: float, level: float
) -> tuple[Floats, Floats, Floats]:
    """Limits value ± z·√(sum of squares), within `least` to 1 and around the plain estimate, and the p-value of 0."""
    from scipy.special import ndtr

    error = np.sqrt(square)
    half = NORMAL.inv_cdf((1 + level) / 2) * error
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = np.where(value == 0, 1.0, 2 * ndtr(-np.abs(value) / error))
    low, high = np.clip(value - half, least, 1.0), np.clip(value + half, least, 1.0)
    return np.minimum(low, estimate), np.maximum(high, estimate), p_value
