"""Rows of a large source, sorted by example on disk: an external merge sort.

Each block of the source is sorted by example and written as a run. Then examples are taken from all runs, range by
range, so that everything that is decided within an example is decided in memory, and nothing else is in it.

Blocks may differ in their types, as when a field comes late in a file. Then the source is read once more, each block
in the types that all of them have in common: what is computed of a row never depends on where the blocks were cut.
DuckDB's sort would lose types on the way (integers of 128 bits, durations, columns of nothing but null).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from toolkit.errors import ThinkbackError
from toolkit.imports.rows.source_table import SourceTable, TableTypes, common_types, types_of, with_common_types
from toolkit.log.read.example_blocks import group_examples

BLOCK_BYTES = 96 * 2**20
"""Approximate bytes of rows in memory at one time."""
KEY, AT = "__key", "__at"
_GROUP_BYTES = 2**21
_MOST_ROWS = 2**40  # more than a block has


@dataclass(frozen=True)
class _SortedRun:
    """A sorted block of rows on disk. `keys`: its examples' keys in order, with each one's row count and first row."""

    path: Path
    keys: pl.DataFrame
    bytes_per_row: float
    types: TableTypes


@dataclass(frozen=True)
class _SortedRows:
    """The sorted rows of a source: runs on disk, ranges (first, last) of keys to read together, and the rows' types."""

    runs: Sequence[_SortedRun]
    ranges: Sequence[tuple[str, str]]
    types: TableTypes
    rows: int

    def block(self, number: int) -> SourceTable:
        """The rows of range `number`, in the order of the source."""
        low, high = self.ranges[number]
        within = pl.col(KEY).is_between(pl.lit(low), pl.lit(high))
        frames = []
        for run in self.runs:
            keys = run.keys.filter(within)
            if keys.height:
                first, rows = keys["first"][0], int(keys["len"].sum())
                table = SourceTable(
                    pl.scan_parquet(run.path, glob=False).slice(first, rows).collect(), run.types.numbers
                )
                frames.append(with_common_types(table, self.types).frame)
        return SourceTable(pl.concat(frames).sort(AT).drop(AT), self.types.numbers)

    def keys(self) -> pl.Series:
        """The keys of all examples. An example that is in several runs comes as often."""
        return pl.concat([run.keys[KEY] for run in self.runs]) if self.runs else pl.Series(KEY, dtype=pl.String)


Prepared = tuple[SourceTable, pl.Series]
"""A function that gives the rows of a block to store, and the keys of their examples."""


def sort_rows(
    blocks: Callable[[], Iterable[SourceTable]],
    prepare: Callable[[SourceTable], Prepared],
    texts: Collection[str],
    folder: Path,
) -> tuple[_SortedRows, int] | None:
    """Sorts the rows that `prepare` makes of each block by example, on disk; also returns the source's row count. None
    where the blocks have no common types, or rows cannot be written: the source must then be read at once.
    """
    try:
        runs, read, types, stable = _sorted_runs(blocks(), prepare, texts, folder, None)
        if not stable:
            runs, read, types, _ = _sorted_runs(blocks(), prepare, texts, folder, types)
        common = common_types([run.types for run in runs], texts)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None
    return _SortedRows(runs, _key_ranges(runs), common, sum(int(run.keys["len"].sum()) for run in runs)), read


def _sorted_runs(
    blocks: Iterable[SourceTable],
    prepare: Callable[[SourceTable], Prepared],
    texts: Collection[str],
    folder: Path,
    wanted: TableTypes | None,
) -> tuple[list[_SortedRun], int, TableTypes, bool]:
    """A run for each block, the number of rows read, their common types, and whether every block had these types.

    Without types that are `wanted`, those of the first block are; once a block has others, only types are gathered. A
    block that can't be prepared counts as such a one, unless all types are the same in the end.
    """
    runs: list[_SortedRun] = []
    failure: ThinkbackError | None = None
    types, read, stable = wanted, 0, True
    for number, block in enumerate(blocks):
        read += block.frame.height
        if wanted is None:
            seen = types_of(block)
            merged = seen if types is None else common_types([types, seen], texts)
            stable = stable and (types is None or _have_equal_types(merged, types))
            types = merged
        if types is None or not stable or failure is not None:
            continue
        try:
            rows, keys = prepare(with_common_types(block, types))
        except ThinkbackError as error:
            failure = error
            continue
        if rows.frame.height:
            runs.append(_write_run(folder, number, rows, keys))
    if failure is not None and (stable or wanted is not None):
        raise failure
    return runs, read, types or TableTypes({}, {}), stable


def _have_equal_types(first: TableTypes, second: TableTypes) -> bool:
    return (first.held, first.numbers) == (second.held, second.numbers)


def _write_run(folder: Path, number: int, rows: SourceTable, keys: pl.Series) -> _SortedRun:
    """Writes a block's rows to disk, sorted by example key. The column AT keeps their order in the source."""
    frame = rows.frame.with_columns(pl.int_range(pl.len(), dtype=pl.Int64).alias(AT) + number * _MOST_ROWS)
    size = frame.estimated_size() / frame.height
    types = types_of(SourceTable(frame, rows.numbers))
    if not keys.is_sorted():
        order = keys.arg_sort()
        frame, keys = frame[order], keys[order]
    path = folder / f"{number}.parquet"
    frame.write_parquet(path, compression="uncompressed", row_group_size=max(1, int(_GROUP_BYTES / max(size, 1))))
    counts = keys.alias(KEY).rle().struct.unnest().select(pl.col("value").alias(KEY), pl.col("len").cast(pl.Int64))
    return _SortedRun(path, counts.with_columns(first=pl.col("len").cum_sum() - pl.col("len")), size, types)


def _key_ranges(runs: Sequence[_SortedRun]) -> list[tuple[str, str]]:
    """Ranges of neighbouring examples that together have about BLOCK_BYTES of rows."""
    if not runs:
        return []
    sizes = [run.keys.select(KEY, size=(pl.col("len") * run.bytes_per_row).cast(pl.Int64)) for run in runs]
    total = pl.concat(sizes).group_by(KEY).agg(pl.col("size").sum()).sort(KEY)
    return [
        (total[KEY][start], total[KEY][end - 1]) for start, end in group_examples(total["size"].to_numpy(), BLOCK_BYTES)
    ]
