"""Discrimination and calibration against scikit-learn, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, roc_auc_score

from toolkit.stats.calibration import calibration


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
