"""Curves over a threshold: every point exact from cumulative sums, and a band that holds the whole curve.

A gate that opens step by step lets one more group of examples through at each point. So the resampled value of every
point follows from the resampled sums of the groups, one pass over the resamples, however many points there are.
The band is the sup-t band: the critical value is the quantile of the largest studentised deviation over all points
(Montiel Olea and Plagborg-Møller, Journal of Applied Econometrics 34, 2019, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.limits.clusters import (
    FEWEST_CLUSTERS,
    graded_limits,
    jackknife_variance,
    korn_graubard_limits,
    student_limits,
)
from toolkit.stats.limits.intervals import MIN_EVENTS, clip_limits, clopper_pearson, wilson
from toolkit.stats.limits.studentised import Spread, studentised_limits
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.resamples import Resamples, Settings
from toolkit.stats.metrics.scan import kish_number
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import Strata


@dataclass(frozen=True, eq=False)
class GateSteps:
    """N examples that a gate lets through group by group, as its threshold falls.

    `group` (N,): the point (1 to P) from which an example is let through. `base` and `fired` (metrics, N): values
    before and after. `unit` (N,): resampling unit, numbered from 0. `rate` names the metrics that are shares of
    examples, within 0 and 1. An unjudged example has NaN in both and is left out of that metric. `among` names ratios
    of two of them, such as flips among those acted on; they are NaN where the second is 0. `strata`: those of the
    examples, within which resamples are drawn and variances taken, and by which examples may be weighed.
    """

    group: Ints
    unit: Ints
    base: Mapping[str, Floats]
    fired: Mapping[str, Floats]
    rate: frozenset[str]
    least: int = 0  # points there are at least, where the last ones let no further example through
    among: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    strata: Strata | None = None

    @property
    def example_weight(self) -> Floats | None:
        """What each example counts in the means (N,); None where all count alike."""
        return None if self.strata is None else self.strata.weight

    def weight_of(self, on: NDArray[np.bool_]) -> float:
        """The total weight of the examples where `on` is true."""
        return float(on.sum() if self.example_weight is None else self.example_weight[on].sum())

    def stratum_of_units(self, units: Ints) -> Ints:
        """The stratum of each of the resampling units (U,). All lie in one where the log has no strata."""
        if self.strata is None:
            return np.zeros(len(units), np.int64)
        every, first = np.unique(self.unit, return_index=True)
        return self.strata.number[first[np.searchsorted(every, units)]]

    @property
    def last_point(self) -> int:
        """The number of the curve's last point, at which the gate has let all examples through."""
        return max(int(self.group.max(initial=0)), self.least)

    @property
    def has_independent_examples(self) -> bool:
        """Whether every resampling unit is one example, which counts as much as any other."""
        return len(np.unique(self.unit)) == len(self.unit) and self.example_weight is None

    def has_metric(self, metric: str) -> NDArray[np.bool_]:
        """Whether each example (N,) has the metric before and after the gate lets it through; of a ratio, both."""
        if metric in self.among:
            top, of = self.among[metric]
            return self.has_metric(top) & self.has_metric(of)
        return ~np.isnan(self.base[metric]) & ~np.isnan(self.fired[metric])

    def totals(
        self, metric: str, on: NDArray[np.bool_], function: Callable[[Floats], Floats] = lambda values: values
    ) -> Floats:
        """Sums over the examples `on` of `function` of the metric's values, at every point of the curve (P + 1,)."""
        base, fired = function(self.base[metric][on]), function(self.fired[metric][on])
        if self.example_weight is not None:
            base, fired = base * self.example_weight[on], fired * self.example_weight[on]
        gained = np.bincount(self.group[on], weights=fired - base, minlength=self.last_point + 1)
        return np.asarray(base.sum() + np.cumsum(gained))


def metric_means(steps: GateSteps, metric: str) -> Floats:
    """The mean of a metric at every point, from 0 (nothing let through) to P: (P + 1,), NaN where none is known."""
    if metric in steps.among:
        return ratio_or_nan(*(metric_means(steps, name) for name in steps.among[metric]))
    known = steps.has_metric(metric)
    count = steps.weight_of(known)
    return steps.totals(metric, known) / count if count else np.full(steps.last_point + 1, np.nan)


def ratio_or_nan(numerator: Floats, denominator: Floats) -> Floats:
    """`numerator` over `denominator`, NaN where the denominator is 0."""
    return np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)


RESAMPLES_AT_ONCE = 64
"""Resamples so few that a chunk's counts stay in a processor's cache; only speed depends on it."""


@dataclass(frozen=True, eq=False)
class MetricBand:
    """One metric at P + 1 points: estimate, limits of each point, and limits of the whole curve, (P + 1,) each.

    `n` counts the examples that are judged by it.
    """

    estimate: Floats
    n: int
    low: Floats
    high: Floats
    band_low: Floats
    band_high: Floats


def bands_by_metric(steps: GateSteps, settings: Settings) -> dict[str, MetricBand]:
    """The intervals of every metric at every point, from the resamples that `summarise` draws with these settings.

    Rates get exact binomial limits with the bootstrap's dispersion and critical value, so that the band holds where
    events are few or none; other metrics the estimate and so many bootstrap standard errors. Only units with a judged
    example are evidence. Where fewer than two examples, or three clusters, have one the limits are NaN.
    """
    names = list(steps.base)
    estimates = {name: metric_means(steps, name) for name in (*names, *steps.among)}
    known = {name: steps.has_metric(name) for name in estimates}
    units = {name: len(np.unique(steps.unit[on])) for name, on in known.items()}
    kish = {name: kish_number(steps.unit[on]) for name, on in known.items() if units[name]}
    drawn = int(steps.unit.max(initial=-1)) + 1
    draws = _resampled_means(steps, names, drawn, settings) if drawn > 1 else {}
    by_name, fewest = {}, 2 if steps.has_independent_examples else FEWEST_CLUSTERS
    for name, estimate in estimates.items():
        n = int(known[name].sum())
        if units[name] < fewest:
            by_name[name] = MetricBand(estimate, n, *np.full((4, len(estimate)), np.nan))
            continue
        top, of = steps.among.get(name, (name, None))
        trials = np.full(len(estimate), kish[name]) if of is None else kish[name] * estimates[of]
        values = draws[name] if of is None else ratio_or_nan(draws[top], draws[of])
        limits = _curve_limits(
            steps, name, values, estimate, trials if top in steps.rate else None, kish[name], settings
        )
        by_name[name] = MetricBand(estimate, n, *limits)
    return by_name


def _curve_limits(
    steps: GateSteps, name: str, values: Floats, estimate: Floats, trials: Floats | None, kish: float,
    settings: Settings,
) -> Floats:  # fmt: skip
    """Limits of each point and of the whole curve (4, P + 1) from draws (B, P + 1), NaN where there's no estimate.

    `trials` (P + 1,) is what a rate is a share of. Other metrics' bands take in the pointwise limits; a rate's exact
    limits have the level of one point or a higher one, and percentiles of a handful of events would add to it.
    """
    limits = np.full((4, len(estimate)), np.nan)
    on = np.isfinite(estimate) & np.isfinite(values).any(axis=0)
    if on.any():
        tail = (1 - settings.level) / 2
        limits[:2, on] = np.nanquantile(values[:, on], [tail, 1 - tail], axis=0)
        limits[:2] = _point_limits(steps, name, estimate, limits[0], limits[1], settings.level)
        low, high = limits[:2, on]
        whole = _simultaneous_band(
            values[:, on], estimate[on], None if trials is None else trials[on], kish, settings.level
        )
        limits[2:, on] = whole if trials is not None else (np.fmin(low, whole[0]), np.fmax(high, whole[1]))
    return limits


def _resampled_means(steps: GateSteps, names: list[str], units: int, settings: Settings) -> dict[str, Floats]:
    """The resampled means of each metric by name, (B, P + 1)."""
    from scipy.sparse import csr_matrix

    zero = np.zeros(len(steps.unit), dtype=np.int64)
    columns: list[tuple[Ints, Floats]] = []  # of each metric: what is gained at every point, what is kept, examples
    for name in names:
        on, base = steps.has_metric(name), steps.base[name]
        counted = on.astype(float) if steps.example_weight is None else on * steps.example_weight
        columns.append((steps.group, np.where(on, steps.fired[name] - base, 0.0) * counted))
        columns += [(zero, np.where(on, base, 0.0) * counted), (zero, counted)]
    start = np.cumsum([0, *[steps.last_point + 1, 1, 1] * len(names)])
    row = np.concatenate([start[i] + place for i, (place, _) in enumerate(columns)])
    value = np.concatenate([values for _, values in columns])
    unit = np.tile(steps.unit, len(columns))
    some = value != 0
    sparse = csr_matrix((value[some], (row[some], unit[some])), shape=(int(start[-1]), units))
    stratum = None if steps.strata is None else steps.stratum_of_units(np.arange(units))
    resamples = Resamples(units, settings.resamples, settings.seed, stratum)
    total = np.zeros((int(start[-1]), settings.resamples))
    for chunk, first in enumerate(range(0, units, CHUNK)):
        part, counts = sparse[:, first : first + CHUNK], resamples.counts_of_chunk(chunk)
        for begin in range(0, settings.resamples, RESAMPLES_AT_ONCE):
            span = np.s_[begin : begin + RESAMPLES_AT_ONCE]
            total[:, span] += part @ counts[span].T.astype(np.float64)
    means = {}
    for i, name in enumerate(names):
        gained = np.cumsum(total[start[3 * i] : start[3 * i + 1]], axis=0)
        base, count = total[start[3 * i + 1]], total[start[3 * i + 2]]
        with np.errstate(invalid="ignore", divide="ignore"):
            means[name] = ((base + gained) / count).T
    return means


def _simultaneous_band(
    values: Floats, estimate: Floats, trials: Floats | None, kish: float, level: float
) -> tuple[Floats, Floats]:
    """The limits that hold the whole curve at once, from resampled values (B, points) of units with this `kish` number.

    The variance is estimated from the units, few where they are clusters: it is taken with the divisor kish - 1, and
    the critical value from Student's t with so many degrees of freedom at the level that it has in the normal
    distribution. For rates that is Korn and Graubard's effective sample size (Survey Methodology 24, 1998).
    """
    from scipy.special import ndtr, ndtri, stdtrit

    spread = np.nanstd(values, axis=0) * np.sqrt(kish / max(kish - 1, 1))
    moves = spread > 1e-12
    if not moves.any() and trials is None:
        return estimate.copy(), estimate.copy()
    deviation = np.abs(values[:, moves] - estimate[moves]) / np.nanstd(values[:, moves], axis=0)
    largest = np.fmax.reduce(deviation, axis=1, initial=0.0)
    alone = float(ndtri((1 + level) / 2))
    critical = max(float(np.quantile(largest, level)), alone) if moves.any() else alone
    student = -float(stdtrit(max(kish - 1, 1), ndtr(-critical)))
    if trials is None:
        return estimate - student * spread, estimate + student * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        dispersion = trials * (spread * student / critical) ** 2 / (estimate * (1 - estimate))
    known = moves & np.isfinite(dispersion) & (dispersion > 0)
    most = float(dispersion[known].max()) if known.any() else 1.0  # where nothing has happened, none is seen
    trials = trials / np.where(known, dispersion, most)
    return clopper_pearson(np.clip(estimate, 0.0, 1.0) * trials, trials, float(ndtr(-critical)))


STILL = 1e-20
"""A variance below this share of the square of the mean is rounding."""


def _point_limits(
    steps: GateSteps, metric: str, estimate: Floats, low: Floats, high: Floats, level: float
) -> tuple[Floats, Floats]:
    """The limits of a metric at every point (P + 1,): its percentile limits, or others where these cover too little.

    Rates of independent examples get Wilson's where events are few, those of clusters Korn and Graubard's; costs are
    studentised, and those of clusters get Student's.
    """
    on, rate = steps.has_metric(metric), steps.among.get(metric, (metric,))[0] in steps.rate
    top, of = steps.among.get(metric, (metric, None))
    if steps.has_independent_examples and rate:
        return _rare_event_limits(steps, top, of, on, low, high, level)
    left = _JackknifeSums.compute(steps, top, of, on, estimate)
    if rate:
        ends = _clustered_rate_limits(steps, top, of, on, estimate, left, level)
    else:
        ends = _cost_limits(steps, estimate, low, high, left, level)
    enough = left.units.sum(axis=0) >= (2 if steps.has_independent_examples else FEWEST_CLUSTERS)
    clipped = clip_limits(estimate, ends[0], ends[1], 0.0, 1.0 if rate else np.inf)
    return np.where(enough, clipped[0], np.nan), np.where(enough, clipped[1], np.nan)


def _rare_event_limits(
    steps: GateSteps, top: str, base: str | None, on: NDArray[np.bool_], low: Floats, high: Floats, level: float
) -> tuple[Floats, Floats]:
    low, high = low.copy(), high.copy()
    events = steps.totals(top, on)
    trials = np.full(len(events), float(on.sum())) if base is None else steps.totals(base, on)
    events, trials = np.round(events, 9), np.round(trials, 9)  # they are sums of steps along the band
    few = (np.minimum(events, trials - events) < MIN_EVENTS) & (trials > 0)
    for p in np.flatnonzero(few).tolist():
        some = trials[p] > 1
        low[p], high[p] = wilson(float(events[p]), float(trials[p]), level) if some else (math.nan, math.nan)
    square = steps.totals(top, on, np.square)
    if base is None and trials[0] > 1 and (np.abs(square - events) > 1e-9).any():
        near = np.rint(np.minimum(*(steps.totals(top, on, base) for base in (np.ceil, lambda x: np.ceil(1 - x)))))
        *ends, method = graded_limits(events / trials, square / trials, trials, near, level)
        which = (np.abs(square - events) > 1e-9) & (method != "")
        low, high = (np.where(which, one, other) for one, other in zip(ends, (low, high), strict=True))
    return low, high


@dataclass(frozen=True, eq=False)
class _JackknifeSums:
    """What leaving out single units shows about a metric at every point, (P + 1,) each.

    `first`, `second`: sums of d and d² in each stratum (strata, P + 1), d being what leaving a unit out adds to the
    value; `spread`: of what each unit adds to the value, as in tables; `units`: that add to it (strata, P + 1),
    and their `kish_number`.
    """

    first: Floats
    second: Floats
    spread: Spread
    units: Floats
    kish: Floats

    @classmethod
    def compute(
        cls, steps: GateSteps, top: str, of: str | None, on: NDArray[np.bool_], estimate: Floats
    ) -> _JackknifeSums:
        """Computes the estimates without each unit, a block of units at a time, and adds up their deviations."""
        from scipy.sparse import csc_matrix

        names = [name for name in (top, of) if name is not None]
        units, unit = np.unique(steps.unit[on], return_inverse=True)
        shape = steps.last_point + 1, len(units)
        weight = np.ones(len(unit)) if steps.example_weight is None else steps.example_weight[on]
        base = [np.bincount(unit, weights=steps.base[name][on] * weight, minlength=len(units)) for name in names]
        moved = [(steps.fired[name] - steps.base[name])[on] * weight for name in names]
        gained = [csc_matrix((values, (steps.group[on], unit)), shape=shape) for values in moved]
        examples = np.bincount(unit, weights=weight, minlength=len(units))
        stratum = steps.stratum_of_units(units)
        depth = int(stratum.max()) + 1
        wholes = [steps.totals(name, on)[:, None] for name in names]
        whole: Floats = wholes[-1] if of is not None else np.full((shape[0], 1), examples.sum())
        left, sums, squares = np.zeros((3, depth, shape[0])), np.zeros((2, shape[0])), np.zeros(shape[0])
        for start in range(0, len(units), CHUNK):
            cut = slice(start, start + CHUNK)
            mine = [np.cumsum(g[:, cut].toarray(), axis=0) + k[cut] for g, k in zip(gained, base, strict=True)]
            counted = mine[-1] if of is not None else np.broadcast_to(examples[cut], mine[0].shape)
            d = np.nan_to_num(ratio_or_nan(wholes[0] - mine[0], whole - counted) - estimate[:, None])
            added = (mine[0] - estimate[:, None] * counted) * ratio_or_nan(
                np.full(whole.shape, float(len(units))), whole
            )
            for place in range(depth):
                here = stratum[cut] == place
                left[:, place] += [terms[:, here].sum(axis=1) for terms in (d, d**2, counted > 0)]
            sums += [terms.sum(axis=1) for terms in (added**2, added**3)]
            squares += (counted**2).sum(axis=1)
        kish = ratio_or_nan(whole[:, 0] ** 2, squares)
        return cls(left[0], left[1], Spread(sums[0] / len(units), sums[1] / len(units)), left[2], kish)


def _clustered_rate_limits(
    steps: GateSteps,
    top: str,
    base: str | None,
    on: NDArray[np.bool_],
    estimate: Floats,
    left: _JackknifeSums,
    level: float,
) -> Floats:
    def is_fraction(values: Floats) -> Floats:
        return ((values != 0) & (values != 1)).astype(np.float64)

    parts = sum(steps.totals(name, on, is_fraction) for name in (top, base) if name is not None)
    count = np.full(len(estimate), float(on.sum())) if base is None else steps.totals(base, on)
    ends, known = np.full((2, len(estimate)), np.nan), np.isfinite(estimate)
    variance = jackknife_variance(left.first, left.second, left.units)
    most = np.where(parts < 0.5, count, np.inf)
    ends[:, known] = korn_graubard_limits(estimate[known], variance[known], most[known], left.kish[known], level)
    return ends


def _cost_limits(
    steps: GateSteps, estimate: Floats, low: Floats, high: Floats, left: _JackknifeSums, level: float
) -> Floats:
    if steps.has_independent_examples:
        ends = np.array(studentised_limits(estimate, low, high, left.spread))
    else:
        variance = jackknife_variance(left.first, left.second, left.units)
        ends = np.array(student_limits(estimate, variance, left.kish, level)[:2])
        with np.errstate(invalid="ignore", divide="ignore"):
            ends = np.where(estimate > 0, estimate * np.exp(ends / estimate - 1), ends)
    return np.where(left.spread.second > STILL * estimate**2, ends, (low, high))
