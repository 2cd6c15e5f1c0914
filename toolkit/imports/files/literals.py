"""JSON values that keep the text of their numbers: `18`, `18.0` and `1.80e1` are one float and three texts.

A column with fractions is stored as text, with the type for computing beside it. Integers that no float holds, beside
fractions, and integers beyond 64 bits make a column text throughout, so that no digit is lost unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from toolkit.documents import LiteralFloat

EXACT = 2**53  # up to here every integer is a float
MOST_KEYS = 2_000  # an object of more, over all rows, counts or names things by its keys


def parse_json_literals(text: str) -> Any:
    """Parses JSON; numbers with a point or exponent become `LiteralFloat`. ValueError: no JSON, or too deep."""
    try:
        return json.loads(text, parse_float=LiteralFloat)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def json_as_written(value: Any) -> str:
    """The value as JSON, with its numbers as they were written. A text is returned unchanged."""
    return value if isinstance(value, str) else _json_text(value)


def _json_text(value: Any) -> str:
    if isinstance(value, LiteralFloat):
        return value.text
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_json_text(it)}" for key, it in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_json_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def json_column(name: str, values: Sequence[Any]) -> tuple[pl.Series, pl.DataType]:
    """Makes a column of parsed JSON values, and gives the type to compute with. The column has that type, but text in
    place of numbers if it contains floats.
    """
    kind = _lossless_type(values)
    dtype = with_strings(kind) if has_type(kind, pl.Float64) else kind
    return pl.Series(name, [_as_type(value, dtype) for value in values], dtype=dtype), kind


def _lossless_type(values: Iterable[Any]) -> pl.DataType:
    """The polars type that holds parsed JSON values without loss.

    Mixed kinds (a number here, a list there) are text, and so are numbers that would lose digits, and objects of more
    than `MOST_KEYS` keys: a column of them would have a field for each key in every row.
    """
    known = [value for value in values if value is not None]
    kinds = {float if isinstance(value, float) else type(value) for value in known}
    if kinds == {dict}:
        names = dict.fromkeys(name for value in known for name in value)
        if len(names) > MOST_KEYS:
            return pl.String()
        return pl.Struct([pl.Field(name, _lossless_type([value.get(name) for value in known])) for name in names])
    if kinds == {list}:
        return pl.List(_lossless_type([item for value in known for item in value]))
    integers = [value for value in known if type(value) is int] if int in kinds else []
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in integers):
        return pl.Int64()
    if float in kinds and kinds <= {int, float} and all(abs(value) <= EXACT for value in integers):
        return pl.Float64()
    if not kinds or kinds == {bool}:
        return pl.Boolean() if kinds else pl.Null()
    return pl.String()


def _as_type(value: Any, dtype: pl.DataType) -> Any:
    if value is None:
        return None
    if isinstance(dtype, pl.Struct):
        return {field.name: _as_type(value.get(field.name), type_instance(field.dtype)) for field in dtype.fields}
    if isinstance(dtype, pl.List):
        return [_as_type(it, type_instance(dtype.inner)) for it in value]
    return json_as_written(value) if dtype == pl.String else value


def with_strings(dtype: pl.DataType) -> pl.DataType:
    """The polars type with text in place of numbers, inside lists and objects too."""
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(with_strings(type_instance(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(field.name, with_strings(type_instance(field.dtype))) for field in dtype.fields])
    return pl.String() if dtype.is_numeric() else dtype


def has_type(dtype: pl.DataType, *kinds: type[pl.DataType]) -> bool:
    """Whether a polars type is one of `kinds`, or has one inside."""
    if isinstance(dtype, pl.List | pl.Array):
        return has_type(type_instance(dtype.inner), *kinds)
    if isinstance(dtype, pl.Struct):
        return any(has_type(type_instance(field.dtype), *kinds) for field in dtype.fields)
    return isinstance(dtype, kinds)


def type_instance(dtype: Any) -> pl.DataType:
    """The polars type as an instance, also where polars gives its class."""
    return dtype() if isinstance(dtype, type) else dtype


def parse_lists(texts: pl.Series) -> tuple[pl.Series, pl.DataType]:
    """Parses JSON texts of lists (`'["a", "b"]'`, as CSV has them) into a column; null for other texts."""

    def read(text: str | None) -> list[Any] | None:
        try:
            value = parse_json_literals(text) if text is not None else None
        except ValueError:
            return None
        return value if isinstance(value, list) else None

    return json_column(texts.name, [read(text) for text in texts.to_list()])
