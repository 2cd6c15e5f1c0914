"""Designs of promises, for `coverage.py`: how often the cheapest policy that is named as within a margin of the
baseline is within it in truth, by the code of tables, reports and `tune`. Where nothing is named none is broken.

Votes over all orders are the real ones of the shipped log, one family. Of made-up policies each loses the margin,
and a thousandth more: whatever is named breaks the promise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace

import numpy as np
import polars as pl
from coverage_designs import DATASETS, LOG, Array, Design, block

from replay import Sample
from replay.data.contents import open_with_contents
from replay.runs.passes.passes import correctness_of_policies
from replay.runs.passes.ranges import over_evaluators
from replay.runs.saved.promise import MetricLimit, PromiseTests
from toolkit.columns import COLUMNS
from toolkit.log import collect
from toolkit.stats import Settings
from toolkit.stats.metrics.outcomes import Store

EXPERIMENTS, SIZES, VOTES = 20, (500, 2500), (1, 2, 4, 8, 12, 16)
BEYOND = 1.001
"""Times the margin that made-up policies lose."""
Draw = Callable[[np.random.Generator, int], Array]
"""Correctness (policies, n) of so many questions: the cheapest policy first, the last one is the baseline."""


@functools.cache
def voted(dataset: str) -> Array:
    """Majorities of the shipped log over all orders (votes, questions), the smallest first."""
    log, contents = open_with_contents(LOG)
    policies = [
        Sample(name=f"{k}", pool="votes", max_traces=k, select="majority", expected=True).resolve(contents)
        for k in VOTES
    ]
    examples = collect(log.scan("examples", ["example_id", "labels", "gold", "cluster", "dataset"]), log)
    rows = examples.filter(dataset=dataset).sort("example_id")
    return np.concatenate(over_evaluators(log, contents, policies, rows, correctness_of_policies, "votes"), axis=1)


def worse(policies: int, margin: float) -> Draw:
    """Policies that differ from the baseline on a tenth of the questions, and lose more than the margin."""

    def draw(rng: np.random.Generator, n: int) -> Array:
        base = rng.random(n) < 0.75
        lost = (0.1 + BEYOND * margin) / 2 / 0.75
        gained = (0.1 - BEYOND * margin) / 2 / 0.25
        change = rng.random((policies, n))
        return np.concatenate([np.where(base, change >= lost, change < gained), base[None]]) * 1.0

    return draw


def kept(correct: Array, families: Mapping[str, Sequence[str]], margin: float, settings: Settings) -> str | None:
    """The cheapest policy that is shown to be within the margin of the last one; later ones cost more."""
    names = [f"p{number}" for number in range(len(correct))]
    ids = [f"e{number:05d}" for number in range(correct.shape[1])]
    store = Store.of_blocks(lambda: iter([block({"correct": correct})]), len(names), None)
    result = SimpleNamespace(
        baseline=names[-1], columns=COLUMNS,
        summary=pl.DataFrame({"policy": names, "metric": "accuracy", "estimate": correct.mean(axis=1)}),
        examples=pl.DataFrame({"example_id": ids, "cluster": pl.Series([None] * len(ids), dtype=pl.String)}),
        summariser=SimpleNamespace(
            names=names, settings=settings, columns=COLUMNS, outcomes=SimpleNamespace(statistics=lambda: store)
        ),
    )  # fmt: skip
    promise = PromiseTests((MetricLimit("accuracy", ">=", -margin, "+"),), result)  # type: ignore[arg-type]
    cost = {name: float(number + 1) for number, name in enumerate(names)}
    passed = promise.policies_that_pass(families, cost).by_family.values()
    sure = [name for members in passed for name in members if name != names[-1]]
    return min(sure, key=lambda name: cost[name], default=None)


def promised(what: str, draw: Draw, margin: float, size: int, together: bool, gains: Array | None = None) -> Design:
    """Whether what is named is within the margin in truth; `gains`: true differences to the baseline, by policy."""
    names = [f"p{number}" for number in range(size)]
    families = {"all": names} if together else {name: [name] for name in names}

    def limits(rng: np.random.Generator, n: int, settings: Settings) -> tuple[Array, Array, Array]:
        named = [kept(draw(rng, n), families, margin, settings) for _ in range(EXPERIMENTS)]
        places = [None if name is None else int(name[1:]) for name in named]
        broken = [at is not None and (gains is None or gains[at] < -margin) for at in places]
        ends = np.array(broken, np.float64)
        return ends, ends, np.full(len(ends), "")

    points = f"{100 * margin:g} point{'s' * (margin > 0.01)}"
    return Design("promise", f"{what}, {points}", 0.0, None, least=0.95, wide=True, limits=limits, sizes=SIZES)


def of_votes(dataset: str, margin: float) -> Design:
    def draw(rng: np.random.Generator, n: int) -> Array:
        whole = voted(dataset)
        return whole[:, rng.integers(0, whole.shape[1], n)]

    means = voted(dataset).mean(axis=1)
    what = f"majority@{min(VOTES)} to @{max(VOTES)} over all orders, {dataset}"
    return promised(what, draw, margin, len(VOTES), together=True, gains=means - means[-1])


PROMISES: tuple[Design, ...] = (
    *(of_votes(dataset, margin) for dataset in DATASETS for margin in (0.01, 0.02)),
    *(
        promised(f"20 policies just beyond, {what}", worse(20, margin), margin, 21, together)
        for what, together in (("one family", True), ("a family each", False))
        for margin in (0.01, 0.02)
    ),
)


def main() -> None:
    """Every design on a line."""
    for design in PROMISES:
        print(f"{design.metric}: {design.what}")


if __name__ == "__main__":
    main()
