"""A function mapped over many files in threads, since most of the time is waiting for a disk or a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import TypeVar

THREADS = min(16, 4 * (os.cpu_count() or 1))
BATCH = 64  # to hand over one file costs as much as to read the footer of a small one

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_threads(work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """Runs `work` on each item in several threads; returns the results in the items' order. The first error ends it,
    and items not begun are dropped.
    """
    if len(items) < 2:
        return [work(item) for item in items]
    size = min(BATCH, -(-len(items) // THREADS))
    batches = [items[start : start + size] for start in range(0, len(items), size)]
    ended = Event()
    with ThreadPoolExecutor(THREADS) as threads:
        try:
            done = threads.map(lambda batch: [work(item) for item in batch if not ended.is_set()], batches)
            return [result for batch in done for result in batch]
        except BaseException:
            ended.set()
            raise
