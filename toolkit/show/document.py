"""Findings, tables and figures as documents, in Markdown and as a LaTeX article that stands alone, and as files.

Of each table there is Markdown, LaTeX and CSV, of each figure PDF, SVG and PNG.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.files import replacing_file
from toolkit.printable import printable
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.style import save_figures
from toolkit.show.tables.latex import WAITING
from toolkit.show.tables.latex_text import POINTS_AN_INCH, paragraph
from toolkit.show.tables.table import Table, markdown_cell, markdown_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("pdf", "svg", "png")
_UNPRINTED = "Tables for programs"
TEXT_WIDTH = 345 / POINTS_AN_INCH
"""Inches of the text of LaTeX's own article in one column."""
_SIZE = 10
_INDENT = 0.15  # inches by which sentences are set in
_PACKAGES = (
    r"\usepackage[utf8]{inputenc}",
    r"\usepackage{textcomp}",
    r"\usepackage[letterpaper,hmargin=0.875in,vmargin=0.8in]{geometry}",
    r"\usepackage{booktabs}",
    r"\usepackage{graphicx}",
)


@dataclass(frozen=True)
class Section:
    """A heading with the sentences under it. What stands in backticks is a name. `code`: by which programs find it."""

    heading: str
    sentences: tuple[str, ...]
    code: str = ""


@dataclass(frozen=True)
class PlacedFigure:
    """A figure of a document: its caption, and its file relative to the document, without an ending."""

    path: str
    caption: str


@dataclass(frozen=True)
class PlacedTable:
    """A table of a document, with its file relative to the document, without an ending."""

    path: str
    table: Table


@dataclass(frozen=True)
class Document:
    """A report: a title, `lead` sentences, sections with headings, and then tables and figures.

    `whole`: in LaTeX no column is left out for want of room.
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    tables: tuple[PlacedTable, ...] = ()
    figures: tuple[PlacedFigure, ...] = ()
    whole: bool = False


def as_markdown(document: Document) -> str:
    """The document in GitHub-flavoured Markdown, which shows its figures as PNG."""
    return "\n\n".join(_markdown_lines(document)) + "\n"


def _markdown_lines(document: Document) -> Iterator[str]:
    yield f"# {markdown_cell(printable(document.title))}"
    yield from (_markdown_prose(sentence) for sentence in document.lead)
    for section in document.sections:
        yield f"## {markdown_cell(printable(section.heading))}"
        yield "\n".join(f"- {_markdown_prose(sentence)}" for sentence in section.sentences)
    for placed in document.tables:
        yield placed.table.markdown().rstrip()
        yield f"All rows: [{placed.path}.csv]({placed.path}.csv)"
    if document.figures:
        yield "## Figures"
    for figure in document.figures:
        yield f"![{markdown_cell(printable(figure.caption))}]({figure.path}.png)"
        yield f"*{_markdown_prose(figure.caption)}.* [PDF]({figure.path}.pdf), [data]({figure.path}.csv)"


def _markdown_prose(text: str) -> str:
    """A sentence for Markdown: names in backticks stay code, and everything else is escaped."""
    parts = markdown_note(printable(text)).split("`")
    if len(parts) % 2 == 0:  # a backtick of its own
        return markdown_cell(printable(text))
    plain = ("".join(f"\\{sign}" if sign in "\\*_|" else sign for sign in part) for part in parts[::2])
    names = iter(parts[1::2])
    return "".join(part + (f"`{name}`" if (name := next(names, None)) is not None else "") for part in plain)


def as_latex(document: Document) -> str:
    """The document as a LaTeX article that compiles with booktabs, geometry and graphicx. Its figures are PDF."""
    return "\n".join(_latex_lines(document))


def _latex_lines(document: Document) -> Iterator[str]:
    yield r"\documentclass[10pt]{article}"
    yield from _PACKAGES
    if document.whole:
        yield r"\usepackage{siunitx}"
    yield r"\setlength{\parindent}{0pt}\setlength{\parskip}{2pt}"
    yield r"\begin{document}"
    yield rf"\raggedright{{\Large {_latex_prose(document.title)}\par}}\smallskip\small"
    yield from (f"{_latex_prose(sentence)}\n" for sentence in document.lead)
    for section in document.sections:
        yield rf"\smallskip\textbf{{{_latex_prose(section.heading)}}}\par\nopagebreak"
        yield from (
            rf"\hangindent=1em\hangafter=1 $\bullet$ {_latex_prose(one, _INDENT)}\par" for one in section.sentences
        )
    yield r"\clearpage"
    waiting = 0
    for placed in document.tables:
        text = placed.table.latex(f"tab:{placed.path.rpartition('/')[2]}", WIDTH, document.whole)
        yield text
        waiting += text.count(r"\end{table")
        if waiting >= WAITING or r"\clearpage" in text:
            yield r"\clearpage"
            waiting = 0
    yield r"\clearpage"
    for figure in document.figures:
        yield r"\begin{figure}[htbp]"
        yield r"\centering"
        yield rf"\includegraphics[width=\linewidth,height=0.8\textheight,keepaspectratio]{{{figure.path}.pdf}}"
        yield rf"\caption{{{_latex_prose(figure.caption)}}}"
        yield r"\end{figure}"
    yield r"\end{document}"
    yield ""


def _latex_prose(text: str, indent: float = 0.0) -> str:
    return paragraph(printable(text), POINTS_AN_INCH * (WIDTH - indent - 0.1), _SIZE)


def save_formats(figure: Figure, folder: Path, name: str) -> None:
    """Write `figure` in every format: NAME.pdf, NAME.svg and NAME.png."""
    save_figures(figure, {f".{suffix}": folder / f"{name}.{suffix}" for suffix in FORMATS})


def write_latex(path: Path, tables: Mapping[str, Table], width: float, force: bool = False) -> None:
    """Writes tables to one LaTeX file, each as a float with the name that its paper refers to it by as label."""
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
    """Writes `report.md` and `report.tex` to `folder`, and every table and figure that they hold as files, in the order
    given.

    Of tables that are not printed the two name the files.
    Tables in LaTeX are as wide as the text of an article in one column, and so fit across one in two columns, too.
    Keys name the files. `words` are paragraphs of the report, by heading, that come first, and `paper` those that
    `report.tex` has besides. A simulated log is called so in every file: in the titles and figures (their makers see to
    that) and as a column of each CSV.
    """
    marks = {"simulated": "true"} if simulated else {}
    parts = [f"# {markdown_cell(printable(title))}\n"]
    parts += [f"## {heading}\n\n{_printable_lines(text)}\n" for heading, text in (words or {}).items()]
    for name, table in tables.items():
        (folder / f"{name}.md").write_text(table.markdown(), encoding="utf-8")
        (folder / f"{name}.tex").write_text(table.latex(f"tab:{name}", TEXT_WIDTH, whole=True), encoding="utf-8")
        (folder / f"{name}.csv").write_text(table.csv(marks), encoding="utf-8")
        parts += [table.markdown()] if table.printed else []
    if unprinted := _unprinted_entries(tables):
        parts.append(f"## {_UNPRINTED}\n\n{_printable_lines(unprinted)}\n")
    for name, figure in figures.items():
        save_formats(figure, folder, name)
        parts.append(f"![{name.replace('_', ' ')}]({name}.png)\n")
    (folder / "report.md").write_text("\n".join(parts), encoding="utf-8")
    paragraphs = {**(words or {}), **(paper or {}), **({_UNPRINTED: unprinted} if unprinted else {})}
    sections = [Section(heading, tuple(_list_entries(text))) for heading, text in paragraphs.items()]
    placed = [PlacedTable(name, table) for name, table in tables.items() if table.printed]
    drawn = [PlacedFigure(name, name.replace("_", " ")) for name in figures]
    document = Document(title, (), tuple(sections), tuple(placed), tuple(drawn), whole=True)
    (folder / "report.tex").write_text(as_latex(document), encoding="utf-8")


def _unprinted_entries(tables: Mapping[str, Table]) -> str:
    """List entries that name the files of the tables that are too long to be printed."""
    return "\n".join(f"- {table.title}: `{name}.csv`" for name, table in tables.items() if not table.printed)


def _list_entries(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in text.rstrip().split("\n") if line]


def _printable_lines(text: str) -> str:
    """The lines of a report, made safe to print."""
    return "\n".join(markdown_note(printable(line)) for line in text.rstrip().split("\n"))
