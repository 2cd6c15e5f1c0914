"""Which pools, actions and gates the study compares on a data set, chosen on the examples that gates are fitted on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from replay.data.conditions import matching
from replay.data.contents import Contents, read_contents
from replay.data.prices import Prices
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gate_file import GateFile
from replay.policies.gates import Threshold
from replay.runs.run import run
from replay.studies.recovery.checks import check_gate, refuse_seen, revision_pools
from replay.studies.recovery.gates import (
    HEURISTICS,
    GateFitting,
    cheap_gates,
    given_gates,
    rival_gates,
    scopes_of,
    transferred,
    within,
)
from replay.studies.recovery.policies import Roles, missing_rules, votes
from toolkit.errors import ThinkbackError, argument, listed, suggest
from toolkit.log import Log, collect
from toolkit.stats import Settings


@dataclass(frozen=True)
class RecoverySetting:
    """What the study is asked for. `on`, `tune` and `where` are SQL conditions on examples, disjoint.

    `gates` are given files, the first of each action acting for it; `pools` names a pool of revisions for each action
    with several. `pooled`: actions are chosen, and gates fitted, on all data sets together.
    """

    action: str | None
    base: str | None
    budgets: tuple[str, ...]
    on: str
    tune: str
    where: str
    gates: tuple[GateFile, ...]
    margin: float
    prices: Prices | None
    settings: Settings
    pools: tuple[str, ...] = ()
    pooled: bool = False
    width: int = 1


@dataclass(frozen=True, eq=False)
class Chosen:
    """What the study compares on a data set (None: on all of them), with the screening; `notes` say what is missing."""

    dataset: str | None
    roles: Roles
    screening: pl.DataFrame
    notes: tuple[str, ...]
    fitting: GateFitting


def choose_all(log: Log, asked: RecoverySetting, datasets: Sequence[str]) -> dict[str, Chosen]:
    """The choice of every data set: its own, with the cheap gates of the others, or one for all where `pooled`."""
    if asked.pooled:
        return dict.fromkeys(datasets, choose(log, asked))
    own = {name: choose(log, asked, name) for name in datasets}
    return {
        name: _with_others(log, asked, one, [own[other] for other in own if other != name]) for name, one in own.items()
    }


def _with_others(log: Log, asked: RecoverySetting, here: Chosen, others: Sequence[Chosen]) -> Chosen:
    notes: list[str] = []
    more = [
        gate
        for there in others
        for gate in transferred(replace(there.fitting, notes=notes), here.roles.every_gate, there.roles.every_gate)
    ]
    if here.dataset is not None:
        refuse_seen(log, [gate.file for gate in more], within(asked.where, here.dataset))
    roles = replace(here.roles, rivals=(*here.roles.rivals, *more))
    return replace(here, roles=roles, notes=(*here.notes, *notes))


def choose(log: Log, asked: RecoverySetting, dataset: str | None = None) -> Chosen:
    """Choose pools and actions, screen the actions, fit the gates: on a data set's own examples, or on all."""
    refuse_seen(log, asked.gates, asked.where, frozen=True)
    contents = read_contents(log)
    base, actions = _acting(log, contents, asked)
    left_out = contents.opaque | contents.partly_opaque | contents.whole
    samples = {p: (n,) for p, n in contents.sizes.items() if n > 2 and p not in left_out}
    limits = _limits(log)
    longer, note = _longer(log, base, limits, samples) if not asked.budgets else (asked.budgets, "")
    pools = revision_pools(asked.pools, asked.gates, base, contents)
    scopes = scopes_of(log, asked.on, asked.tune, dataset)
    where = asked.where if dataset is None else within(asked.where, dataset)
    screened, notes = _screen(log, base, pools, replace(asked, on=scopes[0].on, where=where))
    apart = not notes
    notes += [note] if note else []
    acting = screened.filter(pl.col("action").is_in(actions))
    best = max(acting.iter_rows(named=True), key=lambda row: (row["accuracy"], row["fix_rate"] - row["flip_rate"]))
    action = asked.action or (asked.gates[0].action if asked.gates else str(best["action"]))
    fitting = GateFitting(log, base, pools, scopes, notes)
    cheap = cheap_gates(fitting, actions)
    gates, others = given_gates(asked.gates, cheap)
    rivals = [*others, *rival_gates(fitting, action, actions, contents)]
    refuse_seen(log, [gate.file for gate in (*cheap.values(), *rivals) if gate.file not in asked.gates], where)
    roles = Roles(
        base, _by_limit(longer, limits), action, actions, gates, tuple(rivals), samples, limits,
        width=asked.width, screened_apart=apart, pools=pools,
    )  # fmt: skip
    return Chosen(dataset, roles, screened, (*notes, *missing_rules(roles, contents, HEURISTICS)), fitting)


def _acting(log: Log, contents: Contents, asked: RecoverySetting) -> tuple[str, tuple[str, ...]]:
    """The pool of the base attempts and the actions that revise them; refuses names that the log does not have."""
    bases = sorted({base for _, base, _ in contents.revisions})
    if not bases:
        raise ThinkbackError(f"{log.address} has no revision of a first attempt: there is nothing to intervene with")
    given = {gate.action for gate in asked.gates}
    for gate in asked.gates:
        own = {action for action, one, _ in contents.revisions if one == gate.base}
        check_gate(gate, asked.base, None if asked.action in given else asked.action, bases, own)
        if gate.base != asked.gates[0].base:
            raise ThinkbackError(
                f"gate files `{asked.gates[0].path}` and `{gate.path}` are of base attempts of two pools, "
                f"`{asked.gates[0].base}` and `{gate.base}`: study one after the other"
            )
    base = asked.base or (asked.gates[0].base if asked.gates else bases[0] if len(bases) == 1 else None)
    if base is None:
        raise ThinkbackError(
            f"the log has revisions of {listed(bases)}: name the pool of the base attempts with {argument('base')}"
        )
    if base not in bases:
        raise ThinkbackError(f"{argument('base')}: pool `{base}` has no revisions; {suggest(base, bases)}")
    actions = tuple(sorted({action for action, one, _ in contents.revisions if one == base}))
    if asked.action is not None and asked.action not in actions:
        raise ThinkbackError(f"pool `{base}` has no revisions by `{asked.action}`; {suggest(asked.action, actions)}")
    unknown = [pool for pool in asked.budgets if pool not in contents.pools]
    if unknown:
        raise ThinkbackError(
            f"the log has no pool `{unknown[0]}` of first attempts; {suggest(unknown[0], contents.pools)}"
        )
    return base, actions


def _limits(log: Log) -> dict[str, int]:
    """Token limit of the first attempts of each pool that has one."""
    scan = log.scan("traces", ["pool", "action", "max_tokens"]).filter(pl.col("action") == "solve")
    limits = collect(scan.group_by("pool").agg(pl.col("max_tokens").max()), log).drop_nulls()
    return dict(limits.iter_rows())


def _longer(log: Log, base: str, limits: Mapping[str, int], votes: Collection[str]) -> tuple[tuple[str, ...], str]:
    """Pools that differ from the base's in a higher token limit alone, by limit; and a note on higher ones that do not.

    Pools of votes and of another temperature answer another question than whether to think longer.
    """
    higher = [pool for pool, limit in limits.items() if base in limits and limit > limits[base]]
    scan = log.scan("traces", ["pool", "action", "temperature"]).filter(pl.col("action") == "solve")
    found = collect(scan.group_by("pool").agg(pl.col("temperature").unique().sort()), log)
    heat = dict(found.iter_rows())
    longer = [pool for pool in higher if pool not in votes and heat[pool] == heat[base]]
    others = sorted(set(higher) - set(longer))
    note = (
        f"no initial budgets: {listed(others)}, with a higher token limit but sampled as "
        "votes or at another temperature; name them with `budgets`"
    )
    return _by_limit(longer, limits), note if others else ""


def _by_limit(pools: Iterable[str], limits: Mapping[str, int]) -> tuple[str, ...]:
    return tuple(sorted(pools, key=lambda pool: (limits.get(pool, 0), pool)))


def _screen(
    log: Log, base: str, pools: Mapping[tuple[str, str], str | None], asked: RecoverySetting
) -> tuple[pl.DataFrame, list[str]]:
    """All logged actions on the examples that gates are fitted on, or on those that are reported if there are none."""
    actions = tuple(action for action, one in pools if one == base)
    policies = [
        Sample(name="accept", pool=base, max_traces=1, select="first"),
        *(Act(name=action, action=action, base=base, pool=pools[action, base]) for action in actions),
        Oracle(name="sampled-action oracle", rule="action", base=base, of=actions, against="accept"),
    ]
    notes: list[str] = []
    chosen = asked.action or (asked.gates[0].action if asked.gates else None)
    try:
        matching(log, asked.on, "on")
        result = run(log, policies, where=asked.on, **_asked(asked.settings))
    except ThinkbackError as error:
        if chosen is None and len(actions) > 1:
            raise ThinkbackError(
                f"no action can be chosen on the examples of {argument('on')} ({asked.on}), and not on those that are "
                f"reported: name one with {argument('action')} ({error})"
            ) from None
        notes.append(f"actions are screened on the reported examples, because those of `on` cannot be: {error}")
        result = run(log, policies, where=asked.where, **_asked(asked.settings))
    means = result.summary.pivot("metric", index="policy", values="estimate").rename({"policy": "action"})
    rates = _call_rates(log, result.examples["example_id"], base, pools)
    wanted = ["action", "accuracy", "fix_rate", "flip_rate", "action_tokens"]
    frame = means.with_columns(
        pl.lit(None, pl.Float64).alias(name) for name in wanted if name not in means.columns
    ).select(wanted)
    spent = pl.when(pl.col("action") == "accept").then(0.0).otherwise("action_tokens")
    frame = frame.with_columns(pl.col("fix_rate", "flip_rate").fill_null(0.0), action_tokens=spent)
    joined = frame.join(rates, on="action", how="left", maintain_order="left")
    examples = collect(log.scan("examples", ["example_id", "dataset"]), log)
    screened = examples.filter(pl.col("example_id").is_in(result.examples["example_id"].implode()))
    named = ", ".join(screened["dataset"].unique().sort())
    return joined.with_columns(examples=pl.lit(result.statistics.n), dataset=pl.lit(named)), notes


def calls_of(
    log: Log, ids: pl.Series, base: str, pools: Mapping[tuple[str, str], str | None], columns: Sequence[str]
) -> pl.DataFrame:
    """Base attempts of some examples and the revisions of them: `call` is `accept` or the action, and `columns`.

    Of actions with several pools of revisions, those of the one in `pools`.
    """
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


def _call_rates(log: Log, ids: pl.Series, base: str, pools: Mapping[tuple[str, str], str | None]) -> pl.DataFrame:
    """Finalizer and truncation rate of the calls of each action themselves (`accept`: the base attempts)."""
    calls = calls_of(log, ids, base, pools, ["finish_reason", "finalizer_used"])
    return calls.group_by(pl.col("call").alias("action")).agg(
        finalizer_rate=pl.col("finalizer_used").mean(), truncation_rate=(pl.col("finish_reason") == "length").mean()
    )


def with_equal_votes(log: Log, roles: Roles, where: str, asked: RecoverySetting) -> Roles:
    """The roles with, for every gated policy, the largest vote whose mean tokens are not more than the policy's."""
    base = Sample(name="base", pool=roles.base, max_traces=1, select="first")
    acts = {action: roles.act(f"always {action}", action, roles.base) for action in roles.actions}
    gated: list[Policy] = [
        When(name=gate.policy, base=base, gate=Threshold(file=gate.file), then=acts[action])
        for action, gate in roles.gates.items()
    ] or [acts[roles.action]]
    sizes = {pool: tuple(range(2, most + 1)) for pool, (most,) in roles.samples.items()}
    voters = {(vote.pool, vote.max_traces): vote for vote in votes(replace(roles, samples=sizes), base.name)}
    try:
        result = run(log, [base, *gated, *voters.values()], where=where, resamples=1, seed=asked.settings.seed)
    except ThinkbackError:
        return roles  # the study's own run says what is missing
    rows = result.summary.filter(pl.col("metric") == "total_tokens").drop_nulls("estimate")
    spent = dict(rows.select("policy", "estimate").iter_rows())
    paid = [spent[policy.name] for policy in gated if policy.name in spent]

    def equal(pool: str, most: int) -> tuple[int, ...]:
        known = {size: spent[vote.name] for (of, size), vote in voters.items() if of == pool and vote.name in spent}
        found = {max((size for size, cost in known.items() if cost <= tokens), default=most) for tokens in paid}
        return tuple(sorted({*found, most}))

    return replace(roles, samples={pool: equal(pool, most) for pool, (most,) in roles.samples.items()})


def _asked(settings: Settings) -> dict[str, Any]:
    return {"resamples": settings.resamples, "level": settings.level, "seed": settings.seed}
