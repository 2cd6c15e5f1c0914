"""JSON lines and JSON lists of objects as frames; numbers that a text may be made of keep their literals.

Polars reads plain files, fast. Where it would change how a number is written in a column that the mapping takes as
text, or where it can't read the file, Python's parser reads it. DuckDB's readers can't: they write `1.80e1` as `18.0`,
`1.10` as `1.1`, and 9007199254740993.0 as its neighbour.

Rows may lie inside of JSON: the mapping's `records` is a path to a list of objects, or to an object that holds them by
key. Under a list every object is a row. Under an object whose values are objects, or lists of them, so is each of
these; its key is the column `record_key`. What stands around them is the column `document`, of which only what is asked
for is kept. `records = "."` is the document itself.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from toolkit.errors import first_line
from toolkit.imports.files.literals import EXACT, MOST_KEYS, has_type, json_column, parse_json_literals
from toolkit.imports.files.paths import value_at_path
from toolkit.imports.rows.source_table import LINE, NamedColumns, SourceTable

WHOLE = "."
KEY, DOCUMENT = "record_key", "document"


@dataclass(frozen=True)
class RowPath:
    """The place of rows in JSON documents. `fields`: document fields that each row repeats in its column `document`."""

    path: str
    fields: tuple[str, ...] = ()

    def rows_of(self, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yields the rows in each document. ValueError where one has none under the path."""
        for number, document in enumerate(documents, 1):
            content = document if self.path == WHOLE else value_at_path(document, self.path)
            if not isinstance(content, dict | list):
                raise ValueError(f"document {number} has no list and no object under `{self.path}` (`records`)")
            outer = {name: document.get(name) for name in self.fields}
            extra = {DOCUMENT: outer} if self.fields else {}
            for row in _rows(content, {}):
                if not isinstance(row, dict):
                    raise ValueError(f"document {number} has an item under `{self.path}` (`records`) that is no object")
                yield {**extra, **row}


def _rows(content: Any, key: dict[str, str]) -> Iterator[Any]:
    """Yields the objects under a path, each with the key under which it lies."""
    if isinstance(content, list):
        for one in content:
            yield {**key, **one} if isinstance(one, dict) else one
    elif not key and content and all(isinstance(one, dict | list) for one in content.values()):
        for name, one in content.items():
            yield from _rows(one, {KEY: name})
    else:
        yield {**key, **content}


def json_lines(
    content: bytes,
    texts: Collection[str],
    records: RowPath | None = None,
    line: int = 1,
    columns: NamedColumns | None = None,
) -> SourceTable:
    """Reads JSON lines: a row for each line that is not blank, or for each of its `records`. `texts`: columns used as
    text.

    `line` is the number of the first line, for errors. `columns`: those that are read; None: all. Where the
    file has more than `MOST_KEYS` keys, an object of as many is a JSON text.
    """
    if records is not None:
        return _from_objects(list(records.rows_of(_line_objects(content, line))), columns)
    if _key_count(content) > MOST_KEYS:  # polars' time grows with the square of the keys
        return _from_objects(list(_line_objects(content, line)), columns)
    try:
        rows = pl.scan_ndjson(io.BytesIO(content), infer_schema_length=None)
        frame, others = (rows.collect(), ()) if columns is None else columns.of(rows)
    except pl.exceptions.PolarsError:
        return _from_objects(list(_line_objects(content, line)), columns)
    rewritten = [name for name, dtype in frame.schema.items() if _may_be_inexact(frame[name], dtype)]
    rewritten += _columns_spelt_differently(content, {name: dtype for name, dtype in frame.schema.items()
                                      if name in texts and name not in rewritten})  # fmt: skip
    if not rewritten:
        return SourceTable(frame, {}, others=others)
    values: dict[str, list[Any]] = {name: [] for name in rewritten}
    for row in _line_objects(content):
        for name, column_values in values.items():
            column_values.append(row.get(name))
    return _with_columns(frame, values, others)


def _key_count(content: bytes) -> int:
    """How many different keys the objects have; keys with escapes at their end don't count, nor do those in a text."""
    return len({text[text.rfind(b'"') + 1 :] for text in content.split(b'":') if not text.endswith(b"\\")})


def _may_be_inexact(values: pl.Series, dtype: pl.DataType) -> bool:
    """Whether integers may have lost digits, or have too many: floats from 2^53 on, integers beyond 64 bits."""
    if has_type(dtype, pl.Int128, pl.UInt64):
        return True
    if not has_type(dtype, pl.Float64):
        return False
    if isinstance(dtype, pl.Struct):
        return any(_may_be_inexact(values.struct.field(field.name), values.struct.field(field.name).dtype)
                   for field in dtype.fields)  # fmt: skip
    if isinstance(dtype, pl.List):
        inner = values.drop_nulls().explode(empty_as_null=True)
        return _may_be_inexact(inner, inner.dtype)
    return bool((values.abs() >= EXACT).any())


def _columns_spelt_differently(content: bytes, columns: Mapping[str, pl.DataType]) -> list[str]:
    """The columns in which a number may be spelt differently from the file: `2.0` for `2`, or `2` in a text."""
    keys = {name: json.dumps(name, ensure_ascii=False) for name, dtype in columns.items() if dtype == pl.String}
    odd = [name for name, key in keys.items() if not key.isascii()]  # it may be escaped in the file
    odd += [name for name, dtype in columns.items()
            if has_type(dtype, pl.Float64) or (dtype.is_nested() and has_type(dtype, pl.String))]  # fmt: skip
    sought = {name: re.escape(key).encode() for name, key in keys.items() if key.isascii()}
    if sought and _has_number(content, sought.values()):
        odd += [name for name, key in sought.items() if _has_number(content, [key])]
    return odd


def _has_number(content: bytes, keys: Iterable[bytes]) -> bool:
    """Whether a number with a point or an exponent may stand under one of the keys."""
    return re.search(b"(?:" + b"|".join(keys) + rb")\s*:\s*-?[0-9]+[.eE]", content) is not None


def _line_objects(content: bytes, first: int = 1) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(content.split(b"\n"), first):
        if not line.strip():
            continue
        try:
            value = parse_json_literals(line.decode("utf-8-sig"))
        except ValueError as error:
            why = error.msg if isinstance(error, json.JSONDecodeError) else first_line(error)
            raise ValueError(f"line {number}: {why}") from None
        if not isinstance(value, dict):
            raise ValueError(f"line {number} is not an object")
        yield value


def json_list(
    content: bytes, texts: Collection[str], records: RowPath | None = None, columns: NamedColumns | None = None
) -> SourceTable:
    """Reads a JSON list: a row for each object, or for each of its `records`. A single object is a list of one.

    A file that is neither is read as JSON lines.
    """
    try:
        value = parse_json_literals(content.decode("utf-8-sig"))
    except ValueError:
        return json_lines(content, texts, records, columns=columns)
    return _from_objects(_document_rows(value, records), columns)


def json_lists(
    contents: Iterable[bytes], records: RowPath | None, columns: NamedColumns | None
) -> tuple[list[int], SourceTable]:
    """Reads several JSON lists as one table: the number of rows in each, and the rows of all. ValueError where one is
    none.
    """
    documents = [_document_rows(parse_json_literals(content.decode("utf-8-sig")), records) for content in contents]
    return list(map(len, documents)), _from_objects([row for rows in documents for row in rows], columns)


def _document_rows(value: Any, records: RowPath | None) -> list[dict[str, Any]]:
    rows = value if isinstance(value, list) else [value]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("it is not a list of objects")
    return rows if records is None else list(records.rows_of(rows))


def _from_objects(rows: Sequence[dict[str, Any]], columns: NamedColumns | None) -> SourceTable:
    every = list(dict.fromkeys(name for row in rows for name in row))
    names = every if columns is None else [name for name in every if name in columns.names] or every[:1]
    values = {name: [row.get(name) for row in rows] for name in names}
    others = tuple(name for name in every if name not in values)
    if columns is not None and columns.hashed and others:
        values[LINE] = pl.Series(map(repr, rows), dtype=pl.String).hash().reinterpret(signed=True).to_list()
    return _with_columns(pl.DataFrame(), values, others)


def _with_columns(
    frame: pl.DataFrame, values: Mapping[str, Sequence[Any]], others: tuple[str, ...] = ()
) -> SourceTable:
    """The rows with further columns of parsed JSON values."""
    typed = {name: json_column(name, parsed) for name, parsed in values.items()}
    columns = {name: frame[name] for name in frame.columns} | {name: series for name, (series, _) in typed.items()}
    numbers = {name: kind for name, (series, kind) in typed.items() if series.dtype != kind}
    return SourceTable(pl.DataFrame(columns), numbers, others=others)
