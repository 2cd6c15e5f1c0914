"""The policies of the study on thinking again: budgets, actions, gates, the plain rules, and diagnostics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.analyses.recommend.rivals import oracles
from replay.data.contents import Contents
from replay.gatefit.gate_set import RULE, TRUNCATION, cut_off, rule_gates, shown
from replay.kinds.sample import attempt
from replay.policies.base import Policy
from replay.studies.recovery.interventions import InterventionRoles


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
