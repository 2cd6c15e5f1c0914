"""Ranges of examples, the unit of work of a pass: all of them here, or one after another on the workers of a call.

A range begins and ends at chunks of the whole, so that what comes of it is, digit for digit, what one process computes.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.policies.base import Evaluator, Policy
from replay.runs.passes.example_set import ExampleSet
from replay.runs.passes.passes import REPLAYING, BlockSizes, ReplayPlan, first_traces, read_blocks
from toolkit.errors import UnsuitableError
from toolkit.log import Log
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


@dataclass(frozen=True)
class _RangeJob(Generic[T]):
    """The job of all ranges: a plan without its examples, and what is done with the blocks."""

    plan: ReplayPlan
    policies: tuple[Policy, ...]
    work: RangeWork[T]
    needs: Needs | None
    sizes: BlockSizes

    def __call__(self, of_range: tuple[Log, pl.DataFrame, bool]) -> T:
        """The result on a range: the log within it, its examples, and whether they are the first of the run."""
        log, frame, first = of_range
        plan = replace(self.plan, log=log, examples=replace(self.plan.examples, frame=frame))
        return self.work(read_blocks(plan, self.policies, needs=self.needs, sizes=self.sizes), first)


def over_ranges(
    plan: ReplayPlan, policies: Sequence[Policy], work: RangeWork[T], *, needs: Needs | None = None,
    title: str = REPLAYING,
) -> Iterator[T]:  # fmt: skip
    """The results of `work` on ranges of a plan's examples, in order: on one range, or on several by the workers of
    the call. It must do with several what it does with one. `needs`: what is read beside the policies' needs; `title`:
    of the progress.
    """
    pool, sizes = CHOSEN.get(), BlockSizes.of_plan(plan, policies)
    borders = [] if pool is None else range_borders(len(plan.examples.frame), len(policies), sizes, pool.places)
    if pool is None or len(borders) < 2:
        yield work(read_blocks(plan, policies, needs=needs, sizes=sizes, title=title), True)
    else:
        no_examples = replace(plan.examples, frame=plan.examples.frame[:0])
        common = replace(plan, log=replace(plan.log, shards={}), examples=no_examples)
        job = _RangeJob(common, tuple(policies), work, needs, sizes)
        yield from _on_workers(pool, plan, job, borders, title)


def over_blocks(
    plan: ReplayPlan, policies: Sequence[Policy], work: Callable[[LogBlock], T], *, needs: Needs | None = None,
    title: str = REPLAYING,
) -> Iterator[T]:  # fmt: skip
    """The results of `work` on block after block of a plan's examples, in order, as `over_ranges` gives them."""
    for results in over_ranges(plan, policies, partial(_for_each_block, work), needs=needs, title=title):
        yield from results


def _for_each_block(work: Callable[[LogBlock], T], blocks: Iterator[LogBlock], first: bool) -> list[T]:
    return [work(block) for block in blocks]


def over_evaluators(
    log: Log, contents: Contents, policies: Sequence[Policy], examples: pl.DataFrame, work: Callable[[Evaluator], T],
    title: str, *, needs: Needs | None = None, first: Mapping[str, int] | None = None,
) -> list[T]:  # fmt: skip
    """The results of `work` on an evaluator of policies (resolved) for block after block of examples, in order.

    `needs`: what is read beside the policies' needs. `first`: pool -> how many of its first traces alone are seen.
    """
    plan = ReplayPlan(log, contents, ExampleSet(examples, None), None, None, None)
    on_block = partial(_on_evaluator, work, tuple(policies), first or {})
    return list(over_blocks(plan, policies, on_block, needs=needs, title=title))


def _on_evaluator(
    work: Callable[[Evaluator], T], policies: tuple[Policy, ...], first: Mapping[str, int], block: LogBlock
) -> T:
    return work(Evaluator(first_traces(block, first), policies))


def range_borders(examples: int, policies: int, sizes: BlockSizes, places: int) -> list[tuple[int, int]]:
    """Ranges (start, stop) of whole chunks, several for each of so many workers."""
    chunk = sizes.chunk
    share = -(-examples // (RANGES_EACH * places * chunk)) * chunk
    most = max(RANGE_CELLS // max(policies, 1) // chunk, 1) * chunk
    size = max(min(share, most, max(sizes.block, chunk)), chunk)
    return [(start, min(start + size, examples)) for start in range(0, examples, size)]


def _on_workers(
    pool: Pool, plan: ReplayPlan, job: _RangeJob[T], borders: Sequence[tuple[int, int]], title: str
) -> Iterator[T]:
    examples = plan.examples.frame
    try:
        packed = pack_job(job, "the replay", plan.log.address)
    except UnsuitableError:
        for policy in job.policies:
            pack(policy, f"policy `{policy.name}`")
        raise
    parts = [_part(plan, examples[start:stop], start, stop) for start, stop in borders]
    with progress(title, len(examples), "examples") as advance:
        for (start, stop), result in zip(borders, results_in_order(pool, packed, parts), strict=True):
            yield result
            advance(stop - start)


def _part(plan: ReplayPlan, frame: pl.DataFrame, start: int, stop: int) -> Part:
    low, high = str(frame["example_id"].min()), str(frame["example_id"].max())
    name = f"examples {start + 1:,} to {stop:,} (`{low}` to `{high}`)"
    return Part(name, pickle.dumps((plan.log.within(low, high), frame, start == 0)))
