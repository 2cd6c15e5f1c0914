"""Asking an engine: each answer is in the journal before it is handed on, and what another run may cure is counted."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from generate.engines.base import Call, CallFailure, Engine, writable
from generate.journal.database import Journal
from generate.journal.events import Answered
from toolkit.errors import ThinkbackError

PATIENCE = 20
"""Calls in a row that may fail before a run ends: the server is down, or the limit of an account is reached."""


@dataclass(frozen=True)
class JournalCall:
    """A call and what it is for: samples of an example in a pool, or a try at a verifier's question."""

    call: Call
    about: str
    pool: str
    samples: tuple[int, ...]


class Asking:
    """The calls of a run. `what` is how errors name what is incomplete without them."""

    def __init__(self, journal: Journal, what: str):
        self.journal, self.what = journal, what
        self.failed: list[tuple[str, str]] = []
        """(call, reason) of the calls that another run may cure."""
        self.in_a_row = 0

    def answers(self, engine: Engine, asked: Sequence[JournalCall]) -> Iterator[tuple[JournalCall, list[Answered]]]:
        """Run calls; each that is answered, if only by a failure of its own, with its samples, when they are kept.

        ThinkbackError at `PATIENCE` failures in a row that another run may cure.
        """
        of = {one.call.key: one for one in asked}
        before = time.monotonic()
        try:
            for call, outcome in engine.run([one.call for one in asked]):
                one, failure = of[call.key], outcome.reason if isinstance(outcome, CallFailure) else None
                if isinstance(outcome, CallFailure) and outcome.retryable:
                    self.failed.append((call.key, outcome.reason))
                    self.in_a_row += 1
                    if self.in_a_row >= PATIENCE:
                        raise self._incomplete(f"{PATIENCE} calls in a row failed")
                    continue
                self.in_a_row, now = 0, time.monotonic()
                made = [None] * len(one.samples) if isinstance(outcome, CallFailure) else map(writable, outcome)
                elapsed = [now - before] + [0.0] * (len(one.samples) - 1)
                answered = [
                    Answered(one.about, one.pool, sample, failure, seconds, completion)
                    for sample, seconds, completion in zip(one.samples, elapsed, made, strict=True)
                ]
                before = now
                self.journal.append(answered)
                yield one, answered
        finally:
            self.journal.sync()

    def check(self) -> None:
        """ThinkbackError where calls failed that another run may cure."""
        if self.failed:
            raise self._incomplete(f"{len(self.failed):,} calls failed")

    def _incomplete(self, how: str) -> ThinkbackError:
        key, reason = self.failed[-1]
        return ThinkbackError(
            f"{self.what} is not complete: {how}, the last is `{key}`: {reason}; progress is saved: run the same"
            " command again"
        )
