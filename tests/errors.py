"""What a test asks of an error: its code, and what its line quotes, which is the place and the value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from toolkit.errors import ThinkbackError


@contextmanager
def refuses(code: str, *quoted: str) -> Iterator[pytest.ExceptionInfo[ThinkbackError]]:
    """An error of a code within, whose one line has each of some texts."""
    with pytest.raises(ThinkbackError) as error:
        yield error
    line = str(error.value)
    assert error.value.code == code, f"{error.value.code}: {line}"
    assert [text for text in quoted if text not in line] == [], line
    assert "\n" not in line


def says(error: Any, code: str | None, *quoted: str) -> None:
    """Check an error's code, and that its one line has each of some texts: of an error, or of a command that ended.

    A command's line is the last of its stderr, where its code stands in brackets at the end; what the parser of the
    command line says has none.
    """
    if isinstance(error, ThinkbackError):
        line, its = str(error), error.code
    else:
        printed = error if isinstance(error, str) else error.stderr
        printed = printed.decode() if isinstance(printed, bytes) else printed
        match = re.fullmatch(r"error: (.*?)(?:  \[([a-z-]+)\])?", printed.strip().rpartition("\n")[2])
        assert match is not None, printed
        line, its = match.groups()
    assert its == code, f"{its}: {line}"
    assert [text for text in quoted if text not in line] == [], line
    assert "\n" not in line
