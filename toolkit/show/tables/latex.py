"""A Table as LaTeX floats that fit their page, under one number.

A table is set smaller, then with headings on several lines, then with intervals below their estimates. Columns that
still have no room are left out, or, of a whole table, stand in further parts below: each part has the columns that
tell its rows apart, and siunitx aligns numbers at their points. Where a page has no room for all rows, further floats
follow.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from toolkit.show.tables.latex_text import MARKS, POINTS_AN_INCH, as_tex, fold_lines, note_mark, paragraph, point_width
from toolkit.show.tables.table_content import DASH, Form, TableColumn, TableContent, notes_on

COLUMN = 3.7
"""Inches up to which a table is as wide as a column of a two-column paper; a wider one goes across both."""
HEIGHT = 500.0
"""Points of the highest float: a page of LaTeX's own article has 550, those of conferences more."""
WAITING = 12
"""Floats after which a page is ended: LaTeX holds as many as 18 before it has a place for them."""
PUBLISHED = "in parentheses: published"
_DECIMAL = re.compile(r"[+−]?\d+\.\d+")
"""Pattern of a number that siunitx aligns at its decimal point."""
_NUMBERED = re.compile(r"Table ([\w.]+): (.*)")
_MARGIN = 30  # points of the caption and the rules
_BETWEEN = 8  # points between two parts
_SEPARATION = {10: 6.0, 9: 5.0, 8: 3.5}
"""Sizes of the font in points, the best first, each with half the points between two columns."""
_LEADING = {10: 12, 9: 11, 8: 9.5}
_SMALL = 8
_OF_BOLD = 0.8  # letters on a bold line for those on a plain one
_ROOMY, _WIDE, _TIGHT, _LEAST = 18.0, 14.0, 10.0, 6.0  # em that a column of words asks for unless it is narrower
T = TypeVar("T", bound=TableContent)


def as_latex(table: TableContent, label: str, width: float, whole: bool = False) -> str:
    """The table as LaTeX floats with caption, booktabs rules and the notes below, at most `width` inches wide.

    Their first line says which packages they need. Columns for which there was no room are named in a note; a `whole`
    table has all.
    """
    space, table = POINTS_AN_INCH * width, _printed_table(table)
    grids = [grid.fold_words(space) for grid in _choose_grids(table, space, whole)]
    printed = {place for grid in grids for place in grid.places}
    columns = [column for place, column in enumerate(table.columns) if place in printed or column.beneath]
    left_out = [column.name for column in table.columns if column not in columns]
    above, below = (_paper_notes(notes if whole else notes_on(notes, columns)) for notes in (table.above, table.below))
    below = [*(f"{sign} {text}." for text, sign in _row_marks(table).items()), *below]
    below += [f"Left out, since the page is narrow: {'; '.join(left_out)}."] if left_out else []
    caption = table.title
    if whole and (known := _NUMBERED.fullmatch(caption)):
        caption = f"{known[2]}; as table {known[1]}"  # the paper has a number of its own
    floats = _pack_floats(grids, *(_height_of_notes(notes, space) for notes in (above, below)))
    kind = "table" if width <= COLUMN else "table*"
    lines: list[str] = []
    for number, parts in enumerate(floats):
        title = f"{caption} (continued)" if number and caption else caption
        lines += [
            rf"\begin{{{kind}}}",
            r"\centering",
            *([r"\addtocounter{table}{-1}"] if number and title else []),
            *([rf"\caption{{{paragraph(title, space, 10)}}}"] if title else []),
            *([rf"\label{{{label}}}"] if label and not number else []),
            *(_small_print(above, space, bold=True) if not number else []),
        ]
        for place, (grid, rows) in enumerate(parts):
            lines += [*[r"\medskip"] * bool(place), *_tabular_lines(grid, rows, at_points=whole)]
        lines += [*(_small_print(below, space) if number == len(floats) - 1 else []), rf"\end{{{kind}}}"]
        lines += [r"\clearpage"] if whole and number % WAITING == WAITING - 1 else []
    text = "\n".join(lines)
    needs = [r"\usepackage{booktabs}", *[r"\usepackage{siunitx}"] * ("S[table-format" in text)]
    if r"\texteuro" in text:
        needs += [*["and, for the euro,"] * (not whole), r"\usepackage{textcomp}"]
    return f"% needs {' '.join(needs)} in the preamble; fits {width:.4g} inches\n{text}\n"


def _paper_notes(notes: Sequence[str]) -> list[str]:
    texts = (str(note) if (paper := getattr(note, "paper", None)) is None else paper for note in notes)
    return [note for note in texts if note]


@dataclass(frozen=True)
class _ValueOverPublished(Form):
    """The form of a cell with our value and, in parentheses on a second line, the published one."""

    stacks: ClassVar[str] = " ("

    ours_form: Form
    published_form: Form

    @property
    def align(self) -> str:  # type: ignore[override]
        return self.ours_form.align

    def show(self, value: tuple[Any, Any]) -> str:
        ours, published = value
        text = DASH if ours is None else self.ours_form.show(ours)
        return text if published is None else f"{text} ({self.published_form.show(published)})"


def _printed_table(table: T) -> T:
    """The table as printed: without columns that are not `printed`; a column `under` another joins that one's cells."""
    places = {column.key: i for i, column in enumerate(table.columns) if column.key and not column.under}
    beneath = {places[c.under]: i for i, c in enumerate(table.columns) if c.under in places}
    printed = [
        i for i, c in enumerate(table.columns) if c.under not in places and (c.printed or c.core)
    ]  # what was asked for is printed

    def column(place: int) -> TableColumn:
        under = beneath.get(place)
        one = table.columns[place]
        return one if under is None else replace(one, form=_ValueOverPublished(one.form, table.columns[under].form))

    def cell(row: Sequence[Any], place: int) -> Any:
        if place not in beneath:
            return row[place]
        pair = row[place], row[beneath[place]]
        return None if pair == (None, None) else pair

    return replace(
        table,
        columns=tuple(map(column, printed)),
        rows=tuple(tuple(cell(row, i) for i in printed) for row in table.rows),
        below=(*table.below, PUBLISHED) if beneath else table.below,
    )


@dataclass(frozen=True)
class _TypesetGrid:
    """A table as it is typeset: its columns by place, their headings and cells in lines of text, and the font size.

    `words`: the width in em that a column of words asks for, unless it is narrower.
    """

    table: TableContent
    places: tuple[int, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    size: int
    words: float

    @cached_property
    def natural_widths(self) -> tuple[float, ...]:
        """The width of each column without line breaks, in points."""
        columns = zip(self.heads, *self.rows, strict=True)
        return tuple(
            max(point_width(line, self.size) for cell in column for line in cell.split("\n")) for column in columns
        )

    @cached_property
    def least_widths(self) -> tuple[float, ...]:
        """The smallest width of each column in points. Words may be folded, numbers may not."""
        words = self.words * self.size
        return tuple(
            min(w, words) if left else w for w, left in zip(self.natural_widths, self.is_left_aligned(), strict=True)
        )

    def total_width(self, widths: Sequence[float]) -> float:
        """The width in points of a row of columns with these widths."""
        return sum(widths) + 2 * _SEPARATION[self.size] * (len(widths) - 1)

    def fits_line(self, space: float) -> bool:
        """Whether the columns at their least widths fit on a line of `space` points."""
        return self.total_width(self.least_widths) <= space

    def height_of_rows(self, rows: range) -> float:
        """The height in points of some rows with their heading."""
        return self.height_of(self.heads) + sum(self.height_of(self.rows[i]) for i in rows)

    def height_of(self, row: Sequence[str]) -> float:
        """The height of a row in points."""
        return _LEADING[self.size] * _count_lines(row) + 2

    def fold_words(self, space: float) -> _TypesetGrid:
        """The grid with its columns of words folded to a line of `space` points."""
        widths = list(self.least_widths)
        for i, wish in enumerate(self.natural_widths):
            widths[i] += max(0.0, min(wish - widths[i], space - self.total_width(widths)))
        columns = [
            ["\n".join(line for part in cell.split("\n") for line in self._row_lines(part, wide)) for cell in column]
            if left
            else column
            for column, wide, left in zip(
                zip(self.heads, *self.rows, strict=True), widths, self.is_left_aligned(), strict=True
            )
        ]
        heads, *rows = zip(*columns, strict=True)
        return replace(self, heads=heads, rows=tuple(rows))

    def _row_lines(self, text: str, space: float) -> list[str]:
        """The lines into which a cell's line folds at a width. Lines of an indented one are indented."""
        indent = "  " if text.startswith("  ") else ""
        room = space - point_width("m", self.size) * bool(indent)
        return [indent + line.removeprefix(indent) for line in fold_lines(text.removeprefix(indent), room, self.size)]

    def only_columns(self, columns: Sequence[int]) -> _TypesetGrid:
        rows = tuple(tuple(row[k] for k in columns) for row in self.rows)
        places, heads = tuple(self.places[k] for k in columns), tuple(self.heads[k] for k in columns)
        return replace(self, places=places, heads=heads, rows=rows)

    def is_left_aligned(self) -> list[bool]:
        """Whether each column holds words and so is aligned to the left."""
        return [self.table.columns[place].form.align == "left" for place in self.places]


def _count_lines(row: Sequence[str]) -> int:
    return max(cell.count("\n") + 1 for cell in row)


def _choose_grids(table: TableContent, space: float, whole: bool) -> list[_TypesetGrid]:
    """The grids in which the table is typeset: the first layout that fits. Else the least needed columns are dropped,
    or the columns are split into several grids.
    """
    tried = list(_layout_stages(table, _TIGHT if space <= POINTS_AN_INCH * COLUMN else _WIDE))
    fitting = next((grid for grid in tried if grid.fits_line(space)), None)
    if fitting is not None:
        return [fitting]
    return _split_columns(tried[-1], space) if whole else [_drop_columns(tried[-1], space)]


def _layout_stages(table: TableContent, tight: float) -> Iterator[_TypesetGrid]:
    """Yields layouts of the whole table from the widest on. `tight`: em of a column of words in the last ones."""
    words, marks = _first_word_column(table), _row_marks(table)
    places = [i for i, column in enumerate(table.columns) if words is None or not column.beneath]
    under = [i for i in range(len(table.columns)) if i not in places]
    stacks = [column.form.stacks for column in table.columns]
    texts = [
        [cell.replace(sign, f"\n{sign[1:]}") if sign else cell for cell, sign in zip(row, stacks, strict=True)]
        for row in table.texts()
    ]
    rows = tuple(
        tuple(row[i] + "".join(marks.get(row[k], "") for k in under) if i == words else row[i] for i in places)
        for row in texts
    )
    heads = tuple(table.columns[i].name for i in places)
    high = tuple(head.replace(" ", "\n") for head in heads)
    stacked = tuple(tuple(cell.replace(" [", "\n[") for cell in row) for row in rows)
    core = all(c.core for i, c in enumerate(table.columns) if i != words and not c.beneath)
    pressed = [(high, stacked, (8,), _LEAST)] if core else []  # before a column that was asked for goes
    for titles, cells, sizes, room in (
        (heads, rows, (10, 9, 8), _ROOMY),
        (high, rows, (9, 8), _ROOMY),
        (high, stacked, (9, 8), tight),
        *pressed,
    ):
        for size in sizes:
            yield _TypesetGrid(table, tuple(places), titles, cells, size, room)


def _first_word_column(table: TableContent) -> int | None:
    """The index of the first column of words that stands in a column of its own."""
    return next((i for i, c in enumerate(table.columns) if c.form.align == "left" and not c.beneath), None)


def _row_marks(table: TableContent) -> dict[str, str]:
    """The remarks that move below the table, each with the mark that its row gets."""
    if _first_word_column(table) is None:
        return {}
    under = [i for i, column in enumerate(table.columns) if column.beneath]
    texts = dict.fromkeys(row[i] for row in table.texts() for i in under if row[i] not in ("", DASH))
    return {text: note_mark(number) for number, text in enumerate(list(texts)[:MARKS])}


def _drop_columns(grid: _TypesetGrid, space: float) -> _TypesetGrid:
    """The grid without its least needed columns, as many as must be dropped for it to fit."""
    while len(grid.places) > 1 and not grid.fits_line(space):
        columns = [grid.table.columns[place] for place in grid.places]
        words = grid.is_left_aligned().index(True) if True in grid.is_left_aligned() else 0
        loose = [i for i in range(len(columns)) if i != words]
        least = max(loose, key=lambda i: (columns[i].drop > 0, not columns[i].core, columns[i].drop, i))
        grid = grid.only_columns([k for k in range(len(columns)) if k != least])
    return grid


def _split_columns(grid: _TypesetGrid, space: float) -> list[_TypesetGrid]:
    """The grid split by columns into several grids. Each repeats the columns that identify its rows."""
    head = _identifying_columns(grid)
    for words in (_TIGHT, _LEAST):
        parts = _fill_grids(replace(grid, words=words), head, space)
        if all(part.fits_line(space) for part in parts):
            break
    return parts


def _identifying_columns(grid: _TypesetGrid) -> list[int]:
    """The fewest leading columns whose cells identify every row: at least one, and not all."""

    def distinct(places: Sequence[int]) -> int:
        return len({tuple(row[k] for k in places) for row in grid.rows})

    words = max(1, next((i for i, left in enumerate(grid.is_left_aligned()) if not left), 1))
    counts = range(1, len(grid.places))
    head = list(range(next((count for count in counts if distinct(range(count)) == len(grid.rows)), words)))
    for i in head[:]:
        fewer = [k for k in head if k != i]
        if fewer and distinct(fewer) == distinct(head):
            head = fewer
    return head


def _fill_grids(grid: _TypesetGrid, head: Sequence[int], space: float) -> list[_TypesetGrid]:
    """The columns split, in order, into grids that fit. Each grid begins with the columns `head`."""
    parts: list[list[int]] = [[*head]]
    for i in (k for k in range(len(grid.places)) if k not in head):
        if parts[-1] == [*head] or grid.only_columns([*parts[-1], i]).fits_line(space):
            parts[-1].append(i)
        else:
            parts.append([*head, i])
    return [grid.only_columns(sorted(part)) for part in parts]


def _pack_floats(grids: Sequence[_TypesetGrid], above: float, below: float) -> list[list[tuple[_TypesetGrid, range]]]:
    """Each float's grids and rows, as many as fit on a page. `above` and `below`: heights of the notes in points."""
    floats: list[list[tuple[_TypesetGrid, range]]] = []
    room = 0.0
    for i, grid in enumerate(grids):
        rows, notes = range(len(grid.rows)), below * (i == len(grids) - 1)
        if floats and grid.height_of_rows(rows) + _BETWEEN + notes <= room:
            floats[-1].append((grid, rows))
            room -= grid.height_of_rows(rows) + _BETWEEN
            continue
        parts = _rows_by_page(grid, above * (i == 0), notes)
        floats += [[(grid, part)] for part in parts]
        room = HEIGHT - _MARGIN - grid.height_of_rows(parts[-1]) - above * (i == 0 and len(parts) == 1)
    return floats


def _rows_by_page(grid: _TypesetGrid, above: float, below: float) -> list[range]:
    """The rows of each float, so that none exceeds a page. `above` and `below`: heights of the notes in points."""
    heights = [grid.height_of(row) for row in grid.rows]
    room = HEIGHT - grid.height_of(grid.heads) - _MARGIN
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


def _height_of_notes(notes: Sequence[str], space: float) -> float:
    """The height in points of notes on lines of `space` points."""
    return sum(_LEADING[_SMALL] * (1 + point_width(note, _SMALL) // space) for note in notes)


def _small_print(notes: Sequence[str], space: float, bold: bool = False) -> list[str]:
    if not notes:
        return []
    texts = [paragraph(note, (_OF_BOLD if bold else 1.0) * space, _SMALL) for note in notes]
    lines = [rf"\textbf{{{note}}}" if bold else note for note in texts]
    start = r"\begin{minipage}{\linewidth}\fontsize{8}{9.5}\selectfont\raggedright\smallskip"
    return [start, *(f"{line}\\par" for line in lines), r"\smallskip\end{minipage}\par"]


def _tabular_lines(grid: _TypesetGrid, rows: range, at_points: bool) -> Iterator[str]:
    """Yields LaTeX lines of the heading and some rows; with `at_points` siunitx aligns numbers at decimal points."""
    aligns = [grid.table.columns[place].form.align[0] for place in grid.places]
    if at_points:
        columns = zip(aligns, grid.natural_widths, *grid.rows, strict=True)
        aligns = [
            (align == "r" and _decimal_alignment(cells, grid.size, wide)) or align for align, wide, *cells in columns
        ]
    yield rf"\fontsize{{{grid.size}}}{{{_LEADING[grid.size]:g}}}\selectfont"
    yield rf"\setlength{{\tabcolsep}}{{{_SEPARATION[grid.size]:g}pt}}"
    yield rf"\begin{{tabular}}{{@{{}}{''.join(aligns)}@{{}}}}"
    yield r"\toprule"
    yield from _row_lines(grid.heads, aligns)
    yield r"\midrule"
    apart = any(_count_lines(row) > 1 for row in grid.rows)
    for number in rows:
        if apart and number > rows.start:
            yield r"\addlinespace[2pt]"
        yield from _row_lines(grid.rows[number], aligns)
    yield r"\bottomrule"
    yield r"\end{tabular}\par"


def _row_lines(row: Sequence[str], aligns: Sequence[str]) -> Iterator[str]:
    r"""Yields the LaTeX lines of a row with cells of several lines. None begins as an argument of a `\\` above it."""
    parts = [cell.split("\n") for cell in row]
    for number in range(_count_lines(row)):
        pairs = zip(parts, aligns, strict=True)
        line = " & ".join(_cell_tex(part[number], align) if number < len(part) else "" for part, align in pairs)
        yield ("{}" if line.startswith(("[", "*")) else "") + line + r" \\"


def _cell_tex(line: str, align: str) -> str:
    if align.startswith("S"):
        return line.replace("−", "-") if _DECIMAL.fullmatch(line) else f"{{{as_tex(line)}}}"
    return rf"\quad {as_tex(line[2:])}" if line.startswith("  ") else as_tex(line)


def _decimal_alignment(cells: Sequence[str], size: int, wide: float) -> str | None:
    """The siunitx alignment for a column of decimal numbers and dashes; None for others, or where it takes more room.

    `wide`: points that the column has.
    """
    firsts = [cell.split("\n")[0] for cell in cells]
    known = [cell for cell in firsts if cell not in (DASH, "")]
    if not known or not all(_DECIMAL.fullmatch(cell) for cell in known):
        return None
    halves = [cell.lstrip("+−").split(".") for cell in known]
    whole, part = (max(len(half[i]) for half in halves) for i in (0, 1))
    sign = "+" if any(cell[0] in "+−" for cell in known) else ""
    if point_width(f"{sign}{'0' * whole}.{'0' * part}", size) > wide:
        return None
    plus = ",retain-explicit-plus" if any(cell[0] == "+" for cell in known) else ""
    return f"S[table-format={sign}{whole}.{part}{plus}]"
