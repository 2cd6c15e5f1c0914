"""A Table as a LaTeX float that fits its page: set smaller, then stacked, then without its least needed columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from toolkit.show.latex_text import MARKS, POINTS_AN_INCH, folded, in_tex, mark, paragraph, points
from toolkit.show.table_content import DASH, TableContent, notes_on

COLUMN = 3.7
"""Inches up to which a table is as wide as a column of a two-column paper; a wider one goes across both."""
HEIGHT = 500.0
"""Points of the highest float: a page of LaTeX's own article has 550, those of conferences more."""
_AROUND = 30  # points of the caption and the rules
_SEPARATION = {10: 6.0, 9: 5.0, 8: 3.5}
"""Sizes of the font in points, the best first, each with half the points between two columns."""
_SMALL = 8
_OF_BOLD = 0.8  # letters on a bold line for those on a plain one
_LEADING = {10: 12, 9: 11, 8: 9.5}
_ROOMY, _WIDE, _TIGHT, _LEAST = 18.0, 14.0, 10.0, 6.0  # em that a column of words asks for unless it is narrower


@dataclass(frozen=True)
class _Grid:
    """The columns of `table` that are set, by place, their headings and cells, which may have several lines, and size.

    `words`: the width in em that a column of words asks for, unless it is narrower.
    """

    table: TableContent
    places: tuple[int, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    size: int
    words: float

    def natural(self) -> list[float]:
        """Points that each column takes unfolded."""
        columns = zip(self.heads, *self.rows, strict=True)
        return [max(points(line, self.size) for cell in column for line in cell.split("\n")) for column in columns]

    def least(self) -> list[float]:
        """Points that each column asks for: words are folded, numbers are not."""
        words = self.words * self.size
        return [min(w, words) if left else w for w, left in zip(self.natural(), self._left(), strict=True)]

    def total(self, widths: Sequence[float]) -> float:
        """Points of a row."""
        return sum(widths) + 2 * _SEPARATION[self.size] * (len(widths) - 1)

    def folded(self, space: float) -> _Grid:
        """The cells of words on lines of the width that there is, which is at least what they ask for."""
        widths = self.least()
        for i, wish in enumerate(self.natural()):
            widths[i] += max(0.0, min(wish - widths[i], space - self.total(widths)))
        columns = [
            ["\n".join(line for part in cell.split("\n") for line in self._lines(part, wide)) for cell in column]
            if left
            else column
            for column, wide, left in zip(zip(self.heads, *self.rows, strict=True), widths, self._left(), strict=True)
        ]
        heads, *rows = zip(*columns, strict=True)
        return _Grid(self.table, self.places, heads, tuple(rows), self.size, self.words)

    def _lines(self, text: str, space: float) -> list[str]:
        """A line of a cell on as many as it takes; all of an indented one are indented."""
        indent = "  " if text.startswith("  ") else ""
        room = space - points("m", self.size) * bool(indent)
        return [indent + line.removeprefix(indent) for line in folded(text.removeprefix(indent), room, self.size)]

    def without(self, i: int) -> _Grid:
        """All columns but one."""
        kept = [k for k in range(len(self.places)) if k != i]
        rows = tuple(tuple(row[k] for k in kept) for row in self.rows)
        places, heads = tuple(self.places[k] for k in kept), tuple(self.heads[k] for k in kept)
        return _Grid(self.table, places, heads, rows, self.size, self.words)

    def _left(self) -> list[bool]:
        return [self.table.columns[place].form.align == "left" for place in self.places]


def as_latex(table: TableContent, label: str, width: float) -> str:
    """A float with the title as caption, booktabs rules and the notes below, no line of it wider than `width` inches.

    Its first line says which packages it needs. Columns for which there was no room are named in a note. Where its rows
    are more than a page holds, several floats follow each other under one number.
    """
    space = POINTS_AN_INCH * width
    grid = _fitting(table, space).folded(space)
    kept = [table.columns[place] for place in grid.places]
    beneath = [column for column in table.columns if column.beneath]
    gone = [column.name for column in table.columns if column not in kept and column not in beneath]
    above, below = (_printed(notes_on(notes, [*kept, *beneath])) for notes in (table.above, table.below))
    below = [*(f"{sign} {text}." for text, sign in _marks(table).items()), *below]
    below += [f"Left out, since the page is narrow: {'; '.join(gone)}."] if gone else []
    parts = _parts(grid, *(_height(notes, space) for notes in (above, below)))
    floats = []
    for number, rows in enumerate(parts):
        title = f"{table.title} (continued)" if number and table.title else table.title
        floats += [
            rf"\begin{{{'table' if width <= COLUMN else 'table*'}}}",
            r"\centering",
            *([r"\addtocounter{table}{-1}"] if number and title else []),
            *([rf"\caption{{{paragraph(title, space, 10)}}}"] if title else []),
            *([rf"\label{{{label}}}"] if label and not number else []),
            *(_notes(above, space, bold=True) if not number else []),
            *_tabular(grid, rows),
            *(_notes(below, space) if number == len(parts) - 1 else []),
            rf"\end{{{'table' if width <= COLUMN else 'table*'}}}",
        ]
    text = "\n".join(floats)
    euro = r" and, for the euro, \usepackage{textcomp}" if r"\texteuro" in text else ""
    return rf"% needs \usepackage{{booktabs}}{euro} in the preamble; fits {width:.4g} inches" + f"\n{text}\n"


def _printed(notes: Sequence[str]) -> list[str]:
    """Notes as a paper's readers can use them."""
    told = (str(note) if (paper := getattr(note, "paper", None)) is None else paper for note in notes)
    return [note for note in told if note]


def _parts(grid: _Grid, above: float, below: float) -> list[range]:
    """The rows of each float, so that none is higher than a page; `above` and `below` are points of the notes."""
    leading = _LEADING[grid.size]
    heads, *heights = (leading * _height_of(row) + 2 for row in (grid.heads, *grid.rows))
    room = HEIGHT - heads - _AROUND
    parts, start = list[range](), 0
    while start < len(heights):
        left, stop = room - above * (start == 0), start + 1
        while stop < len(heights) and sum(heights[start : stop + 1]) <= left:
            stop += 1
        if stop == len(heights) and sum(heights[start:]) + below > left:
            fits = (k for k in range(start + 1, stop) if sum(heights[k:]) + below <= room)
            stop = next(fits, max(start + 1, stop - 1))
        parts.append(range(start, stop))
        start = stop
    return parts or [range(0)]


def _height_of(row: Sequence[str]) -> int:
    """Lines of a row."""
    return max(cell.count("\n") + 1 for cell in row)


def _height(notes: Sequence[str], space: float) -> float:
    """Points of notes on lines of `space` points."""
    return sum(_LEADING[_SMALL] * (1 + points(note, _SMALL) // space) for note in notes)


def _tabular(grid: _Grid, rows: range) -> Iterator[str]:
    """The heading and some of the rows."""
    aligns = "".join(grid.table.columns[place].form.align[0] for place in grid.places)
    yield rf"\fontsize{{{grid.size}}}{{{_LEADING[grid.size]:g}}}\selectfont"
    yield rf"\setlength{{\tabcolsep}}{{{_SEPARATION[grid.size]:g}pt}}"
    yield rf"\begin{{tabular}}{{@{{}}{aligns}@{{}}}}"
    yield r"\toprule"
    yield from _lines(grid.heads)
    yield r"\midrule"
    apart = any(_height_of(row) > 1 for row in grid.rows)
    for number in rows:
        if apart and number > rows.start:
            yield r"\addlinespace[2pt]"
        yield from _lines(grid.rows[number])
    yield r"\bottomrule"
    yield r"\end{tabular}\par"


def _lines(row: Sequence[str]) -> Iterator[str]:
    r"""The lines of a row: the cells' first lines, their second lines …; none begins as an argument of a `\\` above."""
    parts = [cell.split("\n") for cell in row]
    for number in range(max(map(len, parts))):
        cells = [_cell(part[number]) if number < len(part) else "" for part in parts]
        line = " & ".join(cells)
        yield ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"


def _cell(line: str) -> str:
    return rf"\quad {in_tex(line[2:])}" if line.startswith("  ") else in_tex(line)


def _notes(notes: Sequence[str], space: float, bold: bool = False) -> list[str]:
    """Notes in small print, a paragraph each, as wide as the float."""
    if not notes:
        return []
    made = [paragraph(note, (_OF_BOLD if bold else 1.0) * space, _SMALL) for note in notes]
    lines = [rf"\textbf{{{note}}}" if bold else note for note in made]
    start = r"\begin{minipage}{\linewidth}\fontsize{8}{9.5}\selectfont\raggedright\smallskip"
    return [start, *(f"{line}\\par" for line in lines), r"\smallskip\end{minipage}\par"]


def _fitting(table: TableContent, space: float) -> _Grid:
    """The gentlest way to fit: smaller, headings on lines, intervals below estimates, fewer columns."""
    stages = list(_stages(table, _TIGHT if space <= POINTS_AN_INCH * COLUMN else _WIDE))
    for grid in stages:
        if grid.total(grid.least()) <= space:
            return grid
    grid = stages[-1]
    while len(grid.places) > 1 and grid.total(grid.least()) > space:
        columns = [table.columns[place] for place in grid.places]
        drops = [(column.drop > 0, not column.core, column.drop) for column in columns]
        words = grid._left().index(True) if True in grid._left() else 0
        loose = [i for i in range(len(drops)) if i != words]
        grid = grid.without(max(loose, key=lambda i: (drops[i], i)))
    return grid


def _words(table: TableContent) -> int | None:
    """The place of the first column of words with a column of its own."""
    return next((i for i, c in enumerate(table.columns) if c.form.align == "left" and not c.beneath), None)


def _marks(table: TableContent) -> dict[str, str]:
    """Remarks, which stand below the table, each with the mark beside the words that it is about."""
    if _words(table) is None:
        return {}
    under = [i for i, column in enumerate(table.columns) if column.beneath]
    found = dict.fromkeys(row[i] for row in table.texts() for i in under if row[i] not in ("", DASH))
    return {text: mark(number) for number, text in enumerate(list(found)[:MARKS])}


def _stages(table: TableContent, tight: float) -> Iterator[_Grid]:
    words, marks = _words(table), _marks(table)
    places = [i for i, column in enumerate(table.columns) if words is None or not column.beneath]
    under = [i for i in range(len(table.columns)) if i not in places]
    rows = [
        tuple(row[i] + "".join(marks.get(row[k], "") for k in under) if i == words else row[i] for i in places)
        for row in table.texts()
    ]
    heads = tuple(table.columns[i].name for i in places)
    high = tuple(head.replace(" ", "\n") for head in heads)
    stacked = tuple(tuple(cell.replace(" [", "\n[") for cell in row) for row in rows)
    asked = all(c.core for i, c in enumerate(table.columns) if i != words and not c.beneath)
    pressed = [(high, stacked, (8,), _LEAST)] if asked else []  # before a column that was asked for goes
    for shown, made, sizes, room in (
        (heads, tuple(rows), (10, 9, 8), _ROOMY),
        (high, tuple(rows), (9, 8), _ROOMY),
        (high, stacked, (9, 8), tight),
        *pressed,
    ):
        for size in sizes:
            yield _Grid(table, tuple(places), shown, made, size, room)
