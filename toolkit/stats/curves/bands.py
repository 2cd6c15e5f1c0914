"""Curves over a threshold: every point exact from cumulative sums, and a band that holds the whole curve.

A gate that opens step by step lets one more group of examples through at each point. So the resampled value of every
point follows from the resampled sums of the groups, one pass over the resamples, however many points there are.
The band is the sup-t band: the critical value is the quantile of the largest studentised deviation over all points
(Montiel Olea and Plagborg-Møller, Journal of Applied Econometrics 34, 2019, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toolkit.stats.curves.gate_steps import GateSteps, means, ratio
from toolkit.stats.curves.point_limits import point_limits
from toolkit.stats.limits.clusters import FEWEST_CLUSTERS
from toolkit.stats.limits.intervals import clopper_pearson
from toolkit.stats.metrics.kept import Floats, Ints
from toolkit.stats.metrics.outcomes import CHUNK
from toolkit.stats.metrics.resamples import Resamples, Settings

RESAMPLES_AT_ONCE = 64
"""So few that a chunk's counts stay in a processor's cache; only speed depends on it."""


@dataclass(frozen=True, eq=False)
class MetricBand:
    """One metric's values at P + 1 points: estimate, pointwise limits and those of the whole curve, (P + 1,) each.

    `n` counts the examples that are judged by it.
    """

    estimate: Floats
    n: int
    low: Floats
    high: Floats
    band_low: Floats
    band_high: Floats


def bands(steps: GateSteps, settings: Settings) -> dict[str, MetricBand]:
    """Intervals of every metric at every point, from one set of resamples: those of `summarise` with these settings.

    Rates get exact binomial limits with the bootstrap's dispersion and critical value, so that the band holds where
    events are few or none; other metrics the estimate and so many bootstrap standard errors. Only units with a judged
    example are evidence. Where fewer than two examples, or three clusters, have one the limits are NaN.
    """
    names = list(steps.kept)
    estimates = {name: means(steps, name) for name in (*names, *steps.among)}
    known = {name: steps.known(name) for name in estimates}
    units = {name: len(np.unique(steps.unit[on])) for name, on in known.items()}
    drawn = int(steps.unit.max(initial=-1)) + 1
    draws = _draws(steps, names, drawn, settings) if drawn > 1 else {}
    made, fewest = {}, 2 if steps.independent else FEWEST_CLUSTERS
    for name, estimate in estimates.items():
        n = int(known[name].sum())
        if units[name] < fewest:
            made[name] = MetricBand(estimate, n, *np.full((4, len(estimate)), np.nan))
            continue
        top, of = steps.among.get(name, (name, None))
        trials = np.full(len(estimate), float(units[name])) if of is None else units[name] * estimates[of]
        values = draws[name] if of is None else ratio(draws[top], draws[of])
        limits = _limits(steps, name, values, estimate, trials if top in steps.rate else None, units[name], settings)
        made[name] = MetricBand(estimate, n, *limits)
    return made


def _limits(
    steps: GateSteps, name: str, values: Floats, estimate: Floats, trials: Floats | None, units: int,
    settings: Settings,
) -> Floats:  # fmt: skip
    """Pointwise limits and those of the whole curve (4, P + 1) from draws (B, P + 1), NaN where there is no estimate.

    `trials` (P + 1,) is what a rate is a share of. Other metrics' bands take in the pointwise limits; a rate's exact
    limits have the level of one point or a higher one, and percentiles of a handful of events would add to it.
    """
    limits = np.full((4, len(estimate)), np.nan)
    on = np.isfinite(estimate) & np.isfinite(values).any(axis=0)
    if on.any():
        tail = (1 - settings.level) / 2
        limits[:2, on] = np.nanquantile(values[:, on], [tail, 1 - tail], axis=0)
        limits[:2] = point_limits(steps, name, estimate, limits[0], limits[1], settings.level)
        low, high = limits[:2, on]
        whole = _band(values[:, on], estimate[on], None if trials is None else trials[on], units, settings.level)
        limits[2:, on] = whole if trials is not None else (np.fmin(low, whole[0]), np.fmax(high, whole[1]))
    return limits


def _draws(steps: GateSteps, names: list[str], units: int, settings: Settings) -> dict[str, Floats]:
    """Resampled means of every metric, (B, P + 1) each."""
    from scipy.sparse import csr_matrix

    zero = np.zeros(len(steps.unit), dtype=np.int64)
    columns: list[tuple[Ints, Floats]] = []  # of each metric: what is gained at every point, what is kept, examples
    for name in names:
        on, kept = steps.known(name), steps.kept[name]
        columns.append((steps.group, np.where(on, steps.fired[name] - kept, 0.0)))
        columns += [(zero, np.where(on, kept, 0.0)), (zero, on.astype(float))]
    start = np.cumsum([0, *[steps.points + 1, 1, 1] * len(names)])
    row = np.concatenate([start[i] + place for i, (place, _) in enumerate(columns)])
    value = np.concatenate([values for _, values in columns])
    unit = np.tile(steps.unit, len(columns))
    some = value != 0
    sparse = csr_matrix((value[some], (row[some], unit[some])), shape=(int(start[-1]), units))
    resamples = Resamples(units, settings.resamples, settings.seed)
    total = np.zeros((int(start[-1]), settings.resamples))
    for chunk, first in enumerate(range(0, units, CHUNK)):
        part, counts = sparse[:, first : first + CHUNK], resamples.counts(chunk)
        for begin in range(0, settings.resamples, RESAMPLES_AT_ONCE):
            span = np.s_[begin : begin + RESAMPLES_AT_ONCE]
            total[:, span] += part @ counts[span].T.astype(np.float64)
    made = {}
    for i, name in enumerate(names):
        gained = np.cumsum(total[start[3 * i] : start[3 * i + 1]], axis=0)
        kept, count = total[start[3 * i + 1]], total[start[3 * i + 2]]
        with np.errstate(invalid="ignore", divide="ignore"):
            made[name] = ((kept + gained) / count).T
    return made


def _band(values: Floats, estimate: Floats, trials: Floats | None, units: int, level: float) -> tuple[Floats, Floats]:
    """Limits that hold the whole curve, from draws (B, points) that resample so many units.

    The variance is estimated from the units, few where they are clusters: it is taken with the divisor units - 1, and
    the critical value from Student's t with so many degrees of freedom at the level that it has in the normal
    distribution. For rates that is Korn and Graubard's effective sample size (Survey Methodology 24, 1998).
    """
    from scipy.special import ndtr, ndtri, stdtrit

    spread = np.nanstd(values, axis=0) * np.sqrt(units / (units - 1))
    moves = spread > 1e-12
    if not moves.any() and trials is None:
        return estimate.copy(), estimate.copy()
    deviation = np.abs(values[:, moves] - estimate[moves]) / np.nanstd(values[:, moves], axis=0)
    largest = np.fmax.reduce(deviation, axis=1, initial=0.0)
    alone = float(ndtri((1 + level) / 2))
    critical = max(float(np.quantile(largest, level)), alone) if moves.any() else alone
    student = -float(stdtrit(units - 1, ndtr(-critical)))
    if trials is None:
        return estimate - student * spread, estimate + student * spread
    with np.errstate(invalid="ignore", divide="ignore"):
        dispersion = trials * (spread * student / critical) ** 2 / (estimate * (1 - estimate))
    known = moves & np.isfinite(dispersion) & (dispersion > 0)
    most = float(dispersion[known].max()) if known.any() else 1.0  # where nothing has happened, none is seen
    trials = trials / np.where(known, dispersion, most)
    return clopper_pearson(np.clip(estimate, 0.0, 1.0) * trials, trials, float(ndtr(-critical)))
