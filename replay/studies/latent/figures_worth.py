"""Figures of what the study measures without a fit: how far the areas of other signals are from the verifier's."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from replay.studies.kit.figures import Figures, StudyFigure
from replay.studies.latent.signals import POOLED, WITHIN
from replay.studies.latent.study import LatentStudy
from toolkit.show.drawing.page import WIDTH
from toolkit.show.figures.forest import PolicyDifference, forest_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALE = 100.0


def _behind(study: LatentStudy, over: str) -> list[PolicyDifference]:
    """Every other signal's area less the verifier's, the largest first."""
    pool, found = study.main, []
    if pool.single and over == WITHIN:
        return []
    for key, one in pool.signals.items():
        less = pool.less(one, over, study.asked.settings.level)
        if one is not pool.latent and less.difference is not None:
            low, high = (None if end is None else -SCALE * end for end in (less.high, less.low))
            found.append(PolicyDifference(one.told(key), -SCALE * less.difference, low, high))
    return sorted(found, key=lambda one: -one.difference)


def _draw(rows: Sequence[PolicyDifference], quality: str, title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return forest_figure(
        rows, baseline="the latent verifier", quality=quality, unit="hundredths", title=title, simulated=simulated,
        width=width, note="intervals of each difference by itself, by question or cluster",
    )  # fmt: skip


WORTH_FIGURES: Figures = {
    "signals": StudyFigure("Other signals", partial(_behind, over=POOLED), partial(_draw, quality="AUC")),
    "signals_within": StudyFigure(
        "Other signals within questions", partial(_behind, over=WITHIN), partial(_draw, quality="AUC within questions")
    ),
}
