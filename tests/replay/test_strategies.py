"""Strategies at every number of samples and every threshold, against plain loops and against replayed policies."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest

from replay.analyses.strategies.strategy_grids import (
    ConditionalStrategy,
    fit_votes_by_score,
    grid_intervals,
    threshold_grid,
    unbeaten_points,
    votes_at_mean_samples,
)
from toolkit.stats import Settings, interval


def probed(examples: int = 40, seed: int = 0, forced: int = 2) -> ConditionalStrategy:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 9, examples) / 8
    probe = (rng.random(examples) < score).astype(float)
    then = np.clip(0.5 + 0.1 * np.arange(3) + rng.normal(0, 0.2, (examples, 3)), 0, 1)
    score[:forced], probe[:forced] = np.nan, 0.0
    return ConditionalStrategy(score, probe, then, np.array([1, 4, 16]))


def test_every_threshold_and_n_is_a_plain_loop() -> None:
    of = probed()
    thresholds = of.thresholds()
    assert thresholds[-1] == np.inf
    assert len(thresholds) == 10
    found = threshold_grid(of, thresholds)
    for (t, s), (j, n) in product(enumerate(thresholds), enumerate(of.n)):
        rights, samples = [], []
        for e in range(len(of.probe)):
            stands = of.score[e] >= s
            rights.append(of.probe[e] if stands else of.then[e, j])
            samples.append(1 if stands else 1 + n)
        assert found.accuracy[t, j] == pytest.approx(np.mean(rights))
        assert found.samples[t, j] == pytest.approx(np.mean(samples))
        right, paid = of.correctness_and_samples(float(s), j)
        assert right.mean() == pytest.approx(found.accuracy[t, j])
        assert paid.mean() == pytest.approx(np.mean(samples))


def test_many_distinct_scores_are_thinned_to_even_shares() -> None:
    of = ConditionalStrategy(np.linspace(0, 1, 1000), np.ones(1000), np.zeros((1000, 1)), np.array([1]))
    found = threshold_grid(of, of.thresholds(11))
    assert found.fired.tolist() == pytest.approx([i / 10 for i in range(11)])


def test_intervals_of_a_grid_hold_its_means_and_are_those_of_one_column() -> None:
    of, settings = probed(300, forced=3), Settings(resamples=2000)
    thresholds = of.thresholds()
    found, made = threshold_grid(of, thresholds), grid_intervals(of, thresholds, np.arange(300), settings)
    np.testing.assert_allclose(made.estimate, found.accuracy)
    assert (made.band_low <= made.low + 0.02).all()
    assert (made.high <= made.band_high + 0.02).all()
    alone = interval(of.correctness_and_samples(float(thresholds[4]), 1)[0], settings=settings)
    assert made.low[4, 1] == pytest.approx(alone.low, abs=0.01)
    assert made.high[4, 1] == pytest.approx(alone.high, abs=0.01)


@pytest.mark.parametrize("forced", [0, 2])
@pytest.mark.parametrize("price", [0.0, 0.004, 0.02, 1.0])
def test_votes_by_score_are_the_best_monotone_steps(forced: int, price: float) -> None:
    of = probed(18, seed=4, forced=forced)
    fitted = fit_votes_by_score(of, price)
    assert list(fitted.votes) == sorted(fitted.votes, reverse=True)
    right, paid = fitted.correctness_and_samples(of)
    values = np.unique(of.score[~np.isnan(of.score)])
    numbers, best = [16, 4, 1, 0], -np.inf
    for rungs in combinations_with_replacement(range(4), len(values) + 1):  # the first of them for what has no score
        if forced and rungs[0] == 3:
            continue
        total = 0.0
        for e, score in enumerate(of.score):
            rung = rungs[0] if np.isnan(score) else rungs[1 + int(np.searchsorted(values, score))]
            n = numbers[rung]
            worth = of.probe[e] if n == 0 else of.then[e, list(of.n).index(n)]
            total += worth - price * n
        best = max(best, total)
    assert (right - price * (paid - 1)).sum() == pytest.approx(best)


def test_plain_sampling_is_mixed_to_cost_the_same() -> None:
    values, n = np.array([[0.0, 1.0, 0.5]]), np.array([1, 2, 4])
    assert votes_at_mean_samples(values, n, 1.25) == pytest.approx([0.25])
    assert votes_at_mean_samples(values, n, 3.0) == pytest.approx([0.75])
    assert votes_at_mean_samples(values, n, 0.5) == pytest.approx([0.0])
    assert votes_at_mean_samples(values, n, 99) == pytest.approx([0.5])
    assert votes_at_mean_samples(values[:, :1], n[:1], 3.0) == pytest.approx([0.0])


def test_the_front_is_what_no_other_point_beats() -> None:
    rng = np.random.default_rng(8)
    accuracy, samples = rng.integers(0, 5, 30) / 4, rng.integers(1, 6, 30).astype(float)
    found = unbeaten_points(accuracy, samples)
    for i in range(30):
        better = (accuracy >= accuracy[i]) & (samples <= samples[i])
        better &= (accuracy > accuracy[i]) | (samples < samples[i]) | (np.arange(30) < i)
        assert found[i] == (not better.any())
