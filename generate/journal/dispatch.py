"""Asking an engine: each answer is in the journal before it is handed on, and what another run may cure is counted.

A failure is final, and kept, where an engine knows that its call can't be answered, and where a server refuses the
request after it has answered another one of the pool. Refusals that come before wait for that: they may be the recipe's
fault. Everything else is asked again by the next run, unless it is given up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from generate.engines.base import Call, CallFailure, Engine, Outcome, writable
from generate.journal.database import Journal
from generate.journal.events import Answered
from toolkit.errors import IncompleteError, ThinkbackError, argument

PATIENCE = 20
"""Calls in a row that may fail before a run ends: the server is down, or the limit of an account is reached. As many
equal refusals end it where none of the pool was answered: the recipe is at fault, or the server's settings."""


@dataclass(frozen=True)
class JournalCall:
    """A call with its purpose: samples of an example in a pool, or an attempt at a verifier's question."""

    call: Call
    about: str
    pool: str
    samples: tuple[int, ...]


class Dispatch:
    """The calls of a run. `what` is how errors name what is incomplete without them."""

    def __init__(self, journal: Journal, what: str):
        self.journal, self.what = journal, what
        self.proven: set[str] = set()
        """The pools with an answered call."""
        self.failed: list[tuple[JournalCall, CallFailure]] = []
        """The failed calls that another run may repeat, with refusals that wait for an answer of their pool."""
        self.in_a_row = 0

    def note(self, event: Answered) -> None:
        """Record an earlier answer."""
        if event.completion is not None:
            self.proven.add(event.pool)

    def answers(self, engine: Engine, calls: Sequence[JournalCall]) -> Iterator[tuple[JournalCall, list[Answered]]]:
        """Run calls; each that is answered, if only by a failure of its own, with its samples, when they are kept.

        ThinkbackError at `PATIENCE` failures in a row that another run may cure, and as many equal refusals.
        """
        of = {one.call.key: one for one in calls}
        before = time.monotonic()
        try:
            for call, outcome in engine.run([replace(one.call, proven=one.pool in self.proven) for one in calls]):
                one = of[call.key]
                if isinstance(outcome, CallFailure) and not self._final(one, outcome):
                    continue
                first = not isinstance(outcome, CallFailure) and one.pool not in self.proven
                self.in_a_row, now = 0, time.monotonic()
                answered = self._record(one, outcome, now - before)
                before = now
                yield one, answered
                if first:
                    self.proven.add(one.pool)
                    yield from self._finalise([f.refused and held.pool == one.pool for held, f in self.failed])
        finally:
            self.journal.sync()

    def give_up(self) -> Iterator[tuple[JournalCall, list[Answered]]]:
        """Let all failures be final."""
        yield from self._finalise([True] * len(self.failed))
        self.journal.sync()

    def check(self) -> None:
        """ThinkbackError where calls failed that another run may cure."""
        if self.failed:
            raise self._incomplete(f"{len(self.failed):,} calls failed")

    def open(self) -> frozenset[str]:
        """The subjects of the failed calls that another run may repeat."""
        return frozenset(one.about for one, _ in self.failed)

    def _final(self, call: JournalCall, failure: CallFailure) -> bool:
        """Whether a failure is final; else it is counted."""
        if call.pool in self.proven if failure.refused else not failure.retryable:
            return True
        self.failed.append((call, failure))
        if not failure.refused:
            self.in_a_row += 1
            if self.in_a_row >= PATIENCE:
                raise self._incomplete(f"{PATIENCE} calls in a row failed")
            return False
        alike = sum(held.pool == call.pool and other.cause == failure.cause for held, other in self.failed)
        if alike >= PATIENCE:
            raise self._incomplete(f"{PATIENCE} calls were refused alike before one was answered")
        return False

    def _finalise(self, final: Sequence[bool]) -> Iterator[tuple[JournalCall, list[Answered]]]:
        """Keep the failures that are marked as final."""
        marked = list(zip(self.failed, final, strict=True))
        self.failed = [one for one, settled in marked if not settled]
        for (one, failure), settled in marked:
            if settled:
                yield one, self._record(one, failure, 0.0)

    def _record(self, call: JournalCall, outcome: Outcome, elapsed_s: float) -> list[Answered]:
        """The samples of a call, once they are in the journal."""
        completions = [None] * len(call.samples) if isinstance(outcome, CallFailure) else map(writable, outcome)
        seconds = [elapsed_s] + [0.0] * (len(call.samples) - 1)
        reason, cause = (outcome.reason, outcome.cause) if isinstance(outcome, CallFailure) else (None, None)
        answered = [
            Answered(call.about, call.pool, sample, reason, spent, completion, cause)
            for sample, spent, completion in zip(call.samples, seconds, completions, strict=True)
        ]
        self.journal.append(answered)
        return answered

    def _incomplete(self, how: str) -> ThinkbackError:
        one, failure = self.failed[-1]
        return IncompleteError(
            f"{self.what} is not complete: {how}, the last is `{one.call.key}`: {failure.reason}; progress is saved:"
            f" run the same command again, or seal without what fails: {argument('with_failures')}"
        )
