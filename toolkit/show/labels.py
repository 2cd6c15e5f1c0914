"""Names beside points without overlap: each takes the best free place near its point, the urgent ones first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Where a label may be, seen from its point: (horizontal, vertical), and how far away in typographic points
DIRECTIONS = ((1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (-1, 0), (0, 1), (0, -1))
DISTANCES = (7, 14, 24, 38, 56, 80)
TIED = 12  # points from which on a thin line joins the two
FONT = 7.5


@dataclass(frozen=True)
class Label:
    """Words for the point (x, y) of the data; the lowest `urgency` is placed first."""

    text: str
    x: float
    y: float
    color: str
    urgency: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Scene:
    """What labels should not hide, in display coordinates (pixels)."""

    dots: np.ndarray  # (m, 2): every point drawn
    bars: np.ndarray  # (b, 4): x0, y0, x1, y1 of intervals
    line: np.ndarray  # (s, 2): samples along the front


def place_labels(figure: Figure, axes: Axes, labels: Sequence[Label], scene: Scene) -> tuple[str, ...]:
    """Write the labels; return the texts that found no room and were left out."""
    from matplotlib import patheffects

    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    pixel = figure.dpi / 72  # pixels a typographic point
    halo = [patheffects.withStroke(linewidth=2, foreground="white")]
    frame = np.array(axes.get_window_extent(renderer).extents)
    taken: list[np.ndarray] = []
    omitted = []
    for label in sorted(labels, key=lambda one: one.urgency):
        text = axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize=FONT,
            color=label.color,
            verticalalignment="bottom",
            linespacing=1.05,
            parse_math=False,  # a dollar sign in a name is a dollar sign
            zorder=12,
            path_effects=halo,
        )
        size = text.get_window_extent(renderer)
        at = axes.transData.transform((label.x, label.y))
        box = _best_place(at, (size.width, size.height), frame, taken, scene, pixel)
        if box is None:
            text.remove()
            omitted.append(label.text)
            continue
        text.set_position(((box[0] - at[0]) / pixel, (box[1] - at[1]) / pixel))
        taken.append(box)
        _tie(axes, at, box, pixel)
    return tuple(omitted)


def along(path: np.ndarray, step: float = 4.0) -> np.ndarray:
    """(n, 2) corners in pixels -> samples along the way, at most `step` pixels apart."""
    legs = [np.linspace(a, b, 2 + int(np.abs(b - a).max() / step)) for a, b in itertools.pairwise(path)]
    return np.concatenate([np.empty((0, 2)), *legs])


def _best_place(
    at: np.ndarray, size: tuple[float, float], frame: np.ndarray, taken: list[np.ndarray], scene: Scene, pixel: float
) -> np.ndarray | None:
    """The box (x0, y0, x1, y1) that hides least and is nearest; None where every one overlaps."""
    others = scene.dots[np.abs(scene.dots - at).max(axis=1) > 0.5]
    dots = np.hstack([others - 4 * pixel, others + 4 * pixel])
    best: tuple[float, np.ndarray] | None = None
    for far, distance in enumerate(DISTANCES):
        for turn, direction in enumerate(DIRECTIONS):
            corner = at + _offset(direction, distance * pixel, size)
            box = np.concatenate([corner, corner + size])
            if (box[:2] < frame[:2]).any() or (box[2:] > frame[2:]).any():
                continue
            if taken and _overlaps(box, np.array(taken), 1.5 * pixel).any():
                continue
            hidden = _overlaps(box, dots).sum() + _overlaps(box, scene.bars, pixel).sum()
            crossed = ((scene.line > box[:2]) & (scene.line < box[2:])).all(axis=1).any()
            penalty = 6 * hidden + 4 * crossed + 1.5 * far + 0.1 * turn
            if best is None or penalty < best[0]:
                best = (penalty, box)
    return None if best is None else best[1]


def _overlaps(box: np.ndarray, boxes: np.ndarray, room: float = 0.0) -> np.ndarray:
    """Which of (n, 4) boxes come closer than `room` to this one."""
    near = (boxes[:, :2] < box[2:] + room) & (boxes[:, 2:] > box[:2] - room)
    return np.asarray(near.all(axis=1))


def _offset(direction: tuple[int, int], distance: float, size: tuple[float, float]) -> np.ndarray:
    """Lower left corner of a label of this size, from its point."""
    slant = 0.75 if all(direction) else 1.0
    shift = {1: 0.0, 0: -0.5, -1: -1.0}
    return np.array([d * distance * slant + shift[d] * side for d, side in zip(direction, size, strict=True)])


def _tie(axes: Axes, at: np.ndarray, box: np.ndarray, pixel: float) -> None:
    """A thin line from a point to its label, where the two are apart."""
    near = np.clip(at, box[:2], box[2:])
    if np.hypot(*(near - at)) < TIED * pixel:
        return
    ends = axes.transData.inverted().transform([at, near])
    axes.plot(ends[:, 0], ends[:, 1], color="#6B7280", linewidth=0.6, alpha=0.8, zorder=4)
