"""Expressions of columns that are null throughout, as an optional path that no row has: such a column is of any type.

The types are found from the innermost parts of an expression outwards, so that many such columns are no more work than
few: each part fixes the types of those of its columns of which no smaller part needed any.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping

import polars as pl

Types = Mapping[str, pl.DataType]

_LIKELY: tuple[pl.DataType, ...] = (
    pl.String(), pl.Float64(), pl.Boolean(), pl.List(pl.Null()), pl.Datetime(), pl.Null(),
)  # fmt: skip
_TOGETHER = 4
"""Columns whose types one part of an expression may ask for at once."""


def evaluated(frame: pl.DataFrame, made: pl.Expr) -> pl.Series:
    """An expression's values. A polars error where there are none, whatever the types of the empty columns."""
    try:
        return _values(frame, made, {})
    except pl.exceptions.PolarsError:
        empty = {root for root in made.meta.root_names() if frame[root].dtype == pl.Null}
        if not empty:
            raise
        types = _types(frame.head(1), made, empty)
        with contextlib.suppress(pl.exceptions.PolarsError):
            return _values(frame, made, types)
        raise


def _values(frame: pl.DataFrame, made: pl.Expr, types: Types) -> pl.Series:
    typed = frame.with_columns(pl.col(name).cast(kind) for name, kind in types.items())
    return typed.with_columns(made.alias("__made"))["__made"].alias(made.meta.output_name())


def _types(frame: pl.DataFrame, made: pl.Expr, empty: set[str]) -> Types:
    """The types with which the parts of an expression can be computed, as far as there are any."""
    types: dict[str, pl.DataType] = {}
    for part in _parts(made):
        own = [name for name in dict.fromkeys(part.meta.root_names()) if name in empty]
        if not own or _works(frame, part, types):
            continue
        free = [name for name in own if name not in types] or own
        for kinds in itertools.product(_LIKELY, repeat=len(free)) if len(free) <= _TOGETHER else ():
            tried = types | dict(zip(free, kinds, strict=True))
            if _works(frame, part, tried):
                types = tried
                break
    return types


def _parts(made: pl.Expr) -> Iterator[pl.Expr]:
    """The expressions that an expression is made of, the innermost first, and itself."""
    for part in made.meta.pop():
        yield from _parts(part)
    yield made


def _works(frame: pl.DataFrame, part: pl.Expr, types: Types) -> bool:
    try:
        _values(frame, part, types)
    except pl.exceptions.PolarsError:
        return False
    return True
