"""What a test asks of an error or a note: its code, and what its line quotes, which is the place and the value."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import ThinkbackError
from toolkit.notes import Note
from toolkit.show import code_of


@contextmanager
def refuses(code: str, *quoted: str) -> Iterator[pytest.ExceptionInfo[ThinkbackError]]:
    """An error of a code within, whose one line has each of some texts."""
    with pytest.raises(ThinkbackError) as error:
        yield error
    line = str(error.value)
    assert error.value.code == code, f"{error.value.code}: {line}"
    assert [text for text in quoted if text not in line] == [], line
    assert "\n" not in line


def quotes(line: object, *values: str) -> None:
    """Check that a line, a note or a text has each of some texts."""
    assert [text for text in values if text not in str(line)] == [], str(line)


def numbers(line: object) -> list[str]:
    """The numbers of a line as it writes them, without those of names such as `q1` and `a/b/0`."""
    return re.findall(r"(?<![\w./`-])[+−-]?\d+(?:,\d{3})*(?:\.\d+)?(?![\w`])", str(line))


def noted(notes: Iterable[Note], code: str, *quoted: str) -> Note:
    """The one note of a code whose sentence has each of some texts."""
    notes = list(notes)
    rows = [one for one in notes if one.code == code and all(text in one.text for text in quoted)]
    assert len(rows) == 1, [(one.code, one.text) for one in notes]
    return rows[0]


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


def remarked(lines: Iterable[str], code: str, *quoted: str) -> str:
    """The one line of a code that has each of some texts."""
    rows = [(code_of(line), str(line)) for line in lines]
    texts = [text for its, text in rows if its == code and all(value in text for value in quoted)]
    assert len(texts) == 1, rows
    return texts[0]


def file_notes(folder: Path, code: str, *quoted: str, at: Iterable[str] = ()) -> list[dict[str, Any]]:
    """The notes of a code in a study's folder that have each of some texts, and stand in all these tables."""
    notes = json.loads((folder / "notes.json").read_text(encoding="utf-8"))
    return [
        one
        for one in notes
        if one["code"] == code and all(value in one["text"] for value in quoted) and set(at) <= set(one["at"])
    ]
