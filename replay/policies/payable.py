"""The verifications that a policy may pay, whatever it does pay."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay.sampling.unscored import PARTIAL, Unscored


@dataclass(frozen=True)
class Payable:
    """Verifications that a policy may pay: of the `traces` (E, T) bool of a slice, by a verifier.

    `unscored`: what becomes of valid ones among them without a score.
    """

    slice: str
    verifier: str
    traces: np.ndarray
    unscored: Unscored = PARTIAL
