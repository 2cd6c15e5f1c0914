"""Claims by the number of traces that a method used (thesis, table B.1)."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, Methods
from replay.studies.kit.cells import cell, compared
from toolkit.show import ShownInterval

WIDTH = 5


@dataclass(frozen=True)
class Bucket:
    """Claims on which a method used `first` to `last` traces; percent, difference against exhaustive on the same."""

    method: str
    first: int
    last: int
    claims: int
    share: float
    own: ShownInterval | None
    exhaustive: ShownInterval | None
    difference: ShownInterval | None


def trace_buckets(methods: Methods) -> list[Bucket]:
    """Buckets of five traces up to the cap, for adaptive stopping and the surrogate."""
    result = methods.result
    if result is None:
        return []
    rows = []
    for method in (ADAPTIVE, SURROGATE):
        used = result.outcomes.filter(pl.col("policy") == method).select("example_id", "traces").collect()
        if used.is_empty():
            continue
        for first in range(1, methods.cap + 1, WIDTH):
            last = min(first + WIDTH - 1, methods.cap)
            ids = used.filter((pl.col("traces") > first - 1) & (pl.col("traces") <= last))["example_id"]
            rows.append(_bucket(methods, method, first, last, ids.sort(), len(used)))
    return rows


def _bucket(methods: Methods, method: str, first: int, last: int, ids: pl.Series, claims: int) -> Bucket:
    share = len(ids) / claims
    result = methods.result
    if result is None or ids.is_empty():
        return Bucket(method, first, last, len(ids), share, None, None, None)
    part = result.summariser.summary(ids)
    made = compared(part.comparisons, method, BEST, "macro_f1")
    difference = None if made is None else ShownInterval.of(made[:3], 100)
    own, exhaustive = (cell(part, name, "macro_f1", 100) for name in (method, BEST))
    return Bucket(method, first, last, len(ids), share, own, exhaustive, difference)
