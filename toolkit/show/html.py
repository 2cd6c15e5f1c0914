"""What a notebook shows beside tables: sentences, lists and files, in which no sign of a log is markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from toolkit.printable import printable

_CODE = re.compile("`([^`]+)`")


def paragraph(text: str) -> str:
    """A sentence; what stands in backticks is code."""
    return f"<p>{_prose(text)}</p>"


def bullets(heading: str, lines: Iterable[str]) -> str:
    """A list under its heading; nothing without lines."""
    items = "".join(f"<li>{_prose(line)}</li>" for line in lines)
    return f"<p><strong>{_prose(heading)}</strong></p><ul>{items}</ul>" if items else ""


def listing(text: str) -> str:
    """A file's text, line by line."""
    return "<pre>" + "\n".join(html.escape(printable(line)) for line in text.splitlines()) + "</pre>"


def _prose(text: str) -> str:
    return _CODE.sub(r"<code>\1</code>", html.escape(printable(text)))
