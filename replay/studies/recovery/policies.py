"""The policies of the study on thinking again: budgets, actions, gates, the plain rules, and diagnostics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from replay.data.contents import Contents
from replay.policies.base import Oracle, Policy, Sample
from replay.policies.gate_file import GateFile
from replay.policies.gates import AllOf, Reading
from replay.policies.interventions import Act, When

NEAR = 0.9
"""Share of the token limit from which an attempt is near it."""


@dataclass(frozen=True)
class Cast:
    """Who plays in the study: pools and actions by name, gates by action.

    `heuristics` are gates on one logged feature, their thresholds tuned; `samples` maps pools of several samples to
    their size, `limits` pools to the token limit of their first attempts, where it is logged. `screened_apart`: the
    actions were screened on other examples than those that are reported. `pools` maps actions and the pools that they
    revise to the pool of the revisions, None where there is one alone; what it lacks is not replayed.
    """

    base: str
    budgets: tuple[str, ...]
    action: str
    actions: tuple[str, ...]
    gates: Mapping[str, GateFile]
    trees: GateFile | None
    heuristics: Mapping[str, GateFile]
    samples: Mapping[str, int]
    limits: Mapping[str, int] = field(default_factory=dict)
    width: int = 1
    screened_apart: bool = True
    pools: Mapping[tuple[str, str], str | None] = field(default_factory=dict)

    def act(self, name: str, action: str, base: str) -> Act:
        """Revisions of a pool's first attempts by an action."""
        return Act(name=name, action=action, base=base, pool=self.pools[action, base])


@dataclass(frozen=True)
class Named:
    """Names of the policies by the part that they play."""

    base: str
    budgets: Mapping[str, str]  # pool -> policy
    always: Mapping[str, str]  # action -> policy
    selective: Mapping[str, str]
    rules: tuple[str, ...] = ()  # routing rules of the primary action
    oracles: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()
    primary: str = ""  # the primary selective policy
    trees: str = ""
    joint: Mapping[str, str] = field(default_factory=dict)  # budget, action and gate -> policy


def cast_policies(cast: Cast, contents: Contents) -> tuple[tuple[Policy, ...], Named]:
    """Every policy but the matched ones, which need the primary gate's rate, and their names."""
    base = Sample(name=f"base: {cast.base}", pool=cast.base, max_traces=1, select="first")
    policies: list[Policy] = [base]
    budgets, always, selective = {}, {}, {}
    for pool in cast.budgets:
        budgets[pool] = f"budget: {pool}"
        policies.append(Sample(name=budgets[pool], pool=pool, max_traces=1, select="first", against=base.name))
    acts = {action: cast.act(f"always {action}", action, cast.base) for action in cast.actions}
    for action, act in acts.items():
        always[action] = act.name
        policies.append(act)
        if action in cast.gates:
            selective[action] = f"selective {action}"
            gate = Reading(file=cast.gates[action])
            policies.append(When(name=selective[action], base=base, gate=gate, then=act))
    act = acts[cast.action]
    trees = "boosted-trees gate" if cast.trees is not None else ""
    if cast.trees is not None:
        policies.append(When(name=trees, base=base, gate=Reading(file=cast.trees), then=act))
    rules = [When(name=name, base=base, gate=gate, then=act) for name, gate in _rules(cast, contents).items()]
    oracles = _oracles(cast, base.name)
    voters = [
        Sample(name=f"self-consistency@{size}: {pool}", pool=pool, max_traces=size, select="majority",
               against=base.name, width=cast.width)
        for pool, size in cast.samples.items()
    ]  # fmt: skip
    joint, crossed = _joint(cast, contents, {cast.base: base.name, **budgets}, always, selective)
    named = Named(
        base=base.name,
        budgets=budgets,
        always=always,
        selective=selective,
        rules=tuple(rule.name for rule in rules),
        oracles=tuple(oracle.name for oracle in oracles),
        samples=tuple(voter.name for voter in voters),
        primary=selective.get(cast.action, ""),
        trees=trees,
        joint=joint,
    )
    return (*policies, *rules, *oracles, *voters, *crossed), named


def _joint(
    cast: Cast, contents: Contents, pools: Mapping[str, str], always: Mapping[str, str], selective: Mapping[str, str]
) -> tuple[dict[str, str], list[Policy]]:
    """Initial budget x gate x action: every pool alone, always revised, and revised when cut off or when gated.

    Names of the policies by what they do, and those of them that are not there yet.
    """
    named: dict[str, str] = dict(pools)
    made: list[Policy] = []
    for pool in pools:
        first = Sample(name=pool, pool=pool, max_traces=1, select="first")
        for action in sorted(a for a, b in cast.pools if b == pool):
            act = cast.act(f"{pool} + {action} always", action, pool)
            found: list[Policy] = [act]
            if "finish_reason" in contents.trace_columns:
                cut = Reading(signal="truncated", at_least=1.0)
                found.append(When(name=f"{pool} + {action} when truncated", base=first, gate=cut, then=act))
            if pool == cast.base:
                named[act.name] = always[action]
                found.remove(act)
                if action in selective:
                    named[f"{pool} + {action} when gated"] = selective[action]
            named |= {policy.name: policy.name for policy in found}
            made += found
    return named, made


def _rules(cast: Cast, contents: Contents) -> dict[str, Reading | AllOf]:
    """Gates without a model, and the fitted gate among completed attempts alone."""
    logged = contents.trace_columns
    found: dict[str, Reading | AllOf] = {}
    if "finish_reason" in logged:
        found["truncation only"] = Reading(signal="truncated", at_least=1.0)
    if {"completion_tokens", "max_tokens", "finalizer_used"} <= set(logged):
        found[f"near limit ({NEAR:g})"] = Reading(signal="near_limit", fraction=NEAR, at_least=1.0)
    if cast.action in cast.gates and "finish_reason" in logged:
        completed = Reading(signal="truncated", below=1.0)
        found["completed only"] = AllOf((Reading(file=cast.gates[cast.action]), completed))
    found |= {name: Reading(file=gate) for name, gate in cast.heuristics.items()}
    return found


def unfitted(named: Named) -> list[str]:
    """Rules without a fit that the recommendation compares."""
    return [rule for rule in named.rules if rule.startswith("truncation")]


def missing_rules(cast: Cast, contents: Contents, features: Mapping[str, str]) -> Iterator[str]:
    """Routing rules that the log cannot serve, with the reason; `features` are those of rules on one feature."""
    lacks = [
        name for name in ("completion_tokens", "max_tokens", "finalizer_used") if name not in contents.trace_columns
    ]
    ended = "finish_reason" in contents.trace_columns
    if not ended:
        yield "no rule `truncation only`: the log has no column `finish_reason` of traces"
    if lacks:
        named = ", ".join(f"`{name}`" for name in lacks)
        yield f"no rule `near limit ({NEAR:g})`: the log has no column {named} of traces"
    if not ended or cast.action not in cast.gates:
        why = f"no gate for `{cast.action}` is there" if ended else "the log has no column `finish_reason` of traces"
        yield f"no rule `completed only`: {why}"
    for rule, feature in features.items():
        if feature not in contents.features:
            yield f"no rule `{rule}`: the log has no feature `{feature}`"


def _oracles(cast: Cast, base: str) -> list[Oracle]:
    """Headroom over actions, and over the samples of a pool."""
    made = [
        Oracle(name="sampled-action oracle", rule="action", base=cast.base, of=cast.actions, against=base),
        Oracle(name="expected-action oracle", rule="expected_action", base=cast.base, of=cast.actions, against=base),
    ]
    for pool in cast.samples:
        for rule, shown in (("action", "sampled-rollout"), ("expected_action", "expected-action")):
            named = f"{shown} oracle: {pool}"
            made.append(Oracle(name=named, rule=rule, base=cast.base, of=(pool,), against=base))
    return made


def matched_policies(cast: Cast, base: str, rate: float) -> tuple[Policy, ...]:
    """The oracle and the coin at the primary gate's rate."""
    first = Sample(name="first", pool=cast.base, max_traces=1, select="first")
    act = cast.act("act", cast.action, cast.base)
    shown = f"at rate {rate:.3f}"
    return (
        Oracle(name=f"matched-rate oracle {shown}", rule="matched_rate", base=first, then=act, rate=rate, against=base),
        Oracle(name=f"matched random {shown}", rule="matched_random", base=first, then=act, rate=rate, against=base),
    )
