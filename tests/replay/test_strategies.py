"""Strategies at every number of samples and every threshold, against plain loops and against replayed policies."""

from itertools import combinations, combinations_with_replacement, product

import numpy as np
import pytest

from replay.analyses.strategies.strategy_grids import Conditional, fit_votes, grid, grid_intervals, on_front, plain_at
from replay.engine import subsets
from replay.sampling.orders import example_hashes, random_keys
from toolkit.stats import Settings, interval

EXAMPLES, TRACES = 7, 6
N = (1, 2, 3, 6)


class Pools:
    """A few pools of different sizes with ties of scores and of votes, and traces without an answer."""

    def __init__(self, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        self.size = rng.integers(4, TRACES + 1, EXAMPLES)
        self.size[0] = TRACES
        there = np.arange(TRACES) < self.size[:, None]
        self.code = np.where(there, rng.integers(-1, 3, (EXAMPLES, TRACES)), -1)
        gold = rng.integers(0, 3, EXAMPLES)
        self.right = ((self.code == gold[:, None]) & (self.code >= 0)).astype(float)
        self.score = np.where(self.code >= 0, rng.integers(0, 5, (EXAMPLES, TRACES)) / 4, np.nan)
        self.names = [f"e{i}" for i in range(EXAMPLES)]
        self.hashes = example_hashes(self.names)

    def shuffled(self, example: int, repetition: int, seed: int) -> list[int]:
        keys = random_keys(self.hashes, seed, repetition, TRACES)[example]
        return sorted(range(self.size[example]), key=lambda at: (int(keys[at]), at))


def voted(codes: list[int], weights: list[float]) -> int:
    """The plain vote: the answer with the highest total, of several the one that came first; -1 without any."""
    totals: dict[int, float] = {}
    for code, weight in zip(codes, weights, strict=True):
        if code >= 0:
            totals[code] = totals.get(code, 0.0) + weight
    return max(totals, key=lambda code: totals[code], default=-1)  # dicts keep the order of first appearance


@pytest.mark.parametrize("weights", [False, True])
def test_votes_are_those_of_plain_loops_over_permutations(weights: bool) -> None:
    pools, n = Pools(), (1, 2, 3, 4)
    score = pools.score if weights else None
    found = subsets.majority(pools.code, pools.right, pools.size, pools.hashes, n, orders=11, seed=5, score=score)
    for e, (place, k) in product(range(EXAMPLES), enumerate(n)):
        values = []
        for repetition in range(11):
            taken = pools.shuffled(e, repetition, 5)[:k]
            leader = voted(list(pools.code[e, taken]), list(pools.score[e, taken]) if weights else [1.0] * k)
            rights = [pools.right[e, t] for t in taken if pools.code[e, t] == leader]
            values.append(rights[0] if leader >= 0 else 0.0)
        assert found[e, place] == pytest.approx(np.mean(values)), (e, k)


def test_closed_forms_are_means_over_all_subsets() -> None:
    pools, n = Pools(), (1, 2, 4)
    best = subsets.best_of(pools.code, pools.score, pools.right, pools.size, n)
    passed = subsets.pass_at(pools.right.sum(axis=1), pools.size, n)
    for e, (place, k) in product(range(EXAMPLES), enumerate(n)):
        bests, oracles = [], []
        for taken in combinations(range(pools.size[e]), k):
            valid = [t for t in taken if pools.code[e, t] >= 0]
            top = max(valid, key=lambda t: pools.score[e, t], default=None)
            bests.append(0.0 if top is None else pools.right[e, top])
            oracles.append(max(pools.right[e, t] for t in taken))
        assert best[e, place] == pytest.approx(np.mean(bests))
        assert passed[e, place] == pytest.approx(np.mean(oracles))


def test_a_missing_score_makes_an_example_unknown() -> None:
    pools = Pools()
    at = int((pools.code[0] >= 0).argmax())
    pools.score[0, at] = np.nan
    best = subsets.best_of(pools.code, pools.score, pools.right, pools.size, N[:2])
    given = (pools.code, pools.right, pools.size, pools.hashes, N[:2])
    vote = subsets.majority(*given, orders=2, score=pools.score)
    for found in (best, vote):
        assert np.isnan(found[0]).all()
        assert not np.isnan(found[1:]).any()


def probed(examples: int = 40, seed: int = 0, forced: int = 2) -> Conditional:
    rng = np.random.default_rng(seed)
    score = rng.integers(0, 9, examples) / 8
    probe = (rng.random(examples) < score).astype(float)
    then = np.clip(0.5 + 0.1 * np.arange(3) + rng.normal(0, 0.2, (examples, 3)), 0, 1)
    score[:forced], probe[:forced] = np.nan, 0.0
    return Conditional(score, probe, then, np.array([1, 4, 16]))


def test_every_threshold_and_n_is_a_plain_loop() -> None:
    of = probed()
    thresholds = of.thresholds()
    assert thresholds[-1] == np.inf
    assert len(thresholds) == 10
    found = grid(of, thresholds)
    for (t, s), (j, n) in product(enumerate(thresholds), enumerate(of.n)):
        rights, samples = [], []
        for e in range(len(of.probe)):
            stands = of.score[e] >= s
            rights.append(of.probe[e] if stands else of.then[e, j])
            samples.append(1 if stands else 1 + n)
        assert found.accuracy[t, j] == pytest.approx(np.mean(rights))
        assert found.samples[t, j] == pytest.approx(np.mean(samples))
        right, paid = of.outcomes(float(s), j)
        assert right.mean() == pytest.approx(found.accuracy[t, j])
        assert paid.mean() == pytest.approx(np.mean(samples))


def test_many_distinct_scores_are_thinned_to_even_shares() -> None:
    of = Conditional(np.linspace(0, 1, 1000), np.ones(1000), np.zeros((1000, 1)), np.array([1]))
    found = grid(of, of.thresholds(11))
    assert found.fired.tolist() == pytest.approx([i / 10 for i in range(11)])


def test_intervals_of_a_grid_hold_its_means_and_are_those_of_one_column() -> None:
    of, settings = probed(300, forced=3), Settings(resamples=2000)
    thresholds = of.thresholds()
    found, made = grid(of, thresholds), grid_intervals(of, thresholds, np.arange(300), settings)
    np.testing.assert_allclose(made.estimate, found.accuracy)
    assert (made.band_low <= made.low + 0.02).all()
    assert (made.high <= made.band_high + 0.02).all()
    alone = interval(of.outcomes(float(thresholds[4]), 1)[0], settings=settings)
    assert made.low[4, 1] == pytest.approx(alone.low, abs=0.01)
    assert made.high[4, 1] == pytest.approx(alone.high, abs=0.01)


@pytest.mark.parametrize("forced", [0, 2])
@pytest.mark.parametrize("price", [0.0, 0.004, 0.02, 1.0])
def test_votes_by_score_are_the_best_monotone_steps(forced: int, price: float) -> None:
    of = probed(18, seed=4, forced=forced)
    fitted = fit_votes(of, price)
    assert list(fitted.votes) == sorted(fitted.votes, reverse=True)
    right, paid = fitted.outcomes(of)
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
    assert plain_at(values, n, 1.25) == pytest.approx([0.25])
    assert plain_at(values, n, 3.0) == pytest.approx([0.75])
    assert plain_at(values, n, 0.5) == pytest.approx([0.0])
    assert plain_at(values, n, 99) == pytest.approx([0.5])
    assert plain_at(values[:, :1], n[:1], 3.0) == pytest.approx([0.0])


def test_the_front_is_what_no_other_point_beats() -> None:
    rng = np.random.default_rng(8)
    accuracy, samples = rng.integers(0, 5, 30) / 4, rng.integers(1, 6, 30).astype(float)
    found = on_front(accuracy, samples)
    for i in range(30):
        better = (accuracy >= accuracy[i]) & (samples <= samples[i])
        better &= (accuracy > accuracy[i]) | (samples < samples[i]) | (np.arange(30) < i)
        assert found[i] == (not better.any())
