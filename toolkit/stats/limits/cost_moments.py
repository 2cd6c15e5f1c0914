"""How costs spread over the resampling units, which their intervals are made of: one pass over the units a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.stats.limits.fieller import PairMoments
from toolkit.stats.limits.studentised import Spread
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.metrics import Metric
from toolkit.stats.metrics.scan import Scan, Units

ROWS = 512
"""Series worked on at once; only memory depends on it."""

STILL = 1e-10
"""A standard deviation below this share of the largest value is rounding: nothing varies."""


@dataclass(frozen=True, eq=False)
class CostMoments:
    """Central moments of the means of costs and of their differences to references, over `units` units.

    A mean is a sum over a weight, so what a unit adds to it is the unit's sum less the mean times its weight, over the
    mean weight. `second`, `third`: (1 + references, metrics, policies), the means themselves first; NaN for all that is
    no mean of a cost. `mixed`: (references, metrics, policies), mean of (x − x̄)²·(y − ȳ), y the reference's.
    """

    units: int
    second: Floats
    third: Floats
    mixed: Floats

    def spread(self, number: int, metric: int, policies: Sequence[int] | Ints) -> Spread:
        """Of the means (number 0), or of the differences to reference `number` − 1."""
        at = number, metric, policies
        return Spread(self.second[at], self.third[at])

    def pairs(self, number: int, metric: int, policies: Ints, reference: int, means: Floats) -> PairMoments:
        """Of policies with reference `number`, which is the policy `reference`; `means` (policies,) of all policies."""
        ones = np.ones(len(policies))
        xx, yy = self.second[0, metric, policies], self.second[0, metric, reference] * ones
        xxx, yyy = self.third[0, metric, policies], self.third[0, metric, reference] * ones
        xxy = self.mixed[number, metric, policies]
        xy = (xx + yy - self.second[number + 1, metric, policies]) / 2
        xyy = (self.third[number + 1, metric, policies] - xxx + 3 * xxy + yyy) / 3
        return PairMoments(self.units, means[policies], means[reference] * ones, xx, xy, yy, xxx, xxy, xyy, yyy)


def cost_moments(
    units: Units, scan: Scan, metrics: Sequence[Metric], valued: np.ndarray, references: Sequence[int]
) -> CostMoments:
    """The moments of every mean of a cost. `valued`: (metrics, policies), which have a value."""
    shape = len(metrics), valued.shape[1]
    out = CostMoments(
        units.count,
        np.full((1 + len(references), *shape), np.nan),
        np.full((1 + len(references), *shape), np.nan),
        np.full((len(references), *shape), np.nan),
    )
    for m, metric in enumerate(metrics):
        if metric.of_cost and valued[m].any():
            _fill(units, scan, metric, m, np.flatnonzero(valued[m]), references, valued[m], out)
    return out


def _fill(
    units: Units, scan: Scan, metric: Metric, m: int, policies: Ints, references: Sequence[int], known: np.ndarray,
    out: CostMoments,
) -> None:  # fmt: skip
    """One metric's moments. Policies whose units all add the same share one series."""
    owners: dict[int, list[int]] = {}
    for p in policies.tolist():
        owners.setdefault(scan.index[metric.statistics(p)[0]], []).append(p)
    weight = scan.index[metric.statistics(0)[1]]
    others = {number: scan.index[metric.statistics(p)[0]] for number, p in enumerate(references) if known[p]}
    sums, size = list(owners), max(1, min(ROWS, units.most_statistics - len(others) - 1))
    for part in (sums[start : start + size] for start in range(0, len(sums), size)):
        wanted = list(dict.fromkeys([*part, *others.values(), weight]))
        row = {number: place for place, number in enumerate(wanted)}
        own, mean = len(part), scan.total[wanted] / scan.total[weight]
        added = np.zeros((2 + 3 * len(others), own))
        for rows in units.chunks([scan.statistics[i] for i in wanted]):
            moved = rows - mean[:, None] * rows[row[weight]]
            x = moved[:own]
            square = x * x
            found = [square.sum(axis=1), (square * x).sum(axis=1)]
            for number in others.values():
                y = moved[row[number]]
                apart = x - y
                squared = apart * apart
                found += [squared.sum(axis=1), (squared * apart).sum(axis=1), (square * y).sum(axis=1)]
            added += found
        # From sums over units to moments of the mean in its own unit.
        scale = float(metric.value([np.ones((1, 1)), np.ones((1, 1))])[0, 0]) * units.count / scan.total[weight]
        reach = scan.reach[part]
        columns = np.concatenate([np.full(len(owners[number]), i) for i, number in enumerate(part)])
        who = np.concatenate([owners[number] for number in part])
        still = added[0] <= units.count * (STILL * reach) ** 2
        out.second[0, m, who] = np.where(still, 0.0, added[0] / units.count * scale**2)[columns]
        out.third[0, m, who] = np.where(still, 0.0, added[1] / units.count * scale**3)[columns]
        for i, (number, other) in enumerate(others.items()):
            second, third, mixed = added[2 + 3 * i : 5 + 3 * i]
            still = second <= units.count * (STILL * (reach + scan.reach[other])) ** 2
            out.second[number + 1, m, who] = np.where(still, 0.0, second / units.count * scale**2)[columns]
            out.third[number + 1, m, who] = np.where(still, 0.0, third / units.count * scale**3)[columns]
            out.mixed[number, m, who] = (mixed / units.count * scale**3)[columns]
