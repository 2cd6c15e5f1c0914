"""The whole sample of a run: the value of every metric of every policy, before resampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.columns import OutcomeColumn, column_or_metric
from toolkit.errors import EmptyError
from toolkit.stats.bootstrap.series import SeriesPlan
from toolkit.stats.limits.intervals import MIN_EVENTS
from toolkit.stats.metrics.metrics import Metric, Statistic, cost_column, metrics_of_run, rank_key
from toolkit.stats.metrics.outcomes import Blocks, Store
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import SCAN_ROWS, Scan, Units, scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import effective_units

PRICED_BY = ("device_s", "latency_s")
"""The columns of seconds that euros may be computed from; the first that any policy has counts."""


@dataclass(frozen=True, eq=False)
class WholeSample:
    """Every metric of every policy on the whole sample, and the data from which resamples of it are drawn."""

    units: Units
    scan: Scan
    policies: tuple[str, ...]
    metrics: tuple[Metric, ...]
    rows: np.ndarray  # (metrics, policies) bool: the table has this row
    estimates: Floats  # (metrics, policies), NaN: no value
    counts: np.ndarray  # (metrics, policies) examples
    judged: int
    seconds: str | None  # the column euros come from

    def series_plan(self, references: Sequence[int]) -> SeriesPlan:
        """The plan to resample every value in the table, and its differences to these references."""
        return SeriesPlan(self.metrics, self.has_value, references, self.scan)

    @property
    def has_single_units(self) -> bool:
        """Whether every resampling unit is one example, which counts as much as any other."""
        return self.units.count == self.units.examples and self.units.weight is None

    def events_if_few(self, metric: int, policy: int) -> tuple[float, int] | None:
        """The events and trials of a rate that needs a score interval because one kind of event is rare; else None.

        With fewer than ten of either kind, of independent examples that are 0 or 1.
        """
        one = self.metrics[metric]
        if not (one.column.rate and self.has_single_units and self.rows[metric, policy]):
            return None
        number = self.scan.index[one.statistics(policy)[0]]
        events, count = self.events_and_trials(metric, policy)
        few = self.scan.binary[number] and min(events, count - events) < MIN_EVENTS
        return (events, count) if few else None

    def events_and_trials(self, metric: int, policy: int) -> tuple[float, int]:
        """The number of events and of trials of a policy's rate."""
        number = self.scan.index[self.metrics[metric].statistics(policy)[0]]
        return float(self.scan.count[number]), int(self.counts[metric, policy])

    def fractional_policies(self, metric: int) -> tuple[Ints, Floats]:
        """The policies (P,) whose values of a rate are fractions on some example. With them come (4, P): the mean, the
        mean square, the number of known examples, and the number of those that are not 0, or not 1, if these are fewer.
        """
        one, index = self.metrics[metric], self.scan.index
        on = np.flatnonzero(self.rows[metric] & (self.counts[metric] > 1)) if one.column.rate else np.zeros(0, np.int64)
        value, weight = (
            np.array([[index[s] for s in one.statistics(p)] for p in on.tolist()], np.int64).reshape(-1, 2).T
        )
        some = ~self.scan.binary[value] & (self.scan.reach[value] <= 1) & self.scan.binary[weight]
        on, value, weight = on[some], value[some], weight[some]
        sums = np.zeros((3, len(on)))
        for start in range(0, len(on), SCAN_ROWS):
            cut = slice(start, start + SCAN_ROWS)
            wanted, place = np.unique(np.concatenate([value[cut], weight[cut]]), return_inverse=True)
            for rows in self.units.example_rows([self.scan.statistics[i] for i in wanted]):
                x, known = rows[place].reshape(2, -1, rows.shape[1])
                sums[:, cut] += (x**2).sum(axis=1), (x > 0).sum(axis=1), (known > x).sum(axis=1)
        n = self.scan.total[weight]
        mean, square = self.scan.total[value] / n, sums[0] / n
        if self.units.strata is not None and len(on):  # what varies between strata is no luck
            statistics = [self.scan.statistics[i] for i in (*value, *weight)]
            events, known = np.split(self.units.by_stratum(statistics, lambda rows: rows), 2, axis=1)
            square = square - (events**2 / np.maximum(known, 1)).sum(axis=0) / n + mean**2
        return on, np.stack([mean, square, n, np.minimum(sums[1], sums[2])])

    def is_rate(self, metric: int) -> bool:
        """Whether a metric's values are shares, or counts (such as of second calls) of at most one an example."""
        one = self.metrics[metric]
        if not one.column.rate:
            return False
        on = np.flatnonzero(self.rows[metric])
        if not len(on):
            return False
        value, weight = np.array([[self.scan.index[s] for s in one.statistics(p)] for p in on.tolist()]).T
        return bool((self.scan.reach[value] <= self.scan.reach[weight]).all())

    def most_trials(self, metric: int, policies: Ints) -> Floats:
        """The largest effective number of trials that a rate over clusters may count as. It is the number of examples
        where values are 0 or 1 and there is one stratum, else infinite.
        """
        if self.units.strata is not None:
            return np.full(len(policies), np.inf)
        value = [self.scan.index[self.metrics[metric].statistics(p)[0]] for p in policies.tolist()]
        return np.where(self.scan.integer[value], self.counts[metric, policies], np.inf)

    def known_units(self) -> tuple[Floats, Floats]:
        """The number of resampling units with a value, (strata, metrics, policies), and the number of units of equal
        size in one stratum that they count as, (metrics, policies).
        """
        counted = {
            (m, p): self.scan.index[one.counts(p)[0]]
            for m, one in enumerate(self.metrics)
            for p in np.flatnonzero(self.rows[m]).tolist()
        }
        numbers = np.unique(list(counted.values())).astype(np.int64)
        statistics, step = [self.scan.statistics[i] for i in numbers], min(SCAN_ROWS, self.units.most_statistics)
        sums = np.zeros((3, self.units.stratum_count, len(numbers)))
        for start in range(0, len(numbers), step):
            cut = slice(start, start + step)
            parts = self.units.by_stratum(statistics[cut], lambda rows: np.concatenate([rows > 0, rows, rows**2]))
            sums[:, :, cut] = np.stack(np.split(parts, 3, axis=1))
        known, effective = sums[0], effective_units(sums[1], np.maximum(sums[2], 1e-300))
        count, kish = np.zeros((self.units.stratum_count, *self.rows.shape)), np.zeros(self.rows.shape)
        for place, number in counted.items():
            here = int(np.searchsorted(numbers, number))
            count[(slice(None), *place)], kish[place] = known[:, here], effective[here]
        return count, kish

    def cost_metric(
        self, among: Sequence[int], columns: Sequence[OutcomeColumn], cost: str | None = None
    ) -> int | None:
        """The number of the metric that is the cost: the one named, else the first known; None where it's no metric."""
        names = [m.name for m in self.metrics]

        def known(name: str) -> np.ndarray:
            return self.has_value[names.index(name)] if name in names else np.zeros(len(self.policies), bool)

        column = cost_column(
            lambda name: bool(known(name)[list(among)].all()), lambda name: bool(known(name).any()), columns, cost
        )
        return names.index(str(column.metric)) if known(str(column.metric)).any() else None

    @property
    def has_value(self) -> np.ndarray:
        """Whether each metric has a value for each policy, (metrics, policies) bool."""
        return self.rows & ~np.isnan(self.estimates)

    def best_policy(self, metric: int, cost: int | None, among: Sequence[int]) -> int | None:
        """The policy of `among` that is best by a metric, then cheapest, then first; None when none has a value."""
        merit = -self.estimates[metric] if self.metrics[metric].column.cost else self.estimates[metric]
        paid = np.full(len(self.policies), np.nan)
        if cost is not None:
            paid = np.where(self.has_value[cost], self.estimates[cost], np.nan)
        ranked = [
            rank_key(float(merit[p]), None if math.isnan(paid[p]) else float(paid[p]), p)
            for p in among
            if self.has_value[metric, p]
        ]
        return min(ranked)[2] if ranked else None


def read_sample(
    outcomes: Blocks | Store,
    policies: Sequence[str],
    labels: Sequence[str] | None,
    settings: Settings,
    columns: Sequence[OutcomeColumn],
    metric: str,
) -> WholeSample:
    """Reads the outcomes once and computes every metric of every policy, with a row of `metric` for each."""
    twice = sorted({p for p in policies if list(policies).count(p) > 1}) if len(set(policies)) < len(policies) else []
    if not policies or twice:
        what = f"two policies are called `{twice[0]}`: rename one" if twice else "no policy to summarise"
        raise EmptyError(what)
    if isinstance(outcomes, Store):
        store = outcomes
    else:
        store = Store.of_blocks(outcomes, len(policies), None if labels is None else len(labels))
    if not store.chunks:
        raise EmptyError("no example to summarise: every one was left out")
    keys, everyone = store.keys, range(len(policies))
    plain = metrics_of_run(keys, labels, settings, None, columns)
    verdicts = Statistic("judged", " ".join(key for key in keys if column_or_metric(key, columns).judges))
    statistics = [Statistic("size"), verdicts]
    statistics += [Statistic("has", key, p) for key in keys for p in everyone]
    statistics += [s for metric in plain for p in everyone for s in (*metric.statistics(p), *metric.counts(p))]
    units = Units(store)
    scan = scan_statistics(units, statistics)

    def statistic_counts(statistics: Sequence[Sequence[Statistic]]) -> Floats:
        return scan.count[[[scan.index[one] for one in row] for row in statistics]]

    def known(key: str) -> np.ndarray:
        return statistic_counts([(Statistic("has", key, p),) for p in everyone])[:, 0] > 0

    seconds = next((key for key in PRICED_BY if key in keys and known(key).any()), None)
    metrics = metrics_of_run(keys, labels, settings, seconds, columns)
    rows = np.ones((len(metrics), len(policies)), bool)
    estimates = np.full(rows.shape, np.nan)
    counts = np.zeros(rows.shape, np.int64)
    for m, one in enumerate(metrics):
        column = one.column
        estimates[m] = one.value(list(scan.totals([one.statistics(p) for p in everyone]).T))
        counts[m] = np.rint(statistic_counts([one.counts(p) for p in everyone]).sum(axis=1))
        for part in (part for part in one.component_metrics if part.column.cost):
            counted = np.rint(statistic_counts([part.counts(p) for p in everyone]).sum(axis=1))
            estimates[m, counted < units.examples] = np.nan
        if not column.computed and one.name != metric:
            rows[m] = counts[m].any() if column.cost and not column.sparse else counts[m] > 0
        if column.needs in keys:
            rows[m] &= known(str(column.needs))
    judged = round(statistic_counts([(verdicts,)])[0, 0])
    return WholeSample(units, scan, tuple(policies), tuple(metrics), rows, estimates, counts, judged, seconds)
