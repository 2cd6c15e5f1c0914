"""The models that are fitted on rows of states and values; all of them are plain data once they are fitted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from replay.latent import boosted, networks
from replay.latent.model_rows import ModelRows


class FitSettings(Protocol):
    """What of the settings a model reads."""

    @property
    def depth(self) -> int:
        """Of trees."""

    @property
    def eta(self) -> float:
        """How much of a tree is added."""

    @property
    def rounds(self) -> int:
        """Trees."""

    @property
    def seed(self) -> int:
        """Of all that is drawn."""


Document = Mapping[str, Any]
FitAll = Callable[[ModelRows, np.ndarray, Sequence[np.ndarray], np.ndarray, FitSettings], list[Document]]
Scorer = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class ModelKind:
    """`fit`: of rows, labels (N,) of the traces, masks (N,) of the traces that each model sees, and their questions
    (N,), the models. `scorer`: of a model a function of rows (n, columns) to probabilities (n,).
    """

    fit: FitAll
    scorer: Callable[[Document], Scorer]


MODELS: Mapping[str, ModelKind] = {
    "xgboost": ModelKind(boosted.fit_boosted, boosted.boosted_scorer),
    "logistic": ModelKind(networks.fit_logistic, networks.network_scorer),
    "mlp": ModelKind(networks.fit_mlp, networks.network_scorer),
    "swiglu": ModelKind(networks.fit_swiglu, networks.network_scorer),
}
