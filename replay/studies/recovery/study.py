"""Think again or think longer (Dip, Zhou and Zhang, SeVRA): what is compared on each data set of a log, and its runs.

Pools, actions, gates and votes are chosen on examples held back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.recommend import attempts
from replay.analyses.recommend.recommend import Recommendation, decide_from_outcomes
from replay.analyses.recommend.repair_examples import RepairExample, repair_examples
from replay.analyses.recommend.rivals import (
    action_and_sample_oracles,
    affordable_vote,
    oracle_and_coin_at_rate,
    policies_by_action,
    vote_sizes_at_equal_cost,
)  # fmt: skip
from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where, in_dataset
from replay.data.contents import Contents, read_contents
from replay.data.prices import Prices
from replay.gatefit import gate_set
from replay.gatefit.data import check_gates, gate_setting, refuse_seen_questions, replay_plan_of_condition
from replay.gatefit.gate_set import CHEAP, FEATURE_RULES, RULE, TRUNCATION, GateFitting, NamedGate
from replay.gatefit.report import GateReport, transfer_report
from replay.kinds.act import Act
from replay.kinds.sample import Sample, first_attempt_policy
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gate_file import GateFile
from replay.policies.gates import Gate, Threshold
from replay.policies.toml import PolicyFile
from replay.runs.passes.coverage import CALLS_FAILED
from replay.runs.passes.example_set import resampling_units
from replay.runs.passes.gate_sweep import CURVE, GateBranches, band_table, replay_branches, threshold_means
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit.cells import cell, estimate, interval_cell, notes_without_metrics, warnings_of
from replay.studies.kit.published import PublishedDataset, published_name
from toolkit.log import Log
from toolkit.notes import Note
from toolkit.show import IntervalCell, code_of, remark
from toolkit.stats import Settings, interval, paired_interval, paired_reduction
from toolkit.stats.curves.calibration import ScoreBin, wide_bins


@dataclass(frozen=True)
class InterventionSetting:
    """The settings of the study. `on`, `tune` and `where` are disjoint SQL conditions on examples: to fit gates, to
    choose thresholds, to report.

    `gates` are given files, the first of each action acting for it; `pools` names a pool of revisions for each action
    with several. `pooled`: actions are chosen, and gates fitted, on all data sets together. `published`: the paper's
    data sets whose numbers stand beside.
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
    together: int = 1
    published: tuple[PublishedDataset, ...] = ()

    @property
    def rows(self) -> Choice:
        """The examples that gates are fitted on, that thresholds are chosen on, and that are reported."""
        return Choice(UsedRows(self.tune), UsedRows(self.where), fitted=UsedRows(self.on))


@dataclass(frozen=True)
class InterventionRoles:
    """The pools, actions and gates that are compared, by their role.

    `gates` act for each action, `rivals` stand beside them. `samples` maps pools of several samples to the sizes of
    votes over them, `limits` pools to the token limit of their first attempts, where it is logged. `screened_apart`:
    the actions were screened on other examples than those that are reported. `pools` maps actions and the pools that
    they revise to the pool of the revisions, None where there is one alone; what it lacks is not replayed.
    """

    base: str
    budgets: tuple[str, ...]
    action: str
    actions: tuple[str, ...]
    gates: Mapping[str, NamedGate]
    rivals: tuple[NamedGate, ...]
    samples: Mapping[str, tuple[int, ...]]
    limits: Mapping[str, int] = field(default_factory=dict)
    together: int = 1
    screened_apart: bool = True
    pools: Mapping[tuple[str, str], str | None] = field(default_factory=dict)

    @property
    def every_gate(self) -> tuple[NamedGate, ...]:
        """All gates, sorted by action: first the gate that acts for it, then its rivals."""
        gates = (*self.gates.values(), *self.rivals)
        return tuple(sorted(gates, key=lambda gate: self.actions.index(gate.action)))

    @property
    def primary_gate(self) -> GateFile | None:
        gate = self.gates.get(self.action)
        return None if gate is None else gate.file

    @property
    def ordered_actions(self) -> list[str]:
        return sorted(self.actions, key=lambda action: action != self.action)

    def cheap_gate(self, action: str) -> str:
        """Returns the policy of an action's gate on cheap features; empty where there is none."""
        policies = (gate.policy for gate in self.every_gate if gate.action == action and gate.part == CHEAP)
        return next(policies, "")

    @property
    def first_attempt(self) -> Sample:
        return first_attempt_policy(f"base: {self.base}", self.base)

    def action_policy(self, name: str, action: str, base: str) -> Act:
        """Returns the policy that revises a pool's first attempts by an action."""
        return Act(name=name, action=action, base=base, pool=self.pools[action, base])

    def always_policy(self, action: str) -> Act:
        """Returns the policy that revises every base attempt by an action."""
        return self.action_policy(f"always {action}", action, self.base)

    def gated_policy(self, name: str, gate: Gate, action: str = "") -> When:
        """Returns the policy that revises where a gate fires, by default by the primary action."""
        return When(name=name, base=self.first_attempt, gate=gate, then=self.always_policy(action or self.action))

    def gated(self, gate: NamedGate) -> When:
        return self.gated_policy(gate.policy, Threshold(file=gate.file), gate.action)

    def vote_policies(self, pool: str, sizes: Iterable[int]) -> list[Sample]:
        """Returns a majority vote over the samples of a pool for each size."""
        return [
            Sample(name=f"self-consistency@{size}: {pool}", pool=pool, max_traces=size, select="majority",
                   against=self.first_attempt.name, width=self.together, expected=True)
            for size in sizes
        ]  # fmt: skip

    def gate_branches(self, log: Log, where: str) -> GateBranches | None:
        """Gathers what the base and the primary action answer on the examples of a condition; None without a primary
        gate.
        """
        if self.primary_gate is None:
            return None
        at = gate_setting(log, self.action, self.base, self.pools[self.action, self.base])
        return replay_branches(
            replay_plan_of_condition(at, where), at.gated_policy(self.primary_gate).required_swept_gate
        )

    def oracle_and_coin(self, branches: GateBranches | None) -> tuple[Policy, ...]:
        """Returns the oracle and the coin that act at the primary gate's rate; empty without a primary gate."""
        if branches is None or self.primary_gate is None:
            return ()
        rate = float(branches.fires_at(self.primary_gate.threshold).mean())
        return oracle_and_coin_at_rate(self.first_attempt, self.always_policy(self.action), rate)

    def all_combinations(
        self, gate: Gate | None, pools: Mapping[str, str], there: Mapping[str, Sequence[str]], ruled: bool
    ) -> tuple[tuple[str, ...], list[Policy]]:
        """Returns all names of the policies of every initial budget, gate and action, and those policies that do not
        exist yet.

        `pools` are policies of first attempts by their pool, `there` those that revise the base attempt by action;
        where `ruled`, the one with `gate` and the primary action is among them.
        """
        names, policies = list(pools.values()), list[Policy]()
        for pool in pools:
            acts = {
                action: self.action_policy("act", action, pool)
                for action in sorted(a for a, b in self.pools if b == pool)
            }
            for action, more in policies_by_action(pool, acts, gate).items():
                if pool == self.base:
                    names += there[action]
                    more = [] if ruled and action == self.action else more[1:]
                names += [policy.name for policy in more]
                policies += more
        return tuple(names), policies

    def record(self) -> dict[str, Any]:
        return {
            "actions": list(self.actions),
            "revisions": {action: pool for (action, base), pool in self.pools.items() if base == self.base},
            "budgets": list(self.budgets),
            "votes": {pool: list(sizes) for pool, sizes in self.samples.items()},
        }


@dataclass(frozen=True, eq=False)
class _ChosenRoles:
    """The roles on one data set (None: on all together), with the screening of actions; `notes` say what is missing."""

    dataset: str | None
    roles: InterventionRoles
    screening: pl.DataFrame
    notes: tuple[str, ...]
    fitting: GateFitting


def _choose_all_roles(log: Log, setting: InterventionSetting, datasets: Sequence[str]) -> dict[str, _ChosenRoles]:
    """Chooses the roles of every data set, with the cheap gates of the others beside; one choice for all where
    `pooled`.
    """
    if setting.pooled:
        return dict.fromkeys(datasets, choose_roles(log, setting))
    choices = {name: choose_roles(log, setting, name) for name in datasets}
    return {
        name: _with_gates_of_others(log, setting, one, [choices[other] for other in choices if other != name])
        for name, one in choices.items()
    }


def _with_gates_of_others(
    log: Log, setting: InterventionSetting, here: _ChosenRoles, others: Sequence[_ChosenRoles]
) -> _ChosenRoles:
    notes: list[str] = []
    more = list[NamedGate]()
    for there in others:
        fitting = replace(there.fitting, notes=notes)
        more += gate_set.gates_of_other_data_set(fitting, here.roles.every_gate, there.roles.every_gate)
    if here.dataset is not None:
        refuse_seen_questions(log, [gate.file for gate in more], in_dataset(setting.where, here.dataset))
    roles = replace(here.roles, rivals=(*here.roles.rivals, *more))
    return replace(here, roles=roles, notes=(*here.notes, *notes))


def choose_roles(log: Log, setting: InterventionSetting, dataset: str | None = None) -> _ChosenRoles:
    """Chooses pools and actions, screens the actions and fits the gates, on one data set's examples or on all."""
    refuse_seen_questions(log, setting.gates, setting.where, frozen=True)
    contents = read_contents(log)
    check_gates(setting.gates, contents, setting.base, setting.action)
    named, action = setting.base, setting.action
    for gate in setting.gates[:1]:
        named, action = named or gate.base, action or gate.action
    base, actions = attempts.base_and_actions(log, contents, named, setting.action)
    left_out = contents.opaque | contents.partly_opaque | contents.ordered_pools
    samples = {p: (n,) for p, n in contents.sizes.items() if n > 2 and p not in left_out}
    budgets, note = attempts.budget_pools(log, contents, base, setting.budgets, samples)
    gate_scopes = [(one.action, one.base, one.pool) for one in setting.gates]
    pools = attempts.revision_pools(contents, base, setting.pools, gate_scopes)
    scopes = gate_set.fitting_scopes(log, setting.rows, dataset)
    where = setting.where if dataset is None else in_dataset(setting.where, dataset)
    known = action is not None or len(actions) == 1
    screening, refused = attempts.screen_actions_on_conditions(
        log, base, pools, (str(scopes[0][1].fitted_on_condition), where), known, setting.settings
    )
    action = action or attempts.best_action(screening.filter(pl.col("action").is_in(actions)))
    fitting = GateFitting(log, base, pools, scopes, [*refused, *note])
    cheap = gate_set.gates_on_cheap_features(fitting, actions)
    gates, beside = gate_set.load_given_gates(setting.gates, cheap)
    rivals = [*beside, *gate_set.rival_gates(fitting, action, actions, contents, FEATURE_RULES)]
    refuse_seen_questions(
        log, [gate.file for gate in (*cheap.values(), *rivals) if gate.file not in setting.gates], where
    )
    roles = InterventionRoles(
        base, budgets, action, actions, gates, tuple(rivals), samples, attempts.token_limits(log),
        together=setting.together, screened_apart=not refused, pools=pools,
    )  # fmt: skip
    unserved = gate_set.missing_rules(contents, FEATURE_RULES, action, action in gates)
    return _ChosenRoles(dataset, roles, screening, (*fitting.notes, *unserved), fitting)


def _with_equal_votes(
    log: Log, roles: InterventionRoles, rivals: Sequence[Policy], where: str, seed: int
) -> InterventionRoles:
    """Adds, for every rival, the largest vote whose mean tokens do not exceed the rival's.

    One sample is a vote of 1, which is always there. Beside the largest vote only those of odd sizes are candidates: in
    the mean over all orders a vote of 2 is right as often as one of 1.
    """
    voters = {
        pool: roles.vote_policies(pool, sorted({*range(1, most + 1, 2), most}))
        for pool, (most,) in roles.samples.items()
    }
    return replace(roles, samples=vote_sizes_at_equal_cost(log, roles.first_attempt, rivals, voters, where, seed))


def choice_text(setting: InterventionSetting, roles: InterventionRoles) -> str:
    """Says how the primary action was chosen."""
    if setting.action is not None:
        return "named"
    if setting.gates:
        return "that of the first gate file"
    if len(roles.actions) == 1:
        return "the only one"
    return "the most accurate one in table `screening`, which is of other examples than those reported"


def caveat_lines(roles: InterventionRoles, rules: bool) -> Iterator[str]:
    """Yields the reasons why a verdict may be too good: what was chosen on the very examples that it is reported on.

    `rules`: whether rules without a fit are compared in place of a gate.
    """
    ungated = rules and roles.action not in roles.gates
    if not roles.screened_apart:
        text = "the actions were screened on the reported examples, because those of `on` could not be used"
        yield remark("screened_on_reported", text)
    if ungated:
        text = (
            f"no gate for `{roles.action}` was fitted and tuned on other examples, so rules without a fit are "
            "compared, on the reported examples alone"
        )
        yield remark("rules_without_fit", text)
    if ungated or not roles.screened_apart:
        yield "before relying on the verdict, keep more examples for `on` and `tune`, and run the study again"


@dataclass(frozen=True)
class PolicyNames:
    """The names of the policies by their role."""

    base: str
    budgets: Mapping[str, str]  # pool -> policy
    always: Mapping[str, str]  # action -> policy
    selective: Mapping[str, str]
    rules: Mapping[str, str] = field(default_factory=dict)  # routing rules of the primary action -> which rule each is
    oracles: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # -> which oracle, the pool of its samples
    samples: Mapping[str, int] = field(default_factory=dict)  # policy -> how many votes
    primary: str = ""  # the primary selective policy
    rivals: tuple[str, ...] = ()  # of gates beside those that act
    joint: tuple[str, ...] = ()  # budget x gate x action

    @property
    def policies_not_fitted(self) -> list[str]:
        """The policies of rules without a fit, which the recommendation compares."""
        return [name for name, rule in self.rules.items() if rule == TRUNCATION]

    @property
    def interventions(self) -> tuple[str, ...]:
        """The policies that revise; each could have spent its tokens on votes instead."""
        return (*self.always.values(), *self.selective.values(), *self.policies_not_fitted, *self.rivals)


def _build_policies(roles: InterventionRoles, contents: Contents) -> tuple[tuple[Policy, ...], PolicyNames]:
    """Returns the policies and their names, without the matched ones, which need the primary gate's rate."""
    base = roles.first_attempt
    budgets = {pool: first_attempt_policy(f"budget: {pool}", pool, base.name) for pool in roles.budgets}
    always = {action: roles.always_policy(action) for action in roles.actions}
    selective = {action: roles.gated(roles.gates[action]) for action in roles.actions if action in roles.gates}
    acting = {action: [one[action] for one in (always, selective) if action in one] for action in roles.actions}
    unfitted = gate_set.rule_gates(contents, roles.primary_gate)
    rules = {rule: roles.gated_policy(gate_set.rule_label(rule), one) for rule, one in unfitted.items()}
    headroom = action_and_sample_oracles(base, roles.actions, roles.samples)
    voters = [vote for pool, sizes in roles.samples.items() for vote in roles.vote_policies(pool, sizes)]
    longer_names = {pool: policy.name for pool, policy in budgets.items()}
    there = {action: [policy.name for policy in policies] for action, policies in acting.items()}
    there[roles.action] += [rules[TRUNCATION].name] if TRUNCATION in rules else []
    gate = gate_set.truncation_gate() if "finish_reason" in contents.trace_columns else None
    joint, more = roles.all_combinations(gate, {roles.base: base.name, **longer_names}, there, TRUNCATION in rules)
    names = PolicyNames(
        base=base.name,
        budgets=longer_names,
        always={action: policy.name for action, policy in always.items()},
        selective={action: policy.name for action, policy in selective.items()},
        rules={policy.name: rule for rule, policy in rules.items()}
        | {gate.policy: gate.label for gate in roles.rivals if gate.part == RULE and gate.action == roles.action},
        oracles={oracle.name: which for which, oracle in headroom.items()},
        samples={voter.name: voter.max_traces for voter in voters},
        primary=selective[roles.action].name if roles.action in selective else "",
        rivals=tuple(gate.policy for gate in roles.rivals),
        joint=joint,
    )
    every = [policy for policies in acting.values() for policy in policies]
    beside = [*map(roles.gated, roles.rivals), *rules.values(), *headroom.values()]
    return (base, *budgets.values(), *every, *beside, *voters, *more), names


VALUES = (*CURVE, "finalizers", "truncated")
"""Columns of outcomes that are read."""


UNSHOWN = ("cost", "eur_per_1000", "reduction:truncated")
"""Metrics of a run that no table of the study shows, so that notes on them are left out."""


@dataclass(frozen=True)
class _MissingColumn:
    """A column that traces of a log may lack, the metric that depends on it, and the table columns that are then
    dashes.
    """

    what: str
    metric: str
    columns: frozenset[str]

    def policies_without_metric(self, result: Result) -> list[str]:
        """Returns the policies for which the metric is unknown."""
        known = result.summary.filter((pl.col("metric") == self.metric) & pl.col("estimate").is_not_null())["policy"]
        return [policy.name for policy in result.policies if policy.name not in set(known)]


LACKING = {
    "tokens": _MissingColumn("tokens", "total_tokens", frozenset({
        "action_tokens", "total_tokens", "base_tokens", "finalizer_tokens", "relative", "regret", "best", "on_front",
        "action_tokens_saved", "total_tokens_saved", "action_tokens_minus_cheap", "difference", "per_1000_priced",
    })),
    "seconds": _MissingColumn("seconds", "latency_s", frozenset({"mean", "p50", "p95", "p99"})),
    "finalizers": _MissingColumn(
        "uses of a finalizer", "finalizers", frozenset({"calls", "finalizers", "calls_avoided", "finalizer_rate"})
    ),
    "truncated": _MissingColumn("finish reasons", "truncated", frozenset({"truncated", "truncation_rate"})),
}  # fmt: skip
"""Columns that traces may lack, by the numbers that follow from them."""


@dataclass(frozen=True, eq=False)
class DatasetStudy:
    """The run on one data set with its gates: the source of all of its tables and figures.

    `curve` and `band` are those of the primary gate, None where there is none, `reports` those of the gates by the
    policy that acts by each; `matched` names the policies that act at the primary gate's rate, the oracle first.
    `published`: the paper's data set whose numbers stand beside.
    """

    result: Result
    dataset: str
    setting: InterventionSetting
    roles: InterventionRoles
    names: PolicyNames
    curve: pl.DataFrame | None
    band: pl.DataFrame | None
    reports: Mapping[str, GateReport]
    matched: tuple[str, ...]
    state: Mapping[str, np.ndarray]  # completed and truncated: bool (N,), in the order of the outcomes
    finalizers: Mapping[str, np.ndarray]  # finalizer tokens (N,) of the base pool and of each action, where logged
    screening: pl.DataFrame
    cases: tuple[RepairExample, ...] = ()
    published: str | None = None

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the run on metrics that the study shows."""
        return notes_without_metrics(self.result, UNSHOWN)

    @cached_property
    def recommendation(self) -> Recommendation:
        """The recommendation whether to think again or longer, from the policies' outcomes on the compared examples."""
        named = self.names
        parts = {
            "budgets": named.budgets.values(), "selective": [*named.selective.values(), *named.policies_not_fitted],
            "actions": named.always.values(), "votes": named.samples,
        }  # fmt: skip
        outcomes = {part: {name: self.values(name) for name in self.replayed(names)} for part, names in parts.items()}
        base = named.base, self.values(named.base)
        cluster, margin = self.cluster, self.setting.margin
        return decide_from_outcomes(
            base, **outcomes, margin=margin, cluster=cluster, strata=None, settings=self.settings
        )

    def warnings(self, alone: bool) -> tuple[str, ...]:
        """Returns warnings and notes on failed calls, each after the data set's name unless it is `alone`."""
        return warnings_of(self.result, (CALLS_FAILED,), "" if alone else f"{self.dataset}: ")

    def caveats(self) -> Iterator[str]:
        """Reasons why the verdict may be too good."""
        return caveat_lines(self.roles, bool(self.replayed(self.names.policies_not_fitted)))

    @property
    def simulated(self) -> bool:
        return self.result.simulated

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(policy.name for policy in self.result.policies)

    def replayed(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.policies]

    @property
    def settings(self) -> Settings:
        return self.setting.settings

    @cached_property
    def cluster(self) -> np.ndarray:
        """The resampling unit of each example (N,), in the order of the outcomes."""
        return resampling_units(self.result.examples).to_numpy()

    def values(self, policy: str) -> dict[str, np.ndarray]:
        """Returns the columns of a policy's outcomes, (N,) each, by example_id; NaN where unknown."""
        if policy not in self._cache:
            frame = self.result.outcomes.filter(pl.col("policy") == policy).select(VALUES).collect()
            self._cache[policy] = {c: frame[c].fill_null(np.nan).to_numpy() for c in VALUES}
        return self._cache[policy]

    @cached_property
    def _cache(self) -> dict[str, dict[str, np.ndarray]]:
        return {}

    def mean(self, policy: str, column: str, scale: float = 1.0) -> float | None:
        """Returns a policy's mean of a column; None where a value is unknown."""
        return mean(self.values(policy)[column], scale)

    def mean_on(self, policy: str, column: str, on: np.ndarray) -> IntervalCell | None:
        """Returns the mean of a column over the examples where the mask `on` (N,) is true, with its interval."""
        limits = interval(self.values(policy)[column][on], cluster=self.cluster[on], settings=self.settings)
        return interval_cell(limits)

    def difference(
        self, first: str, second: str, column: str = "correct", scale: float = 1.0
    ) -> tuple[IntervalCell | None, float | None]:
        """Returns the difference of two policies' means times `scale` with its interval, and its p-value."""
        one, two = self.values(first)[column], self.values(second)[column]
        difference = paired_interval(one, two, cluster=self.cluster, settings=self.settings)
        return interval_cell(difference, scale), difference.p_value

    def reduction(self, first: str, second: str, column: str) -> IntervalCell | None:
        """Returns by how many percent the first policy's mean is below the second's; None where a value is unknown."""
        one, two = self.values(first)[column], self.values(second)[column]
        if np.isnan(one).any() or np.isnan(two).any():
            return None
        return interval_cell(paired_reduction(one, two, column, cluster=self.cluster, settings=self.settings), 100)

    def equal_cost_votes(self, interventions: Iterable[str], votes: Iterable[str]) -> dict[str, str]:
        """Maps each intervention to the largest vote that costs no more tokens."""
        paid, spent = (
            {one: float(self.values(one)["total_tokens"].mean()) for one in self.replayed(names)}
            for names in (interventions, votes)
        )
        return {one: vote for one, most in paid.items() if (vote := affordable_vote(spent, most)) is not None}

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> IntervalCell | None:
        return cell(self.result.statistics, policy, metric, scale)

    @property
    def gates(self) -> tuple[NamedGate, ...]:
        """The gates that could be replayed, sorted by action."""
        return tuple(gate for gate in self.roles.every_gate if gate.policy in self.reports)

    @cached_property
    def calibration(self) -> Mapping[str, tuple[ScoreBin, ...]]:
        """Reliability bins, by policy, of the gates that predict repairs; absent where scores are no probabilities."""
        reports = {gate.policy: self.reports[gate.policy] for gate in self.gates if gate.predicts_probability}
        return {name: wide_bins(one.scores, one.repairs, one.unit, self.settings) for name, one in reports.items()}

    @property
    def acting_rate(self) -> float | None:
        gate = self.roles.gates.get(self.roles.action)
        return None if gate is None else estimate(self.cell(gate.policy, "intervention_rate"))


def mean(values: np.ndarray, scale: float = 1.0) -> float | None:
    """Returns the mean of values times `scale`; None where a value is unknown."""
    return None if np.isnan(values).any() else scale * float(values.mean())


def study_log(log: Log, setting: InterventionSetting) -> tuple[tuple[DatasetStudy, ...], tuple[str, ...]]:
    """Studies every data set of the reported examples, each with its own gates unless `pooled`; returns the results
    and notes on what is missing.
    """
    ids_where(log, setting.where, "where")
    chosen = _choose_all_roles(log, setting, gate_set.dataset_names(log, setting.where))
    notes = _shared_notes({name: one.notes for name, one in chosen.items()})
    alone = len(chosen) == 1
    studies = ((name, _study_dataset(log, one, setting, name)) for name, one in chosen.items())
    return tuple(replace(one, published=published_name(setting.published, name, alone)) for name, one in studies), notes


def _study_dataset(log: Log, chosen: _ChosenRoles, setting: InterventionSetting, dataset: str) -> DatasetStudy:
    """Replays all policies on one data set against the base attempt, with the diagnostics at the primary gate's rate.

    Curves and reports of gates are over the examples that it compares.
    """
    contents, where, settings = read_contents(log), in_dataset(setting.where, dataset), setting.settings
    policies, names = _build_policies(chosen.roles, contents)
    rivals = [policy for policy in policies if policy.name in names.interventions]
    roles = _with_equal_votes(log, chosen.roles, rivals, where, settings.seed)
    policies, names = _build_policies(roles, contents)

    def replay_with(beside: Sequence[Policy]) -> Result:
        file = PolicyFile((*policies, *beside), prices=setting.prices)
        return run(log, file, baseline=roles.first_attempt.name, where=where, settings=settings)

    branches = roles.gate_branches(log, where)
    beside = roles.oracle_and_coin(branches)
    result = replay_with(beside)
    ids = result.examples["example_id"]
    if branches is not None:  # the coin and the oracle act at the rate of those compared
        branches = branches.with_ids(ids)
        again = roles.oracle_and_coin(branches)
        if again != beside:
            beside, result = again, replay_with(again)
    compared = result.examples["example_id"]
    there = {policy.name for policy in result.policies}
    gates = [gate for gate in roles.every_gate if gate.policy in there]
    study = DatasetStudy(
        result, dataset, setting, roles, names,
        curve=None if branches is None else threshold_means(branches),
        band=None if branches is None else band_table(branches, settings),
        reports={
            gate.policy: transfer_report(log, gate.file, where=where, ids=ids, settings=settings) for gate in gates
        },
        matched=tuple(policy.name for policy in beside),
        state=attempts.completed_and_truncated_masks(log, roles.base, compared),
        finalizers=attempts.finalizer_tokens(log, roles.base, roles.pools, compared),
        screening=chosen.screening,
    )  # fmt: skip
    return replace(study, cases=tuple(_example_fixes_and_flips(log, study)))


def _example_fixes_and_flips(log: Log, study: DatasetStudy) -> Iterator[RepairExample]:
    """Yields examples that each action fixes and flips, for the primary action first; says whether its gate acts on
    them.

    Without a gate the action is taken everywhere.
    """
    roles, ids = study.roles, study.result.examples["example_id"].to_list()
    for action in roles.ordered_actions:
        for always in study.replayed([roles.always_policy(action).name]):
            gates = [roles.gates[action].policy] if action in roles.gates else []
            fires, outcomes = study.values([*study.replayed(gates), always][0])["intervened"] > 0, study.values(always)
            pool = roles.pools[action, roles.base]
            yield from repair_examples(log, roles.base, action, pool, ids, outcomes["fix"], outcomes["flip"], fires)


def _shared_notes(notes: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Merges the notes of data sets: each line once, with the names of its data sets unless it holds for all."""
    among = {line: [one for one, group in notes.items() if line in group] for lines in notes.values() for line in lines}
    return tuple(
        line if len(group) == len(notes) else remark(code_of(line), f"{line} ({', '.join(group)})")
        for line, group in among.items()
    )
