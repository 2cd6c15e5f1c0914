"""What a policy fits on the whole development split: the prior of its surrogate, and the calibration of its scores.

Priors (linear, gradient-boosted trees, a Gaussian process) predict the verifier's score from the features that are
known before any verification. Predictions are rounded to nine decimals, so that neither the number of rows asked at
once nor of threads shows. A calibration makes scores probabilities of being right: isotonic regression, or Platt's
logistic one (1999).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from replay.data.block import LoggedPool
from replay.sampling.learned import Calibration, NullRows, Predictor, Prior
from toolkit.errors import EmptyError

KERNEL_ROWS, PROCESS_ROWS = 400, 1000
"""How many development traces, drawn with seed 0, fix the Gaussian process's kernel; how many it is conditioned on."""
FEWEST = 20
DECIMALS = 9


def fit_prior(pool: LoggedPool, verifier: str, features: tuple[str, ...], prior: Prior) -> Prior:
    """The prior with its model fitted, on every scored, valid trace of a development pool that has all features."""
    values, scores = _development_rows(pool, verifier, features)
    if len(scores) < FEWEST:
        raise EmptyError(
            f"`prior.on` ({prior.on}) has {len(scores)} valid traces with a score and all features; "
            f"at least {FEWEST} are needed"
        )
    return replace(prior, fit=MODELS[prior.model](values, scores), left_out=_count_null_rows(pool, verifier, features))


def _development_rows(pool: LoggedPool, verifier: str, features: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Features (n, F) and scores (n,) of the scored, valid traces without a null feature, example by example."""
    columns = np.stack([pool.features[name] for name in features], axis=-1)  # (E, T, F)
    known = pool.scored_by(verifier) & ~np.isnan(columns).any(axis=-1)
    return columns[known], pool.scores[verifier].score[known]


def _count_null_rows(pool: LoggedPool, verifier: str, features: tuple[str, ...]) -> NullRows:
    """How many traces `_development_rows` leaves out because a feature is null."""
    null = {name: pool.scored_by(verifier) & np.isnan(pool.features[name]) for name in features}
    lost = np.any(list(null.values()), axis=0)  # (E, T)
    names = tuple(name for name, where in null.items() if where.any())
    return NullRows(int(lost.sum()), int(lost.any(axis=1).sum()), len(lost), names)


def _fit_linear(features: np.ndarray, scores: np.ndarray) -> Predictor:
    design = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    weights = np.linalg.lstsq(design, scores, rcond=None)[0]
    return _round_predictions(lambda rows: rows @ weights[:-1] + weights[-1])


def _fit_trees(features: np.ndarray, scores: np.ndarray) -> Predictor:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    model = HistGradientBoostingRegressor(
        max_iter=100, learning_rate=0.1, max_leaf_nodes=15, early_stopping=False, random_state=0
    )
    with threadpool_limits(1):  # quicker for so few rows, and no sum depends on the threads
        model.fit(features, scores)

    def predict(rows: np.ndarray) -> np.ndarray:
        with threadpool_limits(1):
            return model.predict(rows)

    return _round_predictions(predict)


def _fit_gaussian_process(features: np.ndarray, scores: np.ndarray) -> Predictor:
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from threadpoolctl import threadpool_limits

    middle, spread = features.mean(axis=0), features.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)  # the kernel's bounds hold for features of spread one
    features = (features - middle) / spread
    order = np.random.default_rng(0).permutation(len(scores))
    few, some = order[:KERNEL_ROWS], order[:PROCESS_ROWS]
    kernel = ConstantKernel(0.1, (1e-4, 1e2)) * RBF(np.full(features.shape[1], 1.0), (1e-2, 1e2)) + WhiteKernel(
        0.05, (1e-5, 1.0)
    )
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a length at its bound: the feature says nothing
        pilot = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0).fit(features[few], scores[few])
        model = GaussianProcessRegressor(pilot.kernel_, optimizer=None, normalize_y=True)
        model.fit(features[some], scores[some])

    def predict(rows: np.ndarray) -> np.ndarray:
        with threadpool_limits(1):
            rows = (rows - middle) / spread
            parts = [model.predict(rows[i : i + 4096]) for i in range(0, len(rows), 4096)]
        return np.concatenate(parts) if parts else np.zeros(0)

    return _round_predictions(predict)


def _round_predictions(predict: Callable[[np.ndarray], np.ndarray]) -> Predictor:
    return lambda rows: np.round(predict(rows), DECIMALS)


MODELS: dict[str, Callable[[np.ndarray, np.ndarray], Predictor]] = {
    "linear": _fit_linear,
    "trees": _fit_trees,
    "gp": _fit_gaussian_process,
}


def fit_calibration(pool: LoggedPool, verifier: str, calibration: Calibration) -> Calibration:
    """The calibration with its map fitted, on every judged, valid, scored trace of a development pool."""
    known = pool.scored_by(verifier) & ~np.isnan(pool.judged)
    scores, right = pool.scores[verifier].score[known], pool.judged[known]
    if not ((right > 0).any() and (right < 1).any()):
        raise EmptyError(
            f"`calibration.on` ({calibration.on}) needs right and wrong traces with a score; it has "
            f"{int((right > 0).sum())} right of {len(right)}"
        )
    return replace(calibration, fit=METHODS[calibration.method](scores, right))


def _fit_isotonic(scores: np.ndarray, right: np.ndarray) -> Predictor:
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, right)
    return lambda rows: np.asarray(model.predict(rows[:, 0]), np.float64)


def _fit_platt(scores: np.ndarray, right: np.ndarray) -> Predictor:
    """Platt scaling: a logistic curve in the score, fitted to the targets (n1 + 1)/(n1 + 2) and 1/(n0 + 2)."""
    from sklearn.linear_model import LogisticRegression

    positive, negative = right.sum(), (1 - right).sum()
    high, low = (positive + 1) / (positive + 2), 1 / (negative + 2)
    target = right * high + (1 - right) * low
    design = np.concatenate([scores, scores])[:, None]
    model = LogisticRegression(C=1e6, tol=1e-8, max_iter=1000)
    model.fit(design, np.repeat([1, 0], len(scores)), sample_weight=np.concatenate([target, 1 - target]))
    slope, offset = float(model.coef_[0, 0]), float(model.intercept_[0])
    return lambda rows: 1 / (1 + np.exp(-(slope * rows[:, 0] + offset)))


METHODS: dict[str, Callable[[np.ndarray, np.ndarray], Predictor]] = {"isotonic": _fit_isotonic, "platt": _fit_platt}
