"""What n of an example's traces are worth, for every n at once: arrays in, (E, N) out.

Drawing n of the traces without replacement: pass@n and best-of-n are closed forms over all subsets (pass@k: Chen et
al. 2021, equation 1); votes, which have none, are means over seeded permutations, those of a policy's `orders`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.sampling.orders import by_falling_score, random_keys, random_permutation
from replay.sampling.prefix import running_sums, standings

ORDERS_AT_ONCE = 8
"""Permutations that are walked together; only speed and memory depend on it."""


def doubling(most: int) -> tuple[int, ...]:
    """1, 2, 4 … up to `most`."""
    return tuple(2**i for i in range(most.bit_length()))


def pass_at(right: np.ndarray, size: np.ndarray, n: Sequence[int]) -> np.ndarray:
    """Probability (E, N) that one of n is right: 1 - C(T - c, n) / C(T, n). An ideal verifier; it sees gold.

    `right` (E,): the right ones among the `size` (E,) traces.
    """
    drawn = np.arange(max(n))
    with np.errstate(divide="ignore", invalid="ignore"):
        wrong = np.maximum((size - right)[:, None] - drawn, 0) / (size[:, None] - drawn)
    return np.asarray(1 - np.cumprod(wrong, axis=1)[:, np.asarray(n) - 1])


def best_of(code: np.ndarray, score: np.ndarray, right: np.ndarray, size: np.ndarray, n: Sequence[int]) -> np.ndarray:
    """Mean correctness (E, N) of the best-scored valid trace of n; ties in score go to the earliest trace.

    `code` (E, T): answers, below 0 for none. Wrong where none is valid; NaN where a valid trace has no score.
    """
    valid = code >= 0
    ranked, _ = by_falling_score(code, score)
    values = np.take_along_axis(np.where(valid, right, 0.0), ranked, axis=1)
    means = np.empty((len(code), len(n)))
    for one in np.unique(size):  # pools are of a few sizes
        of_size = size == one
        means[of_size] = values[of_size] @ _winner_shares(int(one), n, code.shape[1]).T
    means[(valid & np.isnan(score)).any(axis=1)] = np.nan
    return means


def _winner_shares(size: int, n: Sequence[int], places: int) -> np.ndarray:
    """Probability (N, places) that the trace of each rank is the best of a random n of `size`.

    C(size - 1 - r, n - 1) / C(size, n) for rank r from 0, as a running product: for every n of a large pool that is
    much faster than `winner_probabilities`, which rounds each number once.
    """
    taken, rank = np.asarray(n, float)[:, None], np.arange(places - 1, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(rank < size - 1, np.maximum(size - taken - rank, 0) / (size - 1 - rank), 0.0)
    return np.asarray(np.cumprod(np.concatenate([taken / size, ratio], axis=1), axis=1))


def majority(
    code: np.ndarray, right: np.ndarray, size: np.ndarray, hashes: np.ndarray, n: Sequence[int], *,
    orders: int = 100, seed: int = 0, score: np.ndarray | None = None,
) -> np.ndarray:  # fmt: skip
    """Mean correctness (E, N) of the majority of the first n traces of seeded permutations of the pool.

    `hashes` (E,) are those of the examples' ids. A tie goes to the answer that came first, no valid trace is wrong. So
    does `select = "majority"` of a policy with `orders` and `seed`, at each `max_traces`. With a `score` (E, T) the
    answer wins whose scores add up to most, as by `select = "weighted"`; NaN where a valid trace has none.
    """
    examples, places = code.shape
    answers = int(code.max(initial=-1)) + 1
    values = np.zeros((examples, answers + 1))  # the last column: no answer yet
    row, column = np.nonzero(code >= 0)
    values[row, code[row, column]] = right[row, column]
    total, steps = np.zeros((examples, len(n))), max(n)
    weight = None if score is None else np.nan_to_num(score)
    for start in range(0, orders, ORDERS_AT_ONCE):
        drawn = range(start, min(start + ORDERS_AT_ONCE, orders))
        order = np.concatenate(
            [random_permutation(random_keys(hashes, seed, repetition, places), size) for repetition in drawn]
        )
        rows = np.tile(np.arange(examples), len(drawn))[:, None]
        taken = order[:, :steps]
        seen = np.where(taken < size[rows], code[rows, taken], -1)
        if weight is None:
            leader = leading_votes(seen, answers, n)
        else:
            place = np.broadcast_to(np.arange(steps), seen.shape)
            leader = running_sums(seen, weight[rows, taken], place, answers)[:, np.asarray(n) - 1]
        total += values[rows, leader].reshape(len(drawn), examples, len(n)).sum(axis=0)
    if score is not None:
        total[((code >= 0) & np.isnan(score)).any(axis=1)] = np.nan
    return total / orders


def leading_votes(seen: np.ndarray, answers: int, n: Sequence[int]) -> np.ndarray:
    """The answer (R, N) with most votes among the first n steps, the one seen first of several; -1 before any.

    `seen` (R, S): the answer of each step, below 0 for none.
    """
    columns = {number: place for place, number in enumerate(n)}
    leaders = np.empty((len(seen), len(n)), np.int64)
    steps = np.broadcast_to(np.arange(max(n)), (len(seen), max(n)))
    for number, (_, _, leader) in enumerate(standings(seen[:, : max(n)], answers, steps), start=1):
        if number in columns:
            leaders[:, columns[number]] = leader
    return leaders
