"""Differences between pairs of policies by one metric: limits that hold for all pairs at once, and fixes and flips."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.columns import OutcomeColumn
from toolkit.stats.bootstrap.bootstrap import product_threads
from toolkit.stats.bootstrap.f1_intervals import FEW_ERRORS
from toolkit.stats.bootstrap.influence import MetricSeries, influences
from toolkit.stats.bootstrap.pairs import few_clusters_differ, gains_and_losses, scale_to_whole_pairs, spread_of
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.limits.clusters import FEW_CLUSTERS
from toolkit.stats.limits.discordant import EXACT_PAIRS, FEW_PAIRS, exact_p_value, tango_limits
from toolkit.stats.limits.intervals import clip_limits
from toolkit.stats.limits.student import shared_level
from toolkit.stats.limits.studentised import FEW_UNITS, Spread, studentised_limits
from toolkit.stats.many.simultaneous import FEW_UNITS as FEW_JOINT
from toolkit.stats.many.simultaneous import (
    PAIRS_AT_ONCE,
    covariance_of,
    joint_estimates,
    may_differ_in_fewer,
    pair_claims,
)
from toolkit.stats.metrics.outcomes import Store
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.spill import Floats, Ints

MAX_T, MAX_T_FEW, TANGO, GRADED = "max-t", "max-t_few", "tango", "graded_tango"
FEWEST_UNITS = 3
"""Resampling units below which there are no limits."""


@dataclass(frozen=True, eq=False)
class _PairDifferences:
    """The comparisons of pairs of policies, whose limits hold for all pairs at once, arrays (pairs,).

    `first`, `second`: numbers of the policies; `difference`: first minus second; `low`, `high`; `p_value`: adjusted for
    all pairs; `differs`: told apart; `method`: of the limits; `fixes`, `flips`: examples on which only the first, only
    the second is right (of means over several rows: more right, less right); `n`: examples. `level`: that of a single
    interval as wide as all of them together take.
    """

    first: Ints
    second: Ints
    difference: Floats
    low: Floats
    high: Floats
    p_value: Floats
    differs: NDArray[np.bool_]
    method: NDArray[np.str_]
    fixes: Floats
    flips: Floats
    n: Ints
    level: float


def pair_differences(
    sample: WholeSample, store: Store, metric: int, pairs: tuple[Ints, Ints], settings: Settings
) -> _PairDifferences:
    """The differences between the policies of each pair, with max-t limits. Both of a pair need a value.

    A difference of outcomes of 0 and 1 with few discordant pairs gets Tango's limits at the level of the shared
    critical value; with more its limits reach at least as far, and with fewer than ten its p-value is at least
    McNemar's exact one. Limits of means of several outcomes an example reach as far as the studentised bootstrap's, and
    as Tango's where few examples differ. One that few clusters tell apart has Tango's, with these as the trials. F1s
    of which fewer than 30 examples tell two apart have no limits here; means of costs of fewer than 500 units are
    marked, and all of fewer than 100 examples or ten clusters. No limit of shares is beyond −1 and 1.
    """
    first, second = pairs
    policies = np.unique(np.concatenate([first, second]))
    series = MetricSeries.of(sample, metric, policies.tolist())
    column, units = series.metric.column, sample.units.count
    merit = -series.value if column.cost else series.value
    covariance = covariance_of(influences(sample, [series]))
    estimates = joint_estimates(sample, series, merit, covariance)
    one, other = series.owner[first], series.owner[second]
    # Policies that do the same are one: what is said of a pair is said of its copies.
    distinct, place = np.unique(np.stack([one, other]), axis=1, return_inverse=True)
    tests = pair_claims(estimates, distinct[0], distinct[1], settings)
    place = place.ravel()
    sign = -1.0 if column.cost else 1.0
    difference = sign * tests.difference[place]
    half = tests.critical * tests.error[place]
    low, high, p_value = difference - half, difference + half, tests.p_value[place]
    method = np.full(len(first), MAX_T_FEW if _rests_on_few_units(sample, column) else MAX_T, dtype="U12")
    fixes, flips = fixes_and_flips(store, first, second)
    for number, known in enumerate(sample.rows):
        if sample.metrics[number].column.name == "correct":  # policies without an accuracy have none
            fixes, flips = (np.where(known[first] & known[second], some, np.nan) for some in (fixes, flips))
    counted = sample.counts[metric]
    n = np.minimum(counted[first], counted[second])
    withheld = np.full(len(first), units < FEWEST_UNITS)
    if column.share and not column.rate:
        withheld |= fixes + flips < FEW_ERRORS
    level = shared_level(tests.critical, sample.units.kish)
    if column.rate:
        scarce = np.zeros(len(first), bool)
        if sample.has_single_units:
            up, down = _discordant_tables(sample, store, metric, pairs)
            more, less, trials = up.copy(), down.copy(), n.astype(np.float64)
            few, counted = up + down < FEW_PAIRS, ~np.isnan(up)
            on, (gains, losses, squares, cubes) = _fractional_pairs(sample, store, metric, pairs, ~counted)
            spread = spread_of(difference[on], squares / n[on], cubes / n[on])
            if sample.units.strata is not None:  # within these
                spread = Spread(tests.error[place][on] ** 2 * n[on], spread.third)
            limits = studentised_limits(difference[on], low[on], high[on], spread)
            low[on], high[on] = np.fmin(low[on], limits[0]), np.fmax(high[on], limits[1])
            more[on], less[on], trials[on] = scale_to_whole_pairs(gains, losses, squares, n[on])
            scarce[on] = more[on] + less[on] < FEW_PAIRS
            counted |= scarce
            if sample.units.strata is not None:  # as many as their variance within strata is worth
                plain = (more + less - (more - less) ** 2 / trials) / trials**2
                square = tests.error[place] ** 2
                held = few | scarce | (square == 0)
                times = np.where(held, 1.0, np.fmax(plain / np.where(square > 0, square, 1.0), 1.0))
                more, less, trials = more * times, less * times, trials * times
        else:
            (more, less, up, down), trials, few, graded = _cluster_tables(sample, store, metric, pairs)
            method[graded] = MAX_T_FEW
            counted = few
        if counted.any():
            score = np.full((2, len(first)), np.nan)
            score[:, counted] = tango_limits(more[counted], less[counted], trials[counted], level)
            low = np.where(few, score[0], np.fmin(low, score[0]))
            high = np.where(few, score[1], np.fmax(high, score[1]))
            method[few], method[scarce] = TANGO, GRADED
        rare = up + down < EXACT_PAIRS
        p_value[rare] = np.maximum(p_value[rare], exact_p_value(up[rare], down[rare]))
    if column.share:
        low, high = clip_limits(difference, low, high, -1.0, 1.0)
    for values in (low, high, p_value):
        values[withheld] = np.nan
    method[withheld] = ""
    differs = tests.differs[place] & (p_value <= 1 - settings.level + 1e-12)
    return _PairDifferences(
        first, second, difference, low, high, p_value, differs, method, fixes, flips, n.astype(np.int64), level
    )


def _rests_on_few_units(sample: WholeSample, column: OutcomeColumn) -> bool:
    """Whether the max-t limits rest on so few units that they are marked."""
    if column.cost and sample.units.kish < FEW_UNITS:
        return True
    return sample.units.kish < (FEW_JOINT if sample.has_single_units else FEW_CLUSTERS)


def _discordant_tables(sample: WholeSample, store: Store, metric: int, pairs: tuple[Ints, Ints]) -> Floats:
    """Examples that only the first, or only the second, of a pair has right (2, pairs); NaN unless all are 0 and 1."""
    index, scan, one = sample.scan.index, sample.scan, sample.metrics[metric]
    value, weight = (np.array([index[one.statistics(p)[i]] for p in range(len(sample.policies))]) for i in (0, 1))
    first, second = pairs
    same = value[first] == value[second]
    alike = weight[first] == weight[second]
    # Means over several rows are pairs only where they agree on every example.
    once = same & (scan.reach[value[first]] <= 1)
    plain = alike & (once | (scan.binary[value[first]] & scan.binary[value[second]]))
    counts = np.full((2, len(first)), np.nan)
    counts[:, plain] = fixes_and_flips(store, first[plain], second[plain], one.statistics(0)[0].key)
    return counts


def _fractional_pairs(
    sample: WholeSample, store: Store, metric: int, pairs: tuple[Ints, Ints], among: NDArray[np.bool_]
) -> tuple[Ints, Floats]:
    """Those of the pairs `among` that differ by fractions on examples that both know. With them come (4, pairs): sums
    of gains, losses, squares and cubes.
    """
    index, scan, one = sample.scan.index, sample.scan, sample.metrics[metric]
    value, weight = (np.array([index[one.statistics(p)[i]] for p in range(len(sample.policies))]) for i in (0, 1))
    first, second = pairs
    alike = (weight[first] == weight[second]) & (scan.reach[value] <= 1)[first] & (scan.reach[value] <= 1)[second]
    on = np.flatnonzero(among & alike & (value[first] != value[second]))
    sums, key = np.zeros((6, len(on))), one.statistics(0)[0].key
    for chunk in store.chunks if len(on) else ():
        rows = np.nan_to_num(chunk.values(key, np.arange(len(sample.policies))))
        for policy in np.unique(first[on]):
            mine = np.flatnonzero(first[on] == policy)
            sums[:, mine] += gains_and_losses(rows[policy] - rows[second[on[mine]]])
    return on, sums[[0, 1, 4, 5]]


def _cluster_tables(
    sample: WholeSample, store: Store, metric: int, pairs: tuple[Ints, Ints]
) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """Clusters as trials: gains, losses, clusters with more and with less (4, pairs); trials; whether few differ in 0/1
    outcomes; whether few differ in fractions (pairs,). NaN where they are no rates of the same examples, or many
    differ.
    """
    index, scan, one = sample.scan.index, sample.scan, sample.metrics[metric]
    value, weight = (np.array([index[one.statistics(p)[i]] for p in range(len(sample.policies))]) for i in (0, 1))
    first, second = pairs
    counts = np.full((4, len(first)), np.nan)
    trials, few = np.full(len(first), np.nan), np.zeros(len(first), bool)
    alike = np.flatnonzero(weight[first] == weight[second])
    if not sample.is_rate(metric) or not len(alike):
        return counts, trials, few, few
    wanted = np.unique(np.concatenate([value[first[alike]], value[second[alike]], weight[first[alike]]]))
    sums = np.concatenate(list(sample.units.chunks([scan.statistics[i] for i in wanted])), axis=1)
    rows, others = np.searchsorted(wanted, value[first[alike]]), np.searchsorted(wanted, value[second[alike]])
    size = scan.total[weight[first[alike]]]
    square = np.einsum("ij,ij->i", sums, sums)[np.searchsorted(wanted, weight[first[alike]])]
    examples = np.add(*fixes_and_flips(store, first, second, one.statistics(0)[0].key))
    near = np.flatnonzero((examples[alike] < FEW_PAIRS) | may_differ_in_fewer(FEW_PAIRS, sums, rows, others))
    step = max(1, PAIRS_AT_ONCE // sums.shape[1])
    for some in (near[start : start + step] for start in range(0, len(near), step)):
        counts[:, alike[some]] = gains_and_losses(sums[rows[some]] - sums[others[some]])[:4]
    few[alike] = few_clusters_differ(examples, counts[2] + counts[3], sample.units.count)[alike]
    # What the heaviest unit alone could have shown, and has not, counts for one trial.
    shrunk = (
        np.minimum(1.0, square / (size**2 * sample.units.heaviest_share)) if sample.units.weight is not None else 1.0
    )
    counts[:2, alike] *= size / square * shrunk
    trials[alike] = size**2 / square * shrunk
    graded = ~(scan.integer[value[first]] & scan.integer[value[second]])
    return counts, trials, few & ~graded, few & graded


def fixes_and_flips(store: Store, first: Ints, second: Ints, key: str = "correct") -> tuple[Floats, Floats]:
    """Examples (pairs,) on which the first policy has more of column `key` than the second, and less; else NaN."""
    if key not in store.keys:
        return np.full(len(first), np.nan), np.full(len(first), np.nan)
    counts = np.zeros((2, len(first)))
    policies = np.unique(np.concatenate([first, second]))
    one, other = np.searchsorted(policies, first), np.searchsorted(policies, second)
    for chunk in store.chunks:
        rows = chunk.values(key, policies).astype(np.float32)  # equal means of several rows stay equal
        known = ~np.isnan(rows)
        plain = ((rows == 0) | (rows == 1) | ~known).all(axis=1)
        products = plain[one] & plain[other]
        right = np.where(plain[:, None] & known, rows, 0.0)
        with product_threads():
            alone = right @ (known - right).T  # of two policies, the first is right and the second known and wrong
        counts[0, products] += alone[one[products], other[products]]
        counts[1, products] += alone[other[products], one[products]]
        for policy in np.unique(one[~products]):
            mine = np.flatnonzero(~products & (one == policy))
            counts[0, mine] += np.count_nonzero(rows[policy] > rows[other[mine]], axis=1)
            counts[1, mine] += np.count_nonzero(rows[policy] < rows[other[mine]], axis=1)
    return counts[0], counts[1]
