"""Screening of actions: what each of them would do to the base attempts of some examples."""

from __future__ import annotations

import polars as pl

from replay.analyses.attempts import RevisionPools, calls_of
from replay.data.conditions import matching
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.runs.run import run
from toolkit.errors import ThinkbackError, argument
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


def screened_on(
    log: Log, base: str, pools: RevisionPools, conditions: tuple[str, str], known: bool, settings: Settings
) -> tuple[pl.DataFrame, list[str]]:
    """The screening on the examples to fit on, else, with a note, on those that are reported.

    `conditions` are of both. Refuses the latter where the action is not `known`, because it would be chosen there.
    """
    on, where = conditions
    try:
        matching(log, on, "on")
        return screen(log, base, pools, on, settings), []
    except ThinkbackError as error:
        if not known:
            raise ThinkbackError(
                f"no action can be chosen on the examples of {argument('on')} ({on}), and not on those that are "
                f"reported: name one with {argument('action')} ({error})"
            ) from None
        note = f"actions are screened on the reported examples, because those of `on` cannot be: {error}"
    return screen(log, base, pools, where, settings), [note]


def best_action(screened: pl.DataFrame) -> str:
    """The most accurate action; of equal ones that which repairs most, less what it spoils."""
    rows = screened.iter_rows(named=True)
    return str(max(rows, key=lambda row: (row["accuracy"], row["fix_rate"] - row["flip_rate"]))["action"])
