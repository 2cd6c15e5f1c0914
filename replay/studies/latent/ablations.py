"""The study's ablations: further fits on the log, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence

from replay.studies.latent.ablated import Ablations
from replay.studies.latent.study import LatentStudy


def ablations_of(study: LatentStudy, every: Sequence[LatentStudy]) -> Ablations:
    """Those of one data set; `every`: all data sets of the log, this one among them."""
    return Ablations()
