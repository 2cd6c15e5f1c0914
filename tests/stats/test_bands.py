"""Bands of whole curves: their draws are the run's, degenerate curves have one, and they hold as often as they say."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.bands import Steps, bands, means

RATES = frozenset({"correct", "flip"})
GRID = np.round(np.arange(5, 96) / 100, 2)


def world(rng: np.random.Generator, size: int, rollouts: int = 2) -> Steps:
    """Examples whose chance of being wrong, and of being repaired, grows with the gate's signal."""
    signal = np.round(rng.random(size) * 0.9 + 0.05, 2)
    base = (rng.random(size) < 0.85 - 0.6 * signal**1.5).astype(float)
    drawn = [
        np.where(base == 1, rng.random(size) < 0.96, rng.random(size) < 0.1 + 0.6 * signal) for _ in range(rollouts)
    ]
    after = np.mean(drawn, axis=0)
    tokens, extra = rng.gamma(3, 300, size), rng.gamma(3, 400, size)
    group = np.searchsorted(-GRID[::-1], -signal) + 1
    kept = {"correct": base, "flip": 0 * base, "tokens": tokens}
    return Steps(
        group, np.arange(size), kept, {"correct": after, "flip": base * (1 - after), "tokens": tokens + extra}, RATES
    )


def test_pointwise_limits_are_those_of_summarise() -> None:
    steps = world(np.random.default_rng(1), 300)
    found = bands(steps, Settings(resamples=200, seed=3))["correct"]
    for point in (0, 30, steps.points):
        on = steps.group <= point
        values = np.where(on, steps.fired["correct"], steps.kept["correct"])
        block = OutcomeBlock(np.array([""] * 300, object), steps.unit, {"position": values[None]})
        row = summarise(lambda b=block: iter([b]), ["x"], settings=Settings(resamples=200, seed=3)).summary.row(
            0, named=True
        )
        assert found.estimate[point] == pytest.approx(row["estimate"])
        assert (found.low[point], found.high[point]) == pytest.approx((row["low"], row["high"]))


def test_nobody_flips_and_the_band_is_still_open_above() -> None:
    steps = world(np.random.default_rng(2), 50)
    none = Steps(steps.group, steps.unit, {"flip": np.zeros(50)}, {"flip": np.zeros(50)}, RATES)
    found = bands(none, Settings(resamples=100))["flip"]
    assert (found.band_low == 0).all()
    assert (found.band_high > 0.02).all()


def test_a_share_among_those_let_through_is_a_ratio_of_two_means() -> None:
    """Four examples, of which the second and the third flip: none, 0 of 1, 1 of 2, 2 of 3, 2 of 4."""
    flips, zero, one = np.array([0.0, 1.0, 1.0, 0.0]), np.zeros(4), np.ones(4)
    steps = Steps(
        np.arange(1, 5), np.arange(4), {"flip": zero, "on": zero}, {"flip": flips, "on": one},
        frozenset({"flip", "on"}), among={"share": ("flip", "on")},
    )  # fmt: skip
    found = bands(steps, Settings(resamples=300))["share"]
    np.testing.assert_allclose(found.estimate, [np.nan, 0, 1 / 2, 2 / 3, 1 / 2])
    assert np.isnan(found.band_low[0])
    assert (found.band_low[1:] <= found.estimate[1:]).all()
    assert (found.estimate[1:] <= found.band_high[1:]).all()
    assert found.band_high[1] > 0.9  # one example without a flip tells nearly nothing


def test_one_unit_has_no_band() -> None:
    one = Steps(np.array([1]), np.array([0]), {"correct": np.array([0.0])}, {"correct": np.array([1.0])}, RATES)
    found = bands(one, Settings(resamples=10))["correct"]
    assert found.estimate.tolist() == [0.0, 1.0]
    assert np.isnan(found.band_low).all()


def test_clusters_are_drawn_together() -> None:
    steps = world(np.random.default_rng(4), 200)
    together = Steps(steps.group, steps.unit // 10, steps.kept, steps.fired, RATES)
    alone, joined = (bands(one, Settings(resamples=400))["tokens"] for one in (steps, together))
    assert np.isfinite(joined.band_low).all()
    assert not np.allclose(alone.band_low, joined.band_low)


@pytest.mark.slow
def test_the_band_holds_the_whole_curve_in_93_to_97_per_cent() -> None:
    truth = {name: means(world(np.random.default_rng(99), 2_000_000), name) for name in ("correct", "flip", "tokens")}
    hits, repetitions = dict.fromkeys(truth, 0), 600
    for seed in range(repetitions):
        found = bands(world(np.random.default_rng(seed), 500), Settings(resamples=600, seed=seed))
        for name, curve in truth.items():
            size = min(len(curve), len(found[name].estimate))
            inside = (found[name].band_low[:size] <= curve[:size] + 1e-9) & (
                curve[:size] - 1e-9 <= found[name].band_high[:size]
            )
            hits[name] += bool(inside.all())
    shares = {name: count / repetitions for name, count in hits.items()}
    noise = 3 * np.sqrt(0.95 * 0.05 / repetitions) - 0.02  # what Monte Carlo adds to the promise
    assert all(0.93 - noise <= share <= 0.97 + noise for share in shares.values()), shares
