"""Reading the files that others wrote, as one frame of rows with their place: `source_file`, `source_path` (below the
folder that all files share) and `source_row`.

JSON lines (`.jsonl`, `.ndjson`), a JSON list of objects (`.json`), CSV, TSV and Parquet, each but Parquet also with
`.gz`, `.bz2`, `.xz` or `.zst` behind; local or at any fsspec address. Columns that a file lacks are null in its rows.

A JSON field that holds different kinds of values becomes text. CSV has no types: in an expression a column is taken
as integers where that changes no character of it, as floats where different texts stay different numbers, else as
text; so `007` stays `007`. Where a column of the log is text, the number is taken as written, `1.10` for `1.10`:
of CSV and JSON alike, and of one file beside another.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

import polars as pl

from toolkit.errors import ThinkbackError, first_line, listed
from toolkit.imports.file_names import columns_of, columns_of_path, relative
from toolkit.imports.json_files import json_lines, json_list
from toolkit.imports.records import Records
from toolkit.imports.source_table import SourceTable, stacked

PACKED = (".gz", ".bz2", ".xz", ".zst")
PLACES = ("source_file", "source_path", "source_row")
_BROKEN = (OSError, EOFError, ValueError, ImportError, lzma.LZMAError, zlib.error, zipfile.BadZipFile)


@dataclass(frozen=True)
class SourceRules:
    """What a mapping says of reading: the columns of which `texts` are made, whose numbers are kept as they are
    written; where `records` lie in JSON; the pattern of a file's `path`. `runs`: the column `source_run`, by address.
    """

    texts: Collection[str] = ()
    records: Records | None = None
    path: str | None = None
    runs: Mapping[str, str] | None = None


@dataclass(frozen=True)
class SourceFiles:
    """The rows of all files, in the order given, and what identifies the files: (path, sha256)."""

    table: SourceTable
    files: tuple[tuple[str, str], ...]
    folder: str  # of the first file, where a mapping's `join` looks


def read_sources(sources: Sequence[str], rules: SourceRules) -> SourceFiles:
    """Read files, globs and folders; ThinkbackError where nothing is found or a file can't be read."""
    found = [file for source in sources for file in _find(str(source))]
    if not found:
        raise ThinkbackError("no source given: name one or more files, globs or folders")
    paths = relative([str(_path(address)) for address in found])
    named = _named(found, rules)
    tables, files = [], []
    for number, address in enumerate(found):
        content = _content(address)
        table = _parse(address, content, rules)
        row = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)
        name = pl.lit(_path(address).name)
        places = {"source_row": row, "source_file": name, "source_path": pl.lit(paths[number])}
        if rules.runs is not None:
            places["source_run"] = pl.lit(rules.runs[address])
        own = {place: made for place, made in places.items() if place not in table.frame.columns}
        told = named.frame[number].row(0, named=True) if named.frame.width else {}
        for column in told.keys() & set(table.frame.columns):
            raise ThinkbackError(
                f"the mapping's `path` names the column `{column}`, which `{address}` holds too: name it otherwise"
            )
        made = {column: pl.lit(value, pl.String) for column, value in told.items()}
        frame = table.frame.with_columns(**own, **made) if table.frame.height else table.frame
        tables.append(SourceTable(frame, table.numbers))
        files.append((paths[number], hashlib.sha256(content).hexdigest()))
    try:
        every = stacked(tables, rules.texts)
    except pl.exceptions.PolarsError as error:
        names = listed([_path(address).name for address in found[:3]])
        raise ThinkbackError(
            f"the files {names} hold columns of one name but different types: {first_line(error)}"
        ) from None
    every = SourceTable(every.frame, {**every.numbers, **named.numbers})
    return SourceFiles(every, tuple(files), found[0].rpartition("/")[0])


def _named(found: Sequence[str], rules: SourceRules) -> SourceTable:
    """What the path of each file says, one row a file; numbers are such as in a CSV file."""
    if rules.path is None:
        return SourceTable(pl.DataFrame(), {})
    told = [columns_of_path(rules.path, str(_path(address)), PACKED) for address in found]
    return _of_texts(pl.DataFrame(told, schema=dict.fromkeys(columns_of(rules.path), pl.String)))


def read_beside(file: str, folder: str, texts: Collection[str]) -> SourceTable:
    """The rows of one file named by a mapping, relative to the folder of the first source."""
    absolute = "://" in file or file.startswith("/")
    address = file if absolute or not folder else f"{folder}/{file}"
    return _parse(address, _content(address), SourceRules(texts))


def _find(source: str) -> list[str]:
    """Addresses of the files that a file name, glob or folder means, sorted."""
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(source)
        if system.isfile(path):
            return [source]
        if system.isdir(path):
            found = [name for name in system.ls(path, detail=False) if _format(name) is not None]
        else:
            pattern = any(sign in path for sign in "*?[")
            found = [name for name in system.glob(path) if system.isfile(name)] if pattern else []
    except _BROKEN as error:
        raise ThinkbackError(f"source `{source}` can't be opened: {first_line(error)}") from None
    if not found:
        raise ThinkbackError(f"source `{source}`: there is no such file; name a JSONL, CSV or Parquet file")
    _, chained, inside = source.partition("::")  # a place inside another file: zip://*.jsonl::runs.zip
    return [f"{system.unstrip_protocol(name)}{chained}{inside}" if "://" in source else name for name in sorted(found)]


def _content(address: str) -> bytes:
    import fsspec

    zstandard = _path(address).suffix.lower() == ".zst"  # which fsspec unpacks only beside another library
    try:
        with fsspec.open(address, "rb", compression=None if zstandard else "infer") as handle:
            content: bytes = handle.read()
        if zstandard:  # all the file's frames
            import pyarrow as pa

            with pa.CompressedInputStream(pa.BufferReader(content), "zstd") as stream:
                content = bytes(stream.read())
        return content
    except _BROKEN as error:
        raise ThinkbackError(f"source `{address}` can't be read: {first_line(error)}") from None


def _path(address: str) -> PurePosixPath:
    """The path of a file, without the address of an archive that it lies in."""
    return PurePosixPath(address.partition("::")[0])


def _format(address: str) -> str | None:
    """The ending that tells the format, without that of a compression; None for another."""
    name = _path(address)
    ending = PurePosixPath(name.stem).suffix if name.suffix.lower() in PACKED else name.suffix
    return ending.lower() if ending.lower() in _PARSERS else None


def _parse(address: str, content: bytes, rules: SourceRules) -> SourceTable:
    ending = _format(address)
    if ending is None:
        raise ThinkbackError(f"source `{address}`: its ending names no format; there are {', '.join(sorted(_PARSERS))}")
    try:
        return _PARSERS[ending](content, rules)
    except RecursionError:
        raise ThinkbackError(f"source `{address}` is not a readable {ending[1:]} file: it nests too deeply") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OverflowError) as error:
        raise ThinkbackError(f"source `{address}` is not a readable {ending[1:]} file: {first_line(error)}") from None


def _parquet(content: bytes, rules: SourceRules) -> SourceTable:
    _only_json(rules)
    return SourceTable(pl.read_parquet(io.BytesIO(content)), {})


def _csv(content: bytes, rules: SourceRules, separator: str = ",") -> SourceTable:
    _only_json(rules)
    return _of_texts(pl.read_csv(io.BytesIO(content), separator=separator, infer_schema=False))


def _of_texts(frame: pl.DataFrame) -> SourceTable:
    """Columns of texts, some of which are numbers to compute with."""
    kinds = {name: _kind(frame[name]) for name in frame.columns}
    return SourceTable(frame, {name: kind for name, kind in kinds.items() if kind != pl.String})


def _json_lines(content: bytes, rules: SourceRules) -> SourceTable:
    return json_lines(content, rules.texts, rules.records)


def _json_list(content: bytes, rules: SourceRules) -> SourceTable:
    return json_list(content, rules.texts, rules.records)


def _only_json(rules: SourceRules) -> None:
    if rules.records is not None:
        raise ValueError("the mapping's `records` is for JSON; leave it out, or open lists with `explode`")


def _kind(texts: pl.Series) -> pl.DataType:
    """Integer or float, where no two different texts become one and no digit is lost; else text."""
    if texts.null_count() == len(texts):
        return pl.String()
    integers = texts.cast(pl.Int64, strict=False)
    if integers.null_count() == texts.null_count() and integers.cast(pl.String).equals(texts):
        return pl.Int64()
    real = texts.cast(pl.Float64, strict=False)
    apart = real.n_unique() == texts.n_unique() and bool(real.drop_nulls().is_finite().all())
    return pl.Float64() if apart and real.null_count() == texts.null_count() else pl.String()


_PARSERS: dict[str, Callable[[bytes, SourceRules], SourceTable]] = {
    ".parquet": _parquet,
    ".pq": _parquet,
    ".csv": _csv,
    ".tsv": partial(_csv, separator="\t"),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json_list,
}
