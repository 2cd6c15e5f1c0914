"""The region of a figure that matters: far values do not squeeze the others, but lie at its edge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEW = 8
"""Values from which on some may be far from the rest."""
WORTH = 0.75
"""Far values are left out where the rest spans less than this share of the whole."""
_EDGE = 0.045  # of the axis: how far within its end a far value is drawn


def view(values: Sequence[float] | np.ndarray, kept: Sequence[bool]) -> list[bool]:
    """Which values belong to the region: within Tukey's fences, one and a half quartile ranges from the quartiles.

    `kept` always belong. All do where there are few, or where leaving some out would hardly make room.
    """
    given = np.asarray(values, float)
    if len(given) < FEW:
        return [True] * len(given)
    first, third = np.quantile(given, [0.25, 0.75])
    reach = 1.5 * (third - first)
    near = (given >= first - reach) & (given <= third + reach) | np.asarray(kept, bool)
    span = np.ptp(given[near])
    return [bool(one) for one in (near if span < WORTH * np.ptp(given) and span > 0 else np.ones(len(given), bool))]


@dataclass(frozen=True)
class View:
    """The region that axes show, and where what lies beyond it is drawn."""

    left: float
    right: float
    bottom: float
    top: float
    log: bool = False

    def beyond(self, x: float, y: float) -> str:
        """An arrow to where a point lies beyond the axes; empty within."""
        if y > self.top:
            return "↑"
        if y < self.bottom:
            return "↓"
        if x > self.right:
            return "→"
        return "←" if x < self.left else ""

    def share(self, x: float, y: float) -> tuple[float, float]:
        """A place within the axes as shares of their width and height."""
        left, right, here = self.left, self.right, x
        if self.log:
            left, right, here = math.log(left), math.log(right), math.log(here)
        return (here - left) / (right - left), (y - self.bottom) / (self.top - self.bottom)

    def within(self, x: float, y: float) -> tuple[float, float]:
        """Where a point is drawn: at its place, or just within the edge that it lies beyond."""
        rise = _EDGE * (self.top - self.bottom)
        if not self.bottom <= y <= self.top:
            y = min(max(y, self.bottom + rise), self.top - rise)
        if x < self.left:
            x = self._across(_EDGE)
        elif x > self.right:
            x = self._across(1 - _EDGE)
        return x, y

    def place(self, across: float, up: float) -> tuple[float, float]:
        """The place at shares of the axes' width and height."""
        return self._across(across), self.bottom + up * (self.top - self.bottom)

    def _across(self, share: float) -> float:
        """The x at a share of the axes' width."""
        if self.log:
            return self.left * (self.right / self.left) ** share
        return self.left + share * (self.right - self.left)
