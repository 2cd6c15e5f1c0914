"""Influences: by how much each unit moves an estimate, to first order (the delta method).

A metric is a function of sums over units, so a unit moves it by the function's derivatives times what the unit adds to
the sums. Means, ratios where values are missing, and F1 are all served alike. A metric that does not change when all
sums are doubled has influences that add up to 0 (Euler's theorem), as all metrics here have. Of several strata they are
those within each: less their mean there, times √(n/(n − 1) · (N − 1)/N) for n of N units, so that the divisor N − 1 of
all is that of each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.stats.bootstrap.bootstrap import PRODUCT_ROWS
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.metrics.metrics import Metric
from toolkit.stats.metrics.spill import Floats, Ints

STEP = 1e-6
"""The step of a sum, relative to it, for its derivative by central differences."""


@dataclass(frozen=True, eq=False)
class MetricSeries:
    """The distinct estimates of one metric. Policies share one where each unit adds the same to the sums of both.

    `owner` (P,): the series of each policy, −1 where it has no value; `value` (S,); `statistics` (S, sums): numbers in
    the scan.
    """

    metric: Metric
    owner: Ints
    value: Floats
    statistics: Ints

    @classmethod
    def of(cls, sample: WholeSample, metric: int, policies: Sequence[int]) -> MetricSeries:
        """The distinct estimates of a metric for those of `policies` that have a value."""
        one = sample.metrics[metric]
        numbers: dict[tuple[int, ...], int] = {}
        owner = np.full(len(sample.policies), -1, np.int64)
        value: list[float] = []
        for policy in policies:
            if sample.rows[metric, policy] and np.isfinite(sample.estimates[metric, policy]):
                key = tuple(sample.scan.index[statistic] for statistic in one.statistics(policy))
                owner[policy] = numbers.setdefault(key, len(numbers))
                value += [float(sample.estimates[metric, policy])] * (len(numbers) > len(value))
        width = len(one.statistics(0))
        return cls(one, owner, np.array(value), np.array(list(numbers), np.int64).reshape(-1, width))

    def __len__(self) -> int:
        return len(self.value)

    def at_places(self, index: Ints) -> MetricSeries:
        """The series at the places `index`. It has no `owner`, as not every policy has a series in it."""
        return MetricSeries(self.metric, np.zeros(0, np.int64), self.value[index], self.statistics[index])


def _metric_derivatives(metric: Metric, sums: Floats) -> Floats:
    """Derivatives (series, sums) of a metric by each of its sums (series, sums), by central differences."""
    out = np.empty(sums.shape)
    for place in range(sums.shape[1]):
        step = STEP * np.where(sums[:, place] == 0, 1.0, np.abs(sums[:, place]))
        sides = []
        for sign in (1, -1):
            moved = sums.copy()
            moved[:, place] += sign * step
            sides.append(metric.value(list(moved.T)))
        out[:, place] = (sides[0] - sides[1]) / (2 * step)
    return np.nan_to_num(out)


def influences(sample: WholeSample, series: Sequence[MetricSeries]) -> Iterator[Floats]:
    """Yields each unit's influence on each estimate, (all series one after the other, units), by chunks of units."""
    stratum = sample.units.stratum
    if stratum is None:
        yield from _unstratified_influences(sample, series)
        return
    sizes, every = np.bincount(stratum), sample.units.count
    sums, start = np.zeros((sum(map(len, series)), len(sizes))), 0
    for block in _unstratified_influences(sample, series):
        sums += sample.units.sums_by_stratum(block, start).T
        start += block.shape[1]
    mean, start = sums / sizes, 0
    times = np.sqrt(sizes / np.maximum(sizes - 1, 1) * (every - 1) / every)
    for block in _unstratified_influences(sample, series):
        here = stratum[start : start + block.shape[1]]
        yield (block - mean[:, here]) * times[here]
        start += block.shape[1]


def _unstratified_influences(sample: WholeSample, wanted: Sequence[MetricSeries]) -> Iterator[Floats]:
    """Yields influences, a chunk of units at a time, as if all units lay in one stratum."""
    index = np.unique(np.concatenate([one.statistics.ravel() for one in wanted]))
    terms = list(_derivative_terms(sample, wanted, index))
    statistics = [sample.scan.statistics[i] for i in index]
    units, size = sample.units, sum(map(len, wanted))
    most = min(PRODUCT_ROWS, units.most_statistics)
    held: dict[int, Floats] = {}
    # Of examples the cuts come chunk by chunk; clusters are added up over all chunks, cut by cut.
    for chunk, cut, rows in units.rows_by_chunk(statistics, most):
        if chunk not in held:
            held[chunk] = np.zeros((size, rows.shape[1]))
        for series, statistic, weight in terms:
            here = (statistic >= cut.start) & (statistic < cut.stop)
            held[chunk][series[here]] += weight[here, None] * rows[statistic[here] - cut.start]
        if units.plain and cut.stop == len(statistics):
            yield held.pop(chunk)
    yield from held.values()


def _derivative_terms(
    sample: WholeSample, series: Sequence[MetricSeries], index: Ints
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """Yields the sums that a metric is made of: the series that have one, its places in `index`, its derivatives."""
    start = 0
    for one in series:
        weights = _metric_derivatives(one.metric, sample.scan.total[one.statistics])
        for statistics, weight in zip(one.statistics.T, weights.T, strict=True):
            yield start + np.arange(len(one)), np.searchsorted(index, statistics), weight
        start += len(one)
