"""A table as it is printed: published numbers in the cells of our own, and no column that only programs need."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from toolkit.show.tables.table_content import DASH, Form, TableColumn, TableContent

T = TypeVar("T", bound=TableContent)
PUBLISHED = "in parentheses: published"


@dataclass(frozen=True)
class OverPublished(Form):
    """A cell of our value and of the published one, which is in parentheses in a line of its own."""

    stacks: ClassVar[str] = " ("

    own: Form
    theirs: Form

    @property
    def align(self) -> str:  # type: ignore[override]
        """That of our value."""
        return self.own.align

    def show(self, value: tuple[Any, Any]) -> str:
        """The two beside each other."""
        own, theirs = value
        shown = DASH if own is None else self.own.show(own)
        return shown if theirs is None else f"{shown} ({self.theirs.show(theirs)})"


def in_print(table: T) -> T:
    """The table without what is not printed, and with the columns that stand under another one in its cells."""
    places = {column.key: i for i, column in enumerate(table.columns) if column.key and not column.under}
    beneath = {places[c.under]: i for i, c in enumerate(table.columns) if c.under in places}
    kept = [
        i for i, c in enumerate(table.columns) if c.under not in places and (c.printed or c.core)
    ]  # what was asked for is printed
    columns = tuple(_column(table.columns, i, beneath.get(i)) for i in kept)
    rows = tuple(
        tuple(row[i] if (under := beneath.get(i)) is None else _cell(row[i], row[under]) for i in kept)
        for row in table.rows
    )
    below = (*table.below, PUBLISHED) if beneath else table.below
    return replace(table, columns=columns, rows=rows, below=below)


def _column(columns: tuple[TableColumn, ...], own: int, under: int | None) -> TableColumn:
    column = columns[own]
    return column if under is None else replace(column, form=OverPublished(column.form, columns[under].form))


def _cell(own: Any, theirs: Any) -> tuple[Any, Any] | None:
    return None if own is None and theirs is None else (own, theirs)
