"""Clusters are the trials: exact limits of rates, Student's t of all else, a warning for few, a dash below three."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, t

from toolkit.notes import Severity
from toolkit.stats import Settings, interval, paired_interval, summarise
from toolkit.stats.discordant import tango

QUICK = Settings(resamples=100)


def leave_one_out(unit: np.ndarray, *columns: np.ndarray) -> tuple[np.ndarray, float]:
    """Means of the difference without each cluster, and the jackknife variance."""
    difference = columns[0] - (columns[1] if len(columns) > 1 else 0)
    means = np.array([difference[unit != g].mean() for g in np.unique(unit)])
    size = len(means)
    return means, float((size - 1) / size * ((means - means.mean()) ** 2).sum())


def test_rates_have_as_many_trials_as_their_variance_is_worth() -> None:
    """Korn and Graubard by hand: p(1 − p)/variance · (z/t)² trials, by Clopper and Pearson."""
    rng = np.random.default_rng(0)
    unit = np.repeat(np.arange(12), 5)
    right = (rng.random(60) < np.repeat(rng.random(12), 5)).astype(float)
    rate, (_, variance) = right.mean(), leave_one_out(unit, right)
    trials = rate * (1 - rate) / variance * (1.959963984540054 / t.ppf(0.975, 11)) ** 2
    assert trials < 60
    found = interval(right, cluster=unit, settings=QUICK)
    low = beta.ppf(0.025, rate * trials, trials - rate * trials + 1)
    high = beta.ppf(0.975, rate * trials + 1, trials - rate * trials)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "korn-graubard"


def test_differences_have_students_t_and_the_jackknife_variance() -> None:
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(7), [3, 9, 4, 4, 5, 2, 3])
    one, two = ((rng.random(30) < 0.6).astype(float) for _ in range(2))
    estimate, (_, variance) = (one - two).mean(), leave_one_out(unit, one, two)
    half = t.ppf(0.975, 6) * np.sqrt(variance)
    found = paired_interval(one, two, cluster=unit, settings=QUICK)
    assert (found.low, found.high) == pytest.approx((estimate - half, estimate + half))
    assert found.p_value == pytest.approx(2 * t.sf(abs(estimate) / np.sqrt(variance), 6))
    assert found.method == "t"


def test_clusters_that_never_differ_are_trials_of_tangos() -> None:
    right = np.tile([1.0, 1.0, 0.0], 20)
    found = paired_interval(right, right, cluster=np.arange(60) // 3, settings=QUICK)
    assert np.array((found.low, found.high)) == pytest.approx(np.array(tango(0, 0, 20)))
    assert (found.difference, found.p_value, found.method) == (0, 1, "tango")
    worse = paired_interval(np.ones(12), np.zeros(12), cluster=np.arange(12) // 3, settings=QUICK)
    assert np.array((worse.low, worse.high)) == pytest.approx(np.array(tango(4, 0, 4)))
    assert worse.p_value == pytest.approx(0.0625)  # four clusters, and half of 2/16


@pytest.mark.parametrize(("size", "severities"), [(25, ["few_clusters"]), (20, ["few_clusters"]), (2, [])])
def test_few_clusters_are_warned_of(made, factory, size: int, severities: list[str]) -> None:
    """Of fifty examples two clusters have no intervals, three stand under a warning, twenty-five do not."""
    right = (np.arange(50) % 3 > 0).astype(float)
    values = {"correct": [right, 1 - right], "total_tokens": np.arange(100.0).reshape(2, 50)}
    result = summarise(factory(made(values, np.arange(50) // size)), ["a", "b"], baseline="b", settings=QUICK)
    warned = [note for note in result.notes if note.severity is Severity.WARNING]
    assert [note.code for note in warned] == severities
    ends = [*result.summary["low"], *result.comparisons["high"], *result.comparisons["p_value"]]
    assert all(end is None for end in ends) == (size == 25)


def test_a_metric_known_of_two_clusters_has_a_dash(made, factory) -> None:
    right, some = (np.arange(60) % 3 > 0).astype(float), np.full(60, np.nan)
    some[:20] = right[:20]
    one = made({"correct": right, "found": some}, np.arange(60) // 10)
    table = summarise(factory(one), ["a"], settings=QUICK).summary
    assert table.filter(metric="found").row(0, named=True)["low"] is None
    assert table.filter(metric="accuracy").row(0, named=True)["low"] is not None


@pytest.mark.slow
@pytest.mark.parametrize(("clusters", "least"), [(3, 0.93), (5, 0.93), (10, 0.93), (50, 0.93)])
def test_limits_of_few_clusters_cover(clusters: int, least: float) -> None:
    """Ten examples a cluster, an intraclass correlation of about .2, 70 % right, two policies that are equal."""
    rng, runs, settings = np.random.default_rng(clusters), 600, replace(QUICK, resamples=20)
    unit, rate, pair = np.repeat(np.arange(clusters), 10), 0, 0
    for _ in range(runs):
        hard = np.repeat(rng.beta(0.7 * 4, 0.3 * 4, clusters), 10)
        one, two = ((rng.random(len(unit)) < hard).astype(float) for _ in range(2))
        alone, both = (
            interval(one, cluster=unit, settings=settings),
            paired_interval(one, two, cluster=unit, settings=settings),
        )
        rate += alone.low is not None and alone.high is not None and alone.low <= 0.7 <= alone.high
        pair += both.low is not None and both.high is not None and both.low <= 0 <= both.high
    assert min(rate, pair) / runs >= least - 3 * (0.95 * 0.05 / runs) ** 0.5
