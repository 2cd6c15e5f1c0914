"""One page layout: the sheets of a study as tables, with what every one of them must say above and below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from replay.studies.kit.gaps import Gap, Named, P, said_of
from replay.studies.kit.sheet import Column, Row, Sheet, Value
from toolkit.show import SIMULATED, ColumnNote, Number, ShownInterval, Table, TableColumn
from toolkit.show.tables.table_content import Form

DATASET, DATASET_KEY = "Data set", "Dataset"
"""Heading of the column of data sets, and its name in CSV."""


@dataclass(frozen=True)
class Shown:
    """What a table came out with: columns with published numbers, by their key, and columns that have a dash."""

    published: frozenset[str]
    dashed: frozenset[str]


@dataclass(frozen=True)
class Surroundings(Generic[P]):
    """What all tables of a study have around them, as it depends on a sheet, its parts and how it came out.

    `suffix` ends every title, `dataset` is the name in CSV of the column of data sets. `gaps` say what the log lacks,
    each beneath the tables that have a dash for it.
    """

    simulated: bool = False
    suffix: str = ""
    dataset: str = ""
    above: Callable[[Sheet[P], Sequence[P]], Iterable[str]] = lambda sheet, parts: ()
    below: Callable[[Sheet[P], Sequence[P], Shown], Iterable[str]] = lambda sheet, parts, shown: ()
    gaps: Callable[[Sheet[P], Sequence[P]], Iterable[Gap]] = lambda sheet, parts: ()


def tables_of(sheets: Iterable[Sheet[P]], parts: Sequence[P], around: Surroundings[P]) -> dict[str, Table]:
    """The sheets that these data sets need, laid out, by the names of their files."""
    return {sheet.name: laid_out(sheet, parts, around) for sheet in sheets if sheet.needed(parts)}


def laid_out(sheet: Sheet[P], parts: Sequence[P], around: Surroundings[P]) -> Table:
    """A sheet as a table of the data sets, one after the other.

    Columns for which some row has a published number get one more for it, and one for the difference. A column whose
    published number stands apart gets it after all others.
    """
    columns = _given(sheet.columns, parts)
    named = sheet.dataset or (DATASET if len(parts) > 1 else "")
    rows = [(part.dataset, row) if named else ("", row) for part in parts for row in sheet.rows(part)]
    known = {c.key for c in columns if any(row.published.get(c.published.key) is not None for _, row in rows)}
    laid: list[tuple[TableColumn, list[Any]]] = []
    if named:
        laid.append(
            (
                TableColumn(named, key=around.dataset or (DATASET_KEY if named == DATASET else None)),
                [dataset for dataset, _ in rows],
            )
        )
    laid += [(_head(head), [row.heads[i] for _, row in rows]) for i, head in enumerate(sheet.heads)]
    apart: list[tuple[TableColumn, list[Any]]] = []
    dashed = set()
    for column in columns:
        cells = [column.shown(column.cell(row)) for _, row in rows]
        laid.append((TableColumn(column.heading, column.form, column.key, drop=column.drop), cells))
        dashed |= {column.key} if None in cells else set()
        if column.key in known:
            theirs = list(_published(column, [row for _, row in rows], cells))
            (apart if column.published.apart else laid).extend(theirs)
    laid += apart
    shown = Shown(frozenset(known), frozenset(dashed))
    explained = [ColumnNote(column.note, (column.key,)) for column in columns if column.note]
    gaps = [gap.text for gap in around.gaps(sheet, parts) if gap.concerns(dashed)]
    below = (*_notes(sheet, parts), *explained, *around.below(sheet, parts, shown), *gaps)
    title = sheet.title if isinstance(sheet.title, str) else sheet.title(parts)
    return Table(
        title=f"{f'Table {sheet.number}: ' if sheet.number else ''}{title}{around.suffix}",
        columns=tuple(column for column, _ in laid),
        rows=tuple(zip(*(cells for _, cells in laid), strict=True)),
        above=(*([SIMULATED] if around.simulated else []), *dict.fromkeys(around.above(sheet, parts))),
        below=tuple(dict.fromkeys(below)),
        printed=sheet.printed,
    )


def _notes(sheet: Sheet[P], parts: Sequence[P]) -> Iterator[str]:
    """The sheet's own: those of all data sets, and what is told of each."""
    for note in _given(sheet.notes, parts):
        yield from said_of(parts, note) if callable(note) else [note]


def _given(what: Any, parts: Sequence[Named]) -> Sequence[Any]:
    return tuple(what(parts) if callable(what) else what)


def _head(head: str | TableColumn) -> TableColumn:
    return TableColumn(head) if isinstance(head, str) else head


def _published(column: Column, rows: Sequence[Row], cells: Sequence[Value]) -> Iterator[tuple[TableColumn, list[Any]]]:
    """A column's published numbers and, unless they stand apart, the differences to them."""
    theirs = column.published
    wanted = [row.published.get(theirs.key) for row in rows]
    form: Form = theirs.form or column.plain
    heading, name = theirs.heading or f"{column.heading} published", theirs.name or f"{column.key}_published"
    yield TableColumn(heading, form, name, drop=column.drop, under="" if theirs.apart else column.key), wanted
    if theirs.apart or not isinstance(column.plain, Number):
        return
    scale = column.form.scale if isinstance(column.form, Number) else 1.0
    difference = [
        None if theirs.key in row.unlike else _less(cell, other, scale)
        for row, cell, other in zip(rows, cells, wanted, strict=True)
    ]
    signed = Number(column.plain.decimals, signed=True)
    yield TableColumn("difference", signed, f"{column.key}_difference", drop=column.drop, printed=False), difference


def _less(cell: Value, published: Any, scale: float) -> float | None:
    own = cell.estimate if isinstance(cell, ShownInterval) else cell
    if published is None or not isinstance(own, float | int):
        return None
    return scale * own - float(published)
