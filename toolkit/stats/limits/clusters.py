"""Intervals of clustered examples: a few clusters say little about their own variance, so Student's t has its say.

All functions take arrays, one entry an estimate. `variance` is that of the estimate over clusters, by the jackknife.
`kish`: how many clusters of equal size these are worth, (Σn)²/Σn² for sizes n (L. Kish, Survey Sampling, 1965, 11.7).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from toolkit.stats.limits.intervals import MIN_EVENTS, NORMAL, clopper_pearson
from toolkit.stats.metrics.spill import Floats

FEWEST_CLUSTERS = 3
"""With fewer there is no interval."""

FEW_CLUSTERS = 10
"""Worth fewer, a warning stands above the tables, and all intervals are marked."""

FEW_EVENTS = 3
"""Rates with fewer events of a kind than in so many clusters are marked. More, as the variance over clusters has it,
would leave unmarked those samples that happen to show a small one."""

TRIALS_OF_RARE = 4
"""Trials that a cluster is worth at most where events are rare: few clusters show how unevenly those are spread."""

NOTHING = 1e-24
"""Variances up to this are rounding."""


def korn_graubard(rate: Floats, variance: Floats, most: Floats, kish: Floats, level: float) -> tuple[Floats, Floats]:
    """Exact binomial limits of rates with as many trials as their variance over clusters is worth.

    E. L. Korn and B. I. Graubard, Survey Methodology 24 (1998) 193: the effective sample size p(1 − p)/variance times
    (z/t)², t with `kish` − 1 degrees of freedom; at most `most` (the examples of a column of 0 and 1, else infinite).
    Where clusters do not differ they are the trials: nothing is then known of how alike their examples are. With fewer
    events of a kind than ten, a cluster counts as four trials at most: without that, rates of 97 to 99 % in ten to
    fifty clusters of a hundred examples, of intraclass correlations from 0.05 to 0.5, are covered in 77 to 94 %, with
    it in 93 to 100 %.
    """
    trials = worth_in_trials(rate * (1 - rate), variance, most, kish, level)
    seen = _as_trials(rate * (1 - rate), variance, most, kish)
    rare = ~(seen * np.minimum(rate, 1 - rate) >= MIN_EVENTS)
    trials = np.where(rare, np.minimum(trials, TRIALS_OF_RARE * kish), trials)
    return clopper_pearson(np.clip(rate, 0.0, 1.0) * trials, trials, (1 - level) / 2)


def worth_in_trials(single: Floats, variance: Floats, most: Floats, kish: Floats, level: float) -> Floats:
    """As how many trials, of the variance `single` each, clusters count whose mean has the `variance`; see above."""
    from scipy.special import stdtrit

    z, t = NORMAL.inv_cdf((1 + level) / 2), stdtrit(np.maximum(kish - 1, 1), (1 + level) / 2)
    trials = _as_trials(single, variance, most, kish) * (z / t) ** 2
    return np.where((variance <= NOTHING) | ~(trials > 0), kish, trials)


def _as_trials(single: Floats, variance: Floats, most: Floats, kish: Floats) -> Floats:
    """The same before Student's distribution has its say; where clusters do not differ, they are the trials."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(variance <= NOTHING, kish, np.minimum(single / variance, most))


def few_events(rate: Floats, kish: Floats) -> NDArray[np.bool_]:
    """Whether a rate over clusters rests on few of these, or on events of a kind in few of them."""
    return ~((kish >= FEW_CLUSTERS) & (kish * np.minimum(rate, 1 - rate) >= FEW_EVENTS))


def student(estimate: Floats, variance: Floats, kish: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Limits by Student's t with `kish` − 1 degrees of freedom, and the two-sided p-value of 0.

    The jackknife's variance is that of R. M. Bell and D. F. McCaffrey's advice for few clusters (Survey Methodology 28
    (2002) 169, "CR3"). Their degrees of freedom, from an estimated intraclass correlation, make intervals of very
    unequal clusters 35 to 45 % too wide; with one less than there are clusters they cover 85 to 92 %.
    """
    from scipy.special import stdtr, stdtrit

    freedom = np.maximum(kish - 1, 1)
    error = np.sqrt(variance)
    half = stdtrit(freedom, (1 + level) / 2) * error
    with np.errstate(invalid="ignore", divide="ignore"):
        p_value = 2 * stdtr(freedom, -np.abs(estimate) / error)
    return estimate - half, estimate + half, p_value


def jackknife_variance(first: Floats, second: Floats, clusters: Floats) -> Floats:
    """(G − 1)/G · Σ(d − mean)², from the sums of d and d² over the values that leave one of G clusters out, less one
    constant; NaN where a value is.
    """
    size = np.maximum(clusters, 1)
    return np.maximum(second - first**2 / size, 0.0) * (size - 1) / size
