"""The steps of a `sample` policy on one example, as an explanation shows them."""

from __future__ import annotations

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.costs import by_name
from replay.engine.cuts import Cut, cut
from replay.engine.trajectory import Trajectory
from replay.sampling.selects import Select
from replay.sampling.stops import decisions, looked_at

WHY = {
    "rule": "the stopping rule held",
    "cap": "all that the cap allows was generated, and no rule held",
    "exhausted": "the log ran out before the cap",
    "empty": "every trace generated was verified before the cap, so the surrogate had nothing left to pick",
}


def step_table(block: LogBlock, trajectory: Trajectory, how: Cut, select: Select) -> pl.DataFrame:
    """One row for each step up to the one at which the policy stops, on the only example of a block."""
    stopped = int(cut(trajectory, how).step[0])
    last = min(stopped, int(trajectory.steps.count[0]))  # a lazy walk may end in a step that verifies nothing
    limit = max(last, 1)
    seen = trajectory.prefix.first(limit)
    width = 1 if trajectory.walk.order.verifies_later else how.width
    looked = looked_at(limit, np.array([limit]), width)[0]
    holds = decisions(how.stop, seen)[0] & looked
    chosen = trajectory.chosen(select)[0, 1 : limit + 1]
    now = np.where(chosen >= 0, trajectory.pool.word[0, trajectory.place[0, np.maximum(chosen, 0)]], -1)
    at = trajectory.sample_index[0, :limit]
    costs = by_name(trajectory.costs[0, 1 : limit + 1])
    columns: dict[str, pl.Series | np.ndarray] = {
        "step": np.arange(1, limit + 1),
        "sample": at,
        "answer": answers(block, trajectory.pool.word[0, at]),
        "score": trajectory.revealed.score[0, :limit],
        "votes": seen.votes[0],
        "second_votes": seen.second_votes[0],
        "lead": seen.lead[0],
    }
    compared = how.stop.compared(how.stop.shown(seen))
    if compared is not None:
        statistic, threshold = compared
        columns |= {
            "statistic": np.where(np.isfinite(statistic[0]), statistic[0], np.nan),
            "threshold": np.full(limit, threshold),
        }
    columns |= {"holds": holds, "answer_now": answers(block, now)}
    columns |= {name: costs[name] for name in ("total_tokens", "operations", "latency_s")}
    return pl.DataFrame(columns, nan_to_null=True)[:last]


def answers(block: LogBlock, words: np.ndarray) -> pl.Series:
    """Answers by their numbers in the block's vocabulary, null for -1."""
    return pl.Series([block.vocabulary[int(word)] if word >= 0 else None for word in words], dtype=pl.String)
