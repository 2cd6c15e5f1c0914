"""Threads for what a user's functions take long for, so that other examples go on meanwhile."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable
from queue import Empty, SimpleQueue
from typing import Any

Finished = tuple[Any, Any]
"""What a piece of work was begun with, and what came of it: a value, or the exception."""


class Workers:
    """Threads of several services. No run waits at its end for what they still do."""

    def __init__(self) -> None:
        self._due: dict[Hashable, SimpleQueue[tuple[Any, Callable[[], Any]]]] = {}
        self._threads: Counter[Hashable] = Counter()
        self._finished: SimpleQueue[Finished] = SimpleQueue()
        self.busy = 0
        """Pieces of work that were not given back yet."""

    def begin_work(self, service: Hashable, mark: Any, work: Callable[[], Any], most: int) -> None:
        """Do a piece of work, with at most so many of its service at one time. `mark` comes back with its outcome."""
        due = self._due.setdefault(service, SimpleQueue())
        due.put((mark, work))
        self.busy += 1
        if self._threads[service] < most:
            self._threads[service] += 1
            threading.Thread(target=self._run_thread, args=(due,), daemon=True).start()

    def finished_work(self, wait_s: float | None = None) -> list[Finished]:
        """The work that is done; waits so long for the first, or without a limit. Empty where nothing was begun."""
        finished: list[Finished] = []
        while self.busy and (wait_s != 0 or not self._finished.empty()):
            try:
                finished.append(self._finished.get(timeout=wait_s))
            except Empty:
                break
            self.busy -= 1
            wait_s = 0
        return finished

    def _run_thread(self, due: SimpleQueue[tuple[Any, Callable[[], Any]]]) -> None:
        while True:
            mark, work = due.get()
            try:
                value = work()
            except BaseException as error:  # handed to the run's thread, which raises it
                value = error
            self._finished.put((mark, value))
