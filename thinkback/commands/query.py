"""`thinkback query`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

ROWS = 100  # that a table on a terminal shows


class Format(StrEnum):
    """The format in which rows are printed."""

    table = "table"
    csv = "csv"
    markdown = "markdown"


@dataclass(frozen=True)
class QuerySource:
    """The thing to query: its `answer` function for SQL, and whether it is simulated."""

    answer: Callable[[str], pl.DataFrame]
    simulated: bool


def query(source: str, sql: str, output: Format | None = None) -> None:
    """Query a log or a saved result in SQL.

    The tables examples, traces, verifications, features … are views; hidden_states/M is hidden_states_M. A result has
    outcomes, summary, comparisons and ranks, and the tables of its log while that is where it was.
    """
    from dataclasses import replace

    from thinkback import console
    from toolkit.log import check_printable_size, limited_memory
    from toolkit.show import SIMULATED, table_of

    opened = _open_source(source)
    with limited_memory():
        frame = opened.answer(sql)
    if opened.simulated:
        console.complain(SIMULATED)
    chosen = output or (Format.table if console.on_terminal() else Format.csv)
    rows = frame.head(ROWS) if chosen is Format.table else frame
    check_printable_size(rows)
    table = table_of(rows, decimals=4)
    if chosen is Format.csv:
        sys.stdout.write(table.csv(data=True))
    elif chosen is Format.markdown:
        sys.stdout.write(table.markdown())
    else:
        # on a narrow terminal the last columns give way
        columns = tuple(replace(column, drop=place) for place, column in enumerate(table.columns))
        more = (f"{frame.height - ROWS:,} more rows; `--format csv` prints all.",) if frame.height > ROWS else ()
        console.show(replace(table, columns=columns, below=more))


def _open_source(source: str) -> QuerySource:
    """Opens a saved result, if the folder has the record of one; else a log."""
    from functools import partial

    from toolkit.log import open_log, query_log

    if (Path(source) / "result.json").is_file():  # what reads results takes long to import
        from replay import load
        from replay.runs.saved.saved_folder import is_saved_result

        if is_saved_result(Path(source)):
            result = load(source)
            return QuerySource(result.query, result.simulated)
    log = open_log(source)
    return QuerySource(partial(query_log, log), log.simulated)
