"""Paired differences over k: one panel a difference, each with the only band that it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import EmptyError
from toolkit.show.drawing.page import HIGHEST, WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import INK, NAVY

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class DifferenceCurve:
    """A paired difference at each k, in points, with its limits; None where there is none.

    `published` are points (k, difference) of a published work.
    """

    name: str
    k: tuple[int, ...]
    estimate: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    published: tuple[tuple[int, float], ...] = ()


def differences_figure(
    panels: Sequence[DifferenceCurve],
    *,
    x: str,
    y: str,
    published: str = "published",
    level: float = 0.95,
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a panel for each difference around a line at 0, all on one scale, `width` inches wide.

    `published` is what the legend calls published points.

    Raises ThinkbackError without panels.
    """
    if not panels:
        raise EmptyError("there is no difference to draw")
    with panel_grid(
        [panel.name for panel in panels], x, y, width=width, alike=False, title=title, simulated=simulated, handle=1.4,
        highest=HIGHEST - 0.8,  # room for title, legend and notes
        note=f"bands: {100 * level:g} % intervals of the difference at each k",
    ) as (figure, drawn):  # fmt: skip
        for axes, one in zip(drawn, panels, strict=True):
            _draw_curve(axes, one)
        _set_scales(drawn, panels)
        if any(one.published for one in panels):
            drawn[0].scatter([], [], facecolors="white", edgecolors=INK, marker="D", s=14, label=published)
    return figure


def _draw_curve(axes: Axes, curve: DifferenceCurve) -> None:
    estimate, low, high = (np.array(values, float) for values in (curve.estimate, curve.low, curve.high))
    axes.axhline(0.0, color=INK, linewidth=0.8, linestyle=(0, (4, 2)), zorder=2)
    axes.fill_between(curve.k, low, high, color=NAVY, alpha=0.15, linewidth=0, zorder=1)
    axes.plot(curve.k, estimate, color=NAVY, linewidth=1.2, zorder=3)
    if curve.published:
        k, value = zip(*curve.published, strict=True)
        axes.scatter(
            k, value, s=14, marker="D", facecolors="white", edgecolors=INK, linewidths=0.8, zorder=4, clip_on=False
        )


def _set_scales(drawn: Sequence[Axes], panels: Sequence[DifferenceCurve]) -> None:
    from matplotlib.ticker import MaxNLocator

    known = [v for panel in panels for line in (panel.estimate, panel.low, panel.high) for v in line if v is not None]
    known += [value for one in panels for _, value in one.published]
    low, high = min(known, default=-1.0), max(known, default=1.0)
    room = max(high - low, 1.0)
    for axes, one in zip(drawn, panels, strict=True):
        axes.set_ylim(min(low, 0.0) - 0.06 * room, max(high, 0.0) + 0.06 * room)
        axes.set_xlim(min(one.k) - 0.5, max(one.k) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(5))
