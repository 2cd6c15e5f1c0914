"""Accuracy against intervention rate: one panel a gate, from never acting to always."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import EmptyError
from toolkit.show.drawing.page import WIDTH
from toolkit.show.drawing.panels import panel_grid
from toolkit.show.drawing.style import GREEN, GREY, NAVY, ORANGE, percent_limits

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUNDRED = 100.0


@dataclass(frozen=True)
class GateCurve:
    """A gate's accuracy at several intervention rates, from the lowest up. Values are fractions, None where there is
    none.

    `whole`: the settings are points of one curve, whose limits hold for all of it; else each has limits of its own.
    `never`, `always`: whether the first setting acts only where the base has no answer, and the last on every example.
    """

    name: str
    rate: tuple[float, ...]
    accuracy: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    whole: bool = False
    never: bool = False
    always: bool = False


@dataclass(frozen=True)
class GateEndMarker:
    """The marker at one end of a gate's curve. `key`: the field of GateCurve that says whether a gate has this end."""

    key: str
    label: str
    place: int
    marker: str
    color: str


AS_IF_NEVER = "as if it never acted"
ENDS = (GateEndMarker("never", "never acts", 0, "s", ORANGE), GateEndMarker("always", "always acts", -1, "D", GREEN))


def gates_figure(
    gates: Sequence[GateCurve],
    *,
    quality: str = "accuracy",
    across: str = "acts on, %",
    note: str = "",
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a panel for each gate on common scales: quality with limits over the share of examples on which the gate
    acts, or over what `across` names.

    A dotted line at `never` shows what acting gains or loses. The scale ends where the gates do. Raises ThinkbackError
    without gates.
    """
    if not gates:
        raise EmptyError("there is no sweep of a gate to draw")
    names = [gate.name for gate in gates]
    with panel_grid(
        names, across, f"{quality}, %", width=width, title=title, simulated=simulated, note=note, handle=1.4
    ) as (figure, drawn):
        first = next((number for number, one in enumerate(gates) if one.never), None)
        for number, (axes, one) in enumerate(zip(drawn, gates, strict=True)):
            _draw_gate(axes, one, AS_IF_NEVER if number == first else "_")
        _set_scales(drawn[0], max(HUNDRED * one.rate[-1] for one in gates))
        _mark_ends(drawn, gates)
    return figure


def _draw_gate(axes: Axes, gate: GateCurve, label: str) -> None:
    rate, accuracy, low, high = (
        HUNDRED * np.array(values, float) for values in (gate.rate, gate.accuracy, gate.low, gate.high)
    )
    if gate.never:
        axes.axhline(accuracy[0], color=GREY, linewidth=0.7, linestyle=(0, (1, 1.5)), zorder=2, label=label)
    axes.plot(rate, accuracy, color=NAVY, linewidth=1.2, zorder=4)
    if gate.whole:
        axes.fill_between(rate, low, high, color=NAVY, alpha=0.15, linewidth=0, zorder=1)
        return
    known = ~np.isnan(low) & ~np.isnan(high)
    axes.vlines(rate[known], low[known], high[known], color=NAVY, linewidth=0.8, alpha=0.7, zorder=3)
    axes.plot(rate, accuracy, color=NAVY, marker="o", markersize=3.2, linewidth=0, zorder=5, clip_on=False)


def _mark_ends(drawn: Sequence[Axes], gates: Sequence[GateCurve]) -> None:
    """Marks where each gate never acts and where it always does; the legend shows the first of each."""
    for end in ENDS:
        label = end.label
        for axes, gate in zip(drawn, gates, strict=True):
            if getattr(gate, end.key):
                look: dict[str, Any] = {"markeredgecolor": "white", "markeredgewidth": 0.6, "linewidth": 0}
                axes.plot(
                    [HUNDRED * gate.rate[end.place]], [HUNDRED * gate.accuracy[end.place]], color=end.color,
                    marker=end.marker, markersize=5.5, zorder=6, clip_on=False, label=label, **look,
                )  # fmt: skip
                label = "_"


def _set_scales(first: Axes, end: float) -> None:
    from matplotlib.ticker import MaxNLocator

    low, high = first.get_ylim()
    end = HUNDRED if end > 0.75 * HUNDRED else max(end, 1.0)
    first.set_xlim(-0.02 * end, 1.02 * end)
    first.set_ylim(*percent_limits(low, high))
    first.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]))
    first.yaxis.set_major_locator(MaxNLocator(5))
