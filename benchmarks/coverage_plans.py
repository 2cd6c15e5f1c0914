"""Designs of plans, for `coverage.py`: pilots, the questions that follow from each, and experiments of so many.

Questions are drawn from the real votes of the shipped log, or from a few values; the difference to detect is the true
one, that of what experiments are drawn from. `n` is the size of the pilot. A power is the share of experiments, each
after a pilot of its own, whose interval leaves 0 out; a range, of the questions needed, holds those that follow from
the whole population.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from coverage_designs import DATASETS, LOG, Design

from replay import Sample
from replay.data.contents import open_with_contents
from replay.runs.passes.passes import correctness_of_policies
from replay.runs.passes.ranges import over_evaluators
from toolkit.log import collect
from toolkit.stats import Settings, paired_interval
from toolkit.stats.limits.planning import difference_variance

ORDERS, EXPERIMENTS, PILOTS = 20, 10, (30, 100, 500)
POWER = 0.8

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Population:
    """Questions: the mean difference over all orders (Q,), and the difference in some single ones (Q, O)."""

    mean: Array
    single: Array

    @property
    def difference(self) -> float:
        """The true difference: the mean of what experiments are drawn from, which is that of all orders but nearly."""
        return abs(float(self.single.mean()))

    @property
    def within(self) -> Array | None:
        return None if self.single.shape[1] == 1 else np.asarray(self.single.var(axis=1, ddof=1))

    def some(self, rng: np.random.Generator, n: int) -> Population:
        chosen = rng.integers(0, len(self.mean), n)
        return Population(self.mean[chosen], self.single[chosen])

    def needed(self) -> Callable[[float], tuple[float, float, float]]:
        """Of a difference the questions that it takes, with the ends of their range; NaN where there is no number."""
        variance = difference_variance(self.mean, within=self.within)

        def numbers(difference: float) -> tuple[float, float, float]:
            one = variance.questions_to_show(difference, power=POWER) if variance.value > 0 else None
            return (np.nan,) * 3 if one is None else (one.number, one.low, np.inf if one.high is None else one.high)

        return numbers

    def moves(self, rng: np.random.Generator) -> Array:
        """The differences of an experiment on these questions, in one order."""
        return self.single[np.arange(len(self.mean)), rng.integers(0, self.single.shape[1], len(self.mean))]


@functools.cache
def votes(dataset: str, many: int, few: int, over_all: bool) -> Population:
    """Majorities of so many traces of the shipped log less those of few, over all orders or in one."""
    log, contents = open_with_contents(LOG)
    examples = collect(log.scan("examples", ["example_id", "labels", "gold", "cluster", "dataset"]), log)
    policies = []
    for k in (many, few):
        vote = Sample(name=f"{k}", pool="votes", max_traces=k, select="majority")
        policies.append(vote.filled(name=f"{k} over all", expected=True))
        policies += [vote.filled(name=f"{k} {seed}", orders=1, seed=seed) for seed in range(ORDERS)]
    rows = examples.filter(dataset=dataset).sort("example_id")
    resolved = [one.resolve(contents) for one in policies]
    parts = over_evaluators(log, contents, resolved, rows, correctness_of_policies, "votes")
    first, second = np.split(np.concatenate(parts, axis=1), 2)
    mean, *single = first - second
    return Population(mean, mean[:, None] if over_all else np.stack(single, axis=1))


@functools.cache
def rare(share: float, size: float) -> Population:
    """So many questions differ, by so much, seven in ten of them for the first."""
    place = (np.arange(2_000) * 7919 % 2_000) / 2_000
    mean = np.where(place < 0.7 * share, size, np.where(place < share, -size, 0.0))
    return Population(mean, mean[:, None])


def planned(what: str, population: Callable[[], Population]) -> tuple[Design, Design]:
    """The power that plans reach, and how often their range holds the number of the whole population."""

    def experiments(rng: np.random.Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        whole = population()
        ends = []
        for _ in range(EXPERIMENTS):
            number, *_ = whole.some(rng, n).needed()(whole.difference)
            if np.isnan(number):
                ends.append((np.nan, np.nan))
                continue
            moves = whole.some(rng, int(number)).moves(rng)
            found = paired_interval(np.maximum(moves, 0), np.maximum(-moves, 0), settings=settings)
            ends.append((found.low, found.high))
        low, high = np.array(ends, np.float64).T
        return low, high, np.full(len(low), "")

    def ranges(rng: np.random.Generator, n: int, _: Settings) -> tuple[Array, Array, Array]:
        whole = population()
        true = whole.difference
        needed, *_ = whole.needed()(true)
        ends = np.array([whole.some(rng, n).needed()(true)[1:] for _ in range(10 * EXPERIMENTS)]) / needed
        return ends[:, 0], ends[:, 1], np.full(len(ends), "")

    power = Design("plan", what, 0.0, None, power=POWER, wide=True, limits=experiments, sizes=PILOTS)
    return power, Design("plan range", what, 1.0, None, least=0.7, wide=True, limits=ranges, sizes=PILOTS)


PLANS: tuple[Design, ...] = tuple(
    design
    for pair in (
        *(
            planned(f"majority@{many} − majority@{few}, {dataset}, {orders}", functools.partial(votes, *key))
            for dataset in DATASETS
            for many, few in ((8, 4), (16, 1))
            for orders, over_all in (("in one order", False), ("over all orders", True))
            for key in ((dataset, many, few, over_all),)
        ),
        planned("12 % differ, by a quarter", functools.partial(rare, 0.12, 0.25)),
        planned("5 % differ", functools.partial(rare, 0.05, 1.0)),
    )
    for design in pair
)


def main() -> None:
    """Every design on a line."""
    for design in PLANS:
        print(f"{design.metric}: {design.what}")


if __name__ == "__main__":
    main()
