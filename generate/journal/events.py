"""The events of a journal: a frozen dataclass of plain values for each kind, which has a table of its own."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, fields
from itertools import chain
from typing import Any

from generate.engines.base import Completion
from toolkit.errors import InvalidError

COMPLETION = "completion"
_FIELDS = tuple(field.name for field in fields(Completion))
_LISTS = {"token_ids": "i", "token_ranks": "i", "token_logprobs": "d", "token_entropies": "d"}
"""The lists of a completion, with the type of their numbers: int32 and float64."""
_FLOATS = tuple(name for name, kind in _LISTS.items() if kind == "d")
_FLAGS = ("tokens_estimated", "seeded")


@dataclass(frozen=True)
class Answered:
    """One sample of an answered call: its completion, or why there is none.

    about: the example, or the question of a verifier. pool: of the recipe, ending in `FINALIZER` for the calls that
    read an answer; empty for a verifier's. sample: its index, or the number of the try. elapsed_s: wall-clock seconds
    since the answer before, on the first sample of each call, so that they add up over all interruptions. cause: the
    few words under which failures are counted.
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
    """A trace that can have no row of a signal, and why. cause: where a call failed, the words under which the failure
    is counted.
    """

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
    """A trace whose judgement cannot be read. first: whether it is the first trace of its judgement, which is counted
    once.
    """

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


def row_of(event: Event) -> tuple[Any, ...]:
    """An event as a row of its table, lists of numbers as bytes. ThinkbackError where a number in it is none."""
    row = [value for name, value in vars(event).items() if name != COMPLETION]
    reply = getattr(event, COMPLETION, None)
    if reply is not None:
        given = [*vars(reply).values()]
        numbers = [value for value in given if type(value) is float]
        lists = [list(getattr(reply, name) or ()) for name in _FLOATS]
        if not all(map(math.isfinite, chain(numbers, *lists))):
            raise InvalidError(f"the engine gave a number that is NaN or infinite for `{row[0]}/{row[1]}`")
        row += [_stored(name, value) for name, value in zip(_FIELDS, given, strict=True)]
    elif isinstance(event, Answered):
        row += [None] * len(_FIELDS)
    return tuple(row)


def event_of(kind: type[Event], row: tuple[Any, ...]) -> Event:
    """The event of a row of its table."""
    given = dict(zip(columns_of(kind), row, strict=True))
    if kind is not Answered:
        return kind(**given)
    columns = {name: _read(name, given.pop(name)) for name in _FIELDS}
    return Answered(**given, completion=None if columns["text"] is None else Completion(**columns))


def _stored(name: str, value: Any) -> Any:
    """A completion's value as SQLite has it."""
    kind = _LISTS.get(name)
    return value if kind is None or value is None else array(kind, value).tobytes()


def _read(name: str, value: Any) -> Any:
    """A completion's value from what SQLite has."""
    if value is None:
        return None
    if name in _FLAGS:
        return bool(value)
    return array(_LISTS[name], value) if name in _LISTS else value
