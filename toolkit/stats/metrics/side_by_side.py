"""Stores next to each other: some policies of one or several, on the same examples, as one store."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.outcomes import ANSWER, Chunk, Key, Store


@dataclass(frozen=True, eq=False)
class PickedPiece:
    """One chunk of several stores, of each some policies."""

    chunks: tuple[Chunk, ...]
    picked: tuple[Ints, ...]
    shared: frozenset[Key]

    @property
    def size(self) -> int:
        """How many examples."""
        return len(self.chunks[0])

    @property
    def keys(self) -> Collection[Key]:
        """Columns that all of them have."""
        return self.shared

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """A column of some policies, numbered through, and of some examples (policies, E)."""
        found = np.empty((len(policies), stop - start))
        first = 0
        for chunk, numbers in zip(self.chunks, self.picked, strict=True):
            mine = np.flatnonzero((policies >= first) & (policies < first + len(numbers)))
            if len(mine):
                wanted, place = np.unique(numbers[policies[mine] - first], return_inverse=True)
                found[mine] = chunk.values(key, wanted)[place, start:stop]
            first += len(numbers)
        return found


def side_by_side(stores: Sequence[tuple[Store, Sequence[int]]], keys: Sequence[str], labels: int) -> Store:
    """Some policies of each store as one store, with some columns and the shares of so many labels.

    All have the same examples, units and gold, in the same order. Words of answers are numbered by each store for
    itself, so those of several have none.
    """
    picked = tuple(np.array(numbers, np.int64) for _, numbers in stores)
    words = [ANSWER] if len(stores) == 1 and all(chunk.has(ANSWER) for chunk in stores[0][0].chunks) else []
    shared = frozenset([*keys, *words, *range(labels)])
    chunks = zip(*(store.chunks for store, _ in stores), strict=True)
    pieces = [PickedPiece(found, picked, shared) for found in chunks]
    first = stores[0][0]
    gold = [chunk.gold for chunk in first.chunks if chunk.gold is not None]
    return Store(pieces, first.unit, np.concatenate(gold) if gold else None, sum(map(len, picked)), keys)
