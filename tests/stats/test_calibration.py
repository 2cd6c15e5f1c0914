"""Discrimination and calibration against scikit-learn, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from toolkit.stats import Settings, wilson
from toolkit.stats.curves.calibration import calibration, wide_bins


@pytest.mark.parametrize("seed", range(5))
def test_as_scikit_learn_has_it_for_fractional_labels_too(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.integers(0, 11, 200) / 10, rng.choice([0.0, 0.5, 1.0], 200)
    found = calibration(scores, labels)
    doubled = np.concatenate([scores, scores])
    classes = np.concatenate([np.ones(200), np.zeros(200)])
    weights = np.concatenate([labels, 1 - labels])
    assert found.auroc == pytest.approx(roc_auc_score(classes, doubled, sample_weight=weights))
    assert found.auprc == pytest.approx(average_precision_score(classes, doubled, sample_weight=weights))
    assert found.brier == pytest.approx(brier_score_loss(classes, doubled, sample_weight=weights))


def test_ece_by_hand() -> None:
    # Bins: 0.1 twice (mean label 0.5: off by 0.4), 1.0 twice (mean label 1). 2/4 * 0.4 = 0.2.
    found = calibration(np.array([0.1, 0.1, 1.0, 1.0]), np.array([1.0, 0.0, 1.0, 1.0]))
    assert found.ece == pytest.approx(0.2)
    assert [(one.low, one.n) for one in found.bins] == [(0.1, 2), (0.9, 2)]


def test_ece_weights_bins_by_their_examples() -> None:
    # Bins: 0.1 three times (mean label 1/3: off by 7/30), 0.9 once (label 0: off by 0.9). 3/4 · 7/30 + 1/4 · 0.9 = 0.4.
    # The plain mean over the bins is 17/30.
    found = calibration(np.array([0.1, 0.1, 0.1, 0.9]), np.array([1.0, 0.0, 0.0, 0.0]))
    assert found.ece == pytest.approx(0.4)
    assert [one.n for one in found.bins] == [3, 1]


def test_one_class_has_no_auroc() -> None:
    repaired = calibration(np.array([0.2, 0.4]), np.array([1.0, 1.0]))
    assert math.isnan(repaired.auroc)
    assert (repaired.auprc, repaired.rate) == (1.0, 1.0)
    assert repaired.brier == pytest.approx((0.8**2 + 0.6**2) / 2)
    never = calibration(np.array([0.2, 0.4]), np.array([0.0, 0.0]))
    assert np.isnan([never.auroc, never.auprc]).all()
    assert never.brier == pytest.approx((0.2**2 + 0.4**2) / 2)


def test_nothing_has_no_numbers() -> None:
    found = calibration(np.empty(0), np.empty(0))
    assert np.isnan([found.auroc, found.auprc, found.brier, found.ece, found.rate]).all()
    assert (found.n, found.bins) == (0, ())


def test_scores_that_are_no_chances_have_no_calibration() -> None:
    found = calibration(np.array([-2.0, 0.5, 3.0]), np.array([0.0, 0.0, 1.0]))
    assert found.auroc == 1.0
    assert np.isnan([found.brier, found.ece]).all()
    assert found.bins == ()


def test_bins_are_joined_until_each_has_enough_and_have_wilsons_limits() -> None:
    """By tenths 3, 2, 4 and 1 examples: at least 4 make two bins, the last of which takes the rest."""
    scores = np.array([0.05] * 3 + [0.15] * 2 + [0.55] * 4 + [1.0])
    labels = np.array([0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    first, last = wide_bins(scores, labels, np.arange(10), Settings(resamples=100), least=4)
    assert (first.low, first.high, first.n, last.low, last.high, last.n) == (0.0, 0.2, 5, 0.5, 1.0, 5)
    assert first.score == pytest.approx((3 * 0.05 + 2 * 0.15) / 5)
    assert (first.label.estimate, last.label.estimate) == pytest.approx((2 / 5, 4 / 5))
    assert (first.label.low, first.label.high) == pytest.approx(wilson(2, 5))
    assert (last.label.low, last.label.high) == pytest.approx(wilson(4, 5))
    alone = wide_bins(scores, labels, np.arange(10), Settings(resamples=100), least=20)
    assert [(one.low, one.high, one.n) for one in alone] == [(0.0, 1.0, 10)]


def test_bins_of_clusters_are_wider() -> None:
    """Twenty clusters of two equal examples say as much as twenty examples do."""
    labels = np.repeat([1.0, 0.0, 0.0, 1.0, 0.0] * 4, 2)
    scores, settings = np.full(40, 0.4), Settings(resamples=2_000)
    (apart,) = wide_bins(scores, labels, np.arange(40), settings)
    (clustered,) = wide_bins(scores, labels, np.repeat(np.arange(20), 2), settings)
    assert apart.label.low is not None
    assert apart.label.high is not None
    assert clustered.label.low is not None
    assert clustered.label.high is not None
    assert clustered.label.high - clustered.label.low > 1.3 * (apart.label.high - apart.label.low)


def test_scores_that_are_no_probabilities_have_no_bins_of_their_own() -> None:
    assert wide_bins(np.array([2.0, 0.5]), np.array([1.0, 0.0]), np.arange(2), Settings(resamples=10)) == ()
