"""Ranges of examples, the unit of work of a pass: all of them here, or one after another on the workers of a call.

A range begins and ends at chunks of the whole, so that what comes of it is, digit for digit, what one process computes.
"""

from __future__ import annotations

import os
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import polars as pl

from replay.data.block import LogBlock
from replay.policies.base import Policy
from replay.runs.passes.passes import BlockSizes, ReplayPlan, read_blocks
from toolkit.errors import UnsuitableError
from toolkit.log import Log, LogError
from toolkit.progress import progress
from toolkit.workers.chosen import CHOSEN
from toolkit.workers.pool import Part, Pool, results_in_order
from toolkit.workers.travel import pack, pack_job

T = TypeVar("T")
RangeWork = Callable[[Iterator[LogBlock], bool], T]
"""What is done with the blocks of a range; the second argument: whether it is the first of the run."""
RANGES_EACH = 4
"""Ranges for each worker, so that a slow one holds up little."""
RANGE_CELLS = 2**22
"""How many outcomes (policies x examples) a range has at most, unless one chunk has more: they travel together."""
UNREADABLE = ("not-found", "read")
"""Codes of errors of a log that is not where a worker looks for it."""


@dataclass(frozen=True)
class _RangeJob(Generic[T]):
    """The job of all ranges: a plan without its examples, and what is done with the blocks."""

    plan: ReplayPlan
    policies: tuple[Policy, ...]
    work: RangeWork[T]
    sizes: BlockSizes
    driver: int

    def __call__(self, of_range: tuple[Log, pl.DataFrame, bool]) -> T:
        """The result on a range: its part of the log, its examples, and whether they are the first of the run."""
        log, frame, first = of_range
        plan = replace(self.plan, log=log, examples=replace(self.plan.examples, frame=frame))
        try:
            return self.work(read_blocks(plan, self.policies, sizes=self.sizes), first)
        except LogError as error:
            if error.code in UNREADABLE and os.getpid() != self.driver:
                where = f"; all workers must read `{log.address}`, as on a shared file system or in an object store"
                raise error.with_subject(f"worker {socket.gethostname()}: ", where) from None
            raise


def over_ranges(plan: ReplayPlan, policies: Sequence[Policy], work: RangeWork[T]) -> Iterator[T]:
    """The results of `work` on ranges of a plan's examples, in order: on one range, or on several by the workers of
    the call. It must do with several what it does with one.
    """
    pool, sizes = CHOSEN.get(), BlockSizes.of_plan(plan, policies)
    borders = [] if pool is None else range_borders(len(plan.examples.frame), len(policies), sizes, pool.places)
    if pool is None or len(borders) < 2:
        yield work(read_blocks(plan, policies, sizes=sizes), True)
    else:
        yield from _on_workers(pool, plan, policies, work, sizes, borders)


def range_borders(examples: int, policies: int, sizes: BlockSizes, places: int) -> list[tuple[int, int]]:
    """Ranges (start, stop) of whole chunks, several for each of so many workers."""
    chunk = sizes.chunk
    share = -(-examples // (RANGES_EACH * places * chunk)) * chunk
    most = max(RANGE_CELLS // max(policies, 1) // chunk, 1) * chunk
    size = max(min(share, most, max(sizes.block, chunk)), chunk)
    return [(start, min(start + size, examples)) for start in range(0, examples, size)]


def _on_workers(
    pool: Pool, plan: ReplayPlan, policies: Sequence[Policy], work: RangeWork[T], sizes: BlockSizes,
    borders: Sequence[tuple[int, int]],
) -> Iterator[T]:  # fmt: skip
    examples = plan.examples.frame
    common = replace(plan, log=replace(plan.log, shards={}), examples=replace(plan.examples, frame=examples[:0]))
    try:
        job = pack_job(_RangeJob(common, tuple(policies), work, sizes, os.getpid()), "the replay")
    except UnsuitableError:
        for policy in policies:
            pack(policy, f"policy `{policy.name}`")
        raise
    parts = [_part(plan, examples[start:stop], start, stop) for start, stop in borders]
    with progress("replaying", len(examples), "examples") as advance:
        for (start, stop), result in zip(borders, results_in_order(pool, job, parts), strict=True):
            yield result
            advance(stop - start)


def _part(plan: ReplayPlan, frame: pl.DataFrame, start: int, stop: int) -> Part:
    low, high = frame["example_id"][0], frame["example_id"][-1]
    name = f"examples {start + 1:,} to {stop:,} (`{low}` to `{high}`)"
    return Part(name, pickle.dumps((plan.log.within(low, high), frame, start == 0)))
