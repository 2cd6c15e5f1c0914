"""Passes over a log: its examples block by block, as policies need them, and the numeric columns of outcomes."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.contents import Contents
from replay.data.needs import Needs
from replay.data.prices import Prices
from replay.data.read import BlockRequest, read_block
from replay.engine.calls import PolicyPath
from replay.engine.costs import costs_by_name
from replay.engine.outcome import COVERED, Outcome
from replay.policies.base import Evaluator, Policy, further_outcome_columns, needs_of_policies
from replay.runs.passes.example_set import ExampleSet
from toolkit.columns import COLUMNS, with_columns
from toolkit.log import Log
from toolkit.log.contract.schema import schema_of
from toolkit.progress import progress

BLOCK_CELLS = 2**19
"""How many cells (examples x traces) are read at once; it limits memory and changes no result."""
REPLAYING = "replaying"
ROW_CELLS, LIST_CELLS = 1, 8
"""Cells of a row of a further table, and of one that holds lists where it is read."""


@dataclass(frozen=True)
class ReplayPlan:
    """What all passes over a log share: the log, what it has, the examples and how they are read."""

    log: Log
    contents: Contents
    examples: ExampleSet
    measure: str | None
    prices: Prices | None
    block_examples: int | None

    def with_ids(self, ids: pl.Series) -> ReplayPlan:
        """The plan for the examples with these ids."""
        frame = self.examples.frame.filter(pl.col("example_id").is_in(ids.implode()))
        return replace(self, examples=replace(self.examples, frame=frame))


class BlockSizes(NamedTuple):
    """How many examples a chunk has, and at most how many, in whole chunks, are read at once."""

    chunk: int
    block: int

    @classmethod
    def of_plan(cls, plan: ReplayPlan, policies: Sequence[Policy]) -> BlockSizes:
        """The sizes for some policies, with at most about BLOCK_CELLS cells in a block."""
        most = _cells_per_example(plan.contents, policies, LIST_CELLS)
        cells = _cells_per_example(plan.contents, policies, ROW_CELLS)
        chunk = min(chunk_size(len(policies), cells), max(BLOCK_CELLS // most, 1))
        return cls(chunk, max(BLOCK_CELLS // most // chunk, 1) * chunk)


def read_blocks(
    plan: ReplayPlan, policies: Sequence[Policy], identified: bool = False, *, needs: Needs | None = None,
    sizes: BlockSizes | None = None, title: str = REPLAYING,
) -> Iterator[LogBlock]:  # fmt: skip
    """The examples in chunks, which are read in blocks of whole chunks.

    `identified`: with the ids of traces. `needs`: what is read beside the policies' needs. `sizes`: those of a plan of
    which this one is a part. `title`: of the progress.
    """
    chunk, bound = sizes or BlockSizes.of_plan(plan, policies)
    every = needs_of_policies(policies, plan.contents) | (needs or Needs())
    request = BlockRequest(every, plan.measure, plan.prices, identified)
    examples = plan.examples.frame
    outer = max((plan.block_examples or bound) // chunk, 1) * chunk
    with progress(title, len(examples), "examples") as advance:
        for begin in range(0, len(examples), outer):
            for start in range(begin, min(begin + outer, len(examples)), bound):
                stop = min(start + bound, begin + outer, len(examples))
                block = read_block(plan.log, examples[start:stop], request)
                for first in range(0, len(block.examples), chunk):
                    yield block.slice_examples(first, min(first + chunk, len(block.examples)))
                    advance(min(chunk, len(block.examples) - first))
                    if first + chunk < len(block.examples) or stop < len(examples):
                        gc.collect(1)  # a walk and its statistics hold each other, and arrays call no collector
                del block  # before the next one is read


@dataclass(frozen=True)
class PathPart:
    """The path of policy `number` on a block, and the examples `on` (E,) on which it counts."""

    number: int
    path: PolicyPath
    on: np.ndarray


def paths_by_block(
    plan: ReplayPlan, policies: Sequence[Policy], acting: Mapping[str, np.ndarray], identified: bool = False
) -> Iterator[tuple[LogBlock, slice, list[PathPart]]]:
    """Block after block with the places of its examples among all, and the paths of all policies on it.

    `acting`: of policies that rank all examples those on which they act (N,), where they have another path.
    """
    first = 0
    for block in read_blocks(plan, policies, identified):
        here = slice(first, first + len(block.examples))
        never = Evaluator(block, policies, paths=True)
        always, everywhere, parts = never.with_acting(frozenset(acting)), np.ones(len(block.examples), bool), []
        for number, policy in enumerate(policies):
            acts = acting[policy.name][here] if policy.name in acting else ~everywhere
            parts += [PathPart(number, always.path(policy), acts)] if policy.name in acting else []
            parts.append(PathPart(number, never.path(policy), ~acts))
        yield block, here, parts
        first = here.stop


def first_traces(block: LogBlock, first: Mapping[str, int]) -> LogBlock:
    """The block in which some pools have only their first traces, as many as `first` says."""
    fewer = {name: block.pools[name].first_traces(count) for name, count in first.items()}
    return replace(block, pools={**block.pools, **fewer})


def correctness_of_policies(on: Evaluator) -> np.ndarray:
    """The correctness of every policy (P, E), NaN where the example is not covered."""
    outcomes = [on.outcome(policy) for policy in on.policies]
    return np.stack([np.where(outcome.reason == COVERED, outcome.correct, np.nan) for outcome in outcomes])


def _cells_per_example(contents: Contents, policies: Sequence[Policy], list_cells: int) -> int:
    """Cells per example that the policies read at most: traces, and rows of further tables, which take `list_cells`
    where they hold lists.
    """
    needs = needs_of_policies(policies, contents)
    traces = sum(contents.sizes.get(pool, 1) for pool in needs.pools)
    lists = {table for table, _, column in needs.tables if isinstance(schema_of(table)[column].dtype, pl.List)}
    pools = {(table, pool) for table, pool, _ in needs.tables}
    rows = sum((list_cells if table in lists else ROW_CELLS) * contents.rows(table)[pool] for table, pool in pools)
    return max(traces + rows, 1)


def chunk_size(policies: int, traces: int) -> int:
    """How many examples a chunk has: few enough that one chunk of all policies, and a walk over it, fit in memory."""
    return int(np.clip(min(2**20 // max(policies, 1), 2**17 // max(traces, 1)), 64, 8192))


def number_columns(policies: Sequence[Policy], priced: bool) -> tuple[str, ...]:
    """The numeric columns of outcomes of some policies: those of every run, and those that a policy adds."""
    extra = further_outcome_columns(policies)
    added, table = {column.name for column in extra} | ({"price"} if priced else set()), with_columns(extra)
    return tuple(c.name for c in table if not (c.computed or c.family) and (c.always or c.name in added))


def outcome_values(outcome: Outcome, keep: np.ndarray | slice = slice(None)) -> dict[str, np.ndarray]:
    """The numeric columns of one policy's outcome on some examples, by default on all; NaN for null."""
    values = costs_by_name(outcome.costs[keep]) | {name: column[keep] for name, column in outcome.measured.items()}
    values["intervened"] = np.zeros(len(outcome.correct[keep]))
    against = outcome.against
    values |= {c.name: getattr(against, c.name)[keep] for c in COLUMNS if hasattr(against, c.name)}
    return values | {"correct": outcome.correct[keep], "credit": outcome.credit[keep]}
