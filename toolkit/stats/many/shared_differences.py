"""Differences of two policies over the examples on which both have a value, of columns that few examples have.

The difference of two means, each over a policy's own examples, would compare other examples: how late one policy is
on the errors that only it finds. Limits are percentiles of the run's resamples. Of independent examples Student's lie
beside them on fewer than twenty, where they reach farther; rates of which fewer than ten differ have Tango's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from toolkit.stats.bootstrap.bootstrap import resampled_sums
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesResults
from toolkit.stats.limits.clusters import student
from toolkit.stats.limits.discordant import EXACT_PAIRS, mid_p, tango
from toolkit.stats.limits.intervals import ResampledValues
from toolkit.stats.metrics.metrics import Statistic
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import scan_statistics
from toolkit.stats.metrics.spill import Floats, Ints

FEW = 20
"""Examples below which Student's limits have their say."""


def share_differences(
    sample: WholeSample, references: Sequence[int], results: SeriesResults, settings: Settings
) -> Ints:
    """Put the differences of `shared` columns to the references into `results`; of how many examples every difference
    is, (references, metrics, policies).
    """
    counts = np.minimum(sample.counts[None], sample.counts[:, references].T[:, :, None])
    cells = [
        (number, m, p)
        for m, one in enumerate(sample.metrics)
        if one.column.shared
        for number, reference in enumerate(references)
        for p in np.flatnonzero(sample.rows[m] & sample.rows[m, reference]).tolist()
        if p != reference
    ]
    if not cells:
        return counts
    statistics = [_difference_statistics(sample, m, p, references[number]) for number, m, p in cells]
    scan = scan_statistics(sample.units, [one for row in statistics for one in row])
    where = np.array([[scan.index[one] for one in row] for row in statistics]).T
    value = _difference_of_sums(scan.total[where][..., None])[:, 0]
    n, at = np.rint(scan.count[where[2]]).astype(np.int64), (SeriesKind.DIFFERENCE, *np.array(cells).T)
    counts[at[1:]] = n
    low, high, p_values = (np.full(len(cells), np.nan) for _ in range(3))
    methods = np.zeros(len(cells), np.uint8)
    if sample.units.count > 1:
        resamples = sample.units.resamples(settings)
        sums = resampled_sums(sample.units, scan, set(where.ravel().tolist()), resamples)
        drawn = ResampledValues.of(_difference_of_sums(sums.values[sums.row[where]]))
        low, high = (np.where(drawn.enough, end, np.nan) for end in drawn.percentile(settings.level))
        p_values = np.where(drawn.enough, drawn.p_values(), np.nan)
        methods[drawn.enough] = METHOD_NAMES.index("percentile")
    if sample.independent:
        move, squares = value * n, _sums_of_squares(sample, [scan.statistics[i] for i in where[:2].T.ravel()])
        rate = np.array([sample.metrics[m].column.rate for _, m, _ in cells])
        scarce = np.flatnonzero(rate & (n > 0) & (squares < EXACT_PAIRS))
        up, down = (np.rint((squares[scarce] + sign * move[scarce]) / 2) for sign in (1, -1))
        low[scarce], high[scarce] = tango(up, down, n[scarce], settings.level)
        p_values[scarce], methods[scarce] = mid_p(up, down), METHOD_NAMES.index("tango")
        few = np.flatnonzero(~rate & (n < FEW) & (n > 1))
        spread, size = np.maximum(squares[few] / n[few] - value[few] ** 2, 0), n[few].astype(np.float64)
        limits = student(value[few], spread / (size - 1), size, settings.level)
        low[few], high[few] = np.fmin(low[few], limits[0]), np.fmax(high[few], limits[1])
        p_values[few], methods[few] = np.fmax(p_values[few], limits[2]), METHOD_NAMES.index("t_few")
    for part, values in (
        (results.value, value), (results.low, low), (results.high, high), (results.p_value, p_values),
        (results.method, methods),
    ):  # fmt: skip
        part[at] = values
    return counts


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
