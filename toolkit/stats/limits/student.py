"""Critical values of Student's distribution, and deviations of it as normal ones (Wallace 1959), many at once."""

from __future__ import annotations

import math

import numpy as np

from toolkit.stats.metrics.kept import Floats


def shared_level(critical: float, units: int) -> float:
    """Level of a single interval with a shared critical value."""
    from scipy.special import stdtr

    return float(1 - 2 * stdtr(max(units - 1, 1), -critical))


def single_critical(level: float, units: int) -> float:
    """Critical value of a single interval at this level."""
    from scipy.special import stdtrit

    return float(stdtrit(max(units - 1, 1), (1 + level) / 2))


def both_tails(size: Floats) -> Floats:
    """Two-sided p-values of absolute deviations of the normal distribution, in their shape."""
    return np.array([math.erfc(one) for one in (size / math.sqrt(2)).ravel().tolist()], np.float64).reshape(size.shape)


def normal_size(size: Floats, freedom: int) -> Floats:
    """Absolute deviations of Student's distribution as normal ones of the same tail (Wallace 1959)."""
    freedom = max(freedom, 1)
    return np.asarray((8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(size**2 / freedom)))


def student_size(size: Floats, freedom: int) -> Floats:
    """The reverse of `normal_size`."""
    size = size * (8 * freedom + 3) / (8 * freedom + 1)
    return np.asarray(np.sqrt(freedom * np.expm1(size**2 / freedom)))
