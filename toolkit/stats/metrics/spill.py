"""Tables of numbers, kept exactly in the smallest type: in memory up to a size, then in a temporary file.

From the file only the rows that are wanted are read, so that work on policies in groups reads each once.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import WriteError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

KEEP_BYTES = 32 * 2**20
"""Tables are kept in memory up to this size; what follows goes to a temporary file."""

NULL = 255
"""A null among values kept as bytes."""

BYTE_VALUES = np.append(np.arange(NULL, dtype=np.float64), np.nan)
"""The values that bytes stand for."""


@dataclass(frozen=True, eq=False)
class SpilledTable:
    """One stored table (R, E): a number where all values are equal, an array in memory, or a place in the file."""

    array: NDArray[Any] | None
    dtype: np.dtype[Any]
    shape: tuple[int, int]  # rows, examples
    file: int = -1  # descriptor
    offset: int = 0
    value: float | None = None

    @property
    def width(self) -> int:
        """The number of examples."""
        return self.shape[1]

    def __reduce__(self) -> tuple[Any, ...]:
        """The form that travels to another process: with the numbers, wherever they are kept."""
        array = self._read(np.arange(self.shape[0])) if self.array is None and self.value is None else self.array
        return SpilledTable, (array, self.dtype, self.shape, -1, 0, self.value)

    def rows(self, numbers: Ints, start: int = 0, stop: int | None = None) -> Floats:
        """Some rows of the table for the examples from `start` to `stop`, (rows, E) float64, NaN for null."""
        here = slice(start, self.width if stop is None else stop)
        if self.value is not None:
            return np.full((len(numbers), here.stop - start), self.value)
        raw = self._read(numbers)[:, here] if self.array is None else self.array[numbers, here]
        return BYTE_VALUES[raw] if self.dtype == np.uint8 else raw.astype(np.float64)

    def _read(self, numbers: Ints) -> NDArray[Any]:
        out = np.empty((len(numbers), self.width), self.dtype)
        bytes_each = self.width * self.dtype.itemsize
        breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
        for run in np.split(np.arange(len(numbers)), breaks):
            start = self.offset + int(numbers[run[0]]) * bytes_each
            data = os.pread(self.file, len(run) * bytes_each, start)
            out[run[0] : run[-1] + 1] = np.frombuffer(data, self.dtype).reshape(len(run), self.width)
        return out


class TableStore:
    """Stores tables in memory and in a temporary file, which lives as long as the keeper."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._written = 0
        self._held = 0

    def __reduce__(self) -> tuple[Any, ...]:
        """The form that travels to another process: an empty store, since tables take their numbers along."""
        return TableStore, ()

    def store_table(self, values: Floats) -> SpilledTable:
        """Store a table (R, E) without loss. ThinkbackError where the temporary file cannot be written."""
        array, shape = _smallest_form(values), (values.shape[0], values.shape[1])
        if isinstance(array, float):
            return SpilledTable(None, np.dtype(np.float64), shape, value=array)
        return self.adopt_table(SpilledTable(array, array.dtype, shape))

    def adopt_table(self, table: SpilledTable) -> SpilledTable:
        """Store a table that came from another process. ThinkbackError where the temporary file cannot be written."""
        array = table.array
        if array is None:
            return table
        if self._held + array.nbytes <= KEEP_BYTES:
            self._held += array.nbytes
            return table
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 -- open as long as the keeper
                weakref.finalize(self, self._file.close)
            data = memoryview(array.tobytes())
            offset = self._written
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise WriteError(
                f"cannot write outcomes to a temporary file in {tempfile.gettempdir()} ({error.strerror}): "
                "free space there, or set TMPDIR to another folder"
            ) from None
        self._written += array.nbytes
        return SpilledTable(None, array.dtype, table.shape, self._file.fileno(), offset)


def _smallest_form(values: Floats) -> NDArray[Any] | float:
    """The same values as one number, bytes (255 for null), float32 or float64, whichever is the smallest exact form."""
    if values.size and (values == values.flat[0]).all():
        return float(values.flat[0])
    null = np.isnan(values)
    if values.size and null.all():
        return float("nan")
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
