"""The first pass: which statistics differ, what they add up to, and what is known of their values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.metrics.metrics import Statistic, statistic_rows
from toolkit.stats.metrics.outcomes import CHUNK, Key, Store
from toolkit.stats.metrics.spill import Floats, Ints

SCAN_ROWS = 256
"""Statistics built at once in the first pass; only memory depends on it."""

ADDED_BYTES = 512 * 2**20
"""Clusters' sums held at once."""

TOTAL_BITS, SUM_BITS = 46, 40
"""Significant bits of sums over the whole sample (14 decimal digits) and of resampled ones (12): float addition leaves
nothing over in them, and tables show far fewer."""


def kish_number(unit: Ints) -> float:
    """How many clusters of equal size those of the examples are worth, (Σn)²/Σn² (Kish); `unit` (E,)."""
    _, sizes = np.unique(unit, return_counts=True)
    return len(unit) ** 2 / float(sizes @ sizes)


class Units:
    """The resampling units' statistics in fixed chunks: of the examples themselves, or of clusters of added examples.

    `plain`: every example is a unit of its own, numbered in order; `kish`: see `kish_number`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        unit = store.unit
        self.examples = len(unit)
        self.plain = np.array_equal(unit, np.arange(len(unit)))
        self._numbers = unit if self.plain else np.unique(unit)
        self.count = len(self._numbers)
        self.kish = float(self.count) if self.plain else kish_number(unit)

    @property
    def most_statistics(self) -> int:
        """Statistics that may be held for all units at once: clusters are added in memory, examples are not."""
        return 2**62 if self.plain else max(1, ADDED_BYTES // (8 * max(1, self.count)))

    def parts(self, statistics: Sequence[Statistic], most: int) -> Iterator[tuple[int, slice, Floats]]:
        """(chunk, which statistics, their rows (statistics, units)), at most `most` statistics at once.

        Each part comes chunk after chunk in the same order.
        """
        cuts = [slice(i, min(i + most, len(statistics))) for i in range(0, len(statistics), most)]
        if self.plain:
            for number, chunk in enumerate(self._store.chunks):
                for part in cuts:
                    yield number, part, statistic_rows(chunk, statistics[part])
            return
        for part in cuts:
            added = self._added(statistics[part])
            for number, start in enumerate(range(0, self.count, CHUNK)):
                yield number, part, added[:, start : start + CHUNK]

    def chunks(self, statistics: Sequence[Statistic]) -> Iterator[Floats]:
        """Rows of all the statistics (statistics, units), chunk after chunk of at most CHUNK units."""
        for _, _, rows in self.parts(statistics, max(1, len(statistics))):
            yield rows

    def example_rows(self, statistics: Sequence[Statistic]) -> Iterator[Floats]:
        """Rows of the statistics (statistics, examples), chunk after chunk, never added into clusters."""
        for chunk in self._store.chunks:
            yield statistic_rows(chunk, statistics)

    def same_rows(self, keys: Sequence[Key], policies: Ints, reference: int) -> NDArray[np.bool_]:
        """Whether some policies (P,) have a reference's columns on every example; columns that are not kept count as
        equal.
        """
        same = np.ones(len(policies), bool)
        for chunk in self._store.chunks:
            for key in (key for key in keys if chunk.has(key)):
                mine, other = chunk.values(key, policies), chunk.values(key, np.array([reference]))
                same &= ((mine == other) | (np.isnan(mine) & np.isnan(other))).all(axis=1)
        return same

    def _added(self, statistics: Sequence[Statistic]) -> Floats:
        """Sums of the statistics over each cluster (statistics, units); fixed chunks fix the order of addition."""
        added = np.zeros((len(statistics), self.count))
        for chunk in self._store.chunks:
            numbers, position = np.unique(chunk.unit, return_inverse=True)
            units = np.searchsorted(self._numbers, numbers)
            for row, values in enumerate(statistic_rows(chunk, statistics)):
                added[row, units] += np.bincount(position, weights=values, minlength=len(units))
        return added


@dataclass(frozen=True)
class Scan:
    """What one pass over the units learns of each distinct statistic."""

    statistics: tuple[Statistic, ...]
    index: dict[Statistic, int]  # every statistic given -> its first equal in `statistics`
    total: Floats  # (S,) sum over units
    reach: Floats  # (S,) largest absolute value of a unit
    constant: NDArray[np.bool_]  # (S,) the same for all units
    binary: NDArray[np.bool_]  # (S,) only 0 and 1
    integer: NDArray[np.bool_]  # (S,) only integers, whose sums are exact

    def totals(self, wanted: Sequence[Sequence[Statistic]]) -> Floats:
        """Sums over all units (policies, statistics) of so many statistics of each policy."""
        return self.total[[[self.index[one] for one in row] for row in wanted]]


def significant(values: Floats, bits: int) -> Floats:
    """Values rounded to so many significant bits, by Veltkamp's splitting.

    Sums that are equal in exact arithmetic stay equal: a multiple of 1/K has no more bits, or lies at least 1/(2K) of a
    step away from the point between two steps.
    """
    scaled = values * (2.0 ** (53 - bits) + 1)
    return scaled - (scaled - values)


def scan_statistics(units: Units, statistics: Sequence[Statistic]) -> Scan:
    """Scan statistics in one pass; those that are equal on every unit become one."""
    ordered = sorted(set(statistics), key=lambda s: (s.kind, s.key, s.label, s.policy))
    size = len(ordered)
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    total = np.zeros(size, np.longdouble)
    binary, integer = np.ones(size, bool), np.ones(size, bool)
    digests = [hashlib.blake2b(digest_size=16) for _ in ordered]
    for _, part, rows in units.parts(ordered, min(SCAN_ROWS, units.most_statistics)):
        np.minimum(low[part], rows.min(axis=1), out=low[part])
        np.maximum(high[part], rows.max(axis=1), out=high[part])
        total[part] += rows.sum(axis=1)
        binary[part] &= ((rows == 0) | (rows == 1)).all(axis=1)
        integer[part] &= (rows == np.rint(rows)).all(axis=1)
        for digest, row in zip(digests[part], rows, strict=True):
            digest.update(row)
    exact = total.astype(np.float64)
    sums = np.where(integer, exact, significant(exact, TOTAL_BITS))
    first: dict[bytes, int] = {}
    index = {s: first.setdefault(digests[i].digest(), i) for i, s in enumerate(ordered)}
    keep = np.array(sorted(set(index.values())), np.int64)
    place = {int(old): new for new, old in enumerate(keep)}
    return Scan(
        tuple(ordered[i] for i in keep),
        {s: place[i] for s, i in index.items()},
        sums[keep], np.maximum(high, -low)[keep], (low == high)[keep], binary[keep], integer[keep],
    )  # fmt: skip
