"""Tables of the study's ablations."""

from __future__ import annotations

from replay.studies.kit.sheet import Sheet
from replay.studies.latent.study import LatentStudy

ABLATION_SHEETS: tuple[Sheet[LatentStudy], ...] = ()
"""After the paper's tables, in the order of the report."""
