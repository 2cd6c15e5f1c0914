"""Intervals of clustered examples: a few clusters say little about their own variance, so Student's t has its say.

All functions take arrays, one entry an estimate. `variance` is that of the estimate over clusters, by the jackknife.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.intervals import MIN_EVENTS, NORMAL, clopper_pearson
from toolkit.stats.kept import Floats, Ints

FEWEST_CLUSTERS = 3
"""With fewer there is no interval."""

FEW_CLUSTERS = 10
"""With fewer a warning stands above the tables, and all intervals are marked."""

NOTHING = 1e-24
"""Variances up to this are rounding."""


def korn_graubard(
    rate: Floats, variance: Floats, most: Floats, clusters: Ints | Floats, level: float
) -> tuple[Floats, Floats]:
    """Exact binomial limits of rates with as many trials as their variance over clusters is worth.

    E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193: the effective sample size p(1 − p)/variance times
    (z/t)², t with clusters − 1 degrees of freedom; at most `most` (the examples of a column of 0 and 1, else infinite).
    Where clusters do not differ they are the trials: nothing is then known of how alike their examples are.
    """
    trials = worth_in_trials(rate * (1 - rate), variance, most, clusters, level)
    return clopper_pearson(np.clip(rate, 0.0, 1.0) * trials, trials, (1 - level) / 2)


def worth_in_trials(
    single: Floats, variance: Floats, most: Floats | Ints, clusters: Ints | Floats, level: float
) -> Floats:
    """As how many trials, of the variance `single` each, clusters count whose mean has the `variance`; see above."""
    from scipy.special import stdtrit

    z, size = NORMAL.inv_cdf((1 + level) / 2), np.asarray(clusters, np.float64)
    t = stdtrit(np.maximum(size - 1, 1), (1 + level) / 2)
    alike = variance <= NOTHING
    with np.errstate(invalid="ignore", divide="ignore"):
        trials = np.minimum(single / np.where(alike, np.nan, variance), most) * (z / t) ** 2
    return np.where(alike | ~(trials > 0), size, trials)


def few_events(rate: Floats, variance: Floats, most: Floats, clusters: Ints | Floats) -> NDArray[np.bool_]:
    """Whether a rate over clusters rests on few of these, or on fewer events of a kind than ten independent ones."""
    with np.errstate(invalid="ignore", divide="ignore"):
        trials = np.where(variance <= NOTHING, clusters, np.minimum(rate * (1 - rate) / variance, most))
    return (np.asarray(clusters) < FEW_CLUSTERS) | ~(trials * np.minimum(rate, 1 - rate) >= MIN_EVENTS)


def student(estimate: Floats, variance: Floats, clusters: Ints | Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Limits by Student's t with clusters − 1 degrees of freedom, and the two-sided p-value of 0.

    With the jackknife's variance the t is that of R. M. Bell and D. F. McCaffrey's advice for few clusters (Survey
    Methodology 28 (2002) 169, "CR3").
    """
    from scipy.special import stdtr, stdtrit

    freedom = np.maximum(np.asarray(clusters, np.float64) - 1, 1)
    error = np.sqrt(variance)
    half = stdtrit(freedom, (1 + level) / 2) * error
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * stdtr(freedom, -np.abs(estimate) / error)
    return estimate - half, estimate + half, p_value


def jackknife_variance(first: Floats, second: Floats, clusters: Ints | Floats) -> Floats:
    """(G − 1)/G · Σ(d − mean)², from the sums of d and d² over the values that leave one of G clusters out, less one
    constant; NaN where a value is.
    """
    size = np.maximum(np.asarray(clusters, np.float64), 1)
    return np.maximum(second - first**2 / size, 0.0) * (size - 1) / size
