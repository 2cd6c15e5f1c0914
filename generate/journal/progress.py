"""What a run that is on its way has done so far: a small file beside its journal, which everybody may read.

The journal itself is held by the run alone while it lasts. The file is replaced as a whole, at most once a second, so
that a reader sees one state or the next; a disk that is full does not end a run because of it.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from generate.engines.base import Completion
from generate.journal.database import FOLDER

PROGRESS = "progress.json"
EVERY_S = 1.0
"""Seconds between two states of the file, at least."""
SPAN_S = 60.0
"""The seconds over which traces a minute are counted."""
REASON = 300
"""Characters of a failure's reason that are kept."""


@dataclass(frozen=True)
class FailedCalls:
    """Calls that failed for one cause: how many, the first reason, and whether another run would ask them again."""

    cause: str
    calls: int
    reason: str
    again: bool


@dataclass(frozen=True)
class RunProgress:
    """The state of a run. Traces and tokens are of all starts together, times in seconds since 1970.

    `expected`: traces when all is done. `per_minute`: over the last minute. `prompt_tokens`: of each trace its own;
    `cost`: as billed, in `currency`, None where no server says it. `running`: False once the run has ended itself.
    """

    name: str
    running: bool
    begun_at: float
    updated_at: float
    traces: int
    expected: int
    per_minute: float
    prompt_tokens: int
    completion_tokens: int
    cost: float | None
    currency: str | None
    failures: tuple[FailedCalls, ...]


class ProgressFile:
    """Counts what a run does, and writes its progress into the folder `out`. `traces` were there when it began."""

    def __init__(self, out: Path, name: str, expected: int, currency: str | None):
        self.path, self.name, self.expected, self.currency = out / FOLDER / PROGRESS, name, expected, currency
        self.traces, self.prompt_tokens, self.completion_tokens = 0, 0, 0
        self.cost: float | None = None
        self.begun_at, self._written_at = time.time(), 0.0
        self._marks = deque[tuple[float, int]]()  # (monotonic time, traces) of the last minute

    def add_tokens(self, prompt: int | None, completion: int | None, cost: float | None) -> None:
        """Count tokens and what was billed; None is not known, and counts nothing."""
        self.prompt_tokens += prompt or 0
        self.completion_tokens += completion or 0
        if cost is not None:
            self.cost = (self.cost or 0.0) + cost

    def add_completion(self, completion: Completion | None) -> None:
        """Count the tokens of an answer; a call that failed has none."""
        if completion is not None:
            self.add_tokens(completion.prompt_tokens, completion.completion_tokens, completion.cost)

    def is_due(self) -> bool:
        """Whether the file is older than a second."""
        return time.monotonic() - self._written_at >= EVERY_S

    def write(self, failures: Sequence[FailedCalls], running: bool = True) -> None:
        """Replace the file. Nothing happens where the folder is gone, as that of a sealed log, or can't be written."""
        now = self._written_at = time.monotonic()
        self._marks.append((now, self.traces))
        while now - self._marks[0][0] > SPAN_S:
            self._marks.popleft()
        since, before = self._marks[0]
        rate = 60 * (self.traces - before) / (now - since) if now > since else 0.0
        state = RunProgress(
            self.name, running, self.begun_at, time.time(), self.traces, self.expected, rate, self.prompt_tokens,
            self.completion_tokens, self.cost, self.currency, tuple(failures),
        )  # fmt: skip
        beside = self.path.with_suffix(".part")
        with suppress(OSError):
            beside.write_text(json.dumps(asdict(state)), encoding="utf-8")
            beside.replace(self.path)


def failed_calls(final: Iterable[tuple[str, str]], passing: Iterable[tuple[str, str]]) -> list[FailedCalls]:
    """Failures by cause, of (reason, cause) each: those that are final, and those that another run asks again."""
    counts: dict[tuple[str, bool], tuple[int, str]] = {}
    listed = [(one, False) for one in final] + [(one, True) for one in passing]
    for (reason, cause), again in listed:
        calls, first = counts.get((cause, again), (0, reason))
        counts[cause, again] = calls + 1, first
    return [FailedCalls(cause, calls, first[:REASON], again) for (cause, again), (calls, first) in counts.items()]


def read_progress(out: Path) -> RunProgress | None:
    """The state of the run in a folder; None where none is on its way, or an older version began it."""
    try:
        state = json.loads((out / FOLDER / PROGRESS).read_text(encoding="utf-8"))
        return RunProgress(**{**state, "failures": tuple(FailedCalls(**one) for one in state["failures"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None
