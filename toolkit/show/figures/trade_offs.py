"""Quality against cost of the same few methods on several data sets: a panel each, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import EmptyError
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import INK, percent_limits
from toolkit.show.figures.curves import line_look
from toolkit.show.tables.table_content import IntervalCell

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUNDRED = 100.0
PUBLISHED = "hollow: published"
SIZE = 40
"""The size of every mark, in square points."""


@dataclass(frozen=True)
class MethodPoint:
    """A method on one data set: its cost and quality (fractions), and the published values where they are known."""

    cost: IntervalCell
    quality: IntervalCell
    published: tuple[float, float] | None = None


def trade_offs_figure(
    panels: Mapping[str, Mapping[str, MethodPoint]],
    *,
    cost: str,
    quality: str,
    level: float = 0.95,
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a panel for each data set, `width` inches wide, with a point and its two intervals for each method.

    Panels have scales of their own: data sets differ by more than methods do. Raises ThinkbackError without a point.
    """
    if not any(panels.values()):
        raise EmptyError("there is no method with a quality and a cost to draw")
    names = list(dict.fromkeys(name for points in panels.values() for name in points))
    note = f"bars: {HUNDRED * level:g} % intervals of each method; paired differences: see the tables"
    with panel_grid(
        list(panels), cost, f"{quality}, %", width=width, alike=False, title=title, simulated=simulated, note=note,
        handle=1.4,
    ) as (figure, drawn):  # fmt: skip
        for axes, points in zip(drawn, panels.values(), strict=True):
            for number, name in enumerate(names):
                if name in points:
                    _draw_point(axes, points[name], number, name)
            _set_scales(axes, list(points.values()))
        if any(point.published for points in panels.values() for point in points.values()):
            figure.axes[0].scatter([], [], facecolors="white", edgecolors=INK, marker="o", s=SIZE, label=PUBLISHED)
    return figure


def _draw_point(axes: Axes, point: MethodPoint, number: int, name: str) -> None:
    from matplotlib import patheffects

    mark = line_look(number)
    x, y = point.cost.estimate, HUNDRED * point.quality.estimate
    bar: dict[str, Any] = {"color": mark.color, "linewidth": 0.9, "zorder": 3}
    if point.quality.low is not None and point.quality.high is not None:
        axes.vlines([x], HUNDRED * point.quality.low, HUNDRED * point.quality.high, **bar)
    if point.cost.low is not None and point.cost.high is not None:
        axes.hlines([y], point.cost.low, point.cost.high, **bar)
    dot: dict[str, Any] = {"marker": mark.marker, "s": SIZE, "linewidths": 0.9, "zorder": 5, "clip_on": False}
    axes.scatter([x], [y], facecolors=mark.color, edgecolors="white", label=name, **dot)
    if point.published is not None:
        cost, value = point.published
        halo = [patheffects.withStroke(linewidth=2.4, foreground="white")]  # seen on the method's own mark, too
        hollow: dict[str, Any] = {"facecolors": "none", "edgecolors": mark.color, "path_effects": halo}
        axes.scatter([cost], [value], label="_", **dot | hollow | {"zorder": 6})


def _set_scales(axes: Axes, points: Sequence[MethodPoint]) -> None:
    from matplotlib.ticker import MaxNLocator

    costs = [c for p in points for c in (p.cost.estimate, p.cost.low, p.cost.high) if c is not None]
    rises = [HUNDRED * q for p in points for q in (p.quality.estimate, p.quality.low, p.quality.high) if q is not None]
    for p in points:
        if p.published is not None:
            costs.append(p.published[0])
            rises.append(p.published[1])
    if not costs:
        return
    wide, tall = (max(values) - min(values) or 1.0 for values in (costs, rises))
    left = min(costs) - 0.12 * wide
    axes.set_xlim(max(left, 0.0) if min(costs) >= 0 else left, max(costs) + 0.12 * wide)
    axes.set_ylim(*percent_limits(min(rises) - 0.08 * tall, max(rises) + 0.08 * tall))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(5))
