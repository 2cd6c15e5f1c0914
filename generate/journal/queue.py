"""The queue of a run: calls go to the engine as they are asked, and come back in any order, each in the journal before
it is handed on. What another run may cure is counted.

A failure is final, and recorded, where an engine knows that its call can't be answered, and where a server refuses the
request after it has answered another one of the pool. Refusals that come before wait for that: they may be the recipe's
fault. Everything else is asked again by the next run, unless it is given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from generate.engines.base import (
    Call,
    CallFailure,
    CallQueue,
    Completion,
    Engine,
    EngineError,
    Outcome,
    build_without_checks,
    call_queue,
    split_in_proportion,
    storable_completion,
    summed_cost,
)
from generate.engines.thoughts import ends_in_thoughts, split_thoughts
from generate.journal.database import Journal
from generate.journal.events import Answered
from toolkit.errors import IncompleteError, ThinkbackError, argument

PATIENCE = 20
"""Calls in a row that may fail before a run ends: the server is down, or the limit of an account is reached. As many
equal refusals end it where none of the pool was answered: the recipe is at fault, or the server's settings."""
AGAIN = "run the same command again to continue"
BESIDE = "#"
"""Behind a pool's name: which of the loops that run side by side."""


@dataclass(frozen=True)
class JournalCall:
    """A call with its purpose: samples of an example in a pool, or an attempt at a verifier's question."""

    call: Call
    about: str
    pool: str
    samples: tuple[int, ...]

    @property
    def of_pool(self) -> str:
        """The pool's name, without the number of a loop that runs beside others."""
        return self.pool.partition(BESIDE)[0]


Settled = tuple[JournalCall, list[Answered]]
"""A call with its samples, once they are in the journal; with none where it failed and another run may cure it."""


class JournalQueue:
    """The calls of a run. `what` is how errors name what is incomplete without them; `opened` gives the engine when the
    first call is asked.
    """

    def __init__(self, journal: Journal, what: str, opened: Callable[[], Engine]):
        self.journal, self.what, self._opened = journal, what, opened
        self.waiting: dict[str, JournalCall] = {}
        """The calls on their way, by key."""
        self.proven: set[str] = set()
        """The pools with an answered call."""
        self.failed: list[tuple[JournalCall, CallFailure]] = []
        """The failed calls that another run may repeat, with refusals that wait for an answer of their pool."""
        self.recorded = 0
        """Samples in the journal."""
        self.in_a_row = 0
        self._engine: CallQueue | None = None
        self._answered: list[list[Answered]] = []  # by call, of answers given in a row, not yet in the journal
        self._last = 0.0  # when the answer before came, on the monotonic clock

    def note_earlier_answer(self, event: Answered) -> None:
        """Count an answer of an earlier run; one with a completion shows that its pool's settings are right."""
        self.recorded += 1
        if event.completion is not None:
            self.proven.add(event.pool.partition(BESIDE)[0])

    def submit_calls(self, calls: Iterable[JournalCall]) -> None:
        """Give calls to the engine."""
        for call in calls:
            if self._engine is None:
                self._engine = call_queue(self._opened())
            if not self.waiting:
                self._last = time.monotonic()
            self.waiting[call.call.key] = call
            proven = call.of_pool in self.proven
            self._engine.submit(
                build_without_checks(Call, {**vars(call.call), "proven": True}) if proven else call.call
            )

    def completed(self) -> list[Settled]:
        """Wait for answers, and record them; none where no call is on its way.

        ThinkbackError at `PATIENCE` failures in a row that another run may cure, at as many equal refusals, and where
        the engine stops, gives no answer, or one to what it was not asked.
        """
        if self._engine is None or not self.waiting:
            return []
        settled: list[Settled] = []
        try:
            for call, outcome in self._engine_answers(self._engine):
                settled += self._record_answer(call, outcome)
                if getattr(self._engine, "has_pausing_engine", False):
                    self._commit_answers()
        finally:
            self._commit_answers()
            self.journal.sync_to_disk()
        if not settled:
            raise EngineError(f"the engine gave no answer to `{self._first_waiting_key()}`; {AGAIN}", code="server")
        return settled

    def can_complete(self) -> bool:
        """Whether an answer is there, or comes by what the engine does while `completed` waits."""
        return self._engine is None or self._engine.can_complete()

    def cancel(self) -> None:
        """Let the engine forget what is on its way."""
        for one in self.waiting.values():
            if self._engine is not None:
                self._engine.cancel(one.call)
        self.waiting.clear()

    def make_failures_final(self) -> list[Settled]:
        """Make all failures final, so that no later run asks these calls again."""
        settled = list(self._record_final_failures([True] * len(self.failed)))
        self._last = time.monotonic()
        self._commit_answers()
        self.journal.sync_to_disk()
        return settled

    def check_failures(self) -> None:
        """ThinkbackError where calls failed that another run may cure."""
        if self.failed:
            raise self._incomplete_error(f"{len(self.failed):,} calls failed")

    def _engine_answers(self, engine: CallQueue) -> Iterator[tuple[Call, Outcome]]:
        """What the engine has done. EngineError where it stops, whatever it raises."""
        answers = engine.completed()
        while True:
            try:
                pair = next(answers, None)
            except ThinkbackError:
                raise
            except Exception as error:  # an engine of a user's raises whatever it likes
                what = " ".join(f"{type(error).__name__}: {error}".split())
                raise EngineError(
                    f"the engine stopped at `{self._first_waiting_key()}`: {what}; {AGAIN}", code="server"
                ) from error
            if pair is None:
                return
            yield pair

    def _commit_answers(self) -> None:
        """Have the answers so far in the journal. Those that came together share the seconds since the answer before,
        in proportion to their own."""
        answered, self._answered = self._answered, []
        if answered:
            now = time.monotonic()
            elapsed, self._last = now - self._last, now
            for samples, spent in zip(
                answered, split_in_proportion(elapsed, list(map(_seconds_of, answered))), strict=True
            ):
                samples[0] = build_without_checks(Answered, {**vars(samples[0]), "elapsed_s": spent})
            self.journal.append(chain.from_iterable(answered))

    def _first_waiting_key(self) -> str:
        return next(iter(self.waiting))

    def _record_answer(self, call: Call, outcome: Outcome) -> Iterator[Settled]:
        one = self.waiting.pop(call.key, None)
        if one is None:
            raise EngineError(f"the engine answered `{call.key}`, which no open call has; {AGAIN}", code="mismatch")
        if isinstance(outcome, CallFailure):
            if not self._is_final_failure(one, outcome):
                yield one, []
                return
        elif len(outcome) != len(one.samples):
            raise EngineError(
                f"the engine gave {len(outcome)} of {len(one.samples)} samples for `{call.key}`; {AGAIN}",
                code="mismatch",
            )
        self.in_a_row = 0
        yield one, self._answer_events(one, outcome)
        if not isinstance(outcome, CallFailure) and one.of_pool not in self.proven:
            self.proven.add(one.of_pool)
            yield from self._record_final_failures([f.refused and old.of_pool == one.of_pool for old, f in self.failed])

    def _is_final_failure(self, call: JournalCall, failure: CallFailure) -> bool:
        """Whether a failure is final; else it is counted."""
        if call.of_pool in self.proven if failure.refused else not failure.retryable:
            return True
        self.failed.append((call, failure))
        if not failure.refused:
            self.in_a_row += 1
            if self.in_a_row >= PATIENCE:
                raise self._incomplete_error(f"{PATIENCE} calls in a row failed")
            return False
        alike = sum(held.of_pool == call.of_pool and other.cause == failure.cause for held, other in self.failed)
        if alike >= PATIENCE:
            raise self._incomplete_error(f"the first {PATIENCE} calls were refused for one cause")
        return False

    def _record_final_failures(self, final: Sequence[bool]) -> Iterator[Settled]:
        marked = list(zip(self.failed, final, strict=True))
        self.failed = [one for one, settled in marked if not settled]
        for (one, failure), settled in marked:
            if settled:
                yield one, self._answer_events(one, failure)

    def _answer_events(self, call: JournalCall, outcome: Outcome) -> list[Answered]:
        if isinstance(outcome, CallFailure):
            completions: list[Completion | None] = [None] * len(call.samples)
            reason, cause = outcome.reason, outcome.cause
        else:
            completions, reason, cause = [*_completions(call, outcome)], None, None
        answered = [
            Answered(call.about, call.pool, sample, reason, 0.0, completion, cause)
            for sample, completion in zip(call.samples, completions, strict=True)
        ]
        self._answered.append(answered)
        self.recorded += len(answered)
        return answered

    def _incomplete_error(self, how: str) -> ThinkbackError:
        one, failure = self.failed[-1]
        return IncompleteError(
            f"{self.what} is not complete: {how}, the last is `{one.call.key}`: {failure.reason}; progress is saved:"
            f" run the same command again, or seal without what fails: {argument('with_failures')}"
        )


def _seconds_of(samples: Sequence[Answered]) -> float:
    """A call's seconds of the engine, or where these are not known from its request on; 0 where it failed."""
    completions = [sample.completion for sample in samples if sample.completion is not None]
    device = summed_cost(completions, "device_s")
    return float(device) if device is not None else max(completion.latency_s for completion in completions)


def _completions(call: JournalCall, outcome: Sequence[Completion]) -> Iterator[Completion]:
    """Completions as a log has them: thoughts apart from the text, with the moment when they were sent, and the reply
    that several came in under the name of its first sample.
    """
    inside, now, replies = ends_in_thoughts(call.call.prompt), time.time(), dict[str, int]()
    for sample, one in zip(call.samples, outcome, strict=True):
        thoughts, text = (one.reasoning, one.text) if one.reasoning is not None else split_thoughts(one.text, inside)
        first = None if one.request is None else replies.setdefault(one.request, sample)
        yield storable_completion(
            one,
            reasoning=thoughts,
            text=text,
            request=None if first is None else f"{call.about}/{call.pool}/{first}",
            started_at=now - one.latency_s if one.started_at is None else one.started_at,
        )


def tokens_of(answered: Sequence[Answered]) -> int:
    """The tokens that were written for some samples, as far as they are known."""
    return sum(one.completion.completion_tokens or 0 for one in answered if one.completion is not None)
