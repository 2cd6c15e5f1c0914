"""Histograms of stopping times: for how many traces each policy paid, example by example."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.errors import EmptyError
from toolkit.rounding import rounded_text
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid, ticks_on_values
from toolkit.show.drawing.style import NAVY, ORANGE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUNDRED = 100.0
BARS = 32
"""The most bars of a panel: with more numbers of traces, a bar stands for several."""


@dataclass(frozen=True)
class StoppingTimes:
    """The shares (fractions) of examples on which a policy paid for each number of traces, and the mean number."""

    name: str
    traces: tuple[int, ...]
    shares: tuple[float, ...]
    mean: float
    diagnostic: bool = False


def stopping_figure(
    policies: Sequence[StoppingTimes], *, note: str = "", title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """Draws a panel for each policy, on common scales: a histogram of the traces paid per example, with a line at the
    mean.

    Ticks stand at numbers that were paid. Of more than `BARS` numbers of traces each bar takes several, which is said
    below. Raises ThinkbackError without policies.
    """
    from matplotlib.ticker import FixedLocator

    if not policies:
        raise EmptyError("there is no policy with a number of traces to draw")
    every = [count for policy in policies for count in policy.traces]
    low, each = min(every), -(-(max(every) - min(every) + 1) // BARS)
    heights = [_shares_by_bar(one, low, each) for one in policies]
    bars = [f"a bar takes {each} numbers of traces together"] * (each > 1)
    with panel_grid(
        [one.name for one in policies], "traces paid", "examples, %", width=width, title=title, simulated=simulated,
        second=[f"mean {rounded_text(one.mean, 2)}{', sees gold' * one.diagnostic}" for one in policies],
        note="; ".join(filter(None, [*bars, note])),
    ) as (figure, drawn):  # fmt: skip
        for number, (axes, one) in enumerate(zip(drawn, policies, strict=True)):
            places = [low + each * place + (each - 1) / 2 for place in heights[number]]
            axes.bar(places, [*heights[number].values()], 0.8 * each, color=NAVY, linewidth=0, zorder=2, label="_")
            label = "_" if number else "mean"
            axes.axvline(one.mean, color=ORANGE, linewidth=1.2, linestyle=(0, (3, 1.5)), zorder=3, label=label)
        _set_scales(figure, low, max(every), max(height for mine in heights for height in mine.values()))
        if each == 1:
            mass = Counter[int]()
            for bars_of_policy in heights:
                mass.update({low + place: height for place, height in bars_of_policy.items()})
            paid = sorted(mass)
            drawn[0].xaxis.set_major_locator(FixedLocator(ticks_on_values(paid, [mass[count] for count in paid])))
    return figure


def _shares_by_bar(policy: StoppingTimes, low: int, width: int) -> dict[int, float]:
    """The per cent of examples in each bar. A bar covers `width` numbers of traces, the first from `low` on."""
    bars: dict[int, float] = {}
    for count, share in zip(policy.traces, policy.shares, strict=True):
        place = (count - low) // width
        bars[place] = bars.get(place, 0.0) + HUNDRED * share
    return bars


def _set_scales(figure: Figure, low: int, high: int, highest: float) -> None:
    from matplotlib.ticker import MaxNLocator

    room = max(0.8, 0.03 * (high - low))
    first = figure.axes[0]
    first.set_xlim(low - room, high + room)
    first.set_ylim(0, min(HUNDRED, 1.06 * highest))
    first.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    first.yaxis.set_major_locator(MaxNLocator(5))
