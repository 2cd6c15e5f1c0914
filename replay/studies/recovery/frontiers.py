"""The figure of quality against cost, from cells of a study's tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolkit.show import FrontierPoint, ShownInterval, pareto_front


def frontier_points(
    cells: Mapping[str, tuple[ShownInterval | None, ShownInterval | None]],
    baseline: str,
    diagnostic: Collection[str] = (),
) -> dict[str, FrontierPoint]:
    """Points by policy, from its cost and its quality; without those of which either is not known.

    `diagnostic` policies are never on the Pareto front.
    """
    known = {
        name: (cost, quality) for name, (cost, quality) in cells.items() if cost is not None and quality is not None
    }
    front = pareto_front({n: (c.estimate, q.estimate) for n, (c, q) in known.items() if n not in diagnostic})
    return {
        name: FrontierPoint(
            name=name, cost=cost.estimate, cost_low=cost.low, cost_high=cost.high, accuracy=quality.estimate,
            low=quality.low, high=quality.high, on_front=name in front, diagnostic=name in diagnostic,
            baseline=name == baseline,
        )
        for name, (cost, quality) in known.items()
    }  # fmt: skip
