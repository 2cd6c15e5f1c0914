"""One policy against another: fixes, flips, and the calls that only the first one made."""

from __future__ import annotations

import numpy as np

from replay.data.block import LogBlock
from replay.engine.calls import CallMask, Calls, PolicyPath, Realization, certain, extra_tokens, union
from replay.engine.outcome import Against


def compare(block: LogBlock, mine: PolicyPath, theirs: PolicyPath) -> Against:
    """Fix, flip, action tokens and whether there was any call of the policy's own, by example.

    fix = (1 - b) c and flip = b (1 - c) for the (mean) correctness b of the base and c of the policy, so that
    accuracy(policy) - accuracy(base) = fix rate - flip rate. Realizations that are random orders are paired one to one
    when both have the same number, else all with all. Calls of the policy's own gates are no action.
    """
    paired = mine.orders is not None and mine.orders == theirs.orders
    pairs = list(zip(mine.realizations, theirs.realizations, strict=True)) if paired else []
    every = pairs or [(a, b) for a in mine.realizations for b in theirs.realizations]
    action, own = np.zeros(len(mine.outcome.correct)), np.zeros(len(mine.outcome.correct))
    for a, b in every:
        weight = a.weight if paired else a.weight * b.weight
        tokens, any_call = _own_calls(block, a, b, mine.gate)
        action += np.where(weight > 0, weight * tokens, 0.0)
        own += weight * any_call
    return Against(theirs.outcome.correct, mine.outcome.correct, own, action)


def _own_calls(block: LogBlock, mine: Realization, theirs: Realization, gate: Calls) -> tuple[np.ndarray, np.ndarray]:
    """Expected tokens (E,) of the calls in `mine`, not in `theirs` or a gate's; and the probability of any (E,)."""
    calls, known = (
        union(segment.calls for segment in mine.segments),
        union([*(one.calls for one in theirs.segments), gate]),
    )
    none = np.ones(len(block.examples))
    for call, paid in calls.items():
        none *= _probability_within(paid, known.get(call, certain(np.zeros_like(paid.among))))
    return extra_tokens(block, calls, known), 1 - none


def _probability_within(mine: CallMask, theirs: CallMask) -> np.ndarray:
    """Probability (E,) that a random subset of the one lies within an independent random subset of the other.

    With k of n drawn here, K of N there and m of the n also among the N: each next draw must be one of the m,
    and be among the K.
    """
    both = (mine.among * theirs.among).sum(axis=1)
    here, there = mine.among.sum(axis=1), theirs.among.sum(axis=1)
    within = np.ones(len(both))
    for draw in range(int(np.ceil(mine.count.max(initial=0)))):
        common = np.maximum(both - draw, 0) / np.maximum(here - draw, 1)
        drawn = np.maximum(theirs.count - draw, 0) / np.maximum(there - draw, 1)
        within *= np.where(draw < mine.count, common * drawn, 1.0)
    return within
