"""Limits end where values do."""

import numpy as np
import pytest

from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.limits.intervals import clip_limits

SETTINGS = Settings(resamples=200)


def test_costs_of_few_clusters_end_at_nothing_and_reductions_at_all() -> None:
    """Two of three clusters take next to nothing: Student's limits and Fieller's of the ratio would go below 0.

    Those of the mean are on the scale of the logarithm: √(low · high) is the mean, 21.
    """
    unit = np.repeat([0, 1, 2], 4)
    tokens = np.stack([np.repeat([100.0, 90.0, 110.0], 4), np.repeat([1.0, 2.0, 60.0], 4)])
    correct = np.ones((2, 12))
    correct[1, ::2] = 0
    ids = np.array([f"e{i:02}" for i in range(12)], object)
    block = OutcomeBlock(ids, unit, {"correct": correct, "total_tokens": tokens})
    made = summarise(lambda: iter([block]), ["all", "few"], baseline="all", settings=SETTINGS)
    cost = made.summary.filter(policy="few", metric="total_tokens").row(0, named=True)
    assert 0 < cost["low"] < cost["estimate"] < cost["high"]
    assert cost["low"] * cost["high"] == pytest.approx(21.0**2)
    saved = made.comparisons.filter(policy="few", baseline="all", metric="reduction:total_tokens").row(0, named=True)
    assert saved["low"] < saved["difference"] == 0.79 < saved["high"] == 1
    rates = made.comparisons.filter(policy="few", metric="accuracy").row(0, named=True)
    assert -1 <= rates["low"] <= rates["high"] <= 1


def test_only_possible_values_have_possible_limits() -> None:
    """A value beyond the ends keeps its limits, and a missing limit stays missing."""
    value, low, high = np.array([0.5, 2.0, 0.5]), np.array([-3.0, 1.5, np.nan]), np.array([4.0, 2.5, np.nan])
    assert clip_limits(value, low, high, 0.0, 1.0)[0].tolist()[:2] == [0.0, 1.5]
    assert clip_limits(value, low, high, 0.0, 1.0)[1].tolist()[:2] == [1.0, 2.5]
    assert np.isnan(clip_limits(value, low, high, 0.0, 1.0)[0][2])
