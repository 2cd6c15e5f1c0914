"""What lies beyond the axes: an arrow at the edge that points to it, for its number to stand beside."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from toolkit.show.drawing.region import View

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 9.0
"""Typographic points from an arrow's tail to its tip."""
_TURNS = {"↑": 0, "←": 1, "↓": 2, "→": 3}  # quarters, to the left
_SHAPE = np.array([(0, 1), (0.6, 0.1), (0.18, 0.1), (0.18, -1), (-0.18, -1), (-0.18, 0.1), (-0.6, 0.1), (0, 1)])


def arrow_places(
    points: Mapping[Hashable, tuple[float, float]], seen: View, size: tuple[float, float]
) -> dict[Hashable, tuple[float, float]]:
    """Where the arrows of points beyond the axes stand, at their edge; `size`: of the axes, in typographic points.

    No arrow hides another: where two would, the second stands further from the edge.
    """
    found: dict[Hashable, tuple[float, float]] = {}
    taken: list[np.ndarray] = []
    for key, (x, y) in points.items():
        far = seen.beyond(x, y)
        if not far:
            continue
        place = np.array(seen.share(*seen.within(x, y))) * size
        inwards = np.array({"↑": (0, -1), "↓": (0, 1), "→": (-1, 0), "←": (1, 0)}[far])
        while any(np.abs(place - other).max() < 1.3 * SIZE for other in taken):
            place = place + SIZE / 2 * inwards
        taken.append(place)
        found[key] = seen.place(*(place / size))
    return found


def draw_arrow(axes: Axes, x: float, y: float, towards: str, color: str) -> None:
    """An arrow at a place of the axes, towards one of ↑, ←, ↓ and →."""
    from matplotlib.path import Path

    turn = np.linalg.matrix_power(np.array([[0, 1], [-1, 0]]), _TURNS[towards])
    axes.scatter(
        [x], [y], s=SIZE**2, marker=Path(_SHAPE @ turn), facecolors=color, edgecolors="white", linewidths=0.4,
        zorder=10, clip_on=False, label="_",
    )  # fmt: skip
