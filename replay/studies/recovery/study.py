"""Think again or think longer: the study's runs on one data set of a log (Dip, Zhou and Zhang, SeVRA)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.recommend import Recommendation, weigh
from replay.data.conditions import matching
from replay.data.contents import read_contents
from replay.data.prices import Prices
from replay.gatefit.data import plan_of, setting
from replay.gatefit.fit import fit_gate
from replay.gatefit.report import GateReport, transfer_report
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.policies.base import Policy
from replay.policies.gate_file import GateFile
from replay.policies.gate_models import MODELS
from replay.policies.toml import PolicyFile
from replay.runs.example_set import resampling_units
from replay.runs.gate_sweep import CURVE, Branches, band_table, curve, gather
from replay.runs.result import Result
from replay.runs.run import run
from replay.studies.recovery.checks import check_gate, refuse_seen, revision_pools
from replay.studies.recovery.policies import PolicyNames, Roles, build_policies, matched_policies, missing_rules
from toolkit.errors import ThinkbackError, argument, listed, suggest
from toolkit.log import Log, collect
from toolkit.notes import Note
from toolkit.stats import Settings

HEURISTICS = {"difficulty": "difficulty", "verification need": "verification_need"}
"""Routing rules on one feature, where the log has it."""


@dataclass(frozen=True)
class RecoverySetting:
    """What the study is asked for. `on`, `tune` and `where` are SQL conditions on examples, disjoint.

    `pools` names a pool of revisions for each action with several.
    """

    action: str | None
    base: str | None
    budgets: tuple[str, ...]
    on: str
    tune: str
    where: str
    gate: GateFile | None
    margin: float
    prices: Prices | None
    settings: Settings
    pools: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class DatasetStudy:
    """Everything that the tables and figures of one data set show."""

    dataset: str
    roles: Roles
    named: PolicyNames
    result: Result
    seconds: pl.DataFrame
    cluster: np.ndarray | None  # resampling unit of each example, in the order of the outcomes
    curve: pl.DataFrame | None
    band: pl.DataFrame | None
    reports: Mapping[str, GateReport]
    state: Mapping[str, np.ndarray]  # completed and truncated: bool (N,), in the order of the outcomes
    finalizers: Mapping[str, np.ndarray]  # finalizer tokens (N,) of the base pool and of each action, where logged
    screening: pl.DataFrame
    recommendation: Recommendation
    notes: tuple[Note, ...]

    def values(self, policy: str) -> dict[str, np.ndarray]:
        """Columns of a policy's outcomes (N,), by example_id."""
        frame = self.result.outcomes.filter(pl.col("policy") == policy).collect()
        return {c: frame[c].fill_null(np.nan).to_numpy() for c in (*CURVE, "finalizers", "truncated")}

    @property
    def settings(self) -> Settings:
        """How intervals are made."""
        made = self.result.provenance
        return Settings(resamples=made["resamples"], level=made["level"], seed=made["seed"])

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that were served."""
        return tuple(policy.name for policy in self.result.policies)


def datasets(log: Log, where: str) -> list[str]:
    """Data sets among the examples to report on. Raises ThinkbackError where there are none."""
    ids = matching(log, where, "where")
    scan = log.scan("examples", ["example_id", "dataset"]).filter(pl.col("example_id").is_in(ids.implode()))
    return collect(scan.select(pl.col("dataset").unique().sort()), log)["dataset"].to_list()


def roles_of(log: Log, asked: RecoverySetting) -> tuple[Roles, pl.DataFrame, tuple[str, ...]]:
    """Choose pools and actions, screen the actions, fit the gates. The notes say what could not be."""
    refuse_seen(log, [asked.gate] if asked.gate is not None else [], asked.where, frozen=True)
    contents = read_contents(log)
    bases = sorted({base for _, base, _ in contents.revisions})
    if not bases:
        raise ThinkbackError(f"{log.address} has no revision of a first attempt: there is nothing to intervene with")
    if asked.gate is not None:
        own = {action for action, one, _ in contents.revisions if one == asked.gate.base}
        check_gate(asked.gate, asked.base, asked.action, bases, own)
    base = asked.base or (asked.gate.base if asked.gate is not None else bases[0] if len(bases) == 1 else None)
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
    left_out = contents.opaque | contents.partly_opaque | contents.whole
    samples = {p: n for p, n in contents.sizes.items() if n > 2 and p not in left_out}
    limits = _limits(log)
    longer, note = _longer(log, base, limits, samples) if not asked.budgets else (asked.budgets, "")
    pools = revision_pools(asked.pools, asked.gate, base, contents)
    screened, notes = _screen(log, base, pools, asked)
    apart = not notes
    notes += [note] if note else []
    acting = screened.filter(pl.col("action").is_in(actions))
    best = max(acting.iter_rows(named=True), key=lambda row: (row["accuracy"], row["fix_rate"] - row["flip_rate"]))
    action = asked.action or (asked.gate.action if asked.gate is not None else str(best["action"]))
    gates: dict[str, GateFile] = {asked.gate.action: asked.gate} if asked.gate is not None else {}
    for name in actions:
        if name not in gates:
            _try_fit(gates, name, notes, log, asked, (base, name, pools[name, base]), "logistic", ())
    found: dict[str, GateFile] = {}
    revised = (base, action, pools[action, base])
    _try_fit(found, "trees", notes, log, asked, revised, "trees", ())
    rules: dict[str, GateFile] = {}
    for name, feature in HEURISTICS.items():
        if feature in contents.features:
            _try_fit(rules, name, notes, log, asked, revised, "score", (f"feature:{feature}",))
    fitted = [gate for gate in (*gates.values(), *found.values(), *rules.values()) if gate is not asked.gate]
    refuse_seen(log, fitted, asked.where)
    roles = Roles(
        base, _by_limit(longer, limits), action, actions, gates, found.get("trees"), rules, samples, limits,
        screened_apart=apart, pools=pools,
    )  # fmt: skip
    return roles, screened, (*notes, *missing_rules(roles, contents, HEURISTICS))


def _try_fit(
    gates: dict[str, GateFile], key: str, notes: list[str], log: Log, asked: RecoverySetting,
    revised: tuple[str, str, str | None], kind: str, features: Sequence[str],
) -> None:  # fmt: skip
    """Fit a gate for (base, action, pool of its revisions), or note why there is none."""
    base, action, pool = revised
    fits = MODELS[kind].fit is not None
    on = asked.on if fits else None
    try:
        fitted = fit_gate(
            log, action=action, on=on, tune=asked.tune, base=base, pool=pool, kind=kind, features=features
        )
    except ThinkbackError as error:
        notes.append(f"no {kind} gate for `{action}`{'' if fits else f' ({key})'}: {error}")
        return
    gates[key] = replace(fitted.gate, path=f"{kind} gate for {action}")


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
    chosen = asked.action or (asked.gate.action if asked.gate is not None else None)
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


def _calls(
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
    calls = _calls(log, ids, base, pools, ["finish_reason", "finalizer_used"])
    return calls.group_by(pl.col("call").alias("action")).agg(
        finalizer_rate=pl.col("finalizer_used").mean(), truncation_rate=(pl.col("finish_reason") == "length").mean()
    )


def _asked(settings: Settings) -> dict[str, Any]:
    return {"resamples": settings.resamples, "level": settings.level, "seed": settings.seed}


def study_dataset(
    log: Log, roles: Roles, screening: pl.DataFrame, asked: RecoverySetting, dataset: str
) -> DatasetStudy:
    """One run on one data set; curves and reports of gates are over the examples that it compares."""
    quoted = dataset.replace("'", "''")
    where = f"({asked.where}) AND dataset = '{quoted}'"
    contents = read_contents(log)
    policies, named = build_policies(roles, contents)
    branches = None
    if named.primary:
        at = setting(log, roles.action, roles.base, roles.pools[roles.action, roles.base])
        gate = roles.gates[roles.action]
        branches = gather(plan_of(at, where), at.when(gate).one_gate)
        matched = matched_policies(roles, named.base, _rate(branches, gate))
        result = _run(log, (*policies, *matched), named, where, asked)
        among = branches.among(result.examples["example_id"])
        if _rate(among, gate) != _rate(branches, gate):  # the coin and the oracle act at the rate of those compared
            matched = matched_policies(roles, named.base, _rate(among, gate))
            result = _run(log, (*policies, *matched), named, where, asked)
        branches = among
        named = replace(named, matched=tuple(policy.name for policy in matched))
    else:
        result = _run(log, policies, named, where, asked)
    ids = result.examples["example_id"]
    clusters = collect(log.scan("examples", ["example_id", "cluster"]), log)
    study = DatasetStudy(
        dataset=dataset, roles=roles, named=named, result=result, seconds=result.seconds,
        cluster=resampling_units(_aligned(ids, clusters)).to_numpy(),
        curve=None if branches is None else curve(branches),
        band=None if branches is None else band_table(branches, asked.settings),
        reports=_reports(log, roles, named, result, asked, where, ids), state=_state(log, roles.base, ids),
        finalizers=_finalizers(log, roles, ids), screening=screening,
        recommendation=Recommendation("", (), (), None, ()), notes=result.notes,
    )  # fmt: skip
    return replace(study, recommendation=_recommendation(study, asked))


def _run(log: Log, policies: tuple[Policy, ...], named: PolicyNames, where: str, asked: RecoverySetting) -> Result:
    file = PolicyFile(policies, prices=asked.prices)
    return run(log, file, baseline=named.base, where=where, **_asked(asked.settings))


def _reports(
    log: Log, roles: Roles, named: PolicyNames, result: Result, asked: RecoverySetting, where: str, ids: pl.Series
) -> dict[str, GateReport]:
    """A report of each gate whose policy was served, on the examples that the run compares."""
    gates = {named.selective[action]: (action, gate) for action, gate in roles.gates.items()}
    if roles.trees is not None:
        gates[named.trees] = ("boosted trees", roles.trees)
    served = {policy.name for policy in result.policies}
    return {
        shown: transfer_report(log, gate, where=where, ids=ids, settings=asked.settings)
        for policy, (shown, gate) in gates.items()
        if policy in served
    }


def _aligned(ids: pl.Series, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of examples in the order of their ids; nulls for one without a row."""
    return ids.to_frame("example_id").join(rows, on="example_id", how="left", maintain_order="left")


def _rate(branches: Branches, gate: GateFile) -> float:
    """Share of the examples on which a gate fires."""
    on = branches.signal < gate.threshold if branches.below else branches.signal >= gate.threshold
    return float((on | np.isnan(branches.signal)).mean())


def _state(log: Log, base: str, ids: pl.Series) -> dict[str, np.ndarray]:
    """Whether each example's base attempt was completed or truncated; neither where that is not logged."""
    traces = log.scan("traces", ["example_id", "pool", "action", "sample_index", "finish_reason"])
    own = (pl.col("action") == "solve") & (pl.col("pool") == base) & (pl.col("sample_index") == 0)
    reason = _aligned(ids, collect(traces.filter(own).select("example_id", "finish_reason"), log))["finish_reason"]
    cut, known = (reason == "length").fill_null(False).to_numpy(), reason.is_not_null().to_numpy()
    return {"completed": known & ~cut, "truncated": cut}


def _finalizers(log: Log, roles: Roles, ids: pl.Series) -> dict[str, np.ndarray]:
    """Tokens of the finalizers of the base attempts (by the base's pool) and, mean over rollouts, of each action (N,).

    NaN where a finalizer's tokens were not logged; empty where none were.
    """
    if "finalizer_tokens" not in log.columns("traces"):
        return {}
    calls = _calls(log, ids, roles.base, roles.pools, ["finalizer_tokens", "finalizer_used"])
    unused = pl.when(~pl.col("finalizer_used")).then(0.0)
    tokens = pl.coalesce(pl.col("finalizer_tokens").cast(pl.Float64), unused).fill_null(np.nan).mean()
    found = {}
    for name, call in {roles.base: "accept", **{action: action for action in roles.actions}}.items():
        means = calls.filter(call=call).group_by("example_id").agg(tokens.alias("tokens"))
        found[name] = _aligned(ids, means)["tokens"].fill_null(np.nan).to_numpy()
    return found


def _recommendation(study: DatasetStudy, asked: RecoverySetting) -> Recommendation:
    served = set(study.policies)

    def outcomes(names: Sequence[str]) -> dict[str, dict[str, np.ndarray]]:
        return {name: study.values(name) for name in names if name in served}

    named = study.named
    selective = [*named.selective.values(), *named.unfitted]
    return weigh(
        (named.base, study.values(named.base)),
        outcomes(list(named.budgets.values())),
        outcomes(selective),
        outcomes(list(named.always.values())),
        margin=asked.margin,
        cluster=study.cluster,
        settings=asked.settings,
    )
