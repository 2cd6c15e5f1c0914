"""Reading the files that others wrote, as frames of rows with their place: `source_file`, `source_path` (below the
folder that all files share) and `source_row`.

JSON lines (`.jsonl`, `.ndjson`), a JSON list of objects (`.json`), CSV, TSV and Parquet, each but Parquet also with
`.gz`, `.bz2`, `.xz` or `.zst` behind; local or at any fsspec address. Columns that a file lacks are null in its rows.

A JSON field that holds different kinds of values becomes text. CSV has no types: in an expression a column is taken
as integers where that changes no character of it, as floats where different texts stay different numbers, else as
text; so `007` stays `007`. Where a column of the log is text, the number is taken as written, `1.10` for `1.10`:
of CSV and JSON alike, and of one file beside another.

Files that are larger than what memory should hold are read in blocks: JSON lines are cut at the ends of lines, CSV and
Parquet by polars. A JSON document is one block, whatever its size. The rows of a block have the columns and types of
that block alone; those of CSV are looked for in the whole file first.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

import polars as pl

from toolkit.errors import ConflictError, FormatError, MismatchError, first_line, listed
from toolkit.imports.files import listing
from toolkit.imports.files.file_names import columns_of, columns_of_path, relative
from toolkit.imports.rows.json_files import Records, json_lines, json_list
from toolkit.imports.rows.source_table import SourceTable, stacked

PLACES = ("source_file", "source_path", "source_row")
BLOCK_BYTES = 48 * 2**20
"""Bytes of a file that are read at one time, about."""


@dataclass(frozen=True)
class SourceRules:
    """What a mapping says of reading: the columns of which `texts` are made, whose numbers are kept as they are
    written; where `records` lie in JSON; the pattern of a file's `path`; the file that is joined, `beside` the others.
    `runs`: the column `source_run`, by address.
    """

    texts: Collection[str] = ()
    records: Records | None = None
    path: str | None = None
    beside: str | None = None
    runs: Mapping[str, str] | None = None


@dataclass(frozen=True)
class _SourceFile:
    """A file, its `path` below the folder that all files share, the columns that its path tells, and its run."""

    address: str
    path: str
    path_columns: Mapping[str, str]
    run: str | None


@dataclass(frozen=True)
class SourceList:
    """The files of an import, and which of the columns that their paths tell are numbers."""

    files: tuple[_SourceFile, ...]
    numbers: Mapping[str, pl.DataType]
    folder: str
    """Where a mapping's `join` looks: the folder that is named, or that of the first file."""
    left_out: int
    """Files of folders whose paths do not fit the mapping's `path`."""

    @property
    def names(self) -> str:
        return listed([listing.plain_path(file.address).name for file in self.files[:3]])


@dataclass(frozen=True)
class _SourceFiles:
    """The rows of all files, in the order given, and what identifies the files: (path, sha256)."""

    table: SourceTable
    files: tuple[tuple[str, str], ...]


def find_sources(sources: Sequence[str], rules: SourceRules) -> SourceList:
    """Find files, globs and folders; ThinkbackError where nothing is found, or a path does not fit the mapping's."""
    addresses = listing.find_tables(sources, rules.path, rules.beside)
    names = addresses.files
    paths = relative([str(listing.plain_path(address)) for address in names])
    named = _named(names, rules)
    path_columns = [named.frame.row(number, named=True) if named.frame.width else {} for number in range(len(names))]
    runs = [rules.runs[address] if rules.runs is not None else None for address in names]
    files = (_SourceFile(*one) for one in zip(names, paths, path_columns, runs, strict=True))
    return SourceList(tuple(files), named.numbers, addresses.folder, addresses.left_out)


def _named(names: Sequence[str], rules: SourceRules) -> SourceTable:
    """What the path of each file says, one row a file; numbers are such as in a CSV file."""
    if rules.path is None:
        return SourceTable(pl.DataFrame(), {})
    rows = [columns_of_path(rules.path, str(listing.plain_path(address))) for address in names]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns_of(rules.path), pl.String))
    return SourceTable(frame, _kinds(frame.lazy())[0])


def read_sources(sources: Sequence[str], rules: SourceRules) -> _SourceFiles:
    """Read files, globs and folders; ThinkbackError where nothing is found or a file can't be read."""
    return read_files(find_sources(sources, rules), rules)


def read_files(sources: SourceList, rules: SourceRules) -> _SourceFiles:
    """Read all files as one table."""
    digests: dict[str, str] = {}
    tables = list(source_blocks(sources, rules, None, digests))
    try:
        every = stacked(tables, rules.texts)
    except pl.exceptions.PolarsError as error:
        raise MismatchError(
            f"the files {sources.names} hold columns of one name but different types: {first_line(error)}"
        ) from None
    return _SourceFiles(every, tuple(digests.items()))


def read_beside(file: str, folder: str, texts: Collection[str]) -> SourceTable:
    """The rows of one file named by a mapping, relative to the folder of the first source."""
    absolute = "://" in file or file.startswith("/")
    address = file if absolute or not folder else f"{folder}/{file}"
    return stacked([table for table, _ in _blocks(_Opened(address, None), SourceRules(texts))], texts)


def source_blocks(
    sources: SourceList, rules: SourceRules, folder: Path | None, digests: dict[str, str]
) -> Iterator[SourceTable]:
    """The rows of all files with their places, in order: block by block, or, without a `folder`, file by file.

    Files that are compressed or elsewhere, and whose format needs them on disk, are laid into `folder`. `digests` gets
    the hash of each file that was read to its end, by its path.
    """
    for file in sources.files:
        opened = _Opened(file.address, folder)
        for table, before in _blocks(opened, rules):
            if table.frame.height or folder is None:
                rows = _placed(file, table, before)
                yield SourceTable(rows, {**table.numbers, **sources.numbers})
        digests[file.path] = opened.digest.hexdigest()


def _blocks(opened: _Opened, rules: SourceRules) -> Iterator[tuple[SourceTable, int]]:
    """The rows of a file, and how many come before them. Whatever a parser raises becomes one line."""
    ending = listing.format_of(opened.address)
    if ending is None:
        known = ", ".join(sorted(listing.TABLES))
        raise FormatError(f"source `{opened.address}`: its ending names no format; there are {known}")
    failed, before = f"source `{opened.address}` is not a readable {ending[1:]} file", 0
    try:
        for table in _READERS[ending](opened, rules):
            yield table, before
            before += table.frame.height
    except RecursionError:
        raise FormatError(f"{failed}: it nests too deeply") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OverflowError) as error:
        raise FormatError(f"{failed}: {first_line(error)}") from None


def _placed(file: _SourceFile, table: SourceTable, before: int) -> pl.DataFrame:
    """A file's rows with their place and what the file's path tells; `before` are the rows before these."""
    row = pl.int_range(before + 1, before + pl.len() + 1, dtype=pl.Int64)
    name = pl.lit(listing.plain_path(file.address).name)
    places = {"source_row": row, "source_file": name, "source_path": pl.lit(file.path)}
    if file.run is not None:
        places["source_run"] = pl.lit(file.run)
    extra = {place: literal for place, literal in places.items() if place not in table.frame.columns}
    for column in file.path_columns.keys() & set(table.frame.columns):
        raise ConflictError(
            f"the mapping's `path` names the column `{column}`, which `{file.address}` holds too: give it another name"
        )
    of_path = {column: pl.lit(value, pl.String) for column, value in file.path_columns.items()}
    return table.frame.with_columns(**extra, **of_path) if table.frame.height else table.frame


@dataclass
class _Opened:
    """A file that is read once, and hashed while it is; whole where there is no `folder` for what is too large."""

    address: str
    folder: Path | None
    digest: Any = field(default_factory=hashlib.sha256)

    def chunks(self, size: int) -> Iterator[bytes]:
        """Its bytes, of about `size` at once; all of them for -1."""
        for chunk in listing.chunks(self.address, size):
            self.digest.update(chunk)
            yield chunk

    def whole(self) -> bytes:
        return b"".join(self.chunks(-1))

    def on_disk(self, folder: Path) -> Path:
        """A file that polars can read in blocks."""
        path = listing.local_path(self.address)
        if path is not None:
            for _ in self.chunks(BLOCK_BYTES):
                pass
            return path.absolute()
        copy = folder / "copy"
        with copy.open("wb") as handle:
            handle.writelines(self.chunks(BLOCK_BYTES))
        return copy


def _lines(opened: _Opened, rules: SourceRules) -> Iterator[SourceTable]:
    rest, line = b"", 1
    for chunk in opened.chunks(-1 if opened.folder is None else BLOCK_BYTES):
        text = rest + chunk if rest else chunk
        end = len(text) if opened.folder is None else text.rfind(b"\n") + 1
        if end:
            yield json_lines(text[:end], rules.texts, rules.records, line)
            line += text.count(b"\n", 0, end)
        rest = text[end:]
    if rest:
        yield json_lines(rest, rules.texts, rules.records, line)


def _document(opened: _Opened, rules: SourceRules) -> Iterator[SourceTable]:
    yield json_list(opened.whole(), rules.texts, rules.records)


def _table(
    opened: _Opened,
    rules: SourceRules,
    read: Callable[[IO[bytes]], pl.DataFrame],
    scan: Callable[[Path], pl.LazyFrame],
    larger: int,
    texts: bool,
) -> Iterator[SourceTable]:
    """A table that polars reads. Its rows are `larger` than the file; those of CSV are `texts`.

    ValueError where polars gives fewer rows than there are: it ends early where a thread of its fails.
    """
    if rules.records is not None:
        raise ValueError("the mapping's `records` is for JSON; leave it out, or open lists with `explode`")
    if opened.folder is None:
        frame = read(io.BytesIO(opened.whole()))
        yield SourceTable(frame, _kinds(frame.lazy())[0] if texts else {})
        return
    path = opened.on_disk(opened.folder)
    rows = scan(path)
    kinds, height = _kinds(rows) if texts else ({}, rows.select(pl.len()).collect().item())
    total = 0
    for batch in rows.collect_batches(chunk_size=max(1, height * BLOCK_BYTES // max(path.stat().st_size * larger, 1))):
        total += batch.height
        yield SourceTable(batch, kinds)
    if total != height:
        raise ValueError(f"of its {height:,} rows {total:,} can be read")


def _kinds(rows: pl.LazyFrame) -> tuple[dict[str, pl.DataType], int]:
    """The columns of texts that are numbers to compute with, and the number of rows.

    A column is of integers or floats where no two different texts become one and no digit is lost.
    """
    names = rows.collect_schema().names()
    columns = []
    for name in names:
        text = pl.col(name)
        integers, real = text.cast(pl.Int64, strict=False), text.cast(pl.Float64, strict=False)
        alike = (integers.cast(pl.String) == text).sum()
        columns.append(pl.struct(some=text.count(), integers=alike, real=real.is_finite().sum()).alias(name))
    counts = rows.select(pl.len().alias("__rows"), *columns).collect(engine="streaming").row(0, named=True)
    kinds: dict[str, pl.DataType] = {}
    floats = []
    for name in names:
        count = counts[name]
        if count["some"] and count["integers"] == count["some"]:
            kinds[name] = pl.Int64()
        elif count["some"] and count["real"] == count["some"]:
            floats.append(name)
    if floats:
        apart = [(pl.col(name).n_unique() == pl.col(name).cast(pl.Float64, strict=False).n_unique()) for name in floats]
        same = rows.select(apart).collect(engine="streaming").row(0)
        kinds |= {name: pl.Float64() for name, one in zip(floats, same, strict=True) if one}
    return kinds, counts["__rows"]


def _separated(separator: str) -> Callable[[_Opened, SourceRules], Iterator[SourceTable]]:
    read = partial(pl.read_csv, separator=separator, infer_schema=False)
    scan = partial(pl.scan_csv, separator=separator, infer_schema=False, glob=False)
    return partial(_table, read=read, scan=scan, larger=1, texts=True)


_PARQUET = partial(
    _table,
    read=pl.read_parquet,
    scan=partial(pl.scan_parquet, glob=False, hive_partitioning=False),
    larger=listing.SHRUNK,
    texts=False,
)
_READERS: Mapping[str, Callable[[_Opened, SourceRules], Iterator[SourceTable]]] = {
    ".parquet": _PARQUET, ".pq": _PARQUET, ".csv": _separated(","), ".tsv": _separated("\t"),
    ".jsonl": _lines, ".ndjson": _lines, ".json": _document,
}  # fmt: skip
