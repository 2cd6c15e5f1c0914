"""Whom the oracle at a matched rate chooses: the examples of a run that gain most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

import numpy as np

from replay.data.block import Block
from replay.engine.composites import gain
from replay.engine.evaluator import Evaluator
from replay.policies.base import Oracle


@dataclass
class Gains:
    """Gathers, block by block, what each example compared would gain under each oracle of rule `matched_rate`."""

    policies: Sequence[Oracle]
    ids: list[str] = field(default_factory=list)
    gains: dict[str, list[np.ndarray]] = field(default_factory=dict)
    tokens: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, block: Block, whole_pools: frozenset[str], keep: np.ndarray) -> None:
        """The examples of a block where `keep` (E,) is true."""
        evaluator = Evaluator(block, self.policies, whole_pools)
        ids = block.examples["example_id"].to_list()
        self.ids += [ids[e] for e in np.flatnonzero(keep)]
        for policy in self.policies:
            base, then = (evaluator.part(part) for part in policy.parts)
            gained, tokens = gain(base, then, block)
            self.gains.setdefault(policy.name, []).append(gained[keep])
            self.tokens.setdefault(policy.name, []).append(tokens[keep])

    def choices(self) -> dict[str, frozenset[str]]:
        """Ids by policy: floor(r n + 0.5) of the n examples by gain; ties: fewer action tokens, then example_id."""
        chosen = {}
        for policy in self.policies:
            gained = np.concatenate(self.gains.get(policy.name, [np.zeros(0)]))
            tokens = np.concatenate(self.tokens.get(policy.name, [np.zeros(0)]))
            place = np.argsort(np.argsort(np.array([name.encode() for name in self.ids], dtype=object)))
            first = np.nan_to_num(-gained, nan=np.inf)
            order = np.lexsort((place, np.nan_to_num(tokens, nan=np.inf), first))
            count = floor(float(policy.rate or 0.0) * len(self.ids) + 0.5)
            chosen[policy.name] = frozenset(self.ids[e] for e in order[:count])
        return chosen
