"""Shards as files: their footers, their hashes, and what is wrong with a damaged one."""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from toolkit.log.contract.problems import LogError, Problem
from toolkit.log.read.byte_ranges import NoRanges, RangeFile
from toolkit.log.read.locating import Shard
from toolkit.work_places import scratch_folder

if TYPE_CHECKING:
    import pyarrow as pa

FAILURES = (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError)
_OF_THREAD = threading.local()
"""The cursor of DuckDB and the file of each thread that reads footers."""
_CONNECTING = threading.Lock()
_RESTORE = "copy or write this shard again"
_OTHER_PROCESS = "the log's tables are frames in the memory of another process: open them again in this one"


@dataclass(frozen=True)
class Footer:
    """What a shard's footer says: the number of rows, and the columns' types as polars reads them.

    A remote shard is copied when `path` or `readable` is first asked for. It need not be where it is `ranged`: polars
    knows all of its types and its place gives ranges of bytes. `metadata` is the footer as pyarrow has it.
    """

    columns: Mapping[str, pl.DataType]
    rows: int
    shard: Shard
    metadata: Any
    plain: Any = None
    ranged: bool = False

    @property
    def path(self) -> str:
        """The shard's file, or a local copy of a remote one. Several footers may make their copies at the same time."""
        if "copy" not in self.__dict__:
            self.__dict__["copy"] = self.shard.place.local_copy(self.shard.path)
        return str(self.__dict__["copy"])

    @property
    def fetches_byte_ranges(self) -> bool:
        """Whether a scan would fetch byte ranges of a remote file, because no local copy exists yet."""
        return self.ranged and "copy" not in self.__dict__

    @cached_property
    def readable(self) -> str:
        """A file that polars and DuckDB read: the shard, or a copy with plainer types where polars can't read it."""
        return self.path if self.plain is None else _write_plain_copy(self.path, self.plain)

    @cached_property
    def ids(self) -> tuple[str, str] | None:
        """Two ids between which all of its examples lie, by the bounds that the footer of a sealed shard states, whose
        hash must have been compared; None where it states none.
        """
        if self.shard.sha256 is None:
            return None
        groups = range(self.metadata.num_row_groups)
        bounds = [chunk.statistics for group in groups for chunk in column_chunks(self.metadata, group, "example_id")]
        with suppress(UnicodeDecodeError):  # where a bound is cut off within a letter
            if bounds and all(bound and bound.has_min_max and isinstance(bound.min, str) for bound in bounds):
                return min(one.min for one in bounds), max(one.max for one in bounds)
        return None


def read_footer(shard: Shard) -> Footer:
    """Reads the footer of a shard. LogError in one line where it can't be read."""
    import pyarrow as pa

    try:
        schema, metadata, copy = _read_schema(shard)
        if shard.sha256 is None:  # else the hash tells
            _check_footer_consistency(metadata)
        plain, changed, columns = _read_types(schema.serialize().to_pybytes())
        ranged = not changed and copy is None and shard.place.system is not None
        footer = Footer(columns, metadata.num_rows, shard, metadata, plain if changed else None, ranged)
        if copy is not None:  # it is here already
            footer.__dict__["copy"] = copy
        if changed:
            _ = footer.readable  # here, where an error names the shard
        return footer
    except FileNotFoundError:
        raise missing_shard(shard).error() from None
    except (pa.ArrowException, *FAILURES, ValueError) as error:
        message = f"is truncated or not a Parquet file ({first_sentence(error)}): {_RESTORE}"
        raise Problem(shard.file, None, None, message, "damaged").error() from None


def missing_shard(shard: Shard) -> Problem:
    """The problem of a missing shard. Rows in memory are deleted with the log that they belonged to."""
    if shard.place.owner is None:
        return Problem(shard.file, None, None, f"is missing: {_RESTORE}", "not-found")
    return Problem(shard.table, None, None, f"is gone: {_OTHER_PROCESS}", "not-found")


@lru_cache(64)
def _read_types(schema: bytes) -> tuple[Any, bool, Mapping[str, pl.DataType]]:
    """(the schema with plainer types, whether it differs from the shard's, types by column as polars reads them)."""
    import pyarrow as pa

    arrow = pa.ipc.read_schema(pa.py_buffer(schema))
    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in arrow])
    return plain, not plain.equals(arrow), polars_types(plain)


def polars_types(schema: pa.Schema) -> dict[str, pl.DataType]:
    """The types by column as polars reads a file with this schema."""
    import pyarrow as pa

    # `schema.empty_table()` loads pandas, which takes longer than all the rest of opening a log.
    empty = pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)
    return dict(pl.from_arrow(empty).schema)  # type: ignore[union-attr]


def _read_schema(shard: Shard) -> tuple[Any, Any, str | None]:
    """(Arrow schema, pyarrow's footer, the local copy of a remote shard whose place can't give byte ranges)."""
    import pyarrow.parquet as pq

    if shard.place.system is not None:
        try:
            remote = RangeFile(shard.place, shard.path)
            remote.read(4)  # a server without ranges gives itself away by the whole file
            with pq.ParquetFile(remote) as file:
                return file.schema_arrow, file.metadata, None
        except (NoRanges, NotImplementedError, LogError):
            pass  # some servers have no ranges: then the whole file must come
    path = shard.place.local_copy(shard.path)
    with pq.ParquetFile(path) as file:
        return file.schema_arrow, file.metadata, None if shard.place.system is None else path


def _check_footer_consistency(metadata: Any) -> None:
    """Raises ValueError where a footer contradicts itself. It says names, types and row counts twice, and no checksum
    covers it: a damaged name would hide a column, and wrong row counts make polars panic.

    DuckDB reads what is said of the chunks of columns: pyarrow ends the process over some damages there.
    """
    columns = [metadata.schema.column(place) for place in range(metadata.num_columns)]
    chunks = _column_chunks(metadata)
    if len(chunks) != len(columns) * metadata.num_row_groups:
        raise ValueError("its footer contradicts itself about its columns")
    rows = 0
    for number, (group_rows, path, physical, values) in enumerate(chunks):
        column = columns[number % len(columns)]
        rows += group_rows if number % len(columns) == 0 else 0
        if (path.replace(", ", "."), physical) != (column.path.replace(", ", "."), column.physical_type):
            raise ValueError(f"its footer contradicts itself about the column `{column.path}`")
        if column.max_repetition_level == 0 and values != group_rows:
            raise ValueError(f"its footer contradicts itself about the rows of the column `{column.path}`")
    if columns and rows != metadata.num_rows:
        raise ValueError("its footer contradicts itself about its rows")


def _column_chunks(metadata: Any) -> list[tuple[int, str, str, int]]:
    """The column chunks, group after group: the group's rows, path, physical type, and number of values."""
    import duckdb

    if not hasattr(_OF_THREAD, "duck"):
        with _CONNECTING:
            _OF_THREAD.duck = _connection(os.getpid()).cursor()
        _OF_THREAD.file = f"{scratch_folder()}/footer.parquet"
    metadata.write_metadata_file(_OF_THREAD.file)
    sql = "SELECT row_group_num_rows, path_in_schema, type, num_values FROM parquet_metadata($1)"
    try:
        rows = _OF_THREAD.duck.execute(f"{sql} ORDER BY row_group_id, column_id", [_OF_THREAD.file]).fetchall()
    except duckdb.Error as error:
        raise ValueError(str(error)) from None
    return list(rows)


@lru_cache(1)
def _connection(process: int) -> Any:
    """The DuckDB connection of a process, whose cursors are those of its threads: to connect takes 30 ms."""
    import duckdb

    atexit.register(_connection.cache_clear)
    return duckdb.connect()


def _write_plain_copy(path: str, plain: Any) -> str:
    """Writes a copy of a file with the types of the schema `plain`; returns its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    copy = f"{scratch_folder()}/{Path(path).name}"
    with pq.ParquetFile(path) as file, pq.ParquetWriter(copy, plain) as writer:
        for batch in file.iter_batches():
            columns = [column.cast(field.type) for column, field in zip(batch, plain, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=plain))
    return copy


def _plain_type(kind: Any) -> Any:
    """The type with list views as lists and 256-bit decimals as 128-bit ones or float64, however deep."""
    import pyarrow as pa

    types = pa.types
    if types.is_list_view(kind):  # Arrow casts views only to lists of the other width
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if types.is_large_list_view(kind):
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)))
    if (types.is_list(kind) or types.is_large_list(kind)) and _plain_type(kind.value_type) != kind.value_type:
        return pa.large_list(kind.value_field.with_type(_plain_type(kind.value_type)))
    if types.is_fixed_size_list(kind) and _plain_type(kind.value_type) != kind.value_type:
        return pa.list_(kind.value_field.with_type(_plain_type(kind.value_type)), kind.list_size)
    if types.is_struct(kind):
        return pa.struct([field.with_type(_plain_type(field.type)) for field in kind])
    if types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), kind.item_field.with_type(_plain_type(kind.item_type)))
    if types.is_decimal256(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else pa.float64()
    return kind


def shard_damage(shard: Shard, footer: Footer, columns: Iterable[str] | None = None) -> Problem | None:
    """Reads every page of a shard, or of some columns, and returns what is wrong; None where all can be read.

    A page is compared with its checksum where it has one: not every writer gives it one. The bounds that a footer
    states have none, and whoever filters rows leaves out what lies beyond them: they are compared with the rows.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    column = None
    try:
        with pq.ParquetFile(footer.path, page_checksum_verification=True) as file:
            for column in file.schema_arrow.names if columns is None else columns:
                for group in range(file.num_row_groups):
                    nulls, bounds = 0, []
                    for batch in file.iter_batches(columns=[column], row_groups=[group]):
                        batch.validate(full=True)  # strings are UTF-8, lists end where they say
                        nulls += batch.column(0).null_count
                        bounds += _value_range(batch.column(0))
                    for chunk in column_chunks(file.metadata, group, column):
                        _check_statistics(chunk.statistics, nulls, bounds)
    except (pa.ArrowException, OSError, ValueError) as error:
        return Problem(shard.file, column, None, f"is damaged ({first_sentence(error)}): {_RESTORE}", "damaged")
    return None


def column_chunks(metadata: Any, group: int, column: str) -> Iterator[Any]:
    """Yields the footer's entries of a column, by whole path, in a row group whose rows were read.

    pyarrow ends the process over some damages of it, but where rows are read it raises an error.
    """
    if metadata.row_group(group).num_rows:
        places = range(metadata.num_columns)
        of_name = [place for place in places if metadata.schema.column(place).path == column]
        yield from (metadata.row_group(group).column(place) for place in of_name)


def _value_range(values: Any) -> list[Any]:
    """The smallest and the largest of some values; empty where there are none, or they have no order."""
    import pyarrow as pa
    import pyarrow.compute as pc

    types, kind = pa.types, values.type
    plain = (types.is_string, types.is_large_string, types.is_signed_integer, types.is_float32, types.is_float64)
    known = values.null_count < len(values) and any(test(kind) for test in plain)
    return list(pc.min_max(values).as_py().values()) if known else []


def _check_statistics(statistics: Any, nulls: int, bounds: list[Any]) -> None:
    """Raises ValueError where the footer's null counts or bounds of a column differ from its rows, since readers skip
    rows by these.
    """
    if statistics is None:
        return
    if statistics.has_null_count and statistics.null_count != nulls:
        raise ValueError("its footer has a wrong number of nulls")
    with suppress(UnicodeDecodeError):  # some writers cut long texts within a character
        if bounds and statistics.has_min_max and type(statistics.min) is type(bounds[0]):
            low, high = statistics.min, statistics.max
            if any(low > value or high < value for value in bounds):
                raise ValueError("its footer has bounds that its values exceed")


def hash_file(path: str | Path) -> str:
    """The SHA-256 of a file's bytes in hexadecimal digits."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def first_sentence(error: BaseException) -> str:
    """The first sentence of an error's message. polars adds query plans, Arrow paths."""
    text = " ".join(str(error).split())
    return text.partition(" This error occurred")[0].partition(" Resolved plan")[0][:200]
