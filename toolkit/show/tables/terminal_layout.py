"""How a table is brought to a terminal's width: columns dropped, cells stacked, or a row's name set over its numbers.

Numbers and the ends of intervals are never broken; words are, at blanks and after the signs that part a name's settings
(`[ , =`), and inside a word only where a line is narrower than it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from toolkit.show.tables.table_content import DASH, TableColumn, TableContent

GAP = 2  # blanks between columns
SQUEEZED = 26  # a column of words asks for no less than this, or its longest part's length if that is longer

_PARTS = re.compile(r"[^\s\[,=]*[\[,=]*")
"""What a word may be broken into: a setting's name with what follows it."""


@dataclass(frozen=True)
class Layout:
    """The columns that are shown, with headings and texts, which may have several lines.

    `name`: the place of the column of words that a row is called by, None where there is none. `headed`: that column
    and those before it have lines of their own, over the row's other cells.
    """

    columns: tuple[TableColumn, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    name: int | None = None
    headed: bool = False

    @property
    def beside(self) -> range:
        """Places of the columns that stand side by side."""
        return range(self.name + 1 if self.headed and self.name is not None else 0, len(self.columns))

    @property
    def indent(self) -> int:
        """Blanks before the first of these."""
        return GAP if self.headed else 0

    @property
    def name_indent(self) -> int:
        """Blanks before a row's name, where it has lines of its own: the columns before it stand there."""
        natural = self.natural
        return sum(natural[i] + GAP for i in range(self.name or 0))

    @cached_property
    def natural(self) -> tuple[int, ...]:
        """Width that each column would take unfolded."""
        texts = zip(self.heads, *self.rows, strict=True)
        return tuple(max((len(line) for cell in column for line in cell.split("\n")), default=0) for column in texts)

    @cached_property
    def least(self) -> tuple[int, ...]:
        """Width below which a column is unreadable: words fold, numbers do not."""
        least = []
        for i, (column, width) in enumerate(zip(self.columns, self.natural, strict=True)):
            words = column.form.align == "left"
            parts = (_longest_part(cell) for cell in (self.heads[i], *(row[i] for row in self.rows)))
            least.append(min(width, max(SQUEEZED, *parts)) if words else width)
        return tuple(least)

    def needs(self) -> int:
        """The least width of a line."""
        least = self.least
        return self.indent + total([least[i] for i in self.beside])

    def widths(self, width: int) -> list[int]:
        """What each column gets: what it needs, and the columns of words share what is left."""
        widths, natural = list(self.least), self.natural
        for i in self.beside:
            spare = width - self.indent - total([widths[k] for k in self.beside])
            widths[i] += max(0, min(natural[i] - widths[i], spare))
        return widths

    def without(self, i: int) -> Layout:
        """All but one column."""
        keep = [k for k in range(len(self.columns)) if k != i]
        rows = tuple(tuple(row[k] for k in keep) for row in self.rows)
        name = None if self.name is None else self.name - (i < self.name)
        return replace(
            self,
            columns=tuple(self.columns[k] for k in keep),
            heads=tuple(self.heads[k] for k in keep),
            rows=rows,
            name=name,
        )

    def stacked(self) -> Layout:
        """Intervals under their estimates, and headings on several lines."""
        rows = tuple(tuple(cell.replace(" [", "\n[") for cell in row) for row in self.rows)
        return replace(self.with_high_heads(), rows=rows)

    def with_high_heads(self) -> Layout:
        """Headings on several lines, a word on each."""
        return replace(self, heads=tuple(head.replace(" ", "\n") for head in self.heads))


@dataclass(frozen=True)
class Fitted:
    """A layout that fits a width as far as possible, and the names of the columns that are not in it: those `hidden`
    for their width, and those that are `empty` in every row.
    """

    layout: Layout
    hidden: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()


def fits(table: TableContent, width: int) -> Iterator[Fitted]:
    """Layouts that fit, the gentlest first: as it is; stacked, without what is least needed; a row's name over its
    numbers. The last one is given even where it is too wide.

    Where `core` columns are among the columns, the layout changes before one of them is dropped; then there are two,
    of which the second may take fewer lines.
    """
    every, empty = _filled(_beneath(table))
    if every.needs() <= width:
        yield Fitted(every, empty=empty)
        return
    tries = list(_tries(every))
    for number, (layout, may_go) in enumerate(tries):
        made = _dropped(layout, width, may_go)
        if made.needs() <= width or number == len(tries) - 1:
            kept = {column.name for column in made.columns}
            yield Fitted(made, tuple(column.name for column in every.columns if column.name not in kept), empty)
            if number or len(tries) == 1:
                return


def _tries(every: Layout) -> Iterator[tuple[Layout, Callable[[TableColumn], bool]]]:
    """Layouts with what may be dropped from each, the gentlest first."""

    def spared(column: TableColumn) -> bool:
        return bool(column.drop) and not column.core

    def any_(column: TableColumn) -> bool:
        return bool(column.drop)

    headed = replace(every.with_high_heads(), headed=True)
    if every.name is not None and any(column.core for column in every.columns):
        yield every.stacked(), spared
        yield headed, spared
        yield headed.stacked(), spared
    else:
        yield every.stacked(), any_
    if every.name is not None:
        yield headed.stacked(), any_


def _dropped(layout: Layout, width: int, may_go: Callable[[TableColumn], bool]) -> Layout:
    while layout.needs() > width:
        loose = [i for i, column in enumerate(layout.columns) if may_go(column)]
        if not loose:
            break
        layout = layout.without(max(loose, key=lambda i: (not layout.columns[i].core, layout.columns[i].drop)))
    return layout


def _filled(layout: Layout) -> tuple[Layout, tuple[str, ...]]:
    """Without the columns that may be hidden where every cell is empty or a dash; and the names of these."""
    empty = []
    for i in reversed(range(len(layout.columns))):
        if layout.columns[i].if_filled and layout.rows and all(row[i] in ("", DASH) for row in layout.rows):
            empty.append(layout.columns[i].name)
            layout = layout.without(i)
    return layout, tuple(reversed(empty))


def _beneath(table: TableContent) -> Layout:
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
    name = None if words is None else kept.index(words)
    return Layout(columns, tuple(column.name for column in columns), tuple(rows), name)


def folded(text: str, width: int) -> list[str]:
    """The lines of a text, each at most so wide; what goes on in the next line is indented as the line was."""
    return [part for line in text.split("\n") for part in _folded_line(line, width)]


def _longest_part(text: str) -> int:
    """The least width that breaks none of a text's parts, with the margins of their lines."""
    lines = ((len(line) - len(line.lstrip()), pieces(line)) for line in text.split("\n"))
    return max((margin + max(map(len, parts), default=0) for margin, parts in lines), default=0)


def _folded_line(line: str, width: int) -> Iterator[str]:
    margin = line[: len(line) - len(line.lstrip())]
    current, blank = margin, ""
    for part, follows in _with_blanks(line.strip()):
        if current.strip() and len(current) + len(blank) + len(part) > width:
            yield current
            current, blank = margin, ""
        current += blank + part
        while len(current) > max(width, 1):  # one part alone is wider than the line
            yield current[:width]
            current = margin * (len(margin) < width) + current[width:]
        blank = follows
    yield current


def _with_blanks(text: str) -> Iterator[tuple[str, str]]:
    """The parts of a text, each with the blank that follows it, or nothing."""
    for word in text.split(" "):
        parts = pieces(word) or [""]
        yield from ((part, "") for part in parts[:-1])
        yield parts[-1], " "


def pieces(text: str) -> list[str]:
    """What a text may be broken into, without its blanks."""
    return [part for word in text.split() for part in _PARTS.findall(word) if part]


def total(widths: Sequence[int]) -> int:
    """Of columns side by side."""
    return sum(widths) + GAP * max(0, len(widths) - 1)
