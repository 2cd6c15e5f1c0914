"""Strata: by hand, against plain implementations, and nothing where there is one."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from toolkit.stats import OutcomeBlock, Settings, Summary, summarise
from toolkit.stats.bootstrap.influence import MetricSeries, influences
from toolkit.stats.bootstrap.sample import read_sample
from toolkit.stats.limits.clusters import jackknife_variance
from toolkit.stats.limits.discordant import tango_limits
from toolkit.stats.many.pair_differences import pair_differences
from toolkit.stats.many.simultaneous import covariance_of
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.resamples import Resamples
from toolkit.stats.metrics.scan import Units
from toolkit.stats.metrics.strata import Strata, effective_units

SETTINGS = Settings(resamples=4000, seed=1)
NAMES = ("a", "b")


def strata(place: np.ndarray, weights: Mapping[str, float] | None = None, unit: np.ndarray | None = None) -> Strata:
    names = tuple("abcdefghij"[: place.max() + 1])
    made = Strata.of("dataset", place, names, np.arange(len(place)) if unit is None else unit, weights)
    assert made is not None
    return made


def store(values: dict[str, np.ndarray], of: Strata | None, unit: np.ndarray | None = None) -> Store:
    n = len(next(iter(values.values()))[0])
    ids = np.array([f"e{i:04d}" for i in range(n)], object)
    block = OutcomeBlock(ids, np.arange(n) if unit is None else unit, values)
    return Store.of_blocks(lambda: iter([block]), len(next(iter(values.values()))), None, of)


def two_sets(seed: int = 0, n: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Which of two data sets (a quarter, the rest), and three policies that are right on 90 and on 30 % of each."""
    rng, place = np.random.default_rng(seed), (np.arange(n) >= n // 4).astype(np.int64)
    return place, (rng.random((3, n)) < np.where(place == 0, 0.9, 0.3)) * 1.0


def summary(right: np.ndarray, of: Strata | None, settings: Settings = SETTINGS) -> Summary:
    names = [f"p{number}" for number in range(len(right))]
    values = {"correct": right, "total_tokens": 100.0 + 50 * right}
    return summarise(store(values, of), names, baseline="p0", settings=settings)


def limits(found: Summary, policy: str = "p1", metric: str = "accuracy") -> tuple[float, float, float]:
    row = found.summary.filter(policy=policy, metric=metric).row(0, named=True)
    return row["estimate"], row["low"], row["high"]


def test_what_units_are_worth_by_hand() -> None:
    """Clusters of 1 and 3 in one stratum: 16/10. Two strata of 50: 98 degrees of freedom. With 20 and 500 examples
    that count alike together Q = 20·(1/40)² = 0.0125 and 500/1000² = 0.0005: 0.013²/(0.0125²/19 + 0.0005²/499).
    """
    assert effective_units(np.array([[4.0]]), np.array([[10.0]])) == pytest.approx(1.6)
    fifty = np.array([[50.0], [50.0]])
    assert effective_units(fifty, fifty) == pytest.approx(99)
    worth = effective_units(np.array([[0.5], [0.5]]), np.array([[0.0125], [0.0005]]))
    assert worth == pytest.approx(1 + 0.013**2 / (0.0125**2 / 19 + 0.0005**2 / 499))


def test_the_variance_within_strata_by_hand() -> None:
    """0, 2 and 4, 4 have the mean 2.5; half a mean of two varies by (1/2)²·2/2."""
    left_out = np.array([10 / 3, 8 / 3, 2.0, 2.0]) - 2.5
    first, second = (np.array([part[:2].sum(), part[2:].sum()])[:, None] for part in (left_out, left_out**2))
    assert jackknife_variance(first, second, np.array([[2.0], [2.0]])) == pytest.approx(0.25)


def test_weights_and_small_strata_by_hand() -> None:
    """25 and 75 examples that count alike together: 2 and 2/3 each. A stratum of 19 is drawn with the next smallest,
    and one alone is none; weights as the sizes are none.
    """
    place = np.repeat([0, 1], [25, 75])
    weighed = strata(place, {"a": 1, "b": 1})
    assert weighed.weight is not None
    assert weighed.shares == {"a": 0.5, "b": 0.5}
    assert weighed.weight[[0, 99]].tolist() == pytest.approx([2, 2 / 3])
    assert strata(place, {"a": 1, "b": 3}).weight is None
    three = strata(np.repeat([0, 1, 2], [19, 30, 40]))
    assert (three.count, three.joined, three.sizes) == (2, ("a", "b"), {"a": 19, "b": 30, "c": 40})
    assert len(set(three.number[:49])) == 1
    assert three.number[-1] != three.number[0]
    assert Strata.of("dataset", np.zeros(9, np.int64), NAMES, np.arange(9), None) is None


@pytest.mark.parametrize("units", [60, 5000])
def test_resamples_draw_as_many_of_each_stratum_as_there_are(units: int) -> None:
    stratum = (np.arange(units) * 7 % 10 < 3).astype(np.int64)
    resamples = Resamples(units, 300, 5, stratum)
    counts = np.concatenate([resamples.counts_of_chunk(chunk) for chunk in range(len(resamples.sizes))], axis=1)
    for one in (0, 1):
        assert (counts[:, stratum == one].sum(axis=1) == (stratum == one).sum()).all()
    assert np.array_equal(np.concatenate(list(resamples.blocks_of_counts())), counts)
    assert counts.mean(axis=0).std() < 3 / np.sqrt(300) * 1.2
    alike = Resamples(units, 300, 5, 1 - stratum).counts_of_chunk(0)
    assert not np.array_equal(alike, resamples.counts_of_chunk(0))


def test_one_stratum_changes_no_digit() -> None:
    place, right = two_sets()
    plain, one = summary(right, None), summary(right, Strata.of("dataset", 0 * place, NAMES, place, None))
    for frame in ("summary", "comparisons", "ranks"):
        assert_frame_equal(getattr(plain, frame), getattr(one, frame), check_exact=True)


def test_limits_are_those_of_a_plain_bootstrap_within_strata() -> None:
    place, right = two_sets(n=400)
    estimate, low, high = limits(summary(right, strata(place)))
    rng = np.random.default_rng(7)
    parts = [right[1, place == one] for one in (0, 1)]
    drawn = sum(rng.choice(part, (20_000, len(part))).sum(axis=1) for part in parts) / 400
    assert estimate == right[1].mean()
    assert [low, high] == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.004)
    _, wide_low, wide_high = limits(summary(right, None))
    assert high - low < 0.93 * (wide_high - wide_low)


def test_a_weighed_mean_is_the_mean_of_the_data_sets() -> None:
    """Its limits are exact ones with as many trials as its variance is worth, W²·s²/n summed."""
    from scipy.special import betaincinv, stdtrit

    place, right = two_sets(n=400)
    weights = {"a": 3.0, "b": 1.0}
    found = summary(right, strata(place, weights))
    means = [right[1, place == one].mean() for one in (0, 1)]
    p = 0.75 * means[0] + 0.25 * means[1]
    variance = sum(
        w**2 * right[1, place == one].var(ddof=1) / (place == one).sum() for one, w in ((0, 0.75), (1, 0.25))
    )
    squares = np.array([[100 * (0.75 / 100) ** 2], [300 * (0.25 / 300) ** 2]])
    worth = effective_units(np.array([[0.75], [0.25]]), squares)[0]
    trials = p * (1 - p) / variance * (1.959964 / stdtrit(worth - 1, 0.975)) ** 2
    expected = [
        betaincinv(p * trials, trials - p * trials + 1, 0.025),
        betaincinv(p * trials + 1, trials - p * trials, 0.975),
    ]
    estimate, low, high = limits(found)
    assert estimate == pytest.approx(p, abs=1e-12)
    assert [low, high] == pytest.approx(expected, abs=5e-4)  # what is left out weighs, too
    tokens = limits(found, metric="total_tokens")[0]
    assert tokens == pytest.approx(100 + 50 * p)
    assert found.summary["n"].unique().to_list() == [400]
    codes = {one.code for one in found.notes}
    assert {"strata", "weighed"} <= codes
    assert "small_strata" not in codes


@given(st.integers(0, 2**32), st.sampled_from([None, {"a": 1.0, "b": 1.0}, {"a": 0.2, "b": 5.0}]))
def test_the_covariance_is_that_within_strata(seed: int, weights: dict[str, float] | None) -> None:
    """Σ W²·cov/n of the values in each stratum, times (N − 1)/N for the divisor that the errors have."""
    place, right = two_sets(seed, 80)
    made = strata(place, weights)
    sample = read_sample(store({"correct": right}, made), ["x", "y", "z"], None, SETTINGS, [*_columns()], "accuracy")
    series = [MetricSeries.of(sample, [one.name for one in sample.metrics].index("accuracy"), range(3))]
    if len(series[0]) < 3:
        return
    shares = np.array([20, 60]) / 80 if weights is None else np.array([*weights.values()]) / sum(weights.values())
    plain = sum(shares[one] ** 2 * np.cov(right[:, place == one]) / (place == one).sum() for one in (0, 1))
    assert covariance_of(influences(sample, series)) == pytest.approx(plain * 79 / 80, abs=1e-9)


def _columns() -> tuple:
    from toolkit.columns import COLUMNS

    return COLUMNS


def test_pairs_have_errors_within_strata() -> None:
    """Policies that differ by +40 points in one data set and −40 in the other: within each, far less varies."""
    rng, place = np.random.default_rng(3), np.repeat([0, 1], 300)
    base = rng.random(600) < 0.5
    flips = np.where(place == 0, ~base & (rng.random(600) < 0.8), base & (rng.random(600) < 0.8))
    right = np.stack([base, base ^ flips]) * 1.0
    halves = {}
    for name, of in (("plain", None), ("strata", strata(place))):
        made = store({"correct": right}, of)
        sample = read_sample(made, ["x", "y"], None, SETTINGS, _columns(), "accuracy")
        number = [one.name for one in sample.metrics].index("accuracy")
        pair = pair_differences(sample, made, number, (np.array([1]), np.array([0])), SETTINGS)
        halves[name] = float(pair.high[0] - pair.low[0]) / 2
        found = summary(right, of).comparisons.filter(metric="accuracy", policy="p1").row(0, named=True)
        assert (found["high"] - found["low"]) / 2 == pytest.approx(halves[name], rel=0.06)
    within = sum(np.var((right[1] - right[0])[place == one], ddof=1) * 300 for one in (0, 1)) / 600**2
    assert halves["strata"] == pytest.approx(1.96 * np.sqrt(within), rel=0.05)
    assert halves["strata"] < 0.85 * halves["plain"]


def test_few_that_differ_are_worth_no_more_than_the_heaviest_could_show() -> None:
    """Ten examples that count as much as 190: no pair differs, so Tango's of 1/heaviest = 20 trials."""
    place, right = np.repeat([0, 1], [10, 190]), np.tile(np.random.default_rng(0).random(200) < 0.6, (2, 1)) * 1.0
    right[1, 0] = 1 - right[1, 0]
    right[1, 1] = right[0, 1] = 1.0
    found = summary(right, strata(place, {"a": 1.0, "b": 1.0})).comparisons.filter(metric="accuracy", policy="p1")
    row = found.row(0, named=True)
    share = abs(right[1, 0] - right[0, 0]) / 20
    sign = 1 if right[1, 0] > right[0, 0] else -1
    low, high = tango_limits(*((share * 20, 0.0) if sign > 0 else (0.0, share * 20)), 20.0)
    assert row["difference"] == pytest.approx(sign / 20)
    assert [row["low"], row["high"]] == pytest.approx([float(low), float(high)], abs=1e-9)
    assert row["method"] == "tango"


def test_clusters_within_strata_have_their_jackknife() -> None:
    """Means of clusters, each of five, in two strata of 20 clusters."""
    rng = np.random.default_rng(5)
    unit, place = np.arange(200) // 5, np.repeat([0, 1], 100)
    right = (rng.random((1, 200)) < rng.beta(2, 2, 40)[unit] * 0.5 + 0.5 * (place == 0)) * 1.0
    sample = read_sample(
        store({"correct": right}, strata(place, unit=unit), unit), ["x"], None, SETTINGS, _columns(), "accuracy"
    )
    assert sample.units.kish == pytest.approx(39)
    found = summarise(store({"correct": right}, strata(place, unit=unit), unit), ["x"], settings=SETTINGS)
    wide = summarise(store({"correct": right}, None, unit), ["x"], settings=SETTINGS)
    widths = [
        one.summary.filter(metric="accuracy").select(pl.col("high") - pl.col("low")).item() for one in (found, wide)
    ]
    assert widths[0] < widths[1]
    assert found.summary.filter(metric="accuracy")["method"].to_list() == ["korn-graubard"]


def test_units_that_are_weighed_have_weighed_rows() -> None:
    place, right = two_sets(n=80)
    units = Units(store({"correct": right}, strata(place, {"a": 1.0, "b": 1.0})))
    assert units.weight is not None
    assert units.weight.sum() == pytest.approx(80)
    assert units.heaviest_share == pytest.approx(2 / 80)
