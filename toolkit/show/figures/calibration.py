"""Reliability of scores: the share of right ones over the mean score, bin by bin, a panel each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import EmptyError
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import GREY, NAVY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_THRESHOLD: dict[str, Any] = {"color": ORANGE, "linewidth": 0.9, "linestyle": (0, (1, 1.5)), "zorder": 2}


@dataclass(frozen=True)
class ReliabilityPanel:
    """One verifier's or gate's reliability curve: for each bin its mean score, its share of right ones and that share's
    limits.

    Ends are None where there is no interval. `subheading` is the second line of its heading, such as the ECE;
    `threshold` is where a gate decides.
    """

    name: str
    bins: tuple[tuple[float, float, float | None, float | None], ...]
    subheading: str = ""
    threshold: float | None = None


def reliability_figure(
    panels: Sequence[ReliabilityPanel],
    *,
    x: str = "score",
    y: str = "right",
    note: str = "",
    level: float = 0.95,
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a panel for each verifier or gate, from 0 to 100 %, `width` inches wide. On the dashed line scores are
    calibrated.

    Raises ThinkbackError without panels.
    """
    if not panels:
        raise EmptyError("there are no scores to draw")
    bars = f"bars: {100 * level:g} % intervals"
    names, second = [panel.name for panel in panels], [one.subheading for one in panels]
    look: dict[str, Any] = {"title": title, "simulated": simulated, "note": f"{bars}; {note}" if note else bars}
    with panel_grid(names, f"{x}, %", f"{y}, %", width=width, second=second, **look) as (figure, drawn):
        labelled = False
        for number, (axes, one) in enumerate(zip(drawn, panels, strict=True)):
            _draw_panel(axes, one, "calibrated" if number == 0 else "_")
            if one.threshold is not None and 0 <= one.threshold <= 1:
                axes.axvline(100 * one.threshold, label="_" if labelled else "the gate's threshold", **_THRESHOLD)
                labelled = True
    return figure


def _draw_panel(axes: Axes, panel: ReliabilityPanel, label: str) -> None:
    axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.9, linestyle=(0, (4, 2)), zorder=2, label=label)
    for score, right, low, high in panel.bins:
        if low is not None and high is not None:
            axes.vlines([100 * score], 100 * low, 100 * high, color=NAVY, linewidth=0.9, zorder=3)
        axes.plot([100 * score], [100 * right], color=NAVY, marker="o", markersize=2.8, zorder=4, clip_on=False)
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_xticks([0, 25, 50, 75, 100])
    axes.set_yticks([0, 25, 50, 75, 100])
