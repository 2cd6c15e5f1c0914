"""The choice of each interval: the bootstrap's, or the one that replaces it where it covers too little.

`CHOICES`, at the end, is the whole rule: conditions in order, each with the function that sets its intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.bootstrap.f1_intervals import f1_intervals, has_few_wrong
from toolkit.stats.bootstrap.pairs import PairCounts, few_clusters_differ, scale_to_whole_pairs
from toolkit.stats.bootstrap.sample import WholeSample
from toolkit.stats.bootstrap.series import (
    METHOD_NAMES,
    SeriesKind,
    SeriesPlan,
    SeriesResults,
    Slot,
    SumsReader,
    jackknife_moments,
    method_name,
    resample,
)
from toolkit.stats.limits.clusters import (
    FEW_CLUSTERS,
    FEWEST_CLUSTERS,
    NOTHING,
    effective_trials,
    graded_limits,
    has_few_events,
    jackknife_variance,
    korn_graubard_limits,
    student_limits,
)
from toolkit.stats.limits.discordant import FEW_PAIRS, mid_p_value, score_p_value, tango_limits
from toolkit.stats.limits.fieller import (
    ROWS,
    CostMoments,
    PairMoments,
    cost_moments,
    fieller_limits,
    join_pair_moments,
    moment_sums,
)
from toolkit.stats.limits.intervals import clip_limits, clopper_pearson, hybrid_interval, wilson, wilson_limits
from toolkit.stats.limits.student import agree_on_zero
from toolkit.stats.limits.studentised import FEW_UNITS, Spread
from toolkit.stats.metrics.metrics import F1, Metric
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.scan import SCAN_ROWS, Units
from toolkit.stats.metrics.spill import Floats, Ints

STUDENT, STUDENT_FEW = METHOD_NAMES.index("t"), METHOD_NAMES.index("t_few")


@dataclass(frozen=True, eq=False)
class _IntervalChoice:
    """What the choice of intervals goes by, and the `results` that it changes. `studentised`: whether means of costs
    get studentised limits, which clustered ones do not. `moments`: of costs over the units; None where no interval
    needs them. `spreads`: by (reference, metric), policies whose differences are fractions, and their moments.
    """

    sample: WholeSample
    plan: SeriesPlan
    pairs: PairCounts
    results: SeriesResults
    settings: Settings
    studentised: bool
    moments: CostMoments | None
    spreads: Mapping[tuple[int, int], tuple[Ints, Spread]]
    further: SumsReader


def choose_intervals(
    sample: WholeSample, references: Sequence[int], pairs: PairCounts, settings: Settings,
    further: SumsReader = SumsReader(),  # noqa: B008 -- frozen
) -> SeriesResults:  # fmt: skip
    """The interval of every value, difference and reduction. There is none where the sample has a single unit.
    `further`: what else is read from the resampled sums.
    """
    plan = sample.series_plan(references)
    results = SeriesResults.of(plan)
    if sample.units.count > 1:
        studentised = sample.has_single_units and settings.method == "percentile"
        divided = studentised or (not sample.has_single_units and sample.units.count >= FEWEST_CLUSTERS)
        parts = (sample.units, plan.scan, plan.metrics, plan.valued, plan.references)
        moments = cost_moments(*parts) if divided else None
        spreads = dict(_graded_spreads(sample, plan, pairs)) if sample.has_single_units else {}
        for (number, m), (on, spread) in spreads.items():
            if moments is not None and studentised and not sample.metrics[m].is_mean_cost:  # whose moments are there
                many = pairs.effective_pairs[number, m, on] >= FEW_PAIRS
                at = number + 1, m, on[many]
                moments.second[at], moments.third[at] = spread.second[many], spread.third[many]
        choice = _IntervalChoice(sample, plan, pairs, results, settings, studentised, moments, spreads, further)
        for holds, choose in CHOICES:
            if holds(choice):
                choose(choice)
    return results


def _graded_spreads(
    sample: WholeSample, plan: SeriesPlan, pairs: PairCounts
) -> Iterator[tuple[tuple[int, int], tuple[Ints, Spread]]]:
    """The policies that differ by fractions, by reference and rate, and these differences' central moments."""
    for number, m in zip(*np.nonzero(pairs.has_fractions.any(axis=2)), strict=True):
        on = np.flatnonzero(pairs.has_fractions[number, m] & plan.valued[m] & (sample.counts[m] > 1))
        n = sample.counts[m, on].astype(np.float64)
        spread = pairs.difference_spread(number, m, on, n)
        if sample.units.strata is not None:
            spread = Spread(_squares_within_strata(sample, m, on, plan.references[number]) / n, spread.third)
        yield (int(number), int(m)), (on, spread)


def _set_intervals_by_bootstrap(choice: _IntervalChoice) -> None:
    moments = choice.moments if choice.studentised else None
    resample(choice.sample.units, choice.plan, choice.settings, choice.results, moments, choice.further)


def _set_rare_event_limits(choice: _IntervalChoice) -> None:
    """Sets Wilson's interval for rates with fewer than ten events or non-events. Means of fractional values get Korn
    and Graubard's where few values are known, or few differ from 0, or few from 1.
    """
    sample, results, settings = choice.sample, choice.results, choice.settings
    value = (SeriesKind.VALUE, 0)
    for m in range(len(sample.metrics)):
        on, (mean, square, n, off) = sample.fractional_policies(m)
        low, high, methods = graded_limits(mean, square, n, off, settings.level)
        for method in ("graded", "graded_few"):
            which = methods == method
            results.set_interval(value, m, on[which], low[which], high[which], math.nan, method)
        for p in range(len(sample.policies)):
            events = sample.events_if_few(m, p)
            if events and events[1] > 1:
                results.set_interval(value, m, p, *wilson(*events, settings.level), math.nan, "wilson")
            elif events:
                results.remove_intervals(value, m, p)


def _set_paired_limits(choice: _IntervalChoice) -> None:
    """Sets the intervals of differences of rates on the same examples. Below twenty discordant pairs these are Tango's;
    from there on the limits reach at least as far.

    Of outcomes of 0 and 1 these are Tango's, with the mid-p or Tango's own test. Where policies are known of different
    examples, Newcombe's where both have few events or nearly all examples are the same. Of means of several outcomes
    an example see `_set_graded_limits`.
    """
    sample, plan, pairs, results, settings = choice.sample, choice.plan, choice.pairs, choice.results, choice.settings
    for m, metric in enumerate(sample.metrics):
        for number, reference in plan.known_references(m) if metric.column.rate else ():
            slot = (SeriesKind.DIFFERENCE, number)
            known = ~np.isnan(pairs.discordant[number, m]) & (sample.counts[m] > 1) & plan.valued[m]
            on = np.flatnonzero(known & ~pairs.has_fractions[number, m])
            if len(on):
                one, two = pairs.first[number, m, on], pairs.second[number, m, on]
                few = one + two < FEW_PAIRS
                trials = _trials_of_pairs(choice, m, on, number, reference)
                times = trials / sample.counts[m, on]
                low, high = _tango_limits(one * times, two * times, trials, settings.level)
                results.set_interval(slot, m, on[few], low[few], high[few], mid_p_value(one[few], two[few]), "tango")
                one, two = (one * times)[~few], (two * times)[~few]
                results.widen(slot, m, on[~few], low[~few], high[~few], score_p_value(one, two))
            _set_graded_limits(choice, slot, m)
            other = sample.events_if_few(m, reference)
            for p in np.flatnonzero(~np.isnan(pairs.unlike[number, m]) & plan.valued[m]).tolist():
                mine = sample.events_if_few(m, p)
                if (mine and other) or pairs.unlike[number, m, p] < FEW_PAIRS:
                    limits = hybrid_interval(
                        sample.events_and_trials(m, p), sample.events_and_trials(m, reference), settings.level
                    )
                    results.set_interval(slot, m, p, *limits, float(results.p_value[(*slot, m, p)]), "newcombe")


def _set_graded_limits(choice: _IntervalChoice, slot: Slot, m: int) -> None:
    """Sets Student's limits for differences of means of fractional outcomes. Where Student's end too soon they are
    moved out.

    Those of the studentised bootstrap, which a sample with few total losses needs. Where the examples are worth fewer
    than twenty of one size, (Σ|d|)²/Σd², Tango's with so many discordant pairs, marked.
    """
    number = slot[1]
    if (number, m) not in choice.spreads:
        return
    pairs, results, level = choice.pairs, choice.results, choice.settings.level
    on, spread = choice.spreads[number, m]
    n, at = choice.sample.counts[m, on].astype(np.float64), (number, m, on)
    few = pairs.effective_pairs[at] < FEW_PAIRS
    limits = student_limits(results.value[(*slot, m, on)], spread.second / (n - 1), n, level)
    low, high, p_value = (end[few] for end in limits)
    results.set_interval(slot, m, on[few], low, high, p_value, "graded_tango")
    results.widen(slot, m, on[~few], *(end[~few] for end in limits))
    one, two, trials = scale_to_whole_pairs(pairs.first[at][few], pairs.second[at][few], pairs.squares[at][few], n[few])
    low, high = _tango_limits(one, two, trials, level)
    results.widen(slot, m, on[few], low, high, score_p_value(one, two))


def _tango_limits(first: Floats, second: Floats, n: Floats | Ints, level: float) -> tuple[Floats, Floats]:
    """Tango's limits of each pair's difference of rates. Pairs with equal tables are computed once."""
    tables, place = np.unique(np.stack([first, second, n]), axis=1, return_inverse=True)
    low, high = (end[place.ravel()] for end in tango_limits(tables[0], tables[1], tables[2], level))
    return low, high


def _trials_of_pairs(choice: _IntervalChoice, m: int, on: Ints, number: int, reference: int) -> Floats:
    """The number of trials (P,) for Tango's interval: the number of examples. With strata, from twenty discordant pairs
    on, it is larger where differences vary less within the strata.
    """
    sample, pairs = choice.sample, choice.pairs
    n = sample.counts[m, on].astype(np.float64)
    if sample.units.strata is None:
        return n
    many = np.flatnonzero(pairs.first[number, m, on] + pairs.second[number, m, on] >= FEW_PAIRS)
    one, two = pairs.first[number, m, on[many]], pairs.second[number, m, on[many]]
    plain = one + two - (one - two) ** 2 / n[many]
    within = _squares_within_strata(sample, m, on[many], reference)
    n[many] *= np.maximum(plain / np.where(within > 0, within, plain), 1.0)
    return n


def _squares_within_strata(sample: WholeSample, m: int, policies: Ints, reference: int) -> Floats:
    """Each policy's sum of squared differences to a reference, less the mean of the example's stratum, (P,)."""
    squares = np.zeros(len(policies))
    for start in range(0, len(policies), SCAN_ROWS):
        some = (*policies[start : start + SCAN_ROWS].tolist(), reference)
        wanted = [sample.metrics[m].statistics(p)[0] for p in some]
        for moved in sample.units.residuals(wanted, lambda rows: rows[:-1] - rows[-1]):
            squares[start : start + SCAN_ROWS] += (moved**2).sum(axis=1)
    return squares


def _set_clustered_limits(choice: _IntervalChoice) -> None:
    """Sets Korn and Graubard's limits for clustered rates, Student's for all else; none below three known clusters."""
    sample, plan, results, settings = choice.sample, choice.plan, choice.results, choice.settings
    first, second = jackknife_moments(sample.units, plan, settings)
    units, kish_numbers = sample.known_units()
    for m, metric in enumerate(sample.metrics):
        on = np.flatnonzero(plan.valued[m])
        if not len(on):
            continue
        series = [((SeriesKind.VALUE, 0), units[:, m, on], kish_numbers[m, on])]
        for number, reference in plan.known_references(m):
            shared = np.minimum(units[:, m, on], units[:, m, [reference]])
            both = shared, np.minimum(kish_numbers[m, on], kish_numbers[m, reference])
            series.append(((SeriesKind.DIFFERENCE, number), *both))
            if metric.is_mean_cost:  # Fieller's will follow
                results.remove_intervals((SeriesKind.REDUCTION, number), m, on)
            elif metric.column.cost:
                series.append(((SeriesKind.REDUCTION, number), *both))
        for slot, in_strata, kish in series:
            at = (slice(None), *slot, m, on)
            variance, clusters = jackknife_variance(first[at], second[at], in_strata), in_strata.sum(axis=0)
            if slot[0] is SeriesKind.VALUE and sample.is_rate(m):
                rate, most = results.value[(*slot, m, on)], sample.most_trials(m, on)
                low, high = korn_graubard_limits(rate, variance, most, kish, settings.level)
                results.set_interval(slot, m, on, low, high, math.nan, "korn-graubard")
                rare = has_few_events(rate, kish)
                results.set_interval(slot, m, on[rare], low[rare], high[rare], math.nan, "korn-graubard_few")
            else:
                _set_student_limits(choice, slot, m, on, variance, kish)
            if slot[0] is SeriesKind.DIFFERENCE:
                _set_cluster_pair_limits(choice, slot, m, on, variance, clusters, kish)
            _mark_poor_coverage(choice, slot, m, on, kish)
            results.remove_intervals(slot, m, on[clusters < FEWEST_CLUSTERS])


def _set_student_limits(choice: _IntervalChoice, slot: Slot, m: int, on: Ints, variance: Floats, kish: Floats) -> None:
    """Sets Student's limits of some policies. Where the clusters do not differ, rates get exact limits, and differences
    of rates Tango's with the clusters as trials.

    Means of costs are skew: theirs are on the scale of the logarithm. F1s have Wilson's, with as many trials as their
    variance is worth. Costs that do not differ keep the bootstrap's limits, without width.
    """
    sample, results, level = choice.sample, choice.results, choice.settings.level
    value = results.value[(*slot, m, on)]
    still = variance <= NOTHING * np.maximum(1.0, value**2)
    low, high, p_value = (ends[~still] for ends in student_limits(value, variance, kish, level))
    share = sample.metrics[m].column.share or sample.is_rate(m)
    if share and slot[0] is not SeriesKind.REDUCTION:
        low, high = np.maximum(low, -1.0 if slot[0] is SeriesKind.DIFFERENCE else 0.0), np.minimum(high, 1.0)
    moving, f1 = value[~still], isinstance(sample.metrics[m], F1)
    if slot[0] is SeriesKind.VALUE and sample.metrics[m].is_mean_cost and not share:
        low, high = (np.where(moving > 0, moving * np.exp(end / moving - 1), end) for end in (low, high))
    if slot[0] is SeriesKind.VALUE and f1:
        most = np.full(len(moving), np.inf)
        trials = effective_trials(moving * (1 - moving), variance[~still], most, kish[~still], level)
        low, high = wilson_limits(moving * trials, trials, level)
    bad = np.isnan(low)
    results.set_interval(slot, m, on[~still], low, high, p_value, "t")
    results.set_interval(slot, m, on[~still][bad], math.nan, math.nan, math.nan, None)
    if not still.any() or not share or slot[0] is SeriesKind.REDUCTION:
        return
    trials, value = np.maximum(kish[still], 1), value[still]
    if slot[0] is SeriesKind.VALUE:
        limits = clopper_pearson(np.clip(value, 0.0, 1.0) * trials, trials, (1 - level) / 2)
        results.set_interval(slot, m, on[still], *limits, math.nan, "korn-graubard_few")
        return
    trials, moved = sample.counts[m, on[still]] * 1.0 if f1 else trials, np.clip(value, -1.0, 1.0)
    low, high = tango_limits(trials * np.maximum(moved, 0), trials * np.maximum(-moved, 0), trials, level)
    results.set_interval(
        slot, m, on[still], low, high, mid_p_value(np.where(moved == 0, 0.0, np.floor(trials)), 0.0), "tango"
    )


def _set_cluster_pair_limits(
    choice: _IntervalChoice, slot: Slot, m: int, on: Ints, variance: Floats, clusters: Floats, kish: Floats
) -> None:
    """Sets Tango's interval, with clusters as trials, for differences of rates where few clusters or examples differ.

    A cluster's share of gains and losses varies at most as much as a trial with these probabilities. Elsewhere
    Student's limits reach, on the side of the more frequent of gains and losses, as far as Tango's with as many trials
    as the variance over clusters is worth: there Student's end too soon. So they do on both sides, and are marked,
    where few graded values differ: these, as a judge's, vary far less than trials.
    """
    pairs, results, level = choice.pairs, choice.results, choice.settings.level
    number, value = slot[1], results.value[(*slot, m, on)]
    one, two, trials = (part[number, m, on] for part in (pairs.first, pairs.second, pairs.trials))
    few = few_clusters_differ(pairs.examples[number, m, on], pairs.discordant[number, m, on], clusters)
    few &= (one + two > 0) & (clusters > 1)
    scan, statistics = choice.sample.scan, [choice.sample.metrics[m].statistics(p)[0] for p in on.tolist()]
    integer = scan.integer[[scan.index[statistic] for statistic in statistics]]
    graded = ~(integer & integer[on == choice.plan.references[number]])
    scarce, few = few & graded, few & ~graded
    if few.any():
        p_values = mid_p_value(pairs.up[number, m, on[few]], pairs.down[number, m, on[few]])
        # What the heaviest unit alone could have shown, and has not, counts for one trial.
        share = np.ones(int(few.sum()))
        if choice.sample.units.weight is not None:
            share = np.minimum(1.0, 1 / (choice.sample.units.heaviest_share * trials[few]))
            p_values = score_p_value(one[few] * share, two[few] * share)
        limits = tango_limits(one[few] * share, two[few] * share, trials[few] * share, level)
        results.set_interval(slot, m, on[few], *limits, p_values, "tango")
    unequal = (np.abs(one - two) > 0) | scarce  # not where they are unknown
    rest = np.flatnonzero(~few & unequal & (variance > NOTHING * np.maximum(1.0, value**2)) & (clusters > 1))
    if len(rest):
        moved = one[rest] + two[rest] - (one[rest] - two[rest]) ** 2 / trials[rest]
        several = choice.sample.units.strata is not None
        most = np.where(graded | several, np.inf, choice.sample.counts[m, on])[rest]
        sure = np.where(scarce, 1 / NOTHING, kish)[rest]  # Student's limits have their say there in any case
        size = effective_trials(moved / trials[rest], variance[rest], most, sure, level)
        low, high = tango_limits(one[rest] / trials[rest] * size, two[rest] / trials[rest] * size, size, level)
        at, losing, both = (*slot, m, on[rest]), one[rest] < two[rest], scarce[rest]
        results.low[at] = np.where(losing | both, np.fmin(results.low[at], low), results.low[at])
        results.high[at] = np.where(losing & ~both, results.high[at], np.fmax(results.high[at], high))
        results.method[at] = np.where(both, STUDENT_FEW, results.method[at])


def _mark_poor_coverage(choice: _IntervalChoice, slot: Slot, m: int, on: Ints, kish: Floats) -> None:
    """Marks Student's limits that may cover too little: those of few clusters, of costs in fewer than 500, of F1s with
    few errors, and of differences of rates with few events where the policies were judged on other examples.
    """
    sample, pairs, results = choice.sample, choice.pairs, choice.results
    metric, kind = sample.metrics[m], slot[0]
    few = kish < FEW_CLUSTERS
    if metric.column.cost and not metric.column.rate:
        few |= kish < FEW_UNITS
    elif isinstance(metric, F1):
        few |= (
            has_few_wrong(sample, metric, on)
            if kind is SeriesKind.VALUE
            else _is_rarely_right_alone(sample, pairs, slot, on)
        )
        if kind is SeriesKind.DIFFERENCE:  # not narrower than without an example that differs
            some, held = (*slot, m, on[few]), results.method[(*slot, m, on[few])] == STUDENT
            low, high = tango_limits(0, 0, sample.counts[m, on[few]], choice.settings.level)
            results.low[some] = np.where(held, np.fmin(results.low[some], low), results.low[some])
            results.high[some] = np.where(held, np.fmax(results.high[some], high), results.high[some])
    elif kind is SeriesKind.DIFFERENCE:
        rare = np.isnan(pairs.examples[slot[1], m, on])
        few |= rare & [
            min(events, n - events) < FEW_PAIRS for events, n in (sample.events_and_trials(m, p) for p in on.tolist())
        ]
    at = (*slot, m, on)
    results.method[at] = np.where(few & (results.method[at] == STUDENT), STUDENT_FEW, results.method[at])


def _is_rarely_right_alone(sample: WholeSample, pairs: PairCounts, slot: Slot, on: Ints) -> NDArray[np.bool_]:
    """Whether exactly one of two compared policies is right on fewer than 20 examples, as far as is known."""
    right = [m for m, metric in enumerate(sample.metrics) if metric.name == "accuracy"]
    if not right:
        return np.ones(len(on), bool)
    return ~(pairs.examples[slot[1], right[0], on] >= FEW_PAIRS)


_Quotient = tuple[Slot, int, Ints, PairMoments]
"""The policies with a quotient, and the pairs of dividend and divisor."""


def _set_quotient_limits(choice: _IntervalChoice) -> None:
    """Sets the intervals of all reductions of mean costs, and of metrics that divide a mean cost by another mean.

    The units are examples or clusters: of these the sums are divided, so their sizes may differ. The p-value of a
    reduction is that of the difference, since both are 0 together.
    """
    results, method = choice.results, method_name("fieller", choice.sample.units.kish)
    cells = list(_cost_quotients(choice))
    if not cells:
        return
    pairs = join_pair_moments([pairs for *_, pairs in cells])  # roots of all at once
    low, high = fieller_limits(pairs, choice.settings.level, choice.sample.units.kish)
    ends = np.cumsum([len(on) for _, _, on, _ in cells])[:-1]
    for (slot, m, on, _), least, most in zip(cells, np.split(low, ends), np.split(high, ends), strict=True):
        if slot[0] is SeriesKind.REDUCTION:
            p_values = results.p_value[SeriesKind.DIFFERENCE, slot[1], m, on]
            results.set_interval(slot, m, on, 1 - most, 1 - least, p_values, method)
        else:
            results.set_interval(slot, m, on, least, most, np.nan, method)
        results.remove_intervals(slot, m, on[np.isnan(least)])


def _cost_quotients(choice: _IntervalChoice) -> Iterator[_Quotient]:
    units, plan = choice.sample.units, choice.plan
    for m, metric in enumerate(plan.metrics):
        if metric.is_mean_cost:
            for number, reference in plan.known_references(m):
                yield _reduction_quotient(choice, m, number, reference)
        elif metric.cost_ratio_parts is not None:
            over, under = metric.cost_ratio_parts
            scale = _metric_factor(over) * metric.column.per, _metric_factor(under)
            valued = np.flatnonzero(plan.valued[m])
            for on in (valued[start : start + ROWS] for start in range(0, len(valued), ROWS)):
                pairs = _pair_moments(units, plan, m, scale, on)
                moves = np.flatnonzero((pairs.xx > 0) | (pairs.yy > 0))
                yield (SeriesKind.VALUE, 0), m, on[moves], pairs.of(moves)


def _reduction_quotient(choice: _IntervalChoice, m: int, number: int, reference: int) -> _Quotient:
    """The quotients of mean costs to a reference's, of which a reduction is 1 minus one. The reduction is exact,
    without an interval, where no unit could change it: two constants, equal costs, or no cost at all.
    """
    moments, results, slot = choice.moments, choice.results, (SeriesKind.REDUCTION, number)
    assert moments is not None
    on = np.flatnonzero(choice.plan.valued[m] & ~np.isnan(results.value[(*slot, m)]))
    pairs = moments.pair_moments(number, m, on, reference, results.value[SeriesKind.VALUE, 0, m])
    value, p_value = results.value[(*slot, m, on)], results.p_value[SeriesKind.DIFFERENCE, number, m, on]
    still = moments.second[number + 1, m, on] == 0
    exact = (still & (value == 0)) | ((pairs.xx == 0) & ((pairs.yy == 0) | (pairs.x == 0)))
    results.set_interval(slot, m, on[exact], value[exact], value[exact], p_value[exact], "percentile")
    return slot, m, on[~exact], pairs.of(np.flatnonzero(~exact))


def _pair_moments(units: Units, plan: SeriesPlan, m: int, scale: tuple[float, float], policies: Ints) -> PairMoments:
    """The moments over the units of pairs (numerator, denominator): what each unit adds to the two means of a ratio."""
    numbers = np.array([plan.indices(m, p) for p in policies.tolist()], np.int64)
    wanted = np.unique(numbers)
    row = np.searchsorted(wanted, numbers)  # (policies, sum and weight of each of the two)
    totals = plan.scan.total[numbers]
    means = [scale[i] * totals[:, 2 * i] / totals[:, 2 * i + 1] for i in (0, 1)]
    sums = np.zeros((7, len(policies)))

    def added_moments(rows: Floats) -> Floats:
        parts = [
            (scale[i] * rows[row[:, 2 * i]] - means[i][:, None] * rows[row[:, 2 * i + 1]])
            * (units.count / totals[:, 2 * i + 1])[:, None]
            for i in (0, 1)
        ]
        return np.concatenate(parts)

    for both in units.residuals([plan.scan.statistics[i] for i in wanted], added_moments):
        sums += moment_sums(both[: len(policies)], both[len(policies) :])
    return PairMoments(units.count, *means, *(sums / units.count))


def _metric_factor(metric: Metric) -> float:
    """The factor that a metric multiplies its mean by, such as 1,000 for the cost of 1,000 requests."""
    return float(metric.value([np.ones((1, 1)), np.ones((1, 1))])[0, 0])


def _set_f1_limits(choice: _IntervalChoice) -> None:
    f1_intervals(choice.sample, choice.plan, choice.results, choice.settings)


def _withhold_zero_costs(choice: _IntervalChoice) -> None:
    """Removes the interval of a cost that is 0 on all examples, since the data do not show what another example would
    cost.
    """
    for m, metric in enumerate(choice.sample.metrics):
        if metric.is_mean_cost and not metric.column.rate:
            slot = SeriesKind.VALUE, 0
            free = choice.results.value[(*slot, m)] == 0
            choice.results.remove_intervals(slot, m, np.flatnonzero(free))
            for number, reference in choice.plan.known_references(m):
                if free[reference]:
                    choice.results.remove_intervals((SeriesKind.DIFFERENCE, number), m, np.flatnonzero(free))


def _clip_to_range(choice: _IntervalChoice) -> None:
    """Clips limits to the range of the metric: a mean cost is at least 0, a share lies in 0 to 1, and a reduction is at
    most 100 %.

    A symmetric interval of few units, or of a skew cost, knows nothing of such ends. What lies beyond them is no value
    that other examples could show, so leaving it out takes no coverage away.
    """
    results = choice.results
    for m, metric in enumerate(choice.sample.metrics):
        share, cost = metric.column.share, metric.never_negative
        ends = {
            SeriesKind.VALUE: (0.0 if share or cost else -np.inf, 1.0 if share else np.inf),
            SeriesKind.DIFFERENCE: (-1.0, 1.0) if share else (-np.inf, np.inf),
            SeriesKind.REDUCTION: (-np.inf, 1.0 if cost else np.inf),
        }
        for kind, limits in ends.items():
            at = kind, slice(None), m
            results.low[at], results.high[at] = clip_limits(
                results.value[at], results.low[at], results.high[at], *limits
            )


def _agree_with_p_values(choice: _IntervalChoice) -> None:
    """Makes the limits of differences and reductions, and their p-values, say the same of 0."""
    results = choice.results
    for kind in (SeriesKind.DIFFERENCE, SeriesKind.REDUCTION):
        parts = (results.value[kind], results.low[kind], results.high[kind], results.p_value[kind])
        results.low[kind], results.high[kind], results.p_value[kind] = agree_on_zero(*parts, choice.settings.level)


CHOICES: tuple[tuple[Callable[[_IntervalChoice], bool], Callable[[_IntervalChoice], None]], ...] = (
    (lambda choice: True, _set_intervals_by_bootstrap),  # percentile or BCa; studentised, of costs with long tails
    (lambda choice: choice.sample.has_single_units, _set_rare_event_limits),  # Wilson
    (lambda choice: choice.sample.has_single_units, _set_paired_limits),  # Tango, Newcombe
    (lambda choice: not choice.sample.has_single_units, _set_clustered_limits),  # Korn and Graubard, Student, Tango
    (lambda choice: choice.moments is not None, _set_quotient_limits),  # Fieller
    (lambda choice: choice.sample.has_single_units, _set_f1_limits),  # Wilson of Jaccard's index, delta method
    (lambda choice: True, _withhold_zero_costs),  # a dash
    (lambda choice: True, _clip_to_range),
    (lambda choice: True, _agree_with_p_values),
)
"""The rule: (condition, function that sets intervals), applied in order, each replacing earlier intervals."""
