"""Which examples a condition names, and that development rows are not among those reported."""

from __future__ import annotations

import polars as pl

from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect, query_log


def matching(log: Log, condition: str, key: str) -> pl.Series:
    """Ids of the examples on which an SQL condition holds, sorted; `key` names the setting in errors."""
    try:
        found = query_log(log, f"SELECT example_id FROM examples WHERE (\n{condition}\n)")["example_id"]
    except ThinkbackError as error:
        raise ThinkbackError(f"`{key}` ({condition}) cannot be evaluated on examples: {error}") from None
    if found.is_empty():
        raise ThinkbackError(f"`{key}` matches no example of the log: {condition}")
    return found.sort()


def examples_of(log: Log, ids: pl.Series) -> pl.DataFrame:
    """The columns that replay reads of some examples, in example_id order."""
    scan = log.scan("examples", ["example_id", "labels", "gold"])
    return collect(scan.filter(pl.col("example_id").is_in(ids.implode())), log).sort("example_id")


def refuse_overlap(development: pl.Series, reported: pl.Series, key: str, condition: str) -> None:
    """Raise when an example is both fitted on and reported."""
    both = development.filter(development.is_in(reported.implode()))
    if not both.is_empty():
        raise ThinkbackError(
            f"`{key}` ({condition}) holds on {len(both):,} of the examples that are reported, `{both[0]}` among them: "
            "what is fitted or chosen on rows must not be judged on them; report other rows (`where`, `--report`)"
        )
