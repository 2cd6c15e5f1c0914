"""Limits that are possible: no mean of a cost is below 0, no share beyond 0 and 1, no reduction above 100 %.

A symmetric interval of few units, or of a skew cost, knows nothing of such ends. What lies beyond them is no value that
other examples could show, so leaving it out takes no coverage away.
"""

from __future__ import annotations

import numpy as np

from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import SeriesKind, SeriesResults
from toolkit.stats.metrics.kept import Floats
from toolkit.stats.metrics.metrics import Metric


def of_costs(metric: Metric) -> bool:
    """Whether it is the mean of a cost, or one that is divided by another mean, and so never below 0."""
    return metric.of_cost or metric.over_mean is not None


def keep_possible(sample: WholeSample, results: SeriesResults) -> None:
    """Move impossible limits to the nearest possible value."""
    for m, metric in enumerate(sample.metrics):
        share, cost = metric.column.share, of_costs(metric)
        ends = {
            SeriesKind.VALUE: (0.0 if share or cost else -np.inf, 1.0 if share else np.inf),
            SeriesKind.DIFFERENCE: (-1.0, 1.0) if share else (-np.inf, np.inf),
            SeriesKind.REDUCTION: (-np.inf, 1.0 if cost else np.inf),
        }
        for kind, (least, most) in ends.items():
            at = kind, slice(None), m
            results.low[at], results.high[at] = within(
                results.value[at], results.low[at], results.high[at], least, most
            )


def within(value: Floats, low: Floats, high: Floats, least: float, most: float) -> tuple[Floats, Floats]:
    """Limits no further than `least` and `most`, of values that are within these themselves; NaN stays."""
    there = (value >= least) & (value <= most)
    return np.where(there, np.maximum(low, least), low), np.where(there, np.minimum(high, most), high)
