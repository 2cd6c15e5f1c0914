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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl

from toolkit.errors import ConflictError, FormatError, MismatchError, first_line, listed
from toolkit.imports.files import listing
from toolkit.imports.files.file_names import columns_of, columns_of_paths, relative_paths
from toolkit.imports.rows.dialects import (
    HEAD,
    QRELS,
    RUN,
    has_wide_signs,
    reader_of,
    separator_of,
    utf8_content,
    utf8_file,
    white_space_rows,
)
from toolkit.imports.rows.json_files import RowPath, json_lines, json_list, json_lists
from toolkit.imports.rows.source_table import LINE, NamedColumns, SourceTable, stack_tables

PLACES = ("source_file", "source_path", "source_row")
BLOCK_BYTES = 48 * 2**20
"""Approximate bytes of a file that are read at one time."""
_SMALL = 2**18
"""Files of fewer bytes are read together."""
_OF_FILE = "__file"
_UNREADABLE = (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OverflowError)
"""The errors that parsers raise."""
_Joint = list[tuple[int, list[int], SourceTable]]
"""Small files with equal column types: the number of the first, the row count of each, and the rows of all."""


@dataclass(frozen=True)
class SourceRules:
    """How a mapping reads files: the columns used as `texts`, whose numbers keep their spelling; where `records` lie in
    JSON; the pattern of a file's `path`; the joined file `beside` the others. `runs`: the column `source_run`, by
    address; `columns`: those to read, None for all.
    """

    texts: Collection[str] = ()
    records: RowPath | None = None
    path: str | None = None
    beside: str | None = None
    runs: Mapping[str, str] | None = None
    columns: NamedColumns | None = None


@dataclass(frozen=True)
class _SourceFile:
    """One file of an import: its `path` below the shared folder, the columns read from that path, and its run."""

    address: str
    path: str
    path_columns: Mapping[str, str]
    run: str | None


@dataclass(frozen=True)
class SourceList:
    """The files of an import, and the types of those path columns that are numbers."""

    files: tuple[_SourceFile, ...]
    numbers: Mapping[str, pl.DataType]
    folder: str
    """The folder of the mapping's `join` file: the named folder, or that of the first file."""
    left_out: int
    """Files of folders whose paths do not fit the mapping's `path`."""

    @property
    def names_text(self) -> str:
        return listed([listing.path_without_archive(file.address).name for file in self.files[:3]])


@dataclass(frozen=True)
class _SourceFiles:
    """All files' rows in order, and (path, sha256) of each. Errors also name the columns not read (`table.others`)."""

    table: SourceTable
    files: tuple[tuple[str, str], ...]


def find_sources(sources: Sequence[str], rules: SourceRules) -> SourceList:
    """Finds files, globs and folders. ThinkbackError where nothing is there, or a path does not match the mapping's."""
    addresses = listing.find_tables(sources, rules.path, rules.beside)
    names = addresses.files
    paths = relative_paths([str(listing.path_without_archive(address)) for address in names])
    named = _path_column_table(names, rules)
    path_columns = [named.frame.row(number, named=True) if named.frame.width else {} for number in range(len(names))]
    runs = [rules.runs[address] if rules.runs is not None else None for address in names]
    files = (_SourceFile(*one) for one in zip(names, paths, path_columns, runs, strict=True))
    return SourceList(tuple(files), named.numbers, addresses.folder, addresses.left_out)


def _path_column_table(names: Sequence[str], rules: SourceRules) -> SourceTable:
    """A row for each file with the columns from its path. Numbers are recognised as in CSV."""
    if rules.path is None:
        return SourceTable(pl.DataFrame(), {})
    rows = columns_of_paths(rules.path, [str(listing.path_without_archive(address)) for address in names])
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns_of(rules.path), pl.String))
    return SourceTable(frame, _number_kinds(frame.lazy())[0])


def read_sources(sources: Sequence[str], rules: SourceRules) -> _SourceFiles:
    """Finds and reads files, globs and folders. ThinkbackError where nothing is there or a file can't be read."""
    return read_files(find_sources(sources, rules), rules)


def read_files(sources: SourceList, rules: SourceRules) -> _SourceFiles:
    """Reads all files of a list as one table."""
    digests: dict[str, str] = {}
    tables = list(source_blocks(sources, rules, None, digests))
    try:
        every = stack_tables(tables, rules.texts)
    except pl.exceptions.PolarsError as error:
        raise MismatchError(
            f"the files {sources.names_text} hold columns of one name but different types: {first_line(error)}"
        ) from None
    others = tuple(dict.fromkeys(name for table in tables for name in table.others))
    return _SourceFiles(replace(every, others=others), tuple(digests.items()))


def read_beside(file: str, folder: str, rules: SourceRules) -> SourceTable:
    """Reads the one file that a mapping names, relative to the first source's folder."""
    absolute = "://" in file or file.startswith("/")
    address = file if absolute or not folder else f"{folder}/{file}"
    alone = SourceRules(rules.texts, columns=rules.columns)
    return stack_tables([table for table, _ in _file_blocks(_OpenedFile(address, None), alone)], rules.texts)


def source_blocks(
    sources: SourceList, rules: SourceRules, folder: Path | None, digests: dict[str, str]
) -> Iterator[SourceTable]:
    """Yields the rows of all files with their places, in order: block by block, or without a `folder` file by file.
    Compressed or remote files that must be read from disk are copied into `folder`. `digests` gets each fully read
    file's hash, by path.
    """
    for files in _file_groups(sources.files, rules):
        opened = [_OpenedFile(file.address, folder) for file in files]
        together = _read_jointly(opened, rules) if len(files) > 1 else None
        if together is not None:
            for first, heights, table in together:
                rows = _with_places(files[first : first + len(heights)], heights, table, 0)
                yield SourceTable(rows, {**table.numbers, **sources.numbers}, others=table.others)
        for file, one in zip(files, opened, strict=True):
            for table, before in _file_blocks(one, rules) if together is None else ():
                if table.frame.height or folder is None:
                    rows = _with_places([file], [table.frame.height], table, before)
                    yield SourceTable(rows, {**table.numbers, **sources.numbers}, others=table.others)
            digests[file.path] = one.digest.hexdigest()


def _file_groups(files: Sequence[_SourceFile], rules: SourceRules) -> Iterator[Sequence[_SourceFile]]:
    """Yields groups of files to read at once: neighbouring small files of one format, else single files."""
    group, ending, size = list[_SourceFile](), "", 0
    for file in files:
        kind, local = listing.format_of(file.address) or "", listing.local_path(file.address)
        alone = kind not in _ROWS or (rules.records is not None and kind != ".json") or local is None
        length = _SMALL if alone or local is None else local.stat().st_size
        if group and (length >= _SMALL or kind != ending or size + length > BLOCK_BYTES):
            yield group
            group, size = [], 0
        group.append(file)
        ending, size = kind, size + length
        if length >= _SMALL:
            yield group
            group, size = [], 0
    if group:
        yield group


def _read_jointly(opened: Sequence[_OpenedFile], rules: SourceRules) -> _Joint | None:
    """The rows of small files read as one, split into groups of equal column types. None where a file must be read
    alone, such as one with another header, or with a quote inside a field.
    """
    contents = [one.read_whole() for one in opened]
    ending = listing.format_of(opened[0].address)
    try:
        joint = _ROWS[str(ending)](contents, rules)
    except (RecursionError, *_UNREADABLE):
        joint = None
    if joint is None:
        for one in opened:
            one.digest = hashlib.sha256()
    return joint


def _file_blocks(opened: _OpenedFile, rules: SourceRules) -> Iterator[tuple[SourceTable, int]]:
    """Yields the blocks of a file's rows, each with the number of rows before it. Parser errors become one line."""
    ending = listing.format_of(opened.address)
    reader = ending if ending in _BINARY else reader_of(opened.first_bytes(), ending)
    if reader is None:
        known = ", ".join(sorted(listing.TABLES))
        raise FormatError(
            f"source `{opened.address}`: neither its ending nor its beginning is that of a format; there are {known}"
        )
    failed, before = f"source `{opened.address}` is not a readable {(ending or reader).strip('.')} file", 0
    try:
        for table in _READERS[reader](opened, rules):
            yield table, before
            before += table.frame.height
    except RecursionError:
        raise FormatError(f"{failed}: it nests too deeply") from None
    except _UNREADABLE as error:
        raise FormatError(f"{failed}: {first_line(error)}") from None


def _with_places(files: Sequence[_SourceFile], heights: Sequence[int], table: SourceTable, before: int) -> pl.DataFrame:
    """The rows with their places and the columns from file paths. `heights`: each file's number of rows; `before`:
    earlier rows of the first file.
    """
    file, columns = files[0], files[0].path_columns
    for column in columns.keys() & {*table.frame.columns, *table.others}:
        raise ConflictError(
            f"the mapping's `path` names the column `{column}`, which `{file.address}` holds too: give it another name"
        )
    if not table.frame.height:
        return table.frame
    at = np.repeat(np.arange(len(files)), heights)
    starts = np.cumsum([0, *heights[:-1]])
    texts: dict[str, list[str | None]] = {
        "source_file": [listing.path_without_archive(file.address).name for file in files],
        "source_path": [file.path for file in files],
        **({"source_run": [file.run for file in files]} if file.run is not None else {}),
    }
    texts = {name: of_files for name, of_files in texts.items() if name not in table.frame.columns}
    texts |= {column: [file.path_columns[column] for file in files] for column in columns}
    placed = [pl.Series(name, of_files, dtype=pl.String).gather(at) for name, of_files in texts.items()]
    rows = pl.Series("source_row", np.arange(1 + before, 1 + before + len(at)) - starts[at], dtype=pl.Int64)
    return table.frame.with_columns(placed if "source_row" in table.frame.columns else [rows, *placed])


@dataclass
class _OpenedFile:
    """A file that is read once and hashed meanwhile. Without a `folder` for a copy it is read whole."""

    address: str
    folder: Path | None
    digest: Any = field(default_factory=hashlib.sha256)

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yields the bytes in chunks of about `size`, or all at once for -1."""
        for chunk in listing.read_chunks(self.address, size):
            self.digest.update(chunk)
            yield chunk

    def read_whole(self) -> bytes:
        return b"".join(self.chunks(-1))

    def utf8_bytes(self) -> bytes:
        """The whole file as UTF-8 bytes."""
        return utf8_content(self.read_whole(), self.address)

    def first_bytes(self) -> bytes:
        """The file's first bytes, which are not hashed."""
        return next(listing.read_chunks(self.address, HEAD), b"")

    def file_on_disk(self, folder: Path) -> Path:
        """A file on disk with this content, which polars can read in blocks."""
        path = listing.local_path(self.address)
        if path is not None:
            for _ in self.chunks(BLOCK_BYTES):
                pass
            return path.absolute()
        copy = folder / "copy"
        with copy.open("wb") as handle:
            handle.writelines(self.chunks(BLOCK_BYTES))
        return copy


def _read_lines(opened: _OpenedFile, rules: SourceRules) -> Iterator[SourceTable]:
    rest, line, quiet = b"", 1, False
    whole = opened.folder is None or has_wide_signs(opened.first_bytes())
    for chunk in opened.chunks(-1 if whole else BLOCK_BYTES):
        text = rest + chunk if rest else chunk
        end = len(text) if whole else text.rfind(b"\n") + 1
        if end:
            lines = utf8_content(text[:end], opened.address, line, quiet)
            quiet = quiet or lines != text[:end]
            yield json_lines(lines, rules.texts, rules.records, line, rules.columns)
            line += text.count(b"\n", 0, end)
        rest = text[end:]
    if rest:
        rest = utf8_content(rest, opened.address, line, quiet)
        yield json_lines(rest, rules.texts, rules.records, line, rules.columns)


def _read_document(opened: _OpenedFile, rules: SourceRules) -> Iterator[SourceTable]:
    yield json_list(opened.utf8_bytes(), rules.texts, rules.records, rules.columns)


def _read_table(
    opened: _OpenedFile,
    rules: SourceRules,
    read: Callable[[IO[bytes]], pl.DataFrame],
    scan: Callable[[Path], pl.LazyFrame],
    larger: int,
    texts: bool,
) -> Iterator[SourceTable]:
    """Yields the rows of a table that polars reads. They take `larger` times the file's size; those of CSV are `texts`.

    ValueError where polars gives fewer rows than there are: it ends early where a thread of its fails.
    """
    if rules.records is not None:
        raise ValueError("the mapping's `records` is for JSON; leave it out, or open lists with `explode`")
    if opened.folder is None:
        frame, others = _named_columns(read(io.BytesIO(opened.utf8_bytes() if texts else opened.read_whole())), rules)
        yield SourceTable(
            frame, _number_kinds(frame.drop(LINE, strict=False).lazy())[0] if texts else {}, others=others
        )
        return
    path = opened.file_on_disk(opened.folder)
    path = utf8_file(path, opened.folder / "recoded", opened.address) if texts else path
    every = scan(path)
    kinds, height = _number_kinds(every) if texts else ({}, every.select(pl.len()).collect().item())
    total = 0
    for batch in every.collect_batches(chunk_size=max(1, height * BLOCK_BYTES // max(path.stat().st_size * larger, 1))):
        total += batch.height
        frame, others = _named_columns(batch, rules)
        yield SourceTable(frame, {name: kind for name, kind in kinds.items() if name in frame.columns}, others=others)
    if total != height:
        raise ValueError(f"of its {height:,} rows {total:,} can be read")


def _named_columns(frame: pl.DataFrame, rules: SourceRules) -> tuple[pl.DataFrame, tuple[str, ...]]:
    return (frame, ()) if rules.columns is None else rules.columns.of(frame)


def _joint_lines(contents: Sequence[bytes], rules: SourceRules) -> _Joint | None:
    """Reads several files of JSON lines as one. Each line that is not blank is a row."""
    heights = [sum(1 for line in content.split(b"\n") if line.strip()) for content in contents]
    table = json_lines(b"\n".join(contents), rules.texts, columns=rules.columns)
    return [(0, heights, table)] if table.frame.height == sum(heights) else None


def _joint_documents(contents: Sequence[bytes], rules: SourceRules) -> _Joint:
    heights, table = json_lists(contents, rules.records, rules.columns)
    return [(0, heights, table)]


def _joint_tables(contents: Sequence[bytes], rules: SourceRules, separator: str) -> _Joint | None:
    """Reads several files with one header as one. None where only a parser can count the rows of each."""
    header = contents[0].partition(b"\n")[0]
    bodies = [content[len(header) + 1 :] for content in contents if content.startswith(header + b"\n")]
    if len(bodies) < len(contents) or not header or header.startswith(b"\xef\xbb\xbf"):
        return None
    if separator_of(contents[0][:HEAD]) != separator and separator.encode() not in header:
        return None
    bodies = [body if body.endswith(b"\n") or not body else body + b"\n" for body in bodies]
    heights = [count for body in bodies if (count := _row_count(body, separator.encode())) is not None]
    if len(heights) < len(bodies) or _row_count(header + b"\n", separator.encode()) != 1:
        return None
    whole = b"".join([header, b"\n", *bodies])
    frame, others = _named_columns(pl.read_csv(io.BytesIO(whole), separator=separator, infer_schema=False), rules)
    if frame.height != sum(heights):
        return None
    joint, start = _Joint(), 0
    for kinds, first, last in _files_of_equal_kinds(frame.drop(LINE, strict=False), heights):
        rows = sum(heights[first:last])
        joint.append((first, heights[first:last], SourceTable(frame[start : start + rows], kinds, others=others)))
        start += rows
    return joint


def _row_count(lines: bytes, separator: bytes) -> int | None:
    """The number of rows in ended lines, of which quoted fields may hold several. None where a line is blank, or a
    quote neither begins nor ends a field.
    """
    outside = lines.split(b'"')[::2]
    ends, begins = (b"", separator, b"\n"), (b"", separator, b"\r", b"\n")
    if (
        lines.count(b'"') % 2
        or lines[:1] in (b"\r", b"\n")
        or any(b"\n\n" in part or b"\n\r" in part for part in outside)
    ):
        return None
    if any(part[-1:] not in ends for part in outside[:-1]) or any(part[:1] not in begins for part in outside[1:]):
        return None
    return sum(part.count(b"\n") for part in outside)


def _files_of_equal_kinds(
    frame: pl.DataFrame, heights: Sequence[int]
) -> Iterator[tuple[dict[str, pl.DataType], int, int]]:
    """Yields ranges (first, end) of neighbouring files whose text columns have equal `_number_kinds`."""
    of_file = pl.Series(_OF_FILE, np.repeat(np.arange(len(heights)), heights))
    counts = frame.with_columns(of_file).group_by(_OF_FILE).agg(map(_text_counts, frame.columns))
    every = pl.DataFrame({_OF_FILE: np.arange(len(heights))})
    every = every.join(counts, on=_OF_FILE, how="left", maintain_order="left").drop(_OF_FILE)
    kinds = [_number_columns(row) for row in every.iter_rows(named=True)]
    first = 0
    for last in range(1, len(kinds) + 1):
        if last == len(kinds) or kinds[last] != kinds[first]:
            yield kinds[first], first, last
            first = last


def _number_kinds(rows: pl.LazyFrame) -> tuple[dict[str, pl.DataType], int]:
    """The text columns that count as numbers, and the number of rows. A column counts as integers or floats where no
    two texts become equal and no digit is lost.
    """
    names = rows.collect_schema().names()
    counts = rows.select(pl.len().alias("__rows"), *map(_text_counts, names)).collect(engine="streaming")
    height = counts["__rows"][0]
    return _number_columns(counts.drop("__rows").row(0, named=True)), height


def _text_counts(name: str) -> pl.Expr:
    """An expression that counts a column's texts: all, integers, finite numbers, and distinct values as either."""
    text = pl.col(name)
    integers, real = text.cast(pl.Int64, strict=False), text.cast(pl.Float64, strict=False)
    alike = (integers.cast(pl.String) == text).sum()
    apart = text.n_unique() == real.n_unique()
    return pl.struct(some=text.count(), integers=alike, real=real.is_finite().sum(), apart=apart).alias(name)


def _number_columns(counts: Mapping[str, Mapping[str, int] | None]) -> dict[str, pl.DataType]:
    """The columns that count as numbers, from their `_text_counts` counts; a count is None without rows."""
    kinds: dict[str, pl.DataType] = {}
    for name, count in counts.items():
        if count and count["some"] and count["integers"] == count["some"]:
            kinds[name] = pl.Int64()
        elif count and count["some"] and count["real"] == count["some"] and count["apart"]:
            kinds[name] = pl.Float64()
    return kinds


def _separated_reader(separator: str) -> Callable[[_OpenedFile, SourceRules], Iterator[SourceTable]]:
    read = partial(pl.read_csv, separator=separator, infer_schema=False)
    scan = partial(pl.scan_csv, separator=separator, infer_schema=False, glob=False)
    return partial(_read_table, read=read, scan=scan, larger=1, texts=True)


_PARQUET = partial(
    _read_table,
    read=pl.read_parquet,
    scan=partial(pl.scan_parquet, glob=False, hive_partitioning=False),
    larger=listing.SHRUNK,
    texts=False,
)
_ROWS: Mapping[str, Callable[[Sequence[bytes], SourceRules], _Joint | None]] = {
    ".csv": partial(_joint_tables, separator=","), ".tsv": partial(_joint_tables, separator="\t"),
    ".jsonl": _joint_lines, ".ndjson": _joint_lines, ".json": _joint_documents,
}  # fmt: skip
"""Formats of which small files can be read as one."""


def _trec_table(opened: _OpenedFile, rules: SourceRules, columns: Sequence[str]) -> Iterator[SourceTable]:
    frame = pl.DataFrame(white_space_rows(opened.utf8_bytes(), columns), schema=dict.fromkeys(columns, pl.String))
    yield SourceTable(frame, _number_kinds(frame.lazy())[0])


_BINARY = (".parquet", ".pq")
_READERS: Mapping[str, Callable[[_OpenedFile, SourceRules], Iterator[SourceTable]]] = {
    ".parquet": _PARQUET, ".pq": _PARQUET, ".csv": _separated_reader(","), ".tsv": _separated_reader("\t"),
    ".jsonl": _read_lines, ".ndjson": _read_lines, ".json": _read_document, ";": _separated_reader(";"),
    "|": _separated_reader("|"),
    "run": partial(_trec_table, columns=RUN), "qrels": partial(_trec_table, columns=QRELS),
}  # fmt: skip
