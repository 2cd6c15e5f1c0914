"""Areas under ROC curves, and other means over traces, with what each question adds to their error.

An estimate's *influence* is a number for each unit (question or cluster): how far the estimate is moved by having that
unit in the sample. Its variance is the sum of their squares, and that of a difference of two estimates on the same
questions the sum of the squares of the differences, so that pairs are compared as pairs. Of a pooled area these are
DeLong's (1988) components, added up by cluster (Obuchowski 1997).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.curves.arrays import Interval, PairedInterval
from toolkit.stats.limits.student import both_tails, normal_size, single_critical
from toolkit.stats.metrics.kept import Floats, Ints

LEAST_UNITS = 3
"""Below it there is no interval."""


@dataclass(frozen=True)
class Influenced:
    """An estimate, NaN where there is none, the influence (U,) of each unit, and how many units it is of."""

    estimate: float
    influence: Floats
    units: int

    def interval(self, level: float = 0.95, widened: float = 1.0) -> Interval:
        """Of a rate or an area, by the delta method on the logit scale; `widened`: a factor of its standard error."""
        if np.isnan(self.estimate):
            return Interval(None, None, None, self.units, None)
        room = self.estimate * (1 - self.estimate)
        error = widened * _error(self.influence, self.units)
        if self.units < LEAST_UNITS or room <= 0 or not error:
            return Interval(self.estimate, None, None, self.units, None)
        centre, half = np.log(self.estimate / (1 - self.estimate)), single_critical(level, self.units) * error / room
        low, high = (float(1 / (1 + np.exp(-end))) for end in (centre - half, centre + half))
        return Interval(self.estimate, low, high, self.units, "t")

    def minus(self, other: Influenced, level: float = 0.95, widened: float = 1.0) -> PairedInterval:
        """The difference of two estimates on the same units."""
        difference, units = self.estimate - other.estimate, max(self.units, other.units)
        if np.isnan(difference):
            return PairedInterval(None, None, None, None, units, None)
        error = widened * _error(self.influence - other.influence, units)
        if units < LEAST_UNITS or not error:
            return PairedInterval(difference, None, None, None, units, None)
        half = single_critical(level, units) * error
        size = normal_size(np.array(abs(difference) / error), units - 1)
        low, high = max(-1.0, difference - half), min(1.0, difference + half)
        return PairedInterval(difference, low, high, float(both_tails(size)), units, "t")


def _error(influence: Floats, units: int) -> float:
    return float(np.sqrt(units / max(1, units - 1) * (influence**2).sum()))


def pooled_area(score: Floats, right: NDArray[np.bool_], unit: Ints, size: int) -> Influenced:
    """Probability that a right trace scores above a wrong one; `unit` (N,) of `size` for each trace, no NaN."""
    good, bad = score[right], score[~right]
    known = len(np.unique(unit))
    if not len(good) or not len(bad):
        return Influenced(np.nan, np.zeros(size), known)
    above = _share_below(good, np.sort(bad))
    below = 1 - _share_below(bad, np.sort(good))
    area = float(above.mean())
    influence = np.bincount(unit[right], above - area, size) / len(good)
    influence += np.bincount(unit[~right], below - area, size) / len(bad)
    return Influenced(area, influence, known)


def _share_below(values: Floats, others: Floats) -> Floats:
    """Share of sorted others below each value; ties count one half."""
    ends = np.searchsorted(others, values, "left") + np.searchsorted(others, values, "right")
    return ends / (2 * len(others))


def mean_of(values: Floats, unit: Ints, size: int) -> Influenced:
    """Mean of one value an example, NaN left out; `unit` (n,) of `size` for each."""
    known = ~np.isnan(values)
    if not known.any():
        return Influenced(np.nan, np.zeros(size), 0)
    mean = float(values[known].mean())
    influence = np.bincount(unit[known], values[known] - mean, size) / known.sum()
    return Influenced(mean, influence, len(np.unique(unit[known])))
