"""Claims about many policies at once: one critical value for all pairs, rank sets, adjusted p-values.

The critical value is the level-quantile of the largest studentised deviation of any pair (max-t), from sums of the
units' influences under standard normal multipliers (Chernozhukov, Chetverikov and Kato, Annals of Statistics 41, 2013).
Given the influences, such sums are normal with the influences' matrix of cross-products as covariance. So they are
drawn from that matrix, whatever the number of units. Multinomial resamples would be too lumpy for policies that differ
on a handful of examples.

Of few units that matrix is of a low rank: what is drawn from it knows of far fewer comparisons than there are, and
some of equal policies would be told apart in half of all runs. They get Bonferroni's bound for Student's t in its place
(step-down: Holm 1979).

Pairs that are told apart are left out and the critical value is taken again, until no further pair is (step-down:
Romano and Wolf, Econometrica 73, 2005). Sets of ranks follow from the pairs (Mogstad, Romano, Shaikh and Wilhelm,
Review of Economic Studies 91, 2024).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.bootstrap import product_threads
from toolkit.stats.bootstrap.influence import MetricSeries, influences
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.limits.discordant import EXACT_PAIRS, exact_p_value
from toolkit.stats.limits.intervals import ZERO
from toolkit.stats.limits.student import (
    normal_to_student,
    student_quantile,
    student_tails,
    student_to_normal,
    two_sided_p,
)
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.spill import Floats, Ints

MOST_PAIRED = 1_000
"""The most policies of which all pairs are compared; with more, only those that can be the best are."""

SCREENING = 0.1
"""Share of the error rate that is spent on finding those that can be the best."""

DRAWN_AT_ONCE = 256
"""Draws made by one generator. Part of the definition of the draws: do not vary it."""

BLOCKS_AT_ONCE = 8
"""Blocks of draws that are made in advance; only speed depends on it."""

PAIRS_OF_DRAWS = 256
"""Pairs in one batch of deviations; only speed depends on it."""

KEEP_DRAWS = 64 * 2**20
"""The most bytes of draws that stay in memory between the steps of a search."""

STREAM = 16
"""Added to the seed so that draws and resamples use different random numbers."""

FEW_UNITS = 100
"""Units below which the critical value is Bonferroni's."""

NO_VARIANCE = 1e-13
"""The largest variance of a difference that counts as 0, relative to the two policies' variances: float rounding."""

PAIRS_AT_ONCE = 2**21
"""Sums over clusters that are compared at once."""

MOST_STEPS = 20

NORMAL = NormalDist()


@dataclass(frozen=True, eq=False)
class JointEstimates:
    """The estimates of K policies on the same units, signed so that more is better.

    `value` (K,); `covariance` (K, K): cross-products of the influences of the units; `units`: how many there are;
    `kish`: how many of equal size these are worth; `trials`: where all values are shares of the same examples, each a
    unit with 0 or 1, how many these are; `sums` (K, units): where the units are clusters of examples of which all
    values are shares, the sums over each.
    """

    value: Floats
    covariance: Floats
    units: int
    kish: float
    trials: int | None = None
    sums: Floats | None = None

    def at_places(self, index: Ints) -> JointEstimates:
        sums = None if self.sums is None else self.sums[index]
        return replace(self, value=self.value[index], covariance=self.covariance[np.ix_(index, index)], sums=sums)

    def difference_errors(self, first: Ints, second: Ints) -> Floats:
        """Standard errors of the pairs' differences (pairs,), with the divisor units − 1; 0 where both are one policy.

        A difference that is the same on every unit has the error of a single draw of that size.
        """
        difference = self.value[first] - self.value[second]
        return _difference_error(difference, *self._variance(first, second), self.units)

    def exact_p_values(self, first: Ints, second: Ints) -> Floats:
        """McNemar's exact p-values (pairs,) of the pairs that differ on fewer than ten of the `trials` or clusters; 0
        for all others.

        Outcomes are 0 or 1, so the sums of squares are numbers of examples.
        """
        p_values = np.zeros(len(first))
        if self.sums is not None:
            near = np.flatnonzero(may_differ_in_fewer(EXACT_PAIRS, self.sums, first, second))
            up, down = _clusters_apart(self.sums, first[near], second[near])
            few = up + down < EXACT_PAIRS
            p_values[near[few]] = exact_p_value(up[few], down[few])
            return p_values
        if self.trials is None:
            return p_values
        more = np.rint((self.value[first] - self.value[second]) * self.trials)
        spread, _ = self._variance(first, second)
        differ = np.clip(np.rint(spread * self.trials**2 + more**2 / self.trials), 0, None)
        few = differ < EXACT_PAIRS
        fewer = np.clip((differ[few] - np.abs(more[few])) // 2, 0, None)
        p_values[few] = exact_p_value(fewer, differ[few] - fewer)
        return p_values

    def _variance(self, first: Ints, second: Ints) -> tuple[Floats, Floats]:
        """The variance of each pair's difference, and the sum of the variances of its two estimates."""
        alone = np.diag(self.covariance)
        both = alone[first] + alone[second]
        return both - 2 * self.covariance[first, second], both


def _difference_error(difference: Floats, variance: Floats, both: Floats, units: int) -> Floats:
    """The standard errors of differences. A `variance` that is tiny beside `both` is float rounding and counts as 0."""
    constant = variance <= NO_VARIANCE * both
    spread = np.where(constant, 0.0, variance * (units / max(units - 1, 1)))
    differs = np.abs(difference) > NO_VARIANCE**0.5 * np.sqrt(both)
    return np.sqrt(np.where(constant & differs, difference**2 / units, spread))


def may_differ_in_fewer(clusters: int, sums: Floats, first: Ints, second: Ints) -> NDArray[np.bool_]:
    """Whether each pair (pairs,) may differ in fewer than `clusters` clusters, as far as its squared sums allow.

    It takes one product of matrices, and leaves few pairs to count.
    """
    with product_threads():
        products = sums @ sums.T
    alone = np.diag(products)
    square = alone[first] + alone[second] - 2 * products[first, second]
    return np.asarray(square <= clusters * np.abs(sums).max(initial=0.0) ** 2 * (1 + 1e-9))


def _clusters_apart(sums: Floats, first: Ints, second: Ints) -> Floats:
    """The numbers of clusters in which a pair's first policy has more than the second, and less, (2, pairs).
    `sums`: (K, G).
    """
    counts = np.zeros((2, len(first)))
    step = max(1, PAIRS_AT_ONCE // max(1, sums.shape[1]))
    for start in range(0, len(first), step):
        here = slice(start, start + step)
        move = sums[first[here]] - sums[second[here]]
        counts[:, here] = (move > ZERO).sum(axis=1), (move < -ZERO).sum(axis=1)
    return counts


def covariance_of(influences: Iterable[Floats]) -> Floats:
    """Cross-products (K, K) of the influences of K estimates, from blocks (K, units) that are added in their order.

    An influence is by how much a unit's weight of 1 moves an estimate; they add up to 0. Of a mean of n values x it is
    (x − mean)/n. Where units are clusters it is the sum over the cluster.
    """
    total: Floats | None = None
    with product_threads():
        for block in influences:
            product = block @ block.T
            total = product if total is None else total + product
    return np.zeros((0, 0)) if total is None else total


@dataclass(frozen=True, eq=False)
class _PairClaims:
    """Claims about which policy of a pair is better. In a share `level` of runs all of them are true together.

    `first`, `second` (pairs,): places of the policies; `difference`: first minus second; `error`; `critical`: of an
    interval difference ± critical · error; the intervals of all pairs hold at once; `differs` (pairs,) bool: they are
    told apart; `p_value`: adjusted for all pairs, below 1 − level where they are. An interval that leaves out 0 tells
    apart, but the steps may do so where the interval does not.
    """

    first: Ints
    second: Ints
    difference: Floats
    error: Floats
    critical: float
    differs: NDArray[np.bool_]
    p_value: Floats
    policies: int

    @property
    def low(self) -> Floats:
        """The lower limits (pairs,) of the differences, which hold for all pairs at once."""
        return self.difference - self.critical * self.error

    @property
    def high(self) -> Floats:
        """The upper limits (pairs,) of the differences, which hold for all pairs at once."""
        return self.difference + self.critical * self.error

    @cached_property
    def is_better(self) -> NDArray[np.bool_]:
        """Whether the claims show the first policy to be better than the second, (K, K)."""
        table = np.zeros((self.policies, self.policies), bool)
        up, down = self.differs & (self.difference > 0), self.differs & (self.difference < 0)
        table[self.first[up], self.second[up]] = True
        table[self.second[down], self.first[down]] = True
        return table

    def p_values(self, policy: int) -> Floats:
        """The adjusted p-values (K,) of one policy's differences to each other; 1 for itself."""
        out = np.ones(self.policies)
        for one, other in ((self.first, self.second), (self.second, self.first)):
            mine = one == policy
            out[other[mine]] = self.p_value[mine]
        return out


def claims_of_all_pairs(estimates: JointEstimates, settings: Settings) -> _PairClaims:
    """The claims about every pair of policies, which hold all at once."""
    first, second = np.triu_indices(len(estimates.value), 1)
    return pair_claims(estimates, first, second, settings)


def _claims_to_one(estimates: JointEstimates, reference: int, settings: Settings) -> _PairClaims:
    """Claims about every other policy against `reference`, named before the data were seen (many-to-one)."""
    others = np.delete(np.arange(len(estimates.value)), reference)
    return pair_claims(estimates, others, np.full(len(others), reference), settings)


def _rank_sets(tests: _PairClaims, copies: Ints | None = None) -> tuple[Ints, Ints]:
    """The best and the worst rank (K,) that each policy may have, 1 being the top. All sets hold at once.

    From 1 + the number of policies shown to be better, to the number not shown to be worse. `copies` (K,): how many
    policies each stands for.
    """
    many = np.ones(tests.policies, np.int64) if copies is None else copies
    return 1 + many @ tests.is_better, many.sum() - tests.is_better @ many


def pair_claims(estimates: JointEstimates, first: Ints, second: Ints, settings: Settings) -> _PairClaims:
    """The claims about the pairs of `first` and `second`. Identical pairs, whose error is 0, are never told apart.

    A few units say little about their own variance, so deviations are taken as Student's with units − 1 degrees of
    freedom, and put on the scale of the normal distribution. Where fewer than ten examples, or clusters, tell 0/1
    outcomes apart, McNemar's exact test must do so too.
    """
    freedom = max(estimates.kish - 1, 1)
    difference = estimates.value[first] - estimates.value[second]
    error = estimates.difference_errors(first, second)
    left = error > 0
    size = np.zeros(len(first))
    np.divide(np.abs(difference), error, out=size, where=left)
    if estimates.kish < FEW_UNITS:
        return _bonferroni_claims(estimates, first, second, difference, error, size, settings)
    size = student_to_normal(size, freedom)
    least = np.maximum(two_sided_p(size), estimates.exact_p_values(first, second))
    differs, p_value = np.zeros(len(first), bool), np.ones(len(first))
    alone = widest = NORMAL.inv_cdf((1 + settings.level) / 2)
    drawn = _cached_draws(_symmetric_root(estimates.covariance), settings)
    for step in range(MOST_STEPS):
        if not left.any() or (step and size[left].max() < alone):
            break
        largest = np.sort(_largest_deviations(drawn, first[left], second[left], error[left], estimates, settings))
        # The draw above which a pair has an adjusted p-value of at most 1 − level.
        place = max(1, math.floor((1 - settings.level) * (len(largest) + 1) + 1e-9))
        critical = max(float(largest[-place]), alone)
        widest = widest if step else critical
        exceeding = len(largest) - np.searchsorted(largest, size[left])
        adjusted = np.maximum((1 + exceeding) / (len(largest) + 1), least[left])
        p_value[left] = np.maximum(adjusted, p_value[differs].max(initial=0.0))
        apart = np.flatnonzero(left & (size > critical) & (least <= 1 - settings.level + 1e-9))
        differs[apart], left[apart] = True, False
        if not len(apart):
            break
    student = float(normal_to_student(np.array(widest), freedom))
    return _PairClaims(first, second, difference, error, student, differs, p_value, len(estimates.value))


def _bonferroni_claims(
    estimates: JointEstimates, first: Ints, second: Ints, difference: Floats, error: Floats, size: Floats,
    settings: Settings,
) -> _PairClaims:  # fmt: skip
    """The claims from Student's p-values by Holm: each times the number of pairs that no smaller one tells apart."""
    freedom, pairs = max(estimates.kish - 1, 1), max(1, int((error > 0).sum()))
    alone = np.maximum(student_tails(freedom, size), estimates.exact_p_values(first, second))
    alone = np.where(error > 0, alone, 1.0)
    order = np.argsort(alone, kind="stable")
    times = np.maximum(pairs - np.arange(len(order)), 1)
    p_value = np.empty(len(order))
    p_value[order] = np.minimum(1.0, np.maximum.accumulate(alone[order] * times))
    critical = float(student_quantile(freedom, 1 - (1 - settings.level) / (2 * pairs)))
    differs = (p_value <= 1 - settings.level) & (error > 0)
    return _PairClaims(first, second, difference, error, critical, differs, p_value, len(estimates.value))


def _p_values_of_being_best(gap: Floats, error: Floats, kish: float) -> Floats:
    """The p-values (K,) of "this policy could be the best", for more policies than can be compared in pairs.

    `gap` (K,): by how much each is below the best estimate, `error` of these. Bonferroni's bound for all ordered pairs,
    since any policy could have had the best estimate.
    """
    size = np.divide(gap, error, out=np.zeros(len(gap)), where=error > 0)
    return np.minimum(1.0, two_sided_p(student_to_normal(size, kish - 1)) / 2 * len(gap) * (len(gap) - 1))


def bonferroni_p_values(difference: Floats, error: Floats, kish: float) -> Floats:
    """The two-sided p-values (K,) of differences to a policy named beforehand, times the number of differences
    (Bonferroni). They serve where a joint critical value would take too many.
    """
    size = np.divide(np.abs(difference), error, out=np.zeros(len(error)), where=error > 0)
    return np.minimum(1.0, two_sided_p(student_to_normal(size, kish - 1)) * max(1, len(error) - 1))


def normal_draws(covariance: Floats, settings: Settings) -> Iterator[Floats]:
    """Yields normal deviations of K estimates from their means, in blocks (K, draws), `settings.resamples` in all."""
    roots, blocks = _symmetric_root(covariance), range(-(-settings.resamples // DRAWN_AT_ONCE))
    make = partial(_normal_block, roots, settings=settings)
    for start in range(0, len(blocks), BLOCKS_AT_ONCE):
        with product_threads() as pool:
            parts = list(pool.map(make, blocks[start : start + BLOCKS_AT_ONCE]))
        yield from parts


def _symmetric_root(covariance: Floats) -> Floats:
    """The symmetric square root of a covariance. No choice among equal eigenvectors changes it."""
    with product_threads():
        values, vectors = np.linalg.eigh(covariance)
        positive = np.where(values > 1e-12 * max(values.max(initial=0.0), 0.0), values, 0.0)
        return np.asarray((vectors * np.sqrt(positive)) @ vectors.T)


def _normal_block(roots: Floats, number: int, settings: Settings) -> Floats:
    """The normal deviations (K, draws) of the block of draws called `number`."""
    size = min(DRAWN_AT_ONCE, settings.resamples - number * DRAWN_AT_ONCE)
    generator = np.random.default_rng([settings.seed, STREAM, number])
    return roots @ generator.standard_normal((DRAWN_AT_ONCE, len(roots)))[:size].T


def _cached_draws(roots: Floats, settings: Settings) -> Callable[[int], NDArray[np.float32]]:
    """Returns a function that gives the deviations (K, draws) of a block by its number. Blocks are kept once drawn,
    unless all together are too large.
    """

    def block(number: int) -> NDArray[np.float32]:
        return _normal_block(roots, number, settings).astype(np.float32)

    return cache(block) if 4 * len(roots) * settings.resamples <= KEEP_DRAWS else block


def _largest_deviations(
    block: Callable[[int], NDArray[np.float32]], first: Ints, second: Ints, error: Floats, estimates: JointEstimates,
    settings: Settings,
) -> NDArray[np.float32]:  # fmt: skip
    """The largest studentised deviation among the pairs in each draw, (B,)."""
    units = estimates.units
    shrink = np.sqrt(units / max(units - 1, 1))  # the draws have the divisor `units`
    order = np.argsort(first, kind="stable")
    first, second, scale = first[order], second[order], (shrink / error).astype(np.float32)[order][:, None]

    def work(number: int) -> NDArray[np.float32]:
        drawn = block(number)
        best = np.zeros(drawn.shape[1], np.float32)
        for start in range(0, len(first), PAIRS_OF_DRAWS):
            here = slice(start, start + PAIRS_OF_DRAWS)
            one = first[here]
            deviation = drawn[second[here]]
            deviation -= drawn[one[0]] if one[0] == one[-1] else drawn[one]
            np.abs(deviation, out=deviation)
            deviation *= scale[here]
            np.maximum(best, deviation.max(axis=0), out=best)
        return best

    blocks = range(-(-settings.resamples // DRAWN_AT_ONCE))
    with product_threads() as pool:
        return np.concatenate(list(pool.map(work, blocks)))


@dataclass(frozen=True)
class RankRoles:
    """The policies that take part in a ranking: those that can lead, the leader, and the baseline."""

    among: Sequence[int]
    leader: int
    baseline: int | None


def rank_claims(
    sample: WholeSample, series: MetricSeries, standing: RankRoles, covariance: Floats | None, settings: Settings
) -> tuple[Floats, float]:
    """The claims about the policies by one metric, rows (7, P) with NaN where there is none. With them comes the
    critical value that all differences to the baseline share, NaN without one.

    The lowest and the highest rank of each; 1 where it is not told apart from the leader; the p-value of its difference
    to the leader, adjusted for all pairs, and to the baseline, adjusted for all differences to it, with the limits that
    hold for all of these. Where `covariance` is None there are more series than can be paired: then no ranks, and only
    those that can be the best are compared with each other, and differences to the baseline have Bonferroni's bound.
    """
    leads, owner = series.owner[list(standing.among)], series.owner
    copies = np.bincount(leads[leads >= 0], minlength=len(series))
    leader = int(owner[standing.leader])
    base = -1 if standing.baseline is None else int(owner[standing.baseline])
    falling = series.metric.column.cost
    merit = -series.value if falling else series.value
    rows, critical = np.full((7, len(series)), np.nan), math.nan
    if covariance is not None:
        estimates = joint_estimates(sample, series, merit, covariance)
        if leader >= 0:
            rows[:4] = _pairwise_claims(estimates, copies, leader, settings)
        if base >= 0:
            against = _claims_to_one(estimates, base, settings)
            critical = against.critical
            rows[4] = against.p_values(base)
            limits = (-against.high, -against.low) if falling else (against.low, against.high)
            rows[5:, against.first] = limits
    else:
        if leader >= 0:
            rows[2:4] = _screened_claims(sample, series, merit, copies, leader, settings)
        if base >= 0:
            error, apart = _errors_to_reference(sample, series, base), series.value - series.value[base]
            rows[4] = bonferroni_p_values(apart, error, sample.units.kish)
            size = NORMAL.inv_cdf(1 - (1 - settings.level) / 2 / max(1, len(series) - 1))  # Bonferroni's bound
            critical = float(normal_to_student(np.array(size), max(sample.units.kish - 1, 1)))
            rows[5:] = np.where(error > 0, [apart - critical * error, apart + critical * error], np.nan)
    of_policies = np.where(owner >= 0, rows[:, owner], np.nan)
    alone = np.setdiff1d(np.arange(len(owner)), standing.among)
    of_policies[:4, alone] = np.nan
    if standing.baseline is not None:
        of_policies[4:, standing.baseline] = np.nan
    of_policies[3, standing.leader] = np.nan
    return of_policies, critical


def _pairwise_claims(estimates: JointEstimates, copies: Ints, leader: int, settings: Settings) -> Floats:
    """Lowest and highest rank, tie with the leader and adjusted p-value (4, S), from all pairs of those with copies."""
    out = np.full((4, len(copies)), np.nan)
    some = np.flatnonzero(copies)
    tests = claims_of_all_pairs(estimates.at_places(some), settings)
    place = int(np.searchsorted(some, leader))
    apart = tests.is_better[place] | tests.is_better[:, place]
    out[:, some] = [*_rank_sets(tests, copies[some]), ~apart, tests.p_values(place)]
    return out


def _screened_claims(
    sample: WholeSample, series: MetricSeries, merit: Floats, copies: Ints, leader: int, settings: Settings
) -> Floats:
    """The tie with the leader and the adjusted p-value, (2, S), of many policies. A part of the error rate rules
    policies out by Bonferroni's bound. The rest goes to all pairs of the remaining ones, if these are few enough.
    """
    out = np.full((2, len(copies)), np.nan)
    some = np.flatnonzero(copies)
    error = _errors_to_reference(sample, series, leader)
    p_value = _p_values_of_being_best(merit[leader] - merit[some], error[some], sample.units.kish) / SCREENING
    left = some[p_value > 1 - settings.level]
    out[:, some] = p_value > 1 - settings.level, np.minimum(p_value, 1.0)
    if len(left) <= min(MOST_PAIRED, sample.units.most_statistics):
        rest = replace(settings, level=1 - (1 - SCREENING) * (1 - settings.level))
        few = series.at_places(left)
        covariance = covariance_of(influences(sample, [few]))
        estimates = joint_estimates(sample, few, merit[left], covariance)
        _, _, ties, p_value = _pairwise_claims(
            estimates, np.ones(len(left), np.int64), int(np.searchsorted(left, leader)), rest
        )
        out[:, left] = ties, np.minimum(1.0, p_value / (1 - SCREENING))
    return out


def joint_estimates(sample: WholeSample, series: MetricSeries, merit: Floats, covariance: Floats) -> JointEstimates:
    """The joint estimates of the series, with values `merit` and the counts that exact tests of 0/1 outcomes need."""
    sums = _outcome_sums_by_cluster(sample, series)
    units = sample.units
    return JointEstimates(merit, covariance, units.count, units.kish, _common_trials(sample, series), sums)


def _outcome_sums_by_cluster(sample: WholeSample, series: MetricSeries) -> Floats | None:
    """Sums of outcomes from 0 to 1 over each cluster (S, G); None unless all are shares of the same clustered examples.

    They are signed so that more is better, as the values are for which they stand.
    """
    alone = sample.has_single_units and sample.units.strata is None
    if alone or not series.metric.column.rate or series.statistics.shape[1] != 2 or not len(series):
        return None
    events, weights = series.statistics.T
    if (weights != weights[0]).any() or (sample.scan.reach[events] > sample.scan.reach[weights[0]]).any():
        return None
    rows = np.concatenate(list(sample.units.chunks([sample.scan.statistics[i] for i in events])), axis=1)
    return -rows if series.metric.column.cost else rows


def _common_trials(sample: WholeSample, series: MetricSeries) -> int | None:
    """The number of examples, where every value is a share of 0/1 outcomes on the same single examples; else None."""
    alone = sample.has_single_units and sample.units.strata is None
    if not (alone and series.metric.column.rate and series.statistics.shape[1] == 2):
        return None
    events, weights = series.statistics.T
    alike = (weights == weights[0]).all() and sample.scan.binary[np.append(events, weights[0])].all()
    return round(sample.scan.total[weights[0]]) if alike else None


def _errors_to_reference(sample: WholeSample, series: MetricSeries, reference: int) -> Floats:
    """Standard errors (S,) of the series' differences to `reference`, without the matrix of all pairs."""
    alone, apart = np.zeros(len(series)), np.zeros(len(series))  # squares of influences, and of their differences
    most = max(1, min(MOST_PAIRED, sample.units.most_statistics // 2))
    for start in range(0, len(series), most):
        here = np.arange(start, min(start + most, len(series)))
        for block in influences(sample, [series.at_places(here), series.at_places(np.array([reference]))]):
            alone[here] += np.einsum("ij,ij->i", block[:-1], block[:-1])
            moved = block[:-1] - block[-1]
            apart[here] += np.einsum("ij,ij->i", moved, moved)
    return _difference_error(
        series.value - series.value[reference], apart, alone + alone[reference], sample.units.count
    )
