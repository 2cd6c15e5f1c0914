"""Remote shards read in ranges of bytes: a footer costs a footer, a scan the columns and rows that it asks for."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from toolkit.log.read.locating import Shard
from toolkit.log.read.places import Place

BATCH_ROWS = 2**16


class NoRanges(OSError):
    """The file system can't tell a file's size, or returns other bytes than requested."""


class RangeFile(io.RawIOBase):
    """A remote file that fetches only the bytes asked for. Each read is one request, and nothing is read ahead."""

    def __init__(self, place: Place, path: str):
        super().__init__()
        self.place, self.path, self.position = place, path, 0
        size = place.size(path)
        if size is None:
            raise NoRanges(f"the size of `{path}` is not known")
        self.length = size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves the position in the file to a byte, as the `seek` of files does."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self.position, io.SEEK_END: self.length}[whence]
        self.position = max(start + offset, 0)
        return self.position

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes, up to the end of the file. NoRanges where others come."""
        rest = max(self.length - self.position, 0)
        count = rest if size is None or size < 0 else min(size, rest)
        if not count:
            return b""
        data = self.place.read_range(self.path, self.position, self.position + count)
        if len(data) != count:
            raise NoRanges(f"`{self.path}` gave {len(data):,} bytes instead of {count:,}")
        self.position += count
        return data


def scan_ranges(shards: Sequence[tuple[Shard, Any]], types: Mapping[str, pl.DataType], row: str | None) -> pl.LazyFrame:
    """A lazy frame over remote shards, each given with pyarrow's footer, that fetches only what a query needs.

    `types` are the shards' columns as polars reads them; `row`, where it is given, names a column that counts
    the rows from 0. A predicate's own columns are read first, and the others only where a row group has a row
    that it keeps.
    """
    from polars.io.plugins import register_io_source

    schema = pl.Schema(dict(types) | ({row: pl.UInt32()} if row is not None else {}))

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for frame in _read_row_groups(shards, schema, row, list(schema) if columns is None else columns, predicate):
            rows = frame if left is None else frame.head(left)
            left = None if left is None else left - rows.height
            yield rows
            if left == 0:
                return

    return register_io_source(source, schema=schema)


def _read_row_groups(
    shards: Sequence[tuple[Shard, Any]], schema: pl.Schema, row: str | None, names: list[str], predicate: pl.Expr | None
) -> Iterator[pl.DataFrame]:
    """Yields, for each row group, the selected columns of the rows that meet the predicate."""
    import pyarrow.parquet as pq

    first, start = list(dict.fromkeys(names if predicate is None else predicate.meta.root_names())), 0
    for shard, metadata in shards:
        source = RangeFile(shard.place, shard.path)
        with pq.ParquetFile(source, metadata=metadata, pre_buffer=True, page_checksum_verification=True) as file:
            for group in range(file.metadata.num_row_groups):
                read = partial(_read_group, file, group, schema, start, row)
                frame = read(first)
                start += frame.height
                if predicate is not None:
                    mask = frame.select(predicate.alias("mask")).to_series().fill_null(False)
                    if not mask.any():
                        continue
                    later = [name for name in names if name not in frame.columns]
                    frame = (frame.hstack(read(later)) if later else frame).filter(mask)
                yield from frame.select(names).iter_slices(BATCH_ROWS)


def _read_group(
    file: Any, group: int, schema: pl.Schema, start: int, row: str | None, names: Sequence[str]
) -> pl.DataFrame:
    """The columns of one row group in the schema's types, with row numbers where `row` is among the names."""
    stored = [name for name in names if name != row]
    height = file.metadata.row_group(group).num_rows
    if stored:
        table = file.read_row_group(group, columns=stored).select(stored)
        frame = pl.DataFrame(pl.from_arrow(table)).cast({name: schema[name] for name in stored})
    else:
        frame = pl.DataFrame(height=height)
    if row is not None and row in names:
        frame = frame.with_columns(pl.int_range(start, start + height, dtype=pl.UInt32).alias(row))
    return frame
