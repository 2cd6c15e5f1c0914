"""Shares of the headroom: by hand, and where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import t

from tests.stats.test_pair_differences import store_of
from toolkit.stats import Settings
from toolkit.stats.limits.discordant import tango_limits
from toolkit.stats.many.headroom import captured_shares

SETTINGS = Settings(resamples=4000)


def plain_fieller(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Roots of (x̄ − R·ȳ)² = t² · variance of the mean of x − R·y, found on a grid."""
    grid = np.linspace(-3, 4, 70_001)
    size = len(x)
    covariance = np.cov(x, y) / size
    variance = covariance[0, 0] - 2 * grid * covariance[0, 1] + grid**2 * covariance[1, 1]
    kept = (x.mean() - grid * y.mean()) ** 2 <= t.ppf(0.975, size - 1) ** 2 * variance
    return float(grid[kept].min()), float(grid[kept].max())


def test_shares_by_hand() -> None:
    """400 examples: the baseline is right on 200, the policy on 240 of which 20 are others', the oracle on 320."""
    base, policy, oracle = np.zeros((3, 400))
    base[:200] = 1
    policy[20:260] = 1
    oracle[:320] = 1
    found = captured_shares(store_of(np.stack([base, policy, oracle])), "correct", 0, 2, SETTINGS)
    assert found.room == pytest.approx(120 / 400)
    assert found.share.tolist() == pytest.approx([0, 40 / 120, 1])
    assert np.isnan(found.low[[0, 2]]).all()
    low, high = plain_fieller(policy - base, oracle - base)
    # percentiles of the resampled ratio, which are near Fieller's limits
    assert (found.low[1], found.high[1]) == (pytest.approx(low, abs=0.02), pytest.approx(high, abs=0.02))
    assert found.method.tolist() == ["", "percentile", ""]
    drawn = np.random.default_rng(1).multinomial(400, np.full(400, 1 / 400), size=4000)
    ratio = (drawn @ (policy - base)) / (drawn @ (oracle - base))
    assert (found.low[1], found.high[1]) == pytest.approx(tuple(np.quantile(ratio, [0.025, 0.975])), abs=0.02)


def test_a_policy_worse_than_the_baseline_has_a_negative_share() -> None:
    base, policy, oracle = np.zeros((3, 400))
    base[:200], policy[:150], oracle[:300] = 1, 1, 1
    found = captured_shares(store_of(np.stack([base, policy, oracle])), "correct", 0, 2, SETTINGS)
    assert found.share[1] == pytest.approx(-0.5)
    assert found.high[1] < 0


def test_no_share_where_the_headroom_is_not_told_from_none() -> None:
    base, oracle = np.zeros((2, 400))
    base[:200], oracle[:202] = 1, 1
    found = captured_shares(store_of(np.stack([base, base, oracle])), "correct", 0, 2, SETTINGS)
    assert np.isnan(found.share).all()
    none = captured_shares(store_of(np.stack([oracle, base, base])), "correct", 0, 2, SETTINGS)
    assert none.room < 0
    assert np.isnan(none.share).all()


@pytest.mark.parametrize("clusters", [16, 80])
def test_a_policy_as_good_as_the_oracle_everywhere_may_be_worse_elsewhere(clusters: int) -> None:
    base, oracle = np.zeros((2, 80))
    base[::2], oracle[:76] = 1, 1
    store = store_of(np.stack([base, oracle, oracle]), np.arange(80) % clusters)
    found = captured_shares(store, "correct", 0, 2, SETTINGS)
    assert (found.share[1], found.method[1]) == (1, "tango")
    assert found.low[1] == pytest.approx(1 + float(tango_limits(0, 0, clusters)[0]) / found.room)


def test_clusters_are_the_units() -> None:
    """Ten copies of each example in a cluster say no more than the examples."""
    rng = np.random.default_rng(1)
    correct = (rng.random((3, 60)) < [[0.4], [0.6], [0.95]]).astype(float)
    correct[2] = correct.max(axis=0)
    plain = captured_shares(store_of(correct), "correct", 0, 2, SETTINGS)
    copied = captured_shares(
        store_of(np.repeat(correct, 10, axis=1), np.repeat(np.arange(60), 10)), "correct", 0, 2, SETTINGS
    )
    assert copied.low[1] == pytest.approx(plain.low[1])
    assert copied.high[1] == pytest.approx(plain.high[1])


def test_unjudged_examples_count_for_nobody() -> None:
    rng = np.random.default_rng(2)
    correct = (rng.random((3, 80)) < [[0.4], [0.6], [0.95]]).astype(float)
    correct[2] = correct.max(axis=0)
    some = correct.copy()
    some[:, 60:] = np.nan
    plain, less = (captured_shares(store_of(one), "correct", 0, 2, SETTINGS) for one in (correct[:, :60], some))
    assert less.share.tolist() == pytest.approx(plain.share.tolist())
    assert less.low[1] == pytest.approx(plain.low[1], abs=0.01)  # 79 degrees of freedom in place of 59


def test_limits_are_fiellers_own_and_few_differences_get_tangos() -> None:
    """Two examples gained of 2,000: a skewness that is taken from two examples says nothing of a tail."""
    base, policy, oracle, same = np.zeros((4, 2000))
    base[:1000], policy[:1002], oracle[:1100] = 1, 1, 1
    same[:1000] = 1
    found = captured_shares(store_of(np.stack([base, policy, oracle, same])), "correct", 0, 2, SETTINGS)
    low, high = tango_limits([2, 0], [0, 0], 2000)
    room = 100 / 2000
    plain = plain_fieller(policy - base, oracle - base)
    assert found.method.tolist() == ["", "tango", "", "tango"]
    assert found.low[1] == pytest.approx(min(plain[0], low[0] / room), abs=3e-3)
    assert found.high[1] == pytest.approx(max(plain[1], high[0] / room), abs=3e-3)
    assert (found.share[3], found.low[3], found.high[3]) == pytest.approx((0, low[1] / room, high[1] / room))


def test_few_examples_of_the_oracle_alone_are_marked() -> None:
    """49 that the oracle alone has right, of which the policy has 25: Fieller's limits, marked; with 50 percentiles."""
    for alone, method in ((49, "headroom_few"), (50, "percentile")):
        base, policy, oracle = np.zeros((3, 400))
        base[:200], policy[:225], oracle[: 200 + alone] = 1, 1, 1
        found = captured_shares(store_of(np.stack([base, policy, oracle])), "correct", 0, 2, SETTINGS)
        assert found.method[1] == method
        plain = plain_fieller(policy - base, oracle - base)
        assert (found.low[1], found.high[1]) == pytest.approx(plain, abs=1e-3 if alone < 50 else 0.03)


def test_shares_of_several_hold_at_once() -> None:
    """Max-t of the linearised shares, by plain normal draws; copies of one policy are no more than one."""
    rng = np.random.default_rng(5)
    base, oracle = np.zeros(800), np.ones(800)
    base[:300] = 1
    oracle[750:] = 0
    policies = (rng.random((6, 800)) < 0.35 + 0.4 * base).astype(float)
    rows = np.stack([base, *policies, oracle])
    alone = captured_shares(store_of(rows), "correct", 0, 7, SETTINGS)
    at_once = captured_shares(store_of(rows), "correct", 0, 7, SETTINGS, range(1, 7))
    assert at_once.share.tolist() == pytest.approx(alone.share.tolist())
    room = oracle - base
    moved = policies - base - alone.share[1:7, None] * room
    spread = np.linalg.cholesky(np.corrcoef(moved))
    largest = np.abs(spread @ rng.standard_normal((6, 40_000))).max(axis=0)
    level = 2 * t.cdf(np.quantile(largest, 0.95), 799) - 1
    plain = captured_shares(store_of(rows), "correct", 0, 7, replace(SETTINGS, level=float(level)))
    assert at_once.low[1:7] == pytest.approx(plain.low[1:7], abs=0.01)
    assert at_once.high[1:7] == pytest.approx(plain.high[1:7], abs=0.01)
    assert (at_once.low[1:7] < alone.low[1:7]).all()
    copies = captured_shares(
        store_of(np.stack([base, *[policies[0]] * 6, oracle])), "correct", 0, 7, SETTINGS, range(1, 7)
    )
    assert copies.low[1] == pytest.approx(alone.low[1], abs=0.005)


def test_parts_of_examples_count_as_what_they_are_worth() -> None:
    """Sixty examples on which the oracle is ahead by a half are worth sixty, thirty by a half and thirty by a twentieth
    (15 + 1.5)²/(7.5 + 0.075), 36.
    """
    base = np.full(400, 0.5)
    for parts, method in (([0.5] * 60, "percentile"), ([0.5] * 30 + [0.05] * 30, "headroom_few")):
        oracle, policy = base.copy(), base.copy()
        oracle[: len(parts)] += parts
        policy[20:45] += 0.05
        found = captured_shares(store_of(np.stack([base, policy, oracle])), "correct", 0, 2, SETTINGS)
        assert found.method[1] == method
