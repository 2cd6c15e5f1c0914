"""What a policy may fit on a development split before anything is replayed: the settings, and a place for the result.

The settings compare and hash; what was fitted does not, so that policies with the same settings share one walk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from toolkit.errors import ThinkbackError, suggest

PRIORS = ("linear", "trees", "gp")
CALIBRATIONS = ("isotonic", "platt")


class Predictor(Protocol):
    """A score foretold from features."""

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """(n, F) features -> (n,) predictions."""
        ...


@dataclass(frozen=True)
class NullRows:
    """Scored, valid traces that a fit leaves out because a feature is null, over the `of` examples of its split."""

    traces: int
    examples: int
    of: int
    features: tuple[str, ...]


@dataclass(frozen=True)
class Prior:
    """A surrogate fitted on the examples where `on` holds, which the recursive update corrects by its residual."""

    model: Literal["linear", "trees", "gp"]
    on: str
    fit: Predictor | None = field(default=None, compare=False, repr=False)
    left_out: NullRows | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _one_of("prior", "model", self.model, PRIORS)
        _condition("prior", self.on)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Features (F, T, E) -> predictions (T, E)."""
        if self.fit is None:
            raise ThinkbackError("`prior` is not fitted: replay the policy with `replay.run`")
        size = features.shape[1] * features.shape[2]
        rows = features.reshape(len(features), size).T
        return np.asarray(self.fit(rows), np.float64).reshape(features.shape[1:])


@dataclass(frozen=True)
class Calibration:
    """Scores as chances of being right, learnt where `on` holds; they decide the margin, raw ones the answer."""

    method: Literal["isotonic", "platt"]
    on: str
    fit: Predictor | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        _one_of("calibration", "method", self.method, CALIBRATIONS)
        _condition("calibration", self.on)

    def apply(self, score: np.ndarray) -> np.ndarray:
        """Calibrated scores of any shape, NaN where there is none."""
        if self.fit is None:
            raise ThinkbackError("`calibration` is not fitted: replay the policy with `replay.run`")
        known = ~np.isnan(score)
        out = np.full(score.shape, np.nan)
        out[known] = self.fit(score[known][:, None])
        return out


@dataclass(frozen=True)
class Conformal:
    """Prediction sets that miss the reference in at most `alpha` of each class; learnt where `on` holds.

    With `abstain` the policy answers only where the set is exactly its answer. `fit` maps a label to the least
    score that puts it into the set.
    """

    alpha: float
    on: str
    abstain: bool = False
    fit: Mapping[str, float] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, int | float) or isinstance(self.alpha, bool) or not 0 < self.alpha < 1:
            raise ThinkbackError(f"`conformal.alpha` is {self.alpha!r}; it takes a number between 0 and 1")
        if not isinstance(self.abstain, bool):
            raise ThinkbackError(f"`conformal.abstain` is {self.abstain!r}; it takes true or false")
        _condition("conformal", self.on)


FITS: dict[str, type] = {"prior": Prior, "calibration": Calibration, "conformal": Conformal}
"""Keys of a policy that take a table with `on`."""


def _one_of(table: str, key: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ThinkbackError(f"`{table}.{key}` is {value!r}; {suggest(str(value), known)}")


def _condition(table: str, on: Any) -> None:
    if not isinstance(on, str) or not on.strip():
        raise ThinkbackError(
            f"`{table}.on` is {on!r}; it takes an SQL condition on the columns of examples, such as \"split = 'dev'\""
        )
