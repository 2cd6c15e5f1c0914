"""Which of several policies is worth its tokens: the best that costs no more, and how far a policy is behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


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
