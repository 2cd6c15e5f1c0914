"""Think again or think longer: the study's runs on each data set of a log (Dip, Zhou and Zhang, SeVRA)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.analyses.attempts import finalizer_tokens, states
from replay.analyses.recommend import Recommendation, weigh
from replay.analyses.repair_examples import RepairExample, repair_examples
from replay.analyses.rivals import matched
from replay.data.conditions import matching, of_dataset
from replay.data.contents import read_contents
from replay.gatefit.data import plan_of, setting
from replay.gatefit.gate_set import NamedGate, datasets_of
from replay.gatefit.report import GateReport, transfer_report
from replay.policies.base import Policy
from replay.policies.toml import PolicyFile
from replay.runs.gate_sweep import Branches, band_table, curve, gather
from replay.runs.result import Result
from replay.runs.run import run
from replay.studies.kit.gaps import told_among
from replay.studies.kit.outcomes import RunOutcomes
from replay.studies.recovery.policies import PolicyNames, Roles, build_policies
from replay.studies.recovery.roles import Chosen, RecoverySetting, choose_all, with_equal_votes
from toolkit.log import Log
from toolkit.notes import Note
from toolkit.stats.calibration import WideBin, wide_bins

UNSHOWN = frozenset({"cost", "eur_per_1000", "reduction:truncated"})
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""
UNWEIGHED = Recommendation("", (), (), None, ())


@dataclass(frozen=True, eq=False)
class DatasetStudy(RunOutcomes):
    """Everything that the tables and figures of one data set show."""

    dataset: str
    asked: RecoverySetting
    roles: Roles
    named: PolicyNames
    curve: pl.DataFrame | None
    band: pl.DataFrame | None
    reports: Mapping[str, GateReport]
    state: Mapping[str, np.ndarray]  # completed and truncated: bool (N,), in the order of the outcomes
    finalizers: Mapping[str, np.ndarray]  # finalizer tokens (N,) of the base pool and of each action, where logged
    screening: pl.DataFrame
    recommendation: Recommendation = UNWEIGHED
    cases: tuple[RepairExample, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the run says of what the study shows."""
        notes = self.result.notes
        return tuple(one for one in notes if not one.metrics or not UNSHOWN.issuperset(one.metrics))

    @property
    def gates(self) -> tuple[NamedGate, ...]:
        """The gates that were served, those of an action one after the other."""
        return tuple(gate for gate in self.roles.every_gate if gate.policy in self.reports)

    @cached_property
    def calibration(self) -> Mapping[str, tuple[WideBin, ...]]:
        """By policy, the bins of the gates that predict repairs; none where scores are no probabilities."""
        found = {gate.policy: self.reports[gate.policy] for gate in self.gates if gate.predicts}
        return {name: wide_bins(one.scores, one.repairs, one.unit, self.settings) for name, one in found.items()}

    def served(self, names: Iterable[str]) -> list[str]:
        """Those of the policies that were served."""
        return [name for name in names if name in self.policies]


def study_log(log: Log, asked: RecoverySetting) -> tuple[tuple[DatasetStudy, ...], tuple[str, ...]]:
    """Every data set among the examples to report on, each with gates of its own unless pooled; what is missing."""
    matching(log, asked.where, "where")
    chosen = choose_all(log, asked, datasets_of(log, asked.where))
    notes = told_among({name: one.notes for name, one in chosen.items()})
    return tuple(study_dataset(log, one, asked, name) for name, one in chosen.items()), notes


def study_dataset(log: Log, chosen: Chosen, asked: RecoverySetting, dataset: str) -> DatasetStudy:
    """One run on one data set; curves and reports of gates are over the examples that it compares."""
    where = of_dataset(asked.where, dataset)
    roles = with_equal_votes(log, chosen.roles, where, asked)
    policies, named = build_policies(roles, read_contents(log))
    branches = _branches(log, roles, where) if named.primary else None
    beside = _matched(roles, named, branches)
    result = _run(log, (*policies, *beside), named, where, asked)
    ids = result.examples["example_id"]
    if branches is not None:  # the coin and the oracle act at the rate of those compared
        branches = branches.among(ids)
        again = _matched(roles, named, branches)
        if again != beside:
            beside = again
            result = _run(log, (*policies, *beside), named, where, asked)
    study = DatasetStudy(
        result, dataset, asked, roles, replace(named, matched=tuple(policy.name for policy in beside)),
        curve=None if branches is None else curve(branches),
        band=None if branches is None else band_table(branches, asked.settings),
        reports={}, state=states(log, roles.base, ids),
        finalizers=finalizer_tokens(log, roles.base, roles.pools, ids), screening=chosen.screening,
    )  # fmt: skip
    reports = {
        gate.policy: transfer_report(log, gate.file, where=where, ids=ids, settings=asked.settings)
        for gate in roles.every_gate
        if gate.policy in study.policies
    }
    return replace(study, reports=reports, recommendation=_recommendation(study, asked), cases=_cases(log, study))


def _branches(log: Log, roles: Roles, where: str) -> Branches:
    at = setting(log, roles.action, roles.base, roles.pools[roles.action, roles.base])
    return gather(plan_of(at, where), at.when(roles.gates[roles.action].file).one_gate)


def _matched(roles: Roles, named: PolicyNames, branches: Branches | None) -> tuple[Policy, ...]:
    """The diagnostics at the primary gate's rate."""
    if branches is None:
        return ()
    rate = float(branches.fires(roles.gates[roles.action].file.threshold).mean())
    return matched(roles.first, roles.always(roles.action), rate)


def _run(log: Log, policies: tuple[Policy, ...], named: PolicyNames, where: str, asked: RecoverySetting) -> Result:
    file = PolicyFile(policies, prices=asked.prices)
    made = asked.settings
    return run(log, file, baseline=named.base, where=where, resamples=made.resamples, level=made.level, seed=made.seed)


def _cases(log: Log, study: DatasetStudy) -> tuple[RepairExample, ...]:
    """Examples that each action fixes and flips, the primary one first, where its gate fires or does not.

    Without a gate the action is taken everywhere.
    """
    base, found = study.roles.base, list[RepairExample]()
    for action in sorted(study.roles.actions, key=lambda one: one != study.roles.action):
        for always in study.served([study.named.always[action]]):
            gate = next(iter(study.served([study.named.selective.get(action, "")])), always)
            acted, pool = study.values(gate)["intervened"] > 0, study.roles.pools[action, base]
            ids, of_action = study.result.examples["example_id"].to_list(), study.values(always)
            found += repair_examples(log, base, action, pool, ids, of_action["fix"], of_action["flip"], acted)
    return tuple(found)


def _recommendation(study: DatasetStudy, asked: RecoverySetting) -> Recommendation:
    named = study.named
    parts = {
        "budgets": named.budgets.values(), "selective": [*named.selective.values(), *named.unfitted],
        "actions": named.always.values(), "votes": named.samples,
    }  # fmt: skip
    outcomes = {part: {name: study.values(name) for name in study.served(names)} for part, names in parts.items()}
    return weigh(
        (named.base, study.values(named.base)), **outcomes, margin=asked.margin, cluster=study.cluster,
        settings=asked.settings,
    )  # fmt: skip
