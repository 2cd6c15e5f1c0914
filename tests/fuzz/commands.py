"""Runs the product: in a worker process that is kept as long as it lives, or as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
"""Seconds of a processor after which a command on logs of some hundred rows counts as hung."""
BUSY = 10
"""Times as many seconds count as hung where others keep the processors, or it waits for ever."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Ran:
    """How a command ended: its exit code (negative: the signal that ended it), and what it said."""

    words: tuple[str, ...]
    code: int
    out: str
    err: str
    seconds: float
    hung: bool = False
    memory: int = 0
    """The most that it took, in bytes, where that is known."""

    @property
    def told(self) -> str:
        """The command, as failures name it."""
        return " ".join(self.words)


def environment(folder: Path) -> dict[str, str]:
    """Variables under which nothing is read or left outside of a folder of our own; workers share a cache of fonts."""
    made = dict(os.environ)
    places = {"XDG_CACHE_HOME": folder / "cache", "TMPDIR": folder / "tmp", "MPLCONFIGDIR": folder.parent / "fonts"}
    for name, place in places.items():
        place.mkdir(exist_ok=True)
        made[name] = str(place)
    return made | {"PYTHONPATH": str(ROOT), "COLUMNS": "200", "POLARS_MAX_THREADS": "2", "PYTHONHASHSEED": "0"}


class Commands:
    """One worker in a folder of its own. It is begun anew after it died, hung, or ran `MOST` requests."""

    MOST = 1000

    def __init__(self, folder: Path):
        folder.mkdir(parents=True)
        self.folder, self.variables = folder, environment(folder)
        self._worker: subprocess.Popen[bytes] | None = None
        self._requests = 0

    def run(self, *words: object, folder: Path, limit_s: float = LIMIT_S) -> Ran:
        """A command line, in the worker."""
        given = tuple(map(str, words))
        return self._ask({"words": given, "folder": str(folder)}, given, limit_s)

    def call(self, function: str, *arguments: Any, folder: Path, limit_s: float = LIMIT_S) -> Ran:
        """A function `module:name` with arguments that JSON knows, in the worker. Its errors end like a command's."""
        told = (function, *(str(argument)[:60] for argument in arguments))
        return self._ask({"call": function, "arguments": arguments, "folder": str(folder)}, told, limit_s)

    def process(self, *words: object, folder: Path, limit_s: float = LIMIT_S) -> Ran:
        """A command line in a process of its own."""
        given, begun = tuple(map(str, words)), time.monotonic()
        with self.started(*given, folder=folder) as running:
            return ended(running, given, begun, limit_s)

    def started(self, *words: object, folder: Path, **variables: str) -> subprocess.Popen[bytes]:
        """A command line in a process of its own, at work."""
        command = [sys.executable, "-m", "thinkback", *map(str, words)]
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, cwd=folder, env=self.variables | variables, **pipes)

    def close(self) -> None:
        """End the worker, which removes its temporary files."""
        if self._worker is not None:
            with contextlib.suppress(subprocess.TimeoutExpired), self._worker:
                self._worker.stdin.close()  # type: ignore[union-attr]
                self._worker.wait(timeout=20)
            self._end()

    def _ask(self, request: dict[str, Any], told: tuple[str, ...], limit_s: float) -> Ran:
        if self._requests >= self.MOST:
            self.close()
        worker, begun = self._working(), time.monotonic()
        self._requests += 1
        worker.stdin.write(json.dumps(request).encode() + b"\n")  # type: ignore[union-attr]
        worker.stdin.flush()  # type: ignore[union-attr]
        replies = worker.stdout
        assert replies is not None
        if _hangs(worker.pid, limit_s, lambda left_s: bool(select.select([replies], [], [], left_s)[0])):
            self._end()
            return Ran(told, -signal.SIGKILL, *self._said(), time.monotonic() - begun, hung=True)
        line = replies.readline()
        if not line:
            code = worker.wait()
            self._end()
            return Ran(told, code, *self._said(), time.monotonic() - begun)
        code, memory = map(int, line.split())
        return Ran(told, code, *self._said(), time.monotonic() - begun, memory=memory)

    def _working(self) -> subprocess.Popen[bytes]:
        if self._worker is None:
            command = [sys.executable, "-m", "tests.fuzz.worker", str(self.folder)]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
            self._worker = subprocess.Popen(command, cwd=ROOT, env=self.variables, **pipes)
        return self._worker

    def _end(self) -> None:
        worker, self._worker, self._requests = self._worker, None, 0
        if worker is not None:
            worker.kill()
            worker.wait()
            for pipe in (worker.stdin, worker.stdout):
                with contextlib.suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _said(self) -> tuple[str, str]:
        out, err = ((self.folder / name).read_bytes().decode("utf-8", "replace") for name in ("out", "err"))
        return out, err


def ended(running: subprocess.Popen[bytes], words: tuple[str, ...], begun: float, limit_s: float = LIMIT_S) -> Ran:
    """How a process ended, after so many seconds at most."""
    said: list[bytes] = []

    def ends(left_s: float) -> bool:
        with contextlib.suppress(subprocess.TimeoutExpired):
            said[:] = running.communicate(timeout=left_s)
        return bool(said)

    if hung := _hangs(running.pid, limit_s, ends):
        running.kill()
        said[:] = running.communicate()
    out, err = (text.decode("utf-8", "replace") for text in said)
    return Ran(words, running.returncode, out, err, time.monotonic() - begun, hung)


def _hangs(process: int, limit_s: float, ends: Callable[[float], bool]) -> bool:
    """Whether a process takes longer than it may. `ends` waits for so many seconds at most, and says if it ended."""
    used, begun = _processor_s(process), time.monotonic()
    while not ends(limit_s / 4):
        if _processor_s(process) - used >= limit_s or time.monotonic() - begun >= BUSY * limit_s:
            return True
    return False


def _processor_s(process: int) -> float:
    """Seconds of a processor that a process took."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it ended
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
