"""Which claims are reported where none are named, and which pools they have."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl

from replay.data.conditions import TEST, has_test, matching
from toolkit.log import Log, collect

VALIDATION = "split = 'validation'"
"""The condition of the claims that published works choose settings on."""


def reported(log: Log, dev: str | None = None) -> str | None:
    """The condition of the claims to report where none is given: the test split where there is one; None: all claims.

    Claims of `dev`, which are learnt from, are never among them.
    """
    split = collect(log.scan("examples", ["split"]).select("split"), log)["split"]
    conditions = [TEST] if has_test(split) else []
    if dev is not None:
        conditions.append(f"NOT coalesce(({dev}), false)")
    return " AND ".join(conditions) or None


def pools_of(log: Log, where: str | None, known: Collection[str]) -> tuple[str, ...]:
    """Those of the known pools that claims of a condition have traces in, by name."""
    traces = log.scan("traces", ["example_id", "pool"]).filter(pl.col("pool").is_in(list(known)))
    if where is not None:
        traces = traces.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    return tuple(collect(traces.select(pl.col("pool").unique().sort()), log)["pool"])
