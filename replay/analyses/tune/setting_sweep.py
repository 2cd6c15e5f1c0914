"""Policies that differ by some settings, and what each gives: a row for every combination and metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from replay.kinds.sample import Sample, every_example
from replay.runs.result.result import Result
from replay.runs.result.run import run
from toolkit.errors import ThinkbackError
from toolkit.log import Log

FOUND = ("estimate", "low", "high")


@dataclass(frozen=True)
class SettingSweep:
    """Columns of `table`: the settings, metric, estimate, low, high; the last three are null where it is not served.

    `missing`: by policy, why its numbers are null. `result`: None where nothing could be replayed.
    """

    table: pl.DataFrame
    result: Result | None
    missing: Mapping[str, str] = field(default_factory=dict)


def sweep(
    log: Log,
    settings: Mapping[str, Any],
    tried: Iterable[tuple[tuple[Any, ...], Sample]],
    metrics: Sequence[str],
    pool: str,
    **asked: Any,
) -> SettingSweep:
    """Replay policies, each `tried` with the values of its `settings`, which are given with their data types.

    Compared on the examples that have any trace of the `pool`; `asked` goes to `replay.run`.
    """
    policies, rows = [], []
    for values, policy in tried:
        policies.append(policy)
        rows.append((policy.name, *values))
    columns = (*settings, "metric", *FOUND)
    table = pl.DataFrame(rows, schema={"policy": pl.String, **settings}, orient="row").join(
        pl.DataFrame({"metric": metrics}), how="cross", maintain_order="left_right"
    )
    try:
        result = run(log, [*policies, every_example(pool)], **asked)
    except ThinkbackError as error:
        null = {name: pl.lit(None, pl.Float64) for name in FOUND}
        missing = dict.fromkeys((policy.name for policy in policies), str(error))
        return SettingSweep(table.with_columns(**null).select(columns), None, missing)
    made = table.join(result.summary, on=["policy", "metric"], how="left", maintain_order="left").select(columns)
    return SettingSweep(made, result, dict(result.dropped))
