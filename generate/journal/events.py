"""The events of a journal: a frozen dataclass of plain values for each kind, which has a table of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from generate.engines.base import Completion
from toolkit.errors import InvalidError

_FIELDS = tuple(field.name for field in fields(Completion))
_LISTS = ("token_ids", "token_logprobs", "token_entropies", "token_ranks")


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
Event = Answered | SignalEvent
KINDS: tuple[type[Event], ...] = (Answered, Skipped, Incomplete, Recounted, Unreadable, BlockDone)


def columns_of(kind: type[Event]) -> tuple[str, ...]:
    """The columns of the table of a kind of event."""
    return tuple(field.name for field in fields(kind))


def row_of(event: Event) -> tuple[Any, ...]:
    """An event as a row of its table, a completion as JSON. ThinkbackError where a number in it is none."""
    row = {name: getattr(event, name) for name in columns_of(type(event))}
    reply = row.get("completion")
    if reply is not None:
        try:
            values = {name: getattr(reply, name) for name in _FIELDS}
            row["completion"] = json.dumps(values, ensure_ascii=False, allow_nan=False)
        except ValueError:
            raise InvalidError(
                f"the engine gave a number that is NaN or infinite for `{row['about']}/{row['pool']}`"
            ) from None
    return tuple(row.values())


def event_of(kind: type[Event], row: tuple[Any, ...]) -> Event:
    """The event of a row of its table."""
    given = dict(zip(columns_of(kind), row, strict=True))
    if given.get("completion") is not None:
        given["completion"] = _completion_of(json.loads(given["completion"]))
    return kind(**given)


def _completion_of(text: Mapping[str, Any]) -> Completion:
    """A completion as JSON kept it; journals of before kept no token ids, entropies and ranks."""
    columns: dict[str, Any] = {name: text.get(name) for name in _FIELDS}
    columns |= {name: None if columns[name] is None else tuple(columns[name]) for name in _LISTS}
    return Completion(**columns)
