"""HTML for a notebook beside tables: sentences, lists and files, with all text of a log escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from toolkit.printable import printable

SIMULATED = "Simulated log: these numbers describe a model, not a system."
_CODE = re.compile("`([^`]+)`")


def paragraph(text: str) -> str:
    """A sentence; what stands in backticks is code."""
    return f"<p>{prose(text)}</p>"


def marked(simulated: bool) -> str:
    """The mark above the output of a simulated log; empty for a real log."""
    return f"<p><strong>{prose(SIMULATED)}</strong></p>" * simulated


def bullets(heading: str, lines: Iterable[str]) -> str:
    """A list under its heading; nothing without lines."""
    items = "".join(f"<li>{prose(line)}</li>" for line in lines)
    return f"<p><strong>{prose(heading)}</strong></p><ul>{items}</ul>" if items else ""


def listing(text: str) -> str:
    """A file's text, line by line."""
    return "<pre>" + "\n".join(html.escape(printable(line)) for line in text.splitlines()) + "</pre>"


def prose(text: str) -> str:
    """Text within an element; what stands in backticks is code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(printable(text)))
