"""Student's distribution: from 800 degrees of freedom on by Wallace's approximation (1959), and few values below by the
incomplete beta function, for scipy's takes a fifth of the seconds of a small replay to load.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from toolkit.stats.limits.intervals import MANY_TRIALS, NORMAL, beta_quantile, beta_share
from toolkit.stats.metrics.spill import Floats

MANY_FREE = 800
"""Degrees of freedom from which on the approximation serves: its critical values of levels up to 0.9999 then differ
from the exact ones by less than one part in a million."""

FEW_QUANTILES, FEW_TAILS = 16, 1_000
"""Up to so many quantiles of different degrees of freedom, and tails, are computed here: each takes about 1 ms, and
20 µs.
"""


def student_quantile(freedom: ArrayLike, share: float) -> Floats:
    """The values below which `share` (at least a half) of Student's distribution lies, in the shape of `freedom`."""
    freedom = np.asarray(freedom, np.float64)
    if (freedom >= MANY_FREE).all():
        return normal_to_student(np.array(NORMAL.inv_cdf(share)), freedom)
    each, place = np.unique(freedom, return_inverse=True)
    if len(each) <= FEW_QUANTILES and (each >= 2).all() and (each <= MANY_TRIALS).all():
        inner = np.array([beta_quantile(v / 2, 0.5, 2 - 2 * share) for v in each.tolist()])
        return np.asarray(np.sqrt(each * (1 - inner) / inner)[place].reshape(freedom.shape))
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, share))


def student_tails(freedom: ArrayLike, size: Floats) -> Floats:
    """Two-sided p-values of absolute deviations of Student's distribution."""
    freedom = np.asarray(freedom, np.float64)
    if (freedom >= MANY_FREE).all():
        return two_sided_p(student_to_normal(size, freedom))
    freedom, size = np.broadcast_arrays(freedom, np.asarray(size, np.float64))
    if size.size <= FEW_TAILS and (freedom > 0).all() and (freedom <= MANY_TRIALS).all():
        pairs = zip(freedom.ravel().tolist(), size.ravel().tolist(), strict=True)
        return np.array([_student_tail(v, t) for v, t in pairs], np.float64).reshape(size.shape)
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom, -size))


def _student_tail(freedom: float, size: float) -> float:
    """The two-sided p-value of one deviation: an incomplete beta function (NIST's Handbook, 2010, 8.17)."""
    if math.isnan(size):
        return math.nan
    return beta_share(freedom / 2, 0.5, freedom / (freedom + size * size))


def shared_level(critical: float, units: float) -> float:
    """Level of a single interval with a shared critical value."""
    return float(1 - student_tails(max(units - 1, 1), np.array(critical)))


def single_critical_value(level: float, units: float) -> float:
    """Critical value of a single interval at this level."""
    return float(student_quantile(max(units - 1, 1), (1 + level) / 2))


def two_sided_p(size: Floats) -> Floats:
    """Two-sided p-values of absolute deviations of the normal distribution, in their shape."""
    return np.array([math.erfc(one) for one in (size / math.sqrt(2)).ravel().tolist()], np.float64).reshape(size.shape)


def agree_on_zero(
    value: Floats, low: Floats, high: Floats, p_value: Floats, level: float
) -> tuple[Floats, Floats, Floats]:
    """Limits and p-values of differences (arrays), moved so that both say the same of 0: where the limits alone hold
    it the p-value is that of normal ones as far out; where the p-value alone does not rule it out the limits reach it.
    """
    moved, back = (p_value < 1 - level) & (low <= 0) & (high >= 0), p_value >= 1 - level
    size = np.abs(value[moved]) / np.where(value > 0, value - low, high - value)[moved]
    p_value = p_value.copy()
    p_value[moved] = np.maximum(two_sided_p(NORMAL.inv_cdf((1 + level) / 2) * size), 1 - level)
    return np.where(back, np.minimum(low, 0.0), low), np.where(back, np.maximum(high, 0.0), high), p_value


def student_to_normal(size: Floats, freedom: ArrayLike) -> Floats:
    """Absolute deviations of Student's distribution as normal ones of the same tail (Wallace 1959)."""
    freedom = np.maximum(freedom, 1)
    return np.asarray((8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(size**2 / freedom)))


def normal_to_student(size: Floats, freedom: ArrayLike) -> Floats:
    """Absolute deviations of the normal distribution as those of Student's with the same tail."""
    freedom = np.asarray(freedom, np.float64)
    size = size * (8 * freedom + 3) / (8 * freedom + 1)
    return np.asarray(np.sqrt(freedom * np.expm1(size**2 / freedom)))
