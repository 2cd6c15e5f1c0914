"""The outcomes of a run: blocks of neighbouring examples, read chunk by chunk, by column and policy."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import InvalidError, MismatchError, listed
from toolkit.stats.metrics.spill import Floats, Ints, SpilledTable, TableStore
from toolkit.stats.metrics.strata import Strata
from toolkit.stats.metrics.ways import Rows, SharedOutcomes, rows_or_slice

CHUNK = 4096
"""Examples (or resampling units) in a chunk. It is part of the definition of the resamples: do not change it."""

BLOCK_BYTES = 64 * 2**20
"""Outcomes (as float64) in a stored block; only memory and speed depend on it."""

RECENT = 4
"""Columns of shared outcomes that stay in memory, because several statistics read the same one in turn."""

ANSWER = "word"
"""The column of answers as numbers; equal numbers mean equal answers of an example under all policies."""

Key = str | int
"""A column of outcomes, or the number of a label whose predicted share is meant."""


@dataclass(frozen=True, eq=False)
class OutcomeBlock:
    """The outcomes of P policies on the same E examples, in the order of example ids.

    `example_ids` (E,); `unit` (E,) int64: resampling unit of each example, numbered from 0 over the whole run
    (the example itself, or its cluster); `values`: numeric column of `outcomes` -> (P, E) float64, NaN for null;
    `gold` (E,): index into the labels, -1 where there is none; `predicted` (P, E, L): share of each predicted
    label (a null prediction has no share); both None where the examples share no label space.
    """

    example_ids: NDArray[np.object_]
    unit: Ints
    values: Mapping[str, Floats]
    gold: NDArray[np.int32] | None = None
    predicted: Floats | None = None

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def nbytes(self) -> int:
        arrays = [*self.values.values(), *(a for a in (self.gold, self.predicted) if a is not None)]
        return int(sum(a.nbytes for a in arrays) + self.unit.nbytes)

    def slice_examples(self, start: int, stop: int) -> OutcomeBlock:
        """The block's examples from `start` up to `stop`, as views without a copy."""
        return OutcomeBlock(
            self.example_ids[start:stop],
            self.unit[start:stop],
            {key: value[:, start:stop] for key, value in self.values.items()},
            None if self.gold is None else self.gold[start:stop],
            None if self.predicted is None else self.predicted[:, start:stop],
        )


Blocks = Callable[[], Iterator[OutcomeBlock]]
"""Starts a pass over the blocks."""


def _check_block(block: OutcomeBlock, policies: int, labels: int | None, keys: Collection[str]) -> None:
    """Raises where a block's shapes are wrong, or its columns are not `keys`, those of the first block."""
    size, odd = len(block), block.values.keys() ^ keys
    if odd:
        raise MismatchError(f"blocks of outcomes differ in their columns ({listed(sorted(odd))}): give all the same")
    if len(block.example_ids) != size:
        raise MismatchError(f"a block of outcomes has {len(block.example_ids)} ids for {size} examples")
    for key, value in block.values.items():
        if value.shape != (policies, size):
            raise MismatchError(
                f"column `{key}` of a block of outcomes has shape {value.shape}, "
                f"not {policies} policies by {size} examples"
            )
        if np.isinf(value).any():
            policy, row = np.argwhere(np.isinf(value))[0]
            raise InvalidError(
                f"column `{key}` is infinite for example `{block.example_ids[row]}` (policy number {policy + 1}): "
                "leave a missing value null"
            )
    if labels is not None:
        if block.gold is None or block.predicted is None:
            raise MismatchError("labels are given, but a block of outcomes has no gold or predicted labels")
        if block.predicted.shape != (policies, size, labels) or block.gold.shape != (size,):
            raise MismatchError(
                f"predicted labels of a block have shape {block.predicted.shape}, "
                f"not {policies} policies by {size} examples by {labels} labels"
            )


class StoredBlock(Protocol):
    """The outcomes of every policy on some neighbouring examples."""

    @property
    def size(self) -> int: ...

    @property
    def keys(self) -> Collection[Key]: ...

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """The values of a column, or of a label's predicted shares, for some policies in ascending order and the
        examples from `start` up to `stop`, (policies, E).
        """
        ...

    def outcome_rows(self, start: int, stop: int) -> Ints | None:
        """The row that holds the outcome of each policy on each of these examples, (policies, E), equal where policies
        share one; None where each has its own.
        """
        ...

    def at_rows(self, key: Key, rows: Rows) -> Floats:
        """The values of a column in some of these rows."""
        ...


class UnsharedBlock:
    """A block in which each policy has rows of its own."""

    def outcome_rows(self, start: int, stop: int) -> Ints | None:
        return None

    def at_rows(self, key: Key, rows: Rows) -> Floats:
        raise ValueError("the policies share no rows")


@dataclass(frozen=True, eq=False)
class _SpilledBlock(UnsharedBlock):
    """A block whose columns are stored as tables with a row for each policy. `keeper` holds the tables' file."""

    size: int
    columns: Mapping[Key, SpilledTable]
    keeper: TableStore

    @property
    def keys(self) -> Collection[Key]:
        return self.columns.keys()

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        return self.columns[key].rows(policies, start, stop)


@dataclass(frozen=True, eq=False)
class _OnePolicyBlock(UnsharedBlock):
    """Rows (W,) of a block, as the outcomes of one policy."""

    source: StoredBlock
    chosen: Rows
    size: int

    @property
    def keys(self) -> Collection[Key]:
        return self.source.keys

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        return self.source.at_rows(key, self.chosen)[None, start:stop]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Up to CHUNK neighbouring examples of every policy, from blocks that are each read from one example to another."""

    unit: Ints
    gold: NDArray[np.int64] | None
    policies: int
    blocks: tuple[tuple[StoredBlock, int, int], ...]
    recent: dict[tuple[int, Key], Floats] = field(default_factory=dict)  # columns of shared outcomes, as last read
    whole: tuple[Chunk, SharedOutcomes] | None = None  # the chunk whose shared outcomes are the examples here

    def __len__(self) -> int:
        return len(self.unit)

    @cached_property
    def _shared_outcomes_and_rows(self) -> tuple[SharedOutcomes, tuple[Ints, ...]] | None:
        """The outcomes that policies share, and of each block the rows that hold them; None where few are shared."""
        rows_by_block = [source.outcome_rows(start, stop) for source, start, stop in self.blocks]
        rows = [some for some in rows_by_block if some is not None]
        shared = SharedOutcomes.from_rows(np.concatenate(rows, axis=1)) if len(rows) == len(rows_by_block) else None
        if shared is None or 2 * len(shared[0]) > self.policies * len(self):
            return None
        ends = np.cumsum([some.shape[1] for some in rows])[:-1]
        return shared[0], tuple(np.split(shared[1], np.searchsorted(shared[0].example, ends)))

    @property
    def shared_outcomes(self) -> SharedOutcomes | None:
        """The outcomes that policies share on the examples; None where few are shared."""
        return None if self._shared_outcomes_and_rows is None else self._shared_outcomes_and_rows[0]

    @cached_property
    def shared_outcomes_as_chunk(self) -> Chunk:
        """A chunk of one policy, whose examples are the shared outcomes of this one."""
        if self._shared_outcomes_and_rows is None:
            raise ValueError("the policies share no outcomes")
        ways, rows = self._shared_outcomes_and_rows
        gold = None if self.gold is None else self.gold[ways.example]
        pairs = zip(self.blocks, rows, strict=True)
        return Chunk(self.unit[ways.example], gold, 1, tuple(
            (_OnePolicyBlock(source, rows_or_slice(some), len(some)), 0, len(some)) for (source, _, _), some in pairs
        ), self.recent, (self, ways))  # fmt: skip

    def values(self, key: Key, policies: Ints) -> Floats:
        """A column, or a label's predicted shares, of some policies in ascending order, (policies, E)."""
        if self.shared_outcomes is not None:
            return self.shared_outcomes_as_chunk.values(key, np.zeros(1, np.int64))[0][
                self.shared_outcomes.outcome_of_each_example(policies)
            ]
        if self.whole is None:
            return self._read_values(key, policies)
        if (id(self), key) not in self.recent:
            if len(self.recent) == RECENT:
                del self.recent[next(iter(self.recent))]
            self.recent[id(self), key] = self._read_values(key, policies)
        return self.recent[id(self), key]

    def _read_values(self, key: Key, policies: Ints) -> Floats:
        values = [source.values(key, policies, start, stop) for source, start, stop in self.blocks]
        return values[0] if len(values) == 1 else np.concatenate(values, axis=1)

    def values_of(self, key: Key, policy: int) -> Floats:
        """A column of one policy, (1, E); where the examples are shared outcomes, on the example of each."""
        if self.whole is None:
            return self.values(key, np.array([policy]))
        chunk, ways = self.whole
        return chunk.values(key, np.array([policy]))[:, ways.example]

    def has(self, key: Key) -> bool:
        return key in self.blocks[0][0].keys

    @cached_property
    def is_judged(self) -> NDArray[np.bool_]:
        """Whether some policy is judged on each example (E,)."""
        if not self.has("correct"):
            return np.ones(len(self), bool)
        return np.asarray(~np.isnan(self.values("correct", np.arange(self.policies))).all(axis=0))


class Store:
    """All outcomes of a run, in chunks of exactly CHUNK examples (the last may be smaller), whatever their blocks are.

    `policies`: how many there are; `keys`: numeric columns; `strata`: those of the examples, where there are several.
    """

    def __init__(
        self, sources: Sequence[StoredBlock], unit: Ints, gold: NDArray[np.int64] | None, policies: int,
        keys: Sequence[str], strata: Strata | None = None,
    ) -> None:  # fmt: skip
        self.policies, self.keys, self.unit, self.chunks = policies, tuple(keys), unit, list[Chunk]()
        self.strata = strata
        self._sources, self._gold = sources, gold
        ends, recent = np.cumsum([0, *(source.size for source in sources)]), dict[tuple[int, Key], Floats]()
        for first in range(0, len(unit), CHUNK):
            last = min(first + CHUNK, len(unit))
            inside = range(int(np.searchsorted(ends, first, "right")) - 1, int(np.searchsorted(ends, last, "left")))
            blocks = tuple(
                (sources[i], int(max(first - ends[i], 0)), int(min(last - ends[i], sources[i].size))) for i in inside
            )
            labels = None if gold is None else gold[first:last]
            self.chunks.append(Chunk(unit[first:last], labels, policies, blocks, recent))

    def only_columns(self, keys: Sequence[str]) -> Store:
        """The same store with only the numeric columns `keys`."""
        return Store(self._sources, self.unit, self._gold, self.policies, keys, self.strata)

    @classmethod
    def of_blocks(cls, blocks: Blocks, policies: int, labels: int | None, strata: Strata | None = None) -> Store:
        """A store of the outcomes in `blocks`, which are read once and stored compactly."""
        keeper = TableStore()
        sources: list[StoredBlock] = []
        pending: list[OutcomeBlock] = []
        units, golds, size = [np.zeros(0, np.int64)], list[NDArray[Any]](), 0
        keys: list[str] | None = None
        for block in blocks():
            keys = list(block.values) if keys is None else keys
            _check_block(block, policies, labels, keys)
            units.append(block.unit)
            if block.gold is not None:
                golds.append(np.asarray(block.gold, np.int64))
            most = max(1, BLOCK_BYTES * len(block) // max(block.nbytes, 1))
            for start in range(0, len(block), most):
                some = block.slice_examples(start, min(len(block), start + most))
                pending.append(some)
                size += some.nbytes
                if size >= BLOCK_BYTES:
                    sources.append(_store_blocks(pending, keys, keeper))
                    pending, size = [], 0
        if pending:
            sources.append(_store_blocks(pending, keys or (), keeper))
        gold = np.concatenate(golds) if golds else None
        return cls(sources, np.concatenate(units), gold, policies, keys or (), strata)


def _store_blocks(blocks: Sequence[OutcomeBlock], keys: Sequence[str], keeper: TableStore) -> _SpilledBlock:
    columns: dict[Key, SpilledTable] = {
        key: keeper.store_table(np.concatenate([b.values[key] for b in blocks], axis=1)) for key in keys
    }
    shares = [b.predicted for b in blocks if b.predicted is not None]
    for label in range(shares[0].shape[2] if shares else 0):
        columns[label] = keeper.store_table(np.concatenate([s[:, :, label] for s in shares], axis=1))
    return _SpilledBlock(sum(map(len, blocks)), columns, keeper)


@dataclass(frozen=True, eq=False)
class _JoinedBlock(UnsharedBlock):
    """One chunk of several stores side by side, with only some policies of each."""

    chunks: tuple[Chunk, ...]
    picked: tuple[Ints, ...]
    shared: frozenset[Key]

    @property
    def size(self) -> int:
        return len(self.chunks[0])

    @property
    def keys(self) -> Collection[Key]:
        """The columns that all of the stores have."""
        return self.shared

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """A column of some of the picked policies, which are numbered through, and of some examples (policies, E)."""
        out = np.empty((len(policies), stop - start))
        first = 0
        for chunk, numbers in zip(self.chunks, self.picked, strict=True):
            mine = np.flatnonzero((policies >= first) & (policies < first + len(numbers)))
            if len(mine):
                wanted, place = np.unique(numbers[policies[mine] - first], return_inverse=True)
                out[mine] = chunk.values(key, wanted)[place, start:stop]
            first += len(numbers)
        return out


def join_stores(stores: Sequence[tuple[Store, Sequence[int]]], keys: Sequence[str], labels: int) -> Store:
    """Joins some policies of each store into one store, with the columns `keys` and the shares of so many labels.

    All have the same examples, units and gold, in the same order. Words of answers are numbered by each store for
    itself, so those of several have none.
    """
    picked = tuple(np.array(numbers, np.int64) for _, numbers in stores)
    words = [ANSWER] if len(stores) == 1 and all(chunk.has(ANSWER) for chunk in stores[0][0].chunks) else []
    shared = frozenset([*keys, *words, *range(labels)])
    chunks = zip(*(store.chunks for store, _ in stores), strict=True)
    sources = [_JoinedBlock(same_examples, picked, shared) for same_examples in chunks]
    first = stores[0][0]
    gold = [chunk.gold for chunk in first.chunks if chunk.gold is not None]
    golds = np.concatenate(gold) if gold else None
    return Store(sources, first.unit, golds, sum(map(len, picked)), keys, first.strata)
