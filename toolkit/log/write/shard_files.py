"""Writing shards: to a temporary name, synced, then renamed; zstd, row groups of at most 64 MB."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.files import sync_to_disk, umask
from toolkit.log.contract.problems import LogError
from toolkit.log.contract.schema import LARGE_TEXTS, schema_of
from toolkit.log.read.locating import is_shard

LEVELS = range(1, 23)
LEVEL = 3
"""The level of zstd: a higher one writes smaller files, more slowly."""
ROW_GROUP_BYTES = 64 * 2**20
ROW_GROUP_ROWS = 2**17  # small enough that a block of examples reads little else
_PART = ".part"


def write_shard(folder: Path, table: str, rows: pl.DataFrame, level: int = LEVEL) -> Path:
    """Writes rows as the table's next shard: under a temporary name, synced, then renamed."""
    return write_shards(folder, table, [rows], level)[0]


def write_shards(folder: Path, table: str, blocks: Iterable[pl.DataFrame], level: int = LEVEL) -> list[Path]:
    """Writes each block as a further shard of the table."""
    home = folder / table
    try:
        home.mkdir(parents=True, exist_ok=True)
        sync_to_disk(folder)
    except OSError as error:
        raise LogError(f"`{home}` can't be made: {error.strerror or error}", code="write") from None
    numbers = (p.stem.removeprefix("part-") for p in home.iterdir() if is_shard(p.name))
    number = max((int(n) for n in numbers if n.isdigit()), default=-1)
    written = []
    for rows in blocks:
        while True:
            number += 1
            path = home / f"part-{number:05d}.parquet"
            with contextlib.suppress(FileExistsError):  # another writer took the number
                with write_beside(path, exclusive=True) as temporary:
                    _write_parquet(temporary, table, rows, level)
                break
        written.append(path)
    return written


def replace_shard(path: Path, table: str, rows: pl.DataFrame) -> None:
    """Replaces a shard's rows. The file is complete before and after."""
    with write_beside(path) as temporary:
        _write_parquet(temporary, table, rows)


@contextlib.contextmanager
def write_beside(path: Path, exclusive: bool = False) -> Iterator[Path]:
    """A file to write next to `path`. It is synced and gets the name `path` when the block ends without an error."""
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=_PART, dir=path.parent)
        temporary = Path(name)
        os.close(handle)
        temporary.chmod(0o666 & ~umask())
        yield temporary
        sync_to_disk(temporary)
        if exclusive:
            _rename_to_free_name(temporary, path)
        else:
            temporary.replace(path)
        sync_to_disk(path.parent)
    except BaseException as error:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, FileExistsError):
            raise LogError(f"`{path}` can't be written: {error.strerror or error}", code="write") from None
        raise


def _rename_to_free_name(temporary: Path, path: Path) -> None:
    """Renames a file to a name that must be free. A hard link can't overwrite, but some file systems have none."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        temporary.rename(path)
    else:
        temporary.unlink()


def remove_parts(folder: Path) -> None:
    """Removes the partial files of killed writers."""
    for left in folder.rglob(f".*{_PART}"):
        left.unlink(missing_ok=True)


_RARELY_UNIQUE = 4
"""The least rows per distinct score for which dictionary encoding saves space."""


def _write_parquet(path: Path, table: str, rows: pl.DataFrame, level: int = LEVEL) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = rows.to_arrow()
    fields = []
    for name, dtype in rows.schema.items():
        kind = _arrow_type(dtype, name) or arrow.schema.field(name).type
        column = schema_of(table).get(name)
        null = rows[name].null_count() > 0 if column is not None and column.needed else True
        fields.append(pa.field(name, kind, nullable=column is None or (column.nullable and null)))
    schema = pa.schema(fields)
    options = {
        "compression": "zstd",
        "compression_level": level,
        "use_dictionary": _dictionary_columns(rows),
        "column_encoding": _encodings_of_lists(rows.schema),
        "write_statistics": True,
        "write_page_checksum": True,
    }
    with pq.ParquetWriter(path, schema, **options) as writer:
        for group in _row_groups(arrow):
            writer.write_table(
                pa.Table.from_batches(group.cast(schema).to_batches(), schema), row_group_size=max(len(group), 1)
            )


def _dictionary_columns(rows: pl.DataFrame) -> list[str]:
    """The columns to encode by dictionary, whose values repeat far apart. States, texts and trace ids do not, and
    seconds repeat nearby.
    """
    repeating = [n for n, dtype in rows.schema.items() if dtype == pl.String and n not in ("trace_id", "text")]
    if "score" in rows.columns and rows["score"].n_unique() * _RARELY_UNIQUE <= rows.height:
        repeating.append("score")
    return repeating


def _encodings_of_lists(schema: pl.Schema) -> dict[str, str]:
    """The encoding of lists of numbers: byte by byte, which takes less room and is read as fast.

    States stay plain, for not every reader takes half-precision numbers so; ids of traces too, for what saves room
    there is slow to read.
    """
    lists = [n for n, dtype in schema.items() if isinstance(dtype, pl.List) and dtype.inner in (pl.Float32, pl.Float64)]
    leaves = (f"{name}.list.element" for name in lists)
    return {leaf: "BYTE_STREAM_SPLIT" for leaf in leaves if leaf not in schema}


def _row_groups(arrow: Any) -> Iterator[Any]:
    """Yields slices of at most 64 MB of an Arrow table, as even as halving makes them. A row is never cut."""
    groups = [arrow.slice(start, ROW_GROUP_ROWS) for start in range(0, len(arrow), ROW_GROUP_ROWS)] or [arrow]
    while groups:
        group = groups.pop(0)
        if group.nbytes <= ROW_GROUP_BYTES or len(group) <= 1:
            yield group
        else:
            middle = len(group) // 2
            groups[:0] = [group.slice(0, middle), group.slice(middle)]


def _arrow_type(dtype: Any, name: str = "") -> Any | None:
    """The Arrow type to write a polars type as; None where its own Arrow form will do.

    Strings are Arrow's `string` and lists its `list`, but texts of a model are a `large_string`, as the contract says.
    """
    import pyarrow as pa

    if name in LARGE_TEXTS:
        return pa.large_string()
    if isinstance(dtype, pl.List):
        inner = _arrow_type(dtype.inner)
        return None if inner is None else pa.list_(pa.field("element", inner))
    plain = {
        pl.String: pa.string(), pl.Boolean: pa.bool_(), pl.Int16: pa.int16(), pl.Int32: pa.int32(),
        pl.Int64: pa.int64(), pl.Float32: pa.float32(), pl.Float64: pa.float64(),
    }  # fmt: skip
    return plain.get(type(dtype))
