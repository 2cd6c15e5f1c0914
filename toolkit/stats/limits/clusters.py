"""Intervals of clustered examples. They use Student's t, because a few clusters give a poor estimate of the variance.

All functions take arrays, one entry an estimate. `variance` is that of the estimate over clusters, by the jackknife.
`kish`: how many clusters of equal size these are worth, (Σn)²/Σn² for sizes n (L. Kish, Survey Sampling, 1965, 11.7).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.limits.intervals import MIN_EVENTS, NORMAL, clopper_pearson, wilson_limits
from toolkit.stats.limits.student import student_quantile, student_tails
from toolkit.stats.metrics.spill import Floats

FEWEST_CLUSTERS = 3
"""Clusters below which there is no interval."""

FEW_CLUSTERS = 10
"""The effective number of clusters below which a warning stands above the tables and all intervals are marked."""

FEW_EVENTS = 3
"""Rates with fewer events of a kind than in so many clusters are marked. More, as the variance over clusters has it,
would leave unmarked those samples that happen to show a small one."""

FEW_GRADED, FEW_OFF = 200, 30
"""Means of fewer graded values, or with fewer off 0, or off 1, leave the bootstrap: it covers 57 to 93 % of these."""

TRIALS_OF_RARE = 4
"""Trials that a cluster is worth at most where events are rare: few clusters show how unevenly those are spread."""

NOTHING, ROUNDING = 1e-24, 1e-12
"""Variances up to this are rounding, and up to this share of the mean square."""


def korn_graubard_limits(
    rate: Floats, variance: Floats, most: Floats, kish: Floats, level: float
) -> tuple[Floats, Floats]:
    """The exact binomial limits of rates over clusters. Their trials are as many as the variance over clusters implies.

    E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193: the effective sample size p(1 − p)/variance times
    (z/t)², t with `kish` − 1 degrees of freedom; at most `most` (the examples of a column of 0 and 1, else infinite).
    Where clusters do not differ they are the trials: nothing is then known of how alike their examples are. With fewer
    events of a kind than ten, a cluster counts as four trials at most: without that, rates of 97 to 99 % in ten to
    fifty clusters of a hundred examples, of intraclass correlations from 0.05 to 0.5, are covered in 77 to 94 %, with
    it in 93 to 100 %. Of graded values that are all alike, see `graded_limits`.
    """
    trials = effective_trials(rate * (1 - rate), variance, most, kish, level)
    seen = _as_trials(rate * (1 - rate), variance, most, kish)
    rare = ~(seen * np.minimum(rate, 1 - rate) >= MIN_EVENTS)
    trials = np.where(rare, np.minimum(trials, TRIALS_OF_RARE * kish), trials)
    return _exact_limits(rate, trials, np.where((variance <= NOTHING) & np.isinf(most), kish, np.nan), level)


def graded_limits(
    mean: Floats, square: Floats, n: Floats, off: Floats, level: float
) -> tuple[Floats, Floats, NDArray[np.str_]]:
    """Limits of means of n independent values from 0 to 1, and their method, empty where the bootstrap suffices.

    `square`: the mean of the squares; `off`: how many values are not 0, or not 1, whichever are fewer. The limits are
    Korn and Graubard's, with as many trials as the variance s²/n is worth, which may be more than n. Where fewer than
    ten values (or half of them) are off the same end, the next may vary as none of these does: Wilson's of n trials,
    marked. Where all are alike, a share q = 1 − ((1 − level)/2)^(1/n) of others, of 0 or of 1, would not be seen:
    m·(1 − q) to m + q·(1 − m), marked. 27 times 0.8 has 0.70 and 0.83; 27 times 1 Clopper and Pearson's 0.872 and 1.
    """
    spread = square - mean**2
    alike, few = spread <= ROUNDING * square, off < np.minimum(MIN_EVENTS, n / 2)
    method = np.where(few | alike, "graded_few", np.where((n < FEW_GRADED) | (off < FEW_OFF), "graded", ""))
    low, high = np.full((2, *mean.shape), np.nan)
    on = np.flatnonzero(method != "")
    if len(on):
        mean, spread, n, alike, few = mean[on], spread[on], n[on], alike[on], few[on]
        variance = np.where(alike, 0.0, spread / (n - 1))
        trials = effective_trials(mean * (1 - mean), variance, np.full(mean.shape, np.inf), n, level)
        exact, score = _exact_limits(mean, trials, np.where(alike, n, np.nan), level), wilson_limits(mean * n, n, level)
        low[on], high[on] = (np.where(few & ~alike, a, b) for a, b in zip(score, exact, strict=True))
    return low, high, method


def _exact_limits(rate: Floats, trials: Floats, alike: Floats, level: float) -> tuple[Floats, Floats]:
    """Clopper and Pearson's limits of rates. Where `alike` values do not vary, the limits say what rate could remain
    unseen.
    """
    rate = np.clip(rate, 0.0, 1.0)
    low, high = clopper_pearson(rate * trials, trials, (1 - level) / 2)
    unseen = 1 - ((1 - level) / 2) ** (1 / alike)
    still = np.isfinite(alike)
    return np.where(still, rate * (1 - unseen), low), np.where(still, rate + unseen * (1 - rate), high)


def effective_trials(single: Floats, variance: Floats, most: Floats, kish: Floats, level: float) -> Floats:
    """The number of independent trials of variance `single` whose mean has the `variance` of the clusters' mean."""
    z, t = NORMAL.inv_cdf((1 + level) / 2), student_quantile(np.maximum(kish - 1, 1), (1 + level) / 2)
    trials = _as_trials(single, variance, most, kish) * (z / t) ** 2
    return np.where((variance <= NOTHING) | ~(trials > 0), kish, trials)


def _as_trials(single: Floats, variance: Floats, most: Floats, kish: Floats) -> Floats:
    """The effective trials before Student's correction; the number of clusters where clusters do not differ."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance <= NOTHING, kish, np.minimum(single / variance, most))


def has_few_events(rate: Floats, kish: Floats) -> NDArray[np.bool_]:
    """Whether a rate rests on few clusters, or on events or non-events in few clusters."""
    return ~((kish >= FEW_CLUSTERS) & (kish * np.minimum(rate, 1 - rate) >= FEW_EVENTS))


def student_limits(estimate: Floats, variance: Floats, kish: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """The limits by Student's t with `kish` − 1 degrees of freedom, and the two-sided p-value of 0.

    The jackknife's variance is that of R. M. Bell and D. F. McCaffrey's advice for few clusters (Survey Methodology 28
    (2002) 169, "CR3"). Their degrees of freedom, from an estimated intraclass correlation, make intervals of very
    unequal clusters 35 to 45 % too wide; with one less than there are clusters they cover 85 to 92 %.
    """
    freedom = np.maximum(kish - 1, 1)
    error = np.sqrt(variance)
    half = student_quantile(freedom, (1 + level) / 2) * error
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = student_tails(freedom, np.abs(estimate) / error)
    return estimate - half, estimate + half, p_value


def jackknife_variance(first: Floats, second: Floats, clusters: Floats) -> Floats:
    """The jackknife's variance, (G − 1)/G · Σ(d − mean)², of an estimate over G clusters. It takes the sums of d and
    d², d being the estimate without one cluster less a constant; NaN where one is NaN.

    All are (strata, …): of several strata these add up, each times ((N − 1)/N · G/(G − 1))² for N clusters in all,
    since one of N is left out and not one of G. Units 0, 2 in one stratum and 4, 4 in another have the mean 2.5 and the
    variance (2/4)²·(2/2) = 0.25, that of half a mean of two: d is 2.5/3, 0.5/3 in the first.
    """
    size = np.maximum(clusters, 1)
    with np.errstate(invalid="ignore"):  # of infinite sums it is unknown
        spread = np.maximum(second - first**2 / size, 0.0) * (size - 1) / size
    if len(size) > 1:
        every = np.maximum(clusters.sum(axis=0), 2)
        spread = spread * ((every - 1) / every * size / np.maximum(size - 1, 1)) ** 2
    return np.asarray(spread.sum(axis=0))
