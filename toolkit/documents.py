"""Reading a user's files of text, TOML and JSON; every fault is one line that names the file. Parsers take up to a
kilobyte of memory for one character, such as the dot of a key. So the size of a text is checked before it is parsed: a
text at the bounds takes less than two gigabytes.
"""

from __future__ import annotations

import json
import os
import re
import stat
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from toolkit.errors import FormatError, LimitError, ThinkbackError, first_line

MOST_BYTES = 2**27
"""Most bytes of a file."""
LEVELS = 100
"""Most levels of nested tables and lists, and most parts of a key."""
_PARTS = re.compile(rf"(?:\.[^=,\[\]{{}}\n.]*+){{{LEVELS}}}")


@dataclass(frozen=True)
class _Bounds:
    """The size that a text may have to be parsed. `entries` bounds its `signs`, outside of `strings` and comments."""

    strings: re.Pattern[str]
    signs: str
    characters: int
    entries: int

    def check(self, text: str, subject: str) -> None:
        """Raises LimitError where a text is larger, or nested more deeply. `subject` names the text in the error."""
        if len(text) > self.characters:
            raise LimitError(f"{subject} is too large: it has {len(text):,} characters, of at most {self.characters:,}")
        outside = self.strings.sub("", text) if text.count('"') <= 4 * self.entries else text
        entries = sum(map(outside.count, self.signs))
        if entries > self.entries:
            raise LimitError(f"{subject} is too large: it has {entries:,} entries, of at most {self.entries:,}")
        brackets = (1 if sign in "[{" else -1 for sign in re.findall(r"[\[\]{}]", outside))
        if max(accumulate(brackets), default=0) > LEVELS or _PARTS.search(outside):
            raise LimitError(f"{subject} is nested too deeply: it has more than {LEVELS} levels")


_TOML = _Bounds(
    re.compile(
        r'''"""(?:[^"\\]++|\\.?|"(?!""))*+(?:"""|\Z)|"(?:[^"\\\n]++|\\.?)*+"?|'''
        r"""'''(?:[^']++|'(?!''))*+(?:'''|\Z)|'[^'\n]*+'?|#[^\n]*+""",
        re.DOTALL,
    ),
    signs=".,[{\n", characters=2**24, entries=2**20,
)  # fmt: skip
_JSON = _Bounds(
    re.compile(r'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?', re.DOTALL), signs=",[{", characters=MOST_BYTES, entries=2**23
)


class LiteralFloat(float):
    """A float that remembers the text it was read from, for parsers that take a `parse_float`."""

    text: str

    def __new__(cls, text: str) -> LiteralFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


def _parse_failure_text(error: RecursionError | ValueError) -> str:
    """The words for why a parser failed."""
    return "it is nested too deeply" if isinstance(error, RecursionError) else first_line(error)


def expand_home(path: str | Path) -> Path:
    """The path with the home folder in place of `~`. The `~` of an unknown user stays."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 (a Path raises RuntimeError)


def read_text(path: str | Path, subject: str) -> str:
    """The text of a file, without a byte order mark. `subject` names it in errors."""
    try:
        info = Path(path).stat()
        if not stat.S_ISREG(info.st_mode) and not stat.S_ISDIR(info.st_mode):  # a pipe may never end
            raise FormatError(f"cannot read {subject}: it is a pipe or a device; write it into a file")
        if info.st_size > MOST_BYTES:
            raise LimitError(f"cannot read {subject}: it has {info.st_size:,} bytes, of at most {MOST_BYTES:,}")
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise FormatError(f"cannot read {subject}: it is not UTF-8 text") from None
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        raise FormatError(f"cannot read {subject}: {first_line(error)}") from None


def parse_toml(text: str, subject: str, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parses a TOML text. `subject` names it in errors. LimitError where it is too large."""
    _TOML.check(text, subject)
    try:
        tables = tomllib.loads(text, parse_float=parse_float)
        _check_integers(tables)
        return tables
    except (RecursionError, ValueError) as error:  # Python reads no integer of thousands of digits
        raise FormatError(f"{subject} is not valid TOML: {_parse_failure_text(error)}") from None


def toml_value(text: str) -> Any:
    """The value of a setting's text read as TOML, such as 1 of `a=1`; the text itself where it is not TOML."""
    try:
        return parse_toml(f"value = {text}", text)["value"]
    except ThinkbackError:
        return text


def parse_json(text: str, subject: str) -> Any:
    """Parses a JSON text. `subject` names it in errors. LimitError where it is too large."""
    _JSON.check(text, subject)
    try:
        value = json.loads(text)
        if "\\u" in text:  # half of a sign, which nothing can write down again
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except (RecursionError, ValueError) as error:
        raise FormatError(f"{subject} is not valid JSON: {_parse_failure_text(error)}") from None


def _check_integers(value: Any) -> None:
    """Raises ValueError where an integer does not fit into TOML's 64 bits."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError("it holds an integer of more than 64 bits")
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_integers(item)
