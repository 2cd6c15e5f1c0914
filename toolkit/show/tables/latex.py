"""A Table as a LaTeX float that fits its page: set smaller, then stacked, then without its least needed columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from toolkit.show.tables.in_print import in_print
from toolkit.show.tables.latex_text import MARKS, POINTS_AN_INCH, folded, in_tex, mark, paragraph, points
from toolkit.show.tables.table_content import DASH, TableContent, notes_on

COLUMN = 3.7
"""Inches up to which a table is as wide as a column of a two-column paper; a wider one goes across both."""
DECIMAL = re.compile(r"[+−]?\d+\.\d+")
"""A number that siunitx aligns at its point."""
HEIGHT = 500.0
"""Points of the highest float: a page of LaTeX's own article has 550, those of conferences more."""
AROUND = 30  # points of the caption and the rules
SEPARATION = {10: 6.0, 9: 5.0, 8: 3.5}
"""Sizes of the font in points, the best first, each with half the points between two columns."""
_SMALL = 8
_OF_BOLD = 0.8  # letters on a bold line for those on a plain one
LEADING = {10: 12, 9: 11, 8: 9.5}
_ROOMY, WIDE, TIGHT, LEAST = 18.0, 14.0, 10.0, 6.0  # em that a column of words asks for unless it is narrower


@dataclass(frozen=True)
class Grid:
    """The columns of `table` that are set, by place, their headings and cells, which may have several lines, and size.

    `words`: the width in em that a column of words asks for, unless it is narrower.
    """

    table: TableContent
    places: tuple[int, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    size: int
    words: float

    @cached_property
    def natural(self) -> tuple[float, ...]:
        """Points that each column takes unfolded."""
        columns = zip(self.heads, *self.rows, strict=True)
        return tuple(max(points(line, self.size) for cell in column for line in cell.split("\n")) for column in columns)

    @cached_property
    def least(self) -> tuple[float, ...]:
        """Points that each column asks for: words are folded, numbers are not."""
        words = self.words * self.size
        return tuple(min(w, words) if left else w for w, left in zip(self.natural, self.left(), strict=True))

    def total(self, widths: Sequence[float]) -> float:
        """Points of a row."""
        return sum(widths) + 2 * SEPARATION[self.size] * (len(widths) - 1)

    def folded(self, space: float) -> Grid:
        """The cells of words on lines of the width that there is, which is at least what they ask for."""
        widths = list(self.least)
        for i, wish in enumerate(self.natural):
            widths[i] += max(0.0, min(wish - widths[i], space - self.total(widths)))
        columns = [
            ["\n".join(line for part in cell.split("\n") for line in self._lines(part, wide)) for cell in column]
            if left
            else column
            for column, wide, left in zip(zip(self.heads, *self.rows, strict=True), widths, self.left(), strict=True)
        ]
        heads, *rows = zip(*columns, strict=True)
        return Grid(self.table, self.places, heads, tuple(rows), self.size, self.words)

    def _lines(self, text: str, space: float) -> list[str]:
        """A line of a cell on as many as it takes; all of an indented one are indented."""
        indent = "  " if text.startswith("  ") else ""
        room = space - points("m", self.size) * bool(indent)
        return [indent + line.removeprefix(indent) for line in folded(text.removeprefix(indent), room, self.size)]

    def without(self, i: int) -> Grid:
        """All columns but one."""
        return self.only([k for k in range(len(self.places)) if k != i])

    def only(self, kept: Sequence[int]) -> Grid:
        """Some columns."""
        rows = tuple(tuple(row[k] for k in kept) for row in self.rows)
        places, heads = tuple(self.places[k] for k in kept), tuple(self.heads[k] for k in kept)
        return Grid(self.table, places, heads, rows, self.size, self.words)

    def left(self) -> list[bool]:
        """Which columns are of words."""
        return [self.table.columns[place].form.align == "left" for place in self.places]


def as_latex(table: TableContent, label: str, width: float) -> str:
    """A float with the title as caption, booktabs rules and the notes below, no line of it wider than `width` inches.

    Its first line says which packages it needs. Columns for which there was no room are named in a note. Where its rows
    are more than a page holds, several floats follow each other under one number.
    """
    space, table = POINTS_AN_INCH * width, in_print(table)
    grid = _fitting(table, space).folded(space)
    kept = [table.columns[place] for place in grid.places]
    beneath = [column for column in table.columns if column.beneath]
    gone = [column.name for column in table.columns if column not in kept and column not in beneath]
    above, below = (printed(notes_on(notes, [*kept, *beneath])) for notes in (table.above, table.below))
    below = [*(f"{sign} {text}." for text, sign in marks_of(table).items()), *below]
    below += [f"Left out, since the page is narrow: {'; '.join(gone)}."] if gone else []
    parts = page_parts(grid, *(height_of_notes(notes, space) for notes in (above, below)))
    floats = []
    for number, rows in enumerate(parts):
        title = f"{table.title} (continued)" if number and table.title else table.title
        floats += [
            rf"\begin{{{'table' if width <= COLUMN else 'table*'}}}",
            r"\centering",
            *([r"\addtocounter{table}{-1}"] if number and title else []),
            *([rf"\caption{{{paragraph(title, space, 10)}}}"] if title else []),
            *([rf"\label{{{label}}}"] if label and not number else []),
            *(small_print(above, space, bold=True) if not number else []),
            *tabular(grid, rows),
            *(small_print(below, space) if number == len(parts) - 1 else []),
            rf"\end{{{'table' if width <= COLUMN else 'table*'}}}",
        ]
    text = "\n".join(floats)
    euro = r" and, for the euro, \usepackage{textcomp}" if r"\texteuro" in text else ""
    return rf"% needs \usepackage{{booktabs}}{euro} in the preamble; fits {width:.4g} inches" + f"\n{text}\n"


def printed(notes: Sequence[str]) -> list[str]:
    """Notes as a paper's readers can use them."""
    told = (str(note) if (paper := getattr(note, "paper", None)) is None else paper for note in notes)
    return [note for note in told if note]


def height_of_rows(grid: Grid, rows: range) -> float:
    """Points of some rows under their heading."""
    return sum(LEADING[grid.size] * _height_of(row) + 2 for row in (grid.heads, *(grid.rows[i] for i in rows)))


def page_parts(grid: Grid, above: float, below: float) -> list[range]:
    """The rows of each float, so that none is higher than a page; `above` and `below` are points of the notes."""
    leading = LEADING[grid.size]
    heads, *heights = (leading * _height_of(row) + 2 for row in (grid.heads, *grid.rows))
    room = HEIGHT - heads - AROUND
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


def height_of_notes(notes: Sequence[str], space: float) -> float:
    """Points of notes on lines of `space` points."""
    return sum(LEADING[_SMALL] * (1 + points(note, _SMALL) // space) for note in notes)


def tabular(grid: Grid, rows: range, aligns: Sequence[str] = ()) -> Iterator[str]:
    """The heading and some of the rows; `aligns` are the columns' in place of those of their forms."""
    aligns = aligns or [grid.table.columns[place].form.align[0] for place in grid.places]
    yield rf"\fontsize{{{grid.size}}}{{{LEADING[grid.size]:g}}}\selectfont"
    yield rf"\setlength{{\tabcolsep}}{{{SEPARATION[grid.size]:g}pt}}"
    yield rf"\begin{{tabular}}{{@{{}}{''.join(aligns)}@{{}}}}"
    yield r"\toprule"
    yield from _lines(grid.heads, aligns)
    yield r"\midrule"
    apart = any(_height_of(row) > 1 for row in grid.rows)
    for number in rows:
        if apart and number > rows.start:
            yield r"\addlinespace[2pt]"
        yield from _lines(grid.rows[number], aligns)
    yield r"\bottomrule"
    yield r"\end{tabular}\par"


def _lines(row: Sequence[str], aligns: Sequence[str]) -> Iterator[str]:
    r"""The lines of a row: the cells' first lines, their second lines …; none begins as an argument of a `\\` above."""
    parts = [cell.split("\n") for cell in row]
    for number in range(max(map(len, parts))):
        pairs = zip(parts, aligns, strict=True)
        cells = [_cell(part[number], align) if number < len(part) else "" for part, align in pairs]
        line = " & ".join(cells)
        yield ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"


def _cell(line: str, align: str) -> str:
    if align.startswith("S"):
        return line.replace("−", "-") if DECIMAL.fullmatch(line) else f"{{{in_tex(line)}}}"
    return rf"\quad {in_tex(line[2:])}" if line.startswith("  ") else in_tex(line)


def small_print(notes: Sequence[str], space: float, bold: bool = False) -> list[str]:
    """Notes in small print, a paragraph each, as wide as the float."""
    if not notes:
        return []
    made = [paragraph(note, (_OF_BOLD if bold else 1.0) * space, _SMALL) for note in notes]
    lines = [rf"\textbf{{{note}}}" if bold else note for note in made]
    start = r"\begin{minipage}{\linewidth}\fontsize{8}{9.5}\selectfont\raggedright\smallskip"
    return [start, *(f"{line}\\par" for line in lines), r"\smallskip\end{minipage}\par"]


def _fitting(table: TableContent, space: float) -> Grid:
    """The gentlest way to fit: smaller, headings on lines, intervals below estimates, fewer columns."""
    tried = list(stages(table, TIGHT if space <= POINTS_AN_INCH * COLUMN else WIDE))
    for grid in tried:
        if grid.total(grid.least) <= space:
            return grid
    grid = tried[-1]
    while len(grid.places) > 1 and grid.total(grid.least) > space:
        columns = [table.columns[place] for place in grid.places]
        drops = [(column.drop > 0, not column.core, column.drop) for column in columns]
        words = grid.left().index(True) if True in grid.left() else 0
        loose = [i for i in range(len(drops)) if i != words]
        grid = grid.without(max(loose, key=lambda i: (drops[i], i)))
    return grid


def words_of(table: TableContent) -> int | None:
    """The place of the first column of words with a column of its own."""
    return next((i for i, c in enumerate(table.columns) if c.form.align == "left" and not c.beneath), None)


def marks_of(table: TableContent) -> dict[str, str]:
    """Remarks, which stand below the table, each with the mark beside the words that it is about."""
    if words_of(table) is None:
        return {}
    under = [i for i, column in enumerate(table.columns) if column.beneath]
    found = dict.fromkeys(row[i] for row in table.texts() for i in under if row[i] not in ("", DASH))
    return {text: mark(number) for number, text in enumerate(list(found)[:MARKS])}


def stages(table: TableContent, tight: float) -> Iterator[Grid]:
    """Ways to set the whole table, the gentlest first; `tight` is the em of a column of words in the last ones."""
    words, marks = words_of(table), marks_of(table)
    places = [i for i, column in enumerate(table.columns) if words is None or not column.beneath]
    under = [i for i in range(len(table.columns)) if i not in places]
    stacks = [column.form.stacks for column in table.columns]
    texts = [
        [cell.replace(sign, f"\n{sign[1:]}") if sign else cell for cell, sign in zip(row, stacks, strict=True)]
        for row in table.texts()
    ]
    rows = [
        tuple(row[i] + "".join(marks.get(row[k], "") for k in under) if i == words else row[i] for i in places)
        for row in texts
    ]
    heads = tuple(table.columns[i].name for i in places)
    high = tuple(head.replace(" ", "\n") for head in heads)
    stacked = tuple(tuple(cell.replace(" [", "\n[") for cell in row) for row in rows)
    asked = all(c.core for i, c in enumerate(table.columns) if i != words and not c.beneath)
    pressed = [(high, stacked, (8,), LEAST)] if asked else []  # before a column that was asked for goes
    for shown, made, sizes, room in (
        (heads, tuple(rows), (10, 9, 8), _ROOMY),
        (high, tuple(rows), (9, 8), _ROOMY),
        (high, stacked, (9, 8), tight),
        *pressed,
    ):
        for size in sizes:
            yield Grid(table, tuple(places), shown, made, size, room)
