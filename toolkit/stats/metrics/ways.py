"""Ways: outcomes that neighbouring policies share, such as those of two thresholds on most examples.

Each way stands once for all the policies that go it, so what is computed from outcomes is computed once for each way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.spill import Floats, Ints

PLACES_BYTES = 8 * 2**20
"""The ways of policies on examples that stay in memory; the last stay in any case."""


@dataclass(frozen=True, eq=False)
class Ways:
    """The W ways that P policies go on E examples, by example, and of an example in the order of the policies.

    `order` (P,): the policies, so that those of one way are neighbours; `example` (W,), and `first` (W,), the place in
    that order of the first policy that goes a way. The first way of each example begins at place 0.
    """

    order: Ints
    example: NDArray[np.int32]
    first: NDArray[np.int32]
    examples: int

    @classmethod
    def of(cls, rows: Ints) -> tuple[Ways, Ints] | None:
        """The ways of policies whose outcomes are `rows` (P, E) of a table, and the row of each way (W,).

        A policy with the same row as its neighbour goes the same way. None where rows do not ascend on every example,
        whatever the order of the policies.
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

    def places(self, policies: Ints) -> NDArray[np.int32]:
        """The way of some policies on each example, (policies, E)."""
        places = _all_places(self)
        return places if len(policies) == len(places) and (np.diff(policies) == 1).all() else places[policies]

    @cached_property
    def first_ways(self) -> Ints:
        """The first way of each example (E,)."""
        return np.flatnonzero(self.first == 0)

    @cached_property
    def cells(self) -> Cells:
        """The ways by the policies that go them."""
        last = np.append(self.first[1:], 0) - 1
        last[last < 0] = len(self.order) - 1
        return Cells.of(self.first.astype(np.int64), last.astype(np.int64), len(self.order))


_PLACES: dict[Ways, NDArray[np.int32]] = {}


def _all_places(ways: Ways) -> NDArray[np.int32]:
    """The way of each policy on each example, (P, E). Those last asked for stay, for they are as large as outcomes."""
    if ways not in _PLACES:
        marks = np.zeros((len(ways.order), ways.examples), np.int32)
        marks[ways.first, ways.example] = 1
        marks[0] = ways.first_ways
        for row in range(1, len(marks)):
            marks[row] += marks[row - 1]
        out = np.empty_like(marks)
        out[ways.order] = marks
        while _PLACES and sum(one.nbytes for one in _PLACES.values()) + out.nbytes > PLACES_BYTES:
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
class Cells:
    """Ways that the same policies go, C groups of them: those of `by_cell` (W,) from `start` (C,) on. `on` (C, P):
    which policies they are, by their places in the order of the ways.
    """

    by_cell: Ints
    start: Ints
    on: NDArray[np.bool_]

    @classmethod
    def of(cls, first: Ints, last: Ints, policies: int) -> Cells:
        """The cells of ways (W,) that go from the policy at place `first` to that at `last`."""
        cell = first * policies + last
        by_cell = np.argsort(cell, kind="stable")
        begins, start = np.unique(cell[by_cell], return_index=True)
        place = np.arange(policies)
        return cls(by_cell, start, (begins[:, None] // policies <= place) & (place <= begins[:, None] % policies))

    def sums(self, rows: NDArray[np.number]) -> NDArray[np.number]:
        """Sums over the ways of each policy, (rows, P), of `rows` (rows, W), which stand in the order `by_cell`."""
        return np.add.reduceat(rows, self.start, axis=1) @ self.on.astype(rows.dtype)

    def least(self, rows: Floats) -> Floats:
        """The least value over the ways of each policy, (rows, P), of `rows` (rows, W) as above."""
        parts = np.minimum.reduceat(rows, self.start, axis=1)
        return np.where(self.on, parts[:, :, None], np.inf).min(axis=1)
