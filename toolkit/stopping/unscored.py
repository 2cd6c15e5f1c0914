"""What a policy does with a valid trace that its verifier did not score, which `on_unscored` names."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class UnscoredTreatment:
    """A way to treat valid traces without a score.

    `skips`: no verification of it is made, though its vote counts. `fills`: it is verified, and its score is `fill`,
    the lowest that the verifier gave to a trace of the pool, anywhere in the log. With neither the example is partial
    once such a trace has to be verified. `says` tells what happened, for notes; `mark` marks traces among steps.
    """

    name: str
    skips: bool = False
    fills: bool = False
    says: str = ""
    mark: str = ""
    fill: float | None = None

    def fill_scores(self, score: np.ndarray, alone: np.ndarray) -> np.ndarray:
        """Scores (E, T) as a policy reads them, missing ones filled in; `alone` (E,): a call scores one trace."""
        return score if self.fill is None else np.where(np.isnan(score) & alone[:, None], self.fill, score)

    def verified_codes(self, code: np.ndarray, score: np.ndarray) -> np.ndarray:
        """Answer codes of the traces that are verified once it comes to them, -1 for others; shapes as given."""
        return np.where(np.isnan(score), -1, code).astype(code.dtype) if self.skips else code


PARTIAL = UnscoredTreatment("partial")
SKIP = UnscoredTreatment(
    "skip", skips=True, says="no verification of these is counted or paid, and none can win by its score",
    mark="skipped",
)  # fmt: skip
LOWEST = UnscoredTreatment(
    "lowest",
    fills=True,
    says="each counts as verified, at the cost logged if any, with the verifier's lowest score in that pool of the log",
    mark="lowest score",
)
WAYS = {way.name: way for way in (PARTIAL, SKIP, LOWEST)}
"""Ways by the value of `on_unscored`."""
