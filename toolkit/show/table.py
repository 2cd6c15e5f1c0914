"""The one table: a terminal's text, Markdown, LaTeX and CSV, all written from the same rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import polars as pl

from toolkit.show.latex import as_latex
from toolkit.show.markdown import as_markdown
from toolkit.show.table_content import Form, Number, TableColumn, TableContent, Tick, Words
from toolkit.show.terminal import as_terminal_text


class Table(TableContent):
    """Finished numbers and what must be said about them, and the ways to write them."""

    def terminal(self, width: int = 120, color: bool = False) -> str:
        """Text for a terminal of `width` characters, with ANSI colours if asked."""
        return as_terminal_text(self, width, color)

    def markdown(self) -> str:
        """A GitHub-flavoured table under its title, with the notes as lists above and below it."""
        return as_markdown(self)

    def latex(self, label: str = "") -> str:
        """A LaTeX float with booktabs rules; `label` is the reference's name."""
        return as_latex(self, label)

    def csv(self, marks: Mapping[str, str] | None = None) -> str:
        """All rows in full precision, one header line, no notes; as RFC 4180 has it but for LF line ends.

        `marks` are columns with one value throughout, such as simulated = true: a CSV file has no place for notes.
        """
        marks = marks or {}
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        names = [(column, column.key or column.name) for column in self.columns]
        writer.writerow([*(name for column, key in names for name in column.form.fields(key)), *marks])
        for row in self.rows:
            cells = zip(self.columns, row, strict=True)
            writer.writerow([*(v for column, value in cells for v in column.form.values(value)), *marks.values()])
        return out.getvalue()


def table_of(frame: pl.DataFrame, title: str = "", *, decimals: int = 3, notes: Sequence[str] = ()) -> Table:
    """A polars frame as a table, as it is: numbers to the right, whole ones without decimals."""
    columns = tuple(TableColumn(series.name, _form_of(series, decimals)) for series in frame)
    return Table(title, columns, tuple(frame.iter_rows()), below=tuple(notes))


def _form_of(values: pl.Series, decimals: int) -> Form:
    if values.dtype.is_integer():
        return Number(0)
    if values.dtype.is_float() or values.dtype.is_decimal():
        whole = (values.is_null() | (values == values.round())).all()
        return Number(0 if whole else decimals)
    return Tick("true", "false") if str(values.dtype) == "Boolean" else Words()
