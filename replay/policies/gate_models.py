"""The models behind a gate file: logistic regression, boosted trees by XGBoost, or a logged score as it is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from toolkit.errors import PackageError
from toolkit.models import check_logistic, check_trees
from toolkit.settings import from_table

TREES, DEPTH, RATE, LEAF, THREADS = 50, 3, 0.1, 10, 1


@dataclass(frozen=True)
class _GateModel:
    """A kind of model that a gate file may hold, as plain data.

    `version`: of its files. `scores` (N,) are of a model and values (N, F), NaN where a value is. `check` gives a model
    of a file, of checked fields alone, and how many columns it reads. `fit` makes a model of rows (N, F), labels 0 or
    1, weights (N,) and a seed, and its scores are probabilities of a repair; None: there is nothing to fit, and it
    takes one logged score as it is.
    """

    version: int
    scores: Callable[[Mapping[str, Any], np.ndarray], np.ndarray]
    check: Callable[[Any, str], tuple[dict[str, Any], int]]
    fit: Callable[[np.ndarray, np.ndarray, np.ndarray, int], dict[str, Any]] | None = None


def fit_model(kind: str, values: np.ndarray, repair: np.ndarray, seed: int) -> dict[str, Any]:
    """Fit to `values` (N, F) and labels (N,) from 0 to 1, a fraction being so much of an example of each class."""
    fit = MODELS[kind].fit
    if fit is None:
        return {}
    rows, labels, weights = np.tile(values, (2, 1)), np.repeat([1, 0], len(values)), np.append(repair, 1 - repair)
    used = weights > 0
    return fit(rows[used], labels[used], weights[used], seed)


def _fit_logistic(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, _: int) -> dict[str, Any]:
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


def _fit_trees(rows: np.ndarray, labels: np.ndarray, weights: np.ndarray, seed: int) -> dict[str, Any]:
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
    data = xgboost.DMatrix(_single_precision(rows), labels, weight=weights, nthread=THREADS)
    return json.loads(xgboost.train(settings, data, TREES).save_raw("json"))


def _logistic_probability(model: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    centre, scale, weight = (np.array(model[key]) for key in ("centre", "scale", "coefficients"))
    with np.errstate(over="ignore", invalid="ignore"):
        return _sigmoid(model["intercept"] + ((values - centre) / scale * weight).sum(axis=1))


def _single_precision(values: np.ndarray) -> np.ndarray:
    """Inputs in single precision, in which trees compare; a number past its range becomes the largest."""
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest).astype(np.float32)


def import_xgboost(what: str, written_by_version: Sequence[int] = ()) -> ModuleType:
    """The module `xgboost` for `what`, whose model the version `written_by_version` wrote.

    Raises ThinkbackError where it is not installed, or older: it reads a newer one's JSON without an error, and
    predicts something else.
    """
    try:
        import xgboost
    except ImportError:
        raise PackageError(f"{what} needs the package xgboost: pip install 'thinkback[xgboost-cpu]'") from None
    if [int(part) for part in xgboost.__version__.split(".")[:2]] < list(written_by_version[:2]):
        newer = ".".join(map(str, written_by_version))
        raise PackageError(f"{what} was fitted by XGBoost {newer}; {xgboost.__version__} is installed: upgrade xgboost")
    return xgboost


def _tree_probability(model: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """The probability (N,) that boosted trees, in XGBoost's own JSON, give each row."""
    booster = import_xgboost("a gate of kind `trees`", model["version"]).Booster({"nthread": 1})
    booster.load_model(bytearray(json.dumps(model), "utf-8"))
    scores = booster.inplace_predict(_single_precision(values)).astype(np.float64)
    return np.where(np.isnan(values).any(axis=1), np.nan, scores)


def _sigmoid(margin: np.ndarray) -> np.ndarray:
    small = np.exp(-np.abs(margin))
    return np.where(margin >= 0, 1 / (1 + small), small / (1 + small))


@dataclass(frozen=True)
class _LoggedSignalModel:
    """The empty model of a gate whose score is its one logged input."""


def _check_as_logged(model: Any, place: str) -> tuple[dict[str, Any], int]:
    return vars(from_table(_LoggedSignalModel, model, place)), 1


MODELS: Mapping[str, _GateModel] = {
    "logistic": _GateModel(1, _logistic_probability, check_logistic, _fit_logistic),
    "trees": _GateModel(2, _tree_probability, check_trees, _fit_trees),
    "score": _GateModel(1, lambda _, values: values[:, 0].astype(np.float64), _check_as_logged),
}
