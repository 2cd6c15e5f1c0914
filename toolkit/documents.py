"""A user's own files of text, TOML and JSON: whatever they hold, what is wrong is one line that names the file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolkit.errors import FormatError, first_line


class LiteralFloat(float):
    """A float with the text that it was read from, for parsers that take a `parse_float`."""

    text: str

    def __new__(cls, text: str) -> LiteralFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


def unreadable(error: RecursionError | ValueError) -> str:
    """Why a parser gave up."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else first_line(error)


def read_text(path: str | Path, what: str) -> str:
    """The text of a file, without a byte order mark. `what` names it in errors."""
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"cannot read {what}: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise FormatError(f"cannot read {what}: {first_line(error)}") from None


def parse_toml(text: str, what: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """The tables of a TOML text. `what` names it in errors."""
    try:
        tables = tomllib.loads(text, parse_float=parse_float)
        _check_integers(tables)
        return tables
    except (RecursionError, ValueError) as error:  # Python reads no integer of thousands of digits
        raise FormatError(f"{what} is not valid TOML: {unreadable(error)}") from None


def parse_json(text: str, what: str) -> Any:
    """The value of a JSON text. `what` names it in errors."""
    try:
        value = json.loads(text)
        if "\\u" in text:  # half of a sign, which nothing can write down again
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (RecursionError, ValueError) as error:
        raise FormatError(f"{what} is not valid JSON: {unreadable(error)}") from None


def _check_integers(value: Any) -> None:
    """Raise ValueError where an integer is larger than those of TOML, which have 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("it holds an integer of more than 64 bits")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(item)
