"""Differences of two policies over the examples on which both have a value, of columns that few examples have.

The difference of two means, each over a policy's own examples, would compare other examples: how late one policy is
on the errors that only it finds. Limits are percentiles of the run's resamples. Of independent examples Student's lie
beside them on fewer than twenty, where they reach farther; rates of which fewer than ten differ have Tango's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from toolkit.stats.bootstrap.bootstrap import ResampledSums
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesResults, SumsReader
from toolkit.stats.limits.clusters import student_limits
from toolkit.stats.limits.discordant import EXACT_PAIRS, mid_p_value, tango_limits
from toolkit.stats.limits.intervals import ResampledValues
from toolkit.stats.metrics.metrics import Statistic
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints

FEW = 20
"""Examples below which Student's limits have their say."""


@dataclass(frozen=True, eq=False)
class SharedDifferences:
    """The differences of `shared` columns to the references, of C pairs of policies.

    `sample`: with the sums of the pairs, too; `counts`: of how many examples every difference is, (references, metrics,
    policies); `pairs` (3, C): reference, metric and policy of each, by number; `statistics` (3, C): its sums, by their
    numbers in the scan; `limits` (3, C): lower and upper ones, and p-values, NaN where nothing was drawn.
    """

    sample: WholeSample
    counts: Ints
    pairs: Ints
    statistics: Ints
    limits: Floats

    @classmethod
    def of(cls, sample: WholeSample, references: Sequence[int]) -> SharedDifferences:
        """The differences of a sample, of which nothing is drawn yet."""
        counts = np.minimum(sample.counts[None], sample.counts[:, references].T[:, :, None])
        cells = [
            (number, m, p)
            for m, one in enumerate(sample.metrics)
            if one.column.shared
            for number, reference in enumerate(references)
            for p in np.flatnonzero(sample.rows[m] & sample.rows[m, reference]).tolist()
            if p != reference
        ]
        rows = [_difference_statistics(sample, m, p, references[number]) for number, m, p in cells]
        if rows:
            scan = sample.scan.join_scan(scan_statistics(sample.units, [one for row in rows for one in row]))
            sample = replace(sample, scan=scan)
        statistics = np.array([[sample.scan.index[one] for one in row] for row in rows], np.int64).reshape(-1, 3).T
        pairs = np.array(cells, np.int64).reshape(-1, 3).T
        return cls(sample, counts, pairs, statistics, np.full((3, len(cells)), np.nan))

    def pair_sums(self, settings: Settings) -> SumsReader:
        """The sums of the pairs, which give limits where enough resamples have a value."""

        def read(policies: Sequence[int], sums: ResampledSums) -> None:
            on = np.flatnonzero(np.isin(self.pairs[2], policies))
            drawn = ResampledValues.of(_difference_of_sums(sums.values[sums.row[self.statistics[:, on]]]))
            limits = np.stack([*drawn.percentile_limits(settings.level), drawn.p_values()])
            self.limits[:, on] = np.where(drawn.has_enough, limits, np.nan)

        policies = np.unique(self.pairs[2]).tolist()
        numbers = {p: frozenset(self.statistics[:, self.pairs[2] == p].ravel().tolist()) for p in policies}
        return SumsReader(numbers, read)

    def put_differences(self, results: SeriesResults, settings: Settings) -> None:
        """Puts the differences, with the limits that were drawn or what stands in their place, into `results`."""
        sample, where, scan = self.sample, self.statistics, self.sample.scan
        if not where.size:
            return
        value = _difference_of_sums(scan.total[where][..., None])[:, 0]
        n, at = np.rint(scan.count[where[2]]).astype(np.int64), (SeriesKind.DIFFERENCE, *self.pairs)
        self.counts[at[1:]] = n
        low, high, p_values = self.limits
        methods = np.where(np.isnan(low), 0, METHOD_NAMES.index("percentile")).astype(np.uint8)
        if sample.has_single_units:
            move, squares = value * n, _sums_of_squares(sample, [scan.statistics[i] for i in where[:2].T.ravel()])
            rate = np.array([sample.metrics[m].column.rate for m in self.pairs[1].tolist()])
            scarce = np.flatnonzero(rate & (n > 0) & (squares < EXACT_PAIRS))
            up, down = (np.rint((squares[scarce] + sign * move[scarce]) / 2) for sign in (1, -1))
            low[scarce], high[scarce] = tango_limits(up, down, n[scarce], settings.level)
            p_values[scarce], methods[scarce] = mid_p_value(up, down), METHOD_NAMES.index("tango")
            few = np.flatnonzero(~rate & (n < FEW) & (n > 1))
            spread, size = np.maximum(squares[few] / n[few] - value[few] ** 2, 0), n[few].astype(np.float64)
            limits = student_limits(value[few], spread / (size - 1), size, settings.level)
            low[few], high[few] = np.fmin(low[few], limits[0]), np.fmax(high[few], limits[1])
            p_values[few], methods[few] = np.fmax(p_values[few], limits[2]), METHOD_NAMES.index("t_few")
        for part, values in (
            (results.value, value), (results.low, low), (results.high, high), (results.p_value, p_values),
            (results.method, methods),
        ):  # fmt: skip
            part[at] = values


def _difference_statistics(
    sample: WholeSample, m: int, policy: int, reference: int
) -> tuple[Statistic, Statistic, Statistic]:
    """Sums of the policy and of the reference where both have a value, and how many these are."""
    one, other, both = (
        Statistic(kind, sample.metrics[m].column.name, policy, reference) for kind in ("shared", "other", "both")
    )
    return one, other, both


def _difference_of_sums(sums: Floats) -> Floats:
    """Difference of the means (pairs, N), from sums (3, pairs, N); NaN where no example has both."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return (sums[0] - sums[1]) / sums[2]


def _sums_of_squares(sample: WholeSample, statistics: Sequence[Statistic]) -> Floats:
    """Sums of the squared differences (pairs,) of each two statistics that follow each other."""
    alike: dict[tuple[Statistic, Statistic], int] = {}
    place = [alike.setdefault(pair, len(alike)) for pair in zip(statistics[::2], statistics[1::2], strict=True)]
    every = [one for pair in alike for one in pair]
    total = np.zeros(len(alike))
    for rows in sample.units.example_rows(every):
        total += ((rows[::2] - rows[1::2]) ** 2).sum(axis=1)
    return total[place]
