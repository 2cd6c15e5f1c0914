"""HTML for a notebook beside tables: sentences, lists and files, with all text of a log escaped."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from toolkit.printable import printable

SIMULATED = "Simulated log: these numbers describe a model, not a system."
_CODE = re.compile("`([^`]+)`")


def paragraph(text: str) -> str:
    """A sentence as an HTML paragraph. What stands in backticks becomes code."""
    return f"<p>{escaped_prose(text)}</p>"


def simulated_mark(simulated: bool) -> str:
    """The HTML mark above the output of a simulated log; empty for a real log."""
    return f"<p><strong>{escaped_prose(SIMULATED)}</strong></p>" * simulated


def bullet_list(heading: str, lines: Iterable[str]) -> str:
    """A heading with an HTML list of lines under it; empty without lines."""
    items = "".join(f"<li>{escaped_prose(line)}</li>" for line in lines)
    return f"<p><strong>{escaped_prose(heading)}</strong></p><ul>{items}</ul>" if items else ""


def preformatted(text: str) -> str:
    """A file's text as preformatted HTML, line by line."""
    return "<pre>" + "\n".join(html.escape(printable(line)) for line in text.splitlines()) + "</pre>"


def escaped_prose(text: str) -> str:
    """Escaped text for the inside of an HTML element. What stands in backticks becomes code."""
    return _CODE.sub(r"<code>\1</code>", html.escape(printable(text)))
