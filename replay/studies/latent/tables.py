"""The paper's tables 1 to 4."""

from __future__ import annotations

from replay.studies.kit.sheet import Sheet
from replay.studies.latent.study import LatentStudy

PAPER_SHEETS: tuple[Sheet[LatentStudy], ...] = ()
