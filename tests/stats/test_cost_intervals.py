"""Costs with heavy tails: studentised means and differences, and quotients by Fieller's theorem."""

import numpy as np
import pytest
from scipy import stats

from toolkit.columns import COLUMNS, OutcomeColumn
from toolkit.stats import Settings, paired_reduction, resampled_metric, summarise
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.limits.fieller import PairMoments, cost_moments, fieller_limits
from toolkit.stats.limits.studentised import Spread, studentised_limits

SETTINGS = Settings(resamples=999)


def only(frame, **where):
    return frame.filter(**where).row(0, named=True)


def spread_of(values):
    moved = values - values.mean()
    return (moved**2).mean(), (moved**3).mean()


def pair_moments(x, y):
    dx, dy = x - x.mean(), y - y.mean()
    parts = [(dx**i * dy**j).mean() for i, j in ((2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3))]
    return PairMoments(len(x), *(np.array([part]) for part in (x.mean(), y.mean(), *parts)))


def test_studentised_limits_by_hand():
    spread = Spread(np.full(1, 3.0), np.full(1, 6.0))  # of 0, 0, 0, 4
    low, high = studentised_limits(np.ones(1), np.zeros(1), np.full(1, 2.0), spread)
    assert high[0] == pytest.approx(1 + np.sqrt(3 / 0.15))
    assert low[0] == pytest.approx(1 - np.sqrt(3 / (3 - 1)))


def variance_at(deviation, second, third):
    slope = min(third * deviation, 0) * 1.25 / second
    return max(second + slope - deviation**2, 0.05 * second)


@pytest.mark.parametrize("size", [60, 600])
def test_means_and_differences_are_studentised(made, factory, size):
    rng = np.random.default_rng(3)
    seconds = rng.lognormal(0, 1, (2, size)) * [[1.4], [1.0]]
    one = made({"latency_s": seconds})
    found = summarise(factory(one), ["a", "b"], baseline="b", settings=SETTINGS)
    drawn = resampled_metric(factory(one), ["a", "b"], "latency_s", settings=SETTINGS)
    few = "studentised" + "_few" * (size < 500)
    for row, values, each in (
        (only(found.summary, policy="a", metric="latency_s"), drawn[0], seconds[0]),
        (only(found.comparisons, policy="a", metric="latency_s"), drawn[0] - drawn[1], seconds[0] - seconds[1]),
    ):
        moments = spread_of(each)
        second = moments[0]
        estimate, ends = each.mean(), []
        for level in (0.975, 0.025):
            deviation = np.quantile(values, level) - estimate
            ends.append(estimate - deviation * np.sqrt(second / variance_at(deviation, *moments)))
        assert row["method"] == few
        assert (row["low"], row["high"]) == pytest.approx(ends, rel=1e-9)
    # The p-value counts the resamples whose deviation, studentised, is at least the estimate, studentised.
    t = [(v - estimate) / np.sqrt(variance_at(v - estimate, *moments)) for v in values]
    assert row["p_value"] == min(1, 2 * (1 + int((np.array(t) >= estimate / np.sqrt(second)).sum())) / 1000)


def test_a_p_value_and_its_interval_agree(made, factory):
    rng = np.random.default_rng(8)
    costs = rng.lognormal(0, 1, (40, 80))
    found = summarise(
        factory(made({"latency_s": costs})), [f"p{i}" for i in range(40)], baseline="p0", settings=SETTINGS
    )
    for row in found.comparisons.filter(metric="latency_s").iter_rows(named=True):
        assert (row["low"] > 0 or row["high"] < 0) == (row["p_value"] < 0.05)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_costs_that_do_not_vary_are_certain(made, factory, method):
    same = np.random.default_rng(1).lognormal(0, 1, 50)
    one = made({"latency_s": [same, same], "traces": [np.full(50, 3.0), np.full(50, 4.0)]})
    found = summarise(factory(one), ["a", "b"], baseline="b", settings=Settings(resamples=200, method=method))
    for metric, value in (("latency_s", 0), ("reduction:latency_s", 0), ("traces", -1), ("reduction:traces", 0.25)):
        row = only(found.comparisons, policy="a", metric=metric)
        assert [row[key] for key in ("difference", "low", "high", "method")] == [value, value, value, "percentile"]


def test_fieller_by_hand_and_where_nothing_is_significant():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 2.0, 2.0])
    assert np.concatenate(fieller_limits(pair_moments(x, y), 0.95)) == pytest.approx([-0.242, 2.242], abs=5e-4)
    y = np.array([-3.0, 2.0, 2.5])
    assert np.isnan(np.concatenate(fieller_limits(pair_moments(x, y), 0.95))).all()


def test_fieller_limits_are_where_a_t_test_just_does_not_reject():
    # Points mirrored at their mean: no skewness, so the critical value is Student's.
    rng = np.random.default_rng(2)
    half = rng.multivariate_normal([0, 0], [[1, 0.4], [0.4, 0.5]], 20)
    x, y = (np.concatenate([half, -half]) + np.array([3, 4])).T
    for ratio in np.concatenate(fieller_limits(pair_moments(x, y), 0.95)):
        assert stats.ttest_1samp(x - ratio * y, 0).pvalue == pytest.approx(0.05, abs=1e-9)


def test_skewness_only_widens_fieller():
    rng = np.random.default_rng(4)
    for _ in range(20):
        x, y = rng.lognormal(0, 1, 60), 0.5 + rng.gamma(3, 1, 60)
        low, high = fieller_limits(pair_moments(x, y), 0.95)
        t = stats.ttest_1samp(x - low[0] * y, 0).pvalue, stats.ttest_1samp(x - high[0] * y, 0).pvalue
        assert max(t) <= 0.05 + 1e-6
        assert low[0] < x.mean() / y.mean() < high[0]


def test_a_reduction_is_fiellers_and_has_the_p_value_of_the_difference(made, factory):
    rng = np.random.default_rng(5)
    one, two = rng.lognormal(0, 1, 80), rng.lognormal(0.3, 1, 80)
    low, high = fieller_limits(pair_moments(one, two), 0.95)
    found = summarise(factory(made({"latency_s": [one, two]})), ["a", "b"], baseline="b", settings=SETTINGS)
    row = only(found.comparisons, policy="a", metric="reduction:latency_s")
    assert (row["low"], row["high"], row["method"]) == (
        pytest.approx(1 - high[0]),
        pytest.approx(1 - low[0]),
        "fieller_few",
    )
    assert row["p_value"] == only(found.comparisons, policy="a", metric="latency_s")["p_value"]
    got = paired_reduction(one, two, "latency_s", settings=SETTINGS)
    assert (got.low, got.high) == (pytest.approx(row["low"]), pytest.approx(row["high"]))


def test_a_cost_by_right_answer_is_fiellers(made, factory):
    rng = np.random.default_rng(6)
    right, tokens = rng.random(700) < 0.6, rng.lognormal(5, 1, 700)
    per = OutcomeColumn("tokens_per_right", computed="ratio", ratio=("total_tokens", "accuracy"), cost=True, per=10.0)
    one = made({"correct": [right, np.zeros(700)], "total_tokens": [tokens, tokens]})
    found = summarise(factory(one), ["a", "b"], columns=[*COLUMNS, per], settings=SETTINGS)
    row = only(found.summary, policy="a", metric="tokens_per_right")
    limits = fieller_limits(pair_moments(10 * tokens, right * 1.0), 0.95)
    assert (row["low"], row["high"]) == pytest.approx(tuple(np.concatenate(limits)))
    assert row["method"] == "fieller"
    assert only(found.summary, policy="b", metric="tokens_per_right")["estimate"] is None  # nothing is right


def test_moments_of_clusters_are_those_of_their_sums(made, factory):
    rng = np.random.default_rng(9)
    costs, unit = rng.lognormal(0, 1, (2, 90)), np.sort(rng.integers(0, 30, 90))
    one = made({"latency_s": costs}, np.unique(unit, return_inverse=True)[1])
    sample = read_sample(factory(one), ["a", "b"], None, SETTINGS, COLUMNS, "accuracy")
    number = [metric.name for metric in sample.metrics].index("latency_s")
    plan = sample.series_plan([1])
    found = cost_moments(sample.units, plan.scan, plan.metrics, plan.valued, plan.references)
    weight = np.bincount(one.unit)
    moved = [np.bincount(one.unit, weights=row) - row.mean() * weight for row in costs]
    moved = [part / weight.mean() for part in (*moved, moved[0] - moved[1])]
    for place, part in ((0, moved[0]), (1, moved[2])):
        got = [getattr(found, name)[place, number, 0] for name in ("second", "third")]
        assert got == pytest.approx([(part**2).mean(), (part**3).mean()])
    assert found.mixed[0, number, 0] == pytest.approx((moved[0] ** 2 * moved[1]).mean())
