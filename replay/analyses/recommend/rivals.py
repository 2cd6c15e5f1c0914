"""The rivals of an intervention: votes for as many tokens, oracles, and longer budgets combined with actions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import polars as pl

from replay.kinds.act import Act
from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample, first_attempt_policy
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gates import Gate
from replay.runs.result.run import run
from toolkit.errors import ThinkbackError
from toolkit.log import Log

V = TypeVar("V", str, int)
SAMPLED_ACTION, EXPECTED_ACTION, SAMPLED_ROLLOUT = "sampled-action", "expected-action", "sampled-rollout"


def action_and_sample_oracles(
    base: Sample, actions: tuple[str, ...], samples: Iterable[str]
) -> dict[tuple[str, str], Oracle]:
    """Oracles over a base attempt's actions, and over samples of pools, by (which oracle, the samples' pool)."""
    kinds = [("action", SAMPLED_ACTION, ""), ("expected_action", EXPECTED_ACTION, "")]
    for pool in samples:
        kinds += [("action", SAMPLED_ROLLOUT, pool), ("expected_action", EXPECTED_ACTION, pool)]
    return {
        (which, pool): Oracle(name=f"{which} oracle" + (f": {pool}" if pool else ""), rule=rule, base=str(base.pool),
                              of=(pool,) if pool else actions, against=base.name)
        for rule, which, pool in kinds
    }  # fmt: skip


def oracle_and_coin_at_rate(base: Sample, act: Policy, rate: float) -> tuple[Oracle, Oracle]:
    """The oracle that acts on a share of the examples, and the coin that acts on as many at random."""

    def oracle_at_rate(name: str, rule: str) -> Oracle:
        name = f"{name} at rate {rate:.3f}"
        return Oracle(name=name, rule=rule, base=base, then=act, rate=rate, against=base.name)

    return oracle_at_rate("matched-rate oracle", "matched_rate"), oracle_at_rate("matched random", "matched_random")


def affordable_vote(spent: Mapping[V, float], most_tokens: float) -> V | None:
    """The most expensive vote that costs no more than `most_tokens`; None where all cost more, or costs are unknown."""
    within = [vote for vote, tokens in spent.items() if tokens <= most_tokens]
    return max(within, key=lambda vote: spent[vote], default=None)


def vote_sizes_at_equal_cost(
    log: Log, base: Policy, rivals: Sequence[Policy], votes: Mapping[str, Sequence[Sample]], where: str, seed: int = 0
) -> dict[str, tuple[int, ...]]:
    """Pool -> sizes of votes: the smallest, the largest, and for each rival the largest for no more mean tokens.

    `votes` are those of each pool, smallest first. Where they cannot be replayed, the largest of each pool alone.
    """
    most = {pool: pool_votes[-1].max_traces for pool, pool_votes in votes.items()}
    every = [vote for pool_votes in votes.values() for vote in pool_votes]
    try:
        result = run(log, [base, *rivals, *every], where=where, resamples=1, seed=seed)
    except ThinkbackError:
        return {pool: (size,) for pool, size in most.items()}
    rows = result.summary.filter(pl.col("metric") == "total_tokens").drop_nulls("estimate")
    tokens = dict(rows.select("policy", "estimate").iter_rows())
    paid = [tokens[rival.name] for rival in rivals if rival.name in tokens]

    def vote_sizes_of_pool(pool: str) -> tuple[int, ...]:
        known = {vote.max_traces: tokens[vote.name] for vote in votes[pool] if vote.name in tokens}
        within = {affordable_vote(known, limit) for limit in paid} - {None}
        return tuple(sorted({votes[pool][0].max_traces, *(size for size in within if size is not None), most[pool]}))

    return {pool: vote_sizes_of_pool(pool) for pool in votes}


def best_policy_at_no_more_cost(points: Mapping[str, tuple[float | None, float | None]]) -> dict[str, str | None]:
    """Policy -> the best policy that costs at most as much, from the (quality, cost) of each.

    In the order of their costs; those of unknown cost are last, with None.
    """
    ordered = sorted(points, key=lambda name: (points[name][1] is None, points[name][1] or 0.0, name))

    def best_rival(name: str) -> str | None:
        paid = points[name][1]
        rivals = [one for one in ordered if paid is not None and (cost := points[one][1]) is not None and cost <= paid]
        return max(rivals, key=lambda one: points[one][0] or 0.0, default=None)

    return {name: best_rival(name) for name in ordered}


def policies_by_action(pool: str, acts: Mapping[str, Act], gate: Gate | None) -> dict[str, list[Policy]]:
    """Action -> the policies that revise a pool's attempts: always, and where a gate without a model fires."""
    policies: dict[str, list[Policy]] = {}
    for action, act in acts.items():
        always = replace(act, name=f"{pool} + {action} always")
        policies[action] = [always]
        if gate is not None:
            name = f"{pool} + {action} when truncated"
            policies[action].append(When(name=name, base=first_attempt_policy(pool, pool), gate=gate, then=always))
    return policies
