"""`thinkback query`."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

from thinkback import options
from thinkback.options import option, positional

ROWS = 100  # that a table on a terminal shows


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    csv = "csv"
    markdown = "markdown"


def query(
    log: options.Log,
    sql: Annotated[str, positional("SQL", "A DuckDB query; the log's tables are views.")],
    output: Annotated[
        Format | None, option("--format", "How to print the rows; a table on a terminal, else CSV.")
    ] = None,
) -> None:
    """Query a log in SQL.

    The tables examples, traces, verifications, features … are views; hidden_states/M is hidden_states_M.
    """
    from dataclasses import replace

    from thinkback import console
    from toolkit.log import check_printable_size, limited_memory, open_log, query_log
    from toolkit.show import SIMULATED, table_of

    opened = open_log(log)
    with limited_memory():
        frame = query_log(opened, sql)
    if opened.simulated:
        console.complain(SIMULATED)
    chosen = output or (Format.table if console.on_terminal() else Format.csv)
    shown = frame.head(ROWS) if chosen is Format.table else frame
    check_printable_size(shown)
    table = table_of(shown, decimals=4)
    if chosen is Format.csv:
        sys.stdout.write(table.csv(data=True))
    elif chosen is Format.markdown:
        sys.stdout.write(table.markdown())
    else:
        # on a narrow terminal the last columns give way
        columns = tuple(replace(column, drop=place) for place, column in enumerate(table.columns))
        more = (f"{frame.height - ROWS:,} more rows; `--format csv` prints all.",) if frame.height > ROWS else ()
        console.show(replace(table, columns=columns, below=more))
