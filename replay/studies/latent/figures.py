"""The paper's figures, by the names of their files."""

from __future__ import annotations

from replay.studies.kit.figures import Figures

PAPER_FIGURES: Figures = {}
