"""The process that compares two mathematical expressions; mathematics.py starts, times and kills it.

It reads one JSON list a line, [number, reference, answer, seconds], and writes one, [number, same or null]: null where
the comparison failed. It imports nothing of this project, because it runs as a script.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from functools import lru_cache
from typing import TextIO

MEMORY_BYTES = 3 * 2**30  # 10^(10^10) would fill the machine before any clock runs out


def main() -> None:
    """Answers requests to compare expressions until standard input ends."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever the libraries print is not a reply
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    package = importlib.import_module("math_verify")
    parse, verify = package.parse, package.verify
    settings = (package.LatexExtractionConfig(boxed_match_priority=0), package.ExprExtractionConfig())

    @lru_cache(maxsize=256)
    def parse_answer(text: str) -> tuple:
        return tuple(parse(f"\\boxed{{{text}}}", extraction_config=settings, parsing_timeout=None))

    # The grammar loads on first use.
    verify(list(parse_answer("\\frac{1}{2}")), list(parse_answer("0.5")), timeout_seconds=None)
    _write_reply(replies, ["ready"])
    for line in sys.stdin:
        number, reference, answer, seconds = json.loads(line)
        _exit_after(seconds)
        try:
            same = bool(verify(list(parse_answer(reference)), list(parse_answer(answer)), timeout_seconds=None))
        except (Exception, RecursionError, MemoryError):
            same = None
        _exit_after(None)
        _write_reply(replies, [number, same])


def _write_reply(replies: TextIO, message: list) -> None:
    replies.write(json.dumps(message) + "\n")
    replies.flush()


def _exit_after(seconds: float | None) -> None:
    """Sets an alarm that ends this process, so that it does not compute for ever after its parent died."""
    if hasattr(signal, "alarm"):
        signal.alarm(int(3 * seconds) + 5 if seconds is not None else 0)


if __name__ == "__main__":
    main()
