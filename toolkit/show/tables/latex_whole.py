"""A Table as LaTeX floats that leave nothing out: columns for which a line has no room stand in further parts below.

Every part has the columns that tell its rows apart. Numbers are aligned at their points by siunitx.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from toolkit.show.tables.in_print import in_print
from toolkit.show.tables.latex import (
    AROUND,
    COLUMN,
    DECIMAL,
    HEIGHT,
    LEAST,
    TIGHT,
    WIDE,
    Grid,
    height_of_notes,
    height_of_rows,
    marks_of,
    page_parts,
    printed,
    small_print,
    stages,
    tabular,
)  # fmt: skip
from toolkit.show.tables.latex_text import POINTS_AN_INCH, paragraph, points
from toolkit.show.tables.table_content import DASH, TableContent

_BETWEEN = 8  # points between two parts
_NUMBERED = re.compile(r"Table ([\w.]+): (.*)")
WAITING = 12
"""Floats after which a page is ended: LaTeX holds as many as 18 before it has a place for them."""


def as_whole_latex(table: TableContent, label: str, width: float) -> str:
    """Floats under one number, with the title as caption, booktabs rules and the notes below; `width` in inches.

    The first line says which packages they need.
    """
    space, table = POINTS_AN_INCH * width, in_print(table)
    grids = [grid.folded(space) for grid in _parted(table, space)]
    above, below = printed(table.above), [*(f"{sign} {text}." for text, sign in marks_of(table).items())]
    below += printed(table.below)
    floats = _packed(grids, *(height_of_notes(notes, space) for notes in (above, below)))
    known = _NUMBERED.fullmatch(table.title)
    caption = f"{known[2]}; as table {known[1]}" if known else table.title  # the paper has a number of its own
    kind = "table" if width <= COLUMN else "table*"
    lines: list[str] = []
    for number, pieces in enumerate(floats):
        title = f"{caption} (continued)" if number and caption else caption
        lines += [
            rf"\begin{{{kind}}}",
            r"\centering",
            *([r"\addtocounter{table}{-1}"] if number and title else []),
            *([rf"\caption{{{paragraph(title, space, 10)}}}"] if title else []),
            *([rf"\label{{{label}}}"] if label and not number else []),
            *(small_print(above, space, bold=True) if not number else []),
        ]
        for place, (grid, rows) in enumerate(pieces):
            lines += [r"\medskip"] if place else []
            lines += tabular(grid, rows, _aligns(grid))
        lines += [*(small_print(below, space) if number == len(floats) - 1 else []), rf"\end{{{kind}}}"]
        if number % WAITING == WAITING - 1:
            lines.append(r"\clearpage")
    text = "\n".join(lines)
    needs = [r"\usepackage{booktabs}", *([r"\usepackage{siunitx}"] if "S[table-format" in text else [])]
    needs += [r"\usepackage{textcomp}"] if r"\texteuro" in text else []
    return f"% needs {' '.join(needs)} in the preamble; fits {width:.4g} inches\n{text}\n"


def _packed(grids: Sequence[Grid], above: float, below: float) -> list[list[tuple[Grid, range]]]:
    """Each float's grids and rows of them, as many as a page has room for; `above` and `below` are points of notes."""
    floats: list[list[tuple[Grid, range]]] = []
    room = 0.0
    for i, grid in enumerate(grids):
        rows, notes = range(len(grid.rows)), below * (i == len(grids) - 1)
        if floats and height_of_rows(grid, rows) + _BETWEEN + notes <= room:
            floats[-1].append((grid, rows))
            room -= height_of_rows(grid, rows) + _BETWEEN
            continue
        parts = page_parts(grid, above * (i == 0), notes)
        floats += [[(grid, part)] for part in parts]
        room = HEIGHT - AROUND - height_of_rows(grid, parts[-1]) - above * (i == 0 and len(parts) == 1)
    return floats


def _parted(table: TableContent, space: float) -> Iterator[Grid]:
    """The table as one grid where it fits, else its columns as several, each with those that tell rows apart."""
    tried = list(stages(table, TIGHT if space <= POINTS_AN_INCH * COLUMN else WIDE))
    for grid in tried:
        if grid.total(grid.least) <= space:
            yield grid
            return
    grid = tried[-1]
    head = _telling(grid)
    for words in (TIGHT, LEAST):
        grid = replace(grid, words=words)
        parts = _filled(grid, head, space)
        if all(part.total(part.least) <= space for part in parts):
            break
    yield from parts


def _telling(grid: Grid) -> list[int]:
    """As few of the first columns as tell every row from the others; at least one, and not all."""
    head = list(range(_first(grid)))
    for i in head[:]:
        fewer = [k for k in head if k != i]
        if fewer and _told_apart(grid, fewer) == _told_apart(grid, head):
            head = fewer
    return head


def _first(grid: Grid) -> int:
    """How many columns, from the first one on, tell every row from the others."""
    for count in range(1, len(grid.places)):
        if _told_apart(grid, range(count)) == len(grid.rows):
            return count
    return max(1, next((i for i, left in enumerate(grid.left()) if not left), 1))


def _told_apart(grid: Grid, places: Sequence[int]) -> int:
    return len({tuple(row[k] for k in places) for row in grid.rows})


def _filled(grid: Grid, head: Sequence[int], space: float) -> list[Grid]:
    """As many columns in each part as it has room for, all in their order; `head` begins every one."""
    parts: list[list[int]] = [[*head]]
    for i in (k for k in range(len(grid.places)) if k not in head):
        if _fits(grid, [*parts[-1], i], space) or parts[-1] == [*head]:
            parts[-1].append(i)
        else:
            parts.append([*head, i])
    return [grid.only(sorted(part)) for part in parts]


def _fits(grid: Grid, places: Sequence[int], space: float) -> bool:
    part = grid.only(places)
    return part.total(part.least) <= space


def _aligns(grid: Grid) -> list[str]:
    """How each column is aligned: at the point where all its numbers have one, and it takes no more room for that."""
    aligns = []
    for place, wide, *cells in zip(grid.places, grid.natural, *grid.rows, strict=True):
        align = grid.table.columns[place].form.align[0]
        found = _decimal(cells, grid.size, wide) if align == "r" else None
        aligns.append(found or align)
    return aligns


def _decimal(cells: Sequence[str], size: int, wide: float) -> str | None:
    """The alignment of siunitx for numbers with a point, beside dashes; None for others."""
    firsts = [cell.split("\n")[0] for cell in cells]
    known = [cell for cell in firsts if cell not in (DASH, "")]
    if not known or not all(DECIMAL.fullmatch(cell) for cell in known):
        return None
    halves = [cell.lstrip("+−").split(".") for cell in known]
    whole, part = (max(len(half[i]) for half in halves) for i in (0, 1))
    sign = "+" if any(cell[0] in "+−" for cell in known) else ""
    if points(f"{sign}{'0' * whole}.{'0' * part}", size) > wide:
        return None
    plus = ",retain-explicit-plus" if any(cell[0] == "+" for cell in known) else ""
    return f"S[table-format={sign}{whole}.{part}{plus}]"
