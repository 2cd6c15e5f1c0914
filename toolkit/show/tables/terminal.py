"""A Table as text for a terminal of any width, with the notes on what is shown."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import Any

from toolkit.show.tables.table_content import TableContent, notes_on
from toolkit.show.tables.terminal_layout import GAP, Fitted, Layout, fits, folded

Line = tuple[str, str]
"""A line and the style of rich that it is printed in."""


def as_terminal_text(table: TableContent, width: int, color: bool) -> str:
    """The table with its notes as text of at most `width` characters a line, where that is possible."""
    from rich.console import Console, Group
    from rich.text import Text

    fitted, lines = min(((one, list(_lines(table, one.layout, width))) for one in fits(table, width)), key=_height)
    known = [column for column in table.columns if column.name not in fitted.hidden]
    empty = [column for column in known if column.name in fitted.empty]
    shown = [column for column in known if column.name not in fitted.empty]
    above, below = (notes_on(notes, shown, empty) for notes in (table.above, table.below))
    if fitted.hidden:
        below = (*below, f"Columns hidden at this width: {', '.join(fitted.hidden)}.")
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


def _height(shown: tuple[Fitted, list[Line]]) -> int:
    return len(shown[1])


def _lines(table: TableContent, layout: Layout, width: int) -> Iterator[Line]:
    widths = layout.widths(width)
    if layout.headed:
        yield from ((line, "bold") for line in _heads(layout, widths))
    else:
        yield from ((line, "bold") for line in _side_by_side(layout, layout.heads, widths, bottom=True))
    yield "─" * _width(layout, widths), ""
    for number, row in enumerate(layout.rows):
        style = "bold" if number in table.strong else "dim" if number in table.faint else ""
        if layout.headed:
            yield from ((line, style) for line in _name_lines(layout, row, width))
        yield from ((line, style) for line in _side_by_side(layout, row, widths))


def _heads(layout: Layout, widths: Sequence[int]) -> Iterator[str]:
    """The headings of the row's name, then those of the cells beneath it."""
    yield _before(layout, layout.heads) + layout.heads[layout.name or 0]
    yield from _side_by_side(layout, layout.heads, widths, bottom=True)


def _before(layout: Layout, cells: Sequence[str]) -> str:
    """The cells before a row's name, on its line."""
    natural = layout.natural
    return "".join(
        _aligned(cells[i], natural[i], layout.columns[i].form.align) + " " * GAP for i in range(layout.name or 0)
    )


def _name_lines(layout: Layout, row: Sequence[str], width: int) -> Iterator[str]:
    """A row's name over its cells, with what belongs beneath it on the same line where there is room."""
    name, *rest = row[layout.name or 0].split("\n")
    start, indent = _before(layout, row), " " * layout.name_indent
    whole = "  ".join([name, *(line.strip() for line in rest)])
    if len(start) + len(whole) <= width:
        yield start + whole
        return
    room = width - len(indent)
    first, *more = folded(name, room)
    yield start + first
    more += [part for line in rest for part in folded(line, room)]
    yield from (indent + part for part in more)


def _side_by_side(layout: Layout, cells: Sequence[str], widths: Sequence[int], bottom: bool = False) -> Iterator[str]:
    """The lines of cells beside each other, which begin on one line, or end on one where they are headings."""
    columns = []
    for i in layout.beside:
        words = layout.columns[i].form.align == "left"
        columns.append(folded(cells[i], widths[i]) if words else cells[i].split("\n"))
    height = max(map(len, columns), default=0)
    for number in range(height):
        parts = []
        for i, lines in zip(layout.beside, columns, strict=True):
            at = number - (height - len(lines)) * bottom
            parts.append(_aligned(lines[at] if 0 <= at < len(lines) else "", widths[i], layout.columns[i].form.align))
        yield (" " * layout.indent + (" " * GAP).join(parts)).rstrip()


def _aligned(text: str, width: int, align: str) -> str:
    return {"left": text.ljust, "right": text.rjust, "center": text.center}[align](width)


def _width(layout: Layout, widths: Sequence[int]) -> int:
    return layout.indent + sum(widths[i] for i in layout.beside) + GAP * max(0, len(layout.beside) - 1)
