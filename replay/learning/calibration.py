"""Verifier scores as probabilities of being right: isotonic regression, and Platt's logistic one (1999)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from replay.data.block import LoggedPool
from replay.sampling.learned import Calibration, Predictor
from toolkit.errors import ThinkbackError


def fit_calibration(pool: LoggedPool, verifier: str, calibration: Calibration) -> Calibration:
    """The calibration fitted on every judged, valid, scored trace of a pool of the development split."""
    known = pool.scored(verifier) & ~np.isnan(pool.judged)
    scores, right = pool.scores[verifier].score[known], pool.judged[known]
    if not ((right > 0).any() and (right < 1).any()):
        raise ThinkbackError(
            f"`calibration.on` ({calibration.on}) needs right and wrong traces with a score; it has "
            f"{int((right > 0).sum())} right of {len(right)}"
        )
    return replace(calibration, fit=METHODS[calibration.method](scores, right))


def _isotonic(scores: np.ndarray, right: np.ndarray) -> Predictor:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, right)
    return lambda rows: np.asarray(model.predict(rows[:, 0]), np.float64)


def _platt(scores: np.ndarray, right: np.ndarray) -> Predictor:
    """Logistic in the score, towards Platt's targets (n1 + 1)/(n1 + 2) and 1/(n0 + 2)."""
    from sklearn.linear_model import LogisticRegression

    positive, negative = right.sum(), (1 - right).sum()
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    target = right * high + (1 - right) * low
    design = np.concatenate([scores, scores])[:, None]
    model = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
    model.fit(design, np.repeat([1, 0], len(scores)), sample_weight=np.concatenate([target, 1 - target]))
    slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
    return lambda rows: 1 / (1 + np.exp(-(slope * rows[:, 0] + offset)))


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Predictor]] = {"isotonic": _isotonic, "platt": _platt}
