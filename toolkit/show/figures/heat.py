"""Heat maps: one number over two settings, a panel for each value of further ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import EmptyError
from toolkit.rounding import rounded_text
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, page_figure
from toolkit.show.drawing.style import GREY, SMALL, TEXT, readable_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

CELL = 0.29
"""Inches that a cell needs for its number."""


@dataclass(frozen=True)
class Heat:
    """One panel of a heat map: `values` by row (`y`) and column (`x`), None for an empty cell."""

    name: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    marked: tuple[str, str] | None = None  # column and row of a setting that stands out, such as the one in use

    @property
    def marked_cell(self) -> tuple[int, int] | None:
        """The marked cell as (column, row) numbers; None where the panel has no such cell."""
        if self.marked is None or self.marked[0] not in self.x or self.marked[1] not in self.y:
            return None
        return self.x.index(self.marked[0]), self.y.index(self.marked[1])


def heat_figure(
    panels: Sequence[Heat],
    *,
    columns: int,
    title: str,
    x: str,
    y: str,
    decimals: int = 1,
    note: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws heat maps in rows of `columns`, on one colour scale, every cell with its number; `width` inches wide.

    Fewer panels stand in a row where the page is too narrow for their numbers. Where it is too narrow for those of a
    single panel there are none, but a bar of the colours. The marked cell of each has a frame.
    """
    if not panels:
        raise EmptyError("there is no panel to draw")
    wide = max(len(panel.x) for panel in panels)
    columns = max(1, min(columns, int(width / (CELL * wide + 0.35))))
    rows = -(-len(panels) // columns)
    numbered = CELL * wide + 0.35 <= width / columns
    known = [v for panel in panels for line in panel.values for v in line if v is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low == high:  # a single value: in the middle of the scale
        low, high = low - 0.5, high + 0.5
    tall = max(len(panel.y) for panel in panels)
    body = max(1.2, rows * (0.17 * tall + 0.28) + 0.3)
    with page_figure(body, width, title=title, simulated=simulated, note=note) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            image = _draw_heat_map(axes, panel, low, high, decimals if numbered else None, width / columns)
        for number, (axes, panel) in enumerate(zip(grid.flat, panels, strict=False)):
            if number % columns == 0:
                axes.set_ylabel(wrapped(y, body / rows - 0.4, TEXT, 1))
            else:
                axes.tick_params(labelleft=panel.y != panels[number - 1].y)
            if number + columns >= len(panels):
                axes.set_xlabel(wrapped(x, width / columns - 0.5, TEXT, 1))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        if not numbered:
            bar = figure.colorbar(image, ax=figure.axes, fraction=0.04, pad=0.02)
            bar.outline.set_visible(False)
            bar.ax.tick_params(length=0)
    return figure


def _draw_heat_map(axes: Axes, panel: Heat, low: float, high: float, decimals: int | None, size: float) -> AxesImage:
    """Draws one heat map. `decimals`: those of the cells' numbers; None for cells without numbers."""
    from matplotlib.patches import Rectangle

    values = np.array(panel.values, float)
    image = axes.imshow(values, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    step = 1 if decimals is not None else max(1, math.ceil(CELL * len(panel.x) / (size - 0.9)))
    named = [wrapped(name, 0.6, SMALL, 1) for name in panel.x[::step]]
    axes.set_xticks(range(0, len(panel.x), step), named, parse_math=False)
    axes.set_yticks(range(len(panel.y)), [wrapped(name, 0.9, SMALL, 1) for name in panel.y], parse_math=False)
    axes.tick_params(length=0)
    axes.set_title(wrapped(panel.name, size - 0.4, SMALL, 1), loc="left", fontsize=SMALL, pad=2.5, parse_math=False)
    for i, j in np.argwhere(np.isnan(values)):
        axes.text(j, i, "–", ha="center", va="center", fontsize=SMALL, color=GREY)
    for i, j in np.argwhere(~np.isnan(values)) if decimals is not None else ():
        color = readable_on(tuple(image.to_rgba(values[i, j])))
        number = rounded_text(values[i, j], decimals or 0, grouped=False)
        axes.text(j, i, number, ha="center", va="center", fontsize=SMALL, color=color)
    if panel.marked_cell is not None:
        place = panel.marked_cell[0] - 0.44, panel.marked_cell[1] - 0.44
        axes.add_patch(Rectangle(place, 0.88, 0.88, fill=False, edgecolor="white", linewidth=2.4))
        axes.add_patch(Rectangle(place, 0.88, 0.88, fill=False, edgecolor="black", linewidth=1.1))
    return image
