"""Where policies act on a text against the word that first shows its error: one panel a policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import EmptyError, counted
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import GREY, NAVY, ORANGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
