"""Paired outcomes of 0 and 1 that differ on few examples: limits and p-values from the discordant pairs alone.

All functions take arrays, one entry a table: `first` and `second` count the examples on which only the first, only the
second of the two is 1, and `n` all examples.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import InvalidError
from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.limits.student import two_sided_p
from toolkit.stats.metrics.resamples import check_level
from toolkit.stats.metrics.spill import Floats, Ints

FEW_PAIRS = 20
"""Discordant pairs below which a difference gets Tango's interval; from it on its own reaches at least as far."""

EXACT_PAIRS = 10
"""Discordant pairs below which a claim also needs McNemar's exact p-value."""

MANY_PAIRS = 40
"""The most tosses whose binomial tail is summed here, without loading scipy."""

HALVINGS = 60
"""Steps of the bisection: limits are then as exact as floats."""


def tango_limits(first: ArrayLike, second: ArrayLike, n: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
    """Tango's score interval for a difference of paired rates, (first − second)/n: those that its test retains.

    T. Tango, Statistics in Medicine 17 (1998) 891. The variance at a difference is that of the constrained maximum
    likelihood, so the interval has a width where no pair is discordant: ±z²/(n + z²). `tango(0, 0, 500)` is
    ±0.0076. Raises ThinkbackError for negative counts, or more than there are examples.
    """
    check_level(level)
    one, two, size = (np.asarray(part, np.float64) for part in (first, second, n))
    if not ((one >= 0) & (two >= 0) & (size > 0) & (one + two <= size * (1 + 1e-12)) & np.isfinite(size)).all():
        raise InvalidError("`first` and `second` count discordant pairs among `n` examples: give 0 to n in all")
    one, two, size = np.broadcast_arrays(one, two, size)
    z = NORMAL.inv_cdf((1 + level) / 2)
    low, mirrored = _lower_limit(np.stack([one, two]), np.stack([two, one]), size, z)
    return low, -mirrored


def _lower_limit(first: Floats, second: Floats, n: Floats, z: float) -> Floats:
    """The lower limit: the one difference between −1 and the estimate at which the score statistic equals z."""
    low, high = np.full(first.shape, -1.0), (first - second) / n
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        # The rate of `second` alone at which the data are likeliest, given that the difference is `middle`.
        b = (2 * n - first + second) * middle - first - second
        only_second = (np.sqrt(np.maximum(b * b + 8 * n * second * middle * (1 - middle), 0.0)) - b) / (4 * n)
        variance = np.maximum(n * (2 * only_second + middle * (1 - middle)), 0.0)
        rejected = first - second - n * middle > z * np.sqrt(variance)
        low, high = np.where(rejected, middle, low), np.where(rejected, high, middle)
    agree = (first == 0) & (second == 0)
    return np.where(agree, -z * z / (n + z * z), (low + high) / 2)


def exact_p_value(first: ArrayLike, second: ArrayLike, share: float = 0.5) -> Floats:
    """McNemar's exact two-sided p-value: twice the smaller tail of a fair coin, at most 1; 1 without a discordant pair.

    `exact_p(4, 0)` is 0.125: four pairs, however many examples, are no evidence at .05. `share`: of the discordant
    pairs, those that are the first's if nothing is to be found.
    """
    one, two = _discordant_counts(first, second)
    tails = np.minimum(_binomial_tail(one, one + two, share), _binomial_tail(two, one + two, 1 - share))
    return np.minimum(1.0, 2 * tails)


def mid_p_value(first: ArrayLike, second: ArrayLike) -> Floats:
    """McNemar's mid-p: the exact p-value less half of the observed table's probability; 1 without discordant pairs.

    M. W. Fagerland, S. Lydersen and P. Laake, BMC Medical Research Methodology 13 (2013) 91: the exact test is too
    strict, the mid-p keeps its level in nearly all tables.
    """
    one, two = _discordant_counts(first, second)
    fewer, pairs = np.minimum(one, two), one + two
    return _binomial_tail(fewer, pairs, 0.5) + np.where(
        fewer > 0, _binomial_tail(np.maximum(fewer - 1, 0), pairs, 0.5), 0.0
    )


def score_p_value(first: ArrayLike, second: ArrayLike) -> Floats:
    """Two-sided p-value of McNemar's score test, uncorrected; 1 without discordant pairs. Counts may be fractions."""
    one, two = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(second, np.float64))
    z = np.abs(one - two) / np.sqrt(np.where(one + two > 0, one + two, 1.0))
    return two_sided_p(z)


def _discordant_counts(first: ArrayLike, second: ArrayLike) -> tuple[Ints, Ints]:
    one, two = np.broadcast_arrays(np.asarray(first, np.float64), np.asarray(second, np.float64))
    if not (np.minimum(one, two) >= 0).all() or (one % 1).any() or (two % 1).any():
        raise InvalidError("`first` and `second` count discordant pairs: give whole numbers from 0")
    return one.astype(np.int64), two.astype(np.int64)


def _binomial_tail(heads: Ints, tosses: Ints, share: float) -> Floats:
    if tosses.max(initial=0) > MANY_PAIRS:
        from scipy.special import bdtr

        return np.asarray(bdtr(heads, tosses, share))
    tables, place = np.unique(np.stack([heads.ravel(), tosses.ravel()]), axis=1, return_inverse=True)
    tails = [_probability_at_most(heads, tosses, share) for heads, tosses in tables.T.tolist()]
    return np.array(tails, np.float64)[place].reshape(heads.shape)


def _probability_at_most(heads: int, tosses: int, share: float) -> float:
    return math.fsum(math.comb(tosses, k) * share**k * (1 - share) ** (tosses - k) for k in range(heads + 1))
