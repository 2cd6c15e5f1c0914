"""Clusters are the trials: exact limits of rates, Student's t of all else, a warning for few, a dash below three."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, t

from tests.errors import noted
from toolkit.notes import Severity
from toolkit.stats import Settings, interval, paired_interval, summarise, wilson
from toolkit.stats.limits.discordant import tango_limits

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
    one, two = (rng.integers(0, 9, 30).astype(float) for _ in range(2))  # no rates, which may reach further
    estimate, (_, variance) = (one - two).mean(), leave_one_out(unit, one, two)
    freedom = 30**2 / (9 + 81 + 16 + 16 + 25 + 4 + 9) - 1  # seven clusters of unequal size are worth 5.6
    half = t.ppf(0.975, freedom) * np.sqrt(variance)
    found = paired_interval(one, two, cluster=unit, settings=QUICK)
    assert (found.low, found.high) == pytest.approx((estimate - half, estimate + half))
    assert found.p_value == pytest.approx(2 * t.sf(abs(estimate) / np.sqrt(variance), freedom))
    assert found.method == "t_few"  # of fewer than ten clusters


def test_unequal_clusters_are_marked_by_their_worth(made, factory) -> None:
    """Twenty of one example, ten of nine: 110²/830 = 14.6. Forty of one, three of thirty: 130²/2,740 = 6.17."""
    for sizes, worth, method in (([1] * 20 + [9] * 10, 14.58, ""), ([1] * 40 + [30] * 3, 6.17, "_few")):
        unit = np.repeat(np.arange(len(sizes)), sizes)
        right = (np.arange(len(unit)) % 3 > 0).astype(float)
        result = summarise(factory(made({"correct": right}, unit)), ["a"], settings=QUICK)
        assert result.summary.row(0, named=True)["method"] == f"korn-graubard{method}"
        noted(result.notes, "few_clusters" if method else "clusters", f" {worth:.3g} ")


def test_graded_values_of_clusters_are_hardly_wider_than_students(made, factory) -> None:
    """27 scores of a judge in nine clusters, of which few tell two policies apart: as trials these would be wider."""
    rng = np.random.default_rng(3)
    base = rng.choice([0.6, 0.7, 0.8, 0.9, 1.0], 27)
    moved = np.where(rng.random(27) < 0.5, rng.choice([0.6, 0.7, 0.8, 0.9, 1.0], 27), base)
    unit = np.arange(27) // 3
    one = made({"correct": np.ones((2, 27)), "credit": np.stack([moved, base])}, unit)
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    level, row = (table.filter(policy="a", metric="credit").row(0, named=True)
                  for table in (result.summary, result.comparisons))  # fmt: skip
    for got, columns in ((level, [moved]), (row, [moved, base])):
        half = t.ppf(0.975, 8) * np.sqrt(leave_one_out(unit, *columns)[1])
        assert got["high"] - got["low"] < 1.1 * 2 * half
        assert got["method"].endswith("_few")
    assert np.count_nonzero(moved != base) < 20


def test_limits_to_the_baseline_have_the_clusters_as_trials(made, factory) -> None:
    """Two of twenty clusters of five gain an example each: alone and beside others Tango's of 0.4 in 20 trials."""
    base, right = np.zeros(100), np.zeros(100)
    right[[0, 50]] = 1
    one = made({"correct": np.stack([base, right])}, np.arange(100) // 5)
    row = summarise(factory(one), ["a", "b"], baseline="a", settings=QUICK).ranks.row(1, named=True)
    low, high = (float(end) for end in tango_limits(0.4, 0, 20))
    assert (row["baseline_low"], row["baseline_high"]) == pytest.approx((low, high), rel=0.02)


def test_clusters_that_never_differ_are_trials_of_tangos() -> None:
    right = np.tile([1.0, 1.0, 0.0], 20)
    found = paired_interval(right, right, cluster=np.arange(60) // 3, settings=QUICK)
    assert np.array((found.low, found.high)) == pytest.approx(np.array(tango_limits(0, 0, 20)))
    assert (found.difference, found.p_value, found.method) == (0, 1, "tango")
    worse = paired_interval(np.ones(12), np.zeros(12), cluster=np.arange(12) // 3, settings=QUICK)
    high = pytest.approx(float(tango_limits(4, 0, 4)[1]))
    assert (worse.low, worse.high) == (0.0, high)  # as the mid-p of 1/16 says
    assert worse.p_value == pytest.approx(0.0625)  # four clusters, and half of 2/16


def test_a_few_discordant_examples_never_say_more_than_none() -> None:
    """One or two losses in 250 clusters of two: Tango's interval with the clusters as trials, as without a loss."""
    unit, base, ends = np.arange(500) // 2, np.ones(500), []
    for lost in range(3):
        right = base.copy()
        right[[10, 21][:lost]] = 0
        found = paired_interval(right, base, cluster=unit, settings=QUICK)
        assert (found.low, found.high) == pytest.approx(tuple(float(end) for end in tango_limits(0, lost / 2, 250)))
        assert (found.method, found.gained, found.lost) == ("tango", 0, lost)
        assert found.exact_p == found.p_value * 2 ** (lost > 0)
        ends.append(found.low)
    assert ends == sorted(ends, reverse=True)


def test_clusters_of_unequal_size_are_worth_fewer_trials() -> None:
    """Of 100 and 50 clusters of one and of six examples: 400²/(100 + 50 · 36) = 84.2, Kish's effective number."""
    unit = np.concatenate([np.arange(100), np.repeat(np.arange(100, 150), 6)])
    base, right = np.ones(400), np.ones(400)
    right[[3, 120]] = 0
    found = paired_interval(right, base, cluster=unit, settings=QUICK)
    trials = 400**2 / 1900
    assert (found.low, found.high) == pytest.approx(
        tuple(float(end) for end in tango_limits(0, 2 / 400 * trials, trials))
    )


def test_few_clusters_that_differ_are_few_pairs_too() -> None:
    """Five clusters of five that lose everything are five trials, however many examples they have."""
    unit, base = np.arange(1000) // 5, np.ones(1000)
    right = base.copy()
    right[:25] = 0
    found = paired_interval(right, base, cluster=unit, settings=QUICK)
    assert (found.low, found.high) == pytest.approx(tuple(float(end) for end in tango_limits(0, 5, 200)))
    assert found.exact_p == 0.0625


def test_students_limits_of_rates_reach_as_far_as_tangos_on_the_side_of_the_losses() -> None:
    unit, base, right = np.arange(1000) // 5, np.ones(1000), np.ones(1000)
    right[np.arange(40) * 25] = 0
    found = paired_interval(right, base, cluster=unit, settings=QUICK)
    _, variance = leave_one_out(unit, right, base)
    ratio = t.ppf(0.975, 199) / 1.959963984540054
    trials = min(0.04 * 0.96 / variance, 1000) / ratio**2
    half = t.ppf(0.975, 199) * np.sqrt(variance)
    assert found.method == "t"
    assert found.low == pytest.approx(float(tango_limits(0, 0.04 * trials, trials)[0]))
    assert found.low < -0.04 - half
    assert found.high == pytest.approx(-0.04 + half)


@pytest.mark.parametrize(("clusters", "loss"), [(250, 0.01), (100, 0.01), (500, 0.01), (30, 0.05), (8, 0.05)])
def test_a_loss_of_the_margin_is_rarely_called_not_worse(made, factory, clusters: int, loss: float) -> None:
    rng, n = np.random.default_rng(clusters), 1000
    unit = np.arange(n) * clusters // n
    chance = rng.beta(4 * loss, 4 * (1 - loss), (400, clusters))
    rows = np.concatenate([np.ones((1, n)), (rng.random((400, n)) >= chance[:, unit]) * 1.0])
    names = [f"p{i}" for i in range(401)]
    settings = replace(QUICK, resamples=20)
    found = summarise(factory(made({"correct": rows}, unit)), names, baseline="p0", ranked=False, settings=settings)
    low = found.comparisons.filter(metric="accuracy", baseline="p0")["low"].to_numpy()
    assert np.mean(low > -loss) <= 0.03


def test_reductions_of_clusters_are_fiellers(made, factory) -> None:
    """Of clusters of equal size by hand: the quotients R for which the mean of x − R·y over them is not far from 0."""
    rng = np.random.default_rng(4)
    unit, cost = np.repeat(np.arange(600), 2), rng.gamma(8.0, 10.0, (2, 1200))
    result = summarise(factory(made({"total_tokens": cost, "correct": np.ones((2, 1200))}, unit)), ["a", "b"],
                       baseline="b", settings=QUICK)  # fmt: skip
    row = result.comparisons.filter(metric="reduction:total_tokens").row(0, named=True)
    x, y = cost.reshape(2, 600, 2).mean(axis=2)
    for ratio, side in ((1 - row["low"], -1), (1 - row["high"], 1)):
        apart = x - ratio * y
        size = side * apart.mean() / (apart.std(ddof=1) / np.sqrt(600))
        assert size == pytest.approx(t.ppf(0.975, 599), rel=0.02)  # raised by what little skewness there is
    assert row["method"] == "fieller"


def test_a_reduction_of_next_to_nothing_has_a_dash(made, factory) -> None:
    """Two of twelve clusters pay anything at all: what is divided by does not differ from 0."""
    cost = np.zeros((2, 120))
    cost[0, [5, 60]], cost[1, [0, 30]] = (100, 30), (500, 100)
    values = {"correct": np.ones((2, 120)), "verification_tokens": cost}
    result = summarise(factory(made(values, np.arange(120) // 10)), ["a", "b"], baseline="b", settings=QUICK)
    row = result.comparisons.filter(metric="reduction:verification_tokens").row(0, named=True)
    assert (row["low"], row["high"], row["p_value"], row["method"]) == (None, None, None, None)
    assert row["difference"] == pytest.approx(1 - 130 / 600)
    assert "weak_denominator" in [note.code for note in result.notes]


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


@pytest.mark.parametrize(
    ("right", "clusters", "size", "method"),
    [(0.7, 100, 5, "korn-graubard"), (0.99, 100, 5, "korn-graubard_few"), (0.7, 9, 50, "korn-graubard_few")],
)
def test_rates_of_few_events_or_clusters_are_marked(right: float, clusters: int, size: int, method: str) -> None:
    values = (np.random.default_rng(5).random(clusters * size) < right).astype(float)
    assert interval(values, cluster=np.arange(clusters * size) // size, settings=QUICK).method == method


@pytest.mark.parametrize(("clusters", "method"), [(499, "t_few"), (500, "t")])
def test_costs_of_fewer_than_500_clusters_are_marked(made, factory, clusters: int, method: str) -> None:
    cost = np.random.default_rng(6).gamma(2.0, 50.0, (2, 2 * clusters))
    one = made({"total_tokens": cost, "correct": np.ones(cost.shape)}, np.arange(2 * clusters) // 2)
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    assert set(result.summary.filter(metric="total_tokens")["method"]) == {method}
    assert set(result.comparisons.filter(metric="total_tokens")["method"]) == {method}


def test_an_f1_has_as_many_trials_as_its_variance_is_worth(made, factory) -> None:
    """Wilson's limits of F(1 − F)/V · (z/t)² trials, V the jackknife's, by hand."""
    rng = np.random.default_rng(8)
    gold, unit = rng.integers(0, 2, 120), np.arange(120) // 4
    answers = np.where(rng.random(120) < 0.35, 1 - gold, gold)
    one = made({"correct": (answers == gold) * 1.0}, unit, gold.astype(np.int32), np.eye(2)[answers][None])
    row = summarise(factory(one), ["a"], labels=["x", "y"], settings=QUICK).summary.filter(metric="macro_f1")

    def macro(some: np.ndarray) -> float:
        parts = [((gold == c) & some, (answers == c) & some) for c in (0, 1)]
        return float(np.mean([2 * (one & two).sum() / (one.sum() + two.sum()) for one, two in parts]))

    means = np.array([macro(unit != g) for g in range(30)])
    value, variance = macro(unit >= 0), 29 / 30 * ((means - means.mean()) ** 2).sum()
    trials = value * (1 - value) / variance * (1.959963984540054 / t.ppf(0.975, 29)) ** 2
    assert row.row(0)[2:5] == pytest.approx((value, *wilson(value * trials, trials)))


def test_f1s_of_few_errors_are_marked_and_as_wide_as_without_a_difference(made, factory) -> None:
    gold = np.tile([0, 1, 2], 100)
    answers = np.stack([gold, gold, gold])
    answers[1, 0], answers[2, :120] = 1, (gold[:120] + 1) % 3
    values = {"correct": (answers == gold) * 1.0}
    one = made(values, np.arange(300) // 3, gold.astype(np.int32), np.eye(3)[answers])
    result = summarise(factory(one), ["a", "b", "c"], baseline="a", labels=["x", "y", "z"], settings=QUICK)
    methods = dict(result.summary.filter(metric="macro_f1").select("policy", "method").iter_rows())
    assert (methods["b"], methods["c"]) == ("t_few", "t")
    row = result.comparisons.filter(metric="macro_f1", policy="b").row(0, named=True)
    low, high = (float(end) for end in tango_limits(0, 0, 300))  # of so many examples
    assert row["method"] == "t_few"
    assert row["low"] <= low
    assert row["high"] >= high


def test_a_p_value_of_f1s_in_few_clusters_says_what_its_interval_says(made, factory) -> None:
    """b is right on 16 more of 80, one in each of 16 clusters: Student's t is sure of it, 16 examples are not."""
    gold = np.tile([0, 1, 2, 0, 1], 16)
    answers = np.stack([gold, np.where(np.arange(80) % 5 == 4, 2, gold)])
    one = made({"correct": (answers == gold) * 1.0}, np.arange(80) // 5, gold.astype(np.int32), np.eye(3)[answers])
    result = summarise(factory(one), ["a", "b"], baseline="a", leaders=["a"], labels=["x", "y", "z"], settings=QUICK)
    for row in result.comparisons.filter(policy="b").drop_nulls("low").iter_rows(named=True):
        assert (row["p_value"] < 0.05) == (not row["low"] <= 0 <= row["high"]), row
    for row in result.ranks.filter(policy="b").drop_nulls("baseline_low").iter_rows(named=True):
        assert (row["p_baseline"] < 0.05) == (not row["baseline_low"] <= 0 <= row["baseline_high"]), row
