"""Histograms of stopping times: for how many traces each policy paid, example by example."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import ThinkbackError
from toolkit.show.page import WIDTH, arrange, noted
from toolkit.show.panels import Panels
from toolkit.show.style import NAVY, ORANGE, drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUNDRED = 100.0


@dataclass(frozen=True)
class StoppingTimes:
    """Of one policy the share of examples (a fraction) on which it paid for so many traces, and their mean."""

    name: str
    traces: tuple[int, ...]
    shares: tuple[float, ...]
    mean: float
    diagnostic: bool = False


def stopping_figure(
    policies: Sequence[StoppingTimes], *, note: str = "", title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """One panel a policy, on common scales: bars over the number of traces paid, and a line at their mean.

    Raises ThinkbackError without policies.
    """
    if not policies:
        raise ThinkbackError("there is no policy with a number of traces to draw")
    panels = Panels.of(
        [one.name for one in policies],
        [f"mean {one.mean:.2f}{', sees gold' * one.diagnostic}" for one in policies],
        width,
    )
    body = panels.height
    with drawing(width, body) as figure:
        for number, (axes, one) in enumerate(zip(panels.axes(figure, "traces paid", "examples, %"), policies)):  # noqa: B905
            heights = [HUNDRED * share for share in one.shares]
            axes.bar(one.traces, heights, width=0.8, color=NAVY, linewidth=0, zorder=2, label="_")
            label = "_" if number else "mean"
            axes.axvline(one.mean, color=ORANGE, linewidth=1.2, linestyle=(0, (3, 1.5)), zorder=3, label=label)
        _scale(figure, policies)
        arrange(figure, body, title, simulated)
        noted(figure, note)
    return figure


def _scale(figure: Figure, policies: Sequence[StoppingTimes]) -> None:
    from matplotlib.ticker import MaxNLocator

    every = [count for one in policies for count in one.traces]
    highest = max(HUNDRED * share for one in policies for share in one.shares)
    first = figure.axes[0]
    first.set_xlim(min(every) - 0.8, max(every) + 0.8)
    first.set_ylim(0, min(HUNDRED, 1.06 * highest))
    first.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    first.yaxis.set_major_locator(MaxNLocator(5))
