"""A Table on a terminal of any width: squeezed, then stacked, then without its least needed columns."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.show.table_content import TableColumn, TableContent

GAP = 2  # blanks between columns
SQUEEZED = 26  # a column of words asks for no less than this, or its longest word's length if that is shorter


@dataclass(frozen=True)
class _Cells:
    """The columns that are shown, with headings and texts, which may have several lines."""

    columns: tuple[TableColumn, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def natural(self) -> list[int]:
        """Width that each column would take unfolded."""
        texts = zip(self.heads, *self.rows, strict=True)
        return [max((len(line) for cell in column for line in cell.split("\n")), default=0) for column in texts]

    def least(self) -> list[int]:
        """Width below which a column is unreadable: words fold, numbers do not."""
        least = []
        for column, width in zip(self.columns, self.natural(), strict=True):
            least.append(min(width, SQUEEZED) if column.form.align == "left" else width)
        return least

    def without(self, i: int) -> _Cells:
        keep = [k for k in range(len(self.columns)) if k != i]
        rows = tuple(tuple(row[k] for k in keep) for row in self.rows)
        return _Cells(tuple(self.columns[k] for k in keep), tuple(self.heads[k] for k in keep), rows)

    def stacked(self) -> _Cells:
        """Intervals under their estimates, and headings on several lines."""
        heads = tuple(head.replace(" ", "\n") for head in self.heads)
        return _Cells(self.columns, heads, tuple(tuple(c.replace(" [", "\n[") for c in row) for row in self.rows))


def as_terminal_text(table: TableContent, width: int, color: bool) -> str:
    """The table with its notes as text of at most `width` characters a line, where that is possible."""
    from rich.console import Console, Group
    from rich.text import Text

    cells, dropped = _fit(_beneath(table), width)
    above, below = (_explaining(notes, table, dropped) for notes in (table.above, table.below))
    if dropped:
        below.append(f"Columns hidden on this terminal: {', '.join(dropped)}.")
    parts = [Text(table.title, style="bold")] if table.title else []
    parts += [Text(note, style="yellow") for note in above]
    notes = [Text(note, style="dim") for note in below]
    out = io.StringIO()
    system: Any = "standard" if color else None
    console = Console(
        file=out, width=width, force_terminal=color, color_system=system, no_color=not color, legacy_windows=False
    )
    blank = [Text("")]
    console.print(Group(*parts, *blank * bool(parts), _grid(table, cells, width), *blank * bool(notes), *notes))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def _explaining(notes: Sequence[str], table: TableContent, dropped: Sequence[str]) -> list[str]:
    """The notes but for those on columns that are all dropped."""
    left = {column.key or column.name for column in table.columns if column.name not in dropped}
    columns = [getattr(note, "columns", ()) for note in notes]
    return [note for note, keys in zip(notes, columns, strict=True) if not keys or left & set(keys)]


def _grid(table: TableContent, cells: _Cells, width: int) -> Any:
    from rich import box
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(
        box=box.Box("    \n    \n ── \n    \n    \n    \n    \n    \n"),
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for column, head, wide in zip(cells.columns, cells.heads, _widths(cells, width), strict=True):
        align: Any = column.form.align
        grid.add_column(Text(head), justify=align, width=wide, overflow="fold", vertical="top")
    for number, row in enumerate(cells.rows):
        style = "bold" if number in table.strong else "dim" if number in table.faint else ""
        # Text, not str: to rich the brackets in a policy's name would be markup
        grid.add_row(*(Text(cell) for cell in row), style=style)
    return grid


def _beneath(table: TableContent) -> _Cells:
    """The table's texts; cells of columns marked `beneath` go under the first column of words."""
    under = [i for i, column in enumerate(table.columns) if column.beneath]
    kept = [i for i, column in enumerate(table.columns) if not column.beneath]
    words = next((i for i in kept if table.columns[i].form.align == "left"), None)
    if words is None:
        kept, under = list(range(len(table.columns))), []
    rows = []
    for row in table.texts():
        lines = [f"  {row[i]}" for i in under if row[i]]
        rows.append(tuple("\n".join([row[i], *lines]) if i == words else row[i] for i in kept))
    columns = tuple(table.columns[i] for i in kept)
    return _Cells(columns, tuple(column.name for column in columns), tuple(rows))


def _fit(cells: _Cells, width: int) -> tuple[_Cells, list[str]]:
    """Make it narrower, the gentlest way first, until it fits; also the names of the columns dropped."""

    def fits(shown: _Cells) -> bool:
        return _total(shown.least()) <= width

    if fits(cells):
        return cells, []
    cells = cells.stacked()
    before = [column.name for column in cells.columns]
    while not fits(cells):
        loose = [i for i, column in enumerate(cells.columns) if column.drop]
        if not loose:
            break
        cells = cells.without(max(loose, key=lambda i: cells.columns[i].drop))
    kept = {column.name for column in cells.columns}
    return cells, [name for name in before if name not in kept]


def _widths(cells: _Cells, width: int) -> list[int]:
    """What each column gets: what it needs, and the columns of words share what is left."""
    widths, natural = cells.least(), cells.natural()
    for i, wish in enumerate(natural):
        widths[i] += max(0, min(wish - widths[i], width - _total(widths)))
    return widths


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
