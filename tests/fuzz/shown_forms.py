"""What the forms that are shown to people must not hold, each read as its own readers read it."""

from __future__ import annotations

import csv
import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import markdown

from tests.fuzz.endings import not_harmless

_NUMBER = re.compile(r"[-+−]?[\d.,]+([eE][-+]?\d+)?\s?%?|[-+]?(inf|nan)")
_STARTS = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")
_TAGS = frozenset(
    [
        "h1",
        "h2",
        "h3",
        "p",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "ul",
        "li",
        "ol",
        "strong",
        "em",
        "blockquote",
        "code",
        "br",
        "hr",
        "div",
        "a",
        "img",
        "pre",
    ]
)
_LATEX = re.compile(r"\\([a-zA-Z]+|.)", re.DOTALL)
_COMMANDS = frozenset(
    [
        "begin",
        "end",
        "centering",
        "caption",
        "label",
        "textbf",
        "toprule",
        "midrule",
        "bottomrule",
        "par",
        "fontsize",
        "selectfont",
        "setlength",
        "tabcolsep",
        "linewidth",
        "raggedright",
        "smallskip",
        "medskip",
        "addlinespace",
        "addtocounter",
        "quad",
        "textsuperscript",
        "allowbreak",
        "textbar",
        "to",
        "infty",
        "alpha",
        "beta",
        "gamma",
        "delta",
        "epsilon",
        "lambda",
        "mu",
        "pi",
        "rho",
        "sigma",
        "tau",
        "phi",
        "theta",
        "textbackslash",
        "textasciitilde",
        "textasciicircum",
        "textless",
        "textgreater",
        "Delta",
        "bullet",
        "dag",
        "geq",
        "leq",
        "texteuro",
        "times",
        "cdot",
        "pm",
        "ldots",
    ]
)
_OF_DOCUMENTS = frozenset(
    ["Large", "small", "nopagebreak", "hangindent", "hangafter", "clearpage", "includegraphics", "textheight"]
)
_PREAMBLE = re.compile(
    r"\\documentclass\[\d+pt\]\{article\}|\\usepackage(\[[\w,=.]+\])?\{\w+\}"
    r"|\\setlength\{\\parindent\}\{0pt\}\\setlength\{\\parskip\}\{2pt\}"
)
_SIGNS = frozenset("\\&%$#_{}")
_SVG = "{http://www.w3.org/2000/svg}"


def file_faults(path: Path) -> Iterator[str]:
    """What is wrong with a file that is made for people."""
    suffix = path.suffix
    if suffix in (".png", ".pdf"):
        if not path.read_bytes().startswith((b"\x89PNG", b"%PDF")):
            yield "is no picture"
        return
    text = path.read_bytes().decode("utf-8")
    yield from not_harmless(text)
    check = {".csv": csv_faults, ".md": markdown_faults, ".tex": latex_faults, ".svg": svg_faults}.get(suffix)
    if check is not None:
        yield from check(text)


def csv_faults(text: str) -> Iterator[str]:
    """Cells that a spreadsheet would run, and rows of another length than the heading."""
    rows = list(csv.reader(io.StringIO(text, newline="")))
    if len({len(row) for row in rows}) != 1:
        yield "rows of different lengths"
    for cell in (cell for row in rows for cell in row):
        if cell.startswith(_STARTS) and not _NUMBER.fullmatch(cell):
            yield f"a spreadsheet would run {cell!r}"
            return


def markdown_faults(text: str) -> Iterator[str]:
    """Rows of another length than their heading, and HTML or links that a text brought."""
    height = 0
    for line in text.split("\n"):
        cells = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) if line.startswith("| ") else 0
        if cells and height and cells != height:
            yield f"a row of {cells - 1} cells among those of {height - 1}: {line[:200]!r}"
        height = cells
    for tag, rest in re.findall(r"<\s*([a-zA-Z][a-zA-Z0-9]*)([^>]*)", markdown.markdown(text, extensions=["tables"])):
        if tag not in _TAGS or "onerror" in rest or (tag in ("a", "img") and "http" in rest):
            yield f"a text became <{tag}{rest[:100]}>"
            return


def latex_faults(text: str) -> Iterator[str]:
    """Commands that a text brought, and braces that do not match."""
    preamble, whole, body = text.partition("\\begin{document}\n")
    if whole:
        yield from (f"a preamble with {line!r}" for line in preamble.splitlines() if not _PREAMBLE.fullmatch(line))
        text = body.removesuffix("\\end{document}\n")
    text = re.sub(r"^% needs .*$", "", text, flags=re.MULTILINE)  # names packages as one writes them
    known = _COMMANDS | _OF_DOCUMENTS if whole else _COMMANDS
    for command in _LATEX.findall(text):
        if command not in (known if command.isalpha() else _SIGNS):
            yield f"a text became the command \\{command}"
            return
    bare = _LATEX.sub("", text)
    if bare.count("{") != bare.count("}"):
        yield "braces that do not match"
    text = re.sub(r"S\[table-format=[+\d.]+\]", "S", text)
    tables = re.findall(r"\\begin\{tabular\}\{@\{\}(\w+)@\{\}\}(.*?)\\end\{tabular\}", text, re.DOTALL)
    floats = text.count("\\begin{table}") + text.count("\\begin{table*}") or 1
    if len(tables) != floats + text.count("\\medskip"):  # which is between two in one float
        yield f"{len(tables)} tables in {floats} floats"
    for columns, body in tables:
        for row in body.split(" \\\\\n")[:-1]:
            if len(re.findall(r"(?<!\\)&", row)) != len(columns) - 1:
                yield f"a row of other cells: {row[:200]!r}"
                return


def svg_faults(text: str) -> Iterator[str]:
    """What is no XML, or more than a drawing."""
    for element in ET.fromstring(text).iter():
        name = str(element.tag).removeprefix(_SVG)
        if name in ("script", "a", "foreignObject", "iframe") or any(key.startswith("on") for key in element.attrib):
            yield f"the element <{name}>"
            return
