"""A run with gates on a data set: curves and reports of its gates, and examples of what they act on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import polars as pl

from replay.analyses.recommend.repair_examples import RepairExample, repair_examples
from replay.data.conditions import of_dataset
from replay.gatefit.gate_set import NamedGate
from replay.gatefit.report import GateReport, transfer_report
from replay.policies.base import Policy
from replay.policies.toml import PolicyFile
from replay.runs.passes.gate_sweep import band_table, curve
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit.cells import estimate
from replay.studies.recovery.interventions import InterventionRoles, InterventionSetting
from replay.studies.recovery.outcomes import RunOutcomes
from toolkit.log import Log
from toolkit.stats.curves.calibration import WideBin, wide_bins


@dataclass(frozen=True, eq=False)
class GatedRun(RunOutcomes):
    """A run with gates on a data set, and what was found of each gate, by the policy that acts by it.

    `curve` and `band` are those of the primary gate, None where there is none, and `matched` names the policies that
    act at its rate, the oracle first.
    """

    dataset: str
    asked: InterventionSetting
    roles: InterventionRoles
    curve: pl.DataFrame | None
    band: pl.DataFrame | None
    reports: Mapping[str, GateReport]
    matched: tuple[str, ...]

    @property
    def gates(self) -> tuple[NamedGate, ...]:
        """The gates that were served, those of an action one after the other."""
        return tuple(gate for gate in self.roles.every_gate if gate.policy in self.reports)

    @cached_property
    def calibration(self) -> Mapping[str, tuple[WideBin, ...]]:
        """By policy, the bins of the gates that predict repairs; none where scores are no probabilities."""
        found = {gate.policy: self.reports[gate.policy] for gate in self.gates if gate.predicts}
        return {name: wide_bins(one.scores, one.repairs, one.unit, self.settings) for name, one in found.items()}

    @property
    def rate(self) -> float | None:
        """The share that the primary gate acts on."""
        gate = self.roles.gates.get(self.roles.action)
        return None if gate is None else estimate(self.cell(gate.policy, "intervention_rate"))


def gated_run(
    log: Log, dataset: str, policies: PolicyFile, roles: InterventionRoles, asked: InterventionSetting
) -> GatedRun:
    """Replay policies with the diagnostics at the primary gate's rate, against the base attempt.

    Curves and reports of gates are over the examples that the run compares.
    """
    where, settings = of_dataset(asked.where, dataset), asked.settings

    def replayed(beside: Sequence[Policy]) -> Result:
        file = replace(policies, policies=(*policies.policies, *beside))
        return run(log, file, baseline=roles.first.name, where=where, settings=settings)

    branches = roles.branches(log, where)
    beside = roles.matched(branches)
    result = replayed(beside)
    ids = result.examples["example_id"]
    if branches is not None:  # the coin and the oracle act at the rate of those compared
        branches = branches.among(ids)
        again = roles.matched(branches)
        if again != beside:
            beside, result = again, replayed(again)
    there = {policy.name for policy in result.policies}
    return GatedRun(
        result, dataset, asked, roles,
        curve=None if branches is None else curve(branches),
        band=None if branches is None else band_table(branches, settings),
        reports={
            gate.policy: transfer_report(log, gate.file, where=where, ids=ids, settings=settings)
            for gate in roles.every_gate
            if gate.policy in there
        },
        matched=tuple(policy.name for policy in beside),
    )  # fmt: skip


def repair_cases(log: Log, study: GatedRun) -> Iterator[RepairExample]:
    """Examples that each action fixes and flips, the primary one first, where its gate fires or does not.

    Without a gate the action is taken everywhere.
    """
    roles, ids = study.roles, study.result.examples["example_id"].to_list()
    for action in roles.primary_first:
        for always in study.served([roles.always(action).name]):
            gates = [roles.gates[action].policy] if action in roles.gates else []
            acted, taken = study.values([*study.served(gates), always][0])["intervened"] > 0, study.values(always)
            pool = roles.pools[action, roles.base]
            yield from repair_examples(log, roles.base, action, pool, ids, taken["fix"], taken["flip"], acted)
