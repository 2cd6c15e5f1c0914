"""A source's rows as its files write them: numbers stay text, beside the types for computing.

`1.10` and `2` of a CSV or JSON file stay so where a column of the log is text, and are floats elsewhere. A column is
held once; what an expression needs of it is made when it is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from toolkit.errors import listed
from toolkit.imports.files.literals import EXACT, with_strings

_PLAIN = (pl.String(), pl.Boolean())
"""Types that numbers of another file are joined with as text."""


@dataclass(frozen=True)
class SourceTable:
    """The rows of a source. `numbers`: columns whose numbers are stored as text, with the types to compute with;
    `others`: columns left out because nothing uses them.
    """

    frame: pl.DataFrame
    numbers: Mapping[str, pl.DataType]
    others: tuple[str, ...] = field(default=(), kw_only=True)

    def with_numbers(self, names: Collection[str], texts: Collection[str] = ()) -> pl.DataFrame:
        """The rows with the numbers of the columns `names` as numbers, not text, except in the columns `texts`."""
        wanted = [name for name in names if name in self.numbers and name not in texts]
        return self.frame.with_columns(pl.col(name).cast(self.numbers[name]) for name in wanted)

    def kind(self, name: str) -> pl.DataType:
        """The type in which a column is computed with."""
        return self.numbers.get(name, self.frame.schema[name])


@dataclass(frozen=True)
class TableTypes:
    """The column types of a part of a source. `held`: as stored; `numbers`: to compute with, where numbers are stored
    as text; `large`: columns with integers too large for a float.
    """

    held: Mapping[str, pl.DataType]
    numbers: Mapping[str, pl.DataType]
    large: frozenset[str] = frozenset()

    def kind(self, name: str) -> pl.DataType:
        """The type in which a column is computed with."""
        return self.numbers.get(name, self.held[name])


def types_of(table: SourceTable) -> TableTypes:
    """The column types of a table."""
    integers = [name for name in table.frame.columns if table.kind(name).is_integer()]
    values = table.with_numbers(integers).select(integers)
    odd = values.select(((pl.all() > EXACT) | (pl.all() < -EXACT)).any()).row(0) if integers else ()
    large = frozenset(name for name, too_large in zip(integers, odd, strict=True) if too_large)
    return TableTypes(dict(table.frame.schema), table.numbers, large)


def common_types(types: Sequence[TableTypes], texts: Collection[str]) -> TableTypes:
    """The types in which no value of any part is lost. polars raises an error where kinds differ.

    Where parts hold different types under one name, and one of them text, or one is among `texts`, all are texts. They
    are text to compute with too where one of them is text, or an integer is larger than floats beside it can tell.
    """
    held: dict[str, pl.DataType] = {}
    numbers: dict[str, pl.DataType] = {}
    for name in dict.fromkeys(name for one in types for name in one.held):
        holders = [one for one in types if one.held.get(name, pl.Null()) != pl.Null]
        dtypes = list(dict.fromkeys(holder.held[name] for holder in holders))
        kinds = list(dict.fromkeys(one.kind(name) for one in holders))
        written = name in texts or any(name in one.numbers for one in holders)
        mixed = len({kind.is_nested() for kind in kinds}) > 1 or (
            len(kinds) > 1 and any(kind in _PLAIN for kind in kinds)
        )
        floats = any(kind.is_float() for kind in kinds)
        plain = mixed or (floats and any(name in one.large and one.kind(name).is_integer() for one in holders))
        if len(dtypes) > 1 and (written or plain):
            dtypes = [with_strings(dtype) for dtype in dtypes]
        held[name] = _supertype(name, dtypes)
        if not plain and any(one.held[name] != one.kind(name) for one in holders):
            numbers[name] = _supertype(name, kinds)
    return TableTypes(held, numbers, frozenset().union(*(one.large for one in types)))


def _supertype(name: str, types: Collection[pl.DataType]) -> pl.DataType:
    frames = [pl.DataFrame(schema={name: dtype}) for dtype in types]
    try:
        return pl.concat(frames, how="vertical_relaxed").schema[name] if frames else pl.Null()
    except pl.exceptions.PolarsError:
        raise pl.exceptions.SchemaError(f"`{name}`, which holds {listed(list(map(_type_word, types)))}") from None


def _type_word(dtype: pl.DataType) -> str:
    """A type in one word, without the types inside lists and objects."""
    return {pl.List: "lists", pl.Array: "lists", pl.Struct: "objects"}.get(dtype.base_type(), str(dtype))


@dataclass(frozen=True)
class NamedColumns:
    """The columns that a mapping names, to be selected from a file. `hashed`: with a hash of each whole row, `LINE`."""

    names: frozenset[str]
    hashed: bool = False

    def of(self, frame: pl.DataFrame | pl.LazyFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
        """The rows with only the named columns (at least one stays, for the row count), and the names of the others."""
        every = frame.collect_schema().names()
        chosen = [name for name in every if name in self.names] or every[:1]
        others = tuple(name for name in every if name not in chosen)
        if self.hashed and others:
            rows = frame.collect() if isinstance(frame, pl.LazyFrame) else frame
            return rows.select(chosen).with_columns(rows.hash_rows().reinterpret(signed=True).alias(LINE)), others
        narrow = frame.select(chosen) if others else frame
        return narrow.collect() if isinstance(narrow, pl.LazyFrame) else narrow, others


LINE = "__line"
"""The column of hashes of whole rows."""


def with_common_types(table: SourceTable, types: TableTypes) -> SourceTable:
    """The rows in common types. Columns that only other parts have are null."""
    frame = table.frame
    if dict(frame.schema) != types.held or list(frame.columns) != list(types.held):
        odd = [name for name, dtype in frame.schema.items()
               if dtype != types.held[name] and with_strings(types.held[name]) == types.held[name]]  # fmt: skip
        frame = frame.with_columns(pl.col(name).cast(with_strings(frame.schema[name])) for name in odd)
        frame = pl.concat([pl.DataFrame(schema=types.held), frame], how="diagonal_relaxed")
    return SourceTable(frame, types.numbers, others=table.others)


def stack_tables(tables: Sequence[SourceTable], texts: Collection[str]) -> SourceTable:
    """The rows of several tables one after the other, in their `common_types`."""
    if len(tables) < 2:
        return tables[0] if tables else SourceTable(pl.DataFrame(), {})
    types = common_types([types_of(table) for table in tables], texts)
    return SourceTable(pl.concat([with_common_types(table, types).frame for table in tables]), types.numbers)
