"""Figures of interventions: fixes and flips, a sweep in its band, the reliability of scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, calm, drawing, footnotes, percent_limits, words
from toolkit.show.table_content import ShownInterval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLORS = (BLUE, ORANGE, GREEN, PURPLE, SKY)


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
    if not bars:
        raise ThinkbackError("there is no policy with fixes and flips to draw")
    height = 1.5 + 0.34 * len(bars)
    with drawing(7.2, height, title, simulated) as figure:
        axes = figure.add_axes((0.34, 0.62 / height, 0.62, 1 - 1.5 / height))
        places = range(len(bars))
        fixes, flips = [bar[1] for bar in bars], [bar[2] for bar in bars]
        for side, color, label, cells in ((1, BLUE, "fixes", fixes), (-1, ORANGE, "flips", flips)):
            values = [side * 100 * cell.estimate for cell in cells]
            axes.barh(places, values, color=color, height=0.62, label=label)
            for place, cell in zip(places, cells, strict=True):
                if cell.low is not None and cell.high is not None:
                    ends = [side * 100 * cell.low, side * 100 * cell.high]
                    axes.plot(ends, [place, place], color="black", linewidth=0.9)
        axes.axvline(0, color=GREY, linewidth=0.8)
        left, right = axes.get_xlim()
        axes.set_xlim(max(left, -100), min(right, 100))
        axes.set_yticks(list(places), [words(bar[0]) for bar in bars], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel("share of examples, %")
        axes.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
        calm(axes)
    return figure


def bands_figure(panels: Sequence[PlottedBand], *, title: str, x: str, simulated: bool = False) -> Figure:
    """One panel a number over a common axis, each in its band."""
    if not panels:
        raise ThinkbackError("there is no curve to draw")
    width = 3.1 * len(panels) + 0.6
    with drawing(width, 3.6, title, simulated) as figure:
        grid = figure.subplots(1, len(panels), squeeze=False)[0]
        figure.subplots_adjust(left=0.6 / width, right=0.985, top=0.76, bottom=0.18, wspace=0.32)
        for axes, panel in zip(grid, panels, strict=True):
            axes.plot(panel.x, panel.estimate, color=BLUE, linewidth=1.4)
            low, high = np.array(panel.low, float), np.array(panel.high, float)
            axes.fill_between(panel.x, low, high, color=BLUE, alpha=0.15, linewidth=0)
            axes.set_title(panel.label, fontsize=9, loc="left", parse_math=False)
            axes.set_xlabel(x)
            if panel.top is not None:
                axes.set_ylim(0.0, panel.top)
            if panel.rate:
                axes.set_ylim(*percent_limits(*axes.get_ylim()))
            calm(axes)
        footnotes(figure, "bands hold the whole curve at once (sup-t)")
    return figure


def reliability_figure(
    curves: Mapping[str, Sequence[tuple[float, float, int]]], *, title: str, simulated: bool = False
) -> Figure:
    """Mean label over mean score by bin, one line a gate; the size of a dot grows with its number of examples."""
    if not curves:
        raise ThinkbackError("there is no gate to draw")
    with drawing(4.6, 4.6, title, simulated) as figure:
        axes = figure.add_axes((0.14, 0.13, 0.82, 0.66))
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle="--", label="calibrated")
        for number, (name, points) in enumerate(curves.items()):
            color = _COLORS[number % len(_COLORS)]
            x, y, n = zip(*points, strict=True) if points else ((), (), ())
            axes.plot(x, y, color=color, linewidth=1.2, label=name)
            most = max(n, default=1)
            axes.scatter(x, y, s=[6 + 40 * count / most for count in n], color=color, linewidths=0, clip_on=False)
        axes.set_ylim(0, 1)
        axes.set_xlabel("score")
        axes.set_ylabel("share repaired")
        calm(axes)
        axes.legend(loc="upper left", fontsize=7, frameon=False)
    return figure
