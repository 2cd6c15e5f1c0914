"""Curves over the number of traces, or over their mean: avg@k, pass@k, majority@k, best-of-k and other strategies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import EmptyError
from toolkit.rounding import rounded_text
from toolkit.show.drawing.lettering import drawable_text, wrapped
from toolkit.show.drawing.page import HIGHEST, WIDTH, add_small_print, arrange
from toolkit.show.drawing.style import (
    GREEN,
    GREY,
    INK,
    NAVY,
    ORANGE,
    PURPLE,
    SKY,
    SMALL,
    TEXT,
    WINE,
    calm,
    drawing,
    percent_limits,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D


@dataclass(frozen=True)
class LineLook:
    """How a line is drawn. Any two of the first forty differ in marker or dashes, and neighbours in lightness too."""

    color: str
    marker: str
    dashes: tuple[float, tuple[float, ...]]


_COLORS = (INK, ORANGE, PURPLE, SKY, NAVY, GREEN, WINE, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: tuple[tuple[float, ...], ...] = ((), (6, 1.5), (5, 1.5, 1, 1.5), (1.2, 1.2), (4, 1.2, 1, 1.2, 1, 1.2))
CLOSE, APART = 24, 5
"""Points of a line from which on only every fifth has its marker, each line's at other places."""
DIAGNOSTIC = "--"
PUBLISHED = "published"
"""The label of the marks of published points, which tells them from others."""
_HOLLOW: dict[str, Any] = {"markersize": 4.6, "markerfacecolor": "white", "markeredgewidth": 0.9}
BANDED = 3
"""Lines of a panel up to which each has its band: more bands hide one another."""


def line_look(number: int) -> LineLook:
    """The look of the line that has this number in a figure."""
    return LineLook(_COLORS[number % 8], _MARKERS[number % 8], (0, _DASHES[number % 5]))


@dataclass(frozen=True)
class PlottedCurve:
    """One line over k with its band. Its values are fractions, or None where there is none."""

    name: str
    k: tuple[float, ...]
    estimate: tuple[float | None, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    diagnostic: bool = False
    sees: str = "sees gold"  # what a diagnostic sees that no system could, where its panel does not say so
    published: tuple[tuple[int, float], ...] = ()  # points (k, fraction) of a published work


def curves_figure(
    panels: Sequence[tuple[str, Sequence[PlottedCurve]]],
    *,
    title: str = "",
    x: str = "traces, k",
    y: str = "accuracy, %",
    doubling: bool = True,
    ticks: Sequence[float] | None = None,
    level: float = 0.95,
    simulated: bool = False,
    width: float = WIDTH,
    banded: int = BANDED,
    note: str = "",
    scales: Sequence[str] = (),
    reference: tuple[str, float] | None = None,
) -> Figure:
    """Draws a panel for each question with a line for each metric over k; diagnostics are dashed. It is `width` inches
    wide.

    `doubling`: k is drawn on a scale of powers of two, with a tick for each, or at `ticks`; else on a plain one, with
    ticks at integers, or at `ticks`. Axes show the region of the
    lines that a system could have; a diagnostic that leaves it has its last number at the edge, and a panel of
    diagnostics alone has a scale of its own. Up to `banded` lines of a panel have bands. Published points are hollow,
    and stand side by side where they would hide one another. `note` stands below in place of what is said of bands.
    `scales`: of each panel the name of what it shares its axis with, such as its data set; panels are higher then.
    `reference`: a level with its name, such as chance, that every panel shows.
    """
    if not panels:
        raise EmptyError("there is no curve to draw")
    columns = max(1, min(3, len(panels), int(width / 2.2)))
    rows = -(-len(panels) // columns)
    each = width / columns
    high = min(1.0 * each, 0.3 * each + 1.7) if scales else min(0.66 * each, 0.3 * each + 1.35)
    body = rows * high * (1.0 if rows < 3 else 0.8)
    body = min(body, HIGHEST - 1.1)  # room for title, legend and notes
    looks: dict[str, LineLook] = {}
    bands = any(len(curves) <= banded for _, curves in panels)
    with drawing(width, body) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for number, (axes, (name, curves)) in enumerate(zip(grid.flat, panels, strict=False)):
            for curve in curves:
                _draw_curve(axes, curve, looks.setdefault(curve.name, line_look(len(looks))), len(curves) <= banded)
            if reference is not None:
                text, level_at = reference
                axes.axhline(100 * level_at, color=GREY, linewidth=0.9, linestyle=(0, (1, 1.5)), zorder=1.5, label=text)
            if name:
                axes.set_title(wrapped(name, each - 0.5, TEXT), loc="left", parse_math=False)
            _set_axis_scales(axes, sorted({k for curve in curves for k in curve.k}), ticks, doubling, each)
            if number + columns >= len(panels):
                axes.set_xlabel(wrapped(x, each - 0.5, TEXT))
        for axes in grid[:, 0]:
            axes.set_ylabel(wrapped(y, body / rows - 0.4, TEXT))
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        alike: dict[tuple[str, bool], list[tuple[Axes, Sequence[PlottedCurve]]]] = {}
        for axes, (_, curves), scale in zip(grid.flat, panels, scales or [""] * len(panels), strict=False):
            apart = all(curve.diagnostic for curve in curves)  # what only diagnostics are in has a scale of its own
            alike.setdefault((scale, apart), []).append((axes, curves))
        for members in alike.values():
            lines = [curve for _, curves in members for curve in curves]
            _set_common_scale([axes for axes, _ in members], lines, [] if reference is None else [reference[1]])
        if any(curve.published for _, curves in panels for curve in curves):
            grid[0, 0].plot([], [], linestyle="", label="hollow: published", **_HOLLOW, color=INK, marker="o")
        arrange(figure, body, title, simulated)
        for axes, (_, curves) in zip(grid.flat, panels, strict=False):
            _move_marks_apart(axes, [line for line in axes.get_lines() if line.get_gid() == PUBLISHED])
            _write_names_beyond_axes(axes, curves, f"{symbol} = " if (symbol := x.partition(", ")[2]) else "")
        text = f"bands: {100 * level:g} % intervals of each line, not of differences between lines"
        text = text if bands else "intervals, and paired differences between lines: see the tables"
        add_small_print(figure, note or text)
    return figure


def _set_common_scale(panels: Sequence[Axes], curves: Sequence[PlottedCurve], levels: Sequence[float]) -> None:
    """Gives panels a common scale. Diagnostic lines may leave it where they would squeeze the others."""
    bottom, top = min(axes.get_ylim()[0] for axes in panels), max(axes.get_ylim()[1] for axes in panels)
    real = [
        v for c in curves if not c.diagnostic for line in (c.estimate, c.low, c.high) for v in line if v is not None
    ]
    real += [*levels, *(value for curve in curves for _, value in curve.published)]
    if real and any(curve.diagnostic for curve in curves):
        low, high = 100 * min(real), 100 * max(real)
        room = max(high - low, 1.0)
        if top - bottom > 1.6 * room:
            bottom, top = low - 0.06 * room, high + 0.14 * room
    for axes in panels:
        axes.set_ylim(*percent_limits(bottom, top))
    bottom, top = panels[0].get_ylim()
    for line in (line for panel in panels for line in panel.lines):  # a marker on the edge is drawn whole
        values = np.asarray(line.get_ydata(), float)
        line.set_clip_on(bool((values > top).any() or (values < bottom).any()))


def _write_names_beyond_axes(axes: Axes, curves: Sequence[PlottedCurve], x: str) -> None:
    """Writes the names and last values of lines that leave the axes, one below the other at the upper edge."""
    top = axes.get_ylim()[1]
    beyond = [(curve, curve.estimate[-1]) for curve in curves if (curve.estimate[-1] or 0.0) * 100 > top]
    for number, (curve, last) in enumerate(beyond):
        axes.annotate(
            f"{drawable_text(curve.name)} {rounded_text(100 * (last or 0.0), 1)} at {x}{curve.k[-1]:g} ↑",
            (1, 1),
            xycoords="axes fraction",
            xytext=(-2, -2 - (SMALL + 2) * number),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=SMALL,
            parse_math=False,
        )


def _set_axis_scales(axes: Axes, ks: list[float], ticks: Sequence[float] | None, doubling: bool, width: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

    calm(axes)
    axes.yaxis.set_major_locator(MaxNLocator(6))
    if not doubling and ticks is not None:
        room = 0.05 * (ks[-1] - ks[0]) or 0.5
        axes.set_xlim(ks[0] - room, ks[-1] + room)
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}".replace("-", "−")))
        return
    if not doubling:
        axes.set_xlim(ks[0] - 0.5, ks[-1] + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(8 if width > 3 else 6, integer=True))
        return
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(ks if ticks is None else list(ticks)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim(ks[0] / 1.15, ks[-1] * 1.15)


def _draw_curve(axes: Axes, curve: PlottedCurve, look: LineLook, band: bool) -> None:
    estimate, low, high = (100 * np.array(values, float) for values in (curve.estimate, curve.low, curve.high))
    axes.plot(
        curve.k, estimate, linestyle=DIAGNOSTIC if curve.diagnostic else look.dashes, color=look.color,
        marker=look.marker, markersize=3.6, markerfacecolor="white" if curve.diagnostic else look.color,
        markeredgewidth=0.8, linewidth=1.1,
        markevery=(_MARKERS.index(look.marker) % APART, APART) if len(curve.k) > CLOSE else 1,
        label=f"{curve.name} ({curve.sees})" if curve.diagnostic and curve.sees else curve.name,
    )  # fmt: skip
    if curve.published:
        for k, value in curve.published:
            points: dict[str, Any] = _HOLLOW | {"color": look.color, "marker": look.marker, "zorder": 4}
            axes.plot([k], [100 * value], linestyle="", label="_", gid=PUBLISHED, **points)
    if band:
        axes.fill_between(curve.k, low, high, color=look.color, alpha=0.13, linewidth=0)


_STEP = 1.2  # typographic points between two places that are tried
_ROOM = 0.9  # of a mark's size that two of them keep between their centres, its edge aside
_FAR = 12
"""Places that are tried to either side."""


def _move_marks_apart(axes: Axes, marks: Sequence[Line2D]) -> None:
    """Moves single-point marks sideways to the nearest place where they hide no earlier mark."""
    from matplotlib.transforms import ScaledTranslation

    figure = axes.figure
    pixel = figure.dpi / 72
    placed = np.empty((0, 2))
    shifts = sorted(range(-_FAR, _FAR + 1), key=lambda one: (abs(one), -one))
    for mark in marks:
        at = axes.transData.transform(mark.get_xydata())[0]
        room = pixel * (_ROOM * mark.get_markersize() + mark.get_markeredgewidth())
        free = (n for n in shifts if (np.hypot(*(placed - at - np.array([n * _STEP * pixel, 0.0])).T) >= room).all())
        shift = next(free, 0) * _STEP
        placed = np.vstack([placed, at + np.array([shift * pixel, 0.0])])
        if shift:
            mark.set_transform(axes.transData + ScaledTranslation(shift / 72, 0, figure.dpi_scale_trans))
