"""Pools in this process: what goes to workers and what comes back is bytes, and a script says what becomes of each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from toolkit.workers.chosen import CHOSEN
from toolkit.workers.travel import LostWork, answer_part


class ScriptedPool:
    """A pool of `places` workers. `fate(part, attempt)` says what becomes of the attempt at a part (numbered as begun):
    `done`, `lost`, `slow` (it never ends by itself).
    """

    def __init__(self, places: int, fate: Callable[[int, int], str] = lambda part, attempt: "done") -> None:
        self.places, self.fate = places, fate
        self.parts: list[bytes] = []
        self.running: dict[int, tuple[int, str, bytes, bytes]] = {}
        self.begun, self.ended, self.stopped = deque[int](), [], []
        self.most, self.moved, self.idle = 0, 0, 0

    def with_accelerators(self) -> ScriptedPool:
        return self

    def give(self, job: bytes) -> Any:
        self.moved += len(job)
        return job

    def begin(self, job: Any, part: bytes) -> Hashable:
        if part not in self.parts:
            self.parts.append(part)
        number = self.parts.index(part)
        attempt = sum(begun == number for begun in self.begun)
        self.begun.append(number)
        task = len(self.begun)
        self.running[task] = number, self.fate(number, attempt), job, part
        self.most = max(self.most, len(self.running))
        assert len(self.running) <= self.places
        return task

    def finished(self, tasks: Collection[Hashable], wait_s: float) -> Sequence[Hashable]:
        """The last of those that end: parts come back in another order than they were begun. TimeoutError once nothing
        has ended in a hundred looks.
        """
        assert sorted(tasks) == sorted(self.running)
        ends = [task for task in self.running if self.running[task][1] != "slow"]
        self.idle = 0 if ends else self.idle + 1
        if self.idle > 100:
            raise TimeoutError
        return ends[-1:]

    def answer(self, task: Hashable) -> bytes:
        number, fate, job, part = self.running.pop(task)
        self.ended.append(number)
        if fate == "lost":
            raise LostWork("killed")
        if fate == "memory":
            return LostWork.NO_MEMORY
        answer = answer_part(job, part)
        self.moved += len(part) + len(answer)
        return answer

    def stop(self, tasks: Collection[Hashable]) -> None:
        for task in tasks:
            self.stopped.append(self.running.pop(task)[0])


@contextmanager
def on_pool(pool: ScriptedPool) -> Iterator[None]:
    """What runs inside uses the pool."""
    before = CHOSEN.set(pool)
    try:
        yield
    finally:
        CHOSEN.reset(before)
