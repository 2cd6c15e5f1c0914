"""First attempts and their revisions: which pools and actions a log has, and what each action does to which
attempts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
import polars as pl

from replay.data.conditions import ids_where
from replay.data.contents import Contents
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import first_attempt_policy
from replay.runs.result.run import run
from toolkit.errors import (
    AmbiguousError,
    EmptyError,
    ThinkbackError,
    UnknownError,
    UnsuitableError,
    argument,
    listed,
    suggest,
)
from toolkit.log import Log, collect
from toolkit.show import remark
from toolkit.stats import Settings

RevisionPools = Mapping[tuple[str, str], str | None]
"""(action, pool of the base attempts) -> the pool of the revisions; None where there is one alone."""


def base_and_actions(log: Log, contents: Contents, base: str | None, action: str | None) -> tuple[str, tuple[str, ...]]:
    """The pool of the base attempts, and the actions that revise them. Raises for names that the log lacks."""
    bases = sorted({one for _, one, _ in contents.revisions})
    if not bases:
        raise UnsuitableError(
            f"{log.address} has no revision of a first attempt, so there is no intervention to replay"
        )
    if base is None and len(bases) > 1:
        raise AmbiguousError(
            f"the log has revisions of {listed(bases)}: name the pool of the base attempts with {argument('base')}"
        )
    base = base or bases[0]
    if base not in bases:
        raise UnknownError(f"{argument('base')}: pool `{base}` has no revisions; {suggest(base, bases)}")
    actions = tuple(sorted({name for name, one, _ in contents.revisions if one == base}))
    if action is not None and action not in actions:
        raise UnknownError(f"pool `{base}` has no revisions by `{action}`; {suggest(action, actions)}")
    return base, actions


def revision_pools(
    contents: Contents, base: str, names: Collection[str], frozen: Collection[tuple[str, str, str | None]] = ()
) -> dict[tuple[str, str], str | None]:
    """The pool of the revisions for every (action, base).

    Of actions with several it is the one in `names`, else that of `frozen` (action, base, pool); where that is none or
    more than one `base` itself is refused, and others are left out.
    """
    known = {pool for _, _, pool in contents.revisions}
    for name in names:
        if name not in known:
            raise UnknownError(f"{argument('pool')}: the log has no pool `{name}` of revisions; {suggest(name, known)}")
    pools: dict[tuple[str, str], str | None] = {}
    for action, one in sorted({(action, one) for action, one, _ in contents.revisions}):
        candidates = contents.revision_pools(action, one)
        chosen = [pool for pool in candidates if pool in names or (not names and (action, one, pool) in frozen)]
        if len(candidates) == 1 or len(chosen) == 1:
            pools[action, one] = chosen[0] if len(candidates) > 1 else None
        elif one == base:
            raise AmbiguousError(
                f"action `{action}` of pool `{base}` has several pools of revisions "
                f"({listed(candidates)}): name one of them with {argument('pool')}"
            )
    return pools


def token_limits(log: Log) -> dict[str, int]:
    """Token limit of the first attempts of each pool that has one."""
    scan = log.scan("traces", ["pool", "action", "max_tokens"]).filter(pl.col("action") == "solve")
    limits = collect(scan.group_by("pool").agg(pl.col("max_tokens").max()), log).drop_nulls()
    return dict(limits.iter_rows())


def budget_pools(
    log: Log, contents: Contents, base: str, names: Collection[str], votes: Collection[str]
) -> tuple[tuple[str, ...], list[str]]:
    """The pools that are budgets of a first attempt, by token limit: those in `names`, else those that differ in it.

    Pools of votes and of another temperature answer another question than whether to think longer; a note names them.
    """
    unknown = [pool for pool in names if pool not in contents.pools]
    if unknown:
        raise UnknownError(
            f"the log has no pool `{unknown[0]}` of first attempts; {suggest(unknown[0], contents.pools)}"
        )
    limits = token_limits(log)

    def sort_by_token_limit(pools: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(pools, key=lambda pool: (limits.get(pool, 0), pool)))

    if names:
        return sort_by_token_limit(names), []
    higher = [pool for pool, limit in limits.items() if base in limits and limit > limits[base]]
    scan = log.scan("traces", ["pool", "action", "temperature"]).filter(pl.col("action") == "solve")
    heat = dict(collect(scan.group_by("pool").agg(pl.col("temperature").unique().sort()), log).iter_rows())
    candidates = [pool for pool in higher if pool not in votes and heat[pool] == heat[base]]
    others = sorted(set(higher) - set(candidates))
    note = (
        f"no initial budgets are compared: {listed(others)} with a higher token limit are votes or of another "
        "temperature; to compare them, name them with `budgets`"
    )
    return sort_by_token_limit(candidates), [remark("no_budgets", note)] if others else []


def _attempt_and_revision_rows(
    log: Log, ids: pl.Series, base: str, pools: RevisionPools, columns: Sequence[str]
) -> pl.DataFrame:
    """The base attempts of some examples, and their revisions: `call` is `accept` or the action; then `columns`."""
    keys = ["trace_id", "example_id", "pool", "action", "sample_index", "parent_id"]
    traces = log.scan("traces", [*keys, *columns]).filter(pl.col("example_id").is_in(ids.implode()))
    solves = (pl.col("action") == "solve") & (pl.col("pool") == base) & (pl.col("sample_index") == 0)
    attempts = collect(traces.filter(solves), log)
    revised = pl.col("parent_id").is_in(attempts["trace_id"].implode()) & (pl.col("action") != "solve")
    for (action, one), pool in pools.items():
        if one == base and pool is not None:
            revised &= (pl.col("action") != action) | (pl.col("pool") == pool)
    revisions = collect(traces.filter(revised), log).with_columns(call="action")
    return pl.concat([attempts.with_columns(call=pl.lit("accept")), revisions])


def completed_and_truncated_masks(log: Log, base: str, ids: pl.Series) -> dict[str, np.ndarray]:
    """Masks (N,) of the base attempts that were completed, and of those truncated; of neither where not logged."""
    calls = _attempt_and_revision_rows(log, ids, base, {}, ["finish_reason"]).filter(call="accept")
    reason = _rows_in_order(ids, calls.select("example_id", "finish_reason"))["finish_reason"]
    cut, known = (reason == "length").fill_null(False).to_numpy(), reason.is_not_null().to_numpy()
    return {"completed": known & ~cut, "truncated": cut}


def finalizer_tokens(log: Log, base: str, pools: RevisionPools, ids: pl.Series) -> dict[str, np.ndarray]:
    """Tokens (N,) of the finalizers of base attempts (key: the pool) and, mean over rollouts, of each action.

    NaN where a finalizer's tokens were not logged; empty where none were.
    """
    if "finalizer_tokens" not in log.columns("traces"):
        return {}
    calls = _attempt_and_revision_rows(log, ids, base, pools, ["finalizer_tokens", "finalizer_used"])
    unused = pl.when(~pl.col("finalizer_used")).then(0.0)
    tokens = pl.coalesce(pl.col("finalizer_tokens").cast(pl.Float64), unused).fill_null(np.nan).mean()
    means = calls.group_by("call", "example_id").agg(tokens.alias("tokens"))
    names = {base: "accept", **{action: action for action, one in pools if one == base}}
    return {
        name: _rows_in_order(ids, means.filter(call=call))["tokens"].fill_null(np.nan).to_numpy()
        for name, call in names.items()
    }


def _rows_in_order(ids: pl.Series, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows in the order of the examples' ids; a row of nulls for an example without one."""
    return ids.to_frame("example_id").join(rows, on="example_id", how="left", maintain_order="left")


MEANS = ("accuracy", "fix_rate", "flip_rate", "action_tokens")


def _action_screening_rows(log: Log, base: str, pools: RevisionPools, where: str, settings: Settings) -> pl.DataFrame:
    """A row for accepting, each logged action, and the oracle over them, on the examples of a condition.

    Means, finalizer and truncation rate of the action's own calls, `examples` and `dataset`, the names of theirs.
    """
    actions = tuple(action for action, one in pools if one == base)
    policies = [
        first_attempt_policy("accept", base),
        *(Act(name=action, action=action, base=base, pool=pools[action, base]) for action in actions),
        Oracle(name="sampled-action oracle", rule="action", base=base, of=actions, against="accept"),
    ]
    result = run(
        log, policies, where=where, resamples=settings.resamples, level=settings.level, seed=settings.seed
    )  # fmt: skip
    ids = result.examples["example_id"]
    means = result.summary.pivot("metric", index="policy", values="estimate").rename({"policy": "action"})
    lacking = [pl.lit(None, pl.Float64).alias(name) for name in MEANS if name not in means.columns]
    tokens = pl.when(pl.col("action") == "accept").then(0.0).otherwise("action_tokens")
    rows = means.with_columns(lacking).select(
        "action", "accuracy", pl.col("fix_rate", "flip_rate").fill_null(0.0), action_tokens=tokens
    )
    rates = (
        _attempt_and_revision_rows(log, ids, base, pools, ["finish_reason", "finalizer_used"])
        .group_by(action="call")
        .agg(
            finalizer_rate=pl.col("finalizer_used").mean(), truncation_rate=(pl.col("finish_reason") == "length").mean()
        )
    )
    examples = collect(log.scan("examples", ["example_id", "dataset"]), log)
    datasets = ", ".join(examples.filter(pl.col("example_id").is_in(ids.implode()))["dataset"].unique().sort())
    with_rates = rows.join(rates, on="action", how="left", maintain_order="left")
    return with_rates.with_columns(examples=pl.lit(result.statistics.n), dataset=pl.lit(datasets))


def screen_actions_on_conditions(
    log: Log, base: str, pools: RevisionPools, conditions: tuple[str, str], known: bool, settings: Settings
) -> tuple[pl.DataFrame, list[str]]:
    """The screening of actions on the examples to fit on, else, with a note, on those that are reported.

    `conditions` are of both. Refuses the latter where the action is not `known`, because it would be chosen there.
    """
    on, where = conditions
    try:
        ids_where(log, on, "on")
        return _action_screening_rows(log, base, pools, on, settings), []
    except ThinkbackError as error:
        if not known:
            raise EmptyError(
                f"the examples of {argument('on')} ({on}) cannot decide which action is best, and the reported ones "
                f"must not: name the action with {argument('action')} ({error})"
            ) from None
        note = f"actions are screened on the reported examples, because those of `on` cannot be used: {error}"
    return _action_screening_rows(log, base, pools, where, settings), [remark("screened_on_reported", note)]


def best_action(screening: pl.DataFrame) -> str:
    """The most accurate action; of equals the one with most repairs less flips."""
    rows = screening.iter_rows(named=True)
    return str(max(rows, key=lambda row: (row["accuracy"], row["fix_rate"] - row["flip_rate"]))["action"])
