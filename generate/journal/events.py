"""The events of a journal: a frozen dataclass of plain values for each kind, which has a table of its own."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, fields
from typing import Any

from generate.engines.base import PACKED, Completion, build_without_checks
from toolkit.errors import InvalidError

COMPLETION = "completion"
_FIELDS = tuple(field.name for field in fields(Completion))
_FLAGS = ("tokens_estimated", "seeded")


@dataclass(frozen=True)
class Answered:
    """One sample of an answered call: its completion, or why there is none.

    about: the example, or the question of a verifier. pool: of the recipe, ending in `FINALIZER` for the calls that
    read an answer; empty for a verifier's. sample: its index, or the number of the try. elapsed_s: its call's share of
    the wall-clock seconds since the answers before, on the first sample of each call, so that they add up over all
    interruptions. cause: the few words under which failures are counted.
    """

    about: str
    pool: str
    sample: int
    failure: str | None
    elapsed_s: float
    completion: Completion | None
    cause: str | None = None


@dataclass(frozen=True)
class Requested:
    """A request of a loop, by its digest. reply: what a search or a score answered, as JSON; None where an engine is
    asked. elapsed_s: of the reply.
    """

    about: str
    pool: str
    number: int
    digest: str
    reply: str | None
    elapsed_s: float


@dataclass(frozen=True)
class Skipped:
    """A trace without a row of a signal, and why. cause: of a failed call, the words under which it is counted."""

    trace_id: str
    reason: str
    cause: str | None = None


@dataclass(frozen=True)
class Incomplete:
    """A trace whose row of a signal lacks a value, and why."""

    trace_id: str
    reason: str


@dataclass(frozen=True)
class Recounted:
    """A trace whose text was made into tokens anew, and came to another number than the log tells."""

    trace_id: str
    reason: str


@dataclass(frozen=True)
class Unreadable:
    """A trace whose judgement cannot be read. first: whether it is the judgement's first, which is counted once."""

    trace_id: str
    first: bool


@dataclass(frozen=True)
class BlockDone:
    """A block of traces that is done: its seconds, and the tokens of calls that came to nothing."""

    elapsed_s: float
    lost_tokens: int


SignalEvent = Skipped | Incomplete | Recounted | Unreadable | BlockDone
Event = Answered | Requested | SignalEvent
KINDS: tuple[type[Event], ...] = (Answered, Requested, Skipped, Incomplete, Recounted, Unreadable, BlockDone)


def columns_of(kind: type[Event]) -> tuple[str, ...]:
    """The columns of the table of a kind of event; a completion has a column for each of its fields."""
    return _COLUMNS[kind]


def _columns_of(kind: type[Event]) -> tuple[str, ...]:
    names = tuple(field.name for field in fields(kind) if field.name != COMPLETION)
    return names + (_FIELDS if kind is Answered else ())


_COLUMNS = {kind: _columns_of(kind) for kind in KINDS}
_ABOUT = len(columns_of(Answered)) - len(_FIELDS)
"""The number of columns before those of the completion; the last of them is the cause."""
_TEXT = _ABOUT + _FIELDS.index("text")
_LISTED = tuple((_ABOUT + _FIELDS.index(name), kind) for name, kind in PACKED.items())
_FLAGGED = tuple(_ABOUT + _FIELDS.index(name) for name in _FLAGS)


def row_of(event: Event) -> tuple[Any, ...]:
    """An event as a row of its table, lists of numbers as bytes. ThinkbackError where not all of these are numbers."""
    if not isinstance(event, Answered):
        return tuple(vars(event).values())
    row = [value for name, value in vars(event).items() if name != COMPLETION]
    if event.completion is None:
        return (*row, *[None] * len(_FIELDS))
    row += vars(event.completion).values()
    finite = all(map(math.isfinite, [value for value in row if type(value) is float]))
    for place, kind in _LISTED:
        if row[place] is not None:
            finite = finite and (kind != "d" or all(map(math.isfinite, row[place])))
            row[place] = array(kind, row[place]).tobytes()
    if not finite:
        raise InvalidError(f"the engine gave NaN or an infinite number for `{row[0]}/{row[1]}`: mend it")
    return tuple(row)


def event_of(kind: type[Event], row: tuple[Any, ...]) -> Event:
    """The event of a row of its table."""
    if kind is not Answered:
        return kind(*row)
    *of, cause = row[:_ABOUT]
    if row[_TEXT] is None:
        return Answered(*of, completion=None, cause=cause)  # type: ignore[misc]
    values = list(row)
    for place in _FLAGGED:
        values[place] = bool(values[place])
    for place, numbers in _LISTED:
        if values[place] is not None:
            values[place] = array(numbers, values[place])
    completion = build_without_checks(Completion, dict(zip(_FIELDS, values[_ABOUT:], strict=True)))
    return Answered(*of, completion=completion, cause=cause)  # type: ignore[misc]
