"""Figures of interventions: fixes and flips, and a sweep in its band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import EmptyError
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, page_figure
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import GREY, NAVY, ORANGE, SMALL, calm, percent_limits
from toolkit.show.tables.table_content import IntervalCell

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_THRESHOLD: dict[str, Any] = {"color": ORANGE, "linewidth": 0.9, "linestyle": (0, (1, 1.5)), "zorder": 2}


@dataclass(frozen=True)
class PlottedBand:
    """One panel of a sweep: a line with its band, in the axis's unit. `top`: where an axis from 0 ends.

    The axis of a `rate`, in per cent, ends at 0 and 100. `mark`: where the chosen threshold is.
    """

    label: str
    x: tuple[float, ...]
    estimate: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    top: float | None = None
    rate: bool = False
    mark: float | None = None


def outcomes_figure(
    bars: Sequence[tuple[str, IntervalCell, IntervalCell]],
    *,
    title: str = "Fixes and flips",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws each policy's fixes to the right and flips to the left, as shares of all examples with their intervals."""
    from matplotlib import patheffects

    if not bars:
        raise EmptyError("there is no policy with fixes and flips to draw")
    body = 0.6 + 0.3 * len(bars)
    with page_figure(body, width, title=title, simulated=simulated) as figure:
        axes = figure.add_subplot()
        places = range(len(bars))
        halo = [patheffects.withStroke(linewidth=2.0, foreground="white")]  # seen on dark bars, too
        fixes, flips = [bar[1] for bar in bars], [bar[2] for bar in bars]
        for side, color, label, cells in ((1, NAVY, "fixes", fixes), (-1, ORANGE, "flips", flips)):
            values = [side * 100 * cell.estimate for cell in cells]
            axes.barh(places, values, color=color, height=0.62, label=label)
            for place, cell in zip(places, cells, strict=True):
                if cell.low is not None and cell.high is not None:
                    ends = [side * 100 * cell.low, side * 100 * cell.high]
                    axes.plot(ends, [place, place], color="black", linewidth=0.9, path_effects=halo)
        axes.axvline(0, color=GREY, linewidth=0.8)
        left, right = axes.get_xlim()
        axes.set_xlim(max(left, -100), min(right, 100))
        axes.set_yticks(list(places), [wrapped(bar[0], 0.37 * width, SMALL) for bar in bars], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel("share of examples, %")
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        calm(axes)
    return figure


def bands_figure(
    panels: Sequence[PlottedBand], *, title: str, x: str = "acts on, %", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """Draws a panel for each metric over a common axis, with its band. A vertical line marks the chosen threshold."""
    if not panels:
        raise EmptyError("there is no curve to draw")
    width = min(width, 3.7) if len(panels) == 1 else width
    names, note = [one.label for one in panels], "bands hold the whole curve at once (sup-t)"
    with panel_grid(
        names, x, "", width=width, alike=False, title=title, simulated=simulated, note=note
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, panel) in enumerate(zip(drawn, panels, strict=True)):
            axes.plot(panel.x, panel.estimate, color=NAVY, linewidth=1.4, clip_on=False)
            low, high = np.array(panel.low, float), np.array(panel.high, float)
            axes.fill_between(panel.x, low, high, color=NAVY, alpha=0.15, linewidth=0)
            if panel.top is not None:
                axes.set_ylim(0.0, panel.top)
            if panel.rate:
                axes.set_ylim(*percent_limits(*axes.get_ylim()))
            if panel.mark is not None:
                axes.axvline(panel.mark, label="the gate's threshold" if number == 0 else "_", **_THRESHOLD)
    return figure
