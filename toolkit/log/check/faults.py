"""A collection of faults: the first row and the number of rows of each kind of fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from toolkit.log.contract.problems import Problem, backticked
from toolkit.log.contract.schema import TABLES, kind_of
from toolkit.log.read.log import ROW, Log

Message = str | Callable[[dict[str, Any]], str]
"""The message about a row: a function of the row, or a template with its columns in braces."""


def message_of(message: Message, row: dict[str, Any]) -> str:
    """A fault's message, filled in for one row."""
    if not isinstance(message, str):
        return message(row)
    return message.format_map({k: str(v).lower() if isinstance(v, bool) else backticked(v) for k, v in row.items()})


@dataclass
class Faults:
    """The faults of a log, by (table, column, code). Each keeps its first row and a count, whatever the log's size."""

    log: Log
    fixed: list[Problem] = field(default_factory=list)
    _rows: dict[tuple[str, str, str], tuple[int, int, str]] = field(default_factory=dict)  # how many, first, its text

    def add_rows(
        self, table: str, column: str, code: str, offenders: pl.DataFrame, message: Message, count: int = 0
    ) -> None:
        """Adds the rows with one kind of fault: `offenders` have `__row` and the message's columns. `count`: how many
        such rows there are, where `offenders` are only the first.
        """
        if offenders.height:
            row = offenders.row(int(offenders[ROW].arg_min() or 0), named=True)
            key = (table, column, code)
            before, first, text = self._rows.get(key, (0, row[ROW] + 1, ""))
            if row[ROW] < first:
                first, text = row[ROW], message_of(message, row)
            self._rows[key] = (before + (count or offenders.height), first, text)

    def add_fault(self, problem: Problem) -> None:
        """Adds a fault that belongs to no row."""
        self.fixed.append(problem)

    def problems(self) -> tuple[Problem, ...]:
        """All faults in order: those of files and columns, then by table in the contract's order, and by row."""
        rows = []
        for (table, column, code), (count, row, text) in self._rows.items():
            more = f" ({count:,} rows in all)" if count > 1 else ""
            file, place = self.log.locate(table, row)
            rows.append((TABLES.index(kind_of(table)), table, row, Problem(file, column, place, text + more, code)))
        rows.sort(key=lambda item: item[:3])
        return (*self.fixed, *(problem for *_, problem in rows))
