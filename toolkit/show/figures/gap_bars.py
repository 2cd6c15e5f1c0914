"""Bars of each policy's gap to being always right, split into the parts of selection, stopping and generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import EmptyError
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, page_figure
from toolkit.show.drawing.panels import SHARE, PolicyRowPlaces
from toolkit.show.drawing.style import INK, NAVY, SMALL, TEXT, calm
from toolkit.show.tables.table_content import IntervalCell, Number, NumberWithInterval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HUNDRED = 100.0
_RIGHT, _SHARE = Number(1, HUNDRED), NumberWithInterval(0, HUNDRED)


@dataclass(frozen=True)
class PolicyGap:
    """A policy's share right, the parts of its gap to 1, its share of the headroom with limits; all fractions."""

    name: str
    accuracy: float
    selection: float
    stopping: float
    generation: float
    share: float | None = None
    low: float | None = None
    high: float | None = None
    diagnostic: bool = False


@dataclass(frozen=True)
class _GapPartLook:
    """The colour and hatch of one part of the gap. Parts differ by at least 20 in lightness."""

    label: str
    color: str
    hatch: str = ""


PARTS = {
    "selection": _GapPartLook("selection: paid for a right trace, answered another", NAVY),
    "stopping": _GapPartLook("stopping: a right trace, not paid for", "#7FA8C9", "////"),
    "generation": _GapPartLook("generation: no right trace", "#EDEFF2"),
}


def gap_figure(
    rows: Sequence[PolicyGap], *, note: str = "", title: str = "", simulated: bool = False, width: float = WIDTH
) -> Figure:
    """Draws a bar for each policy, in the order given, `width` inches wide: the parts of its gap to 100 %, in points.

    At the right stand what is right and, where it is known, the share of the headroom. Diagnostics, which see gold, are
    marked by a triangle. Raises ThinkbackError without rows.
    """
    if not rows:
        raise EmptyError("there is no policy whose gap can be drawn")
    lines = PolicyRowPlaces.of([f"{row.name} △" if row.diagnostic else row.name for row in rows], width)
    shares = any(row.share is not None for row in rows)
    body = lines.height + 0.62 + 0.12 * shares
    marked = ["△ diagnostic: no system could run it"] * any(row.diagnostic for row in rows)
    note = "; ".join(filter(None, [*marked, note]))
    with page_figure(body, width, title=title, simulated=simulated, note=note, handle=1.6) as figure:
        axes = figure.add_subplot()
        lines.write_names(axes)
        start = [0.0] * len(rows)
        for name, part in PARTS.items():
            sizes = [HUNDRED * getattr(row, name) for row in rows]
            axes.barh(
                lines.places, sizes, left=start, height=0.11, color=part.color, hatch=part.hatch, edgecolor=INK,
                linewidth=0.5, label=part.label, zorder=3,
            )  # fmt: skip
            start = [begin + size for begin, size in zip(start, sizes, strict=True)]
        axes.set_xlim(0, min(HUNDRED, 1.03 * max(max(start), 1.0)))
        axes.set_xlabel(wrapped("gap to 100 %, points", (1 - SHARE) * width, TEXT))
        right = axes.twinx()
        right.set_yticks(lines.places, [_bar_label(row) for row in rows], parse_math=False)
        right.set_ylim(axes.get_ylim())
        heading = "right, %\n(of headroom, %)" if shares else "right, %"
        place: dict[str, Any] = {"xycoords": "axes fraction", "xytext": (4, 2), "textcoords": "offset points"}
        right.annotate(heading, (1, 1), fontsize=SMALL, linespacing=1.05, va="bottom", parse_math=False, **place)
        for one in (axes, right):
            calm(one)
            one.grid(visible=False, axis="y")
            one.spines[["left", "right"]].set_visible(False)
    return figure


def _bar_label(row: PolicyGap) -> str:
    """The numbers that stand beside a policy's bar."""
    right = _RIGHT.show(row.accuracy)
    if row.share is None:
        return right
    return f"{right} ({_SHARE.show(IntervalCell(row.share, row.low, row.high))})"
