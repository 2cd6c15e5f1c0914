"""Runs command lines and calls one after the other in one process, for a start costs more than most of them.

`python -m tests.fuzz.worker FOLDER` reads a request a line from stdin, answers with an exit code a line, and leaves in
FOLDER's files `out` and `err` what was written to the two streams, by libraries of other languages too.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST_MEMORY = 6 * 2**30
"""Bytes of data: what asks for more is a fault, and must not take the machine with it."""
PEAK, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def main() -> None:
    """Answer requests until stdin ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("always", UserWarning)  # as the first time, each time
    replies = os.fdopen(os.dup(1), "w")
    streams = [os.open(Path(sys.argv[1]) / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC) for name in ("out", "err")]
    for number, stream in enumerate(streams, start=1):
        os.dup2(stream, number)
    for written in (sys.stdout, sys.stderr):
        written.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    for line in sys.stdin:
        request = json.loads(line)
        for stream in streams:
            os.ftruncate(stream, 0)
            os.lseek(stream, 0, os.SEEK_SET)
        os.chdir(request["folder"])
        PEAK.write_text("5")  # of Linux: the peak begins anew
        code = _ending(lambda request=request: _do(request))
        sys.stdout.flush()
        sys.stderr.flush()
        replies.write(f"{code} {_peak()}\n")
        replies.flush()


def _peak() -> int:
    """The most memory since it was last asked, in bytes."""
    return next(int(line.split()[1]) * 1024 for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))


def _do(request: dict[str, Any]) -> None:
    if "words" in request:
        from thinkback.app import app

        app(request["words"], prog_name="thinkback")
    module, _, name = request["call"].partition(":")
    function: Callable[..., object] = getattr(importlib.import_module(module), name)
    function(*request["arguments"])


def _ending(run: Callable[[], None]) -> int:
    """The code that a process of its own would exit with; what it would say is written."""
    from thinkback.app import _mistake_line
    from thinkback.console import complain

    try:
        run()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException as error:
        line = _mistake_line(error) if isinstance(error, Exception) else None
        if line is None:
            traceback.print_exc()
            return 1
        complain(f"error: {line}")
        return 2
    return 0


if __name__ == "__main__":
    main()
