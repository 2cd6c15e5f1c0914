"""Exact means of majority votes over all orders, against all permutations of small pools.

Times are processor seconds of this process, the best of five, so that other work on the machine shows little. It fails
where 1,000 questions × 16 traces at k = 8 take more than 0.1 s, or 100 traces with 50 answers at k = 64 more than 15 ms
a question.
"""

from __future__ import annotations

import sys
import time
from itertools import permutations

import numpy as np

from replay.sampling.over_orders import most_votes_probability

CASES = (("1,000 questions × 16 traces, k = 8", 1_000, 16, 11, 8, 0.1), ("20 × 100, k = 64", 20, 100, 50, 64, 0.3))
"""Name, questions, traces, answers of each question, traces drawn, most processor seconds of all questions."""


def votes(rng: np.random.Generator, questions: int, traces: int, answers: int) -> np.ndarray:
    """How many traces of each question give each answer (questions, answers): one at least, the others unequally."""
    share = rng.dirichlet(np.full(answers, 0.5), questions)
    return 1 + np.stack([rng.multinomial(traces - answers, one) for one in share])


def by_permutation(row: np.ndarray, drawn: int) -> np.ndarray:
    """Share (A,) of all orders in which each answer wins the vote of the first traces; of a tie the earliest wins."""
    codes, wins = np.repeat(np.arange(len(row)), row), np.zeros(len(row))
    orders = list(permutations(codes.tolist(), drawn))
    for order in orders:
        wins[max(order, key=order.count)] += 1
    return wins / len(orders)


def main() -> int:
    rng, slow = np.random.default_rng(0), 0
    small = votes(rng, 12, 6, 3)
    for drawn in range(1, 6):
        exact = most_votes_probability(small, np.full(12, 6), np.full(12, drawn))
        np.testing.assert_allclose(exact, [by_permutation(row, drawn) for row in small], atol=1e-12)
    for name, questions, traces, answers, drawn, most in CASES:
        drawn_votes, seconds = votes(rng, questions, traces, answers), []
        for _ in range(5):
            started = time.process_time()
            most_votes_probability(drawn_votes, np.full(questions, traces), np.full(questions, drawn))
            seconds.append(time.process_time() - started)
        print(f"{name}: {min(seconds):.3f} s, {1000 * min(seconds) / questions:.2f} ms a question (at most {most} s)")
        slow += min(seconds) > most
    return slow


if __name__ == "__main__":
    sys.exit(main())
