"""Where policies act on a text against the word that first shows its error, and how far behind it: a panel a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import EmptyError, counted
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import GREY, INK, NAVY, ORANGE, SKY, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BIN = 10
"""Percent of the text in a bar of the histogram."""
MOST_POINTS = 1_000
"""Texts of a panel that are drawn: of more, as many at even steps."""


@dataclass(frozen=True, eq=False)
class Buzzes:
    """The texts with an error on which a policy acted (N,) each, as shares of the text: the `first` word that shows the
    error, the `position` at which it acted, and whether it was `right`. `texts`: with an error, those on which it did
    not act among them.
    """

    name: str
    first: np.ndarray
    position: np.ndarray
    right: np.ndarray
    texts: int


def buzzes_figure(
    policies: Sequence[Buzzes], *, note: str = "", title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """One panel a policy: a point a text, above the diagonal where the policy acted after the error could be seen.

    Raises ThinkbackError without policies.
    """
    if not policies:
        raise EmptyError("there is no text with an error on which a policy acted")
    names = [f"{one.name}: {len(one.first)} of {counted(one.texts, 'text')}" for one in policies]
    thinned = any(len(one.first) > MOST_POINTS for one in policies)
    parts = [note, f"at most {MOST_POINTS:,} texts of a panel are drawn" if thinned else ""]
    with panel_grid(
        names, "error first seen, % of the text", "acts, % of the text", width=width, title=title,
        simulated=simulated, note="; ".join(part for part in parts if part), handle=1.4,
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, one) in enumerate(zip(drawn, policies, strict=True)):
            _draw_buzzes(axes, one, number == 0)
    return figure


def _draw_buzzes(axes: Axes, buzzes: Buzzes, labelled: bool) -> None:
    from matplotlib.ticker import MultipleLocator

    axes.plot([0, 100], [0, 100], color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), zorder=2)
    some = np.zeros(len(buzzes.first), bool)
    some[:: max(1, -(-len(some) // MOST_POINTS))] = True
    for right, color, marker, label in (
        (True, NAVY, "o", "the claim names the error"), (False, ORANGE, "x", "another claim"),
    ):  # fmt: skip
        on = some & (buzzes.right == right)
        axes.plot(
            100 * buzzes.first[on], 100 * buzzes.position[on], color=color, marker=marker, markersize=3.0, linewidth=0,
            alpha=0.55, markeredgewidth=0.0 if right else 0.8, zorder=4, label=label if labelled else "_",
        )  # fmt: skip
    axes.set_xlim(-3, 103)
    axes.set_ylim(-3, 103)
    axes.xaxis.set_major_locator(MultipleLocator(25))
    axes.yaxis.set_major_locator(MultipleLocator(25))


def deviations_figure(
    deviations: Mapping[str, np.ndarray], *, title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """One panel a policy: a histogram of Δ (N,) of the errors that it found, as shares of the text, with its median.

    Raises ThinkbackError without an error that was found.
    """
    if not any(len(values) for values in deviations.values()):
        raise EmptyError("no error was found at a known place")
    percents = {name: 100 * values for name, values in deviations.items() if len(values)}
    low, high = (BIN * np.floor(end(np.concatenate(list(percents.values()))) / BIN) for end in (np.min, np.max))
    edges = np.arange(low, high + 1.5 * BIN, BIN)
    shares = [100 * np.histogram(values, edges)[0] / len(values) for values in percents.values()]
    names = [f"{name}: {len(values)} found" for name, values in percents.items()]
    note = f"a bar takes {BIN} % of the text with its left end"
    with panel_grid(
        names, "Δ, % of the text", "errors found, %", width=width, title=title, simulated=simulated, note=note,
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, values) in enumerate(zip(drawn, percents.values(), strict=True)):
            label = "_" * bool(number)
            axes.stairs(shares[number], edges, fill=True, facecolor=SKY, alpha=0.45, zorder=2)
            axes.stairs(shares[number], edges, color=NAVY, linewidth=1.0, zorder=3)
            axes.axvline(0, color=GREY, linewidth=0.8, linestyle=(0, (1, 1.5)), label=f"{label}the error can be seen")
            axes.axvline(float(np.median(values)), color=ORANGE, linewidth=1.0, label=f"{label}median")
            axes.set_ylim(0, 1.05 * max(share.max() for share in shares))
    return figure


@dataclass(frozen=True)
class DetectionRates:
    """A setting or a method with the false alarms that it raises and the errors that it finds, each in percent as
    (estimate, low, high).
    """

    name: str
    alarms: tuple[float, float | None, float | None]
    finds: tuple[float, float | None, float | None]


@dataclass(frozen=True)
class DetectionPanel:
    """The values of one setting in order, and the methods `beside` it."""

    name: str
    values: Sequence[DetectionRates]
    beside: Sequence[DetectionRates] = ()


def trades_figure(
    panels: Sequence[DetectionPanel], *, title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """One panel a setting, with a point a value: errors found over false alarms, with the intervals of both. Methods
    beside it are hollow.

    Raises ThinkbackError without a setting.
    """
    if not panels:
        raise EmptyError("there is no setting to draw")
    note = "numbers: values of the setting at both ends; bands and bars: intervals of errors found and of false alarms"
    with panel_grid(
        [one.name for one in panels], "false alarms, % of texts without an error", "errors found, % of texts with one",
        width=width, title=title, simulated=simulated, note=note, handle=1.4,
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, one) in enumerate(zip(drawn, panels, strict=True)):
            _draw_trades(axes, one.values)
            axes.margins(y=0.08)  # room for the names below the points
            for other, marker in zip(one.beside, cycle("sD^vPX"), strict=False):
                axes.plot(
                    other.alarms[0], other.finds[0], marker=marker, color=ORANGE, markerfacecolor="white",
                    markersize=4.5, linewidth=0, label=f"{'_' * bool(number)}{other.name}", zorder=4,
                )  # fmt: skip
                _draw_interval_bars(axes, other, ORANGE)
    return figure


def _draw_trades(axes: Axes, trades: Sequence[DetectionRates]) -> None:
    """Draws the values of one setting as a line, with a band of the errors found and bars of the false alarms."""
    ordered = sorted(trades, key=lambda one: (one.alarms[0], one.finds[0]))
    limits = np.array([(one.alarms[0], *one.finds[1:]) for one in ordered], float)
    axes.fill_between(*limits.T, color=SKY, alpha=0.3, linewidth=0, zorder=2)
    axes.plot(
        [one.alarms[0] for one in trades], [one.finds[0] for one in trades], color=NAVY, marker="o", markersize=3.0,
        linewidth=1.0, zorder=5,
    )  # fmt: skip
    for one in trades:
        _draw_interval_bars(axes, one, NAVY)
    for at in dict.fromkeys((one.alarms[0], one.finds[0]) for one in (ordered[0], ordered[-1])):
        names = [one.name for one in trades if (one.alarms[0], one.finds[0]) == at]
        text = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        axes.annotate(text, at, (4, -9), textcoords="offset points", fontsize=SMALL, color=INK, zorder=6)


def _draw_interval_bars(axes: Axes, trade: DetectionRates, color: str) -> None:
    (x, left, right), (y, low, high) = trade.alarms, trade.finds
    if left is not None and right is not None:
        axes.plot([left, right], [y, y], color=color, linewidth=0.7, alpha=0.5, zorder=3)
    if low is not None and high is not None:
        axes.plot([x, x], [low, high], color=color, linewidth=0.7, alpha=0.5, zorder=3)
