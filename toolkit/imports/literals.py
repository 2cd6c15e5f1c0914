"""Numbers as they are written: JSON's `18`, `18.0` and `1.80e1` are one float, and three texts.

A column that holds integers and floats is computed with as floats. Where a column of the log is text, what stood in
the file is taken instead; it is carried beside the column under the name `TEXT_OF` + name. Integers that no float
holds, beside floats, and integers beyond 64 bits make the whole column text, so that no digit is lost unseen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import polars as pl

from toolkit.literal_float import LiteralFloat

TEXT_OF = "__text "  # before a column's name: what stood in the file, where the column was read as numbers
EXACT = 2**53  # up to here every integer is a float


def parse(text: str) -> Any:
    """JSON with its literals: numbers with a point or exponent are `LiteralFloat`. ValueError where it is none.

    Texts that nest too deeply for the parser are a ValueError too.
    """
    try:
        return json.loads(text, parse_float=LiteralFloat)
    except RecursionError:
        raise ValueError("it nests too deeply") from None


def dump(value: Any) -> str:
    """A value as JSON, its numbers as they were written; a text as it is."""
    return value if isinstance(value, str) else _dump(value)


def _dump(value: Any) -> str:
    if isinstance(value, LiteralFloat):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {_dump(it)}" for key, it in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def column(name: str, values: Sequence[Any]) -> tuple[pl.Series, pl.Series | None]:
    """Parsed JSON values as a column, and its text where numbers are written otherwise than they would be again."""
    dtype = _kind(values)
    typed = pl.Series(name, [_like(value, dtype) for value in values], dtype=dtype)
    return typed, texts_like(typed, values) if holds(dtype, pl.Float64) else None


def _kind(values: Iterable[Any]) -> pl.DataType:
    """The type that holds parsed JSON values without loss.

    Mixed kinds (a number here, a list there) are text, and so are numbers that would lose digits.
    """
    known = [value for value in values if value is not None]
    kinds = {float if isinstance(value, float) else type(value) for value in known}
    if kinds == {dict}:
        names = dict.fromkeys(name for value in known for name in value)
        return pl.Struct([pl.Field(name, _kind([value.get(name) for value in known])) for name in names])
    if kinds == {list}:
        return pl.List(_kind([item for value in known for item in value]))
    whole = [value for value in known if type(value) is int] if int in kinds else []
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in whole):
        return pl.Int64()
    if kinds and kinds <= {int, float} and all(abs(value) <= EXACT for value in whole) and float in kinds:
        return pl.Float64()
    if not kinds or kinds == {bool}:
        return pl.Boolean() if kinds else pl.Null()
    return pl.String()


def texts_like(typed: pl.Series, values: Sequence[Any]) -> pl.Series:
    """The column `typed` once more, from the `values` that it was made of, with texts in place of its numbers."""
    dtype = texted(typed.dtype)
    return pl.Series(TEXT_OF + typed.name, [_like(value, dtype) for value in values], dtype=dtype, strict=False)


def _like(value: Any, dtype: pl.DataType) -> Any:
    if value is None:
        return None
    if isinstance(dtype, pl.Struct) and isinstance(value, dict):
        return {field.name: _like(value.get(field.name), _known(field.dtype)) for field in dtype.fields}
    if isinstance(dtype, pl.List) and isinstance(value, list):
        return [_like(it, _known(dtype.inner)) for it in value]
    if dtype == pl.Float64:
        return float(value)
    return dump(value) if dtype == pl.String else value


def texted(dtype: pl.DataType) -> pl.DataType:
    """The type with text in place of numbers, inside lists and objects too."""
    if isinstance(dtype, pl.List | pl.Array):
        return pl.List(texted(_known(dtype.inner)))
    if isinstance(dtype, pl.Struct):
        return pl.Struct([pl.Field(field.name, texted(_known(field.dtype))) for field in dtype.fields])
    return pl.String() if dtype.is_numeric() else dtype


def holds(dtype: pl.DataType, *kinds: type[pl.DataType]) -> bool:
    """Whether a type is one of `kinds`, or has one inside."""
    if isinstance(dtype, pl.List | pl.Array):
        return holds(_known(dtype.inner), *kinds)
    if isinstance(dtype, pl.Struct):
        return any(holds(_known(field.dtype), *kinds) for field in dtype.fields)
    return isinstance(dtype, kinds)


def _known(dtype: Any) -> pl.DataType:
    return dtype() if isinstance(dtype, type) else dtype


def lists(texts: pl.Series) -> tuple[pl.Series, pl.Series | None]:
    """JSON text of lists (`'["a", "b"]'`, as CSV holds them) as lists, null where a text is none; and their texts."""

    def read(text: str | None) -> list[Any] | None:
        try:
            value = parse(text) if text is not None else None
        except ValueError:
            return None
        return value if isinstance(value, list) else None

    return column(texts.name, [read(text) for text in texts.to_list()])
