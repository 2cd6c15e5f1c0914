"""The cost–accuracy frontier from finished numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.show.labels import Label, Scene, along, place_labels
from toolkit.show.style import BLUE, GREY, INK, ORANGE, PURPLE, SKY, calm, drawing, footnotes, percent_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class FrontierPoint:
    """One policy in the figure. Accuracy is a fraction; cost is per example, in the unit of the axis."""

    name: str
    cost: float
    accuracy: float
    sweep: str = ""
    low: float | None = None
    high: float | None = None
    cost_low: float | None = None
    cost_high: float | None = None
    swept: bool = False  # one of several settings of its sweep
    chosen: bool = False  # the best of its sweep
    on_front: bool = False
    diagnostic: bool = False  # sees gold
    baseline: bool = False

    @property
    def labelled(self) -> bool:
        """Whether its name should be written: settings of a sweep only where they stand out."""
        return not self.swept or self.chosen or self.baseline


def frontier(
    points: Sequence[FrontierPoint],
    *,
    title: str = "Accuracy against cost",
    cost: str = "tokens per example",
    accuracy: str = "accuracy",
    level: float = 0.95,
    simulated: bool = False,
    size: tuple[float, float] = (8.0, 5.4),
) -> Figure:
    """The cost–accuracy plane: every policy, its intervals, and the Pareto front.

    The front is a staircase, the best accuracy that a budget buys, through the points that none beats.
    Settings of a sweep are joined by a line and only the chosen one is named. Diagnostics, which see gold, are
    hollow and never on the front; one far above everything else is drawn at the upper edge with its number.
    `simulated` is said in the figure itself. Labels never overlap; one that finds no room is left out and
    counted below the axes. Raises ThinkbackError without points.
    """
    if not points:
        raise ThinkbackError("there is no policy with an accuracy and a cost to draw")
    width, height = size
    with drawing(width, height, title, simulated) as figure:
        bottom, top = 0.72 / height, 1 - 0.86 / height
        axes = figure.add_axes((0.085, bottom, 0.885, top - bottom))
        _scales(axes, points)
        _draw_sweeps(axes, points)
        corners = _draw_front(axes, points)
        _draw_intervals(axes, points)
        _draw_points(axes, points)
        axes.set_xlabel(cost)
        axes.set_ylabel(f"{accuracy}, %")
        omitted = place_labels(figure, axes, _labels(axes, points), _scene(axes, points, corners))
        without = f"{len(omitted)} without room for a label: see the table" if omitted else ""
        footnotes(figure, f"bars: {100 * level:g} % intervals", without)
    return figure


def _scales(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    """Limits and ticks. A diagnostic far above must not squeeze the policies: it goes to the upper edge."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    ends = [c for p in points if p.labelled for c in (p.cost_low, p.cost_high) if c is not None]
    costs = [p.cost for p in points] + ends
    low, high = min(costs), max(costs)
    if low > 0 and high / low > 15:
        axes.set_xscale("log")
        axes.set_xlim(low / (high / low) ** 0.06, high * (high / low) ** 0.12)
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        room = (high - low) or max(abs(high), 1.0)
        left = low - 0.07 * room
        axes.set_xlim(max(left, 0.0) if low >= 0 else left, high + 0.14 * room)
        axes.xaxis.set_major_locator(MaxNLocator(7))
    real = [p for p in points if not p.diagnostic] or list(points)
    bottom, top = _reach(real)
    all_bottom, all_top = _reach(points)
    room = max(top - bottom, 1.0)
    if all_top - all_bottom <= 2 * room:
        bottom, top = all_bottom, all_top
        room = max(top - bottom, 1.0)
    axes.set_ylim(*percent_limits(bottom - 0.1 * room, top + 0.16 * room))
    axes.yaxis.set_major_locator(MaxNLocator(7))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    calm(axes)


def _reach(points: Sequence[FrontierPoint]) -> tuple[float, float]:
    """Lowest and highest per cent that the points' accuracies and their labelled intervals touch."""
    values = [100 * p.accuracy for p in points]
    values += [100 * a for p in points if p.labelled for a in (p.low, p.high) if a is not None]
    return min(values), max(values)


def _height(axes: Axes, point: FrontierPoint) -> float:
    """Where a point is drawn, in per cent: its accuracy, or just within the edge that it lies beyond."""
    bottom, top = axes.get_ylim()
    if not _beyond(axes, point):
        return 100 * point.accuracy
    edge = 0.03 * (top - bottom)
    return min(max(100 * point.accuracy, bottom + edge), top - edge)


def _beyond(axes: Axes, point: FrontierPoint) -> bool:
    bottom, top = axes.get_ylim()
    return not bottom <= 100 * point.accuracy <= top


def _draw_sweeps(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    sweeps: dict[str, list[FrontierPoint]] = {}
    for point in points:
        if point.swept and not point.diagnostic:
            sweeps.setdefault(point.sweep, []).append(point)
    for members in sweeps.values():
        path = sorted(members, key=lambda p: (p.cost, p.accuracy))
        y = [100 * p.accuracy for p in path]
        axes.plot([p.cost for p in path], y, color=SKY, linewidth=0.9, alpha=0.6, zorder=2)


def _draw_front(axes: Axes, points: Sequence[FrontierPoint]) -> np.ndarray:
    """Draw the staircase; return its corners (n, 2) in data coordinates."""
    front = sorted((p for p in points if p.on_front), key=lambda p: (p.cost, p.accuracy))
    if not front:
        return np.empty((0, 2))
    right, floor = axes.get_xlim()[1], axes.get_ylim()[0]
    corners = [(front[0].cost, floor)]
    for point in front:  # level until the next point costs more, then up to it
        corners += [(point.cost, corners[-1][1]), (point.cost, 100 * point.accuracy)]
    corners.append((right, corners[-1][1]))
    x, y = np.array(corners).T
    axes.plot(x, y, color=BLUE, linewidth=1.5, zorder=3, label="Pareto front", scalex=False, scaley=False)
    axes.fill_between(x, y, floor, color=BLUE, alpha=0.05, linewidth=0, zorder=1)
    axes.set_xlim(right=right)
    axes.set_ylim(bottom=floor)
    return np.array(corners)


def _draw_intervals(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    for point in points:
        if not point.labelled or _beyond(axes, point):
            continue
        look: dict[str, Any] = {"color": _LAYERS[_layer(point)].color, "linewidth": 1, "alpha": 0.65, "zorder": 4}
        if point.low is not None and point.high is not None:
            axes.plot([point.cost] * 2, [100 * point.low, 100 * point.high], **look)
        if point.cost_low is not None and point.cost_high is not None:
            axes.plot([point.cost_low, point.cost_high], [100 * point.accuracy] * 2, **look)


@dataclass(frozen=True)
class _Layer:
    label: str
    marker: str
    color: str
    size: float
    edge: float = 0.7
    hollow: bool = False


_LAYERS = {
    "sweep": _Layer("settings of a sweep", "o", SKY, 8, edge=0),
    "other": _Layer("other policies", "o", GREY, 30),
    "front": _Layer("on the front", "o", BLUE, 34),
    "baseline": _Layer("baseline", "D", ORANGE, 36),
    "diagnostic": _Layer("diagnostic: no system could run it", "^", PURPLE, 40, edge=1.4, hollow=True),
}


def _layer(point: FrontierPoint) -> str:
    if point.diagnostic:
        return "diagnostic"
    if point.baseline:
        return "baseline"
    if not point.labelled:
        return "sweep"
    return "front" if point.on_front else "other"


def _draw_points(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    for number, (key, layer) in enumerate(_LAYERS.items()):
        members = [p for p in points if _layer(p) == key]
        if not members:
            continue
        axes.scatter(
            [p.cost for p in members],
            [_height(axes, p) for p in members],
            s=layer.size,
            marker=layer.marker,
            facecolors="white" if layer.hollow else layer.color,
            edgecolors=layer.color if layer.hollow else "white",
            linewidths=layer.edge,
            zorder=5 + number,
            clip_on=False,  # a point on the edge, at 0 or 100 %, is drawn whole
            label=layer.label,
        )


def _labels(axes: Axes, points: Sequence[FrontierPoint]) -> list[Label]:
    """Names of the points that stand for themselves; baseline, front and diagnostics come first."""
    return [
        Label(
            text=_folded(p.name) + (f" {100 * p.accuracy:.1f} ↑" if _beyond(axes, p) else ""),
            x=p.cost,
            y=_height(axes, p),
            color=_LAYERS[_layer(p)].color if p.diagnostic or p.baseline else INK,
            urgency=(not p.baseline, not p.on_front, not p.diagnostic, -p.accuracy, p.cost, p.name),
        )
        for p in points
        if p.labelled
    ]


def _scene(axes: Axes, points: Sequence[FrontierPoint], corners: np.ndarray) -> Scene:
    pixels = axes.transData.transform
    bars = [
        pixels([(p.cost, 100 * p.low), (p.cost, 100 * p.high)]).reshape(4)
        for p in points
        if p.labelled and p.low is not None and p.high is not None and not _beyond(axes, p)
    ]
    return Scene(
        dots=pixels([(p.cost, _height(axes, p)) for p in points]),
        bars=np.array(bars).reshape(-1, 4),
        line=along(pixels(corners) if len(corners) else corners),
    )


def _folded(name: str, width: int = 30, lines: int = 3) -> str:
    """A policy's name on up to three lines."""
    return "\n".join(textwrap.wrap(name, width, max_lines=lines, placeholder=" …", break_long_words=True))
