"""Whom policies choose that rank all examples of a run, as the oracle at a matched rate does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor

import numpy as np

from replay.data.block import LogBlock
from replay.policies.base import Evaluator, Policy


@dataclass
class MatchedRates:
    """Gathers, block by block, what each example compared would gain under each policy that ranks them."""

    policies: Sequence[Policy]
    ids: list[str] = field(default_factory=list)
    gains: dict[str, list[np.ndarray]] = field(default_factory=dict)
    tokens: dict[str, list[np.ndarray]] = field(default_factory=dict)

    def add(self, block: LogBlock, keep: np.ndarray) -> None:
        """The examples of a block where `keep` (E,) is true."""
        evaluator = Evaluator(block, self.policies)
        ids = block.examples["example_id"].to_list()
        self.ids += [ids[e] for e in np.flatnonzero(keep)]
        for policy in self.policies:
            gained, tokens = policy.gain(evaluator)
            self.gains.setdefault(policy.name, []).append(gained[keep])
            self.tokens.setdefault(policy.name, []).append(tokens[keep])

    def choices(self) -> dict[str, frozenset[str]]:
        """Ids by policy: floor(r n + 0.5) of the n examples by gain; ties: fewer action tokens, then example_id."""
        chosen = {}
        place = np.argsort(np.argsort(np.array([name.encode() for name in self.ids], dtype=object)))
        for policy in self.policies:
            gained = np.concatenate(self.gains.get(policy.name, [np.zeros(0)]))
            tokens = np.concatenate(self.tokens.get(policy.name, [np.zeros(0)]))
            first = np.nan_to_num(-gained, nan=np.inf)
            order = np.lexsort((place, np.nan_to_num(tokens, nan=np.inf), first))
            count = floor((policy.share or 0.0) * len(self.ids) + 0.5)
            chosen[policy.name] = frozenset(self.ids[e] for e in order[:count])
        return chosen
