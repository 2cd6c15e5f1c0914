"""Errors that speak to the user: one line that says what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from toolkit.printable import printable

LIKENESS = 0.6
"""How alike a name must be to be suggested (`difflib`): below it guesses are far-fetched."""
SHORT, LIKENESS_OF_SHORT = 3, 0.5
"""Names of at most so many characters are alike when they differ in one character, as `n4` and `n3` do."""
_ARGUMENT = re.compile("\ue000(.*?)\ue001")
"""Marks around the name of an argument in an error's text; the characters are of Unicode's private use area."""
_QUOTED = re.compile("`([^`]*)`")
_VALUE, _PATH, _LINE = 100, 300, 600
"""Most characters of a quoted value, of a quoted path or address, and of the whole message."""


class ThinkbackError(Exception):
    """A mistake in the input or the settings. The command line prints its one line with its code, and exits with 2."""

    code: str = "error"
    """The code of the error, for programs; the line is for people. It belongs to the class, such as `not-found`."""
    policy: str | None = None
    """The policy that the error is about, where its line begins with one."""
    reason: str | None = None
    """The line without the policy that it begins with, where it begins with one."""

    def __init__(self, line: str = "", *, code: str | None = None) -> None:
        """Makes the error from its line. `code`: one finer than the class's, as `LogError` and `EngineError` have."""
        super().__init__(line)
        if code is not None:
            self.code = code

    def __init_subclass__(cls) -> None:
        cls.code = "-".join(re.findall("[A-Z][a-z]*", cls.__name__.removesuffix("Error"))).lower()

    def __str__(self) -> str:
        """The line, with the names of arguments as a program writes them."""
        return self.line_with(lambda name: name)

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the one line, without a traceback."""
        return [f"{type(self).__name__}: {self}"]

    def line_with(self, format_name: Callable[[str], str]) -> str:
        """The line, with the names of arguments as `format_name` writes them, such as the options of a command."""
        line = super().__str__().replace("\n", " ")
        return shorten_message(_ARGUMENT.sub(lambda match: f"`{format_name(match[1])}`", line))

    def with_subject(self, subject: str, end: str = "") -> Self:
        """The same error with `subject` before its line and `end` after it."""
        return self.with_rewritten_line(lambda line: f"{subject}{line}{end}")

    def with_rewritten_line(self, rewrite: Callable[[str], str]) -> Self:
        """The same error with another line, made of its own."""
        error = type(self)(rewrite(str(self)))
        error.__dict__.update(self.__dict__)
        return error


class UnknownError(ThinkbackError):
    """A name that the user gave does not exist."""


class InvalidError(ThinkbackError):
    """A setting or an argument does not accept the value given."""


class RequiredError(ThinkbackError):
    """Something that must be given is missing."""


class ConflictError(ThinkbackError):
    """Two things that the user gave exclude each other, or one is given twice."""


class AmbiguousError(ThinkbackError):
    """Several things could be meant by what the user gave."""


class EmptyError(ThinkbackError):
    """Nothing is left to work on, such as no example."""


class UnsuitableError(ThinkbackError):
    """The log, result or model cannot answer this question."""


class LeakageError(ThinkbackError):
    """A model, a choice or a decision has seen the examples that it is judged on."""


class MismatchError(ThinkbackError):
    """Two things that must agree differ."""


class LimitError(ThinkbackError):
    """Something exceeds a limit."""


class FormatError(ThinkbackError):
    """A file cannot be read as the kind of file that it should be."""


class DamagedError(ThinkbackError):
    """A file's content is no longer what was written."""


class NotFoundError(ThinkbackError):
    """A file or a folder does not exist."""


class ExistsError(ThinkbackError):
    """A file or a folder exists where one is to be written."""


class WriteError(ThinkbackError):
    """A place cannot be written to."""


class IncompleteError(ThinkbackError):
    """Work is not finished, or rows are missing."""


class PackageError(ThinkbackError):
    """A Python package is not installed, or too old."""


class RuleError(ThinkbackError):
    """A user's function failed, or returned a wrong value."""


def shorten_message(line: str) -> str:
    """The message in printable characters, with the middle of each long quotation in backticks left out."""
    cut = _QUOTED.sub(lambda match: f"`{_cut_middle(match[1], _PATH if '/' in match[1] else _VALUE)}`", printable(line))
    return _cut_middle(cut, _LINE)


def _cut_middle(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"


def argument(name: str) -> str:
    """The name of an argument, marked for an error's text, where a command writes its option instead."""
    return f"\ue000{name}\ue001"


def listed(names: Sequence[str], most: int | None = None) -> str:
    """Names in backticks, the first `most` of them: "`a`, `b`, …"."""
    more = ", …" if most is not None and len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


def quote(value: object, most: int = 100) -> str:
    """The value as messages quote it, cut after `most` characters. `quote("x" * 200)` ends in "…"."""
    try:
        text = repr(value)
    except ValueError:  # Python writes out no integer of thousands of digits
        text = "an integer of thousands of digits"
    return text if len(text) <= most else f"{text[: most - 1]}…"


def counted(number: int, singular: str, plural: str = "") -> str:
    """The number with its noun: "1 trace", "1,000 traces"."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def first_line(error: BaseException) -> str:
    """The first line of another library's error; of an operating system's error, its text alone."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The known name that a misspelt one most likely means, whatever the case; None where none is similar."""
    folded = {one.casefold(): one for one in choices}
    likeness = LIKENESS if len(name) > SHORT else LIKENESS_OF_SHORT
    near = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=likeness)
    begun = [one for one in folded if len(name) > SHORT and one.startswith(name.casefold())]
    return folded[(near or begun)[0]] if near or begun else None


def suggest(name: str, choices: Iterable[str], limit: int = 12) -> str:
    """The end of a message about an unknown name: the nearest known name, then the known ones.

    `suggest("marign", ["margin", "budget"])` gives "did you mean `margin`? there are: `budget`, `margin`".
    """
    names = sorted(set(choices))
    if not names:
        return "there are none"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    near = nearest(name, names)
    hint = f"did you mean `{near}`? " if near else ""
    there = "there are:" if len(names) > 1 else "there is only"
    return f"{hint}{there} {listed(names[:limit])}{more}"


def require_known(name: str, choices: Iterable[str], line: str) -> None:
    """Raises UnknownError unless the name is known. Its line is `line` followed by the nearest known name."""
    if name not in choices:
        raise UnknownError(f"{line}; {suggest(name, choices)}")


@contextmanager
def error_prefix(prefix: str) -> Iterator[None]:
    """Puts a prefix before the line of every error raised inside the block."""
    try:
        yield
    except ThinkbackError as error:
        raise error.with_subject(prefix) from None


def ends_by_signal(error: BaseException) -> bool:
    """Whether an exit was asked for by a signal that came while some code ran, and not by that code."""
    return getattr(error, "by_signal", False)


@contextmanager
def user_code(subject: str, happens: str = "fails") -> Iterator[None]:
    """Turns whatever a user's code raises in the block, even an exit, into a one-line RuleError with its cause."""
    try:
        yield
    except ThinkbackError:
        raise
    except (Exception, SystemExit) as error:
        if ends_by_signal(error):
            raise
        raise RuleError(
            f"{subject} {happens}: {type(error).__name__}: {first_line(error)}{_place_in_user_code(error)}"
        ) from error


def _place_in_user_code(error: BaseException) -> str:
    """The place of an error in the user's code, " (FILE, line N)"; empty where no line of it is the user's."""
    ours = Path(__file__).parents[1]
    packages = tuple(str(ours / name) for name in ("toolkit", "replay", "generate", "thinkback"))
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if not frame.filename.startswith((*packages, "<")) and "site-packages" not in path.parts:
            name = "a cell" if path.parent.name.startswith("ipykernel_") else path.name
            return f" ({name}, line {frame.lineno})"
    return ""
