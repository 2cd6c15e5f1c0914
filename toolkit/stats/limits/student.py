"""Student's distribution: from 800 degrees of freedom on by Wallace's approximation (1959), for scipy's takes a fifth
of the seconds of a small replay to load.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.metrics.spill import Floats

MANY_FREE = 800
"""Degrees of freedom from which on the approximation serves: its critical values of levels up to 0.9999 then differ
from the exact ones by less than one part in a million."""


def student_quantile(freedom: ArrayLike, share: float) -> Floats:
    """The values below which `share` (at least a half) of Student's distribution lies, in the shape of `freedom`."""
    freedom = np.asarray(freedom, np.float64)
    if (freedom >= MANY_FREE).all():
        return student_size(np.array(NORMAL.inv_cdf(share)), freedom)
    from scipy.special import stdtrit

    return np.asarray(stdtrit(freedom, share))


def student_tails(freedom: ArrayLike, size: Floats) -> Floats:
    """Two-sided p-values of absolute deviations of Student's distribution."""
    freedom = np.asarray(freedom, np.float64)
    if (freedom >= MANY_FREE).all():
        return both_tails(normal_size(size, freedom))
    from scipy.special import stdtr

    return np.asarray(2 * stdtr(freedom, -size))


def shared_level(critical: float, units: float) -> float:
    """Level of a single interval with a shared critical value."""
    return float(1 - student_tails(max(units - 1, 1), np.array(critical)))


def single_critical(level: float, units: float) -> float:
    """Critical value of a single interval at this level."""
    return float(student_quantile(max(units - 1, 1), (1 + level) / 2))


def both_tails(size: Floats) -> Floats:
    """Two-sided p-values of absolute deviations of the normal distribution, in their shape."""
    return np.array([math.erfc(one) for one in (size / math.sqrt(2)).ravel().tolist()], np.float64).reshape(size.shape)


def normal_size(size: Floats, freedom: ArrayLike) -> Floats:
    """Absolute deviations of Student's distribution as normal ones of the same tail (Wallace 1959)."""
    freedom = np.maximum(freedom, 1)
    return np.asarray((8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(size**2 / freedom)))


def student_size(size: Floats, freedom: ArrayLike) -> Floats:
    """The reverse of `normal_size`."""
    freedom = np.asarray(freedom, np.float64)
    size = size * (8 * freedom + 3) / (8 * freedom + 1)
    return np.asarray(np.sqrt(freedom * np.expm1(size**2 / freedom)))
