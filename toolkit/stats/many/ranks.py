"""The table `ranks`: which policies differ, how certain the Pareto front is, and the corrected values of chosen
policies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolkit.stats.bootstrap.bootstrap import PRODUCT_ROWS, product_threads
from toolkit.stats.bootstrap.influence import MetricSeries, influences
from toolkit.stats.bootstrap.pairs import PairCounts
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesResults
from toolkit.stats.limits.clusters import FEWEST_CLUSTERS
from toolkit.stats.limits.discordant import tango_limits
from toolkit.stats.limits.student import agree_on_zero, shared_level, single_critical_value
from toolkit.stats.many.simultaneous import FEW_UNITS, MOST_PAIRED, RankRoles, covariance_of, normal_draws, rank_claims
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import SUM_BITS, round_to_bits
from toolkit.stats.metrics.spill import Floats, Ints

RANKS_SCHEMA = {
    "policy": pl.String, "metric": pl.String, "rank_low": pl.Int64, "rank_high": pl.Int64, "ties": pl.Boolean,
    "p_leader": pl.Float64, "p_baseline": pl.Float64, "baseline_low": pl.Float64, "baseline_high": pl.Float64,
    "front_share": pl.Float64, "tried": pl.Int64, "corrected": pl.Float64, "corrected_low": pl.Float64,
    "corrected_high": pl.Float64,
}  # fmt: skip
NO_RANKS = pl.DataFrame(schema=RANKS_SCHEMA)


@dataclass(frozen=True)
class RankedPolicies:
    """What is ranked: numbers of the ranking metric and the cost, the policies that take part, each one's sweep."""

    metric: int
    cost: int | None
    standing: RankRoles
    leader: int  # its number among the references
    sweeps: Sequence[str]


def ranks_of(
    sample: WholeSample, ranking: RankedPolicies, results: SeriesResults, pairs: PairCounts, settings: Settings
) -> pl.DataFrame:
    """The table `ranks`: for each policy a row of the metric that ranks and a row of the cost, where it has a value.

    `rank_low`, `rank_high`: the ranks that it may have, all of a metric at once; `ties`: not told apart from the
    leader; `p_leader`: adjusted for all pairs, and no smaller than alone where the two are not told apart alone;
    `p_baseline`: adjusted for all differences to the baseline (the first reference of `results` and `pairs`), and no
    smaller than alone, with the limits `baseline_low` and `baseline_high` that hold for all of these and are nowhere
    narrower than those of `results`; `front_share` (at the cost): share of draws in which it is on the Pareto front,
    of 100 units or more; `tried`, `corrected` with its limits (at the metric): of one that was chosen, among how many,
    and its value corrected for that.
    """
    size = len(sample.policies)
    numbers = [ranking.metric, *([] if ranking.cost in (None, ranking.metric) else [ranking.cost])]
    values = np.full((len(numbers), len(RANKS_SCHEMA) - 2, size), np.nan)
    wanted = [MetricSeries.of(sample, number, range(size)) for number in numbers]
    if sample.units.count >= (2 if sample.has_single_units else FEWEST_CLUSTERS):
        covariance = _joint_covariance(sample, wanted)
        start = 0
        for place, one in enumerate(wanted):
            here = slice(start, start := start + len(one))
            block = _joint_covariance(sample, [one]) if covariance is None else covariance[here, here]
            values[place, :7], critical = rank_claims(sample, one, ranking.standing, block, settings)
            alike = one.owner == one.owner[ranking.standing.leader]
            _cap_by_single_comparison(values[place, :4], ranking, alike, numbers[place], results, pairs, settings.level)
            if ranking.standing.baseline is not None:
                slot = SeriesKind.DIFFERENCE, 0, numbers[place]
                alone = np.fmax(results.p_value[slot], pairs.exact_p[0, numbers[place]])
                values[place, 4] = np.maximum(values[place, 4], alone)
                values[place, 5:7] = _baseline_limits(
                    sample, numbers[place], values[place, 5:7], critical, results, pairs, settings
                )
                low, high, p_value = values[place, [5, 6, 4]]
                values[place, [5, 6, 4]] = agree_on_zero(results.value[slot], low, high, p_value, settings.level)
                values[place, 5:7, ranking.standing.baseline] = np.nan
        if covariance is not None and len(wanted) > 1 and sample.units.kish >= FEW_UNITS:
            values[1, 7] = _front_shares(wanted[0], wanted[1], covariance, ranking.standing.among, settings)
    if sample.units.count >= LEAST_UNITS:
        values[0, 8:] = _corrected_values(sample, ranking, wanted, results, settings)
    return pl.concat(
        _rank_frame(sample, number, one, rows) for number, one, rows in zip(numbers, wanted, values, strict=True)
    )


def _cap_by_single_comparison(
    rows: Floats, ranking: RankedPolicies, alike: NDArray[np.bool_], metric: int, results: SeriesResults,
    pairs: PairCounts, level: float,
) -> None:  # fmt: skip
    """Clears claims in `rows` (ranks, tie and p-value of the difference to the leader) that are surer than the single
    comparison: a policy that its own difference does not tell apart from the leader stays tied with it. `alike` (P,):
    the leader, and those whose outcomes equal its own, which share its ranks.

    What tells two apart jointly is normal; with few examples, or a long tail, the interval of one pair is wider.
    """
    number = ranking.leader
    alone = np.fmax(results.p_value[SeriesKind.DIFFERENCE, number, metric], pairs.exact_p[number, metric])
    unsure = ~np.isnan(rows[3]) & (alone > 1 - level)
    rows[3, unsure] = np.maximum(rows[3], alone)[unsure]
    tied = unsure & (rows[2] == 0)
    rows[0, tied] = rows[2, tied] = 1.0
    rows[1, alike] += tied.sum()


def _joint_covariance(sample: WholeSample, series: Sequence[MetricSeries]) -> Floats | None:
    """The joint covariance of all series. None where one series has too many members, or all have together."""
    together = sum(map(len, series))
    few = max(map(len, series)) <= MOST_PAIRED and together <= sample.units.most_statistics
    return covariance_of(influences(sample, series)) if few else None


def _rank_frame(sample: WholeSample, number: int, series: MetricSeries, values: Floats) -> pl.DataFrame:
    """The rows of the table `ranks` for one metric."""
    has = np.flatnonzero(series.owner >= 0)
    columns = dict(zip(list(RANKS_SCHEMA)[2:], values[:, has], strict=True))
    frame = pl.DataFrame(
        {
            "policy": pl.Series([sample.policies[p] for p in has], dtype=pl.String),
            "metric": pl.Series([sample.metrics[number].name] * len(has), dtype=pl.String),
            **{name: pl.Series(row, dtype=pl.Float64, nan_to_null=True) for name, row in columns.items()},
        }
    )
    return frame.cast(RANKS_SCHEMA)  # type: ignore[arg-type]


def _front_shares(
    quality: MetricSeries, cost: MetricSeries, covariance: Floats, among: Sequence[int], settings: Settings
) -> Floats:
    """The share of the draws (P,) in which each policy is on the Pareto front, among policies that can lead."""
    shares = np.full(len(quality.owner), np.nan)
    some = np.array([p for p in among if quality.owner[p] >= 0 and cost.owner[p] >= 0], np.int64)
    if not len(some):
        return shares
    both = np.stack([quality.owner[some], cost.owner[some]])
    (upper, lower), point = np.unique(both, axis=1, return_inverse=True)
    sign, split = -1 if quality.metric.column.cost else 1, len(quality)
    points = (
        (sign * (quality.value[upper, None] + block[:split][upper]), cost.value[lower, None] + block[split:][lower])
        for block in normal_draws(covariance, settings)
    )
    on = sum(is_on_front(merit, paid).sum(axis=1) for merit, paid in points)
    shares[some] = (on / settings.resamples)[point.ravel()]
    return shares


def _corrected_values(
    sample: WholeSample,
    ranking: RankedPolicies,
    series: Sequence[MetricSeries],
    results: SeriesResults,
    settings: Settings,
) -> Floats:
    """The number tried, corrected value and its limits (4, P), of the leader and the best of each sweep."""
    out = np.full((4, len(sample.policies)), np.nan)
    quality, falling = series[0], series[0].metric.column.cost
    some = [p for p in ranking.standing.among if quality.owner[p] >= 0]
    if len(some) < 2:
        return out
    values = [_values_on_halves(sample, one, settings.seed) for one in series]
    low, high = (side[SeriesKind.VALUE, 0, ranking.metric] for side in (results.low, results.high))
    share = quality.metric.column.share
    least, most = 0.0 if share or quality.metric.never_negative else -np.inf, 1.0 if share else np.inf
    families: dict[str, list[int]] = {}
    for policy in some:
        families.setdefault(ranking.sweeps[policy], []).append(policy)
    for family in (*reversed(families.values()), some):  # the leader's last
        if len(family) < 2:
            continue
        halves = [
            np.where((one.owner[family] >= 0)[:, None], both[:, one.owner[family]], np.nan)
            for one, both in zip(series, values, strict=True)
        ]
        corrected = _held_out_value_of_best(halves[0], halves[1] if len(halves) > 1 else None, falling)
        best = sample.best_policy(ranking.metric, ranking.cost, family)
        moved = corrected - sample.estimates[ranking.metric, best]
        ends = (low[best], high[best] + moved) if falling else (low[best] + moved, high[best])
        out[:, best] = len(family), corrected, max(min(ends), least), min(max(ends), most)
    return out


def is_on_front(quality: Floats, cost: Floats) -> NDArray[np.bool_]:
    """Whether each point is on its draw's Pareto front, (P, draws). Points equal in quality and cost count as one."""
    order = np.lexsort((-quality, cost), axis=0)
    ordered = np.take_along_axis(quality, order, axis=0)
    best = np.maximum.accumulate(ordered, axis=0)
    on = np.ones(quality.shape, bool)
    on[1:] = ordered[1:] > best[:-1]
    out = np.empty(quality.shape, bool)
    np.put_along_axis(out, order, on, axis=0)
    return out


SPLITS = 10

LEAST_UNITS = 4
"""The least number of units for splitting them into halves."""

STREAM = 32
"""Added to the seed so that splits and resamples use different random numbers."""


def random_halves(units: int, seed: int, stratum: Ints | None = None) -> NDArray[np.bool_]:
    """Random halves of the units (SPLITS, units) bool: true for one half. Each takes half of every stratum."""
    first = np.arange(units) < units // 2
    if stratum is None:
        return np.stack([np.random.default_rng([seed, STREAM, i]).permutation(first) for i in range(SPLITS)])
    out = np.zeros((SPLITS, units), bool)
    for one in np.unique(stratum).tolist():
        place = np.flatnonzero(stratum == one)
        side = np.arange(len(place)) < (len(place) + one % 2) // 2  # of odd strata now more, now less
        for i in range(SPLITS):
            out[i, place] = np.random.default_rng([seed, STREAM, i, one + 1]).permutation(side)
    return out


def _values_on_halves(sample: WholeSample, series: MetricSeries, seed: int) -> Floats:
    """The value of each series on one half of the units and on the other, (2, S, SPLITS)."""
    index, place = np.unique(series.statistics, return_inverse=True)
    side = random_halves(sample.units.count, seed, sample.units.stratum).astype(np.float64).T
    sums = np.zeros((len(index), SPLITS))
    statistics = [sample.scan.statistics[i] for i in index]
    with product_threads():
        for chunk, cut, rows in sample.units.rows_by_chunk(statistics, min(PRODUCT_ROWS, sample.units.most_statistics)):
            sums[cut] += rows @ side[chunk * CHUNK : chunk * CHUNK + rows.shape[1]]
    sums = round_to_bits(sums, SUM_BITS)
    others = round_to_bits(sample.scan.total[index][:, None] - sums, SUM_BITS)
    place = place.reshape(series.statistics.shape).T
    values = [series.metric.value([half[i] for i in place]) for half in (sums, others)]
    return np.stack([np.broadcast_to(value, (len(series), SPLITS)) for value in values])


def _held_out_value_of_best(quality: Floats, cost: Floats | None, falling: bool) -> float:
    """Chooses the best policy on one half and averages its value on the other half. NaN where no half offers both.

    `quality`, `cost`: values (2, P, SPLITS) on the halves, NaN where a policy has none. Of equal quality the cheaper is
    chosen, then the first. `falling`: less of the quality is better.
    """
    scores = []
    for choosing, scoring in ((0, 1), (1, 0)):
        merit = -quality[choosing] if falling else quality[choosing]
        merit = np.round(np.where(np.isnan(merit), -np.inf, merit), 12)
        tied = merit == merit.max(axis=0)
        paid = np.full(merit.shape, np.inf)
        if cost is not None:
            paid = np.where(tied & ~np.isnan(cost[choosing]), cost[choosing], np.inf)
        cheapest = paid.min(axis=0)
        best = np.argmax(tied & (paid <= cheapest + 1e-12 * np.abs(cheapest)), axis=0)
        scores.append(quality[scoring][best, np.arange(SPLITS)])
    known = np.concatenate(scores)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else float("nan")


TANGO = METHOD_NAMES.index("tango")


def _baseline_limits(
    sample: WholeSample, metric: int, joint: Floats, critical: float, results: SeriesResults, pairs: PairCounts,
    settings: Settings,
) -> Floats:  # fmt: skip
    """Joint limits (2, P) of a metric's differences to the baseline, the first reference of `results` and `pairs`.

    `joint` (2, P) are difference ± `critical` · error, NaN where two policies have equal outcomes. What has Tango's
    interval alone has it here at the level of the critical value. Everything else reaches at least as far as its limits
    alone, moved outward by as much as the critical value is above that of a single difference: what corrects these for
    few errors or for a long tail is needed here too. Without limits alone there are none.
    """
    slot = (SeriesKind.DIFFERENCE, 0, metric)
    value, low, high = results.value[slot], results.low[slot], results.high[slot]
    single = single_critical_value(settings.level, sample.units.kish)
    wider = max(1.0, critical / single) if critical == critical else 1.0
    least, most = np.fmin(joint[0], value - wider * (value - low)), np.fmax(joint[1], value + wider * (high - value))
    one, two = pairs.first[0, metric], pairs.second[0, metric]
    on = np.flatnonzero((results.method[slot] == TANGO) & ~np.isnan(one))
    if len(on) and critical == critical:
        level = max(settings.level, shared_level(critical, sample.units.kish))
        trials = pairs.trials[0, metric, on] if not sample.has_single_units else sample.counts[metric, on]
        least[on], most[on] = tango_limits(one[on], two[on], trials, level)
    if sample.metrics[metric].column.share:
        least, most = np.maximum(least, -1.0), np.minimum(most, 1.0)
    return np.where(np.isnan(low), np.nan, [least, most])
