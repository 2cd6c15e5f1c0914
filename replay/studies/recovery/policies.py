"""The policies of the study on thinking again: budgets, actions, gates, the plain rules, and diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from replay.analyses.rivals import crossed, oracles
from replay.data.contents import Contents
from replay.gatefit.gate_set import CHEAP, RULE, NamedGate
from replay.gatefit.rules import TRUNCATION, cut_off, rule_gates, shown
from replay.kinds.act import Act
from replay.kinds.sample import Sample, attempt
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gates import Gate, Threshold

HEURISTICS = {"difficulty": "difficulty", "verification need": "verification_need"}
"""Routing rules on one feature, where the log has it."""


@dataclass(frozen=True)
class Roles:
    """The pools, actions and gates that the study compares, by the part that they play.

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

    def cheap(self, action: str) -> str:
        """The policy of an action's own gate on cheap features; empty where there is none."""
        own = (gate.policy for gate in self.every_gate if gate.action == action and gate.part == CHEAP)
        return next(own, "")

    @property
    def first(self) -> Sample:
        """The base attempt."""
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


@dataclass(frozen=True)
class PolicyNames:
    """Names of the policies by the part that they play."""

    base: str
    budgets: Mapping[str, str]  # pool -> policy
    always: Mapping[str, str]  # action -> policy
    selective: Mapping[str, str]
    rules: Mapping[str, str] = field(default_factory=dict)  # routing rules of the primary action -> which rule each is
    oracles: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # -> which oracle, the pool of its samples
    matched: tuple[str, ...] = ()  # the oracle and the coin at the primary gate's rate
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


def build_policies(roles: Roles, contents: Contents) -> tuple[tuple[Policy, ...], PolicyNames]:
    """Every policy but the matched ones, which need the primary gate's rate, and their names."""
    base = roles.first
    budgets = {pool: attempt(f"budget: {pool}", pool, base.name) for pool in roles.budgets}
    always = {action: roles.always(action) for action in roles.actions}
    selective = {action: gated(roles, roles.gates[action]) for action in roles.actions if action in roles.gates}
    gate = roles.gates.get(roles.action)
    served = rule_gates(contents, None if gate is None else gate.file)
    rules = {rule: roles.when(shown(rule), one) for rule, one in served.items()}
    headroom = oracles(base, roles.actions, roles.samples)
    voters = [vote for pool, sizes in roles.samples.items() for vote in votes(roles, pool, sizes)]
    acts = {action: policy.name for action, policy in always.items()}
    gates = {action: policy.name for action, policy in selective.items()}
    longer = {pool: policy.name for pool, policy in budgets.items()}
    cut = rules[TRUNCATION].name if TRUNCATION in rules else ""
    joint, more = _joint(roles, contents, {roles.base: base.name, **longer}, acts, gates, cut)
    named = PolicyNames(
        base=base.name,
        budgets=longer,
        always=acts,
        selective=gates,
        rules={policy.name: rule for rule, policy in rules.items()}
        | {gate.policy: gate.shown for gate in roles.rivals if gate.part == RULE and gate.action == roles.action},
        oracles={oracle.name: which for which, oracle in headroom.items()},
        samples={voter.name: voter.max_traces for voter in voters},
        primary=gates.get(roles.action, ""),
        rivals=tuple(gate.policy for gate in roles.rivals),
        joint=joint,
    )
    acting = [one[action] for action in roles.actions for one in (always, selective) if action in one]
    beside = [*(gated(roles, one) for one in roles.rivals), *rules.values(), *headroom.values()]
    return (base, *budgets.values(), *acting, *beside, *voters, *more), named


def gated(roles: Roles, gate: NamedGate) -> When:
    """The policy of a gate."""
    return roles.when(gate.policy, Threshold(file=gate.file), gate.action)


def votes(roles: Roles, pool: str, sizes: Iterable[int]) -> list[Sample]:
    """Votes over the samples of a pool, by size."""
    return [
        Sample(name=f"self-consistency@{size}: {pool}", pool=pool, max_traces=size, select="majority",
               against=roles.first.name, width=roles.together)
        for size in sizes
    ]  # fmt: skip


def _joint(
    roles: Roles, contents: Contents, pools: Mapping[str, str], always: Mapping[str, str],
    selective: Mapping[str, str], cut_off_alone: str,
) -> tuple[tuple[str, ...], list[Policy]]:  # fmt: skip
    """Initial budget x gate x action: names of the policies, and those of them that are not there yet.

    `cut_off_alone` is the primary action where the base attempt was cut off; empty where it is not there.
    """
    named, made = list(pools.values()), list[Policy]()
    for pool in pools:
        acts = {action: roles.act("act", action, pool) for action in sorted(a for a, b in roles.pools if b == pool)}
        gate = cut_off() if "finish_reason" in contents.trace_columns else None
        for action, (act, *cut) in crossed(pool, acts, gate).items():
            known = pool == roles.base
            there = [one for one in (always[action], selective.get(action, "")) if one] if known else []
            if known and action == roles.action and cut_off_alone:
                there, cut = [*there, cut_off_alone], []
            more = cut if known else [act, *cut]
            named += [*there, *(policy.name for policy in more)]
            made += more
    return tuple(named), made
