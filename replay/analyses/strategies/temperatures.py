"""Curves over the number of samples by sampling temperature: pools that were drawn at one temperature each."""

from __future__ import annotations

import polars as pl

from replay.data.conditions import CONDITION
from replay.runs.compare.curves import curves
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError
from toolkit.log import TAKES, AnyLog, collect, open_log
from toolkit.stats import Settings

SINGLE = ("avg", "majority", "pass")


@checks_arguments(log=TAKES)
def temperatures(log: AnyLog) -> dict[str, float]:
    """The temperature of each pool of first attempts that was drawn at one, the lowest first."""
    opened = open_log(log)
    traces = opened.scan("traces", ["pool", "action", "temperature"]).filter(pl.col("action") == "solve")
    of_pool = traces.group_by("pool").agg(
        lowest=pl.col("temperature").min(),
        highest=pl.col("temperature").max(),
        unknown=pl.col("temperature").null_count(),
    )
    alike = of_pool.filter((pl.col("lowest") == pl.col("highest")) & (pl.col("unknown") == 0))
    return dict(collect(alike.select("pool", "lowest").sort("lowest", "pool"), opened).iter_rows())


@checks_arguments(log=TAKES, where=CONDITION)
def by_temperature(
    log: AnyLog, *, subsets: int = 100, where: str | None = None, settings: Settings | None = None
) -> pl.DataFrame:
    """Accuracy of one sample, majority@k and pass@k of each pool that was drawn at one temperature.

    Columns: temperature, pool, metric (avg, majority, pass), k, estimate, low, high, n; each pool on its own examples.
    Raises ThinkbackError where no pool has one temperature.
    """
    opened = open_log(log)
    found = temperatures(opened)
    if not found:
        raise ThinkbackError(f"{opened.address} has no pool that was drawn at one known temperature")
    parts = [
        curves(opened, pool=pool, subsets=subsets, where=where, settings=settings)
        .filter(pl.col("metric").is_in(SINGLE))
        .select(pl.lit(temperature).alias("temperature"), "pool", "metric", "k", "estimate", "low", "high", "n")
        for pool, temperature in found.items()
    ]
    return pl.concat(parts)
