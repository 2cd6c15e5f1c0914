"""Calibration of clustered scores, worked out by hand."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest

from toolkit.stats import Settings, wilson
from toolkit.stats.curves.calibration import LEAST, LEAST_CLUSTERS, _share_interval, clustered_calibration

QUICK = Settings(resamples=500)


def test_numbers_of_four_scores() -> None:
    """Two bins: |0.15 − 1/2| · 2/4 + |0.85 − 1| · 2/4 = 0.25, less its bias; (0.15² + 0.85² + 0.15² + 0.15²) / 4."""
    found = clustered_calibration([0.15, 0.15, 0.85, 0.85], [0, 1, 1, 1], [0, 1, 2, 3], settings=QUICK)
    assert (found.n, found.clusters, found.rate, found.score) == (4, 4, 0.75, pytest.approx(0.5))
    assert found.brier.estimate == pytest.approx(0.1975)
    # deviations ±0.35/2 and 0.15/2 with the variances 0.83/16 and, of tosses with 3/4, 2 · 3/16/16
    normal, moved, error = NormalDist(), (0.175, 0.075), (np.sqrt(0.83) / 4, np.sqrt(0.375) / 4)
    mean = sum(s * np.sqrt(2 / np.pi) * np.exp(-((m / s) ** 2) / 2) + m * (2 * normal.cdf(m / s) - 1)
               for m, s in zip(moved, error, strict=True))  # fmt: skip
    assert found.ece.estimate == pytest.approx(max(0.0, 2 * 0.25 - mean), abs=0.02)
    assert (found.ece.low, found.ece.method) == (0.0, "inverted")
    # of three pairs of right and wrong, 0.85 beats 0.15 twice, and 0.15 ties with 0.15 once
    assert found.auroc == pytest.approx(2.5 / 3)
    # deviations 0.15, −0.85, 0, 0 and 0, 0, −0.15, −0.15 by claim: Σ(x − mean)² is 0.6225 and 0.0225, times 4/3
    assert found.chance == pytest.approx(np.sqrt(2 / np.pi) * (np.sqrt(0.83) + np.sqrt(0.03)) / 4)


def test_trials_of_clusters_are_what_their_variance_is_worth() -> None:
    """Sums of label − 1/2 are 1, −1, 0: variance 3/2 · 2/36 = 1/12, so 1/4 / (1/12) = 3 trials, times (1.96/4.303)²."""
    found = _share_interval([1, 1, 0, 0, 1, 0], [0, 0, 1, 1, 2, 2])
    trials = 3 * (1.959964 / 4.302653) ** 2
    low, high = wilson(trials / 2, trials)
    assert (found.estimate, found.low, found.high) == (0.5, pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))
    alone = _share_interval([1, 1, 0, 0, 1, 0], range(6))
    assert (alone.low, alone.high) == wilson(3, 6)


def test_bins_with_few_scores_or_clusters_have_no_share() -> None:
    few = [0.05] * (LEAST - 1), [0.15] * LEAST, [0.25] * LEAST
    scores = np.concatenate(few)
    clusters = [*range(LEAST - 1), *(i % (LEAST_CLUSTERS - 1) for i in range(LEAST)), *(i % 10 for i in range(LEAST))]
    found = clustered_calibration(scores, np.arange(len(scores)) % 2, clusters, settings=QUICK)
    assert [(one.n, one.clusters, one.label.estimate is None) for one in found.bins[:4]] == [
        (19, 19, True), (20, 9, True), (20, 10, False), (0, 0, True),
    ]  # fmt: skip
    assert found.bins[2].score == pytest.approx(0.25)
    assert found.bins[2].label.estimate == 0.5


def test_scores_that_are_no_probabilities_have_no_calibration() -> None:
    found = clustered_calibration([-3.0, -1.0, 2.0], [0, 1, 1], [0, 0, 1], settings=QUICK)
    assert (found.brier, found.ece, found.chance, found.bins) == (None, None, None, ())
    assert found.auroc == 1.0


@pytest.mark.parametrize(("shift", "low", "high"), [(0.0, 0.0, 0.06), (0.15, 0.08, 0.22)])
def test_an_ece_is_told_from_0_where_it_is(shift: float, low: float, high: float) -> None:
    rng = np.random.default_rng(2)
    score = 0.2 + 0.6 * rng.random(1000)
    found = clustered_calibration(score, rng.random(1000) < score - shift, range(1000), settings=QUICK)
    assert found.ece.low <= shift <= found.ece.high
    assert low <= found.ece.low <= found.ece.estimate <= found.ece.high <= high


def test_scores_of_one_cluster_have_no_interval() -> None:
    found = clustered_calibration([0.2, 0.8], [0, 1], [0, 0], settings=QUICK)
    assert (found.ece.estimate, found.ece.low, found.ece.high) == (pytest.approx(0.2), None, None)


def test_intervals_hold_the_clusters_together() -> None:
    """Traces of a claim that are all alike tell as much as one: the interval is as wide as of one trace a claim."""
    rng = np.random.default_rng(0)
    right = rng.random(60) < 0.5
    one = clustered_calibration(np.full(60, 0.45), right, range(60), settings=QUICK)
    many = clustered_calibration(np.full(600, 0.45), np.repeat(right, 10), np.repeat(range(60), 10), settings=QUICK)
    assert many.brier.low == pytest.approx(one.brier.low)
    width = [found.bins[4].label.high - found.bins[4].label.low for found in (one, many)]
    assert width[1] == pytest.approx(width[0], rel=0.05)
