"""Facts on the values of statistics that one pass gathers, and by which equal statistics are known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.ways import SharedOutcomes

HASHED_ROWS = 8
"""Rows that are hashed at once; only speed depends on it."""


@dataclass(frozen=True, eq=False)
class StatisticFacts:
    """Facts on S statistics over the units so far, (S,) each.

    `low`, `high`: the least and the largest value; `total`: the sum; `binary`, `integer`: whether all are 0 or 1, and
    integers; `hashes` (2, S): sums of two hashes of (unit, value), which are equal where all values are.
    """

    low: Floats
    high: Floats
    total: NDArray[np.longdouble]
    binary: NDArray[np.bool_]
    integer: NDArray[np.bool_]
    hashes: NDArray[np.uint64]

    @classmethod
    def no_facts(cls, size: int) -> StatisticFacts:
        """The facts of so many statistics over no unit."""
        return cls(
            np.full(size, np.inf), np.full(size, -np.inf), np.zeros(size, np.longdouble), np.ones(size, bool),
            np.ones(size, bool), np.zeros((2, size), np.uint64),
        )  # fmt: skip

    def add_units(self, on: Ints, rows: Floats, start: int) -> None:
        """Adds units, the first of which is number `start`, to the statistics `on` (S,): `rows` (S, units)."""
        unit = np.arange(start, start + rows.shape[1])
        self.join_facts(on, _facts_of(rows, unit))

    def add_shared_outcomes(self, on: Ints, rows: Floats, ways: SharedOutcomes, start: int) -> None:
        """Adds examples, the first of which is number `start`, to the statistics `on` (rows, P) of P policies, −1 where
        there is none: `rows` (rows, W) of the outcomes that they share.
        """
        on, same = on[:, ways.order], rows.min(axis=1) == rows.max(axis=1)
        for value in np.unique(rows[same, 0]):
            which = on[np.flatnonzero(same)[rows[same, 0] == value]]
            self.join_facts(which[which >= 0], _facts_of_one_value(float(value), start, ways.examples))
        if not same.all():
            part = _facts_of_shared_outcomes(rows[~same], ways, start)
            wanted = on[~same] >= 0
            self.join_facts(on[~same][wanted], StatisticFacts(*(getattr(part, name)[..., wanted] for name in _NAMES)))

    def join_facts(self, on: Ints, more: StatisticFacts) -> None:
        """Adds the facts of further units to those of the statistics `on`."""
        self.low[on] = np.minimum(self.low[on], more.low)
        self.high[on] = np.maximum(self.high[on], more.high)
        self.total[on] += more.total
        self.binary[on] &= more.binary
        self.integer[on] &= more.integer
        self.hashes[:, on] += more.hashes

    def copy_facts(self, one: int, other: int) -> None:
        """Gives statistic `one` the facts of the `other`."""
        for name in _NAMES:
            fact = getattr(self, name)
            fact[..., one] = fact[..., other]


_NAMES = ("low", "high", "total", "binary", "integer", "hashes")


def _facts_of(rows: Floats, unit: Ints) -> StatisticFacts:
    """The facts of rows (S, units); `unit` (units,): the numbers of the units in the whole sample."""
    return StatisticFacts(
        rows.min(axis=1), rows.max(axis=1), rows.sum(axis=1).astype(np.longdouble),
        ((rows == 0) | (rows == 1)).all(axis=1), (rows == np.rint(rows)).all(axis=1),
        _hashes(rows, unit, lambda one: one.sum(axis=1)),
    )  # fmt: skip


@lru_cache(maxsize=8)
def _facts_of_one_value(value: float, start: int, size: int) -> StatisticFacts:
    """The facts of a row of so many units that are all `value`, the first of which is number `start`."""
    return _facts_of(np.full((1, size), value), np.arange(start, start + size))


def _facts_of_shared_outcomes(rows: Floats, ways: SharedOutcomes, start: int) -> StatisticFacts:
    """The facts of each policy, in the order of the `ways`, on each of `rows` (rows, W) of outcomes: (rows, P)."""
    cells = ways.policy_groups
    unit, by_cell = start + ways.example[cells.by_cell].astype(np.int64), rows[:, cells.by_cell]
    odd = np.stack([(by_cell != 0) & (by_cell != 1), by_cell != np.rint(by_cell)])
    binary, integer = alike = np.ones((2, len(rows), len(ways.order)), bool)
    some = odd.any(axis=2)
    alike[some] = cells.sums_by_policy(odd[some].astype(np.int64)) == 0
    total = cells.sums_by_policy(by_cell)
    fractions = np.flatnonzero(~integer.all(axis=1))  # their sums depend on the order of addition
    for row in fractions:
        total[row] = rows[row][ways.outcome_of_each_example(np.arange(len(ways.order)))].sum(axis=1)[ways.order]
    return StatisticFacts(
        cells.least_by_policy(by_cell), -cells.least_by_policy(-by_cell), total.astype(np.longdouble), binary, integer,
        _hashes(by_cell, unit, cells.sums_by_policy),
    )  # fmt: skip


def _hashes(rows: Floats, unit: Ints, add: Callable[[NDArray[Any]], NDArray[Any]]) -> NDArray[np.uint64]:
    """Two hashes of (unit, value), from (rows, units), each put together by `add`: (2, rows, …).

    The hash is the finalizer of splitmix64 (G. L. Steele, D. Lea and C. H. Flood, OOPSLA 2014, 453).
    """
    salt = _mixed_hash(unit.astype(np.uint64) + np.uint64(1))
    again, parts = _mixed_hash(salt.copy()), []
    for start in range(0, len(rows), HASHED_ROWS):
        first = _mixed_hash(np.ascontiguousarray(rows[start : start + HASHED_ROWS]).view(np.uint64) + salt)
        parts.append(np.stack([add(first), add(_mixed_hash(first ^ again))]))
    return np.concatenate(parts, axis=1)


def _mixed_hash(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The hash of each of some numbers, in their place."""
    for shift, times in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(times)
    bits ^= bits >> np.uint64(31)
    return bits
