"""Figures of interventions: fixes and flips, a sweep in its band, the reliability of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.show.curves import look
from toolkit.show.lettering import wrapped
from toolkit.show.page import WIDTH, arrange, noted
from toolkit.show.style import GREY, NAVY, ORANGE, SMALL, TEXT, calm, drawing, percent_limits
from toolkit.show.table_content import ShownInterval

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PlottedBand:
    """One panel of a sweep: a line with its band, in the unit of the axis; `top` is where an axis from 0 ends.

    The axis of a `rate`, in per cent, ends at 0 and 100.
    """

    label: str
    x: tuple[float, ...]
    estimate: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    top: float | None = None
    rate: bool = False


def outcomes_figure(
    bars: Sequence[tuple[str, ShownInterval, ShownInterval]], *, title: str = "Fixes and flips", simulated: bool = False
) -> Figure:
    """Fixes to the right and flips to the left of each policy, as shares of all examples with their intervals."""
    from matplotlib import patheffects

    if not bars:
        raise ThinkbackError("there is no policy with fixes and flips to draw")
    body = 0.6 + 0.3 * len(bars)
    with drawing(WIDTH, body) as figure:
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
        axes.set_yticks(list(places), [wrapped(bar[0], 2.5, SMALL) for bar in bars], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel("share of examples, %")
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        calm(axes)
        arrange(figure, body, title, simulated)
    return figure


def bands_figure(panels: Sequence[PlottedBand], *, title: str, x: str, simulated: bool = False) -> Figure:
    """One panel a number over a common axis, each in its band."""
    if not panels:
        raise ThinkbackError("there is no curve to draw")
    width, body = max(WIDTH if len(panels) > 1 else 3.7, 2.3 * len(panels)), 2.5
    with drawing(width, body) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=True):
            axes.plot(panel.x, panel.estimate, color=NAVY, linewidth=1.4)
            low, high = np.array(panel.low, float), np.array(panel.high, float)
            axes.fill_between(panel.x, low, high, color=NAVY, alpha=0.15, linewidth=0)
            axes.set_title(wrapped(panel.label, width / len(panels) - 0.5, TEXT), loc="left", parse_math=False)
            axes.set_xlabel(wrapped(x, width / len(panels) - 0.5, TEXT))
            if panel.top is not None:
                axes.set_ylim(0.0, panel.top)
            if panel.rate:
                axes.set_ylim(*percent_limits(*axes.get_ylim()))
            calm(axes)
        arrange(figure, body, title, simulated)
        noted(figure, "bands hold the whole curve at once (sup-t)")
    return figure


def reliability_figure(
    curves: Mapping[str, Sequence[tuple[float, float, int]]], *, title: str, simulated: bool = False
) -> Figure:
    """Mean label over mean score by bin, one line a gate; the size of a dot grows with its number of examples."""
    if not curves:
        raise ThinkbackError("there is no gate to draw")
    body = 3.6
    with drawing(4.0, body) as figure:
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--", label="calibrated")
        for number, (name, points) in enumerate(curves.items()):
            own = look(number)
            x, y, n = zip(*points, strict=True) if points else ((), (), ())
            style: dict[str, Any] = {"color": own.color, "marker": own.marker, "linestyle": own.dashes}
            axes.plot(x, y, linewidth=1.1, markersize=2.5, label=name, **style)
            most = max(n, default=1)
            sizes = [6 + 40 * count / most for count in n]
            axes.scatter(x, y, s=sizes, color=own.color, marker=own.marker, linewidths=0, clip_on=False)
        axes.set_ylim(0, 1)
        axes.set_xlabel("score")
        axes.set_ylabel("share repaired")
        calm(axes)
        arrange(figure, body, title, simulated)
    return figure
