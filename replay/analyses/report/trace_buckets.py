"""Examples by the number of traces that a policy used on them, and what each such part of them says of quality."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from replay.runs.result.result import Result
from toolkit.stats import Summary

WIDTH = 5


@dataclass(frozen=True)
class Bucket:
    """Examples on which a policy used `first` to `last` traces: how many, their share, and the run on them alone.

    `part` is None where there are none.
    """

    policy: str
    first: int
    last: int
    examples: int
    share: float
    part: Summary | None


def trace_buckets(result: Result, policies: Sequence[str], largest: int) -> Iterator[Bucket]:
    """Buckets of five traces, up to the `largest` number, of each replayed policy."""
    for policy in policies:
        used = result.outcomes.filter(pl.col("policy") == policy).select("example_id", "traces").collect()
        if used.is_empty():
            continue
        for first in range(1, largest + 1, WIDTH):
            last = min(first + WIDTH - 1, largest)
            ids = used.filter((pl.col("traces") > first - 1) & (pl.col("traces") <= last))["example_id"]
            part = None if ids.is_empty() else result.summariser.summary(ids.sort())
            yield Bucket(policy, first, last, len(ids), len(ids) / len(used), part)
