"""What a policy may fit on a development split before a replay: the settings, and a field for the fitted result.

The settings compare and hash; what was fitted does not, so that policies with the same settings share one walk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from toolkit.errors import InvalidError, UnsuitableError, quote
from toolkit.settings import check, setting
from toolkit.stopping.declared import HeaderVariables

PRIORS = ("linear", "trees", "gp")
CALIBRATIONS = ("isotonic", "platt")


Predictor = Callable[[np.ndarray], np.ndarray]
"""A score predicted from features: (n, F) -> (n,)."""


@dataclass(frozen=True)
class NullRows:
    """How many scored, valid traces a fit leaves out because a feature is null, and `of` how many examples."""

    traces: int
    examples: int
    of: int
    features: tuple[str, ...]


class LearnedSetting(HeaderVariables):
    """Settings of something that a policy fits on the examples where the SQL condition `on` holds; `key` names it."""

    key: ClassVar[str]
    calibrates: ClassVar[bool] = False
    """Whether it sets thresholds of another fitted part, and so needs examples that nothing else was learnt from."""
    on: str

    def __post_init__(self) -> None:
        check(self)
        if not self.on.strip():
            raise InvalidError(f"`on` is {quote(self.on)}; it takes {CONDITION}")


CONDITION = "an SQL condition on the columns of examples, such as \"split = 'dev'\""


@dataclass(frozen=True)
class Prior(LearnedSetting, key="prior"):
    """A model of scores, fitted where `on` holds; the surrogate corrects it by its residual as it goes."""

    model: str = setting(choices=PRIORS)
    on: str = setting(what=CONDITION)
    fit: Predictor | None = field(default=None, compare=False, repr=False)
    left_out: NullRows | None = field(default=None, compare=False, repr=False)

    def predict_scores(self, features: np.ndarray) -> np.ndarray:
        """Features (F, T, E) -> predictions (T, E)."""
        if self.fit is None:
            raise UnsuitableError("`prior` is not fitted: replay the policy with `replay.run`")
        size = features.shape[1] * features.shape[2]
        rows = features.reshape(len(features), size).T
        return np.asarray(self.fit(rows), np.float64).reshape(features.shape[1:])


@dataclass(frozen=True)
class Calibration(LearnedSetting, key="calibration"):
    """Scores as probabilities of being right, fitted where `on` holds; the margin reads them, the select does not."""

    method: str = setting(choices=CALIBRATIONS)
    on: str = setting(what=CONDITION)
    fit: Predictor | None = field(default=None, compare=False, repr=False)

    def calibrate(self, score: np.ndarray) -> np.ndarray:
        """Calibrated scores of any shape, NaN where there is none."""
        if self.fit is None:
            raise UnsuitableError("`calibration` is not fitted: replay the policy with `replay.run`")
        known = ~np.isnan(score)
        out = np.full(score.shape, np.nan)
        out[known] = self.fit(score[known][:, None])
        return out


@dataclass(frozen=True)
class Conformal(LearnedSetting, key="conformal", calibrates=True):
    """Prediction sets that miss the gold label in at most `alpha` of each class, fitted where `on` holds.

    With `abstain` the policy answers only where the set is exactly its answer. `fit` maps a label to the least score
    that puts it into the set.
    """

    alpha: float = setting(above=0, below=1)
    on: str = setting(what=CONDITION)
    abstain: bool = setting(False)
    fit: Mapping[str, float] | None = field(default=None, compare=False, repr=False)


LEARNED: tuple[type[LearnedSetting], ...] = (Prior, Calibration, Conformal)
"""What a policy may fit, in the order in which it is fitted."""
