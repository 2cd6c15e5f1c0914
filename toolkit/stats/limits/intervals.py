"""Intervals and p-values: from resampled values, and score and exact intervals of rates with few events."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal

import numpy as np

from toolkit.errors import InvalidError
from toolkit.stats.metrics.resamples import check_level
from toolkit.stats.metrics.spill import Floats, Ints

ZERO = 1e-12
"""Resampled differences below this count as 0."""

MOST_DROPPED = 0.05
"""The share of resamples without a value above which there is no interval."""

MIN_EVENTS = 10
"""A 0/1 column with fewer than this many of either gets a score interval."""

FEW_RATES, MANY_TRIALS, STEPS, ROUNDING = 16, 20_000, 60, 1e-15
"""Exact limits of up to so many rates of so many trials are computed here: scipy takes long to load."""
LAST_STEP, LEAST_LOG = 1e-9, -700.0
"""Newton's step that is the last, as a share of the way to 0 or 1: the error is its square. The least logarithm of a
density that it divides by.
"""

NORMAL = NormalDist()


@dataclass(frozen=True, eq=False)
class ResampledValues:
    """Resampled values of S series in ascending order, those without a value last."""

    draws: Floats  # (S, B)
    valued: Ints  # (S,) resamples with a value

    @classmethod
    def of(cls, draws: Floats) -> ResampledValues:
        """The resampled values, sorted in a copy."""
        ordered = np.sort(draws, axis=1)
        sizes = np.full(len(ordered), ordered.shape[1], np.int64)
        for row in np.flatnonzero(np.isnan(ordered[:, -1])):
            sizes[row] -= np.isnan(ordered[row]).sum()
        return cls(ordered, sizes)

    def count_below(self, limit: Floats, side: Literal["left", "right"] = "left") -> Ints:
        """How many of each series' values lie below `limit` (S,), or with side `right` up to it."""
        counts = [row[:n].searchsorted(x, side) for row, n, x in zip(self.draws, self.valued, limit, strict=True)]
        return np.array(counts, np.int64)

    @property
    def has_enough(self) -> np.ndarray:
        """Whether at least 95 % of each series' resamples have a value, (S,) bool."""
        size = self.draws.shape[1]
        return size - self.valued <= MOST_DROPPED * size

    def quantile(self, level: Floats) -> Floats:
        """The linear quantile (type 7) of each series at its `level` (S,). It is NaN where no resample has a value."""
        last = np.maximum(self.valued - 1, 0)
        position = level * last
        below = np.floor(position).astype(np.int64)
        above = np.minimum(below + 1, last)
        row = np.arange(len(self.draws))
        low, high = self.draws[row, below], self.draws[row, above]
        weight = position - below
        # Equal neighbours are returned as they are: a sum of weights could miss them by one rounding.
        return np.where(low == high, low, low + (high - low) * weight)

    def p_values(self, null: Floats | float = 0.0) -> Floats:
        """Two-sided p-values of "no difference", (S,): 2·(1 + c)/(B + 1), at most 1.

        c: the smaller of the numbers of values <= `null` and >= `null`, B: resamples with a value.
        """
        at = np.zeros(len(self.draws)) + null
        not_above = self.count_below(at + ZERO)
        not_below = self.valued - self.count_below(at - ZERO, "right")
        return np.minimum(1.0, 2 * (1 + np.minimum(not_above, not_below)) / (self.valued + 1))

    def percentile_limits(self, level: float) -> tuple[Floats, Floats]:
        """The percentile limits of each series, lower (S,) and upper (S,)."""
        tail = np.full(len(self.draws), (1 - level) / 2)
        return self.quantile(tail), self.quantile(1 - tail)

    def bca_limits(self, level: float, estimate: Floats, acceleration: Floats) -> tuple[Floats, Floats, np.ndarray]:
        """BCa limits (S,), (S,) and whether they are defined (S,) bool; elsewhere the limits are percentile ones.

        Undefined: all resampled values on one side of the estimate, or no acceleration (NaN).
        Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 14.
        """
        below, upto = self.count_below(estimate), self.count_below(estimate, "right")
        tail = (1 - level) / 2
        tails = np.tile(np.array([tail, 1 - tail]), (len(estimate), 1))
        defined = np.zeros(len(estimate), bool)
        for i, (less, equal, size, a) in enumerate(zip(below, upto, self.valued, acceleration, strict=True)):
            share = (less + equal) / (2 * size) if size else 0.0
            if 0 < share < 1 and math.isfinite(a):
                z0 = NORMAL.inv_cdf(share)
                moved = [_bca_level(z0, a, NORMAL.inv_cdf(t)) for t in (tail, 1 - tail)]
                if None not in moved:
                    tails[i] = moved
                    defined[i] = True
        return self.quantile(tails[:, 0]), self.quantile(tails[:, 1]), defined


def _bca_level(z0: float, a: float, z: float) -> float | None:
    """The quantile that BCa takes for one limit. None where the correction has left its range (a·(z0 + z) >= 1)."""
    room = 1 - a * (z0 + z)
    return NORMAL.cdf(z0 + (z0 + z) / room) if room > 0 else None


def bca_acceleration(count: Ints, first: Floats, second: Floats, third: Floats) -> Floats:
    """BCa's acceleration, from the sums over `count` jackknife values of d, d², d³ in each stratum, (strata, series)
    each. Here d is a value less a constant; NaN if the values do not vary.

    Σ(m − d)³ / (6 · (Σ(m − d)²)^1.5), m the mean of d in the stratum.
    """
    mean = first / count
    square = (second - count * mean**2).sum(axis=0)
    cube = -(third - 3 * mean * second + 2 * count * mean**3).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(square > 0, cube / (6 * np.abs(square) ** 1.5), np.nan)


def wilson(events: float, n: float, level: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval for a rate, without continuity correction.

    E. B. Wilson, JASA 22 (1927) 209. `wilson(0, 10)` is (0, 0.2775). Raises ThinkbackError unless 0 <= events <= n.
    """
    check_level(level)
    if not (0 < n < math.inf and 0 <= events <= n):
        raise InvalidError(f"`events` is {events:g} of `n` {n:g}: give 0 to n events of at least one trial")
    low, high = wilson_limits(np.array(events), np.array(n), level)
    return float(low), float(high)


def wilson_limits(events: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Wilson's limits of rates (arrays), NaN without a trial."""
    z = NORMAL.inv_cdf((1 + level) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = events / n
        middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    # At 0 and n events the limit is 0 or 1 exactly, which floats miss by a rounding.
    low, high = np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
    return np.where(events == 0, 0.0, low), np.where(events == n, 1.0, high)


def clopper_pearson(events: Floats, n: Floats, tail: float) -> tuple[Floats, Floats]:
    """Exact binomial limits of rates (arrays), each end with a probability of `tail`; trials may be fractions.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934) 404.
    """
    events, n = np.broadcast_arrays(np.asarray(events, np.float64), np.asarray(n, np.float64))
    low, high = np.zeros(events.shape), np.ones(events.shape)
    some, room = events > 1e-9, n - events > 1e-9
    low[some] = _beta_quantiles(events[some], n[some] - events[some] + 1, tail)
    high[room] = _beta_quantiles(events[room] + 1, n[room] - events[room], 1 - tail)
    return low, high


def _beta_quantiles(one: Floats, other: Floats, share: float) -> Floats:
    """Quantiles of beta distributions with these exponents, (K,)."""
    if len(one) > FEW_RATES or (one + other).max(initial=0.0) > MANY_TRIALS:
        from scipy.special import betaincinv

        return np.asarray(betaincinv(one, other, share))
    return np.array([beta_quantile(a, b, share) for a, b in zip(one.tolist(), other.tolist(), strict=True)])


@lru_cache(maxsize=4096)  # the same counts come again for every metric and policy
def beta_quantile(a: float, b: float, share: float) -> float:
    """The quantile at `share` of the beta distribution with exponents `a` and `b`, to the last digits.

    By Newton's steps from the mean on, and by halves where a step leads out of what is known to hold the quantile.
    """
    low, high, x = 0.0, 1.0, a / (a + b)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for _ in range(STEPS):
        beyond = beta_share(a, b, x) - share
        low, high = (x, high) if beyond < 0 else (low, x)
        log_density = scale + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x)
        step = beyond * math.exp(-log_density) if log_density > LEAST_LOG else math.inf
        if low < x - step < high:
            x -= step
            if abs(step) <= LAST_STEP * min(x, 1 - x):
                break
        else:
            x = (low + high) / 2
            if not low < x < high:
                break
    return x


def beta_share(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function by its continued fraction, in Lentz's form (NIST's Handbook of
    Mathematical Functions, 2010, 8.17.22).
    """
    if x > (a + 1) / (a + b + 2):  # where the fraction of the other end is the one that converges
        return 1 - beta_share(b, a, 1 - x)
    if x <= 0:
        return 0.0
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    upper, lower, m = 1.0, 1 / (1 - (a + b) * x / (a + 1)), 1
    value = lower
    while True:
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        before = value
        for term in (even, odd):
            lower, upper = 1 / (1 + term * lower), 1 + term / upper
            value *= lower * upper
        if abs(value - before) <= ROUNDING * abs(value):
            return math.exp(front) * value / a
        m += 1


def quantile_limits(ordered: Floats, share: float, level: float) -> tuple[float | None, float | None]:
    """The limits of the quantile at `share` of n independent values: two of the `ordered` values. A limit is None where
    even the least, or the greatest, value isn't far enough out.

    As many values as a binomial of n and `share` are below it. The 0.99 quantile has an upper limit from 368 values on.
    """
    n = len(ordered)
    below = binomial_tails(n, share)
    low, high = (int(np.searchsorted(below, tail)) for tail in ((1 - level) / 2, (1 + level) / 2))
    return float(ordered[low - 1]) if low else None, float(ordered[high]) if high < n else None


def binomial_tails(n: int, share: float) -> Floats:
    """Probabilities (n + 1,) of up to k events among n trials of the probability `share`, for k = 0 to n."""
    k = np.arange(n)
    chance = n * math.log1p(-share) + np.cumsum(np.log((n - k) / (k + 1)) + math.log(share) - math.log1p(-share))
    tails = np.cumsum(np.exp(np.concatenate([[n * math.log1p(-share)], chance])))
    return np.asarray(np.minimum(tails, 1.0))


def hybrid_interval(first: tuple[float, float], second: tuple[float, float], level: float) -> tuple[float, float]:
    """Newcombe's hybrid score interval for a difference of two independent rates, each as (events, trials).

    R. G. Newcombe, Statistics in Medicine 17 (1998) 873, method 10. Of policies that answer different examples; pairs
    that go together only make it wider than need be.
    """
    (low1, high1), (low2, high2) = wilson(*first, level), wilson(*second, level)
    rate1, rate2 = first[0] / first[1], second[0] / second[1]
    difference = rate1 - rate2
    return difference - _hybrid_distance(rate1 - low1, high2 - rate2, 0.0), difference + _hybrid_distance(
        high1 - rate1, rate2 - low2, 0.0
    )


def newcombe(both: float, first: float, second: float, neither: float, level: float = 0.95) -> tuple[float, float]:
    """Newcombe's hybrid score interval for a difference of paired rates, without continuity correction.

    From the 2 × 2 table of pairs: rate one is (both + first)/n, rate two (both + second)/n. Wilson's limits of the two
    rates are combined with the table's correlation φ, 0 where a margin is empty.
    R. G. Newcombe, Statistics in Medicine 17 (1998) 2635, method 8. Raises ThinkbackError for negative counts or none.
    """
    if not (min(both, first, second, neither) >= 0 and 0 < both + first + second + neither < math.inf):
        counts = f"{both:g}, {first:g}, {second:g}, {neither:g}"
        raise InvalidError(f"`both`, `first`, `second`, `neither` are {counts}: give counts from 0, not all 0")
    n = both + first + second + neither
    one, two = (both + first) / n, (both + second) / n
    low1, high1 = wilson(both + first, n, level)
    low2, high2 = wilson(both + second, n, level)
    margins = (both + first) * (second + neither) * (both + second) * (first + neither)
    phi = (both * neither - first * second) / math.sqrt(margins) if margins > 0 else 0.0
    down = _hybrid_distance(one - low1, high2 - two, phi)
    up = _hybrid_distance(high1 - one, two - low2, phi)
    difference = (first - second) / n
    return difference - down, difference + up


def _hybrid_distance(first: float, second: float, phi: float) -> float:
    return math.sqrt(max(0.0, first * first - 2 * phi * first * second + second * second))


def clip_limits(value: Floats, low: Floats, high: Floats, least: float, most: float) -> tuple[Floats, Floats]:
    """Clips limits to `least` and `most`, for values that lie within these themselves. NaN stays."""
    there = (value >= least) & (value <= most)
    return np.where(there, np.maximum(low, least), low), np.where(there, np.minimum(high, most), high)
