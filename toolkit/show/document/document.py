"""A document of findings, tables and figures, as Markdown and as a LaTeX article that stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from toolkit.printable import printable
from toolkit.show.drawing.page import WIDTH
from toolkit.show.tables.latex import WAITING
from toolkit.show.tables.latex_text import POINTS_AN_INCH, paragraph
from toolkit.show.tables.table import Table, in_cell, in_note

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
    """Sentences under a heading; what stands in backticks is a name."""

    heading: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class PlacedFigure:
    """A figure of a document: its file without an ending, relative to the document, and its caption."""

    path: str
    caption: str


@dataclass(frozen=True)
class PlacedTable:
    """A table of a document, and its file without an ending, relative to the document."""

    path: str
    table: Table


@dataclass(frozen=True)
class Document:
    """`lead` are sentences before all sections; tables and figures come after them.

    `whole`: in LaTeX no column is left out for want of room.
    """

    title: str
    lead: tuple[str, ...]
    sections: tuple[Section, ...]
    tables: tuple[PlacedTable, ...] = ()
    figures: tuple[PlacedFigure, ...] = ()
    whole: bool = False


def as_markdown(document: Document) -> str:
    """The document in GitHub-flavoured Markdown; figures are shown as PNG."""
    return "\n\n".join(_markdown(document)) + "\n"


def _markdown(document: Document) -> Iterator[str]:
    yield f"# {in_cell(printable(document.title))}"
    yield from (_prose(sentence) for sentence in document.lead)
    for section in document.sections:
        yield f"## {in_cell(printable(section.heading))}"
        yield "\n".join(f"- {_prose(sentence)}" for sentence in section.sentences)
    for placed in document.tables:
        yield placed.table.markdown().rstrip()
        yield f"All rows: [{placed.path}.csv]({placed.path}.csv)"
    if document.figures:
        yield "## Figures"
    for figure in document.figures:
        yield f"![{in_cell(printable(figure.caption))}]({figure.path}.png)"
        yield f"*{_prose(figure.caption)}.* [PDF]({figure.path}.pdf), [data]({figure.path}.csv)"


def _prose(text: str) -> str:
    """A sentence whose names in backticks are code, and which holds no other markup."""
    parts = in_note(printable(text)).split("`")
    if len(parts) % 2 == 0:  # a backtick of its own
        return in_cell(printable(text))
    plain = ("".join(f"\\{sign}" if sign in "\\*_|" else sign for sign in part) for part in parts[::2])
    names = iter(parts[1::2])
    return "".join(part + (f"`{name}`" if (name := next(names, None)) is not None else "") for part in plain)


def as_latex(document: Document) -> str:
    """The document as an article that LaTeX compiles with booktabs, geometry and graphicx; figures are PDF."""
    return "\n".join(_latex(document))


def _latex(document: Document) -> Iterator[str]:
    yield r"\documentclass[10pt]{article}"
    yield from _PACKAGES
    if document.whole:
        yield r"\usepackage{siunitx}"
    yield r"\setlength{\parindent}{0pt}\setlength{\parskip}{2pt}"
    yield r"\begin{document}"
    yield rf"\raggedright{{\Large {_set(document.title)}\par}}\smallskip\small"
    yield from (f"{_set(sentence)}\n" for sentence in document.lead)
    for section in document.sections:
        yield rf"\smallskip\textbf{{{_set(section.heading)}}}\par\nopagebreak"
        yield from (rf"\hangindent=1em\hangafter=1 $\bullet$ {_set(one, _INDENT)}\par" for one in section.sentences)
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
        yield rf"\caption{{{_set(figure.caption)}}}"
        yield r"\end{figure}"
    yield r"\end{document}"
    yield ""


def _set(text: str, indent: float = 0.0) -> str:
    return paragraph(printable(text), POINTS_AN_INCH * (WIDTH - indent - 0.1), _SIZE)
