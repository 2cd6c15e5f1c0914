"""Policies x block -> outcomes. Each policy is evaluated once, however many others are made of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from replay.data.block import Block
from replay.engine.calls import PolicyPath
from replay.engine.flips import compare
from replay.engine.outcome import Outcome
from replay.policies.base import Policy, nested

NO_CHOICES: Mapping[str, frozenset[str]] = MappingProxyType({})


def replay_block(
    block: Block,
    policies: Sequence[Policy],
    whole_pools: frozenset[str] = frozenset(),
    choices: Mapping[str, frozenset[str]] = NO_CHOICES,
) -> list[Outcome]:
    """Outcomes of the policies on one block, in their order.

    Every policy must be resolved, and `against` must name one of them. `whole_pools` are replayed whole or not at all.
    `choices`: the examples on which each policy that chooses among all examples intervenes.
    """
    evaluator = Evaluator(block, policies, whole_pools, choices)
    by_name = {policy.name: policy for policy in policies}
    done = []
    for policy in policies:
        outcome = evaluator.outcome(policy)
        if policy.against is not None:
            pair = (evaluator.path(policy), evaluator.path(by_name[policy.against]))
            outcome = replace(outcome, against=compare(block, *pair))
        done.append(outcome)
    return done


class Evaluator:
    """Evaluates policies on one block; what several of them share is done once."""

    def __init__(
        self,
        block: Block,
        policies: Sequence[Policy],
        whole_pools: frozenset[str] = frozenset(),
        choices: Mapping[str, frozenset[str]] = NO_CHOICES,
    ) -> None:
        self.block, self.whole_pools, self.choices = block, whole_pools, choices
        self._made: dict[Hashable, Any] = {}
        names = {name for p in policies if p.against is not None for name in (p.name, p.against)}
        self.traced = frozenset(p.cache_key for q in policies for p in nested(q) if p is not q or q.name in names)
        by_kind: dict[type[Policy], dict[Hashable, Policy]] = {}
        for policy in policies:
            for part in nested(policy):
                by_kind.setdefault(type(part), {})[part.cache_key] = part
        for kind, found in by_kind.items():
            kind.prepare(list(found.values()), self)

    def outcome(self, policy: Policy) -> Outcome:
        """Outcome of a policy by itself."""
        return self.once(("outcome", self._key(policy)), lambda: policy.outcome(self))

    def path(self, policy: Policy) -> PolicyPath:
        """Outcome of a policy, and what it paid."""
        return self.once(("path", self._key(policy)), lambda: policy.path(self))

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each key."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def keep(self, policy: Policy, outcome: Outcome) -> None:
        """Keep an outcome that was made beforehand."""
        self._made["outcome", self._key(policy)] = outcome

    def chosen_by(self, policy: Policy) -> np.ndarray | None:
        """The examples (E,) on which a policy that looks at a whole run intervenes; None before it is known."""
        if policy.name not in self.choices:
            return None
        return self.block.examples["example_id"].is_in(list(self.choices[policy.name])).to_numpy()

    @staticmethod
    def _key(policy: Policy) -> Hashable:
        """Policies that choose among all examples differ by name, for their choices do."""
        return (policy.cache_key, policy.name if policy.sees_all else "")
