"""Statistics of every answer after every step: votes, sums of scores and best scores.

Answers are numbered from 0 in the order in which the steps reveal them, so that a number tells nothing of later steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NONE = -1


@dataclass(frozen=True)
class AnswerNumbers:
    """`answer` int (E, S): the number of the answer that each step reveals, NONE for none. `number` int (E, C): that of
    each answer code, NONE for one that no step reveals.
    """

    answer: np.ndarray
    number: np.ndarray

    @property
    def count(self) -> int:
        """How many numbers there are at most; 1 where there is no answer."""
        return max(int(self.number.max(initial=NONE)) + 1, 1)

    @property
    def each(self) -> np.ndarray:
        """Whether each step reveals each answer: bool (E, S, A)."""
        return self.answer[..., None] == np.arange(self.count, dtype=self.answer.dtype)

    def of(self, code: np.ndarray) -> np.ndarray:
        """Numbers of answer codes (E, S)."""
        found = np.take_along_axis(self.number, np.maximum(code, 0), axis=1)
        return np.where(code >= 0, found, NONE).astype(np.int32)

    def at_place(self, at: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Numbers of the answers of traces by their `place` (E, S); `at` (E, S): the place that each step reveals."""
        by_place = np.full((len(at), int(at.max(initial=0)) + 1), NONE, dtype=np.int32)
        row, step = np.nonzero(self.answer >= 0)
        by_place[row, at[row, step]] = self.answer[row, step]
        found = np.take_along_axis(by_place, np.maximum(place, 0), axis=1)
        return np.where(place >= 0, found, NONE).astype(np.int32)

    def places(self, first_place: np.ndarray) -> np.ndarray:
        """Where each numbered answer first appears in the order of generation (E, A), from that of its code (E, C)."""
        found = np.full((len(self.number), self.count), NONE, dtype=np.int32)
        row, code = np.nonzero(self.number >= 0)
        found[row, self.number[row, code]] = first_place[row, code]
        return found


def by_appearance(code: np.ndarray) -> AnswerNumbers:
    """Answer codes (E, S) numbered in the order in which they appear."""
    examples, steps = code.shape
    first = np.full((examples, int(code.max(initial=0)) + 1), steps, dtype=np.int32)
    for step in range(steps - 1, -1, -1):
        on = np.flatnonzero(code[:, step] >= 0)
        first[on, code[on, step]] = step
    rank = np.argsort(np.argsort(first, axis=1, kind="stable"), axis=1, kind="stable")
    number = np.where(first < steps, rank, NONE).astype(np.int32)
    answer = np.where(code >= 0, np.take_along_axis(number, np.maximum(code, 0), axis=1), NONE)
    return AnswerNumbers(answer, number)


def counted(numbers: AnswerNumbers) -> np.ndarray:
    """Steps that have revealed each answer so far: int32 (E, S, A)."""
    return np.cumsum(numbers.each, axis=1, dtype=np.int32)


def score_sums(numbers: AnswerNumbers, score: np.ndarray) -> np.ndarray:
    """Sum of the scores (E, S) of each answer so far, in the order of the steps: (E, S, A), NaN before any."""
    on = _scored(numbers, score)
    sums = np.cumsum(np.where(on, score[..., None], 0.0), axis=1)
    return np.where(np.logical_or.accumulate(on, axis=1), sums, np.nan)


def best_scores(numbers: AnswerNumbers, score: np.ndarray) -> np.ndarray:
    """Highest score (E, S) of each answer so far: (E, S, A), NaN before any."""
    on = _scored(numbers, score)
    best = np.maximum.accumulate(np.where(on, score[..., None], -np.inf), axis=1)
    return np.where(np.logical_or.accumulate(on, axis=1), best, np.nan)


def leading_sum(numbers: AnswerNumbers, score: np.ndarray, at: np.ndarray, sums: np.ndarray) -> np.ndarray:
    """The answer with the highest sum (E, S, A), the one verified at the earliest place of several; NONE before any.

    `score`, `at` (E, S): what each step reveals, and its place in the order of generation.
    """
    never = np.iinfo(np.int32).max
    place = np.where(_scored(numbers, score), at[..., None], never)
    earliest = np.minimum.accumulate(place, axis=1)
    known = np.where(np.isnan(sums), -np.inf, sums)
    top = known.max(axis=2, keepdims=True)
    first = np.where((known == top) & ~np.isnan(sums), earliest, never).argmin(axis=2)
    return np.where(np.isnan(sums).all(axis=2), NONE, first).astype(np.int32)


def _scored(numbers: AnswerNumbers, score: np.ndarray) -> np.ndarray:
    return numbers.each & ~np.isnan(score)[..., None]
