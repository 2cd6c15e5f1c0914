"""Headroom of an intervention: oracles over actions and samples, and diagnostics that act as often as a gate."""

from __future__ import annotations

from collections.abc import Iterable

from replay.kinds.oracle import Oracle
from replay.kinds.sample import Sample
from replay.policies.base import Policy

SAMPLED_ACTION, EXPECTED_ACTION, SAMPLED_ROLLOUT = "sampled-action", "expected-action", "sampled-rollout"


def oracles(base: Sample, actions: tuple[str, ...], samples: Iterable[str]) -> dict[tuple[str, str], Oracle]:
    """Over a base attempt's actions, and over the samples of some pools: by (which oracle, pool of its samples)."""
    kinds = [("action", SAMPLED_ACTION, ""), ("expected_action", EXPECTED_ACTION, "")]
    for pool in samples:
        kinds += [("action", SAMPLED_ROLLOUT, pool), ("expected_action", EXPECTED_ACTION, pool)]
    return {
        (which, pool): Oracle(name=f"{which} oracle" + (f": {pool}" if pool else ""), rule=rule, base=str(base.pool),
                              of=(pool,) if pool else actions, against=base.name)
        for rule, which, pool in kinds
    }  # fmt: skip


def matched(base: Sample, act: Policy, rate: float) -> tuple[Oracle, Oracle]:
    """The oracle and the coin that act on a share of the examples."""

    def diagnostic(name: str, rule: str) -> Oracle:
        name = f"{name} at rate {rate:.3f}"
        return Oracle(name=name, rule=rule, base=base, then=act, rate=rate, against=base.name)

    return diagnostic("matched-rate oracle", "matched_rate"), diagnostic("matched random", "matched_random")
