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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import polars as pl

from toolkit.errors import ThinkbackError, first_line, listed
from toolkit.imports.files.file_names import columns_of, columns_of_path, fits_pattern, relative
from toolkit.imports.files.records import Records
from toolkit.imports.files.source_files import FORMATS, PACKED, FolderRules, content, format_of, found_files, plain_path
from toolkit.imports.rows.json_files import json_lines, json_list
from toolkit.imports.rows.source_table import SourceTable, stacked

PLACES = ("source_file", "source_path", "source_row")


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
class SourceFile:
    """A file, its `path` below the folder that all files share, the columns that its path tells, and its run."""

    address: str
    path: str
    told: Mapping[str, str]
    run: str | None


@dataclass(frozen=True)
class FoundFiles:
    """The files of an import, and which of the columns that their paths tell are numbers."""

    files: tuple[SourceFile, ...]
    numbers: Mapping[str, pl.DataType]
    folder: str
    """Where a mapping's `join` looks: the folder that is named, or that of the first file."""
    left_out: int
    """Files of folders whose paths do not fit the mapping's `path`."""

    @property
    def names(self) -> str:
        """The first files, for an error."""
        return listed([plain_path(file.address).name for file in self.files[:3]])


@dataclass(frozen=True)
class SourceFiles:
    """The rows of all files, in the order given, and what identifies the files: (path, sha256)."""

    table: SourceTable
    files: tuple[tuple[str, str], ...]


def find_sources(sources: Sequence[str], rules: SourceRules) -> FoundFiles:
    """Find files, globs and folders; ThinkbackError where nothing is found, or a path does not fit the mapping's."""
    addresses = found_files(sources, _folder_rules(rules))
    found = addresses.files
    paths = relative([str(plain_path(address)) for address in found])
    named = _named(found, rules)
    told = [named.frame.row(number, named=True) if named.frame.width else {} for number in range(len(found))]
    runs = [rules.runs[address] if rules.runs is not None else None for address in found]
    files = (SourceFile(*one) for one in zip(found, paths, told, runs, strict=True))
    return FoundFiles(tuple(files), named.numbers, addresses.folder, addresses.left_out)


def _folder_rules(rules: SourceRules) -> FolderRules:
    fits = partial(fits_pattern, rules.path, endings=PACKED) if rules.path is not None else None
    return FolderRules(rules.path, fits, rules.beside)


def read_sources(sources: Sequence[str], rules: SourceRules) -> SourceFiles:
    """Read files, globs and folders; ThinkbackError where nothing is found or a file can't be read."""
    return read_files(find_sources(sources, rules), rules)


def read_files(found: FoundFiles, rules: SourceRules) -> SourceFiles:
    """Read all files as one table."""
    tables, files = [], []
    for file in found.files:
        whole = content(file.address)
        tables.append(placed(file, parse(file.address, whole, rules), 0))
        files.append((file.path, hashlib.sha256(whole).hexdigest()))
    try:
        every = stacked(tables, rules.texts)
    except pl.exceptions.PolarsError as error:
        raise ThinkbackError(
            f"the files {found.names} hold columns of one name but different types: {first_line(error)}"
        ) from None
    return SourceFiles(SourceTable(every.frame, {**every.numbers, **found.numbers}), tuple(files))


def placed(file: SourceFile, table: SourceTable, before: int) -> SourceTable:
    """A file's rows with their place and what the file's path tells; `before` are the rows before these."""
    row = pl.int_range(before + 1, before + pl.len() + 1, dtype=pl.Int64)
    places = {"source_row": row, "source_file": pl.lit(plain_path(file.address).name), "source_path": pl.lit(file.path)}
    if file.run is not None:
        places["source_run"] = pl.lit(file.run)
    own = {place: made for place, made in places.items() if place not in table.frame.columns}
    for column in file.told.keys() & set(table.frame.columns):
        raise ThinkbackError(
            f"the mapping's `path` names the column `{column}`, which `{file.address}` holds too: name it otherwise"
        )
    told = {column: pl.lit(value, pl.String) for column, value in file.told.items()}
    return SourceTable(table.frame.with_columns(**own, **told) if table.frame.height else table.frame, table.numbers)


def _named(found: Sequence[str], rules: SourceRules) -> SourceTable:
    """What the path of each file says, one row a file; numbers are such as in a CSV file."""
    if rules.path is None:
        return SourceTable(pl.DataFrame(), {})
    told = [columns_of_path(rules.path, str(plain_path(address)), PACKED) for address in found]
    return of_texts(pl.DataFrame(told, schema=dict.fromkeys(columns_of(rules.path), pl.String)))


def read_beside(file: str, folder: str, texts: Collection[str]) -> SourceTable:
    """The rows of one file named by a mapping, relative to the folder of the first source."""
    absolute = "://" in file or file.startswith("/")
    address = file if absolute or not folder else f"{folder}/{file}"
    return parse(address, content(address), SourceRules(texts))


def parse(address: str, whole: bytes, rules: SourceRules) -> SourceTable:
    """The rows of a file's content."""
    ending = known_format(address)
    with reading(address, ending):
        return _PARSERS[ending](whole, rules)


def known_format(address: str) -> str:
    """The ending that tells a file's format. ThinkbackError where it tells none."""
    ending = format_of(address)
    if ending is None:
        raise ThinkbackError(f"source `{address}`: its ending names no format; there are {', '.join(sorted(FORMATS))}")
    return ending


@contextmanager
def reading(address: str, ending: str) -> Iterator[None]:
    """Whatever a parser raises becomes one line."""
    try:
        yield
    except RecursionError:
        raise ThinkbackError(f"source `{address}` is not a readable {ending[1:]} file: it nests too deeply") from None
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError, OverflowError) as error:
        raise ThinkbackError(f"source `{address}` is not a readable {ending[1:]} file: {first_line(error)}") from None


def _parquet(content: bytes, rules: SourceRules) -> SourceTable:
    only_json(rules)
    return SourceTable(pl.read_parquet(io.BytesIO(content)), {})


def _csv(content: bytes, rules: SourceRules, separator: str = ",") -> SourceTable:
    only_json(rules)
    return of_texts(pl.read_csv(io.BytesIO(content), separator=separator, infer_schema=False))


def of_texts(frame: pl.DataFrame) -> SourceTable:
    """Columns of texts, some of which are numbers to compute with."""
    kinds = {name: kind_of_texts(frame[name]) for name in frame.columns}
    return SourceTable(frame, {name: kind for name, kind in kinds.items() if kind != pl.String})


def _json_lines(content: bytes, rules: SourceRules) -> SourceTable:
    return json_lines(content, rules.texts, rules.records)


def _json_list(content: bytes, rules: SourceRules) -> SourceTable:
    return json_list(content, rules.texts, rules.records)


def only_json(rules: SourceRules) -> None:
    """ValueError where the mapping takes rows out of JSON."""
    if rules.records is not None:
        raise ValueError("the mapping's `records` is for JSON; leave it out, or open lists with `explode`")


def kind_of_texts(texts: pl.Series) -> pl.DataType:
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
