"""Rows of a further table of a log, such as `rounds` or `checks`, as columns with their examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl


def starts_of_equal_runs(*keys: np.ndarray) -> np.ndarray:
    """The start (G,) of each run of rows that are equal in every key (N,)."""
    change = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    return np.flatnonzero(np.concatenate([[True], change]) if len(keys[0]) else [])


@dataclass(frozen=True)
class TableRows:
    """The R rows of a pool in a further table, such as `rounds`, sorted by example, then by the table's other keys."""

    frame: pl.DataFrame  # R rows
    offsets: np.ndarray  # (E + 1,) the rows of example e are those from offsets[e] up to offsets[e + 1]

    @cached_property
    def size(self) -> np.ndarray:
        """How many rows (E,) each example has."""
        return np.diff(self.offsets)

    @cached_property
    def example(self) -> np.ndarray:
        """The number of the example (R,) that each row belongs to."""
        return np.repeat(np.arange(len(self.size)), self.size)

    @cached_property
    def place(self) -> np.ndarray:
        """The place (R,) of each row among those of its example, from 0."""
        return np.arange(len(self.example)) - self.offsets[self.example]

    @cached_property
    def _number_columns(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _code_columns(self) -> dict[tuple[str, tuple[str, ...]], np.ndarray]:
        return {}

    @cached_property
    def _columns_by_place(self) -> dict[str, np.ndarray]:
        return {}

    def numbers(self, column: str) -> np.ndarray:
        """A column as float64 (R,), NaN for null."""
        if column not in self._number_columns:
            self._number_columns[column] = self._read_numbers(column)
        return self._number_columns[column]

    def codes(self, column: str, names: tuple[str, ...]) -> np.ndarray:
        """The number (R,) of each text of a column among `names`, -1 for others and null."""
        if (column, names) not in self._code_columns:
            self._code_columns[column, names] = self._read_codes(column, names)
        return self._code_columns[column, names]

    def _read_numbers(self, column: str) -> np.ndarray:
        return as_numbers(self.frame[column])

    def _read_codes(self, column: str, names: tuple[str, ...]) -> np.ndarray:
        codes = self.frame[column].cast(pl.Enum(names), strict=False).to_physical().cast(pl.Int64)
        return (codes.fill_null(-1) if codes.null_count() else codes).to_numpy()

    def has(self, column: str) -> bool:
        """Whether a column was read."""
        return column in self.frame.columns

    def sum_by_example(self, values: np.ndarray) -> np.ndarray:
        """Values of the rows (R,) added up by example (E,)."""
        some, out = self.size > 0, np.zeros(len(self.size))
        if some.any():
            out[some] = np.add.reduceat(values, self.offsets[:-1][some])
        return out

    def logged_by_place(self, column: str) -> np.ndarray:
        """A column of numbers by example and place (E, W), NaN for null and where there is no row."""
        if column not in self._columns_by_place:
            self._columns_by_place[column] = self.values_by_place(self.numbers(column), np.nan)
        return self._columns_by_place[column]

    def values_by_place(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
        """Values of the rows (R,) as an array by example and place (E, W), with `fill` where there is no row."""
        out: np.ndarray = np.full((len(self.size), int(self.size.max(initial=1))), fill, dtype=np.float64)
        out[self.example, self.place] = values
        return out

    def slice_examples(self, start: int, stop: int) -> TableRows:
        """The rows of the examples from number `start` up to `stop`."""
        first, last = int(self.offsets[start]), int(self.offsets[stop])
        return TableRows(self.frame[first:last], self.offsets[start : stop + 1] - first)

    def at_examples(self, examples: np.ndarray) -> TableRows:
        """The rows of the examples with these numbers, in this order; an example may come several times."""
        size = self.size[examples]
        offsets = np.concatenate([[0], np.cumsum(size)])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[examples] - offsets[:-1], size)
        return _ChosenRows(self, rows, offsets)


class _ChosenRows(TableRows):
    """Rows `row` (R,) of other ones, `source`, whose columns are read from there as they are needed."""

    source: TableRows
    row: np.ndarray

    def __init__(self, source: TableRows, row: np.ndarray, offsets: np.ndarray) -> None:
        self.__dict__.update(source=source, row=row, offsets=offsets)

    @cached_property
    def frame(self) -> pl.DataFrame:
        return self.source.frame[self.row]

    def has(self, column: str) -> bool:
        return self.source.has(column)

    def _read_numbers(self, column: str) -> np.ndarray:
        return self.source.numbers(column)[self.row]

    def _read_codes(self, column: str, names: tuple[str, ...]) -> np.ndarray:
        return self.source.codes(column, names)[self.row]


def as_numbers(column: pl.Series) -> np.ndarray:
    """A column (N,) as float64, NaN for null."""
    return column.cast(pl.Float64).to_numpy()  # which turns null into NaN
