"""Curves over the number of traces: avg@k, pass@k, majority@k and best-of-k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import ThinkbackError
from toolkit.show.style import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, calm, drawing, footnotes, percent_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = (GREY, PURPLE, BLUE, ORANGE, GREEN, SKY)


@dataclass(frozen=True)
class PlottedCurve:
    """One line over k with its band. Values are fractions; None where there is none."""

    name: str
    k: tuple[int, ...]
    estimate: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    diagnostic: bool = False
    sees: str = "sees gold"  # what a diagnostic sees that no system could


def curves_figure(
    panels: Sequence[tuple[str, Sequence[PlottedCurve]]],
    *,
    title: str = "Accuracy over the number of traces",
    x: str = "traces, k",
    y: str = "accuracy, %",
    doubling: bool = True,
    level: float = 0.95,
    simulated: bool = False,
) -> Figure:
    """One panel a pool (and verifier), one line a metric over k; diagnostics are dashed.

    `doubling`: k is drawn on a scale of powers of two, with a tick for each.
    """
    if not panels:
        raise ThinkbackError("there is no curve to draw")
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    colors: dict[str, str] = {}
    most = max(len(curves) for _, curves in panels)
    width, height = max(6.4 if most < 5 else 7.6, 3.6 * columns), 3.4 * rows + 1.0
    with drawing(width, height, title, simulated) as figure:
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True)
        edges = {"left": 0.62 / width, "right": 0.985, "top": 1 - 1.0 / height, "bottom": 0.62 / height}
        figure.subplots_adjust(**edges, wspace=0.08, hspace=0.35)
        for axes, (name, curves) in zip(grid.flat, panels, strict=False):
            for curve in curves:
                _draw(axes, curve, colors.setdefault(curve.name, _COLORS[len(colors) % len(_COLORS)]))
            axes.set_title(name, fontsize=9, loc="left", parse_math=False)
            _scale(axes, sorted({k for curve in curves for k in curve.k}), doubling)
            axes.set_xlabel(x)
        for axes in grid[:, 0]:
            axes.set_ylabel(y)
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        grid.flat[0].set_ylim(*percent_limits(*grid.flat[0].get_ylim()))
        footnotes(figure, f"bands: {100 * level:g} % intervals")
    return figure


def _scale(axes: Axes, ks: list[int], doubling: bool) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    calm(axes)
    if not doubling:
        axes.set_xlim(ks[0] - 0.5, ks[-1] + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
        return
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ks[0] / 1.15, ks[-1] * 1.15)


def _draw(axes: Axes, curve: PlottedCurve, color: str) -> None:
    estimate, low, high = (100 * np.array(values, float) for values in (curve.estimate, curve.low, curve.high))
    axes.plot(
        curve.k,
        estimate,
        linestyle="--" if curve.diagnostic else "-",
        color=color,
        marker="o",
        markersize=3,
        linewidth=1.4,
        clip_on=False,  # a marker on the edge, at 0 or 100 %, is drawn whole
        label=f"{curve.name} ({curve.sees})" if curve.diagnostic else curve.name,
    )
    axes.fill_between(curve.k, low, high, color=color, alpha=0.13, linewidth=0)
