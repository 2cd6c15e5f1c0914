"""How what a `sample` policy learns is fitted on the examples of a block."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from replay.data.block import LogBlock
from replay.engine.cuts import Cut
from replay.engine.trajectory import Walk
from replay.kinds.sample_conformal import fit_conformal
from replay.learning.calibration import fit_calibration
from replay.learning.prior import fit_prior

SharedFit = tuple[tuple[Hashable, ...] | None, Callable[[LogBlock, Any], Any]]
"""What tells policies that share a fit from others, None where none do; and the fit of a block, with its settings."""


def fits_of(
    pool: str, verifier: str, features: tuple[str, ...], walk: Walk, cutting: Callable[[LogBlock], Cut]
) -> Mapping[str, SharedFit]:
    """The fits by the key of what is learnt; `walk` and `cutting` are those of the policy without prediction sets."""
    return {
        "prior": ((pool, verifier, features), lambda block, one: fit_prior(block.pools[pool], verifier, features, one)),
        "calibration": ((pool, verifier), lambda block, one: fit_calibration(block.pools[pool], verifier, one)),
        "conformal": (None, lambda block, one: fit_conformal(block, walk, cutting(block), one)),
    }
