"""The table: terminal text, Markdown, LaTeX, CSV and HTML from the same rows."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from toolkit.printable import spreadsheet_text
from toolkit.show.drawing.page import WIDTH, width_in_inches
from toolkit.show.tables.html import escaped_prose
from toolkit.show.tables.latex import as_latex
from toolkit.show.tables.table_content import Form, Number, TableColumn, TableContent, Tick, Words
from toolkit.show.tables.terminal import as_terminal_text

IN_SHORT = 10
"""Rows of a longer table that a Python prompt shows."""
_RULES = {"left": ":--", "right": "--:", "center": ":-:"}  # of Markdown


class Table(TableContent):
    """A table of computed numbers with notes, which can be written in several formats."""

    def __repr__(self) -> str:
        left_out = len(self.rows) - IN_SHORT
        if left_out <= 0:
            return self.terminal()
        more = f"{left_out:,} more rows: `print` shows them."
        return replace(self, rows=self.rows[:IN_SHORT], below=(more,)).terminal()

    def __str__(self) -> str:
        return self.terminal()

    def _repr_html_(self) -> str:
        return self.html()

    def terminal(self, width: int = 120, color: bool = False) -> str:
        """The table as text for a terminal of `width` characters, with ANSI colours where asked."""
        return as_terminal_text(self, width, color)

    def markdown(self) -> str:
        """A GitHub-flavoured table under its title as heading, with the notes as lists above and below it."""
        lines = [f"## {markdown_cell(self.title)}", ""] if self.title else []
        lines += [f"> **{markdown_note(note)}**\n" for note in self.above]
        lines.append(_markdown_row(markdown_cell(column.name) for column in self.columns))
        lines.append(_markdown_row(_RULES[column.form.align] for column in self.columns))
        lines += [_markdown_row(map(markdown_cell, row)) for row in self.texts()]
        lines += ["", *(f"- {markdown_note(note)}" for note in self.below)] if self.below else []
        return "\n".join(lines) + "\n"

    def latex(self, label: str = "", width: str | float = WIDTH, whole: bool = False) -> str:
        """The table as a LaTeX float with caption, booktabs rules and the notes below. `label` is the name to refer to
        it by.

        `width` is the page's or the column's: `3.3in`, `84mm`, or a number of inches. What does not fit is set smaller,
        then stacked, and then left out, which a note says. `whole` leaves nothing out: such columns stand in further
        parts below, and siunitx aligns numbers at their points. The first line names the packages that it needs. Every
        sign that LaTeX would read as a command is escaped.
        """
        return as_latex(self, label, width_in_inches(width), whole)

    def html(self) -> str:
        """A table with its title as caption and the notes above and below it, for a notebook or a page."""
        title = f"<caption>{escaped_prose(self.title)}</caption>" if self.title else ""
        head = _html_row("th", [column.name for column in self.columns])
        rows = "".join(_html_row("td", row) for row in self.texts())
        above = "".join(f"<p><strong>{escaped_prose(note)}</strong></p>" for note in self.above)
        below = "".join(f"<p><small>{escaped_prose(note)}</small></p>" for note in self.below)
        return f"<div>{above}<table>{title}<thead>{head}</thead><tbody>{rows}</tbody></table>{below}</div>"

    def csv(self, marks: Mapping[str, str] | None = None, *, data: bool = False) -> str:
        """All rows as CSV in full precision, with one header line and no notes; RFC 4180 but for LF line ends.

        It is for people: texts are printable, and an apostrophe goes before one that a spreadsheet would run as a
        formula. As `data` texts are as they are.

        `marks` are columns with one value throughout, such as simulated = true, by default the table's own.
        """
        marks = dict(self.marks) if marks is None else marks
        rows: list[list[Any]] = [
            [name for column in self.columns for name in column.form.csv_fields(column.key or column.name)] + [*marks]
        ]
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            rows.append([v for column, value in cells for v in column.form.csv_values(value)] + [*marks.values()])
        return "".join(_csv_row(row if data else map(_in_spreadsheet, row)) for row in rows)


def _csv_row(cells: Iterable[Any]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)  # its own line end, CR LF, makes it quote either of the two in a cell
    return out.getvalue().removesuffix("\r\n") + "\n"


def _in_spreadsheet(cell: Any) -> Any:
    return spreadsheet_text(cell) if isinstance(cell, str) else cell


def _html_row(tag: str, cells: Iterable[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{_in_html(cell)}</{tag}>" for cell in cells) + "</tr>"


def _in_html(text: str) -> str:
    return html.escape(text)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def markdown_cell(text: str) -> str:
    """A cell's text escaped for Markdown."""
    for sign in "\\|*_`":
        text = text.replace(sign, f"\\{sign}")
    return markdown_note(text)


def markdown_note(text: str) -> str:
    """A note escaped for Markdown. Code in backticks stays, so only what would become HTML is escaped."""
    return text.replace("<", "&lt;").replace("](", "]\\(")


def table_of(frame: pl.DataFrame, title: str = "", *, decimals: int = 3, notes: Sequence[str] = ()) -> Table:
    """A polars frame as a table. Numbers are aligned to the right, and integers have no decimals."""
    columns = tuple(TableColumn(series.name, _column_form(series, decimals), series.name) for series in frame)
    return Table(title, columns, tuple(frame.iter_rows()), below=tuple(notes))


def _column_form(values: pl.Series, decimals: int) -> Form:
    if values.dtype.is_integer():
        return Number(0)
    if values.dtype.is_float() or values.dtype.is_decimal():
        whole = (values.is_null() | (values == values.round())).all()
        return Number(0 if whole else decimals)
    return Tick("true", "false") if values.dtype == pl.Boolean else Words()
