"""What a fitted verifier is: what it reads, by which model, and how the scores of several states become one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from replay.latent.models import MODELS
from toolkit.errors import ConflictError, InvalidError, argument, shown
from toolkit.settings import check, setting

STATES = "states"
"""The input that stands for hidden states."""

AGGREGATES: Mapping[str, Callable[..., np.ndarray]] = {
    "mean": np.nanmean,
    "min": np.nanmin,
    "max": np.nanmax,
    "median": np.nanmedian,
}
"""How the scores of a trace's states become one."""
ONE, EACH, MEAN = "one", "each", "mean"
PLACES = (ONE, EACH, MEAN)
"""One model over all places, which reads layer and token; a model and a verifier for each; a model for each, and their
scores together.
"""


@dataclass(frozen=True)
class VerifierSettings:
    """The settings of a fit; `docs/latent.md` says what each does. `rounds` and `depth`, `eta` are XGBoost's."""

    name: str
    model: str = setting("xgboost", choices=MODELS)
    inputs: tuple[str, ...] = (STATES,)
    states: str = ""
    layers: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    places: str = setting(ONE, choices=PLACES)
    aggregate: str = setting("mean", choices=AGGREGATES)
    pools: tuple[str, ...] = ()
    folds: int = setting(5, low=0, high=1_000)
    depth: int = setting(5, low=1, high=16)
    eta: float = setting(0.1, above=0, high=1)
    rounds: int = setting(30, low=1, high=10_000)
    seed: int = setting(0, low=0)

    def __post_init__(self) -> None:
        check(self)
        if not self.name.strip() or not self.name.isprintable():
            raise InvalidError(f"{argument('name')} is {shown(self.name)}; policies refer to the verifier by it")
        if self.folds == 1:
            raise InvalidError(f"{argument('folds')} is 1; it takes 0 (no scores of what was trained on) or at least 2")
        if not self.inputs:
            raise InvalidError(f"{argument('inputs')} is empty; `{STATES}` stands for hidden states")
        if STATES not in self.inputs and self.places != ONE:
            raise ConflictError(f"{argument('places')} is about hidden states: `{STATES}` is not among the inputs")
