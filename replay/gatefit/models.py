"""The models behind a gate file: logistic regression, boosted trees by XGBoost, or a logged score as it is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from replay.policies.gate_file import import_xgboost, single_precision

TREES, DEPTH, RATE, LEAF, THREADS = 50, 3, 0.1, 10, 1


def fit_model(kind: str, values: np.ndarray, repair: np.ndarray, seed: int) -> dict[str, Any]:
    """Fit to `values` (N, F) and labels (N,) from 0 to 1, a fraction being so much of an example of each class.

    The result is plain data, which `replay.policies.gate_file.probabilities` reads.
    """
    if kind == "score":
        return {}
    rows, labels, weights = np.tile(values, (2, 1)), np.repeat([1, 0], len(values)), np.append(repair, 1 - repair)
    used = weights > 0
    rows, labels, weights = rows[used], labels[used], weights[used]
    return _logistic(rows, labels, weights) if kind == "logistic" else _trees(rows, labels, weights, seed)


def _logistic(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> dict[str, Any]:
    from sklearn.linear_model import LogisticRegression

    centre = np.average(rows, axis=0, weights=weights)
    spread = np.sqrt(np.average((rows - centre) ** 2, axis=0, weights=weights))
    scale = np.where(spread > 1e-12, spread, 1.0)
    model = LogisticRegression(max_iter=5_000, tol=1e-8).fit((rows - centre) / scale, labels, sample_weight=weights)
    return {
        "intercept": float(model.intercept_[0]),
        "coefficients": model.coef_[0].tolist(),
        "centre": centre.tolist(),
        "scale": scale.tolist(),
    }


def _trees(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, seed: int) -> dict[str, Any]:
    """A model in XGBoost's own JSON.

    A leaf holds at least the second derivative that `LEAF` examples have before the first round. Exact splits and one
    thread: the same rows give the same bytes on any number of processors.
    """
    xgboost = import_xgboost("a gate of kind `trees`")
    share = float(np.average(labels, weights=weights))
    settings = {
        "objective": "binary:logistic", "base_score": share, "max_depth": DEPTH, "eta": RATE,
        "min_child_weight": LEAF * share * (1 - share), "tree_method": "exact", "seed": seed, "nthread": THREADS,
    }  # fmt: skip
    data = xgboost.DMatrix(single_precision(rows), labels, weight=weights, nthread=THREADS)
    return json.loads(xgboost.train(settings, data, TREES).save_raw("json"))


def folds(hashes: tuple[str, ...], count: int) -> np.ndarray:
    """Fold (N,) of each question, by its hash: equal questions share one, whatever else is in the log."""
    return np.array([int(digest, 16) % count for digest in hashes])
