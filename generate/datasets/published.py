"""Files of data sets as they are published: JSON, JSON lines, CSV, TSV, Parquet, also gzipped or zipped, or a folder.

A mistake in them is one line that names the file, the column and the row. Rows count from 1, as a reader counts.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit.errors import AmbiguousError, EmptyError, FormatError, NotFoundError, ThinkbackError

FORMS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".parquet")
_KINDS: dict[type, str] = {
    str: "a string", int: "an integer", float: "a number", bool: "true or false", list: "a list", dict: "an object",
}  # fmt: skip
_MISSING = object()


@dataclass(frozen=True)
class PublishedRow:
    """One row of a published file, with its place for errors."""

    file: Path
    number: int
    values: dict[str, Any]

    def place(self, column: str) -> str:
        """The words that begin an error about a value: `file`, column `c`, row 3."""
        return f"`{self.file}`, column `{column}`, row {self.number}"

    def column_error(self, column: str, fault: str) -> ThinkbackError:
        """The error to raise about the value in a column."""
        return FormatError(f"{self.place(column)}: {fault}")

    def text(self, column: str) -> str:
        """The text in a column, trimmed; blank is an error. A dotted name reads inside an object: `question.stem`."""
        value = self._typed_value(column, str).strip()
        if not value:
            raise self.column_error(column, "is empty")
        return value

    def number_of(self, column: str) -> int:
        """The integer in a column, also as digits in a text, since CSV has nothing else."""
        value = self._value_of(column)
        if isinstance(value, str) and value.strip().removeprefix("-").isdigit():
            return int(value)
        return self._typed_value(column, int)

    def list_of(self, column: str) -> list[Any]:
        """The list in a column."""
        return self._typed_value(column, list)

    def optional_text(self, column: str) -> str | None:
        """The text in a column, trimmed; null where the column is missing, null or blank."""
        value = self._value_of(column, optional=True)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.column_error(column, f"is not a string but {_kind_name(value)}")
        return value.strip() or None

    def has(self, column: str) -> bool:
        """Whether the row has a value in the column."""
        return self._value_of(column, optional=True) is not None

    def _typed_value(self, column: str, kind: type) -> Any:
        value = self._value_of(column)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.column_error(
                column, "is null" if value is None else f"is not {_KINDS[kind]} but {_kind_name(value)}"
            )
        return value

    def _value_of(self, column: str, optional: bool = False) -> Any:
        value: Any = self.values
        for name in column.split("."):
            value = value.get(name, _MISSING) if isinstance(value, dict) else _MISSING
            if value is _MISSING:
                if optional:
                    return None
                names = ", ".join(f"`{key}`" for key in list(self.values)[:8])
                raise self.column_error(column, f"there is no such column; this file has {names or 'none'}")
        return value


def read_rows(files: Path | Sequence[Path]) -> list[PublishedRow]:
    """Reads all rows of one or more files, in order. ThinkbackError where a file can't be read or has no row."""
    paths = [files] if isinstance(files, Path) else list(files)
    rows = [
        PublishedRow(path, number, values) for path in paths for number, values in enumerate(_read_objects(path), 1)
    ]
    if not rows:
        raise EmptyError(f"`{paths[0]}` holds no rows")
    return rows


def fold_white_space(text: str) -> str:
    """The text with each run of white space as one blank."""
    return " ".join(text.split())


def find_files(path: str | Path, names: Iterable[str]) -> tuple[Path, ...]:
    """The file itself; in a folder, the sorted files that match the first pattern of `names` with a match."""
    place = Path(path)
    if place.is_file():
        return (place,)
    if not place.is_dir():
        raise NotFoundError(f"there is no file or folder `{place}`: get the data set from its publishers and name it")
    patterns = tuple(names)
    for pattern in patterns:
        files = tuple(sorted(file for file in place.glob(pattern) if file.is_file()))
        if files:
            return files
    listed = ", ".join(f"`{pattern}`" for pattern in patterns)
    raise NotFoundError(f"`{place}` holds none of the published files: {listed}")


def _read_objects(path: Path) -> list[dict[str, Any]]:
    name, raw = _read_bytes(path)
    suffix = Path(name).suffix.lower()
    if suffix not in FORMS:
        raise FormatError(
            f"`{path}`: `{suffix}` is not a published form; there are {', '.join(FORMS)}, also .gz and .zip"
        )
    if suffix == ".parquet":
        return _parquet_rows(path, raw)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"`{path}` is not UTF-8 at byte {error.start}") from None
    if suffix == ".csv":
        return _csv_rows(path, text)
    if suffix == ".tsv":
        return _tsv_rows(text)
    # Many a file named .json holds JSON lines, so the first character decides.
    return _json_array_rows(path, text) if text.lstrip().startswith("[") else _json_line_rows(path, text)


def _read_bytes(path: Path) -> tuple[str, bytes]:
    """The name and the content of a file once unpacked."""
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as archive:
                inside = [name for name in archive.namelist() if name.endswith(FORMS) and "__MACOSX" not in name]
                if len(inside) != 1:
                    raise AmbiguousError(f"`{path}` holds {len(inside)} data files: unpack it and name one")
                return inside[0], archive.read(inside[0])
        if path.suffix == ".gz":
            return path.stem, gzip.decompress(path.read_bytes())
        return path.name, path.read_bytes()
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise FormatError(f"cannot read `{path}`: {getattr(error, 'strerror', None) or error}") from None


def _parquet_rows(path: Path, raw: bytes) -> list[dict[str, Any]]:
    import polars as pl

    try:
        return pl.read_parquet(io.BytesIO(raw)).to_dicts()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"`{path}` is not a Parquet file: {str(error).splitlines()[0]}") from None


def _csv_rows(path: Path, text: str) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                raise FormatError(
                    f"`{path}`, row {number}: does not have the {len(reader.fieldnames or ())} columns of the header"
                )
            rows.append(dict(row))
    except csv.Error as error:
        raise FormatError(f"`{path}`, line {reader.line_num}: is not CSV: {error}") from None
    return rows


def _tsv_rows(text: str) -> list[dict[str, Any]]:
    """The lines of columns parted by tabs, without header and quoting: columns are called by their number, from 1."""
    lines = (line.rstrip("\r").split("\t") for line in text.split("\n") if line.strip())
    return [{str(number): value for number, value in enumerate(line, 1)} for line in lines]


def _json_array_rows(path: Path, text: str) -> list[dict[str, Any]]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise FormatError(f"`{path}`, line {error.lineno}: is not JSON: {error.msg}") from None
    return [_check_object(path, f"row {number}", row) for number, row in enumerate(rows, start=1)]


def _json_line_rows(path: Path, text: str) -> list[dict[str, Any]]:
    """The objects of JSON lines. A single object over several lines is a file of one row."""
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if not rows:
                with contextlib.suppress(json.JSONDecodeError):
                    return [_check_object(path, "row 1", json.loads(text))]
            place = number if rows else 1
            raise FormatError(f"`{path}`, line {place}: is not JSON: {error.msg}") from None
        rows.append(_check_object(path, f"line {number}", row))
    return rows


def _check_object(path: Path, place: str, row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise FormatError(f"`{path}`, {place}: is not an object with columns but {_kind_name(row)}")
    return row


def _kind_name(value: Any) -> str:
    return "null" if value is None else _KINDS.get(type(value), type(value).__name__)
