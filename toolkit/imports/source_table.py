"""A source's rows as its files write them: columns of numbers that are texts, and the types to compute with.

`1.10` and `2` of a CSV or JSON file stay so where a column of the log is text, and are floats elsewhere. A column is
held once; what an expression needs of it is made when it is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from toolkit.imports.literals import EXACT, texted

_PLAIN = (pl.String(), pl.Boolean())
"""Types beside which numbers of another file are text."""


@dataclass(frozen=True)
class SourceTable:
    """`numbers`: the columns whose numbers are held as texts, and the types in which they are computed with."""

    frame: pl.DataFrame
    numbers: Mapping[str, pl.DataType]

    def computable(self, names: Collection[str], texts: Collection[str] = ()) -> pl.DataFrame:
        """The rows with the numbers of the columns `names` as numbers, but for those of `texts`."""
        wanted = [name for name in names if name in self.numbers and name not in texts]
        return self.frame.with_columns(pl.col(name).cast(self.numbers[name]) for name in wanted)

    def kind(self, name: str) -> pl.DataType:
        """The type in which a column is computed with."""
        return self.numbers.get(name, self.frame.schema[name])


def stacked(tables: Sequence[SourceTable], texts: Collection[str]) -> SourceTable:
    """Rows of several files under each other, where columns lose nothing; polars' error where their kinds differ.

    Where files hold different types under one name, and one of them text, or one is among `texts`, all are texts. They
    are text to compute with too where one of them is text, or an integer is larger than floats beside it can tell.
    """
    frames = [table.frame for table in tables]
    numbers: dict[str, pl.DataType] = {}
    for name in dict.fromkeys(name for frame in frames for name in frame.columns):
        holders = [i for i, frame in enumerate(frames) if frame.schema.get(name, pl.Null()) != pl.Null]
        held, kinds = {frames[i].schema[name] for i in holders}, {tables[i].kind(name) for i in holders}
        written = name in texts or any(name in tables[i].numbers for i in holders)
        mixed = len({kind.is_nested() for kind in kinds}) > 1 or (len(kinds) > 1 and not kinds.isdisjoint(_PLAIN))
        plain = mixed or _too_large([tables[i] for i in holders], name, kinds)
        if len(held) > 1 and (written or plain):
            for i in holders:
                frames[i] = frames[i].with_columns(pl.col(name).cast(texted(frames[i].schema[name])))
        if not plain and any(frames[i].schema[name] != tables[i].kind(name) for i in holders):
            common = pl.concat([pl.DataFrame(schema={name: kind}) for kind in kinds], how="vertical_relaxed")
            numbers[name] = common.schema[name]
    return SourceTable(pl.concat(frames, how="diagonal_relaxed"), numbers)


def _too_large(tables: Sequence[SourceTable], name: str, kinds: Collection[pl.DataType]) -> bool:
    """Whether there is an integer beside floats that is too large for a float."""
    if not (any(kind.is_float() for kind in kinds) and any(kind.is_integer() for kind in kinds)):
        return False
    integers = (table.computable([name])[name] for table in tables if table.kind(name).is_integer())
    return any(((values > EXACT) | (values < -EXACT)).any() for values in integers)
