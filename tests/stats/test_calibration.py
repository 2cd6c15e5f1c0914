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


def test_one_class_has_no_auroc() -> None:
    assert math.isnan(calibration(np.array([0.2, 0.4]), np.array([1.0, 1.0])).auroc)


def test_scores_that_are_no_chances_have_no_calibration() -> None:
    found = calibration(np.array([-2.0, 0.5, 3.0]), np.array([0.0, 0.0, 1.0]))
    assert found.auroc == 1.0
    assert np.isnan([found.brier, found.ece]).all()
    assert found.bins == ()
