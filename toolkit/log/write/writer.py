"""Writing a log: all at once, or shard by shard by a writer that may be killed at any moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from toolkit.arguments import checks_arguments
from toolkit.files import replacing
from toolkit.log.contract.manifest import MANIFEST
from toolkit.log.contract.problems import LogError
from toolkit.log.contract.schema import check_table
from toolkit.log.read.example_blocks import example_ranges, group_examples
from toolkit.log.read.log import Log, collect, open_log
from toolkit.log.read.places import local_path
from toolkit.log.write.sealing import seal_folder, seal_log
from toolkit.log.write.shard_files import write_shard, write_shards
from toolkit.log.write.typed_rows import contract_rows, to_contract

ROWS_PER_SHARD = 1_000_000

Frame = pl.DataFrame | pl.LazyFrame
Rows = Frame | Sequence[pl.LazyFrame]
"""Rows of one table, at once or in frames, such as one for each file that holds some."""


@checks_arguments(path="the path of a folder", tables="frames by table")
def write_log(
    path: str | Path,
    *,
    name: str,
    tables: Mapping[str, Frame],
    source: Any = None,
    license: str | None = None,  # noqa: A002
    simulated: bool = False,
    pools: Mapping[str, Any] | None = None,
    rows_per_shard: int = ROWS_PER_SHARD,
    validate: bool = True,
) -> Log:
    """Writes a whole sealed log. Nothing is visible under `path` before all is on disk.

    Rows are sorted by example_id (then by key) and cut into shards of about `rows_per_shard`. A LazyFrame is
    read in ranges of examples, so it may be larger than memory. LogError when `path` exists or, with
    `validate`, when the rows break the contract.
    """
    target = local_path(path)
    for table in tables:
        check_table(table)
    with replacing(target) as folder:
        for table, frame in tables.items():
            write_shards(folder, table, sorted_blocks(frame, table, rows_per_shard))
        details = {"license": license, "simulated": simulated, "source": source, "pools": pools}
        seal_folder(folder, validate=validate, name=name, **details)
    return open_log(path)


class LogWriter:
    """Appends shards to a log that may already hold some. Each is on disk when `append` returns.

    Killed at any moment, the log opens and holds every row whose `append` had returned. To resume, make a
    writer for the same path, read `log()` for what is there, and append the rest. One writer at a time.

    >>> with LogWriter("LOG") as writer:
    ...     writer.append("traces", frame)
    >>> log = writer.seal(name="my log")
    """

    def __init__(self, path: str | Path):
        self.path = local_path(path)
        if (self.path / MANIFEST).exists():
            raise LogError(f"`{path}` is sealed: write into a new folder, then merge the two", code="exists")
        if self.path.exists() and not self.path.is_dir():
            raise LogError(f"`{path}` is a file: name a folder", code="exists")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LogError(f"`{path}` can't be made: {error.strerror}", code="write") from None
        open_log(self.path)  # refuses a folder that holds something else

    def __enter__(self) -> LogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Does nothing: what was appended is on disk, and nothing else was written."""

    def append(self, table: str, frame: Frame) -> Path:
        """Writes rows as one new shard; returns its path once it is on disk. LogError for wrong types."""
        check_table(table)
        rows = collect(frame) if isinstance(frame, pl.LazyFrame) else frame
        return write_shard(self.path, table, contract_rows(rows, table))

    def log(self) -> Log:
        """Opens the log with what was appended so far."""
        return open_log(self.path)

    def seal(self, *, name: str, validate: bool = True, **details: Any) -> Log:
        """Validates what was appended and writes the manifest; see `seal_log`."""
        return seal_log(self.path, name=name, validate=validate, **details)


def lazy_frames(rows: Rows) -> list[pl.LazyFrame]:
    """The rows as a list of lazy frames. Rows given at once are one frame."""
    return [rows.lazy()] if isinstance(rows, pl.DataFrame | pl.LazyFrame) else list(rows)


def sorted_blocks(given: Rows, table: str, rows_per_shard: int) -> Iterator[pl.DataFrame]:
    """Yields the rows in order, in blocks of about `rows_per_shard` that split no example.

    A block reads those frames that hold examples of it, so frames of neighbouring examples are read in linear time.
    Columns that a frame lacks are null in its rows.
    """
    if isinstance(given, pl.DataFrame):
        rows = contract_rows(given, table)
        lengths = rows["example_id"].rle().struct.field("len").to_numpy().astype(np.int64)
        ends = [0, *np.cumsum(lengths).tolist()]
        blocks = [(ends[start], ends[end]) for start, end in group_examples(lengths, rows_per_shard)]
        yield from (rows[start:end] for start, end in blocks or [(0, 0)])
        return
    frames = lazy_frames(given)
    to_contract(pl.DataFrame(schema=frames[0].collect_schema()), table)  # refuses wrong types before ids are cast
    frames = [frame.with_columns(pl.col("example_id").cast(pl.String)) for frame in frames]
    counts = [collect(frame.group_by("example_id").len()) for frame in frames]
    ranges = list(example_ranges(counts, rows_per_shard))
    if len(ranges) <= 1:
        yield from sorted_blocks(collect(pl.concat(frames, how="diagonal")), table, rows_per_shard)
        return
    ends = [(ids.min(), ids.max()) for ids in (count["example_id"] for count in counts)]
    for low, high in ranges:
        of_range = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        holding = [
            frame
            for frame, (first, last) in zip(frames, ends, strict=True)
            if first is not None and first <= high and last >= low
        ]
        yield contract_rows(collect(pl.concat(holding, how="diagonal").filter(of_range)), table)
