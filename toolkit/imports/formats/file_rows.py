"""Checked reading of rows and values in the files of other programs: a value of another form is an error of
one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from toolkit.errors import FormatError, first_line
from toolkit.imports.files.listing import ListedFile

_LARGEST = 1e300
"""The largest absolute value of a measurement; a larger integer may not fit a float."""
_TOGETHER = 256
"""Rows of a Parquet file in memory at one time; one row may hold hundreds of samples."""


def table_rows(file: ListedFile) -> Iterator[dict[str, Any]]:
    """Yields the rows of a Parquet file, of JSON lines or of a JSON list. ThinkbackError for any other file."""
    if file.ending in (".parquet", ".pq"):
        yield from _parquet_rows(file)
    else:
        yield from json_objects(file)


def _parquet_rows(file: ListedFile) -> Iterator[dict[str, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with file.seekable_file() as opened:
            for batch in pq.ParquetFile(opened).iter_batches(_TOGETHER):
                yield from batch.to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FormatError(f"`{file.address}` is no readable Parquet file: {first_line(error)}") from None


def json_objects(file: ListedFile) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file of JSON lines, or of a JSON list. Blank lines are skipped."""
    with file.open() as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            if number == 1 and line.lstrip().startswith(b"["):
                yield from _require_objects(file, parse_json(file, line + stream.read()))
                return
            value = parse_json(file, line, f", line {number}")
            if not isinstance(value, dict):
                raise FormatError(f"`{file.address}`, line {number}: not an object")
            yield value


def _require_objects(file: ListedFile, value: Any) -> Iterator[dict[str, Any]]:
    for number, item in enumerate(value, 1):
        if not isinstance(item, dict):
            raise FormatError(f"`{file.address}`, item {number}: not an object")
        yield item


def parse_json(file: ListedFile, content: bytes, place: str = "") -> Any:
    """Parses a JSON text. ThinkbackError where it is not JSON."""
    try:
        return json.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise FormatError(f"`{file.address}`{place}: it nests too deeply") from None
    except ValueError as error:
        why = error.msg if place and isinstance(error, json.JSONDecodeError) else first_line(error)
        raise FormatError(f"`{file.address}`{place}: not JSON: {why}") from None


def parse_object(file: ListedFile, content: bytes, place: str = "") -> dict[str, Any]:
    """Parses a JSON text whose value is an object. ThinkbackError where it is not."""
    value = parse_json(file, content, place)
    if not isinstance(value, dict):
        raise FormatError(f"`{file.address}`{place}: not an object")
    return value


def value_at(value: Any, *steps: str | int) -> Any:
    """The value that a series of keys and list places leads to; None where there is none."""
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
            value = value[step]
        else:
            return None
    return value


def objects_at(value: Any, *steps: str | int) -> list[dict[str, Any]]:
    """The objects in the list that keys lead to; empty where they lead to no list."""
    inner = value_at(value, *steps)
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []


def object_at(value: Any, *steps: str | int) -> dict[str, Any]:
    """The object that keys lead to; empty where they lead to none."""
    inner = value_at(value, *steps)
    return inner if isinstance(inner, dict) else {}


def list_at(value: Any, *steps: str | int) -> list[Any]:
    """The list that keys lead to; empty where they lead to none."""
    inner = value_at(value, *steps)
    return inner if isinstance(inner, list) else []


def text(value: Any) -> str | None:
    """A value as text: numbers, lists and objects as JSON writes them. A lone surrogate becomes `?`."""
    if value is None:
        return None
    line = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return line.encode(errors="replace").decode()


def texts(row: Mapping[str, Any], *names: str) -> dict[str, str | None]:
    """Some values of a row as texts."""
    return {name: text(row.get(name)) for name in names}


def number(value: Any) -> float | None:
    """The value as a finite number; None for NaN (nothing was measured), infinities and other types."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return value if plain and -_LARGEST <= value <= _LARGEST else None


def as_count(value: Any) -> int | None:
    """The value as a whole number that is not negative; None for others."""
    whole = number(value)
    return int(whole) if whole is not None and whole >= 0 and whole == int(whole) else None


def named_part(pattern: re.Pattern[str], file: ListedFile) -> str:
    """The part of a file's name that the first group of `pattern` matches; else the name without its ending."""
    match = pattern.fullmatch(file.name)
    return match[1] if match else file.name.rpartition(".")[0]
