"""The policies of the study on thinking again: budgets, actions, gates, the plain rules, and diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from replay.data.contents import Contents
from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gates import AllOf, Gate, Threshold
from replay.studies.recovery.gates import CHEAP, RULE, TREES, StudyGate
from toolkit.errors import listed

NEAR = 0.9
"""Share of the token limit from which an attempt is near it."""


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
    gates: Mapping[str, StudyGate]
    rivals: tuple[StudyGate, ...]
    samples: Mapping[str, tuple[int, ...]]
    limits: Mapping[str, int] = field(default_factory=dict)
    width: int = 1
    screened_apart: bool = True
    pools: Mapping[tuple[str, str], str | None] = field(default_factory=dict)

    @property
    def every_gate(self) -> tuple[StudyGate, ...]:
        """The gates that act, each with those beside it."""
        found = (*self.gates.values(), *self.rivals)
        return tuple(sorted(found, key=lambda gate: self.actions.index(gate.action)))

    def cheap(self, action: str) -> str:
        """The policy of an action's own gate on cheap features; empty where there is none."""
        own = (gate.policy for gate in self.every_gate if gate.action == action and gate.part == CHEAP)
        return next(own, "")

    def act(self, name: str, action: str, base: str) -> Act:
        """Revisions of a pool's first attempts by an action."""
        return Act(name=name, action=action, base=base, pool=self.pools[action, base])


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
    trees: str = ""
    joint: Mapping[str, str] = field(default_factory=dict)  # budget, action and gate -> policy

    @property
    def unfitted(self) -> list[str]:
        """Policies of rules without a fit that the recommendation compares."""
        return [name for name, rule in self.rules.items() if rule == TRUNCATION]


def build_policies(roles: Roles, contents: Contents) -> tuple[tuple[Policy, ...], PolicyNames]:
    """Every policy but the matched ones, which need the primary gate's rate, and their names."""
    base = Sample(name=f"base: {roles.base}", pool=roles.base, max_traces=1, select="first")
    policies: list[Policy] = [base]
    budgets, always, selective = {}, {}, {}
    for pool in roles.budgets:
        budgets[pool] = f"budget: {pool}"
        policies.append(Sample(name=budgets[pool], pool=pool, max_traces=1, select="first", against=base.name))
    acts = {action: roles.act(f"always {action}", action, roles.base) for action in roles.actions}
    for action, act in acts.items():
        always[action] = act.name
        policies.append(act)
        if action in roles.gates:
            selective[action] = f"selective {action}"
            gate = Threshold(file=roles.gates[action].file)
            policies.append(When(name=selective[action], base=base, gate=gate, then=act))
    act = acts[roles.action]
    trees = [gate.policy for gate in roles.rivals if gate.part == TREES]
    policies += [
        When(name=one.policy, base=base, gate=Threshold(file=one.file), then=acts[one.action]) for one in roles.rivals
    ]
    routing = _rules(roles, contents)
    rules = [When(name=shown, base=base, gate=gate, then=act) for shown, gate in routing.values()]
    oracles = _oracles(roles, base.name)
    voters = votes(roles, base.name)
    joint, crossed = _joint(roles, contents, {roles.base: base.name, **budgets}, always, selective)
    named = PolicyNames(
        base=base.name,
        budgets=budgets,
        always=always,
        selective=selective,
        rules={shown: rule for rule, (shown, _) in routing.items()}
        | {gate.policy: gate.shown for gate in roles.rivals if gate.part == RULE},
        oracles={oracle.name: which for which, oracle in oracles.items()},
        samples={voter.name: voter.max_traces for voter in voters},
        primary=selective.get(roles.action, ""),
        trees=next(iter(trees), ""),
        joint=joint,
    )
    return (*policies, *rules, *oracles.values(), *voters, *crossed), named


def votes(roles: Roles, base: str) -> tuple[Sample, ...]:
    """Votes over the samples of each pool, by size."""
    return tuple(
        Sample(name=f"self-consistency@{size}: {pool}", pool=pool, max_traces=size, select="majority",
               against=base, width=roles.width)
        for pool, sizes in roles.samples.items() for size in sizes
    )  # fmt: skip


def _joint(
    roles: Roles, contents: Contents, pools: Mapping[str, str], always: Mapping[str, str], selective: Mapping[str, str]
) -> tuple[dict[str, str], list[Policy]]:
    """Initial budget x gate x action: every pool alone, always revised, and revised when cut off or when gated.

    Names of the policies by what they do, and those of them that are not there yet.
    """
    named: dict[str, str] = dict(pools)
    made: list[Policy] = []
    for pool in pools:
        first = Sample(name=pool, pool=pool, max_traces=1, select="first")
        for action in sorted(a for a, b in roles.pools if b == pool):
            act = roles.act(f"{pool} + {action} always", action, pool)
            found: list[Policy] = [act]
            if "finish_reason" in contents.trace_columns:
                cut = Threshold(signal="truncated", at_least=1.0)
                found.append(When(name=f"{pool} + {action} when truncated", base=first, gate=cut, then=act))
            if pool == roles.base:
                named[act.name] = always[action]
                found.remove(act)
                if action in selective:
                    named[f"{pool} + {action} when gated"] = selective[action]
            named |= {policy.name: policy.name for policy in found}
            made += found
    return named, made


TRUNCATION, NEAR_LIMIT, COMPLETED = "truncation only", "near limit", "completed only"


def _rules(roles: Roles, contents: Contents) -> dict[str, tuple[str, Gate]]:
    """Gates without a model, and the fitted gate among completed attempts alone: by rule the policy's name and gate."""
    logged = contents.trace_columns
    found: dict[str, tuple[str, Gate]] = {}
    if "finish_reason" in logged:
        found[TRUNCATION] = TRUNCATION, Threshold(signal="truncated", at_least=1.0)
    if {"completion_tokens", "max_tokens", "finalizer_used"} <= set(logged):
        near = Threshold(signal="near_limit", fraction=NEAR, at_least=1.0)
        found[NEAR_LIMIT] = f"{NEAR_LIMIT} ({NEAR:g})", near
    if roles.action in roles.gates and "finish_reason" in logged:
        completed = Threshold(signal="truncated", below=1.0)
        found[COMPLETED] = COMPLETED, AllOf((Threshold(file=roles.gates[roles.action].file), completed))
    return found


def missing_rules(roles: Roles, contents: Contents, features: Mapping[str, str]) -> Iterator[str]:
    """Routing rules that the log cannot serve, with the reason; `features` are those of rules on one feature."""
    lacks = [
        name for name in ("completion_tokens", "max_tokens", "finalizer_used") if name not in contents.trace_columns
    ]
    ended = "finish_reason" in contents.trace_columns
    if not ended:
        yield "no rule `truncation only`: the log has no column `finish_reason` of traces"
    if lacks:
        yield f"no rule `near limit ({NEAR:g})`: the log has no column {listed(lacks)} of traces"
    if not ended or roles.action not in roles.gates:
        why = f"no gate for `{roles.action}` is there" if ended else "the log has no column `finish_reason` of traces"
        yield f"no rule `completed only`: {why}"
    for rule, feature in features.items():
        if feature not in contents.features:
            yield f"no rule `{rule}`: the log has no feature `{feature}`"


SAMPLED_ACTION, EXPECTED_ACTION, SAMPLED_ROLLOUT = "sampled-action", "expected-action", "sampled-rollout"


def _oracles(roles: Roles, base: str) -> dict[tuple[str, str], Oracle]:
    """Headroom over actions, and over the samples of a pool: by (which oracle, pool of its samples)."""
    made = {}
    for rule, which in (("action", SAMPLED_ACTION), ("expected_action", EXPECTED_ACTION)):
        made[which, ""] = Oracle(name=f"{which} oracle", rule=rule, base=roles.base, of=roles.actions, against=base)
    for pool in roles.samples:
        for rule, which in (("action", SAMPLED_ROLLOUT), ("expected_action", EXPECTED_ACTION)):
            name = f"{which} oracle: {pool}"
            made[which, pool] = Oracle(name=name, rule=rule, base=roles.base, of=(pool,), against=base)
    return made


def matched_policies(roles: Roles, base: str, rate: float) -> tuple[Policy, ...]:
    """The oracle and the coin at the primary gate's rate."""
    first = Sample(name="first", pool=roles.base, max_traces=1, select="first")
    act = roles.act("act", roles.action, roles.base)
    shown = f"at rate {rate:.3f}"
    return (
        Oracle(name=f"matched-rate oracle {shown}", rule="matched_rate", base=first, then=act, rate=rate, against=base),
        Oracle(name=f"matched random {shown}", rule="matched_random", base=first, then=act, rate=rate, against=base),
    )
