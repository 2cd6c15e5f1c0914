"""Seeded random policies that think again, over the whole vocabulary of act, when, route and oracles."""

from __future__ import annotations

import random

from tests.reference.random_logs import RandomLog
from tests.reference.random_policies import random_sample, random_surrogate
from tests.reference.rules import Row

PLAIN_SIGNALS = ("truncated", "finalizer_used", "completion_tokens", "sum_logprob", "invalid")


def random_interventions(rng: random.Random, log: RandomLog, count: int) -> list[Row]:
    """`count` policies named p0, p1 …, some `against` another one of them."""
    makers = [
        random_act,
        random_when,
        random_when,
        random_graded,
        random_route,
        random_choice,
        random_matched,
        random_leaf,
    ]
    policies = [{"name": f"p{i}", **rng.choice(makers)(rng, log)} for i in range(count)]
    for i, policy in enumerate(policies):
        if count > 1 and rng.random() < 0.4:
            policy["against"] = f"p{(i + rng.randrange(1, count)) % count}"
    return policies


def random_leaf(rng: random.Random, log: RandomLog) -> Row:
    if "lora" in log.verifiers and rng.random() < 0.2:
        return random_surrogate(rng, log.pools["main"])
    return random_sample(rng, log)


def random_act(rng: random.Random, log: RandomLog) -> Row:
    if not log.actions:
        return random_sample(rng, log)
    action = rng.choice(log.actions)
    rollouts = rng.choice(["mean", "mean", 0, 0, 1]) if action == "active_verify" else rng.choice(["mean", 0])
    policy: Row = {"kind": "act", "action": action, "base": "main"}
    if rollouts != "mean" or rng.random() < 0.3:
        policy["rollouts"] = rollouts
    return policy


def one_trace(rng: random.Random, log: RandomLog) -> Row:
    pool = rng.choice(["main", "main", *log.pools])
    return {"kind": "sample", "pool": pool, "max_traces": 1, "select": "first"}


def single_base(rng: random.Random, log: RandomLog, depth: int) -> Row:
    kind = rng.randrange(8)
    if kind < 4:
        return one_trace(rng, log)
    if kind < 6:
        policy = random_leaf(rng, log)
        for key in ("orders", "expected"):
            if policy.pop(key, None) and key == "expected":
                policy.pop("order", None)
        return policy
    if kind == 6 and log.actions:
        return {"kind": "act", "action": rng.choice(log.actions), "base": "main", "rollouts": 0}
    if depth < 2:
        then = one_trace(rng, log)
        base = single_base(rng, log, depth + 1)
        return {"kind": "when", "base": base, "gate": random_gate(rng, log, base, 0), "then": then}
    return one_trace(rng, log)


def random_part(rng: random.Random, log: RandomLog, depth: int) -> Row:
    maker = rng.choice([random_act, random_act, random_leaf, random_leaf, one_trace])
    if depth < 2 and rng.random() < 0.25:
        maker = rng.choice([random_when_at(depth + 1), random_choice, random_route])
    return maker(rng, log)


def random_when_at(depth: int) -> object:
    return lambda rng, log: random_when(rng, log, depth)


def random_when(rng: random.Random, log: RandomLog, depth: int = 0) -> Row:
    base = single_base(rng, log, depth)
    return {"kind": "when", "base": base, "gate": random_gate(rng, log, base, 0),
            "then": random_part(rng, log, depth)}  # fmt: skip


def random_gate(rng: random.Random, log: RandomLog, base: Row, depth: int) -> Row:
    if depth < 2 and rng.random() < 0.25:
        parts = [random_gate(rng, log, base, depth + 1) for _ in range(rng.randrange(1, 4))]
        return {rng.choice(["any", "all"]): parts}
    gate = random_reading(rng, log, base)
    scale = {"completion_tokens": 100, "sum_logprob": -9, "suffix_logprob": -4}.get(gate.get("signal", ""), 1)
    value = rng.choice([0, 0.1, 0.3, 0.5, 0.5, 0.7, 1.0]) * scale
    gate[rng.choice(["below", "at_least"])] = float(value)
    return gate


def random_reading(rng: random.Random, log: RandomLog, base: Row) -> Row:
    kind = rng.randrange(6)
    if kind == 0 and log.verifiers:
        return {"verifier": rng.choice(log.verifiers)}
    if kind == 1:
        return {"feature": rng.choice(["difficulty", "density"])}
    if kind == 2:
        return {"signal": "near_limit", "fraction": rng.choice([0.5, 0.9, 1.0])}
    if kind == 3 and base["kind"] == "sample" and base["pool"] not in log.opaque:
        names = ["vote_share"]
        if base.get("select", "best") in ("best", "weighted") or (base.get("stop") or {}).get("rule") == "margin":
            names.append("margin")
        return {"signal": rng.choice(names)}
    if kind == 4:
        return {"signal": "suffix_logprob", "tokens": rng.choice([1, 2])}
    return {"signal": rng.choice(PLAIN_SIGNALS)}


def random_graded(rng: random.Random, log: RandomLog) -> Row:
    """A gate of several thresholds, each with a number of votes."""
    if not log.verifiers:
        return random_when(rng, log)
    votes = sorted(rng.sample(range(1, 5), rng.randrange(1, 4)), reverse=True)
    thresholds = sorted(rng.sample([0.1, 0.3, 0.5, 0.7, 1.0], len(votes)))
    then: Row = {"kind": "sample", "pool": "main", "max_traces": votes[0], "select": "majority"}
    if rng.random() < 0.5:
        then["orders"] = 2
    return {"kind": "graded", "base": one_trace(rng, log), "verifier": rng.choice(log.verifiers),
            "thresholds": thresholds, "votes": votes, "then": then}  # fmt: skip


def random_route(rng: random.Random, log: RandomLog) -> Row:
    route = {"column": "router", rng.choice(["below", "at_least"]): rng.choice([0.0, 0.3, 0.5, 1.0])}
    return {"kind": "route", "route": route, "then": random_part(rng, log, 1), "else": random_part(rng, log, 1)}


def random_choice(rng: random.Random, log: RandomLog) -> Row:
    names = [*(pool for pool in log.pools if pool not in log.plain.whole), *log.actions]
    of = rng.sample(names, rng.randrange(1, min(len(names), 3) + 1))
    policy = {"kind": "oracle", "rule": rng.choice(["action", "expected_action", "any"]), "base": "main", "of": of}
    apart = random.Random(f"drawn {of} {policy['rule']}")
    if policy["rule"] == "any" and apart.random() < 0.4:
        pool = apart.choice([name for name in log.pools if name not in log.plain.whole])
        most = log.pools[pool]
        return {"kind": "oracle", "of": [pool], "max_traces": apart.randrange(1, most + 1), "expected": True}
    return policy


def random_matched(rng: random.Random, log: RandomLog) -> Row:
    base = "main" if rng.random() < 0.5 else single_base(rng, log, 1)
    rate = rng.choice([0.0, 0.25, 0.3, 0.5, 1.0])
    rule = rng.choice(["matched_rate", "matched_random"])
    return {"kind": "oracle", "rule": rule, "base": base, "then": random_part(rng, log, 1), "rate": rate}
