"""Several engines behind one queue: each call goes to the engine that it names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from generate.engines.base import Call, CallQueue, Engine, Outcome, call_queue

PAUSE_S = 0.002
"""Between two looks at servers of which none has an answer."""


class SeveralEngines(CallQueue):
    """The engines of a recipe, by name; each is opened when its first call is submitted."""

    name = model = "several"

    def __init__(self, opened: Callable[[str], Engine]):
        self._opened = opened
        self.engines: dict[str, Engine] = {}
        self._queues: dict[str, CallQueue] = {}
        self._waiting: dict[str, set[str]] = {}
        """The keys of the calls that wait, by engine; the engine that gave answers last is the last."""

    @property
    def has_pausing_engine(self) -> bool:  # type: ignore[override]
        return any(queue.has_pausing_engine for queue in self._queues.values())

    def describe(self) -> dict[str, object]:
        """What each engine says of itself."""
        return {name: engine.describe() for name, engine in self.engines.items()}

    def submit(self, call: Call) -> None:
        name = call.engine
        if name not in self._queues:
            self.engines[name] = self._opened(name)
            self._queues[name], self._waiting[name] = call_queue(self.engines[name]), set()
        self._waiting[name].add(call.key)
        self._queues[name].submit(call)

    def cancel(self, call: Call) -> None:
        if call.engine in self._queues:
            self._waiting[call.engine].discard(call.key)
            self._queues[call.engine].cancel(call)

    def can_complete(self) -> bool:
        return any(keys and self._queues[name].can_complete() for name, keys in self._waiting.items())

    def completed(self) -> Iterator[tuple[Call, Outcome]]:
        given = False
        while not given:
            name = self._engine_with_answer()
            if name is None:
                return
            self._waiting[name] = self._waiting.pop(name)
            there = len(self._waiting[name])
            for call, outcome in self._queues[name].completed():
                given = True
                self._waiting[name].discard(call.key)
                yield call, outcome
            if len(self._waiting[name]) == there:  # an engine that gives nothing is not asked for ever
                return

    def _engine_with_answer(self) -> str | None:
        """An engine with an answer; None where no call waits."""
        while busy := [name for name, keys in self._waiting.items() if keys]:
            name = next((one for one in busy if len(busy) == 1 or self._queues[one].can_complete()), None)
            if name is not None:
                return name
            time.sleep(PAUSE_S)
        return None

    def close(self) -> None:
        """Close every engine that was opened."""
        with ExitStack() as stack:
            for engine in self.engines.values():
                stack.callback(engine.close)
