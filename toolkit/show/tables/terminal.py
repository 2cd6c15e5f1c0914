"""A Table as text for a terminal of any width, with the notes on the columns that it shows.

Where it is too wide, cells are stacked, columns dropped, or a row's name set over its numbers. Numbers and the ends of
intervals are never broken; words are, at blanks and after the signs that part a name's settings (`[ , =`), and inside a
word only where a line is narrower than it.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from toolkit.show.tables.table_content import DASH, TableColumn, TableContent, notes_on

_GAP = 2  # blanks between columns
_SQUEEZED = 26  # a column of words asks for no less than this, or its longest part's length if that is longer
_PARTS = re.compile(r"[^\s\[,=]*[\[,=]*")
"""Pattern of the parts that a word may be broken into: a setting's name with its value."""

Line = tuple[str, str]
"""A line and the style of rich that it is printed in."""


def as_terminal_text(table: TableContent, width: int, color: bool) -> str:
    """The table with its notes as text, with lines of at most `width` characters where that is possible."""
    from rich.console import Console, Group
    from rich.text import Text

    every, empty = _without_empty_columns(_initial_layout(table))
    layout, lines = min(
        ((fitting, list(_table_lines(table, fitting, width))) for fitting in _fitting_layouts(every, width)),
        key=_line_count,
    )
    hidden = [column for column in every.columns if column not in layout.columns]
    columns = [column for column in table.columns if column not in hidden and column not in empty]
    above, below = (notes_on(notes, columns, empty) for notes in (table.above, table.below))
    if hidden:
        below = (*below, f"Columns hidden at this width: {', '.join(column.name for column in hidden)}.")
    parts = [Text(table.title, style="bold")] if table.title else []
    parts += [Text(note, style="yellow") for note in above]
    notes = [Text(note, style="dim") for note in below]
    out = io.StringIO()
    system: Any = "standard" if color else None
    console = Console(
        file=out, width=width, force_terminal=color, color_system=system, no_color=not color, legacy_windows=False,
        force_jupyter=False,
    )  # fmt: skip
    blank = [Text("")]
    # Text, not str: to rich the brackets in a policy's name would be markup
    body = [Text(line, style=style, overflow="fold") for line, style in lines]
    console.print(Group(*parts, *blank * bool(parts), *body, *blank * bool(notes), *notes))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@dataclass(frozen=True)
class _TableLayout:
    """The columns of a table that a terminal shows, with headings and texts that may have several lines.

    `name`: the place of the column of words that a row is called by, None where there is none. `headed`: that column
    and those before it have lines of their own, over the row's other cells.
    """

    columns: tuple[TableColumn, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: int | None = None
    headed: bool = False

    @property
    def side_by_side_columns(self) -> range:
        """The places of the columns that stand side by side on a line."""
        return range(self.name + 1 if self.headed and self.name is not None else 0, len(self.columns))

    @property
    def indent(self) -> int:
        """The number of blanks before the first of the columns that stand side by side."""
        return _GAP if self.headed else 0

    @cached_property
    def natural_widths(self) -> tuple[int, ...]:
        """The width of each column without folding."""
        texts = zip(self.heads, *self.rows, strict=True)
        return tuple(max((len(line) for cell in column for line in cell.split("\n")), default=0) for column in texts)

    @cached_property
    def least_widths(self) -> tuple[int, ...]:
        """The width below which each column is unreadable: words may be folded, numbers may not."""
        texts = zip(self.columns, self.natural_widths, zip(self.heads, *self.rows, strict=True), strict=True)
        return tuple(
            min(width, max(_SQUEEZED, *map(_longest_part, cells))) if column.form.align == "left" else width
            for column, width, cells in texts
        )

    def line_width(self, widths: Sequence[int]) -> int:
        """The width of a line whose columns have these widths."""
        beside = [widths[i] for i in self.side_by_side_columns]
        return self.indent + sum(beside) + _GAP * max(0, len(beside) - 1)

    def column_widths(self, width: int) -> list[int]:
        """The width that each column gets of `width`: first what it needs, then columns of words share the rest."""
        widths = list(self.least_widths)
        for i in self.side_by_side_columns:
            widths[i] += max(0, min(self.natural_widths[i] - widths[i], width - self.line_width(widths)))
        return widths

    def without_column(self, i: int) -> _TableLayout:
        """The layout without column `i`."""
        rows = tuple(row[:i] + row[i + 1 :] for row in self.rows)
        columns, heads = self.columns[:i] + self.columns[i + 1 :], self.heads[:i] + self.heads[i + 1 :]
        name = None if self.name is None else self.name - (i < self.name)
        return replace(self, columns=columns, heads=heads, rows=rows, name=name)

    def stack_intervals(self) -> _TableLayout:
        """The layout with each interval under its estimate, and headings on several lines."""
        rows = tuple(tuple(cell.replace(" [", "\n[") for cell in row) for row in self.rows)
        return replace(self.with_high_heads(), rows=rows)

    def with_high_heads(self) -> _TableLayout:
        """The layout with one word of a heading on each line."""
        return replace(self, heads=tuple(head.replace(" ", "\n") for head in self.heads))


def _initial_layout(table: TableContent) -> _TableLayout:
    """The table's layout, with the cells of columns marked `beneath` under the first column of words."""
    under = [i for i, column in enumerate(table.columns) if column.beneath]
    places = [i for i, column in enumerate(table.columns) if not column.beneath]
    words = next((i for i in places if table.columns[i].form.align == "left"), None)
    if words is None:
        places, under = list(range(len(table.columns))), []
    rows = []
    for row in table.texts():
        lines = [f"  {row[i]}" for i in under if row[i]]
        rows.append(tuple("\n".join([row[i], *lines]) if i == words else row[i] for i in places))
    columns = tuple(table.columns[i] for i in places)
    name = None if words is None else places.index(words)
    return _TableLayout(columns, tuple(column.name for column in columns), tuple(rows), name)


def _without_empty_columns(layout: _TableLayout) -> tuple[_TableLayout, list[TableColumn]]:
    """The layout without the hideable columns that have no filled cell, and these columns."""
    empty = []
    for i in reversed(range(len(layout.columns))):
        if layout.columns[i].if_filled and layout.rows and all(row[i] in ("", DASH) for row in layout.rows):
            empty.append(layout.columns[i])
            layout = layout.without_column(i)
    return layout, empty


def _fitting_layouts(every: _TableLayout, width: int) -> Iterator[_TableLayout]:
    """Layouts that fit, with the fewest changes first: unchanged; stacked, without the least needed columns; a row's
    name over its numbers. The last layout is returned even where it is too wide. With `core` columns the layout changes
    before one of them is dropped; then there are two layouts, and the second may take fewer lines.
    """
    if every.line_width(every.least_widths) <= width:
        yield every
        return
    tries = list(_candidate_layouts(every))
    for number, (layout, core) in enumerate(tries):
        rest = _drop_columns(layout, width, core)
        if rest.line_width(rest.least_widths) <= width or number == len(tries) - 1:
            yield rest
            if number or len(tries) == 1:
                return


def _candidate_layouts(every: _TableLayout) -> Iterator[tuple[_TableLayout, bool]]:
    """Yields layouts from the least changed on, each with whether `core` columns may be dropped from it too."""
    headed = replace(every.with_high_heads(), headed=True)
    if every.name is not None and any(column.core for column in every.columns):
        yield every.stack_intervals(), False
        yield headed, False
        yield headed.stack_intervals(), False
    else:
        yield every.stack_intervals(), True
    if every.name is not None:
        yield headed.stack_intervals(), True


def _drop_columns(layout: _TableLayout, width: int, core: bool) -> _TableLayout:
    while layout.line_width(layout.least_widths) > width:
        loose = [i for i, column in enumerate(layout.columns) if column.drop and (core or not column.core)]
        if not loose:
            break
        layout = layout.without_column(max(loose, key=lambda i: (not layout.columns[i].core, layout.columns[i].drop)))
    return layout


def _line_count(lines: tuple[_TableLayout, list[Line]]) -> int:
    return len(lines[1])


def _table_lines(table: TableContent, layout: _TableLayout, width: int) -> Iterator[Line]:
    widths = layout.column_widths(width)
    if layout.headed:
        yield _leading_cells(layout, layout.heads) + layout.heads[layout.name or 0], "bold"
    yield from ((line, "bold") for line in _lines_side_by_side(layout, layout.heads, widths, bottom=True))
    yield "─" * layout.line_width(widths), ""
    for number, row in enumerate(layout.rows):
        style = "bold" if number in table.strong else "dim" if number in table.faint else ""
        if layout.headed:
            yield from ((line, style) for line in _name_lines(layout, row, width))
        yield from ((line, style) for line in _lines_side_by_side(layout, row, widths))


def _leading_cells(layout: _TableLayout, cells: Sequence[str]) -> str:
    """The cells that stand before a row's name, on the same line."""
    pairs = [(cells[i], layout.natural_widths[i], layout.columns[i].form.align) for i in range(layout.name or 0)]
    return "".join(_align_text(*pair) + " " * _GAP for pair in pairs)


def _name_lines(layout: _TableLayout, row: Sequence[str], width: int) -> Iterator[str]:
    """Yields the line of a row's name, with the text beneath it on the same line where there is room."""
    name, *rest = row[layout.name or 0].split("\n")
    start, indent = _leading_cells(layout, row), sum(width + _GAP for width in layout.natural_widths[: layout.name])
    whole = "  ".join([name, *(line.strip() for line in rest)])
    if len(start) + len(whole) <= width:
        yield start + whole
        return
    room = width - indent
    first, *more = fold_lines(name, room)
    yield start + first
    more += [part for line in rest for part in fold_lines(line, room)]
    yield from (" " * indent + part for part in more)


def _lines_side_by_side(
    layout: _TableLayout, cells: Sequence[str], widths: Sequence[int], bottom: bool = False
) -> Iterator[str]:
    """Yields the lines of cells beside each other. They start on one line, or with `bottom` (headings) end on one."""
    aligns = [column.form.align for column in layout.columns]
    columns = [
        fold_lines(cells[i], widths[i]) if aligns[i] == "left" else cells[i].split("\n")
        for i in layout.side_by_side_columns
    ]
    height = max(map(len, columns), default=0)
    for number in range(height):
        parts = []
        for i, lines in zip(layout.side_by_side_columns, columns, strict=True):
            at = number - (height - len(lines)) * bottom
            parts.append(_align_text(lines[at] if 0 <= at < len(lines) else "", widths[i], aligns[i]))
        yield (" " * layout.indent + (" " * _GAP).join(parts)).rstrip()


def _align_text(text: str, width: int, align: str) -> str:
    return {"left": text.ljust, "right": text.rjust, "center": text.center}[align](width)


def fold_lines(text: str, width: int) -> list[str]:
    """Breaks a text into lines of at most `width` characters. Continued lines keep the indent of theirs."""
    return [part for line in text.split("\n") for part in _folded_line(line, width)]


def _longest_part(text: str) -> int:
    """The smallest width that breaks no word of a text, with the margins of its lines."""
    lines = ((len(line) - len(line.lstrip()), _breakable_parts(line)) for line in text.split("\n"))
    return max((margin + max((len(part) for part, _ in parts), default=0) for margin, parts in lines), default=0)


def _folded_line(line: str, width: int) -> Iterator[str]:
    width = max(width, 1)  # what stands before a row's name may leave it no room
    margin = line[: len(line) - len(line.lstrip())]
    current, blank = margin, ""
    for part, follows in _breakable_parts(line.strip()):
        if current.strip() and len(current) + len(blank) + len(part) > width:
            yield current
            current, blank = margin, ""
        current += blank + part
        while len(current) > width:  # one part alone is wider than the line
            yield current[:width]
            current = margin * (len(margin) < width) + current[width:]
        blank = follows
    yield current


def _breakable_parts(text: str) -> Iterator[tuple[str, str]]:
    """Yields the parts that a text may be broken into, each with the blank after it, if any."""
    for word in text.split(" "):
        *parts, last = [part for part in _PARTS.findall(word) if part] or [""]
        yield from ((part, "") for part in parts)
        yield last, " "
