"""Rows of a further table of a log, such as `rounds` or `checks`, as columns with their examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl


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
        return np.arange(len(self.frame)) - self.offsets[self.example]

    @cached_property
    def _number_columns(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _summed_columns(self) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        return {}

    @cached_property
    def _columns_by_place(self) -> dict[str, np.ndarray]:
        return {}

    def numbers(self, column: str) -> np.ndarray:
        """A column as float64 (R,), NaN for null."""
        if column not in self._number_columns:
            self._number_columns[column] = as_numbers(self.frame[column])
        return self._number_columns[column]

    def logged_by_place(self, column: str) -> np.ndarray:
        """A column of numbers by example and place (E, W), NaN for null and where there is no row."""
        if column not in self._columns_by_place:
            self._columns_by_place[column] = self.spread(self.numbers(column), np.nan)
        return self._columns_by_place[column]

    def paid_sum(self, column: str, paid: np.ndarray) -> np.ndarray:
        """The sum (E,) of a column over the rows that are `paid` (E, W) bool or 0 to 1; NaN where one is not known."""
        if column not in self._summed_columns:
            values, there = self.logged_by_place(column), np.arange(paid.shape[1]) < self.size[:, None]
            unknown = np.isnan(values) & there
            self._summed_columns[column] = np.where(np.isnan(values), 0.0, values), unknown if unknown.any() else None
        values, gaps = self._summed_columns[column]
        total = np.einsum("ew,ew->e", paid, values)
        return total if gaps is None else np.where(((paid > 0) & gaps).any(axis=1), np.nan, total)

    def spread(self, values: np.ndarray, fill: float = 0.0) -> np.ndarray:
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
        return TableRows(self.frame[rows], offsets)


def as_numbers(column: pl.Series) -> np.ndarray:
    """A column (N,) as float64, NaN for null."""
    return column.cast(pl.Float64).to_numpy()  # which turns null into NaN
