"""Tango's interval and McNemar's p-values: their definitions, hand-worked tables, other implementations."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom, binomtest, t

from tests.errors import refuses
from toolkit.show.tables.table_content import PValue
from toolkit.stats import Settings, differences, interval, paired_interval, summarise
from toolkit.stats.limits.discordant import exact_p_value, mid_p_value, score_p_value, tango_limits
from toolkit.stats.metrics.resamples import fewest_examples

Z = NormalDist().inv_cdf(0.975)


def score(first: int, second: int, n: int, difference: float) -> float:
    """The score statistic of a difference, with the likelihood maximised numerically."""

    def loss(rate: float) -> float:  # of `second` alone
        shares = (rate + difference, rate, 1 - 2 * rate - difference)
        counts = (first, second, n - first - second)
        return -sum(k * math.log(max(share, 1e-300)) for k, share in zip(counts, shares, strict=True) if k)

    found = minimize_scalar(
        loss, bounds=(max(0.0, -difference), (1 - difference) / 2), method="bounded", options={"xatol": 1e-12}
    )
    return (first - second - n * difference) / math.sqrt(n * (2 * found.x + difference * (1 - difference)))


@pytest.mark.parametrize(("first", "second", "n"), [(9, 3, 40), (5, 1, 500), (7, 7, 100), (2, 10, 30), (12, 1, 13)])
def test_tangos_limits_are_where_the_score_test_turns(first: int, second: int, n: int) -> None:
    low, high = (float(end) for end in tango_limits(first, second, n))
    assert score(first, second, n, low) == pytest.approx(Z, abs=1e-3)
    assert score(first, second, n, high) == pytest.approx(-Z, abs=1e-3)


def test_policies_that_agree_differ_by_at_most_what_so_many_examples_show() -> None:
    n = np.array([20, 50, 100, 200, 500, 2500])
    low, high = tango_limits(0, 0, n)
    np.testing.assert_allclose(100 * high, [16.1, 7.1, 3.7, 1.9, 0.76, 0.153], rtol=0.02)
    np.testing.assert_array_equal(low, -high)


def test_tango_turns_with_its_counts_and_stays_within_one() -> None:
    counts = np.array([(a, b) for a, b in product(range(20), repeat=2) if a + b < 20])
    for n in (19, 100, 2500):
        low, high = tango_limits(counts[:, 0], counts[:, 1], n)
        other_low, other_high = tango_limits(counts[:, 1], counts[:, 0], n)
        np.testing.assert_allclose(low, -other_high, atol=1e-12)
        np.testing.assert_allclose(high, -other_low, atol=1e-12)
        estimate = (counts[:, 0] - counts[:, 1]) / n
        assert ((low >= -1) & (low <= estimate) & (estimate <= high) & (high <= 1)).all()


def test_a_false_claim_of_no_loss_is_rare() -> None:
    """A true loss of exactly one point, by flips alone: the chance that a sample rules it out, by enumeration."""
    for n in (20, 100, 381, 500, 1000):
        flips = np.arange(20)
        chance = np.array([math.comb(n, k) * 0.01**k * 0.99 ** (n - k) for k in flips])
        assert chance[tango_limits(0, flips, n)[0] > -0.01].sum() <= 0.026


@pytest.mark.parametrize("margin", [0.01, 0.02, 0.03, 0.05])
def test_a_false_claim_of_no_loss_is_rare_with_many_flips(margin: float) -> None:
    """By flips alone, with as many pairs as up to 4,000 examples bring: no limits end before Tango's."""
    for n in (20, 600, 1000, 1600, 2200, 3000, 4000):
        flips = np.arange(min(n, int(2 * margin * n) + 30) + 1)
        chance = binom.pmf(flips, n, margin)
        assert chance[tango_limits(0, flips, n)[0] > -margin + 1e-12].sum() <= 0.03


@pytest.mark.parametrize(("fixes", "flips"), [(0, 21), (3, 40), (25, 60)])
def test_with_many_pairs_limits_reach_at_least_as_far_as_tangos(fixes: int, flips: int) -> None:
    """Of 600 with 21 flips alone: the resamples end at −4.83 points, above a margin of five, and Tango's does not."""
    one, two = np.ones(600), np.ones(600)
    two[:fixes], one[fixes : fixes + flips] = 0, 0
    found, (low, high) = paired_interval(one, two), tango_limits(fixes, flips, 600)
    assert found.method == "percentile"
    assert found.low is not None
    assert found.high is not None
    assert found.low <= low
    assert found.high >= high
    assert found.p_value is not None
    assert found.p_value >= float(score_p_value(fixes, flips))
    assert fixes or found.low < -0.05


def test_means_over_replays_that_never_lose_are_studentised() -> None:
    found = paired_interval(np.full(600, 0.75), np.linspace(0.25, 0.75, 600))
    assert found.method == "studentised"
    assert found.low is not None
    assert found.low > tango_limits(150, 0, 600)[0]


def test_rare_total_losses_draw_the_limit_out() -> None:
    """Of 500, half move by 1/20, as many up as down, and four lose all, which a true loss of 1 point leaves in a sample
    now and then: Student's limit and the percentile's rule out −1.7 points, that of the studentised bootstrap doesn't.
    """
    two = np.full(500, 0.5)
    one = two + np.where(np.arange(500) % 4 == 0, 0.05, np.where(np.arange(500) % 4 == 1, -0.05, 0))
    one[:4], two[:4] = 0, 1
    moved, found = one - two, paired_interval(one, two)
    student = moved.mean() - float(t.isf(0.025, 499)) * moved.std(ddof=1) / math.sqrt(500)
    assert found.method == "studentised"
    assert found.low is not None
    assert found.low < -0.02 < -0.017 < student


def test_exact_and_mid_p() -> None:
    assert exact_p_value([4, 5, 6, 0, 3], [0, 0, 0, 0, 3]).tolist() == [0.125, 0.0625, 0.03125, 1, 1]
    assert mid_p_value([4, 5, 6, 0, 3], [0, 0, 0, 0, 3]).tolist() == pytest.approx([0.0625, 0.03125, 0.015625, 1, 1])
    # Seven pairs, two against five: 2 (1 + 7 + 21) / 128; half of the last counts in the mid-p.
    assert (float(exact_p_value(5, 2)), float(mid_p_value(5, 2))) == pytest.approx((58 / 128, (58 - 21) / 128))
    for one, two in product(range(0, 40, 3), range(0, 40, 7)):
        if one + two:
            assert float(exact_p_value(one, two)) == pytest.approx(binomtest(one, one + two).pvalue)
    assert float(exact_p_value(0, 5, share=1 / 3)) == pytest.approx(2 * (2 / 3) ** 5)


def test_statsmodels_agrees() -> None:
    tables = pytest.importorskip("statsmodels.stats.contingency_tables")
    for one, two in ((5, 2), (0, 7), (12, 30), (4, 4)):
        table = [[100, one], [two, 50]]
        assert float(exact_p_value(one, two)) == pytest.approx(tables.mcnemar(table, exact=True).pvalue)
        chi = tables.mcnemar(table, exact=False, correction=False)
        assert float(score_p_value(one, two)) == pytest.approx(chi.pvalue)


@pytest.mark.parametrize("margin", [0.005, 0.01, 0.05])
def test_the_fewest_examples_that_rule_out_a_loss(margin: float) -> None:
    fewest = fewest_examples(margin)
    assert fewest is not None
    assert (1 - margin) ** fewest < 0.0101
    assert tango_limits(0, 0, fewest)[1] < margin
    assert fewest_examples(0.01) == 461
    assert fewest_examples(0.0) is None


@pytest.mark.parametrize(
    "call", [lambda: tango_limits(-1, 0, 5), lambda: tango_limits(3, 3, 5), lambda: exact_p_value(0.5, 1)]
)
def test_doors(call) -> None:
    with refuses("invalid", "`second`", "`first`") as error:
        call()
    assert "\n" not in str(error.value)


def test_twenty_discordant_pairs_keep_the_bootstrap() -> None:
    def pairs(gained: int, lost: int, n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        one, two = np.ones(n), np.ones(n)
        two[:gained], one[gained : gained + lost] = 0, 0
        return one, two

    few, many = paired_interval(*pairs(12, 7)), paired_interval(*pairs(12, 8))
    assert (few.method, many.method) == ("tango", "percentile")
    assert np.array((few.low, few.high)) == pytest.approx(np.array(tango_limits(12, 7, 400)))
    assert few.p_value == pytest.approx(float(mid_p_value(12, 7)))
    assert (few.gained, few.lost, few.exact_p) == (12, 7, pytest.approx(float(exact_p_value(12, 7))))
    clustered = paired_interval(*pairs(12, 7), cluster=np.arange(400) // 2)
    # Clusters of two: six gains (12 examples), three losses, and one of which one example is lost.
    assert (clustered.gained, clustered.lost, clustered.exact_p) == (6, 4, pytest.approx(float(exact_p_value(6, 4))))


def test_parts_of_an_example_count_as_parts() -> None:
    """Means of two orders: one gains half on three examples, loses half on one, of 60; elsewhere both have a half."""
    one = np.full(60, 0.5)
    two = one.copy()
    two[:3], two[3] = 0.0, 1.0
    found = paired_interval(one, two)
    assert found.method == "graded_tango"
    # Differences of 1/2 on four examples are worth four: 2²/1. Tango's takes each as one, of twice as many examples.
    error = math.sqrt((4 * 0.25 / 60 - (1 / 60) ** 2) / 59)
    half, (low, high) = 2.0010 * error, tango_limits(3, 1, 120)
    assert found.low == pytest.approx(min(1 / 60 - half, low), abs=1e-5)
    assert found.high == pytest.approx(max(1 / 60 + half, high), abs=1e-5)
    assert found.p_value == pytest.approx(max(float(score_p_value(3, 1)), 2 * float(t.sf(1 / 60 / error, 59))))
    assert (found.gained, found.lost) == (3, 1)
    same = paired_interval(one, one)
    assert (same.low, same.high) == pytest.approx((-Z * Z / (60 + Z * Z), Z * Z / (60 + Z * Z)))


def test_costs_that_agree_do_not_differ() -> None:
    tokens = np.full(30, 120.0)
    found = paired_interval(tokens, tokens)
    assert (found.low, found.high, found.exact_p) == (0, 0, None)
    assert interval(tokens).method == "percentile"


def test_groups_of_policies_are_compared_as_a_run_compares_them(made, factory) -> None:
    rng = np.random.default_rng(4)
    right = (rng.random((4, 80)) < 0.7).astype(float)
    right[1] = right[0]
    right[1, :3] = 1 - right[0, :3]
    settings, names = Settings(resamples=200), ["a", "b", "c", "d"]
    one = factory(made({"correct": right, "total_tokens": rng.random((4, 80))}))
    found = differences(one, names, "accuracy", [["a", "b"], ["d", "c"]], settings=settings)
    assert found.select("policy", "baseline").rows() == [("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]
    assert found["method"].to_list() == ["tango", "tango", "percentile", "percentile"]
    for first, second in (("a", "b"), ("c", "d")):
        run = summarise(one, names, baseline=second, settings=settings).comparisons
        assert found.filter(policy=first).rows() == run.filter(policy=first, baseline=second, metric="accuracy").rows()
    with refuses("unknown", "`metric`", "'acuracy'"):
        differences(one, names, "acuracy", [["a", "b"]], settings=settings)


@pytest.mark.parametrize("resamples", [200, 10_000])
def test_no_p_value_of_resamples_is_smaller_than_these_can_show(resamples: int) -> None:
    """A policy that is right on 80 more of 100: resamples give 2 / (B + 1) at least, clusters' t may give less."""
    right, wrong, settings = np.arange(100) < 90, np.arange(100) < 10, Settings(resamples=resamples)
    alone = paired_interval(right * 1.0, wrong * 1.0, settings=settings)
    assert alone.p_value == pytest.approx(2 / (resamples + 1))
    assert "<" not in PValue().show(alone.p_value)
    clusters = paired_interval(right * 1.0, wrong * 1.0, cluster=np.arange(100) % 50, settings=settings)
    assert 0 < float(clusters.p_value or 0) < 1e-4
    assert PValue().show(clusters.p_value) == "< .0001"
