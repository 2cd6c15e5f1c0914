"""The cost–accuracy frontier from finished numbers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import EmptyError, counted
from toolkit.rounding import rounded_text
from toolkit.show.drawing.labels import DISTANCES, LETTER, Label, Obstacles, PlacedLabels, place_labels, sample_path
from toolkit.show.drawing.lettering import BOUND, drawable_text, folded_name, wrapped
from toolkit.show.drawing.page import WIDTH, add_small_print, arrange
from toolkit.show.drawing.region import SIZE, View, arrow_places, draw_arrow, in_view_region
from toolkit.show.drawing.style import GREY, INK, NAVY, ORANGE, PURPLE, SKY, SMALL, TEXT, calm, drawing, percent_limits
from toolkit.show.tables.latex import COLUMN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NEAR = 32.0
"""The largest distance of an optional name from its point, in typographic points."""
ROOMY = 5.0
"""Figure width, in inches, from which on names of the front may be far from their points and need not
become letters.
"""
CROWDED = 12
"""The number of named policies from which on only the front and the baseline have intervals."""


@dataclass(frozen=True)
class FrontierPoint:
    """One policy in the cost–accuracy figure. Accuracy is a fraction; cost is per example, in the axis's unit."""

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
        """Whether the figure writes the policy's name. Settings of a sweep get one only where they stand out."""
        return not self.swept or self.chosen or self.baseline or self.on_front

    @property
    def place(self) -> tuple[float, float]:
        """The point's position in the figure: cost, and accuracy in per cent."""
        return self.cost, 100 * self.accuracy

    @property
    def interval_lines(self) -> list[list[tuple[float, float]]]:
        """The policy's intervals as line segments, each from end to end."""
        (cost, percent), bars = self.place, []
        if self.low is not None and self.high is not None:
            bars.append([(cost, 100 * self.low), (cost, 100 * self.high)])
        if self.cost_low is not None and self.cost_high is not None:
            bars.append([(self.cost_low, percent), (self.cost_high, percent)])
        return bars


def frontier(
    points: Sequence[FrontierPoint],
    *,
    title: str = "",
    cost: str = "tokens per example",
    accuracy: str = "accuracy",
    level: float = 0.95,
    simulated: bool = False,
    width: float = WIDTH,
    note: str = "",
) -> Figure:
    """Draws the cost–accuracy plane: every policy, its intervals, and the Pareto front, `width` inches wide.

    The front is a staircase, the best accuracy that a budget buys, through the points that none beats. Settings of a
    sweep are joined by a line; those on the front and the chosen one are named. In one column of a paper the front, the
    baseline and diagnostics alone are named, and the rest is grey. Diagnostics, which see gold, are hollow and never on
    the front. The axes show the region where the policies are; to what lies far from it an arrow at
    the edge points, with its number. `simulated` is said in the figure itself. No label covers a point, a line or
    another label. The front is named first, then the baseline, what lies beyond an edge, and others; on a narrow page
    where names have no room all are letters, with a key below the axes. A name that finds no room, or is not tried, is
    left out and counted below the axes. `note` stands there, too.
    Raises ThinkbackError without points.
    """
    if not points:
        raise EmptyError("there is no policy with an accuracy and a cost to draw")
    body = min(0.74 * width, 0.45 * width + 1.15)
    with drawing(width, body) as figure:
        axes = figure.add_subplot()
        seen, names = _set_scales(axes, points, width), _names_to_write(points, width)
        corners = _draw_front(axes, points)
        paths = _draw_sweeps(axes, points)
        barred = _choose_points_with_bars(points)
        inside = [p for p in barred if not seen.arrow_beyond(*p.place)]
        _draw_intervals(axes, inside)
        _draw_points(axes, points, seen)
        axes.set_xlabel(wrapped(cost, width - 0.7, TEXT))
        axes.set_ylabel(wrapped(f"{accuracy}, %", body - 0.5, TEXT))
        arrange(figure, body, title, simulated, handle=1.8)
        room = axes.get_window_extent()
        size = (72 / figure.dpi * room.width, 72 / figure.dpi * room.height)
        arrows = arrow_places({p.name: p.place for p in points if p.name in names}, seen, size)
        labels = _labels(points, names, seen, arrows, width)
        most = max(round(3 + 1.3 * room.width * room.height / figure.dpi**2), sum(not one.modest for one in labels))
        scene = _label_scene(axes, points, inside, corners, paths, arrows)
        placed = place_labels(figure, axes, labels, scene, most)
        if len(placed.letters) == 1:  # among names a single letter is a riddle: its name is placed first
            alone = placed.letters[0][0].name
            placed.remove()
            first = [replace(one, urgency=(-9.0,), loose=True) if one.name == alone else one for one in labels]
            placed = place_labels(figure, axes, first, scene, most)
        if (placed.letters or any(not label.modest for label in placed.omitted)) and width < ROOMY:
            placed.remove()
            lettered = _labels(points, names, seen, arrows, width, letters=True)
            placed = place_labels(figure, axes, lettered, scene, max(most, len(ascii_lowercase)))  # letters need little
        without = {label.name for label in placed.omitted}
        for p in points:
            if p.name in arrows and p.name not in without:
                towards = seen.arrow_beyond(*p.place)
                draw_arrow(axes, *arrows[p.name], towards, LAYERS[_layer_name(p)].color)
        add_small_print(figure, _letter_key(placed), most=24)
        outside = sum(bool(seen.arrow_beyond(*p.place)) for p in points if p.name not in names)
        outside += len(without & {*arrows})
        lines = _notes(points, barred, level, len(arrows), outside)
        left = len(without)
        add_small_print(
            figure,
            "; ".join(filter(None, [*lines, note])),
            f"{left} without room for a label: see the table" * bool(left),
        )
    return figure


def _letter_key(placed: PlacedLabels) -> str:
    """Assigns letters, by rising cost, to the labels that became letters; returns the line that explains them."""
    parts = []
    for number, (label, text) in enumerate(sorted(placed.letters, key=lambda one: one[0].x)):
        letter = ascii_lowercase[number % 26] * (1 + number // 26)
        text.set_text(letter + label.value)
        parts.append(f"{letter}: {label.key}")
    return "; ".join(parts)


def _notes(
    points: Sequence[FrontierPoint], barred: Sequence[FrontierPoint], level: float, arrows: int, outside: int
) -> list[str]:
    """The notes below the figure: whose intervals are drawn, what arrows mean, and how many labels are left out."""
    whose = " of front and baseline" if any(p.baseline for p in points) else " of the front"
    of = whose if len(barred) < sum(p.labelled for p in points) else ""
    bars = f"bars: {100 * level:g} % intervals{of}" if any(p.low is not None for p in barred) else ""
    arrow = "arrows: points further out, with their numbers" if arrows else ""
    return [bars, arrow, f"{counted(outside, 'point')} further out not shown" if outside else ""]


def _set_scales(axes: Axes, points: Sequence[FrontierPoint], width: float) -> View:
    """Sets limits and ticks to the region where most policies are, so that far ones do not squeeze them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    real = [p for p in points if p.labelled and not p.diagnostic] or list(points)
    best = max(p.accuracy for p in real)
    must = [p.baseline or p.accuracy == best for p in real]
    rising = in_view_region([100 * p.accuracy for p in real], must)
    positive = min(p.cost for p in points) > 0
    costs = np.array([p.cost for p in real], float)
    spread = in_view_region(np.log(costs) if positive else costs, must)
    near = [p for p, x, y in zip(real, spread, rising, strict=True) if x and y]
    ends = [c for p in near if p.labelled for c in (p.cost_low, p.cost_high) if c is not None]
    ends = [c for c in ends if c > 0 or not positive]  # a logarithmic axis has no place for 0
    known = [p.cost for p in near] + ends
    diagnostics = [p for p in points if p.diagnostic]
    known += [p.cost for p in diagnostics if min(known) / 3 <= p.cost <= 3 * max(known)]
    low, high = min(known), max(known)
    if positive and high / low > 15:
        axes.set_xscale("log")
        left, right = low / (high / low) ** 0.06, high * (high / low) ** 0.12
        axes.set_xlim(left, right)
        each = np.log10(right / left) / width  # decades an inch
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if each < 0.75 else (1, 3) if each < 1.1 else (1,)))
        axes.xaxis.set_minor_locator(NullLocator())
    else:
        room = (high - low) or max(abs(high), 1.0)
        left = low - 0.07 * room
        axes.set_xlim(max(left, 0.0) if low >= 0 else left, high + 0.14 * room)
        axes.xaxis.set_major_locator(MaxNLocator(int(min(7, 1.4 * width))))
    bottom, top = _accuracy_range(near)
    room = max(top - bottom, 1.0)
    all_bottom, all_top = _accuracy_range([*near, *diagnostics])
    if all_top - all_bottom <= 1.35 * room:
        bottom, top = all_bottom, all_top
        room = max(top - bottom, 1.0)
    axes.set_ylim(*percent_limits(bottom - 0.1 * room, top + 0.18 * room))
    axes.yaxis.set_major_locator(MaxNLocator(7 if width > 5 else 5, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    calm(axes)
    return View(*axes.get_xlim(), *axes.get_ylim(), log=axes.get_xscale() == "log")


def _accuracy_range(points: Sequence[FrontierPoint]) -> tuple[float, float]:
    """The lowest and the highest per cent that the points' accuracies and their labelled intervals reach."""
    values = [100 * p.accuracy for p in points]
    values += [100 * a for p in points if p.labelled for a in (p.low, p.high) if a is not None]
    return min(values), max(values)


def _draw_sweeps(axes: Axes, points: Sequence[FrontierPoint]) -> list[np.ndarray]:
    """Joins the settings of each sweep by a line; returns their places (n, 2) in data coordinates."""
    sweeps: dict[str, list[FrontierPoint]] = {}
    for point in points:
        if point.swept and not point.diagnostic:
            sweeps.setdefault(point.sweep, []).append(point)
    paths = [
        np.array([p.place for p in sorted(members, key=lambda p: (p.cost, p.accuracy))]) for members in sweeps.values()
    ]
    for number, path in enumerate(paths):
        axes.plot(
            *path.T,
            color=SKY,
            linewidth=0.8,
            linestyle=(0, (4, 1.5)),
            marker="o",
            markersize=0.1,  # the dots are drawn below, at the edge too
            zorder=2,
            label="_" if number else "settings of a sweep",
        )
    return paths


def _draw_front(axes: Axes, points: Sequence[FrontierPoint]) -> np.ndarray:
    """Draws the Pareto front as a staircase; returns its corners (n, 2) in data coordinates."""
    front = sorted((p for p in points if p.on_front), key=lambda p: (p.cost, p.accuracy))
    if not front:
        return np.empty((0, 2))
    right, floor = axes.get_xlim()[1], axes.get_ylim()[0]
    corners = [(front[0].cost, min(floor, 100 * front[0].accuracy))]
    for point in front:  # level until the next point costs more, then up to it
        corners += [(point.cost, corners[-1][1]), point.place]
    corners.append((max(right, front[-1].cost), corners[-1][1]))
    x, y = np.array(corners).T
    axes.plot(x, y, color=NAVY, linewidth=1.3, zorder=3, label="Pareto front", scalex=False, scaley=False)
    axes.fill_between(x, y, floor, where=y >= floor, color=NAVY, alpha=0.05, linewidth=0, zorder=1)
    axes.set_xlim(right=right)
    axes.set_ylim(bottom=floor)
    return np.array(corners)


def _choose_points_with_bars(points: Sequence[FrontierPoint]) -> list[FrontierPoint]:
    """The points whose intervals are drawn. In a crowd these are only the most important ones."""
    named = [p for p in points if p.labelled]
    return named if len(named) <= CROWDED else [p for p in named if p.on_front or p.baseline]


def _draw_intervals(axes: Axes, points: Sequence[FrontierPoint]) -> None:
    from matplotlib.collections import LineCollection

    bars: dict[str, list[list[tuple[float, float]]]] = {}
    for point in points:
        bars.setdefault(LAYERS[_layer_name(point)].color, []).extend(point.interval_lines)
    for color, lines in bars.items():
        look: dict[str, Any] = {"linewidths": 0.8, "alpha": 0.6, "zorder": 4, "capstyle": "projecting"}
        axes.add_collection(LineCollection(lines, colors=color, **look), autolim=False)


@dataclass(frozen=True)
class _PointLook:
    """The look of one kind of point. Kinds differ in shape, in being hollow, or else in lightness and size."""

    label: str
    marker: str
    color: str
    size: float
    edge: float = 0.5
    hollow: bool = False


LAYERS = {
    "sweep": _PointLook("settings of a sweep", "o", SKY, 6, edge=0),
    "other": _PointLook("other policies", "o", GREY, 14, edge=0.9, hollow=True),
    "front": _PointLook("on the front", "o", NAVY, 20),
    "baseline": _PointLook("baseline", "D", ORANGE, 24),
    "diagnostic": _PointLook("diagnostic: no system could run it", "^", PURPLE, 24, edge=1.0, hollow=True),
}


def _layer_name(point: FrontierPoint) -> str:
    if point.diagnostic:
        return "diagnostic"
    if point.baseline:
        return "baseline"
    if point.on_front:
        return "front"
    return "other" if point.labelled else "sweep"


def _draw_points(axes: Axes, points: Sequence[FrontierPoint], seen: View) -> None:
    lined = set(axes.get_legend_handles_labels()[1])
    for number, (key, layer) in enumerate(LAYERS.items()):
        members = [p for p in points if _layer_name(p) == key]
        near = [p.place for p in members if not seen.arrow_beyond(*p.place)]
        if not near and not any(p.labelled for p in members):
            continue
        x, y = np.array(near, float).reshape(-1, 2).T
        axes.scatter(
            x,
            y,
            s=layer.size,
            marker=layer.marker,
            facecolors="white" if layer.hollow else layer.color,
            edgecolors=layer.color if layer.hollow else "white",
            linewidths=layer.edge,
            zorder=5 + number,
            clip_on=False,  # a point on the edge, at 0 or 100 %, is drawn whole
            label="_" if layer.label in lined else layer.label,
        )


def _names_to_write(points: Sequence[FrontierPoint], width: float) -> set[str]:
    """The names that should be written: in one column those of the front, the baseline and diagnostics, if any."""
    few = {p.name for p in points if p.on_front or p.baseline or p.diagnostic}
    return few if few and width <= COLUMN else {p.name for p in points if p.labelled}


def _labels(
    points: Sequence[FrontierPoint],
    names: Collection[str],
    seen: View,
    arrows: Mapping[Hashable, tuple[float, float]],
    width: float,
    letters: bool = False,
) -> list[Label]:
    """The name labels of the points that stand for themselves. With `letters` all become letters, which leaves more
    room.

    First the front, the best policy before what adds most to it; then the baseline, diagnostics and what lies beyond an
    edge; and the best of the others.
    """
    gains = _front_gains(points, seen)
    room, edges = (1.7, 6) if width >= ROOMY else (1.15, 3)
    set_apart = [p for p in points if p.name in names and (p.diagnostic or seen.arrow_beyond(*p.place))]
    first = {p.name for p in sorted(set_apart, key=lambda p: -p.accuracy)[:edges]}
    labels = []
    for p in (p for p in points if p.name in names):
        x, y = arrows.get(p.name, p.place)
        far = seen.arrow_beyond(*p.place)
        number = f"{p.cost:,.4g}" if far in ("←", "→") else rounded_text(100 * p.accuracy, 1)
        value = f" {number}{BOUND}{far}" if far else ""
        needed = p.on_front or p.baseline or p.name in first
        labels.append(
            Label(
                text=LETTER + value if letters else folded_name(drawable_text(p.name) + value, room, SMALL),
                x=x,
                y=y,
                color=LAYERS[_layer_name(p)].color if p.diagnostic or p.baseline else INK,
                urgency=(-gains.get(p.name, 0), not p.baseline, p.name not in first, -p.accuracy, p.cost, p.name),
                reach=DISTANCES[-1] if needed and (width >= ROOMY or letters or not p.on_front) else NEAR,
                modest=not needed and not letters,
                loose=bool(far),  # its number stands beside the arrow
                key=p.name if needed or letters else "",
                value=value,
                name=p.name,
            )
        )
    return labels


def _front_gains(points: Sequence[FrontierPoint], seen: View) -> dict[str, float]:
    """The area that each point of the front, by name, adds under the front as drawn."""
    front = sorted((p for p in points if p.on_front), key=lambda p: (p.cost, p.accuracy))
    places = [seen.share_of_axes(*seen.place_within(*p.place)) for p in front]
    gains, below = {}, 0.0
    for number, (point, (x, y)) in enumerate(zip(front, places, strict=True)):
        following = places[number + 1][0] if number + 1 < len(places) else 1.0
        gains[point.name] = 1e-9 + max(0.0, following - x) * max(0.0, y - below)
        below = y
    if front:
        gains[front[-1].name] += 1.0  # the best of all is named, however little it adds
    return gains


def _label_scene(
    axes: Axes,
    points: Sequence[FrontierPoint],
    barred: Sequence[FrontierPoint],
    front: np.ndarray,
    sweeps: Sequence[np.ndarray],
    arrows: Mapping[Hashable, tuple[float, float]],
) -> Obstacles:
    pixels = axes.transData.transform
    bars = [pixels(bar) for p in barred for bar in p.interval_lines]
    centres = pixels([arrows.get(p.name, p.place) for p in points])
    sizes = [
        SIZE / 2 if p.name in arrows else LAYERS[_layer_name(p)].size ** 0.5 / 2 + LAYERS[_layer_name(p)].edge / 2
        for p in points
    ]
    radii = np.array(sizes)[:, None] * axes.figure.dpi / 72
    return Obstacles(
        dots=np.hstack([centres - radii, centres + radii]),
        bars=np.array(bars).reshape(-1, 4),
        line=np.concatenate([sample_path(pixels(path) if len(path) else path) for path in (front, *sweeps)]),
        front=pixels(front) if len(front) else front,
    )
