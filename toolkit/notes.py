"""Notes on numbers, as data: a code and its subjects for programs, a sentence for people.

Code decides by `code`, `severity`, `policies` and `metrics`; nothing reads `text`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from toolkit.printable import printable

WARNING = "WARNING: "
"""How a warning begins where it is printed."""


class Severity(StrEnum):
    """How seriously a reader should take a note."""

    WARNING = "warning"
    """Printed above a table: the numbers may mislead."""
    NOTE = "note"
    """Printed below a table."""


@dataclass(frozen=True)
class Note:
    """A note on a run's numbers. `policies` and `metrics` name what it concerns; both empty: the run as a whole."""

    code: str
    text: str
    severity: Severity = Severity.NOTE
    policies: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The sentence as tables print it."""
        return printable(f"{WARNING}{self.text}" if self.severity is Severity.WARNING else self.text)

    def record(self) -> dict[str, Any]:
        """The note as plain data for JSON."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "text": self.text,
            "policies": list(self.policies),
            "metrics": list(self.metrics),
        }


class LineWithCode(str):
    """A line for people with a code by which programs find it; without one it is empty."""

    code: str = ""


def remark(code: str, text: str) -> LineWithCode:
    """Makes a line with a code."""
    line = LineWithCode(text)
    line.code = code
    return line


def code_of(line: str) -> str:
    """Returns the code of a line; empty for a line without one."""
    return getattr(line, "code", "")


def warning(code: str, text: str, policies: Iterable[str] = (), metrics: Iterable[str] = ()) -> Note:
    """Makes a note of severity `warning`."""
    return Note(code, text, Severity.WARNING, tuple(policies), tuple(metrics))


def note(code: str, text: str, policies: Iterable[str] = (), metrics: Iterable[str] = ()) -> Note:
    """Makes a note of severity `note`."""
    return Note(code, text, Severity.NOTE, tuple(policies), tuple(metrics))
