"""The region of a figure that matters: far values do not squeeze the others.

They lie at its edge, where an arrow points to what is beyond the axes, for its number to stand beside.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 9.0
"""Typographic points from an arrow's tail to its tip."""
_TURNS = {"↑": 0, "←": 1, "↓": 2, "→": 3}  # quarters, to the left
_SHAPE = np.array([(0, 1), (0.6, 0.1), (0.18, 0.1), (0.18, -1), (-0.18, -1), (-0.18, 0.1), (-0.6, 0.1), (0, 1)])
FEW = 8
"""Values from which on some may be far from the rest."""
MOST_SPAN = 0.75
"""Far values are left out where the rest spans less than this share of the whole."""
_EDGE = 0.045  # of the axis: how far within its end a far value is drawn


def in_view_region(values: Sequence[float] | np.ndarray, must: Sequence[bool]) -> list[bool]:
    """Whether each value belongs to the shown region: within 1.5 quartile ranges of the quartiles (Tukey's fences).

    `must` always belong. All do where there are few, or where leaving some out would hardly make room.
    """
    given = np.asarray(values, float)
    if len(given) < FEW:
        return [True] * len(given)
    first, third = np.quantile(given, [0.25, 0.75])
    reach = 1.5 * (third - first)
    near = (given >= first - reach) & (given <= third + reach) | np.asarray(must, bool)
    span = np.ptp(given[near])
    return [bool(one) for one in (near if span < MOST_SPAN * np.ptp(given) and span > 0 else np.ones(len(given), bool))]


@dataclass(frozen=True)
class View:
    """The region of the data that the axes show."""

    left: float
    right: float
    bottom: float
    top: float
    log: bool = False

    def arrow_beyond(self, x: float, y: float) -> str:
        """The arrow (↑, ↓, →, ←) towards a point that lies beyond the axes; empty for a point within."""
        if y > self.top:
            return "↑"
        if y < self.bottom:
            return "↓"
        if x > self.right:
            return "→"
        return "←" if x < self.left else ""

    def share_of_axes(self, x: float, y: float) -> tuple[float, float]:
        """The position of a point within the axes, as shares of their width and height."""
        left, right, here = self.left, self.right, x
        if self.log:
            left, right, here = math.log(left), math.log(right), math.log(here)
        return (here - left) / (right - left), (y - self.bottom) / (self.top - self.bottom)

    def place_within(self, x: float, y: float) -> tuple[float, float]:
        """The place where a point is drawn: its own, or just inside the edge that it lies beyond."""
        rise = _EDGE * (self.top - self.bottom)
        if not self.bottom <= y <= self.top:
            y = min(max(y, self.bottom + rise), self.top - rise)
        if x < self.left:
            x = self._x_at_share(_EDGE)
        elif x > self.right:
            x = self._x_at_share(1 - _EDGE)
        return x, y

    def place_of_share(self, across: float, up: float) -> tuple[float, float]:
        """The data coordinates at given shares of the axes' width and height; reverses `share_of_axes`."""
        return self._x_at_share(across), self.bottom + up * (self.top - self.bottom)

    def _x_at_share(self, share: float) -> float:
        """The x coordinate at a share of the axes' width."""
        if self.log:
            return self.left * (self.right / self.left) ** share
        return self.left + share * (self.right - self.left)


def arrow_places(
    points: Mapping[Hashable, tuple[float, float]], seen: View, size: tuple[float, float]
) -> dict[Hashable, tuple[float, float]]:
    """The places at the edge for the arrows of points beyond the axes. `size`: of the axes, in typographic points.

    No arrow hides another: where two would, the second stands further from the edge.
    """
    places: dict[Hashable, tuple[float, float]] = {}
    standing: list[np.ndarray] = []
    for key, (x, y) in points.items():
        far = seen.arrow_beyond(x, y)
        if not far:
            continue
        place = np.array(seen.share_of_axes(*seen.place_within(x, y))) * size
        inwards = np.array({"↑": (0, -1), "↓": (0, 1), "→": (-1, 0), "←": (1, 0)}[far])
        while any(np.abs(place - other).max() < 1.3 * SIZE for other in standing):
            place = place + SIZE / 2 * inwards
        standing.append(place)
        places[key] = seen.place_of_share(*(place / size))
    return places


def draw_arrow(axes: Axes, x: float, y: float, towards: str, color: str) -> None:
    """Draws an arrow at a place of the axes that points `towards` one of ↑, ←, ↓ and →."""
    from matplotlib.path import Path

    turn = np.linalg.matrix_power(np.array([[0, 1], [-1, 0]]), _TURNS[towards])
    axes.scatter(
        [x], [y], s=SIZE**2, marker=Path(_SHAPE @ turn), facecolors=color, edgecolors="white", linewidths=0.4,
        zorder=10, clip_on=False, label="_",
    )  # fmt: skip
