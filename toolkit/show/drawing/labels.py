"""Names beside points without overlap: each takes the best free place near its point, the urgent ones first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.show.drawing.style import GREY, SMALL

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

DISTANCES = (5.0, 8.0, 12.0, 17.0, 24.0, 32.0, 42.0, 56.0, 72.0)
"""The distances of a label from its point that are tried, in typographic points."""
ANGLES = np.pi * np.array([0, 2, 14, 6, 10, 8, 4, 12, 1, 15, 7, 9, 3, 5, 11, 13]) / 8
"""The directions from a point to its label, the best first: right, upper right …"""
LETTER = "m"
"""The widest letter, for which room is made before it is known which one is written."""
TIED = 9  # points from which on a thin line joins the two
FEW = 12
"""The most labels of a figure in which every one is written, if need be across lines and bars."""
MOST = 60
"""Labels that are tried, the most urgent ones: a figure is full long before, and each takes milliseconds."""


@dataclass(frozen=True)
class Label:
    """A text to write beside the data point (x, y), at most `reach` typographic points away from it.

    The lowest `urgency` is placed first. Labels lie across a line or a bar only where there is no other room, or, if
    `loose`, where that brings them nearer; a `modest` one lies across no line and, in a crowd, across no bar. Where the
    words of one with a `key` have no room it becomes a letter, which stands for the key, with the `value` beside it.
    """

    text: str
    x: float
    y: float
    color: str
    urgency: tuple[Any, ...] = ()
    reach: float = DISTANCES[-1]
    modest: bool = False
    loose: bool = False
    key: str = ""
    value: str = ""
    name: str = ""


@dataclass(frozen=True)
class PlacedLabels:
    """The result of placing labels: those without room, those that became letters, and all artists drawn."""

    omitted: list[Label]
    letters: list[tuple[Label, Text]]
    drawn: list[Artist]

    def remove(self) -> None:
        """Removes every label that was drawn from the axes."""
        for one in self.drawn:
            one.remove()


@dataclass(frozen=True)
class Obstacles:
    """The obstacles for labels that are already drawn, in display coordinates (pixels). No label lies on a dot."""

    dots: np.ndarray  # (m, 4): x0, y0, x1, y1 of every marker
    bars: np.ndarray  # (b, 4): the same of intervals
    line: np.ndarray  # (s, 2): samples along the front and the sweeps
    front: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))  # (c, 2): its corners; no leader crosses it


def place_labels(
    figure: Figure, axes: Axes, labels: Sequence[Label], scene: Obstacles, most: int = MOST
) -> PlacedLabels:
    """Writes the labels beside their points. Those past the first `most`, or without room, are left out or become
    letters.
    """
    from matplotlib import patheffects

    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    pixel = figure.dpi / 72  # pixels a typographic point
    halo = [patheffects.withStroke(linewidth=1.6, foreground="white")]
    frame = np.array(axes.get_window_extent(renderer).extents)
    occupied, ties = np.empty((0, 4)), np.empty((0, 2))
    omitted: list[Label] = []
    letters: list[tuple[Label, Text]] = []
    drawn: list[Artist] = []
    placed = 0
    for label in sorted(labels, key=lambda one: one.urgency)[:MOST]:
        if placed == most:
            omitted.append(label)
            continue
        text = axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=SMALL,
            color=label.color,
            verticalalignment="bottom",
            linespacing=1.0,
            parse_math=False,  # a dollar sign in a name is a dollar sign
            zorder=12,
            path_effects=halo,
        )
        size = text.get_window_extent(renderer)
        at = axes.transData.transform((label.x, label.y))
        space = _FreeSpace(frame, occupied, ties, scene)
        extent = np.array([size.width, size.height])
        box = _best_place(at, extent, label, space, pixel, label.loose)
        if box is None and label.key:
            if label.text != LETTER + label.value:
                text.set_text(LETTER + label.value)
                size = text.get_window_extent(renderer)
                extent = np.array([size.width, size.height])
            label = replace(label, reach=DISTANCES[-1])
            box = _best_place(at, extent, label, space, pixel, label.loose)
        if box is None and not label.loose and (not label.modest or len(labels) <= FEW):
            box = _best_place(at, extent, label, space, pixel, True)
        if box is None:
            text.remove()
            omitted.append(label)
            continue
        placed += 1
        drawn.append(text)
        if text.get_text() == LETTER + label.value and label.key:
            letters.append((label, text))
        text.set_position(((box[0] - at[0]) / pixel, (box[1] - at[1]) / pixel))
        occupied = np.vstack([occupied, box])
        near = np.clip(at, box[:2], box[2:])
        if np.hypot(*(near - at)) >= TIED * pixel or _unclear_labels(at, box[None], scene.dots)[0]:
            ties = np.vstack([ties, sample_path(np.array([at, near]))])
            ends = axes.transData.inverted().transform([at, near])
            drawn += axes.plot(ends[:, 0], ends[:, 1], color=GREY, linewidth=0.5, zorder=4)
    return PlacedLabels(omitted + sorted(labels, key=lambda one: one.urgency)[MOST:], letters, drawn)


def sample_path(path: np.ndarray, step: float = 4.0) -> np.ndarray:
    """Samples along the path through corners (n, 2) in pixels; neighbours are at most `step` pixels apart."""
    legs = [np.linspace(a, b, 2 + int(np.abs(b - a).max() / step)) for a, b in itertools.pairwise(path)]
    return np.concatenate([np.empty((0, 2)), *legs])


@dataclass(frozen=True)
class _FreeSpace:
    """What a label must avoid: the frame's edge, earlier labels and their lines, and all that is drawn."""

    frame: np.ndarray
    occupied: np.ndarray  # (t, 4)
    ties: np.ndarray  # (s, 2): samples along the lines that join labels to points
    scene: Obstacles


def _best_place(
    at: np.ndarray, size: np.ndarray, label: Label, space: _FreeSpace, pixel: float, loose: bool
) -> np.ndarray | None:
    """The best box (x0, y0, x1, y1) for a label: near its point and hiding little. None where each would hide a dot or
    a label.

    Unless `loose` none lies across a line or a bar.
    """
    distances = np.array([d for d in DISTANCES if d <= label.reach])
    distance, angle = (one.ravel() for one in np.meshgrid(distances * pixel, ANGLES, indexing="ij"))  # (c,)
    towards = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    centres = at + towards * (distance[:, None] + size / 2)
    boxes = np.hstack([centres - size / 2, centres + size / 2])  # (c, 4)
    room = 1.2 * pixel
    free = (boxes[:, :2] > space.frame[:2] + pixel).all(axis=1) & (boxes[:, 2:] < space.frame[2:] - pixel).all(axis=1)
    free &= ~_boxes_near(boxes, space.scene.dots, room).any(axis=1) & ~_boxes_near(boxes, space.occupied, room).any(
        axis=1
    )
    free &= ~_dots_in_boxes(space.ties, boxes).any(axis=1)
    if not free.any():
        return None
    order = np.arange(len(ANGLES))[None].repeat(len(distances), axis=0).ravel()
    boxes, distance, order = boxes[free], distance[free], order[free]
    near = np.clip(at, boxes[:, :2], boxes[:, 2:])
    steps = np.linspace(0.1, 1.0, 16)[:, None, None]
    ties = (at + steps * (near - at)).transpose(1, 0, 2)  # (f, 16, 2)
    others = space.scene.dots[np.abs((space.scene.dots[:, :2] + space.scene.dots[:, 2:]) / 2 - at).max(axis=1) > 1]
    crossed = _lines_through_boxes(ties, others).sum(axis=0)
    through = _lines_through_boxes(ties, space.occupied).any(axis=0)
    across = _dots_in_boxes(space.scene.line, boxes).any(axis=1)
    barred = _boxes_near(boxes, space.scene.bars, 0.0).sum(axis=1)
    penalty = (
        3.0 * barred
        + 4.0 * across
        + 8.0 * crossed
        + 2.0 * _unclear_labels(at, boxes, others)
        + 0.22 * distance / pixel
        + 0.1 * order
    )
    penalty[through | (crossed > 1)] = np.inf  # a line through others would point at them
    penalty[(distance >= TIED * pixel) & _crosses_path(ties[:, 0], ties[:, -1], space.scene.front)] = np.inf
    penalty[across & (label.modest | (not loose))] = np.inf
    penalty[(barred > 0) & (not loose)] = np.inf
    best = int(penalty.argmin())
    return boxes[best] if np.isfinite(penalty[best]) else None


def _unclear_labels(at: np.ndarray, boxes: np.ndarray, dots: np.ndarray) -> np.ndarray:
    """Whether each label box (n, 4) is not clearly nearer to its point `at` than to any other dot."""
    centres = (dots[:, :2] + dots[:, 2:]) / 2
    centres = centres[np.abs(centres - at).max(axis=1) > 1]
    apart = np.hypot(*np.moveaxis(np.clip(centres[None], boxes[:, None, :2], boxes[:, None, 2:]) - centres[None], 2, 0))
    distance = np.hypot(*(np.clip(at, boxes[:, :2], boxes[:, 2:]) - at).T)
    return np.asarray((apart < 2 * distance[:, None]).any(axis=1))


def _crosses_path(starts: np.ndarray, ends: np.ndarray, front: np.ndarray) -> np.ndarray:
    """Whether each straight line from `starts` to `ends` (n, 2) crosses the path through the corners `front` (c, 2)."""
    if len(front) < 2:
        return np.zeros(len(starts), bool)
    first, second = front[None, :-1], front[None, 1:]
    starts, ends = starts[:, None], ends[:, None]
    apart = _side_of_line(first, second, starts) * _side_of_line(first, second, ends) < 0
    return np.asarray(
        (apart & (_side_of_line(starts, ends, first) * _side_of_line(starts, ends, second) <= 0)).any(axis=1)
    )


def _side_of_line(first: np.ndarray, second: np.ndarray, point: np.ndarray) -> np.ndarray:
    """The side of the line from `first` to `second` on which each point is: above (1), on (0) or below it (−1)."""
    (ax, ay), (bx, by), (x, y) = (np.moveaxis(one, -1, 0) for one in (first, second, point))
    return np.asarray(np.sign((bx - ax) * (y - ay) - (by - ay) * (x - ax)))


def _boxes_near(boxes: np.ndarray, others: np.ndarray, room: float) -> np.ndarray:
    """Whether each of the boxes (n, 4) comes closer than `room` to each of the others (m, 4): (n, m)."""
    (left, low, right, high), (x0, y0, x1, y1) = boxes.T[:, :, None], others.T[:, None]
    near = (x0 < right + room) & (y0 < high + room) & (x1 > left - room) & (y1 > low - room)
    return np.asarray(near)


def _lines_through_boxes(lines: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether each line, given as samples (f, s, 2), passes through each of the boxes (n, 4): (n, f)."""
    inside = _dots_in_boxes(lines.reshape(-1, 2), boxes)
    return np.asarray(inside.reshape(len(boxes), *lines.shape[:2]).any(axis=2))


def _dots_in_boxes(dots: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Whether each of the dots (s, 2) lies inside each of the boxes (n, 4): (n, s)."""
    (left, low, right, high), (x, y) = boxes.T[:, :, None], dots.T[:, None]
    return np.asarray((x > left) & (y > low) & (x < right) & (y < high))
