"""What is wrong with a log, in one line each: the file, the column, the first offending row, what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.errors import ThinkbackError


@dataclass(frozen=True)
class Problem:
    """One kind of fault in one table. `row` counts from 0 within `file`; None where no row is at fault.

    `code`: the kind of fault, for programs; the manual lists them.
    """

    file: str
    column: str | None
    row: int | None
    message: str
    code: str

    def __str__(self) -> str:
        place = f"`{self.file}`"
        if self.column is not None:
            place += f", column `{self.column}`"
        if self.row is not None:
            place += f", row {self.row}"
        return f"{place}: {self.message}"

    def error(self) -> LogError:
        error = LogError(str(self), code=self.code)
        error.problem = self
        return error


def raise_first(problems: Iterable[Problem | None]) -> None:
    """Raises the first problem as an error, if there is any."""
    for problem in filter(None, problems):
        raise problem.error()


class LogError(ThinkbackError):
    """A log that can't be read or written as asked. Its code is that of its `problem`, or the one given."""

    problem: Problem | None = None


@dataclass(frozen=True)
class Report:
    """The result of a validation: problems, which make the log invalid, and notes, which do not."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether the log has no problems; notes do not count."""
        return not self.problems


UNFINISHED = "name a log's folder, or run again the command that was to make this one"
"""Advice on a folder without tables, which may be that of an interrupted run."""


def backticked(value: object, limit: int = 60) -> str:
    """A value as messages quote it: in backticks, shortened, on one line."""
    text = str(value) if isinstance(value, str) else repr(value)
    text = " ".join(text.split()) if text.strip() else repr(text)[1:-1]
    return f"`{text if len(text) <= limit else text[: limit - 1] + '…'}`"
