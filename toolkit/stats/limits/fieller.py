"""Fieller's interval for a ratio of two means, with a critical value for heavy tails, and the moments of costs that it
needs.

A ratio p/b is not ruled out while the mean of x − R·y over the units is not significantly different from 0. For
symmetric x − R·y the critical value is Student's t with n − 1 degrees of freedom, and the limits are roots of a
quadratic (E. C. Fieller, JRSS B 16 (1954) 175). On the side on which a skew sample may have missed its tail, the
critical value is raised as the studentised bootstrap raises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial

import numpy as np

from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.limits.student import single_critical_value
from toolkit.stats.limits.studentised import Spread
from toolkit.stats.metrics.metrics import Metric
from toolkit.stats.metrics.scan import Scan, Units
from toolkit.stats.metrics.spill import Floats, Ints

DOUBLINGS, HALVINGS = 24, 44
"""Steps for bracketing a limit with a raised critical value, outward from Student's, and then for bisecting it."""


@dataclass(frozen=True, eq=False)
class PairMoments:
    """Means and central moments over n units of pairs (x, y). `xxy` is the mean of (x − mean)²·(y − mean), etc."""

    units: int
    x: Floats
    y: Floats
    xx: Floats
    xy: Floats
    yy: Floats
    xxx: Floats
    xxy: Floats
    xyy: Floats
    yyy: Floats

    def of(self, index: Ints) -> PairMoments:
        return PairMoments(self.units, *(getattr(self, name)[index] for name in _ARRAYS))

    def spread(self, ratio: Floats) -> Spread:
        """The second and third central moments of x − ratio·y."""
        second = np.maximum(self.xx - 2 * ratio * self.xy + ratio**2 * self.yy, 0.0)
        third = self.xxx - 3 * ratio * self.xxy + 3 * ratio**2 * self.xyy - ratio**3 * self.yyy
        return Spread(second, third)


_ARRAYS = [field.name for field in fields(PairMoments) if field.name != "units"]


def join_pair_moments(parts: Sequence[PairMoments]) -> PairMoments:
    """Appends lists of pairs that were measured on the same units to one list."""
    return PairMoments(parts[0].units, *(np.concatenate([getattr(part, name) for part in parts]) for name in _ARRAYS))


def moment_sums(x: Floats, y: Floats) -> Floats:
    """Sums over units of products of x and y, (pairs or 1, units) each, in the order of `PairMoments`: (7, pairs)."""
    xx, yy, xy = x * x, y * y, x * y
    sums = [one.sum(axis=1) for one in (xx, xy, yy, xx * x, xx * y, x * yy, yy * y)]
    return np.stack(np.broadcast_arrays(*sums))


def fieller_limits(
    pairs: PairMoments, level: float, kish: float | None = None, tails: bool = True
) -> tuple[Floats, Floats]:
    """Limits of the ratio mean x / mean y; NaN where mean y is not significantly different from 0, so that none exists.

    `kish`: of how many clusters of equal size the units are worth; one less are the degrees of freedom. `tails`:
    whether a skew sample may have missed its tail, as of costs; else the limits are Fieller's own.
    For x = 1, 2, 3 and y = 2, 2, 2 the t interval of mean x, 2 ± 4.303·√(1/3), is divided by 2: −0.242 to 2.242.
    """
    student, normal = single_critical_value(level, kish or pairs.units), NORMAL.inv_cdf((1 + level) / 2)
    ends = [_fieller_limit(pairs, student, side) for side in (-1, 1)]
    if tails:
        ends = [_skewness_limit(pairs, end, student, normal, side) for end, side in zip(ends, (-1, 1), strict=True)]
    missing = np.isnan(ends[0]) | np.isnan(ends[1])
    return np.where(missing, np.nan, ends[0]), np.where(missing, np.nan, ends[1])


def _fieller_limit(pairs: PairMoments, critical: float, side: int) -> Floats:
    """The lower (−1) or upper (1) limit R of the ratio: (x̄ − R·ȳ)² = critical² · variance of the mean of x − R·y."""
    share = critical**2 / (pairs.units - 1)
    square = pairs.y**2 - share * pairs.yy
    middle = pairs.x * pairs.y - share * pairs.xy
    inside = middle**2 - square * (pairs.x**2 - share * pairs.xx)
    # Where x is a multiple of y, rounding leaves something of what cancels.
    inside = np.where(np.abs(inside) <= 1e-14 * middle**2, 0.0, inside)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(square > 0, (middle + side * np.sqrt(inside)) / square, np.nan)


def _skewness_limit(pairs: PairMoments, end: Floats, student: float, normal: float, side: int) -> Floats:
    """A limit with the critical value raised for the skewness of x − R·y; never nearer to the ratio than before."""

    def is_excluded(ratio: Floats, index: np.ndarray) -> np.ndarray:
        some = pairs.of(index)
        spread = some.spread(ratio)
        mean = some.x - ratio * some.y
        # Beyond the ratio the mean has one sign: as if the sample had missed a tail on the other side.
        deviation = np.sign(mean) * normal * np.sqrt(spread.second / some.units)
        variance = spread.second**2 / spread.variance_at(deviation, times=0)
        variance = np.maximum(np.where(spread.second > 0, variance, 0.0), spread.second)
        return np.asarray(mean**2 * (some.units - 1) > student**2 * variance)

    with np.errstate(invalid="ignore", divide="ignore"):
        which = np.flatnonzero(~np.isnan(end))
        beyond = end[which] + side * 1e-9 * np.abs(end[which])
        which = which[~is_excluded(beyond, which)]
        if not len(which):
            return end
        ratio, near = (pairs.x / pairs.y)[which], end[which]
        step = np.maximum(np.abs(near - ratio), 1e-9 * np.abs(ratio))
        far = near + side * step
        for _ in range(DOUBLINGS):
            inside = ~is_excluded(far, which)
            if not inside.any():
                break
            near, step = np.where(inside, far, near), np.where(inside, 2 * step, step)
            far = np.where(inside, far + side * step, far)
        excluded_far = is_excluded(far, which)
        for _ in range(HALVINGS):
            middle = (near + far) / 2
            inside = ~is_excluded(middle, which)
            near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    out = end.copy()
    out[which] = np.where(excluded_far, far, np.nan)
    return out


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
        """The central moments of mean costs (`number` 0), or of their differences to reference `number` − 1."""
        at = number, metric, policies
        return Spread(self.second[at], self.third[at])

    def pair_moments(self, number: int, metric: int, policies: Ints, reference: int, means: Floats) -> PairMoments:
        """Costs paired with those of reference `number`, the policy `reference`. `means` (policies,) are all means."""
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
    """The central moments of every mean of a cost. `valued` (metrics, policies) says which have a value."""
    shape = len(metrics), valued.shape[1]
    out = CostMoments(
        units.count,
        np.full((1 + len(references), *shape), np.nan),
        np.full((1 + len(references), *shape), np.nan),
        np.full((len(references), *shape), np.nan),
    )
    for m, metric in enumerate(metrics):
        if metric.is_mean_cost and valued[m].any():
            _fill_moments(units, scan, metric, m, np.flatnonzero(valued[m]), references, valued[m], out)
    return out


def _centred_contributions(rows: Floats, mean: Floats, weight: int) -> Floats:
    """What each unit adds to a mean's deviation, from the unit's sum and weight: (sum − mean · weight)."""
    return np.asarray(rows - mean[:, None] * rows[weight])


def _fill_moments(
    units: Units, scan: Scan, metric: Metric, m: int, policies: Ints, references: Sequence[int], known: np.ndarray,
    out: CostMoments,
) -> None:  # fmt: skip
    """Writes one metric's moments into `out`. Policies whose units all add the same share one series."""
    owners: dict[int, list[int]] = {}
    for p in policies.tolist():
        owners.setdefault(scan.index[metric.statistics(p)[0]], []).append(p)
    weight = scan.index[metric.statistics(0)[1]]
    others = {number: scan.index[metric.statistics(p)[0]] for number, p in enumerate(references) if known[p]}
    sums, size = list(owners), max(1, min(ROWS, units.most_statistics - len(others) - 1))
    for part in (sums[start : start + size] for start in range(0, len(sums), size)):
        wanted = list(dict.fromkeys([*part, *others.values(), weight]))
        row = {number: place for place, number in enumerate(wanted)}
        size_here, mean = len(part), scan.total[wanted] / scan.total[weight]
        added = np.zeros((2 + 3 * len(others), size_here))
        statistics = [scan.statistics[i] for i in wanted]
        for moved in units.residuals(statistics, partial(_centred_contributions, mean=mean, weight=row[weight])):
            x = moved[:size_here]
            square = x * x
            moments = [square.sum(axis=1), np.einsum("pu,pu->p", square, x)]
            for number in others.values():
                y = moved[row[number]]
                apart = x - y
                squared = apart * apart
                cubes = np.einsum("pu,pu->p", squared, apart), np.einsum("pu,u->p", square, y)
                moments += [squared.sum(axis=1), *cubes]
            added += moments
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
