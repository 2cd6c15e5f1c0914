"""Intervals of F1s where the bootstrap covers too little: score intervals and the delta method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import SeriesKind, SeriesPlan, SeriesResults
from toolkit.stats.limits.intervals import NORMAL, wilson_limits
from toolkit.stats.metrics.metrics import F1
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import Scan, Units
from toolkit.stats.metrics.spill import Floats, Ints

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


FEW_ERRORS = 30
"""Errors (of differences: examples where one policy errs) below which the delta method replaces the bootstrap."""

FEW_GOLD, FEWEST_GOLD = 10, 5
"""Examples with the class as gold below which an interval is marked, and below which there is none."""


def _jaccard_limits(right: Floats, wrong: Floats, level: float) -> tuple[Floats, Floats]:
    """Limits of F1 = 2J/(1 + J) from Wilson's limits of J = TP/(TP + FP + FN), given TP and FP + FN.

    With 9 right and 1 wrong J = 0.9 has the limits 0.596 and 0.982, so that F1 = 0.947 has 0.747 and 0.991.
    """
    low, high = wilson_limits(right, right + wrong, level)
    return 2 * low / (1 + low), 2 * high / (1 + high)


@dataclass(frozen=True, eq=False)
class _F1Slopes:
    """A mean of F1s (`value`) and its derivatives by each class's true positives, predictions and gold (…, K)."""

    value: Floats  # (…)
    right: Floats  # by true positives
    named: Floats  # by predictions
    gold: Floats  # by gold

    @classmethod
    def slopes_at(cls, right: Floats, named: Floats, gold: Floats, weighted: bool) -> _F1Slopes:
        """The mean F1 and its derivatives at these sums. The classes count alike, or by their gold if `weighted`."""
        both = named + gold
        f1 = 2 * right / both
        total = gold.sum(axis=-1, keepdims=True)
        weight = gold / total if weighted else np.full(gold.shape, 1 / gold.shape[-1])
        value = (weight * f1).sum(axis=-1, keepdims=True)
        by_named = -weight * f1 / both
        by_gold = by_named + ((f1 - value) / total if weighted else 0.0)
        return cls(value[..., 0], 2 * weight / both, by_named, by_gold)


def _pseudo_error(right: Floats, named: Floats, gold: Floats, classes: int) -> tuple[Floats, Floats, Floats]:
    """The sums by class with one error added, so that no variance is 0. It is spread as 1/(K(K − 1)) over the cells off
    the diagonal of the confusion matrix: each class gains 1/K predictions and 1/K gold.
    """
    return right, named + 1 / classes, gold + 1 / classes


def _pseudo_pair(right: Floats, named: Floats, gold: Floats, classes: int) -> tuple[Floats, Floats, Floats]:
    """The sums by class with one example added that exactly one of two compared policies has right. It is spread evenly
    over all 2K(K − 1) ways in which that can happen.
    """
    return right + 1 / (2 * classes), named + 1 / classes, gold + 1 / classes


def _pseudo_error_square(slopes: _F1Slopes, classes: int) -> Floats:
    """The pseudo-error's part of an F1's sum of squared influences: the mean of (gold_g + named_a)² over g ≠ a."""
    return _off_diagonal(slopes.gold, slopes.named, classes) / (classes * (classes - 1))


def _pseudo_pair_square(first: _F1Slopes, second: _F1Slopes, classes: int) -> Floats:
    """The pseudo-pair's part of the sum of squared influences of a difference of two F1s. The policy that is right adds
    the slopes right + named + gold of its class, the other those of an error.
    """
    sides = [
        _off_diagonal(a.right + a.named + a.gold - b.gold, -b.named, classes)
        for a, b in ((first, second), (second, first))
    ]
    return (sides[0] + sides[1]) / (2 * classes * (classes - 1))


def _off_diagonal(rows: Floats, columns: Floats, classes: int) -> Floats:
    """Σ (rows_g + columns_a)² over cells g ≠ a of a confusion matrix. Classes not in the arrays count as zeros."""
    squares = (rows**2).sum(axis=-1) + (columns**2).sum(axis=-1)
    products = rows.sum(axis=-1) * columns.sum(axis=-1) - (rows * columns).sum(axis=-1)
    return (classes - 1) * squares + 2 * products


def _delta_limits(
    value: Floats, square: Floats, estimate: Floats, least: float, level: float
) -> tuple[Floats, Floats, Floats]:
    """The delta method's limits value ± z·√square, from `least` to 1 and never inside `estimate`; the p-value of 0."""
    from scipy.special import ndtr

    error = np.sqrt(square)
    half = NORMAL.inv_cdf((1 + level) / 2) * error
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = np.where(value == 0, 1.0, 2 * ndtr(-np.abs(value) / error))
    low, high = np.clip(value - half, least, 1.0), np.clip(value + half, least, 1.0)
    return np.minimum(low, estimate), np.maximum(high, estimate), p_value


ROWS = 512
"""Combinations, and statistics, in one batch; only memory depends on it."""

FEW_WRONG = 10
"""The F1 of a class keeps the bootstrap only where shares of answers are no zeros and ones, and more are wrong."""


@dataclass(frozen=True, eq=False)
class _F1Cells:
    """The sums behind one F1: `numbers` (P, K, 3), the scan's true positives, predictions and gold by class."""

    metric: F1
    numbers: Ints
    sums: Floats  # (P, K, 3)

    @property
    def count_classes(self) -> int:
        """The number of classes in the confusion matrix; for the F1 of one class, two (the class and the rest)."""
        return max(2, self.numbers.shape[1])

    @property
    def least_gold(self) -> Floats:
        """The number of gold examples of the rarest class, for each policy (P,)."""
        return np.asarray(self.sums[..., 2].min(axis=1))

    @property
    def error_weights(self) -> Floats:
        """The weights (3,) with which true positives, predictions and gold add up to the number of errors."""
        return np.array([-1.0, 0.0, 1.0] if self.metric.which is None else [-2.0, 1.0, 1.0])

    @property
    def count_errors(self) -> Floats:
        """The number of wrong answers of each policy (P,)."""
        return np.asarray((self.sums @ self.error_weights).sum(axis=1))

    def f1_slopes(self, pseudo: Callable[[Floats, Floats, Floats, int], tuple[Floats, Floats, Floats]]) -> _F1Slopes:
        """The slopes of each policy's F1 after the function `pseudo` has added a pseudo-example to the sums."""
        right, named, gold = np.moveaxis(self.sums, 2, 0)
        return _F1Slopes.slopes_at(*pseudo(right, named, gold, self.count_classes), self.metric.weighted)

    def of_policies(self, policies: Ints | int) -> _F1Cells:
        """The sums of only some of the policies. A single number still gives arrays of one policy."""
        some = np.atleast_1d(policies)
        return _F1Cells(self.metric, self.numbers[some], self.sums[some])


def f1_intervals(sample: WholeSample, plan: SeriesPlan, results: SeriesResults, settings: Settings) -> None:
    """Score intervals for the F1 of a class and the delta method where few answers are wrong, of independent examples.

    Where a class has fewer than five gold examples, its F1 has no interval, nor has the plain mean of all.
    """
    for m, metric in enumerate(sample.metrics):
        if not isinstance(metric, F1) or not plan.valued[m].any():
            continue
        cells, on = _f1_cells(sample, metric), np.flatnonzero(plan.valued[m])
        if metric.which is None:
            _set_mean_limits(sample, cells, on, m, results, settings.level)
        else:
            _set_one_class_limits(sample, cells, on, m, results, settings.level)
        for number, reference in plan.known_references(m):
            _set_difference_limits(sample, cells, on[on != reference], m, (number, reference), results, settings.level)


def has_few_wrong(sample: WholeSample, metric: F1, policies: Ints) -> NDArray[np.bool_]:
    """Whether each of the policies has fewer than 30 wrong answers among those that the F1 counts."""
    cells = _f1_cells(sample, metric)
    return replace(cells, sums=sample.scan.count[cells.numbers]).count_errors[policies] < FEW_ERRORS


def _f1_cells(sample: WholeSample, metric: F1) -> _F1Cells:
    size = len(sample.policies)
    numbers = np.array([[sample.scan.index[s] for s in metric.statistics(p)] for p in range(size)], np.int64)
    numbers = numbers.reshape(size, -1, 4)
    held = sample.scan.total[numbers[0, :, 3]] > 0  # the gold of all policies: a class without any is left out
    numbers = numbers[:, held, :3]
    return _F1Cells(metric, numbers, sample.scan.total[numbers])


def _set_one_class_limits(
    sample: WholeSample, cells: _F1Cells, on: Ints, m: int, results: SeriesResults, level: float
) -> None:
    """Sets Wilson's limits for the F1 of a class; where orders of traces are averaged, only for few wrong answers."""
    gold, wrong = cells.least_gold[on], cells.count_errors[on]
    whole = sample.scan.binary[cells.numbers[on, 0, :2]].all(axis=1)
    score = whole | (gold < FEW_GOLD) | (wrong < FEW_WRONG)
    low, high = _jaccard_limits(cells.sums[on, 0, 0], wrong, level)
    slot = SeriesKind.VALUE, 0
    for method, which in (("jaccard", score & (gold >= FEW_GOLD)), ("jaccard_few", score & (gold < FEW_GOLD))):
        results.set_interval(slot, m, on[which], low[which], high[which], np.nan, method)
    results.remove_intervals(slot, m, on[gold < FEWEST_GOLD])


def _set_mean_limits(
    sample: WholeSample, cells: _F1Cells, on: Ints, m: int, results: SeriesResults, level: float
) -> None:
    """Sets the delta method's limits for means of F1s that have few errors, or a class with little gold."""
    few = on[(cells.count_errors[on] < FEW_ERRORS) | (cells.least_gold[on] < FEW_GOLD)]
    if not len(few):
        return
    some = cells.of_policies(few)
    slopes = some.f1_slopes(_pseudo_error)
    square = _unit_sums(
        sample.units, sample.scan, _weight_matrix(sample.scan, [(some, _stack_slopes(slopes))]), np.square
    )
    square += _pseudo_error_square(slopes, some.count_classes)
    low, high, _ = _delta_limits(slopes.value, square, sample.estimates[m, few], 0.0, level)
    slot = SeriesKind.VALUE, 0
    results.set_interval(slot, m, few, low, high, np.nan, "delta")
    if not cells.metric.weighted:
        results.remove_intervals(slot, m, few[some.least_gold < FEWEST_GOLD])


def _set_difference_limits(
    sample: WholeSample,
    cells: _F1Cells,
    on: Ints,
    m: int,
    against: tuple[int, int],
    results: SeriesResults,
    level: float,
) -> None:
    """Sets the delta method's limits for F1 differences where few examples tell the policies apart or gold is rare."""
    number, reference = against
    slot, other = (SeriesKind.DIFFERENCE, number), cells.of_policies(reference)
    gold = np.minimum(cells.least_gold[on], other.least_gold)
    little = gold < FEW_GOLD
    near = np.abs(cells.count_errors[on] - other.count_errors) < FEW_ERRORS  # else as many examples tell them apart
    some = cells.of_policies(on[near])
    wrong = np.broadcast_to(cells.error_weights, some.numbers.shape)
    weights = _weight_matrix(sample.scan, [(some, wrong), (other, -wrong)])
    few = little.copy()
    few[near] |= _unit_sums(sample.units, sample.scan, weights, np.abs) < FEW_ERRORS
    on, gold = on[few], gold[few]
    if not len(on):
        return
    some = cells.of_policies(on)
    one, two = some.f1_slopes(_pseudo_pair), other.f1_slopes(_pseudo_pair)
    shape = some.numbers.shape
    moved = _weight_matrix(
        sample.scan, [(some, _stack_slopes(one)), (other, np.broadcast_to(-_stack_slopes(two), shape))]
    )
    square = _unit_sums(sample.units, sample.scan, moved, np.square) + _pseudo_pair_square(one, two, some.count_classes)
    estimate = results.value[(*slot, m, on)]
    low, high, p_value = _delta_limits(one.value - two.value, square, estimate, -1.0, level)
    results.set_interval(slot, m, on, low, high, p_value, "delta")
    if cells.metric.which is not None:
        results.remove_intervals(slot, m, on[gold < FEWEST_GOLD])


def _stack_slopes(slopes: _F1Slopes) -> Floats:
    """The derivatives by true positives, predictions and gold in one array (P, K, 3), as in `_F1Cells.numbers`."""
    return np.stack(np.broadcast_arrays(slopes.right, slopes.named, slopes.gold), axis=-1)


def _weight_matrix(scan: Scan, parts: list[tuple[_F1Cells, Floats]]) -> csr_matrix:
    """A matrix of weights (policies, the scan's statistics): the sum of `parts`; one of them may serve all policies."""
    from scipy.sparse import coo_matrix

    size = max(len(weights) for _, weights in parts)
    number = np.concatenate([np.broadcast_to(cells.numbers, weights.shape).ravel() for cells, weights in parts])
    weight = np.concatenate([np.asarray(weights).ravel() for _, weights in parts])
    row = np.concatenate([np.repeat(np.arange(len(w)), math.prod(w.shape[1:])) for _, w in parts])
    return coo_matrix((weight, (row, number)), shape=(size, len(scan.statistics))).tocsr()


def _unit_sums(units: Units, scan: Scan, weights: csr_matrix, function: Callable[[Floats], Floats]) -> Floats:
    out = np.zeros(weights.shape[0])
    for start in range(0, len(out), ROWS):
        block = weights[start : start + ROWS]
        numbers = np.unique(block.indices)
        block, sums, last = block[:, numbers], np.zeros((block.shape[0], 0)), -1
        for chunk, cut, rows in units.rows_by_chunk([scan.statistics[i] for i in numbers], ROWS):
            if chunk != last:
                out[start : start + ROWS] += function(sums).sum(axis=1)
                sums, last = np.zeros((block.shape[0], rows.shape[1])), chunk
            sums += block[:, cut] @ rows
        out[start : start + ROWS] += function(sums).sum(axis=1)
    return out
