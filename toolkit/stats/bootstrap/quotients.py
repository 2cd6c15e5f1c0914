"""Fieller's intervals where a cost is divided by something: reductions, and costs per right answer or the like."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from toolkit.stats.bootstrap.series import SeriesKind, SeriesPlan, SeriesResults, few_or
from toolkit.stats.limits.cost_moments import ROWS, CostMoments
from toolkit.stats.limits.fieller import PairMoments, fieller_limits, joined, moment_sums
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.metrics import Metric
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import Units

Asked = tuple[PairMoments, Callable[[Floats, Floats], None]]
"""Pairs, and what is done with their limits."""


def quotients(units: Units, plan: SeriesPlan, moments: CostMoments, results: SeriesResults, settings: Settings) -> None:
    """The intervals of all reductions of means of costs, and of the costs that are divided by another mean.

    The units are examples or clusters: of these the sums are divided, so their sizes may differ.
    """
    asked = list(_asked(units, plan, moments, results))
    if not asked:
        return
    low, high = fieller_limits(joined([pairs for pairs, _ in asked]), settings.level)  # roots of all at once
    ends = np.cumsum([len(pairs.x) for pairs, _ in asked])[:-1]
    for (_, put), *limits in zip(asked, np.split(low, ends), np.split(high, ends), strict=True):
        put(*limits)


def _asked(units: Units, plan: SeriesPlan, moments: CostMoments, results: SeriesResults) -> Iterator[Asked]:
    for m, metric in enumerate(plan.metrics):
        if metric.of_cost:
            for number, reference in plan.compared(m):
                yield _reductions(plan, moments, results, m, number, reference)
        elif metric.over_mean is not None:
            over, under = metric.over_mean
            scale = _factor(over) * metric.column.per, _factor(under)
            valued = np.flatnonzero(plan.valued[m])
            for start in range(0, len(valued), ROWS):
                yield _ratios(units, plan, m, scale, results, valued[start : start + ROWS])


def _reductions(
    plan: SeriesPlan, moments: CostMoments, results: SeriesResults, m: int, number: int, reference: int
) -> Asked:
    """1 − ratio to the reference; its p-value is that of the difference, since both are 0 together.

    Where no unit could change the ratio it is exact: two constants, equal costs, or none at all.
    """
    slot = SeriesKind.REDUCTION, number
    on = np.flatnonzero(plan.valued[m] & ~np.isnan(results.value[(*slot, m)]))
    pairs = moments.pairs(number, m, on, reference, results.value[SeriesKind.VALUE, 0, m])
    value, p_value = results.value[(*slot, m, on)], results.p_value[SeriesKind.DIFFERENCE, number, m, on]
    still = moments.second[number + 1, m, on] == 0
    exact = (still & (value == 0)) | ((pairs.xx == 0) & ((pairs.yy == 0) | (pairs.x == 0)))
    results.put(slot, m, on[exact], value[exact], value[exact], p_value[exact], "percentile")
    some = np.flatnonzero(~exact)

    def put(low: Floats, high: Floats) -> None:
        known = ~np.isnan(low)
        found, p_values = on[some[known]], p_value[some[known]]
        results.put(slot, m, found, 1 - high[known], 1 - low[known], p_values, few_or("fieller", moments.units))

    return pairs.of(some), put


def _ratios(
    units: Units, plan: SeriesPlan, m: int, scale: tuple[float, float], results: SeriesResults, on: Ints
) -> Asked:
    """One mean over another of the same policy, for the policies `on`."""
    slot = SeriesKind.VALUE, 0
    pairs = _pair_moments(units, plan, m, scale, on)
    moves = (pairs.xx > 0) | (pairs.yy > 0)

    def put(low: Floats, high: Floats) -> None:
        known, gone = moves & ~np.isnan(low), on[moves & np.isnan(low)]
        results.put(slot, m, on[known], low[known], high[known], np.nan, few_or("fieller", units.count))
        results.put(slot, m, gone, np.nan, np.nan, np.nan, None)
        results.kept[(*slot, m, gone)] = np.nan

    return pairs, put


def _pair_moments(units: Units, plan: SeriesPlan, m: int, scale: tuple[float, float], policies: Ints) -> PairMoments:
    """Moments of what each unit adds to the mean above the line, in the ratio's unit, and to the one below."""
    numbers = np.array([plan.indices(m, p) for p in policies.tolist()], np.int64)
    wanted = np.unique(numbers)
    row = np.searchsorted(wanted, numbers)  # (policies, sum and weight of each of the two)
    totals = plan.scan.total[numbers]
    means = [scale[i] * totals[:, 2 * i] / totals[:, 2 * i + 1] for i in (0, 1)]
    sums = np.zeros((7, len(policies)))
    for rows in units.chunks([plan.scan.statistics[i] for i in wanted]):
        x, y = (
            (scale[i] * rows[row[:, 2 * i]] - means[i][:, None] * rows[row[:, 2 * i + 1]])
            * (units.count / totals[:, 2 * i + 1])[:, None]
            for i in (0, 1)
        )
        sums += moment_sums(x, y)
    return PairMoments(units.count, *means, *(sums / units.count))


def _factor(metric: Metric) -> float:
    """What a mean is multiplied with."""
    return float(metric.value([np.ones((1, 1)), np.ones((1, 1))])[0, 0])
