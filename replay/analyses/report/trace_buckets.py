"""Examples grouped by how many traces a policy used on them, and quality within each group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from replay.runs.result.result import Result
from toolkit.stats import Summary

WIDTH = 5


@dataclass(frozen=True)
class Bucket:
    """The examples on which a policy used `first` to `last` valid traces: how many, their share, and the run on them.

    The first bucket has those without a valid trace, too. `attempts`: examples with as many traces, valid or not.
    `part` is None where there are none.
    """

    policy: str
    first: int
    last: int
    examples: int
    share: float
    attempts: int
    part: Summary | None


def trace_buckets(result: Result, policies: Sequence[str], largest: int) -> Iterator[Bucket]:
    """Buckets of five traces each, up to `largest` traces, for each replayed policy."""
    for policy in policies:
        columns = ["example_id", "valid_traces", "traces"]
        used = result.outcomes.filter(pl.col("policy") == policy).select(columns).collect()
        if used.is_empty():
            continue
        for first in range(1, largest + 1, WIDTH):
            last = min(first + WIDTH - 1, largest)
            within = {
                column: (pl.col(column) > (first - 1 if first > 1 else -1)) & (pl.col(column) <= last)
                for column in columns[1:]
            }
            ids, attempts = used.filter(within["valid_traces"])["example_id"], used.filter(within["traces"])
            part = None if ids.is_empty() else result.summariser.summary(ids.sort())
            yield Bucket(policy, first, last, len(ids), len(ids) / len(used), len(attempts), part)
