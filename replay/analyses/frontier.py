"""The joint frontier: initial budgets crossed with interventions, and the best policy that costs no more than each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from replay.kinds.act import Act
from replay.kinds.sample import attempt
from replay.kinds.when import When
from replay.policies.base import Policy
from replay.policies.gates import Gate


@dataclass(frozen=True)
class FrontierStep:
    """A policy with the best that costs at most as much, itself on the front; none where its cost is not known."""

    name: str
    best: str | None

    @property
    def on_front(self) -> bool:
        """Whether nothing that costs no more is better."""
        return self.best == self.name


def steps(points: Mapping[str, tuple[float | None, float | None]]) -> list[FrontierStep]:
    """Policies by cost, from (quality, cost) of each; those of unknown cost last."""
    ordered = sorted(points, key=lambda name: (points[name][1] is None, points[name][1] or 0.0, name))

    def best(name: str) -> str | None:
        paid = points[name][1]
        rivals = [one for one in ordered if paid is not None and (cost := points[one][1]) is not None and cost <= paid]
        return max(rivals, key=lambda one: points[one][0] or 0.0, default=None)

    return [FrontierStep(name, best(name)) for name in ordered]


def crossed(pool: str, acts: Mapping[str, Act], gate: Gate | None) -> dict[str, list[Policy]]:
    """By action, a pool's attempts always revised, and revised where a gate without a model fires."""
    found: dict[str, list[Policy]] = {}
    for action, act in acts.items():
        always = replace(act, name=f"{pool} + {action} always")
        found[action] = [always]
        if gate is not None:
            name = f"{pool} + {action} when truncated"
            found[action].append(When(name=name, base=attempt(pool, pool), gate=gate, then=always))
    return found
