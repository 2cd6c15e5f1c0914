"""Screening of actions: what each of them would do to the base attempts of some examples."""

from __future__ import annotations

import polars as pl

from replay.analyses.attempts import RevisionPools, calls_of
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.runs.run import run
from toolkit.log import Log, collect
from toolkit.stats import Settings

MEANS = ("accuracy", "fix_rate", "flip_rate", "action_tokens")


def screen(log: Log, base: str, pools: RevisionPools, where: str, settings: Settings) -> pl.DataFrame:
    """Accepting, every logged action and the oracle over them on the examples of a condition, a row each.

    Means, finalizer and truncation rate of the action's own calls, `examples` and `dataset`, the names of theirs.
    """
    actions = tuple(action for action, one in pools if one == base)
    policies = [
        Sample(name="accept", pool=base, max_traces=1, select="first"),
        *(Act(name=action, action=action, base=base, pool=pools[action, base]) for action in actions),
        Oracle(name="sampled-action oracle", rule="action", base=base, of=actions, against="accept"),
    ]
    result = run(
        log, policies, where=where, resamples=settings.resamples, level=settings.level, seed=settings.seed
    )  # fmt: skip
    ids = result.examples["example_id"]
    means = result.summary.pivot("metric", index="policy", values="estimate").rename({"policy": "action"})
    lacking = [pl.lit(None, pl.Float64).alias(name) for name in MEANS if name not in means.columns]
    spent = pl.when(pl.col("action") == "accept").then(0.0).otherwise("action_tokens")
    found = means.with_columns(lacking).select(
        "action", "accuracy", pl.col("fix_rate", "flip_rate").fill_null(0.0), action_tokens=spent
    )
    rates = (
        calls_of(log, ids, base, pools, ["finish_reason", "finalizer_used"])
        .group_by(action="call")
        .agg(
            finalizer_rate=pl.col("finalizer_used").mean(), truncation_rate=(pl.col("finish_reason") == "length").mean()
        )
    )
    examples = collect(log.scan("examples", ["example_id", "dataset"]), log)
    named = ", ".join(examples.filter(pl.col("example_id").is_in(ids.implode()))["dataset"].unique().sort())
    joined = found.join(rates, on="action", how="left", maintain_order="left")
    return joined.with_columns(examples=pl.lit(result.statistics.n), dataset=pl.lit(named))


def best_action(screened: pl.DataFrame) -> str:
    """The most accurate action; of equal ones that which repairs most, less what it spoils."""
    rows = screened.iter_rows(named=True)
    return str(max(rows, key=lambda row: (row["accuracy"], row["fix_rate"] - row["flip_rate"]))["action"])
