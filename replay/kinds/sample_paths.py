"""What a `sample` policy paid, call by call."""

from __future__ import annotations

import numpy as np

from replay.data.block import LogBlock, LoggedPool
from replay.data.given_up import cut_name
from replay.engine.calls import Calls, CallSegment, ChosenTraces, PolicyPath, Realization, any_one
from replay.engine.cuts import abandoned_calls, paid_segment
from replay.engine.outcome import Outcome
from replay.engine.trajectory import fates_of, walk_block
from replay.sampling.abandon import Abandon
from replay.sampling.selects import Select


def path_of_any(pool: LoggedPool, abandon: Abandon | None, outcome: Outcome) -> PolicyPath:
    """One trace of the pool, each as likely as the others."""
    calls: Calls = {(pool.name, None): any_one(pool)}
    if abandon is not None:
        share = 1 / np.maximum(pool.size, 1)
        cut = cut_name(pool.name, abandon.tokens)
        calls = abandoned_calls(pool.name, cut, abandon.verifier, fates_of(pool, abandon), pool.there, share)
    segment = CallSegment(calls)
    return PolicyPath(outcome, (Realization(np.ones(len(outcome.reason)), (segment,)),), None, {})


def path_of_runs(block: LogBlock, outcome: Outcome, selector: Select | None, orders: int | None) -> PolicyPath:
    """A realization for each order; `selector` tells the chosen trace of a policy with one."""
    made, chosen = [], None
    for walk, step in outcome.runs:
        trajectory = walk_block(block, walk)
        made.append(Realization(np.full(len(step), 1 / len(outcome.runs)), (paid_segment(trajectory, step, outcome),)))
        if selector is not None:
            sample = trajectory.chosen_sample(selector, step)
            chosen = ChosenTraces((walk.pool,), np.zeros(len(step), dtype=np.int64), sample)
            if trajectory.fates is not None and walk.cut is not None:
                cut = trajectory.fates.given_up[np.arange(len(step)), sample]
                chosen = ChosenTraces((walk.pool, walk.cut), cut.astype(np.int64), sample)
    return PolicyPath(outcome, tuple(made), chosen, {}, orders)
