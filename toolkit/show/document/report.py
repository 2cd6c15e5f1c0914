"""A study's tables and figures as files: Markdown, LaTeX and CSV of each table, PDF, SVG and PNG of each figure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.files import replacing_file
from toolkit.printable import printable
from toolkit.show.document.document import Document, PlacedFigure, PlacedTable, Section, as_latex
from toolkit.show.drawing.style import save_figure
from toolkit.show.tables.latex_text import POINTS_AN_INCH
from toolkit.show.tables.table import Table, in_cell, in_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure
FORMATS = ("pdf", "svg", "png")
UNPRINTED = "Tables for programs"
TEXT_WIDTH = 345 / POINTS_AN_INCH
"""Inches of the text of LaTeX's own article in one column."""


def save_formats(figure: Figure, folder: Path, name: str) -> None:
    """Write `figure` in every format: NAME.pdf, NAME.svg and NAME.png."""
    for suffix in FORMATS:
        save_figure(figure, folder / f"{name}.{suffix}")


def write_latex(path: Path, tables: Mapping[str, Table], width: float, force: bool = False) -> None:
    """Write tables, by the names that their paper refers to them by, to one LaTeX file, each as a float."""
    with replacing_file(path, force) as temporary:
        temporary.write_text("\n".join(table.latex(f"tab:{name}", width) for name, table in tables.items()), "utf-8")


def write_report(
    folder: Path,
    *,
    title: str,
    tables: Mapping[str, Table],
    figures: Mapping[str, Figure],
    words: Mapping[str, str] | None = None,
    simulated: bool = False,
    paper: Mapping[str, str] | None = None,
) -> None:
    """Write everything to `folder`, and `report.md` and `report.tex`, which hold all of it in the order given.

    Of tables that are not printed the two name the files.
    Tables in LaTeX are as wide as the text of an article in one column, and so fit across one in two columns, too.
    Keys name the files. `words` are paragraphs of the report, by heading, that come first, and `paper` those that
    `report.tex` has besides. A simulated log is called so in every file: in the titles and figures (their makers see to
    that) and as a column of each CSV.
    """
    marks = {"simulated": "true"} if simulated else {}
    parts = [f"# {in_cell(printable(title))}\n"]
    parts += [f"## {heading}\n\n{_paragraphs(text)}\n" for heading, text in (words or {}).items()]
    for name, table in tables.items():
        (folder / f"{name}.md").write_text(table.markdown(), encoding="utf-8")
        (folder / f"{name}.tex").write_text(table.latex(f"tab:{name}", TEXT_WIDTH, whole=True), encoding="utf-8")
        (folder / f"{name}.csv").write_text(table.csv(marks), encoding="utf-8")
        parts += [table.markdown()] if table.printed else []
    if unprinted := _unprinted(tables):
        parts.append(f"## {UNPRINTED}\n\n{_paragraphs(unprinted)}\n")
    for name, figure in figures.items():
        save_formats(figure, folder, name)
        parts.append(f"![{name.replace('_', ' ')}]({name}.png)\n")
    (folder / "report.md").write_text("\n".join(parts), encoding="utf-8")
    told = {**(words or {}), **(paper or {}), **({UNPRINTED: unprinted} if unprinted else {})}
    sections = [Section(heading, tuple(_sentences(text))) for heading, text in told.items()]
    placed = [PlacedTable(name, table) for name, table in tables.items() if table.printed]
    drawn = [PlacedFigure(name, name.replace("_", " ")) for name in figures]
    document = Document(title, (), tuple(sections), tuple(placed), tuple(drawn), whole=True)
    (folder / "report.tex").write_text(as_latex(document), encoding="utf-8")


def _unprinted(tables: Mapping[str, Table]) -> str:
    """An entry of a list for each table that is not printed."""
    return "\n".join(f"- {table.title}: `{name}.csv`" for name, table in tables.items() if not table.printed)


def _sentences(text: str) -> list[str]:
    """The entries of a list, as they stand without their marks."""
    return [line.removeprefix("- ") for line in text.rstrip().split("\n") if line]


def _paragraphs(text: str) -> str:
    """Lines of a report, each made printable."""
    return "\n".join(in_note(printable(line)) for line in text.rstrip().split("\n"))
