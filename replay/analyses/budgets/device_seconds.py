"""Device seconds of generation and of verification apart, for euros: a run's outcomes hold their sum alone."""

from __future__ import annotations

import numpy as np
import polars as pl

from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from toolkit.log import Log, collect
from toolkit.show import ShownInterval
from toolkit.stats import Settings, interval, unit_numbers

PARTS = ("generation", "verification")


def device_seconds(
    log: Log, pool: str, result: Result, settings: Settings
) -> dict[tuple[str, str], ShownInterval | None]:
    """Mean per example of each (policy, part), with its interval; None where some are not logged.

    Of policies that draw the pool as it was generated: what one generated is the first `traces` traces.
    """
    outcomes = result.outcomes.select("policy", "example_id", "traces", "device_s").collect()
    made = log.scan("traces", ["example_id", "pool", "action", "sample_index", "device_s"])
    made = made.filter((pl.col("pool") == pool) & (pl.col("action") == "solve"))
    of_trace = collect(made.select("example_id", "sample_index", pl.col("device_s").cast(pl.Float64)), log)
    of_trace = of_trace.sort("example_id", "sample_index").with_columns(pl.col("device_s").fill_null(np.nan))
    until = of_trace.select(
        "example_id",
        traces=pl.col("sample_index").cast(pl.Float64) + 1,
        generation=pl.col("device_s").cum_sum().over("example_id"),
    )
    none = pl.when(pl.col("traces") == 0).then(0.0)
    split = outcomes.join(until, on=["example_id", "traces"], how="left", maintain_order="left").with_columns(
        generation=none.otherwise("generation").fill_null(np.nan), device_s=pl.col("device_s").fill_null(np.nan)
    )
    split = split.with_columns(verification=pl.col("device_s") - pl.col("generation"))
    examples = collect(log.scan("examples", ["example_id", "cluster"]), log)
    found: dict[tuple[str, str], ShownInterval | None] = {}
    for (policy,), rows in split.join(examples, on="example_id", how="left").sort("example_id").group_by("policy"):
        units = unit_numbers(resampling_units(rows))
        for part in PARTS:
            mean = interval(rows[part].to_numpy(), cluster=units, settings=settings, score=False)
            whole = mean.n == len(rows) and mean.estimate is not None
            found[str(policy), part] = ShownInterval(mean.estimate or 0.0, mean.low, mean.high) if whole else None
    return found
