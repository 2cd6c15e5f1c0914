"""The outcomes of a run: blocks that are checked at the door, read once, kept compact, given back by column and policy.

Values are kept exactly, in the smallest of three types. What exceeds `KEEP_BYTES` goes to a temporary file, from which
only the policies that are wanted are read: work on policies in groups reads the outcomes once, not once a group.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ThinkbackError, listed

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CHUNK = 4096
"""Examples (or resampling units) worked on at once. Part of the definition of the resamples: do not vary it."""

KEEP_BYTES = 512 * 2**20
"""Outcomes are kept in memory up to this size; what follows goes to a temporary file."""

PIECE_BYTES = 64 * 2**20
"""Outcomes (as float64) that are put together before they are kept; only memory and speed depend on it."""

NULL = 255
"""A null among values kept as bytes."""

Key = str | int
"""A column of outcomes, or the number of a label whose predicted share is meant."""


@dataclass(frozen=True, eq=False)
class OutcomeBlock:
    """Outcomes of P policies on the same E examples, in example_id order.

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
        """Bytes of the arrays."""
        arrays = [*self.values.values(), *(a for a in (self.gold, self.predicted) if a is not None)]
        return int(sum(a.nbytes for a in arrays) + self.unit.nbytes)

    def cut(self, start: int, stop: int) -> OutcomeBlock:
        """The examples from `start` up to `stop`, as views."""
        return OutcomeBlock(
            self.example_ids[start:stop],
            self.unit[start:stop],
            {key: value[:, start:stop] for key, value in self.values.items()},
            None if self.gold is None else self.gold[start:stop],
            None if self.predicted is None else self.predicted[:, start:stop],
        )


Blocks = Callable[[], Iterator[OutcomeBlock]]
"""Starts a pass over the blocks."""


def checked(blocks: Blocks, policies: int, labels: int | None) -> Blocks:
    """The same blocks with shapes and keys checked at the door."""

    def passes() -> Iterator[OutcomeBlock]:
        keys: frozenset[str] | None = None
        for block in blocks():
            found = frozenset(block.values)
            if keys is not None and found != keys:
                odd = listed(sorted(found ^ keys))
                raise ThinkbackError(f"blocks of outcomes differ in their columns ({odd}): give all the same")
            keys = found
            _check(block, policies, labels)
            yield block

    return passes


def _check(block: OutcomeBlock, policies: int, labels: int | None) -> None:
    size = len(block)
    if len(block.example_ids) != size:
        raise ThinkbackError(f"a block of outcomes has {len(block.example_ids)} ids for {size} examples")
    for key, value in block.values.items():
        if value.shape != (policies, size):
            raise ThinkbackError(
                f"column `{key}` of a block of outcomes has shape {value.shape}, "
                f"not {policies} policies by {size} examples"
            )
        if np.isinf(value).any():
            policy, row = np.argwhere(np.isinf(value))[0]
            raise ThinkbackError(
                f"column `{key}` is infinite for example `{block.example_ids[row]}` (policy number {policy + 1}): "
                "leave a missing value null"
            )
    if labels is not None:
        if block.gold is None or block.predicted is None:
            raise ThinkbackError("labels are given, but a block of outcomes has no gold or predicted labels")
        if block.predicted.shape != (policies, size, labels) or block.gold.shape != (size,):
            raise ThinkbackError(
                f"predicted labels of a block have shape {block.predicted.shape}, "
                f"not {policies} policies by {size} examples by {labels} labels"
            )


@dataclass(frozen=True, eq=False)
class Slab:
    """One column of a piece, (P, E): an array, or where it lies in the file."""

    array: NDArray[Any] | None
    dtype: np.dtype[Any]
    width: int  # examples
    file: int = -1  # descriptor
    offset: int = 0

    def rows(self, policies: Ints) -> Floats:
        """Values of some policies in ascending order, (policies, E) float64, NaN for null."""
        found = self._read(policies) if self.array is None else self.array[policies]
        out = found.astype(np.float64)
        if self.dtype == np.uint8:
            out[found == NULL] = np.nan
        return out

    def _read(self, policies: Ints) -> NDArray[Any]:
        found = np.empty((len(policies), self.width), self.dtype)
        bytes_each = self.width * self.dtype.itemsize
        breaks = np.flatnonzero(np.diff(policies) != 1) + 1
        for run in np.split(np.arange(len(policies)), breaks):
            start = self.offset + int(policies[run[0]]) * bytes_each
            data = os.pread(self.file, len(run) * bytes_each, start)
            found[run[0] : run[-1] + 1] = np.frombuffer(data, self.dtype).reshape(len(run), self.width)
        return found


class Chunk:
    """Up to CHUNK examples of every policy."""

    def __init__(self) -> None:
        self.unit: Ints = np.zeros(0, np.int64)
        self.gold: NDArray[np.int64] | None = None
        self.judged = np.zeros(0, bool)  # (E,) some policy is judged
        self.pieces: list[dict[Key, Slab]] = []

    def __len__(self) -> int:
        return len(self.unit)

    def values(self, key: Key, policies: Ints) -> Floats:
        """A column, or a label's predicted shares, of some policies in ascending order, (policies, E)."""
        return np.concatenate([piece[key].rows(policies) for piece in self.pieces], axis=1)

    def has(self, key: Key) -> bool:
        """Whether there is such a column."""
        return key in self.pieces[0]

    def add(self, blocks: Sequence[OutcomeBlock], slabs: dict[Key, Slab]) -> None:
        """Take in the next examples, whose columns lie in `slabs`."""
        for block in blocks:
            correct = block.values.get("correct")
            judged = np.ones(len(block), bool) if correct is None else ~np.isnan(correct).all(axis=0)
            self.unit = np.concatenate([self.unit, block.unit])
            self.judged = np.concatenate([self.judged, judged])
            if block.gold is not None:
                gold = np.asarray(block.gold, np.int64)
                self.gold = gold if self.gold is None else np.concatenate([self.gold, gold])
        self.pieces.append(slabs)


class Store:
    """Every example of a run in chunks of exactly CHUNK (the last may be smaller), however the blocks are cut."""

    def __init__(self, blocks: Blocks) -> None:
        self.chunks: list[Chunk] = []
        self.keys: tuple[str, ...] = ()
        self._file: IO[bytes] | None = None
        self._written = 0
        self._held = 0
        pending: list[OutcomeBlock] = []
        room = CHUNK  # examples until the chunk is full
        size = 0
        for block in blocks():
            self.keys = self.keys or tuple(block.values)
            most = max(1, PIECE_BYTES * len(block) // max(block.nbytes, 1))
            start = 0
            while start < len(block):
                part = block.cut(start, min(len(block), start + room, start + most))
                start += len(part)
                room -= len(part)
                size += part.nbytes
                pending.append(part)
                if room == 0 or size >= PIECE_BYTES:
                    self._keep(pending)
                    pending, size = [], 0
                    room = room or CHUNK
        if pending:
            self._keep(pending)

    @property
    def unit(self) -> Ints:
        """Resampling unit of every example (E,)."""
        return np.concatenate([c.unit for c in self.chunks]) if self.chunks else np.zeros(0, np.int64)

    def _keep(self, blocks: list[OutcomeBlock]) -> None:
        """Keep blocks that lie within one chunk as one piece of it."""
        if not self.chunks or len(self.chunks[-1]) == CHUNK:
            self.chunks.append(Chunk())
        values = ((key, np.concatenate([b.values[key] for b in blocks], axis=1)) for key in self.keys)
        slabs: dict[Key, Slab] = {key: self._slab(table) for key, table in values}
        shares = [b.predicted for b in blocks if b.predicted is not None]
        for label in range(shares[0].shape[2] if shares else 0):
            slabs[label] = self._slab(np.concatenate([s[:, :, label] for s in shares], axis=1))
        self.chunks[-1].add(blocks, slabs)

    def _slab(self, values: Floats) -> Slab:
        array = _compact(values)
        if self._held + array.nbytes <= KEEP_BYTES:
            self._held += array.nbytes
            return Slab(array, array.dtype, array.shape[1])
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 -- open as long as the store
                weakref.finalize(self, self._file.close)
            data = memoryview(array.tobytes())
            offset = self._written
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise ThinkbackError(
                f"cannot write outcomes to a temporary file in {tempfile.gettempdir()} ({error.strerror}): "
                "free space there, or set TMPDIR to another folder"
            ) from None
        self._written += array.nbytes
        return Slab(None, array.dtype, array.shape[1], self._file.fileno(), offset)


def _compact(values: Floats) -> NDArray[Any]:
    """The same values as bytes (255 for null), float32 or float64: the smallest that is exact."""
    null = np.isnan(values)
    filled = np.where(null, 0.0, values)
    if filled.size and filled.min() >= 0 and filled.max() < NULL:
        small = filled.astype(np.uint8)
        if np.array_equal(small, filled):
            small[null] = NULL
            return small
    with np.errstate(over="ignore"):
        narrow = filled.astype(np.float32)
    if np.array_equal(narrow, filled):
        narrow[null] = np.nan
        return narrow
    return np.array(values, np.float64)
