"""What is compared where attempts can be revised: pools, actions, gates and votes, chosen on examples held back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from replay.analyses.recommend.attempts import (
    base_and_actions,
    best_action,
    budget_pools,
    revision_pools,
    screened_on,
    token_limits,
)
from replay.analyses.recommend.rivals import crossed, equal_sizes, matched, oracles
from replay.data.choice import Choice, Rows
from replay.data.conditions import of_dataset
from replay.data.contents import Contents, read_contents
from replay.data.prices import Prices
from replay.gatefit.checks import check_gates, refuse_seen
from replay.gatefit.data import plan_of, setting
from replay.gatefit.gate_set import (
    CHEAP,
    FEATURE_RULES,
    RULE,
    TRUNCATION,
    GateFitting,
    NamedGate,
    cheap_gates,
    cut_off,
    given_gates,
    missing_rules,
    rival_gates,
    rule_gates,
    scopes_of,
    shown,
    transferred,
)
from replay.kinds.act import Act
from replay.kinds.sample import Sample, attempt
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gate_file import GateFile
from replay.policies.gates import Gate, Threshold
from replay.runs.passes.gate_sweep import Branches, gather
from toolkit.log import Log
from toolkit.stats import Settings


@dataclass(frozen=True)
class InterventionSetting:
    """What a comparison of interventions is asked for: `on`, `tune`, `where` are disjoint SQL conditions on examples.

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
    together: int = 1

    @property
    def rows(self) -> Choice:
        """The examples that gates are fitted on, that thresholds are chosen on, and that are reported."""
        return Choice(Rows(self.tune), Rows(self.where), fitted=Rows(self.on))


@dataclass(frozen=True)
class InterventionRoles:
    """The pools, actions and gates that are compared, by the part that they play.

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
        """The gates that act, each with those beside it."""
        found = (*self.gates.values(), *self.rivals)
        return tuple(sorted(found, key=lambda gate: self.actions.index(gate.action)))

    @property
    def primary(self) -> GateFile | None:
        """The gate of the primary action."""
        gate = self.gates.get(self.action)
        return None if gate is None else gate.file

    @property
    def primary_first(self) -> list[str]:
        """The actions, the primary one first."""
        return sorted(self.actions, key=lambda action: action != self.action)

    def cheap(self, action: str) -> str:
        """The policy of an action's own gate on cheap features; empty where there is none."""
        own = (gate.policy for gate in self.every_gate if gate.action == action and gate.part == CHEAP)
        return next(own, "")

    @property
    def first(self) -> Sample:
        return attempt(f"base: {self.base}", self.base)

    def act(self, name: str, action: str, base: str) -> Act:
        """Revisions of a pool's first attempts by an action."""
        return Act(name=name, action=action, base=base, pool=self.pools[action, base])

    def always(self, action: str) -> Act:
        """Revisions of every base attempt by an action."""
        return self.act(f"always {action}", action, self.base)

    def when(self, name: str, gate: Gate, action: str = "") -> When:
        """Revisions where a gate fires, by default by the primary action."""
        return When(name=name, base=self.first, gate=gate, then=self.always(action or self.action))

    def gated(self, gate: NamedGate) -> When:
        """The policy of a gate."""
        return self.when(gate.policy, Threshold(file=gate.file), gate.action)

    def votes(self, pool: str, sizes: Iterable[int]) -> list[Sample]:
        """Votes over the samples of a pool, by size."""
        return [
            Sample(name=f"self-consistency@{size}: {pool}", pool=pool, max_traces=size, select="majority",
                   against=self.first.name, width=self.together)
            for size in sizes
        ]  # fmt: skip

    def branches(self, log: Log, where: str) -> Branches | None:
        """Both branches of the primary gate on the examples of a condition; None where there is no such gate."""
        if self.primary is None:
            return None
        at = setting(log, self.action, self.base, self.pools[self.action, self.base])
        return gather(plan_of(at, where), at.when(self.primary).one_gate)

    def matched(self, branches: Branches | None) -> tuple[Policy, ...]:
        """The oracle and the coin at the primary gate's rate; none where there is no such gate."""
        if branches is None or self.primary is None:
            return ()
        rate = float(branches.fires(self.primary.threshold).mean())
        return matched(self.first, self.always(self.action), rate)

    def crossed(
        self, gate: Gate | None, pools: Mapping[str, str], there: Mapping[str, Sequence[str]], ruled: bool
    ) -> tuple[tuple[str, ...], list[Policy]]:
        """Initial budget x gate x action: names of the policies, and those of them that are not there yet.

        `pools` are policies of first attempts by their pool, `there` those that revise the base attempt by action;
        where `ruled`, the one with `gate` and the primary action is among them.
        """
        named, made = list(pools.values()), list[Policy]()
        for pool in pools:
            acts = {action: self.act("act", action, pool) for action in sorted(a for a, b in self.pools if b == pool)}
            for action, more in crossed(pool, acts, gate).items():
                if pool == self.base:
                    named += there[action]
                    more = [] if ruled and action == self.action else more[1:]
                named += [policy.name for policy in more]
                made += more
        return tuple(named), made

    def record(self) -> dict[str, Any]:
        """The pools and actions as plain data."""
        return {
            "actions": list(self.actions),
            "revisions": {action: pool for (action, base), pool in self.pools.items() if base == self.base},
            "budgets": list(self.budgets),
            "votes": {pool: list(sizes) for pool, sizes in self.samples.items()},
        }


@dataclass(frozen=True, eq=False)
class ChosenRoles:
    """What is compared on a data set (None: on all of them), with the screening; `notes` say what is missing."""

    dataset: str | None
    roles: InterventionRoles
    screening: pl.DataFrame
    notes: tuple[str, ...]
    fitting: GateFitting


def choose_all(log: Log, asked: InterventionSetting, datasets: Sequence[str]) -> dict[str, ChosenRoles]:
    """The choice of every data set: its own, with the cheap gates of the others, or one for all where `pooled`."""
    if asked.pooled:
        return dict.fromkeys(datasets, choose(log, asked))
    own = {name: choose(log, asked, name) for name in datasets}
    return {
        name: _with_others(log, asked, one, [own[other] for other in own if other != name]) for name, one in own.items()
    }


def _with_others(log: Log, asked: InterventionSetting, here: ChosenRoles, others: Sequence[ChosenRoles]) -> ChosenRoles:
    notes: list[str] = []
    more = [
        gate
        for there in others
        for gate in transferred(replace(there.fitting, notes=notes), here.roles.every_gate, there.roles.every_gate)
    ]
    if here.dataset is not None:
        refuse_seen(log, [gate.file for gate in more], of_dataset(asked.where, here.dataset))
    roles = replace(here.roles, rivals=(*here.roles.rivals, *more))
    return replace(here, roles=roles, notes=(*here.notes, *notes))


def choose(log: Log, asked: InterventionSetting, dataset: str | None = None) -> ChosenRoles:
    """Choose pools and actions, screen the actions, fit the gates: on a data set's own examples, or on all."""
    refuse_seen(log, asked.gates, asked.where, frozen=True)
    contents = read_contents(log)
    check_gates(asked.gates, contents, asked.base, asked.action)
    of_gates = asked.gates[0] if asked.gates else None
    base, actions = base_and_actions(log, contents, asked.base or (of_gates.base if of_gates else None), asked.action)
    left_out = contents.opaque | contents.partly_opaque | contents.whole
    samples = {p: (n,) for p, n in contents.sizes.items() if n > 2 and p not in left_out}
    budgets, note = budget_pools(log, contents, base, asked.budgets, samples)
    pools = revision_pools(contents, base, asked.pools, [(one.action, one.base, one.pool) for one in asked.gates])
    scopes = scopes_of(log, asked.rows, dataset)
    where = asked.where if dataset is None else of_dataset(asked.where, dataset)
    action = asked.action or (of_gates.action if of_gates else None)
    known = action is not None or len(actions) == 1
    screened, refused = screened_on(log, base, pools, (str(scopes[0][1].on), where), known, asked.settings)
    action = action or best_action(screened.filter(pl.col("action").is_in(actions)))
    fitting = GateFitting(log, base, pools, scopes, [*refused, *note])
    cheap = cheap_gates(fitting, actions)
    gates, beside = given_gates(asked.gates, cheap)
    rivals = [*beside, *rival_gates(fitting, action, actions, contents, FEATURE_RULES)]
    refuse_seen(log, [gate.file for gate in (*cheap.values(), *rivals) if gate.file not in asked.gates], where)
    roles = InterventionRoles(
        base, budgets, action, actions, gates, tuple(rivals), samples, token_limits(log),
        together=asked.together, screened_apart=not refused, pools=pools,
    )  # fmt: skip
    unserved = missing_rules(contents, FEATURE_RULES, action, action in gates)
    return ChosenRoles(dataset, roles, screened, (*fitting.notes, *unserved), fitting)


def with_equal_votes(
    log: Log, roles: InterventionRoles, rivals: Sequence[Policy], where: str, seed: int
) -> InterventionRoles:
    """The roles with, for every rival, the largest vote whose mean tokens are not more than its own.

    One sample is a vote of 1, which is always there.
    """
    voters = {pool: roles.votes(pool, range(1, most + 1)) for pool, (most,) in roles.samples.items()}
    return replace(roles, samples=equal_sizes(log, roles.first, rivals, voters, where, seed))


def how_chosen(asked: InterventionSetting, roles: InterventionRoles) -> str:
    """How the primary action was chosen."""
    if asked.action is not None:
        return "named"
    if asked.gates:
        return "that of the first gate file"
    if len(roles.actions) == 1:
        return "the only one"
    return "the most accurate one in table `screening`, which is of other examples than those reported"


def caveats(roles: InterventionRoles, rules: bool) -> Iterator[str]:
    """Why a verdict may be too good: what was chosen on the very examples that it is reported on.

    `rules`: whether rules without a fit are compared in place of a gate.
    """
    ungated = rules and roles.action not in roles.gates
    if not roles.screened_apart:
        yield "the actions were screened on the reported examples, because those of `on` could not be used"
    if ungated:
        yield (
            f"no gate for `{roles.action}` was fitted and tuned on other examples, so rules without a fit are "
            "compared, on the reported examples alone"
        )
    if ungated or not roles.screened_apart:
        yield "before relying on the verdict, hold more examples back for `on` and `tune` and ask again"


@dataclass(frozen=True)
class PolicyNames:
    """Names of the policies by the part that they play."""

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
    def unfitted(self) -> list[str]:
        """Policies of rules without a fit that the recommendation compares."""
        return [name for name, rule in self.rules.items() if rule == TRUNCATION]

    @property
    def interventions(self) -> tuple[str, ...]:
        """Policies that revise, each of which could have bought votes with its tokens."""
        return (*self.always.values(), *self.selective.values(), *self.unfitted, *self.rivals)


def build_policies(roles: InterventionRoles, contents: Contents) -> tuple[tuple[Policy, ...], PolicyNames]:
    """Every policy but the matched ones, which need the primary gate's rate, and their names."""
    base = roles.first
    budgets = {pool: attempt(f"budget: {pool}", pool, base.name) for pool in roles.budgets}
    always = {action: roles.always(action) for action in roles.actions}
    selective = {action: roles.gated(roles.gates[action]) for action in roles.actions if action in roles.gates}
    acting = {action: [one[action] for one in (always, selective) if action in one] for action in roles.actions}
    rules = {rule: roles.when(shown(rule), one) for rule, one in rule_gates(contents, roles.primary).items()}
    headroom = oracles(base, roles.actions, roles.samples)
    voters = [vote for pool, sizes in roles.samples.items() for vote in roles.votes(pool, sizes)]
    longer = {pool: policy.name for pool, policy in budgets.items()}
    there = {action: [policy.name for policy in found] for action, found in acting.items()}
    there[roles.action] += [rules[TRUNCATION].name] if TRUNCATION in rules else []
    gate = cut_off() if "finish_reason" in contents.trace_columns else None
    joint, more = roles.crossed(gate, {roles.base: base.name, **longer}, there, TRUNCATION in rules)
    named = PolicyNames(
        base=base.name,
        budgets=longer,
        always={action: policy.name for action, policy in always.items()},
        selective={action: policy.name for action, policy in selective.items()},
        rules={policy.name: rule for rule, policy in rules.items()}
        | {gate.policy: gate.shown for gate in roles.rivals if gate.part == RULE and gate.action == roles.action},
        oracles={oracle.name: which for which, oracle in headroom.items()},
        samples={voter.name: voter.max_traces for voter in voters},
        primary=selective[roles.action].name if roles.action in selective else "",
        rivals=tuple(gate.policy for gate in roles.rivals),
        joint=joint,
    )
    every = [policy for found in acting.values() for policy in found]
    beside = [*map(roles.gated, roles.rivals), *rules.values(), *headroom.values()]
    return (base, *budgets.values(), *every, *beside, *voters, *more), named
