"""Think again or think longer: the study's runs on each data set of a log (Dip, Zhou and Zhang, SeVRA)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.analyses.recommend import Recommendation, weigh
from replay.data.conditions import matching
from replay.data.contents import read_contents
from replay.gatefit.data import plan_of, setting
from replay.gatefit.report import GateReport, transfer_report
from replay.policies.base import Policy
from replay.policies.gate_file import GateFile
from replay.policies.toml import PolicyFile
from replay.runs.example_set import resampling_units
from replay.runs.gate_sweep import CURVE, Branches, band_table, curve, gather
from replay.runs.result import Result
from replay.runs.run import run
from replay.studies.recovery.cases import Case, chosen_cases
from replay.studies.recovery.gates import StudyGate, datasets_of, within
from replay.studies.recovery.policies import PolicyNames, Roles, build_policies, matched_policies
from replay.studies.recovery.roles import Chosen, RecoverySetting, calls_of, choose_all, with_equal_votes
from toolkit.log import Log, collect
from toolkit.notes import Note
from toolkit.stats import Settings


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
    cases: tuple[Case, ...] = ()

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
    def gates(self) -> tuple[StudyGate, ...]:
        """The gates that were served, those of an action one after the other."""
        return tuple(gate for gate in self.roles.every_gate if gate.policy in self.reports)

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that were served."""
        return tuple(policy.name for policy in self.result.policies)


def study_log(log: Log, asked: RecoverySetting) -> tuple[tuple[DatasetStudy, ...], tuple[str, ...]]:
    """Every data set among the examples to report on, each with gates of its own unless pooled; what is missing."""
    matching(log, asked.where, "where")
    names = datasets_of(log, asked.where)
    chosen = choose_all(log, asked, names)
    studies = tuple(study_dataset(log, chosen[name], asked, name) for name in names)
    told = {
        note: [name for name in names if note in chosen[name].notes] for one in chosen.values() for note in one.notes
    }
    notes = (note if len(among) == len(names) else f"{note} ({', '.join(among)})" for note, among in told.items())
    return studies, tuple(notes)


def study_dataset(log: Log, chosen: Chosen, asked: RecoverySetting, dataset: str) -> DatasetStudy:
    """One run on one data set; curves and reports of gates are over the examples that it compares."""
    where = within(asked.where, dataset)
    contents = read_contents(log)
    roles = with_equal_votes(log, chosen.roles, where, asked)
    policies, named = build_policies(roles, contents)
    branches = None
    if named.primary:
        at = setting(log, roles.action, roles.base, roles.pools[roles.action, roles.base])
        gate = roles.gates[roles.action].file
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
        reports=_reports(log, roles, result, asked, where, ids), state=_state(log, roles.base, ids),
        finalizers=_finalizers(log, roles, ids), screening=chosen.screening,
        recommendation=Recommendation("", (), (), None, ()), notes=result.notes,
    )  # fmt: skip
    return replace(study, recommendation=_recommendation(study, asked), cases=_cases(log, study))


def _cases(log: Log, study: DatasetStudy) -> tuple[Case, ...]:
    """Examples that the primary action fixes and flips, where its gate fires (everywhere without one) or does not."""
    action, base = study.roles.action, study.roles.base
    always = study.named.always[action]
    if always not in study.policies:
        return ()
    gate = study.named.primary if study.named.primary in study.policies else always
    acted, pool = study.values(gate)["intervened"] > 0, study.roles.pools[action, base]
    return chosen_cases(
        log, base, action, pool, study.result.examples["example_id"].to_list(), study.values(always), acted
    )


def _run(log: Log, policies: tuple[Policy, ...], named: PolicyNames, where: str, asked: RecoverySetting) -> Result:
    file = PolicyFile(policies, prices=asked.prices)
    made = asked.settings
    return run(log, file, baseline=named.base, where=where, resamples=made.resamples, level=made.level, seed=made.seed)


def _reports(
    log: Log, roles: Roles, result: Result, asked: RecoverySetting, where: str, ids: pl.Series
) -> dict[str, GateReport]:
    """By policy, a report of each gate that was served, on the examples that the run compares."""
    served = {policy.name for policy in result.policies}
    return {
        gate.policy: transfer_report(log, gate.file, where=where, ids=ids, settings=asked.settings)
        for gate in roles.every_gate
        if gate.policy in served
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
    calls = calls_of(log, ids, roles.base, roles.pools, ["finalizer_tokens", "finalizer_used"])
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
        votes=outcomes(list(named.samples)),
        margin=asked.margin,
        cluster=study.cluster,
        settings=asked.settings,
    )
