"""Think again or think longer: the study's runs on each data set of a log (Dip, Zhou and Zhang, SeVRA)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.analyses.recommend.attempts import finalizer_tokens, states
from replay.analyses.recommend.recommend import Recommendation, weigh
from replay.analyses.recommend.repair_examples import RepairExample, repair_examples
from replay.analyses.recommend.rivals import equal_vote
from replay.data.conditions import matching, of_dataset
from replay.data.contents import read_contents
from replay.gatefit.gate_set import NamedGate, datasets_of
from replay.gatefit.report import GateReport, transfer_report
from replay.policies.base import Policy
from replay.policies.toml import PolicyFile
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.gate_sweep import CURVE, band_table, curve
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit.cells import cell, estimate, notes_beyond
from replay.studies.recovery.interventions import (
    ChosenRoles,
    InterventionRoles,
    InterventionSetting,
    PolicyNames,
    build_policies,
    caveats,
    choose_all,
    with_equal_votes,
)
from toolkit.log import Log
from toolkit.notes import Note
from toolkit.show import ShownInterval
from toolkit.stats import Settings, interval, paired_interval, paired_reduction
from toolkit.stats.curves.calibration import ScoreBin, wide_bins

VALUES = (*CURVE, "finalizers", "truncated")
"""Columns of outcomes that are read."""


UNSHOWN = ("cost", "eur_per_1000", "reduction:truncated")
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""

UNWEIGHED = Recommendation("", (), (), None, ())


@dataclass(frozen=True)
class _Lack:
    """What a log may lack of traces, the metric that shows it, and the columns that are then dashes."""

    what: str
    metric: str
    columns: frozenset[str]

    def policies(self, result: Result) -> list[str]:
        """The policies whose value it takes away."""
        known = result.summary.filter((pl.col("metric") == self.metric) & pl.col("estimate").is_not_null())["policy"]
        return [policy.name for policy in result.policies if policy.name not in set(known)]


LACKING = {
    "tokens": _Lack("tokens", "total_tokens", frozenset({
        "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
        "action_tokens_saved", "total_tokens_saved", "action_tokens_minus_cheap", "difference", "per_1000_priced",
    })),
    "seconds": _Lack("seconds", "latency_s", frozenset({"mean", "p50", "p95", "p99"})),
    "finalizers": _Lack(
        "uses of a finalizer", "finalizers", frozenset({"calls", "finalizers", "calls_avoided", "finalizer_rate"})
    ),
    "truncated": _Lack("finish reasons", "truncated", frozenset({"truncated", "truncation_rate"})),
}  # fmt: skip
"""What traces may lack, by the numbers that follow from it."""


@dataclass(frozen=True, eq=False)
class DatasetStudy:
    """One run with gates on a data set, and everything that its tables and figures show.

    `curve` and `band` are those of the primary gate, None where there is none, `reports` those of the gates by the
    policy that acts by each; `matched` names the policies that act at the primary gate's rate, the oracle first.
    """

    result: Result
    dataset: str
    asked: InterventionSetting
    roles: InterventionRoles
    named: PolicyNames
    curve: pl.DataFrame | None
    band: pl.DataFrame | None
    reports: Mapping[str, GateReport]
    matched: tuple[str, ...]
    state: Mapping[str, np.ndarray]  # completed and truncated: bool (N,), in the order of the outcomes
    finalizers: Mapping[str, np.ndarray]  # finalizer tokens (N,) of the base pool and of each action, where logged
    screening: pl.DataFrame
    recommendation: Recommendation = UNWEIGHED
    cases: tuple[RepairExample, ...] = ()

    @property
    def notes(self) -> tuple[Note, ...]:
        """What the run says of what the study shows."""
        return notes_beyond(self.result, UNSHOWN)

    def caveats(self) -> Iterator[str]:
        """Why the verdict may be too good."""
        return caveats(self.roles, bool(self.served(self.named.unfitted)))

    @property
    def simulated(self) -> bool:
        return self.result.simulated

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that were served."""
        return tuple(policy.name for policy in self.result.policies)

    def served(self, names: Iterable[str]) -> list[str]:
        """Those of the policies that were served."""
        return [name for name in names if name in self.policies]

    @property
    def settings(self) -> Settings:
        made = self.result.provenance
        return Settings(resamples=made["resamples"], level=made["level"], seed=made["seed"])

    @cached_property
    def cluster(self) -> np.ndarray:
        """Resampling unit of each example (N,), in the order of the outcomes."""
        return resampling_units(self.result.examples).to_numpy()

    def values(self, policy: str) -> dict[str, np.ndarray]:
        """Columns of a policy's outcomes (N,), by example_id; NaN where they are not known."""
        if policy not in self._read:
            frame = self.result.outcomes.filter(pl.col("policy") == policy).select(VALUES).collect()
            self._read[policy] = {c: frame[c].fill_null(np.nan).to_numpy() for c in VALUES}
        return self._read[policy]

    @cached_property
    def _read(self) -> dict[str, dict[str, np.ndarray]]:
        """What was read so far, by policy."""
        return {}

    def mean(self, policy: str, column: str, scale: float = 1.0) -> float | None:
        """Mean of a column; None where some value is not known."""
        return mean(self.values(policy)[column], scale)

    def mean_on(self, policy: str, column: str, on: np.ndarray) -> ShownInterval | None:
        """Mean of a column over some of the examples (N,) bool, with its interval."""
        found = interval(self.values(policy)[column][on], cluster=self.cluster[on], settings=self.settings)
        return ShownInterval.of((found.estimate, found.low, found.high))

    def paired(
        self, first: str, second: str, column: str = "correct", scale: float = 1.0
    ) -> tuple[ShownInterval | None, float | None]:
        """Difference of the means of two policies times `scale`, with its interval, and its p-value."""
        one, two = self.values(first)[column], self.values(second)[column]
        found = paired_interval(one, two, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), scale), found.p_value

    def reduction(self, first: str, second: str, column: str) -> ShownInterval | None:
        """By how many percent the first policy's mean is lower; None where some value is not known."""
        one, two = self.values(first)[column], self.values(second)[column]
        if np.isnan(one).any() or np.isnan(two).any():
            return None
        found = paired_reduction(one, two, column, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), 100)

    def equal_votes(self, interventions: Iterable[str], votes: Iterable[str]) -> dict[str, str]:
        """For every intervention, the vote for as many tokens: the largest one that costs no more."""
        paid, spent = (
            {one: float(self.values(one)["total_tokens"].mean()) for one in self.served(names)}
            for names in (interventions, votes)
        )
        return {one: vote for one, most in paid.items() if (vote := equal_vote(spent, most)) is not None}

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric of the run, times `scale`."""
        return cell(self.result.statistics, policy, metric, scale)

    @property
    def gates(self) -> tuple[NamedGate, ...]:
        """The gates that were served, those of an action one after the other."""
        return tuple(gate for gate in self.roles.every_gate if gate.policy in self.reports)

    @cached_property
    def calibration(self) -> Mapping[str, tuple[ScoreBin, ...]]:
        """By policy, the bins of the gates that predict repairs; none where scores are no probabilities."""
        found = {gate.policy: self.reports[gate.policy] for gate in self.gates if gate.predicts}
        return {name: wide_bins(one.scores, one.repairs, one.unit, self.settings) for name, one in found.items()}

    @property
    def rate(self) -> float | None:
        """The share that the primary gate acts on."""
        gate = self.roles.gates.get(self.roles.action)
        return None if gate is None else estimate(self.cell(gate.policy, "intervention_rate"))


def mean(values: np.ndarray, scale: float = 1.0) -> float | None:
    """Mean of values times `scale`; None where one is not known."""
    return None if np.isnan(values).any() else scale * float(values.mean())


def study_log(log: Log, asked: InterventionSetting) -> tuple[tuple[DatasetStudy, ...], tuple[str, ...]]:
    """Every data set among the examples to report on, each with gates of its own unless pooled; what is missing."""
    matching(log, asked.where, "where")
    chosen = choose_all(log, asked, datasets_of(log, asked.where))
    notes = _told_among({name: one.notes for name, one in chosen.items()})
    return tuple(_study_dataset(log, one, asked, name) for name, one in chosen.items()), notes


def _study_dataset(log: Log, chosen: ChosenRoles, asked: InterventionSetting, dataset: str) -> DatasetStudy:
    """One run on one data set, against the base attempt, with the diagnostics at the primary gate's rate.

    Curves and reports of gates are over the examples that it compares.
    """
    contents, where, settings = read_contents(log), of_dataset(asked.where, dataset), asked.settings
    policies, named = build_policies(chosen.roles, contents)
    rivals = [policy for policy in policies if policy.name in named.interventions]
    roles = with_equal_votes(log, chosen.roles, rivals, where, settings.seed)
    policies, named = build_policies(roles, contents)

    def replayed(beside: Sequence[Policy]) -> Result:
        file = PolicyFile((*policies, *beside), prices=asked.prices)
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
    compared = result.examples["example_id"]
    there = {policy.name for policy in result.policies}
    served = [gate for gate in roles.every_gate if gate.policy in there]
    study = DatasetStudy(
        result, dataset, asked, roles, named,
        curve=None if branches is None else curve(branches),
        band=None if branches is None else band_table(branches, settings),
        reports={
            gate.policy: transfer_report(log, gate.file, where=where, ids=ids, settings=settings) for gate in served
        },
        matched=tuple(policy.name for policy in beside),
        state=states(log, roles.base, compared),
        finalizers=finalizer_tokens(log, roles.base, roles.pools, compared),
        screening=chosen.screening,
    )  # fmt: skip
    return replace(study, recommendation=_recommendation(study), cases=tuple(_cases(log, study)))


def _recommendation(study: DatasetStudy) -> Recommendation:
    named = study.named
    parts = {
        "budgets": named.budgets.values(), "selective": [*named.selective.values(), *named.unfitted],
        "actions": named.always.values(), "votes": named.samples,
    }  # fmt: skip
    outcomes = {part: {name: study.values(name) for name in study.served(names)} for part, names in parts.items()}
    return weigh(
        (named.base, study.values(named.base)), **outcomes, margin=study.asked.margin, cluster=study.cluster,
        settings=study.asked.settings,
    )  # fmt: skip


def _cases(log: Log, study: DatasetStudy) -> Iterator[RepairExample]:
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


def _told_among(told: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Lines by data set, each once, with the names of those that it is told of where these are not all."""
    among = {line: [name for name, own in told.items() if line in own] for lines in told.values() for line in lines}
    return tuple(line if len(own) == len(told) else f"{line} ({', '.join(own)})" for line, own in among.items())
