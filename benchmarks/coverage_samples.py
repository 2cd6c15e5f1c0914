"""Designs of fixed questions for `coverage.py`: how often limits over other samples of the same questions hold the mean
over all samples, and those of one other run what such a run gives.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import polars as pl
from coverage_designs import Array, Design, Generator

from replay.data.block import TRACE_COSTS, LogBlock, LoggedPool
from replay.kinds.sample import Sample
from replay.policies.base import Evaluator, Policy
from replay.runs.compare.same_questions import SameQuestions, SampleSums, SampleVariation, sample_variation_rows
from toolkit.stats import Settings

ANSWERS = 4
"""Of each question, the first of which is right."""
POOL, LOGS, RUNS, DRAWN = "votes", 4, 10, 4000


def vote(k: int) -> Policy:
    return Sample(name=f"majority@{k}", pool=POOL, max_traces=k, select="majority", expected=True)


def early(k: int, orders: int = 20) -> Policy:
    """A vote that stops once four neighbours agree, over random orders."""
    stop = {"rule": "window", "size": 4}
    return Sample(name="early", pool=POOL, max_traces=k, select="majority", orders=orders, stop=stop)  # type: ignore[arg-type]


def chances(n: int) -> Array:
    """The distribution of each question's answers (n, ANSWERS), the same in all runs."""
    rng = np.random.default_rng([7, n])
    right = rng.beta(1.2, 0.7, n)
    return np.concatenate([right[:, None], (1 - right)[:, None] * rng.dirichlet(np.full(ANSWERS - 1, 0.6), n)], axis=1)


def logged(codes: Array) -> LogBlock:
    """A block with a pool of these answers (n, N)."""
    n, size = codes.shape
    right, nothing = (codes == 0) * 1.0, np.zeros(codes.shape)
    pool = LoggedPool(
        name=POOL, size=np.full(n, size), behind_gap=np.zeros(n, np.int64), code=codes, word=codes,
        costs=dict.fromkeys(TRACE_COSTS, nothing), judged=right, credit=right, reads=nothing, scores={},
    )  # fmt: skip
    ids = [f"q{number:05d}" for number in range(n)]
    frame = pl.DataFrame({"example_id": ids, "labels": [None] * n, "gold": ["0"] * n, "cluster": [None] * n})
    words = pl.Series([str(answer) for answer in range(ANSWERS)])
    return LogBlock(frame, words, {POOL: pool}, {}, np.zeros((0, 3), np.int64))


def drawn(rng: Generator, chance: Array, size: int) -> Array:
    """So many answers of each question (n, size)."""
    return (rng.random((len(chance), size, 1)) > np.cumsum(chance, axis=1)[:, None, :-1]).sum(axis=2)


@cache
def truth(n: int, k: int, stops: bool) -> float:
    """The mean over the questions of what a policy gives over all samples: enumerated, of stops from many draws."""
    chance = chances(n)
    if stops:
        codes = drawn(np.random.default_rng([8, n]), np.repeat(chance, DRAWN, axis=0), k)
        blocks = codes.reshape(len(codes), k // 4, 4)
        agree = (blocks == blocks[:, :, :1]).all(axis=2)
        seen = np.where(agree.any(axis=1), 4 * (agree.argmax(axis=1) + 1), k)
        there = np.arange(k) < seen[:, None]
        return float(_first_most((codes[:, :, None] == np.arange(ANSWERS)) & there[..., None], codes).mean())
    total = 0.0
    for counts in itertools.product(range(k + 1), repeat=ANSWERS - 1):
        left = k - sum(counts)
        if left < 0:
            continue
        votes = np.array([*counts, left])
        wins = votes[0] == votes.max()
        if wins:
            ways = math.factorial(k) / math.prod(math.factorial(one) for one in votes.tolist())
            total += float((ways * (chance**votes).prod(axis=1)).mean()) / (votes == votes.max()).sum()
    return total


def _first_most(votes: Array, codes: Array) -> Array:
    """Whether the answer with most votes, of those that tie the first to appear, is the right one."""
    counts = votes.sum(axis=1)
    first = np.where(votes.any(axis=1), votes.argmax(axis=1), codes.shape[1])
    return np.lexsort((first, -counts), axis=1)[:, 0] == 0


@cache
def _limits(key: int, n: int, size: int, policies: tuple[Policy, ...]) -> SameQuestions:
    codes = drawn(np.random.default_rng(key), chances(n), size)
    sums = SampleSums.sums_over_blocks([logged(codes)], policies, np.ones(n))
    return SameQuestions(sample_variation_rows(policies, sums), 0.95, "", True, {})


@cache
def _run_values(key: int, n: int, size: int, policies: tuple[Policy, ...]) -> dict[str, Array]:
    """What `RUNS` runs of so many traces a question give of each policy."""
    codes = drawn(np.random.default_rng([9, key]), np.tile(chances(n), (RUNS, 1)), size)
    on = Evaluator(logged(codes), policies)
    return {one.name: on.outcome(one).correct.reshape(RUNS, n).mean(axis=1) for one in policies}


def samples(
    n: int, size: int, policies: Sequence[Policy], first: str, other: str | None = None, *, run: bool = False
) -> Design:
    """Of n questions with so many traces each, one policy or its difference to another; with `run` in one other run, of
    which the limits are counted from what it gives.
    """

    def of(name: str) -> float:
        policy = next(one for one in policies if one.name == name)
        return truth(n, policy.max_traces, name == "early")  # type: ignore[attr-defined]

    def limits(rng: Generator, examples: int, settings: Settings) -> tuple[Array, Array, Array]:
        keys = rng.integers(2**62, size=LOGS).tolist()
        found: list[SampleVariation] = [
            _limits(key, n, size, tuple(policies)).variation_of(first, other, another_run=run) for key in keys
        ]
        low, high = (np.array([getattr(one, end) for one in found], np.float64) for end in ("low", "high"))
        method = np.array(["jackknife_few" if one.marked else "jackknife" for one in found])
        if run:
            runs = [_run_values(key, n, size, tuple(policies)) for key in keys]
            gives = np.concatenate([one[first] - (one[other] if other is not None else 0.0) for one in runs])
            low, high, method = (np.repeat(values, RUNS) for values in (low, high, method))
            low, high = low - gives, high - gives
        return low, high, method

    what = f"{first}{f' less {other}' * (other is not None)} of {size} traces a question; questions fixed"
    what += ", one other run" * run
    true = 0.0 if run else of(first) - (of(other) if other is not None else 0.0)
    return Design("accuracy", what, true, None, wide=True, limits=limits, sizes=[n])


FEW, MANY = (vote(2), vote(4), vote(8)), (vote(4), vote(8))
STOPS = (vote(4), early(12))
SAMPLES: tuple[Design, ...] = (
    samples(30, 50, MANY, "majority@8"),
    samples(30, 50, MANY, "majority@8", "majority@4"),
    samples(100, 16, FEW, "majority@8"),
    samples(100, 16, FEW, "majority@4"),
    samples(100, 16, FEW, "majority@8", "majority@4"),
    samples(100, 16, FEW, "majority@4", "majority@2"),
    samples(500, 16, FEW, "majority@8"),
    samples(500, 16, FEW, "majority@8", "majority@4"),
    samples(100, 16, STOPS, "early"),
    samples(100, 16, STOPS, "early", "majority@4"),
    samples(30, 50, MANY, "majority@8", run=True),
    samples(30, 50, MANY, "majority@8", "majority@4", run=True),
    samples(100, 16, FEW, "majority@8", run=True),
    samples(100, 16, FEW, "majority@8", "majority@4", run=True),
    samples(500, 16, FEW, "majority@8", run=True),
    samples(500, 16, FEW, "majority@8", "majority@4", run=True),
    samples(100, 16, STOPS, "early", run=True),
    samples(100, 16, STOPS, "early", "majority@4", run=True),
)


def main() -> None:
    """Every design on a line."""
    for design in SAMPLES:
        print(f"{design.metric}: {design.what}; in truth {design.truth:.4g}")


if __name__ == "__main__":
    main()
