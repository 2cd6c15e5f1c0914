"""Revisions of a base attempt: the calls that each pays, and the mean over several logged revisions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.data.block import LogBlock
from replay.engine import outcome as ends
from replay.engine.calls import CallSegment, Realization, certain_calls, cost_not_yet_paid, single_trace_calls
from replay.engine.costs import COSTS, TraceCalls
from replay.engine.outcome import Outcome


def revision_calls(block: LogBlock, base: str, name: str, number: int) -> CallSegment:
    """The calls of revision `number` of slice `name`: the base traces that it read, and itself."""
    pool, revised = block.pools[base], block.pools[name]
    inside = number < revised.code.shape[1]
    there = number < revised.size
    read = np.where(there, np.maximum(revised.reads[:, number], 1), 0) if inside else np.zeros(len(there), dtype=int)
    before = (np.arange(pool.code.shape[1]) < read[:, None]).astype(float)
    return CallSegment({TraceCalls(base): certain_calls(before), TraceCalls(name): single_trace_calls(revised, number)})


def mean_outcome(
    block: LogBlock, traces: Sequence[tuple[str, int]], realizations: Sequence[Realization], reason: np.ndarray,
    reasons: tuple[str, ...],
) -> Outcome:  # fmt: skip
    """The mean outcome over realizations, each of which answers with one of `traces` (slice, sample index)."""
    examples = len(block.examples)
    costs, correct, credit = np.zeros((examples, len(COSTS))), np.zeros(examples), np.zeros(examples)
    words, count = [], np.maximum(np.sum([realization.weight > 0 for realization in realizations], axis=0), 1)
    for (name, sample), one in zip(traces, realizations, strict=True):
        pool, on = block.pools[name], one.weight > 0
        at = min(sample, pool.code.shape[1] - 1)
        correct += np.where(on, pool.credit_or_correct[:, at], 0.0)
        credit += np.where(on, pool.credit[:, at], 0.0)
        costs += np.where(on[:, None], cost_not_yet_paid(block, one.segments, []), 0.0)
        words.append(np.where(on, pool.word[:, at], -1))
    return Outcome(
        reason=reason,
        reasons=reasons,
        costs=costs / count[:, None],
        correct=correct / count,
        credit=credit / count,
        words=np.stack(words).astype(np.int32),
        shares=None if len(realizations) == 1 else np.stack([realization.weight for realization in realizations]),
        rows=count,
        ending=np.full(examples, ends.CAP, dtype=np.int8),
    )
