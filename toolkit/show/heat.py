"""Heat maps: one number over two settings, a panel for each value of further ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.show.lettering import wrapped
from toolkit.show.page import arrange, noted
from toolkit.show.style import GREY, SMALL, TEXT, drawing, readable_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Heat:
    """One panel: `values` by row (`y`) and column (`x`); None where there is none."""

    name: str
    x: tuple[str, ...]
    y: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


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
) -> Figure:
    """Panels in rows of `columns`, all on one scale of colour, every cell with its number."""
    if not panels:
        raise ThinkbackError("there is no panel to draw")
    rows = -(-len(panels) // columns)
    known = [v for panel in panels for line in panel.values for v in line if v is not None]
    low, high = (min(known), max(known)) if known else (0.0, 1.0)
    if low == high:  # a single value: in the middle of the scale
        low, high = low - 0.5, high + 0.5
    wide = max(len(panel.x) for panel in panels)
    tall = max(len(panel.y) for panel in panels)
    width, body = max(6.4, columns * (0.46 * wide + 0.7) + 0.5), max(1.2, rows * (0.27 * tall + 0.55))
    with drawing(width, body) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw(axes, panel, low, high, decimals, width / columns)
        for axes in grid[:, 0]:
            axes.set_ylabel(wrapped(y, body / rows - 0.4, TEXT, 1))
        for axes in grid[-1]:
            axes.set_xlabel(wrapped(x, width / columns - 0.7, TEXT, 1))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        arrange(figure, body, title, simulated)
        noted(figure, note)
    return figure


def _draw(axes: Axes, panel: Heat, low: float, high: float, decimals: int, each: float) -> None:
    values = np.array(panel.values, float)
    image = axes.imshow(values, cmap="cividis", vmin=low, vmax=high, aspect="auto")
    axes.set_xticks(range(len(panel.x)), [wrapped(name, 0.6, SMALL, 1) for name in panel.x], parse_math=False)
    axes.set_yticks(range(len(panel.y)), [wrapped(name, 0.9, SMALL, 1) for name in panel.y], parse_math=False)
    axes.tick_params(length=0)
    axes.set_title(wrapped(panel.name, each - 0.7, TEXT, 1), loc="left", parse_math=False)
    for i, j in np.argwhere(np.isnan(values)):
        axes.text(j, i, "–", ha="center", va="center", fontsize=6.5, color=GREY)
    for i, j in np.argwhere(~np.isnan(values)):
        color = readable_on(tuple(image.to_rgba(values[i, j])))
        axes.text(j, i, f"{values[i, j]:.{decimals}f}", ha="center", va="center", fontsize=6.5, color=color)
