"""The parts of a job on a pool of workers: results in order, lost parts begun anew, slow ones beside themselves."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from toolkit.errors import IncompleteError
from toolkit.workers.travel import LostWork, open_answer

TRIES = 2
"""How often a part may be lost before the job ends."""
AHEAD = 3
"""For each worker so many parts beyond the first that is awaited are begun, so that few results wait in memory."""
SLOW = 4.0
"""A part is slow when it takes so many times as long as the longest of those that are done, which took a second at
least.
"""
PAUSE_S = 1.0
"""Seconds between two looks at slow parts."""


class Pool(Protocol):
    """A pool of workers, wherever they are; `places`: how many parts they work on at once."""

    places: int

    def with_accelerators(self) -> Pool:
        """The workers for jobs that load a model: each has an accelerator to itself, where the pool has any."""

    def give(self, job: bytes) -> Any:
        """Hand the packed job to all workers, and return what `begin` knows it by."""

    def begin(self, job: Any, part: bytes) -> Hashable:
        """Begin a part, and return the task that works on it."""

    def finished(self, tasks: Collection[Hashable], wait_s: float) -> Sequence[Hashable]:
        """The tasks that ended, after at most so many seconds."""

    def answer(self, task: Hashable) -> bytes:
        """The packed answer of a task that ended. LostWork where its worker is gone."""

    def stop(self, tasks: Collection[Hashable]) -> None:
        """End tasks, whether they work or wait."""


@dataclass(frozen=True)
class Part:
    """A part of a job: what it is in words, and its packed argument."""

    name: str
    argument: bytes


def results_in_order(pool: Pool, job: bytes, parts: Sequence[Part]) -> Iterator[Any]:
    """Yields the results of the parts, in their order. What a part raises is raised in its turn; a part that is lost
    twice ends the job with one line.
    """
    handle = pool.give(job)
    waiting, running = deque(range(len(parts))), dict[Hashable, tuple[int, float]]()
    answers, lost, longest = dict[int, bytes](), Counter[int](), 0.0
    first = 0

    def begin(number: int) -> None:
        running[pool.begin(handle, parts[number].argument)] = number, time.monotonic()

    try:
        while first < len(parts):
            if first in answers:
                yield open_answer(answers.pop(first))
                first += 1
                continue
            ahead = first + AHEAD * pool.places
            while waiting and len(running) < pool.places and waiting[0] < ahead:
                begin(waiting.popleft())
            if longest and len(running) < pool.places:  # no other part may begin
                for number in _slow_parts(running.values(), SLOW * max(longest, PAUSE_S))[: pool.places - len(running)]:
                    begin(number)
            for task in pool.finished(list(running), PAUSE_S):
                if task not in running:  # ended with its other half, in this very look
                    continue
                number, began = running.pop(task)
                others = [other for other, (same, _) in running.items() if same == number]
                try:
                    answers[number] = _answer_unless_lost(pool.answer(task))
                except LostWork as loss:
                    lost[number] += 1
                    if lost[number] >= TRIES:
                        raise IncompleteError(
                            f"{parts[number].name}: lost {TRIES} times by workers ({loss}); give them more memory, or "
                            "replay fewer policies at once"
                        ) from None
                    if not others:
                        waiting.appendleft(number)
                    continue
                longest = max(longest, time.monotonic() - began)
                pool.stop(others)
                for other in others:
                    del running[other]
    finally:
        pool.stop(list(running))


def _slow_parts(running: Collection[tuple[int, float]], seconds: float) -> list[int]:
    """The parts that one worker alone has worked on for longer than so many seconds."""
    copies, now = Counter(number for number, _ in running), time.monotonic()
    return [number for number, began in running if copies[number] == 1 and now - began > seconds]


def _answer_unless_lost(answer: bytes) -> bytes:
    """The answer. LostWork where it says that its worker had no memory left."""
    if answer == LostWork.NO_MEMORY:
        raise LostWork("out of memory")
    return answer
