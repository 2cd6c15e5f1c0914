"""Marks that would hide one another, moved apart: each stays at its height, and its place in the data is unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

_STEP = 1.2  # typographic points between two places that are tried
_ROOM = 0.9  # of a mark's size that two of them keep between their centres, its edge aside
_FAR = 12
"""Places that are tried to either side."""


def side_by_side(axes: Axes, marks: Sequence[Line2D]) -> None:
    """Move marks of a point each to the nearest place beside their own where they hide none of those before."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.figure
    pixel = figure.dpi / 72
    taken = np.empty((0, 2))
    shifts = sorted(range(-_FAR, _FAR + 1), key=lambda one: (abs(one), -one))
    for mark in marks:
        at = axes.transData.transform(mark.get_xydata())[0]
        room = pixel * (_ROOM * mark.get_markersize() + mark.get_markeredgewidth())
        free = (n for n in shifts if (np.hypot(*(taken - at - np.array([n * _STEP * pixel, 0.0])).T) >= room).all())
        shift = next(free, 0) * _STEP
        taken = np.vstack([taken, at + np.array([shift * pixel, 0.0])])
        if shift:
            mark.set_transform(axes.transData + ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans))
