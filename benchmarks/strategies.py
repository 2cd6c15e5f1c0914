"""Strategies on 1,319 questions with 256 samples: exact means of every threshold and n, and intervals of many.

Run with `python benchmarks/strategies.py`. The arrays must equal plain loops on a part of the questions, orders,
thresholds and n before anything is timed. Prints the seconds of each step, what the loops take for as much, and the
peak memory of the process.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from replay.analyses.strategies.strategies import numbers_up_to, powers_of_two_up_to
from replay.analyses.strategies.strategy_grids import (
    ConditionalStrategy,
    fit_votes_by_score,
    grid_intervals,
    threshold_grid,
)
from replay.sampling.over_orders import DrawnTraces, highest_value_probability
from toolkit.stats import Settings

SEED, PART, LOOPED = 1, 8, 100
"""The seed of the orders; how many questions, thresholds and n the plain loops take, and how many orders."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A pool of samples and a probe with its score for each question."""

    names: list[str]
    code: np.ndarray
    score: np.ndarray
    right: np.ndarray
    size: np.ndarray
    probe: np.ndarray
    probe_score: np.ndarray

    @classmethod
    def of(cls, questions: int, samples: int) -> Drawn:
        """Questions of many difficulties, with up to twelve answers each and 2 % of samples without one."""
        rng = np.random.default_rng(0)
        skill = rng.beta(1.5, 0.8, (questions, 1))
        wrong = rng.integers(1, 12, (questions, samples))
        code = np.where(rng.random((questions, samples)) < skill, 0, wrong)
        code[rng.random(code.shape) < 0.02] = -1
        right = (code == 0).astype(float)
        probe = (rng.random(questions) < np.minimum(skill[:, 0] + 0.05, 1)).astype(float)
        score = 1 / (1 + np.exp(-rng.normal(2 * right - 1, 1.2)))
        names = [f"q{number:05}" for number in range(questions)]
        scored = 1 / (1 + np.exp(-rng.normal(2 * probe - 1, 1.2)))
        return cls(names, code, score, right, np.full(questions, samples), probe, scored)


def looped_votes(drawn: Drawn, n: Sequence[int], orders: int) -> np.ndarray:
    """Majorities by a plain loop over questions, orders and samples: means over random orders, not exact."""
    rng = np.random.default_rng(SEED)
    sums = np.zeros((len(drawn.names), len(n)))
    for _ in range(orders):
        for question, code in enumerate(drawn.code.tolist()):
            counts: dict[int, int] = {}
            leader, column = -1, 0
            for step, at in enumerate(rng.permutation(len(code)).tolist(), start=1):
                answer = code[at]
                if answer >= 0:
                    counts[answer] = counts.get(answer, 0) + 1
                if column < len(n) and step == n[column]:
                    leader = max(counts, key=counts.__getitem__, default=-1)
                    sums[question, column] += leader == 0
                    column += 1
    return sums / orders


def voted(drawn: Drawn, n: Sequence[int]) -> np.ndarray:
    """Majorities (Q, N) over all orders, exact."""
    return np.stack([(traces_of(drawn, one).majority_probability() * drawn.right).sum(axis=1) for one in n], axis=1)


def traces_of(drawn: Drawn, n: int) -> DrawnTraces:
    """The samples, of which n are drawn."""
    return DrawnTraces(drawn.code, drawn.code >= 0, drawn.score, drawn.size, np.full(len(drawn.size), n))


def looped_grid(of: ConditionalStrategy, thresholds: np.ndarray) -> np.ndarray:
    """Accuracies by a plain loop over thresholds, n and questions."""
    found = np.zeros((len(thresholds), len(of.n)))
    score, probe, then = of.score.tolist(), of.probe.tolist(), of.then.tolist()
    for t, threshold in enumerate(thresholds.tolist()):
        for j in range(len(of.n)):
            total = 0.0
            for e, own in enumerate(score):
                total += probe[e] if own >= threshold else then[e][j]
            found[t, j] = total / len(score)
    return found


def part_of(drawn: Drawn, count: int) -> Drawn:
    """The first questions."""
    arrays = (drawn.code, drawn.score, drawn.right, drawn.size, drawn.probe, drawn.probe_score)
    return Drawn(drawn.names[:count], *(one[:count] for one in arrays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=1319)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--resamples", type=int, default=10_000)
    options = parser.parse_args()
    drawn = Drawn.of(options.questions, options.samples)
    every, few = numbers_up_to(options.samples), powers_of_two_up_to(options.samples)

    part = part_of(drawn, PART)
    began = time.perf_counter()
    looped = looped_votes(part, every, LOOPED)
    vote_loop = (time.perf_counter() - began) * options.questions / PART
    assert np.abs(voted(part, every) - looped).max() < 6 * np.sqrt(0.25 / LOOPED)
    marks = [("", time.perf_counter(), time.process_time())]

    def mark(step: str) -> None:
        marks.append((step, time.perf_counter(), time.process_time()))

    majority = voted(drawn, every)
    mark(f"majority at {len(every)} n from 1 to {options.samples}, over all orders")
    for n in every:
        traces_of(drawn, n).highest_score_probability()
        highest_value_probability(drawn.right, np.ones(drawn.code.shape, bool), drawn.size, np.full(len(drawn.size), n))
    mark("best-of-n and pass@n at as many, over all orders")
    of = ConditionalStrategy(drawn.probe_score, drawn.probe, majority, np.array(every))
    thresholds = of.thresholds(256)
    exact = threshold_grid(of, thresholds)
    mark(f"exact means of {len(thresholds)} thresholds x {len(every)} n")
    nine = ConditionalStrategy(of.score, of.probe, majority[:, np.searchsorted(every, few)], np.array(few))
    some = nine.thresholds(200)
    settings = Settings(resamples=options.resamples)
    grid_intervals(nine, some, np.arange(options.questions), settings)
    mark(f"intervals of {len(few)} n x {len(some)} thresholds, {options.resamples:,} resamples")
    fit_votes_by_score(nine, 0.001)
    mark("votes by score, fitted at one price")

    chosen = np.linspace(0, len(thresholds) - 1, PART).astype(int)
    columns = np.linspace(0, len(every) - 1, PART).astype(int)
    began = time.perf_counter()
    looped = looped_grid(
        ConditionalStrategy(of.score, of.probe, majority[:, columns], np.array(every)[columns]), thresholds[chosen]
    )
    grid_loop = (time.perf_counter() - began) * len(thresholds) * len(every) / PART**2
    np.testing.assert_allclose(exact.accuracy[np.ix_(chosen, columns)], looped)

    print(f"{options.questions:,} questions, {options.samples} samples; seconds, and those of the processor")
    for (_, start, before), (step, end, after) in pairwise(marks):
        print(f"{step:62} {end - start:8.3f} {after - before:8.3f}")
    print(f"plain loops, from a part: votes in {LOOPED} orders {vote_loop:,.0f} s, thresholds and n {grid_loop:,.0f} s")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
