"""The policy `retrieve` once more, as a plain loop over one example's rounds, without arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
DEFAULTS: Row = {
    "frontier": 2, "multiplier": 2.0, "frontier_of": "hop", "support": "sum", "reward": "single", "weights": None,
    "penalty": None, "relevance": "auto", "order": "relevance", "stable": None, "at": [1, 10],
}  # fmt: skip
PAID = ("calls", "prompt_tokens", "completion_tokens", "latency_s")


def retrieve(rounds: Sequence[Row], gold: Sequence[str] | None, policy: Row, negative: bool) -> dict[str, Any] | None:
    """The outcome on one example with all its rounds of the pool; None where it is partial. `negative`: whether any
    relevance of the whole pool is below 0.
    """
    policy = {**DEFAULTS, **policy}
    hops = sorted({row["hop"] for row in rounds})
    if not hops:
        return None
    lists, paid, rewarded, endings, spared = [], [], 0, [], []
    for hop in hops:
        mine = sorted((row for row in rounds if row["hop"] == hop), key=lambda row: row["round"])
        walk = walk_hop(mine, policy)
        if walk is None:
            return None
        steps, ending = walk
        endings.append(ending)
        read = [row for row, _ in steps]
        paid += read
        spared += mine[len(read) : policy["rounds"]]
        rewarded += sum(good for _, good in steps)
        lists.append(ranking(steps, policy, negative))
    ranked: list[str] = []
    for place in range(max(map(len, lists))):
        for one in lists:
            if place < len(one) and one[place] not in ranked:
                ranked.append(one[place])
    out: dict[str, Any] = {
        "ending": next(one for one in ("exhausted", "cap", "rule") if one in endings),
        "rounds": len(paid),
        **({} if policy["penalty"] else {"rewarded": rewarded}),
        **{name: total([row[name] for row in paid]) for name in PAID},
    }
    if policy["stable"] is not None:
        out["calls_saved"] = total([row["calls"] for row in spared])
        out["tokens_saved"] = total([row["prompt_tokens"] + row["completion_tokens"] for row in spared])
    for k in policy["at"]:
        there = {one for one in gold or () if one in ranked[:k]}
        out[f"hit_{k}"] = float(bool(there)) if gold else None
        out[f"recall_{k}"] = len(there) / len(set(gold)) if gold else None
    return out


def total(values: Sequence[float | None]) -> float | None:
    return None if None in values else float(sum(value for value in values if value is not None))


def equal(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-12


def walk_hop(rows: Sequence[Row], policy: Row) -> tuple[list[tuple[Row, bool]], str] | None:
    """The rounds that are read, each with whether it is rewarded, and the ending; None where an answer has no score."""
    support: dict[int, float] = {}
    leader, lasting, steps = None, 0, list[tuple[Row, bool]]()
    for row in rows[: policy["rounds"]]:
        counts: dict[int, float] = {}
        for number, cluster in enumerate(row["clusters"]):
            weight = 1.0
            if policy["weights"]:
                if row["answer_scores"] is None:
                    return None
                weight = row["answer_scores"][number]
            counts[cluster] = counts.get(cluster, 0.0) + weight
        top = most_frequent(counts, policy["frontier"])
        if top and policy["frontier_of"] == "round":
            support = {cluster: counts[cluster] for cluster in top}
        elif top:
            for cluster in top:
                enter(support, cluster, counts[cluster], policy)
        new = lead(support)
        lasting = 0 if new is None else lasting + 1 if new == leader else 1
        leader = new
        steps.append((row, bool(top) and is_rewarded(row, top, support, leader, policy)))
        if policy["stable"] is not None and lasting >= policy["stable"]:
            return steps, "rule"
    return steps, "cap" if len(rows) >= policy["rounds"] else "exhausted"


def most_frequent(counts: Mapping[int, float], most: int) -> list[int]:
    left, top = dict(counts), list[int]()
    while left and len(top) < most:
        highest = max(left.values())
        best = min(cluster for cluster, count in left.items() if count >= highest - 1e-12)
        top.append(best)
        del left[best]
    return top


def enter(support: dict[int, float], cluster: int, count: float, policy: Row) -> None:
    if cluster in support:
        support[cluster] = support[cluster] + count if policy["support"] == "sum" else count
    elif len(support) < policy["frontier"]:
        support[cluster] = count
    else:
        least = min(support.values())
        weakest = max(one for one, value in support.items() if value <= least + 1e-12)
        if count - support[weakest] > 1e-12:
            del support[weakest]
            support[cluster] = count


def lead(support: Mapping[int, float]) -> int | None:
    if not support:
        return None
    highest = max(support.values())
    return min(cluster for cluster, value in support.items() if value >= highest - 1e-12)


def is_rewarded(row: Row, top: Sequence[int], support: Mapping[int, float], leader: int | None, policy: Row) -> bool:
    if policy["penalty"]:
        return False
    if policy["reward"] == "single":
        return len(support) == 1
    if policy["reward"] == "aligned":
        return top[0] == leader
    if policy["reward"] == "first":
        return row["round"] == 0
    number = len(row["clusters"])
    shares = [row["clusters"].count(cluster) / number for cluster in set(row["clusters"])]
    return -sum(share * math.log(share) for share in shares) <= policy["reward"]["entropy"] + 1e-9


def factor_of(row: Row, rewarded: bool, policy: Row) -> float:
    if not policy["penalty"]:
        return policy["multiplier"] if rewarded else 1.0
    if not row["answers"]:
        return 1.0
    against = row["contradictions"]
    if against is None:
        said = sorted(set(zip(row["clusters"], row["answers"], strict=True)))
        against = sum(a[0] != b[0] for i, a in enumerate(said) for b in said[i + 1 :])
    return 2 / max(1, against)


def ranking(steps: Sequence[tuple[Row, bool]], policy: Row, negative: bool) -> list[str]:
    """The documents of a hop, the best first, each once."""
    logistic = policy["relevance"] == "logistic" or (policy["relevance"] == "auto" and negative)
    entries = []
    for number, (row, rewarded) in enumerate(steps):
        factor = factor_of(row, rewarded, policy)
        for place, (document, relevance) in enumerate(zip(row["documents"], row["relevance"], strict=True)):
            if logistic:
                relevance = 0.0 if relevance < -700 else 1 / (1 + math.exp(-relevance))
            key: float = -relevance * factor
            if policy["order"] == "retriever":
                ranks = row["retrieval_rank"]
                key = math.inf if ranks is None or ranks[place] is None else ranks[place]
            entries.append((key, number, place, document))
    ranked: list[str] = []
    for *_, document in sorted(entries):
        if document not in ranked:
            ranked.append(document)
    return ranked
