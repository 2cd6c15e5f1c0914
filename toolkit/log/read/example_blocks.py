"""Blocks of examples: ranges of example ids with a bounded number of rows, so that any log fits in memory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import polars as pl

from toolkit.log.contract.problems import LogError
from toolkit.log.read.log import Log, collect
from toolkit.table_rows import starts_of_equal_runs

BLOCK_ROWS = 500_000
"""Approximate number of rows in memory at one time."""


def block_id_ranges(log: Log, tables: Sequence[str], rows: int) -> Iterator[tuple[str, str]]:
    """Yields ranges (first, last) of example ids, each with about `rows` rows in all the tables; nulls are left out."""
    counts = (collect(log.scan(t, ["example_id"]).group_by("example_id").len(), log).drop_nulls() for t in tables)
    yield from example_ranges(counts, rows)


def example_ranges(counts: Iterable[pl.DataFrame], rows: int) -> Iterator[tuple[str, str]]:
    """Yields ranges (first, last) of ids from frames of row counts (example_id, len). LogError for a null id, which
    lies in no range.
    """
    frames = [frame.select("example_id", pl.col("len").cast(pl.Int64)) for frame in counts]
    if not frames:
        return
    total = pl.concat(frames).group_by("example_id").agg(pl.col("len").sum()).sort("example_id")
    if total["example_id"].null_count():
        raise LogError(
            "column `example_id` is null where a value is required: validate the log to see where", code="null"
        )
    for start, end in group_examples(total["len"].to_numpy(), rows):
        yield total["example_id"][start], total["example_id"][end - 1]


def group_examples(lengths: np.ndarray, rows: int) -> list[tuple[int, int]]:
    """Groups neighbouring examples, (start, end), into about `rows` rows each. `lengths` (E,): each one's rows."""
    block = (np.cumsum(lengths) - 1) // max(rows, 1)  # (E,), ascending
    starts = starts_of_equal_runs(block)
    return list(itertools.pairwise([*starts.tolist(), len(lengths)])) if len(lengths) else []
