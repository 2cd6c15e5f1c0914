"""Every sentence that stands in the four packages, in one file: `make sentences` writes it, so that its diff shows what
changed in words.

A line is a module or an asset of the page, and a text of three words or more with `{…}` where a value stands. Aside are
docstrings, comments, and what only a database or a regular expression reads.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

from tests.house import PACKAGES, ROOT, parsed

GOLDEN = Path(__file__).with_name("sentences.txt")
WORDS = 3
CODE = re.compile(
    r"^(?:SELECT|DELETE FROM|CREATE VIEW|CASE WHEN|CAST\(|NULLIF\(|COALESCE\(|NULL::|INSERT OR REPLACE|read_parquet\()"
    r"|^insert or replace|\(SELECT |^\W*\{…\}\W* (?:AND|WHERE|ORDER BY) |=COALESCE\("
    r"|\(\?[:=!<Pi]|\\(?!boxed)[bdswWS]|\[\^|\.\*|\[\\|\\[ht]\w+\\"
)
"""Texts that a database, a regular expression or LaTeX reads."""
SCRIPT = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?<=[(,=:&|?!])[ ]?/(?![/*])(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\n\\\[])+/"""
    r"""|"(?P<double>(?:\\.|[^"\\\n])*)"|'(?P<single>(?:\\.|[^'\\\n])*)'|`(?P<template>(?:\\.|\$\{(?:[^{}`]|`[^`]*`|\{[^{}]*\})*\}|[^`\\])*)`""",
    re.DOTALL,
)
"""Comments, regular expressions and strings of JavaScript, of which groups hold the strings."""
FILLED = re.compile(r"\$\{((?:[^{}`]|`[^`]*`|\{[^{}]*\})*)\}")
SHOWN_ATTRIBUTES = {"title", "placeholder", "aria-label", "alt", "content"}


def template(node: ast.expr) -> str | None:
    """A text as it stands in the source, with what is filled in; None where it is no literal."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(template(part) or "" for part in parts)
        case ast.FormattedValue():
            return "{…}"
        case ast.BinOp(left=first, op=ast.Add(), right=second):
            texts = template(first), template(second)
            return None if None in texts else "".join(text or "" for text in texts)
    return None


def _texts(node: ast.AST) -> Iterator[str]:
    """The texts below a node, the outermost of each, without docstrings and the strings that explain a constant."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue
        text = template(child) if isinstance(child, ast.expr) else None
        if text is None:
            yield from _texts(child)
        else:
            yield text


def _script_texts(source: str) -> Iterator[str]:
    """The strings of a script, with `{…}` for what a template fills in, and the strings in there."""
    for match in SCRIPT.finditer(source):
        if match["template"] is not None:
            yield FILLED.sub("{…}", match["template"])
            for filled in FILLED.findall(match["template"]):
                yield from _script_texts(filled)
        elif match.lastgroup:
            yield match[match.lastgroup]


class _Page(HTMLParser):
    """The texts of a page: between its tags, in attributes that are shown, and in its scripts."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.texts += [value for name, value in attrs if name in SHOWN_ATTRIBUTES and value]

    def handle_data(self, data: str) -> None:
        self.texts += _script_texts(data) if self.cdata_elem == "script" else [] if self.cdata_elem else [data]


READERS = {
    ".py": lambda source: _texts(parsed(source)),
    ".js": _script_texts,
    ".html": lambda source: _Page(source).texts,
}
"""Suffix of a file -> what reads its texts."""


def sentences() -> str:
    """The file as it should be."""
    lines = []
    for package in PACKAGES:
        for path in sorted(path for path in (ROOT / package).rglob("*.*") if path.suffix in READERS):
            module = ".".join(path.relative_to(ROOT).with_suffix(path.suffix.removesuffix(".py")).parts)
            texts = (" ".join(text.split()) for text in READERS[path.suffix](path.read_text(encoding="utf-8")))
            lines += [f"{module}  {text}" for text in texts if len(text.split()) >= WORDS and not CODE.search(text)]
    return "\n".join(sorted(set(lines))) + "\n"


if __name__ == "__main__":
    GOLDEN.write_text(sentences(), encoding="utf-8")
