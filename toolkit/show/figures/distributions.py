"""Distributions of a verifier's scores: those of right traces against those of wrong ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import EmptyError
from toolkit.rounding import rounded_text
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid, ticks_on_values
from toolkit.show.drawing.style import NAVY, ORANGE, SKY

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUNDRED = 100.0
TICKS = 3
"""The most ticks of a panel."""


@dataclass(frozen=True)
class ScoreDistribution:
    """A histogram of one verifier's scores on one pool: the `edges` of bins, and the shares of right and wrong traces
    in each.

    `values` are the scores themselves where they are few.
    """

    name: str
    edges: tuple[float, ...]
    right: tuple[float, ...]
    wrong: tuple[float, ...]
    auc: float | None = None
    values: tuple[float, ...] = ()


def distributions_figure(
    panels: Sequence[ScoreDistribution],
    *,
    note: str = "",
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a panel for each verifier and pool: right traces filled, wrong ones dashed, each as shares of their own
    kind.

    Raises ThinkbackError without panels.
    """
    from matplotlib.ticker import FixedLocator, MaxNLocator

    if not panels:
        raise EmptyError("there is no score of a judged trace to draw")
    seconds = ["" if panel.auc is None else f"AUC {rounded_text(panel.auc, 3)}" for panel in panels]
    with panel_grid(
        [one.name for one in panels], "score", "traces, %", width=width, second=seconds, alike=False, title=title,
        simulated=simulated, note=note,
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, one) in enumerate(zip(drawn, panels, strict=True)):
            right, wrong = ([HUNDRED * share for share in side] for side in (one.right, one.wrong))
            label = "_" * bool(number)
            axes.stairs(right, one.edges, fill=True, facecolor=SKY, alpha=0.45, zorder=2)
            axes.stairs(right, one.edges, color=NAVY, linewidth=1.0, zorder=3, label=f"{label}right traces")
            dashes = (0, (2.5, 1.2))
            axes.stairs(
                wrong, one.edges, color=ORANGE, linewidth=1.3, linestyle=dashes, zorder=4, label=f"{label}wrong traces"
            )
            axes.set_ylim(bottom=0)
            shares = [a + b for a, b in zip(one.right, one.wrong, strict=True)][::2]  # of few scores: their own bins
            ticks = FixedLocator(ticks_on_values(one.values, shares, TICKS)) if one.values else MaxNLocator(TICKS)
            axes.xaxis.set_major_locator(ticks)
            axes.yaxis.set_major_locator(MaxNLocator(4))
    return figure
