"""Outcomes that neighbouring policies share, such as those of two thresholds on most examples.

A shared outcome stands once for all policies that have it on an example, so what is computed from it is computed once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.spill import Floats, Ints

PLACES_BYTES = 8 * 2**20
"""The bytes of `outcome_of_each_example` that stay in memory; the last one stays in any case."""


@dataclass(frozen=True, eq=False)
class SharedOutcomes:
    """The W different outcomes of P policies on E examples, by example, and of an example in the order of the policies.

    `order` (P,): the policies, so that those of one outcome are neighbours; `example` (W,), and `first` (W,), the place
    in that order of the first policy that has it. The first outcome of each example begins at place 0.
    """

    order: Ints
    example: NDArray[np.int32]
    first: NDArray[np.int32]
    examples: int

    @classmethod
    def from_rows(cls, rows: Ints) -> tuple[SharedOutcomes, Ints] | None:
        """The outcomes of policies that are `rows` (P, E) of a table, each once an example, and the row of each (W,).

        A policy with the same row as its neighbour has the same outcome. None where no order of the policies makes the
        rows ascend on every example.
        """
        order = np.argsort(rows.sum(axis=1, dtype=np.int64), kind="stable")
        placed = rows[order]
        if (placed[1:] < placed[:-1]).any():
            return None
        differs = np.concatenate([np.ones((1, rows.shape[1]), bool), placed[1:] != placed[:-1]])
        example, first = (one.astype(np.int32) for one in np.nonzero(differs.T))
        return cls(order, example, first, rows.shape[1]), placed[first, example]

    def __len__(self) -> int:
        return len(self.example)

    def outcome_of_each_example(self, policies: Ints) -> NDArray[np.int32]:
        """Which of the W outcomes each of some policies has on each example, (policies, E)."""
        places = _outcomes_of_all_policies(self)
        return places if len(policies) == len(places) and (np.diff(policies) == 1).all() else places[policies]

    @cached_property
    def first_outcome_of_example(self) -> Ints:
        """Which of the W outcomes is the first of each example (E,)."""
        return np.flatnonzero(self.first == 0)

    @cached_property
    def policy_groups(self) -> PolicyGroups:
        """The outcomes, in groups that the same policies have."""
        last = np.append(self.first[1:], 0) - 1
        last[last < 0] = len(self.order) - 1
        return PolicyGroups.from_ranges(self.first.astype(np.int64), last.astype(np.int64), len(self.order))


_PLACES: dict[SharedOutcomes, NDArray[np.int32]] = {}


def _outcomes_of_all_policies(ways: SharedOutcomes) -> NDArray[np.int32]:
    """Which outcome each policy has on each example, (P, E). The last results stay in memory."""
    if ways not in _PLACES:
        marks = np.zeros((len(ways.order), ways.examples), np.int32)
        marks[ways.first, ways.example] = 1
        marks[0] = ways.first_outcome_of_example
        for row in range(1, len(marks)):
            marks[row] += marks[row - 1]
        out = np.empty_like(marks)
        out[ways.order] = marks
        while _PLACES and sum(place.nbytes for place in _PLACES.values()) + out.nbytes > PLACES_BYTES:
            del _PLACES[next(iter(_PLACES))]
        _PLACES[ways] = out
    return _PLACES[ways]


Rows = Ints | slice
"""Rows of a table by their numbers, or those from one on up to another."""


def rows_or_slice(numbers: Ints) -> Rows:
    """The rows with some numbers, as a slice where each number is the one before it plus 1."""
    alike = len(numbers) > 0 and numbers[-1] - numbers[0] == len(numbers) - 1 and bool((np.diff(numbers) == 1).all())
    return slice(int(numbers[0]), int(numbers[-1]) + 1) if alike else numbers


@dataclass(frozen=True, eq=False)
class PolicyGroups:
    """Outcomes that the same policies share, C groups of them: those of `by_cell` (W,) from `start` (C,) on. `on`
    (C, P): which policies they are, by their places in the order of `SharedOutcomes`.
    """

    by_cell: Ints
    start: Ints
    on: NDArray[np.bool_]

    @classmethod
    def from_ranges(cls, first: Ints, last: Ints, policies: int) -> PolicyGroups:
        """The groups of outcomes (W,), each of which the policies from place `first` to `last` have."""
        cell = first * policies + last
        by_cell = np.argsort(cell, kind="stable")
        begins, start = np.unique(cell[by_cell], return_index=True)
        place = np.arange(policies)
        return cls(by_cell, start, (begins[:, None] // policies <= place) & (place <= begins[:, None] % policies))

    def sums_by_policy(self, rows: NDArray[np.number]) -> NDArray[np.number]:
        """Sums over the outcomes of each policy, (rows, P), of `rows` (rows, W), which stand in the order `by_cell`."""
        return np.add.reduceat(rows, self.start, axis=1) @ self.on.astype(rows.dtype)

    def least_by_policy(self, rows: Floats) -> Floats:
        """The least value over the outcomes of each policy, (rows, P), of `rows` (rows, W) in the order `by_cell`."""
        parts = np.minimum.reduceat(rows, self.start, axis=1)
        return np.where(self.on, parts[:, :, None], np.inf).min(axis=1)
