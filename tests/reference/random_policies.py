"""Seeded random policies over the whole vocabulary of `sample` and of the oracle `any`, and their TOML."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.reference.random_logs import RandomLog
from tests.reference.rules import Row

CONFIDENCES = [0.5, 0.75, 0.875, 0.9, 0.95]  # the first three are met exactly, by 1, 1 and 2 votes to none


def random_policies(rng: random.Random, log: RandomLog, count: int) -> list[Row]:
    """`count` policies that the log doesn't refuse, named p0, p1 …; some `against` another one of them."""
    policies = []
    for i in range(count):
        policy = random_oracle(rng, log) if rng.random() < 0.12 else random_sample(rng, log)
        policies.append({"name": f"p{i}", **policy})
    for i, policy in enumerate(policies):
        if count > 1 and rng.random() < 0.35:
            other = (i + rng.randrange(1, count)) % count
            policy["against"] = f"p{other}"
            if "orders" in policies[other] and policy["kind"] == "sample" and "expected" not in policy:
                policy["orders"] = rng.choice([policies[other]["orders"], 2])
    return policies


def random_oracle(rng: random.Random, log: RandomLog) -> Row:
    pools = [pool for pool in log.pools if pool not in log.plain.whole]
    policy: Row = {"kind": "oracle", "rule": "any"}
    of: list[str] = rng.sample(sorted(log.pools), rng.randrange(1, len(log.pools) + 1))
    if rng.random() < 0.6:
        policy["base"] = "main" if rng.random() < 0.8 else rng.choice(pools)
        if policy["base"] == "main":
            of = rng.sample([*of, *log.actions], rng.randrange(1, len(of) + 3))
    policy["of"] = of
    return policy


def random_sample(rng: random.Random, log: RandomLog) -> Row:
    pool = rng.choice(["main", *log.pools])
    policy: Row = {"kind": "sample", "pool": pool}
    usual = log.pools[pool]
    policy["max_traces"] = min(usual, rng.randrange(1, usual + 1) + rng.randrange(2))
    if rng.random() < 0.05:
        policy["max_traces"] = usual + 1
    if rng.random() < 0.3:
        policy["on_missing"] = "use_available"
        policy["max_traces"] += rng.randrange(2) if policy["max_traces"] == usual else 0
    order = rng.choice(["generation", "generation", "random", "score", "expected"])
    policy.update(in_generation_order(rng, policy) if order == "generation" else in_other_order(rng, order))
    if pool in log.opaque:
        opaque_safe(policy)
    needs = policy.get("select", "best") in ("best", "weighted") or (policy.get("stop") or {}).get("rule") == "margin"
    if needs or "verifications" in policy.get("stop", {}) or rng.random() < 0.1:
        policy["verifier"] = rng.choice(log.verifiers)
    if rng.random() < 0.25 and "expected" not in policy:
        policy["orders"] = rng.choice([1, 2, 3])
    if "orders" in policy or policy.get("order") == "random":
        policy["seed"] = rng.choice([0, 1, 7, 2**31])
        if policy["seed"] == 0:
            del policy["seed"]
    if rng.random() < 0.8 or policy["pool"] in log.plain.whole:
        fit(policy, log, rng.randrange(2))
    if rng.random() < 0.2 and ("expected" not in policy or policy.get("order") == "random"):
        policy["width"] = rng.choice([1, 2, 3, 4])
    return with_votes(with_unscored(policy))


def with_votes(policy: Row) -> Row:
    """With keys of a vote, at times; drawn apart, as those of missing scores are."""
    rng, drawn = random.Random(f"votes {to_toml([policy])}"), dict[str, Any]()
    rule, select = (policy.get("stop") or {}).get("rule"), policy.get("select", "best")
    if select in ("majority", "weighted") and rng.random() < 0.6:
        drawn["tie"] = rng.choice(["earliest", "smallest", "smallest", "random"])
        drawn["seed"] = policy.get("seed", rng.choice([0, 3]))
    if (select == "majority" or rule in ("agreement", "window")) and rng.random() < 0.5:
        drawn["nulls"] = rng.choice(["vote", "vote", "skip"])
    plans = rule in ("agreement", "budget") and "completion_tokens" not in policy["stop"]
    if plans and policy.get("order", "generation") == "generation" and rng.random() < 0.4:
        drawn["width"] = "needed"
    return {**policy, **drawn}


def with_unscored(policy: Row) -> Row:
    """With a way for missing scores, at times; drawn apart, so that the rest of a policy does not depend on it."""
    rng = random.Random(f"unscored {to_toml([policy])}")
    return {**policy, "on_unscored": rng.choice(["skip", "lowest", "partial"])} if rng.random() < 0.5 else policy


def fit(policy: Row, log: RandomLog, more: int) -> None:
    """Make the policy one that a listwise verifier can serve, or that a pool without prefix allows."""
    usual = log.pools[policy["pool"]]
    whole = policy["pool"] in log.plain.whole
    late = "order" in policy and policy["order"] != "generation"
    if whole:
        policy.pop("orders", None)
        if not late:
            policy.pop("stop", None)
    if policy.get("select") == "first":
        return
    if policy.get("verifier") in log.listwise:
        for key in ("stop", "order", "expected"):
            policy.pop(key, None)
        policy["max_traces"] = usual
    elif whole:
        policy["max_traces"] = usual + more


def random_surrogate(rng: random.Random, usual: int) -> Row:
    policy: Row = {"kind": "sample", "pool": "main", "verifier": "lora", "order": "surrogate"}
    policy["max_traces"] = rng.randrange(1, usual + 1)
    policy["features"] = rng.choice([[], ["difficulty"], ["difficulty", "fine"], ["fine"]])
    if rng.random() < 0.4:
        policy["mode"] = rng.choice(["lazy", "pool"])
    if rng.random() < 0.6:
        policy["bootstrap"] = rng.choice([1, 2, 3, 4, 9])
    if rng.random() < 0.5:
        policy["ridge"] = rng.choice([0.1, 1.0, 10.0])
    if rng.random() < 0.5:
        policy["forgetting"] = rng.choice([0.5, 0.9, 1.0])
    if rng.random() < 0.3:
        policy["orders"] = rng.choice([1, 2, 3])
    if rng.random() < 0.3:
        policy["on_missing"] = "use_available"
        policy["max_traces"] += rng.randrange(3)
    if rng.random() < 0.3:
        policy["select"] = rng.choice(["best", "weighted"])
    if rng.random() < 0.3:
        policy["bonus"] = rng.choice([0.1, 1.0])
    stop = rng.choice([None, margin(rng), margin(rng), {"rule": "budget", "verifications": rng.choice([1, 2, 4])}])
    if stop is not None:
        policy["stop"] = stop
    return with_label_score(with_unscored(policy))


def with_label_score(policy: Row) -> Row:
    """With keys of the label score, at times; drawn apart, as those of missing scores are."""
    rng = random.Random(f"label score {to_toml([policy])}")
    drawn = {"unseen": rng.choice([0.0, 0.5, 1.0, -2.0]), "label_score": rng.choice(["mean", "max"])}
    return {**policy, **{key: value for key, value in drawn.items() if rng.random() < 0.6}}


def in_generation_order(rng: random.Random, policy: Row) -> Row:
    out: Row = {} if rng.random() < 0.5 else {"order": "generation"}
    selects = ["majority", "best", "best", "weighted"] + ["first"] * (policy["max_traces"] == 1)
    select = rng.choice(selects)
    if select != "best" or rng.random() < 0.5:
        out["select"] = select
    if select != "weighted" and rng.random() < (0.5 if select == "first" else 0.25):
        return out | {"expected": True}
    stop = rng.choice([None, budget, traces_budget, margin, margin, agreement, window])
    if stop is not None:
        out["stop"] = stop(rng)
    return out


def in_other_order(rng: random.Random, order: str) -> Row:
    if order == "expected":
        return {"order": "random", "expected": True, "select": "best", "stop": budget(rng)}
    out: Row = {"order": order, "select": rng.choice(["best", "weighted"])}
    stop = rng.choice([None, budget, margin, margin])
    if stop is not None:
        out["stop"] = stop(rng)
    return out


def budget(rng: random.Random) -> Row:
    return {"rule": "budget", "verifications": rng.choice([1, 2, 3, 5])}


def traces_budget(rng: random.Random) -> Row:
    key, value = rng.choice([("traces", 1), ("traces", 3), ("completion_tokens", 50), ("completion_tokens", 150)])
    return {"rule": "budget", key: value}


def margin(rng: random.Random) -> Row:
    stop: Row = {"rule": "margin"}
    if rng.random() < 0.8:  # multiples of 0.05, as the scores' differences are: ties at the threshold
        stop["margin"] = rng.choice([0.0, 0.1, 0.15, 0.3, 0.5])
    if rng.random() < 0.8:
        stop["min_valid"] = rng.choice([1, 2, 3])
    if rng.random() < 0.8:
        stop["single_label"] = rng.choice([1, 2, 3, 5])
    return stop


def agreement(rng: random.Random) -> Row:
    stop: Row = {"rule": "agreement"}
    if rng.random() < 0.9:
        stop["confidence"] = rng.choice(CONFIDENCES)
    return stop


def window(rng: random.Random) -> Row:
    return {"rule": "window", "size": rng.choice([1, 2, 3])}


def opaque_safe(policy: Row) -> None:
    """Take out what is refused among opaque answers: votes and margins."""
    if policy.get("select", "best") in ("majority", "weighted"):
        policy["select"] = "best"
    if policy.get("stop", {}).get("rule") in ("margin", "agreement", "window", "says"):
        del policy["stop"]


def to_toml(policies: list[Row]) -> str:
    return "\n".join("[[policy]]\n" + "".join(f"{k} = {literal(v)}\n" for k, v in p.items()) for p in policies)


def literal(value: Any) -> str:
    """A TOML literal; JSON's are TOML's for strings, numbers, booleans and flat lists."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {literal(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(literal, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
