"""Votes that cost as much as other policies: self-consistency at equal tokens is a rival to whatever else they buy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.runs.run import run
from toolkit.errors import ThinkbackError
from toolkit.log import Log


def equal_sizes(
    log: Log, base: Policy, rivals: Sequence[Policy], votes: Mapping[str, Sequence[Sample]], where: str, seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """By pool, the largest vote and, for every rival, the largest one whose mean tokens are not more than the rival's.

    `votes` are those of each pool, smallest first. Where they cannot be replayed, the largest of each pool alone.
    """
    most = {pool: own[-1].max_traces for pool, own in votes.items()}
    every = [vote for own in votes.values() for vote in own]
    try:
        result = run(log, [base, *rivals, *every], where=where, resamples=1, seed=seed)
    except ThinkbackError:
        return {pool: (size,) for pool, size in most.items()}
    rows = result.summary.filter(pl.col("metric") == "total_tokens").drop_nulls("estimate")
    spent = dict(rows.select("policy", "estimate").iter_rows())
    paid = [spent[rival.name] for rival in rivals if rival.name in spent]

    def equal(pool: str) -> tuple[int, ...]:
        known = {vote.max_traces: spent[vote.name] for vote in votes[pool] if vote.name in spent}
        within = {max((size for size, cost in known.items() if cost <= limit), default=most[pool]) for limit in paid}
        return tuple(sorted({*within, most[pool]}))

    return {pool: equal(pool) for pool in votes}
