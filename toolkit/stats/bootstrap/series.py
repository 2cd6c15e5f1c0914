"""Series: each metric of each policy, its differences to the references and reductions, resampled and summed up.

Policies are worked on in groups, so that resampled sums stay within memory, and a group's series in batches. The same
small functions are applied to the whole sample, to resamples and to samples that leave one unit out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from types import MappingProxyType

import numpy as np

from toolkit.progress import progress
from toolkit.stats.bootstrap.bootstrap import ResampledSums, resampled_sums
from toolkit.stats.limits.fieller import CostMoments
from toolkit.stats.limits.intervals import ResampledValues, bca_acceleration
from toolkit.stats.limits.studentised import FEW_UNITS, null_mean, studentised_limits
from toolkit.stats.metrics.metrics import Metric
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.resamples import THREADS, Settings
from toolkit.stats.metrics.scan import SUM_BITS, Scan, Units, round_to_bits
from toolkit.stats.metrics.spill import Floats, Ints

SUMS_BYTES = 128 * 2**20
"""Resampled sums in memory at one time."""

BATCH_BYTES = 12 * 2**20
"""Resampled sums in one batch of series; the allocator reuses small arrays only."""


METHOD_NAMES = (
    None, "percentile", "bca", "wilson", "newcombe", "tango", "korn-graubard", "t",
    "studentised", "studentised_few", "fieller", "fieller_few", "jaccard", "jaccard_few", "delta",
    "bca_tail", "korn-graubard_few", "t_few", "graded", "graded_few", "graded_tango",
)  # fmt: skip
"""The names of interval methods; `SeriesResults.method` holds their numbers."""


class SeriesKind(IntEnum):
    """The kind of a series: values of a metric, differences to a reference, or reductions (1 − ratio to a
    reference).
    """

    VALUE = 0
    DIFFERENCE = 1
    REDUCTION = 2


Slot = tuple[SeriesKind, int]
"""The kind of a series and the number of the reference, 0 for values."""


@dataclass(frozen=True, eq=False)
class SeriesResults:
    """The results of every series, arrays (kinds, references, metrics, policies), NaN without a result. Values stand at
    reference 0.
    """

    value: Floats  # in the whole sample
    low: Floats
    high: Floats
    p_value: Floats
    method: np.ndarray  # uint8 numbers of METHOD_NAMES
    valued_share: np.ndarray  # float32 share of resamples with a value; NaN where none were drawn

    @classmethod
    def of(cls, plan: SeriesPlan) -> SeriesResults:
        """Results that hold the plan's values in the whole sample, and no interval yet."""
        shape = (len(SeriesKind), max(1, len(plan.references)), *plan.valued.shape)
        value, low, high, p_value = (np.full(shape, np.nan) for _ in range(4))
        row = np.arange(len(plan.scan.statistics))
        for batch in _series_batches(plan, range(plan.valued.shape[1]), 1):
            for slot, values in batch.values(plan.scan.total[:, None], row):
                for owners, one in zip(batch.owners, values[:, 0], strict=True):
                    value[(*slot, batch.metric, owners)] = one
        return cls(value, low, high, p_value, np.zeros(shape, np.uint8), np.full(shape, np.nan, np.float32))

    def set_interval(
        self, slot: Slot, metric: int, policies: int | Sequence[int] | Ints,
        low: float | Floats, high: float | Floats, p_value: float | Floats, method: str | None,
    ) -> None:  # fmt: skip
        """Sets the interval, p-value and method of one policy's series, or of several policies'."""
        at = (*slot, metric, policies)
        self.low[at], self.high[at], self.p_value[at] = low, high, p_value
        self.method[at] = METHOD_NAMES.index(method)

    def remove_intervals(self, slot: Slot, metric: int, policies: int | Ints) -> None:
        """Removes the intervals of some policies' series, which keep their values."""
        self.set_interval(slot, metric, policies, np.nan, np.nan, np.nan, None)
        self.valued_share[(*slot, metric, policies)] = np.nan

    def widen(self, slot: Slot, metric: int, policies: Ints, low: Floats, high: Floats, p_value: Floats) -> None:
        """Moves limits out to `low` and `high` where these lie farther from the value, and takes the larger p-value."""
        at = (*slot, metric, policies)
        self.low[at] = np.minimum(self.low[at], low)
        self.high[at] = np.maximum(self.high[at], high)
        self.p_value[at] = np.maximum(self.p_value[at], p_value)


@dataclass(frozen=True)
class SeriesPlan:
    """What is resampled: the metrics that have a value for each policy, and the references to compare with."""

    metrics: Sequence[Metric]
    valued: np.ndarray  # (metrics, policies) bool
    references: Sequence[int]  # policies that others are compared with
    scan: Scan
    _indices: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict, repr=False, compare=False)

    def indices(self, metric: int, policy: int) -> tuple[int, ...]:
        """The places in the scan of the statistics that a metric's value for a policy is computed from."""
        key = metric, policy
        if key not in self._indices:
            self._indices[key] = tuple(self.scan.index[s] for s in self.metrics[metric].statistics(policy))
        return self._indices[key]

    def known_references(self, metric: int) -> list[tuple[int, int]]:
        """The references that have a value of this metric, each as (its number among the references, its policy)."""
        return [(number, policy) for number, policy in enumerate(self.references) if self.valued[metric, policy]]


@dataclass(frozen=True)
class _SeriesBatch:
    """Distinct series of one metric; `owners[i]` are the policies that share series i."""

    plan: SeriesPlan
    metric: int
    series: tuple[tuple[int, ...], ...]
    owners: tuple[tuple[int, ...], ...]

    def values(self, sums: Floats, row: Ints, reductions: bool = True) -> Iterator[tuple[Slot, Floats]]:
        """Yields (slot, values (series, N)) computed from sums (statistics, N). `row`: the row of each scan number."""
        metric = self.plan.metrics[self.metric]
        rows = row[np.array(self.series, np.int64)]  # (series, statistics)
        # A statistic that all series share is given once and broadcasts.
        value = metric.value([sums[some[:1] if (some == some[0]).all() else some] for some in rows.T])
        value = np.broadcast_to(value, (len(rows), value.shape[1]))
        yield (SeriesKind.VALUE, 0), value
        for number, policy in self.plan.known_references(self.metric):
            other = metric.value([sums[[row[i]]] for i in self.plan.indices(self.metric, policy)])
            with np.errstate(invalid="ignore"):  # of two infinite ones it is unknown
                difference = value - other
            yield (SeriesKind.DIFFERENCE, number), difference
            if metric.column.cost and reductions:
                with np.errstate(invalid="ignore", divide="ignore"):
                    yield (SeriesKind.REDUCTION, number), 1 - value / np.where(other == 0, np.nan, other)


@dataclass(frozen=True)
class SumsReader:
    """What is computed from resampled sums beside the series: the `statistics` of each policy, by their numbers in the
    scan, and `read`, which takes some policies and the sums.
    """

    statistics: Mapping[int, frozenset[int]] = field(default_factory=dict)
    read: Callable[[Sequence[int], ResampledSums], None] = lambda policies, sums: None


def resample(
    units: Units, plan: SeriesPlan, settings: Settings, results: SeriesResults, moments: CostMoments | None = None,
    further: SumsReader = SumsReader(),
) -> None:  # fmt: skip
    """Writes the interval and p-value of every series into `results`, by percentile or BCa.

    With `moments` means of costs with long tails are studentised, and the differences that it has; reductions of costs
    are left out. `further`: what else is read from the sums.
    """
    resamples = units.resamples(settings)
    groups = list(_policy_groups(units, plan, settings.resamples, further.statistics))
    space = None
    with progress("resampling", sum(map(len, groups)), "policies") as advance:
        for group in groups:
            needed = _statistic_places(plan, group).union(*(further.statistics.get(p, ()) for p in group))
            sums = resampled_sums(units, plan.scan, needed, resamples, space)
            further.read(group, sums)
            batches = _series_batches(plan, group, settings.resamples)
            corrections: Corrections | None = None
            if settings.method == "bca":  # the jackknife's acceleration: each unit is taken from the totals in turn
                points, left_out = _jackknife_sums(units, plan.scan, sums.index, sums.row, batches)
                sizes = np.bincount(units.stratum)[:, None] if units.stratum is not None else np.array([[units.count]])
                corrections = {key: (points[key], bca_acceleration(sizes, *d)) for key, d in left_out.items()}
            work = partial(
                _record_intervals,
                sums=sums,
                corrections=corrections,
                moments=moments,
                settings=settings,
                results=results,
            )
            with ThreadPoolExecutor(THREADS) as pool:  # each batch writes series of its own
                list(pool.map(work, batches))
            space = sums.values
            advance(len(group))


def resampled_values(units: Units, plan: SeriesPlan, settings: Settings) -> Iterator[tuple[Sequence[int], Floats]]:
    """Yields (policies, resampled values (B,)) of each distinct series without references, NaN where there is none."""
    resamples = units.resamples(settings)
    for group in _policy_groups(units, plan, settings.resamples):
        sums = resampled_sums(units, plan.scan, _statistic_places(plan, group), resamples)
        for batch in _series_batches(plan, group, settings.resamples):
            for _, values in batch.values(sums.values, sums.row):
                yield from zip(batch.owners, values, strict=True)


def _statistic_places(plan: SeriesPlan, group: Sequence[int]) -> set[int]:
    """The places in the scan of the statistics that a group of policies and the references need."""
    return {
        i
        for metric in range(len(plan.metrics))
        for policy in {*group, *plan.references}
        if plan.valued[metric, policy]
        for i in plan.indices(metric, policy)
    }


def _policy_groups(
    units: Units, plan: SeriesPlan, resamples: int, further: Mapping[int, frozenset[int]] = MappingProxyType({})
) -> Iterator[list[int]]:
    """Splits the policies into groups whose distinct statistics fit in memory. Each group has at least one policy.
    `further`: other statistics of each.
    """
    most = min(units.most_statistics, SUMS_BYTES // (8 * resamples))
    base = len(_statistic_places(plan, []))
    group: list[int] = []
    held: set[int] = set()
    for policy in range(plan.valued.shape[1]):
        needs = {i for m in range(len(plan.metrics)) if plan.valued[m, policy] for i in plan.indices(m, policy)}
        needs |= further.get(policy, frozenset())
        if group and base + len(held | needs) > most:
            yield group
            group, held = [], set()
        group.append(policy)
        held |= needs
    if group:
        yield group


def _series_batches(plan: SeriesPlan, group: Sequence[int], resamples: int) -> list[_SeriesBatch]:
    """The group's distinct series, metric by metric, in batches that fit in memory."""
    batches = []
    for metric in range(len(plan.metrics)):
        owners: dict[tuple[int, ...], list[int]] = {}
        for policy in group:
            if plan.valued[metric, policy]:
                owners.setdefault(plan.indices(metric, policy), []).append(policy)
        series = list(owners)
        if not series:
            continue
        size = max(1, BATCH_BYTES // (8 * resamples * len(series[0])))
        for start in range(0, len(series), size):
            part = tuple(series[start : start + size])
            batches.append(_SeriesBatch(plan, metric, part, tuple(tuple(owners[s]) for s in part)))
    return batches


Corrections = Mapping[tuple[int, Slot], tuple[Floats, Floats]]
"""(batch by identity, slot) -> value in the whole sample and acceleration (series,), each."""


def _jackknife_sums(
    units: Units, scan: Scan, index: Ints, row: Ints, batches: Sequence[_SeriesBatch]
) -> tuple[dict[tuple[int, Slot], Floats], dict[tuple[int, Slot], Floats]]:
    """The values in the whole sample (series,) by (batch by identity, slot), and sums of d, d² and d³ over the units of
    each stratum, (3, strata, series). Here d is the value without a unit, less the value of the whole sample.

    `index`: the statistics of the scan that are needed; `row`: their places in it.
    """
    whole = scan.total[index]
    exact = scan.constant[index] & (units.weight is None)
    totals = np.where(exact, whole, round_to_bits(whole, SUM_BITS))[:, None]  # as resampled sums
    points = {(id(b), slot): values for b in batches for slot, values in b.values(totals, row)}
    moments = {key: np.zeros((3, units.stratum_count, len(values))) for key, values in points.items()}
    start = 0
    for rows in units.chunks([scan.statistics[i] for i in index]):
        left = totals - rows  # (statistics, units of the chunk): sums without each unit
        for batch in batches:
            for slot, values in batch.values(left, row):
                moved = values - points[id(batch), slot]
                powers = (moved, moved**2, moved**3)
                moments[id(batch), slot] += np.stack([units.sums_by_stratum(power, start) for power in powers])
        start += rows.shape[1]
    return {key: values[:, 0] for key, values in points.items()}, moments


def jackknife_moments(units: Units, plan: SeriesPlan, settings: Settings) -> tuple[Floats, Floats]:
    """Sums of d and of d² over the units of each stratum of every series, (strata, kinds, references, metrics,
    policies) each. Here d is the value without a unit, less the value; NaN where one has no value.
    """
    shape = (units.stratum_count, len(SeriesKind), max(1, len(plan.references)), *plan.valued.shape)
    first, second = np.full(shape, np.nan), np.full(shape, np.nan)
    for group in _policy_groups(units, plan, settings.resamples):
        index = np.array(sorted(_statistic_places(plan, group)), np.int64)
        row = np.full(len(plan.scan.statistics), -1)
        row[index] = np.arange(len(index))
        batches = _series_batches(plan, group, CHUNK)
        owners = {id(batch): batch for batch in batches}
        for (batch, slot), (one, two, _) in _jackknife_sums(units, plan.scan, index, row, batches)[1].items():
            for number, policies in enumerate(owners[batch].owners):
                at = (slice(None), *slot, owners[batch].metric, policies)
                first[at], second[at] = one[:, number, None], two[:, number, None]
    return first, second


def _record_intervals(
    batch: _SeriesBatch, sums: ResampledSums, corrections: Corrections | None, moments: CostMoments | None,
    settings: Settings, results: SeriesResults,
) -> None:  # fmt: skip
    """Turns one batch's resampled sums into intervals and p-values in `results`."""
    metric = batch.plan.metrics[batch.metric]
    tails = not (metric.is_mean_cost and metric.column.rate)  # few examples may carry much of the sum
    for slot, values in batch.values(sums.values, sums.row, reductions=moments is None or not metric.is_mean_cost):
        drawn, null = ResampledValues.of(values), np.zeros(len(values))
        if corrections is None:
            low, high = drawn.percentile_limits(settings.level)
            methods = np.full(len(values), "percentile", object)
        else:
            low, high, corrected = drawn.bca_limits(settings.level, *corrections[id(batch), slot])
            tail = metric.column.cost and not metric.column.rate
            methods = np.where(corrected, "bca_tail" if tail else "bca", "percentile").astype(object)
        if moments is not None and tails and slot[0] is not SeriesKind.REDUCTION:
            first = [owners[0] for owners in batch.owners]
            spread = moments.spread(slot[1] + slot[0], batch.metric, first)  # values, then differences in turn
            estimate, moves = results.value[(*slot, batch.metric, first)], spread.second > 0
            limits = studentised_limits(estimate, low, high, spread)
            low, high = (np.where(moves, one, other) for one, other in zip(limits, (low, high), strict=True))
            null = np.where(moves, null_mean(estimate, spread), null)
            methods[moves] = method_name("studentised", np.inf if metric.column.rate else moments.units)
        enough = drawn.has_enough
        p_values = np.full(len(values), np.nan) if slot[0] is SeriesKind.VALUE else drawn.p_values(null)
        for i, owners in enumerate(batch.owners):
            results.valued_share[(*slot, batch.metric, owners)] = drawn.valued[i] / settings.resamples
            if enough[i]:
                results.set_interval(slot, batch.metric, owners, low[i], high[i], p_values[i], methods[i])


def method_name(method: str, units: float) -> str:
    """The method's name, with the ending that marks limits of few units where `units` are few."""
    return f"{method}_few" if units < FEW_UNITS else method
