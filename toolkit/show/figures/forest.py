"""The forest plot: each policy's difference to one baseline, with limits that hold for all of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.errors import EmptyError
from toolkit.rounding import rounded_text
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, page_figure
from toolkit.show.drawing.panels import SHARE, PolicyRowPlaces
from toolkit.show.drawing.region import in_view_region
from toolkit.show.drawing.style import GREY, INK, NAVY, ORANGE, PURPLE, SMALL, TEXT, calm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class PolicyDifference:
    """A policy's metric minus the baseline's, in the axis's unit, with limits where they are known.

    `stepwise`: told apart by a p-value that is taken step by step, also where the limits hold 0.
    """

    name: str
    difference: float
    low: float | None = None
    high: float | None = None
    diagnostic: bool = False
    stepwise: bool = False

    @property
    def differs_from_baseline(self) -> bool:
        """Whether the limits exclude 0, or the p-value tells the policy apart from the baseline."""
        return self.stepwise or not self.holds_zero

    @property
    def holds_zero(self) -> bool:
        """Whether the limits include 0, or are not known."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high


@dataclass(frozen=True)
class _DifferenceLook:
    """The look of rows of one kind. Kinds differ in shape or in being hollow."""

    label: str
    marker: str
    color: str
    hollow: bool


KINDS = {
    "baseline": _DifferenceLook("baseline", "D", ORANGE, hollow=False),
    "apart": _DifferenceLook("told apart", "o", NAVY, hollow=False),
    "tied": _DifferenceLook("not told apart", "o", GREY, hollow=True),
    "diagnostic": _DifferenceLook("diagnostic: no system could run it", "^", PURPLE, hollow=True),
}


def _difference_kind(row: PolicyDifference, baseline: str) -> str:
    if row.name == baseline:
        return "baseline"
    return "diagnostic" if row.diagnostic else "apart" if row.differs_from_baseline else "tied"


def forest_figure(
    rows: Sequence[PolicyDifference],
    *,
    baseline: str,
    quality: str = "accuracy",
    unit: str = "points",
    note: str = "",
    title: str = "",
    simulated: bool = False,
    width: float = WIDTH,
) -> Figure:
    """Draws a row for each policy, in the order given: its difference to the baseline with limits, `width` inches wide.

    A policy whose limits leave 0 out is filled. The axis shows the region of most policies; one far from it has its
    number at the edge. `note` says below what the limits hold for. Raises ThinkbackError without rows.
    """
    if not rows:
        raise EmptyError("there is no difference to a baseline to draw")
    lines = PolicyRowPlaces.of([row.name for row in rows], width)
    axis = wrapped(f"{quality}, difference to {baseline}{f', {unit}' * bool(unit)}", 0.9 * (1 - SHARE) * width, TEXT, 3)
    body = lines.height + 0.3 + 0.14 * (axis.count("\n") + 1)
    with page_figure(body, width, title=title, simulated=simulated, note=note, handle=1.0) as figure:
        axes = figure.add_subplot()
        lines.write_names(axes)
        left, right = _axis_limits(rows)
        axes.set_xlim(left, right)
        axes.axvline(0, color=INK, linewidth=0.8, zorder=2)
        for kind, look in KINDS.items():
            mine = [
                (row, y) for row, y in zip(rows, lines.places, strict=True) if _difference_kind(row, baseline) == kind
            ]
            _draw_rows(axes, look, mine)
        axes.set_xlabel(axis)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}".replace("-", "−") if value else "0")
        _few_ticks(axes, (1 - SHARE) * width)
        calm(axes)
        axes.grid(visible=False, axis="y")
        axes.spines["left"].set_visible(False)
    return figure


def _axis_limits(rows: Sequence[PolicyDifference]) -> tuple[float, float]:
    """The ends of the axis. They include 0 and, with their limits, all policies that are not far from the others."""
    real = [row for row in rows if not row.diagnostic] or list(rows)
    inside = in_view_region([row.difference for row in real], [row.difference == 0 for row in real])
    near = [row for row, one in zip(real, inside, strict=True) if one]
    ends = [0.0, *(v for row in near for v in (row.low, row.difference, row.high) if v is not None)]
    low, high = min(ends), max(ends)
    room = (high - low) or 1.0
    seeing = [row.difference for row in rows if row.diagnostic and low - room / 4 <= row.difference <= high + room / 4]
    low, high = min([low, *seeing]), max([high, *seeing])
    return low - 0.06 * room, high + 0.06 * room


def _few_ticks(axes: Axes, width: float) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(max(4, int(2.2 * width)), steps=[1, 2, 2.5, 5, 10]))


def _draw_rows(axes: Axes, look: _DifferenceLook, rows: Sequence[tuple[PolicyDifference, float]]) -> None:
    """Draws the limits and markers of one kind of row, and writes the values that lie beyond the axis."""
    left, right = axes.get_xlim()
    inside = [(row, y) for row, y in rows if left <= row.difference <= right]
    for row, y in rows:
        if row.low is not None and row.high is not None:
            axes.plot([row.low, row.high], [y, y], color=look.color, linewidth=1.1, zorder=3, solid_capstyle="butt")
        if not left <= row.difference <= right:
            over = row.difference > right
            number = rounded_text(row.difference, 1, signed=True)
            axes.annotate(
                f"{number} →" if over else f"← {number}", (right if over else left, y), xytext=(-2 if over else 2, 0),
                textcoords="offset points", ha="right" if over else "left", va="center", fontsize=SMALL,
                color=look.color, zorder=6,
                bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "edgecolor": "none"},
            )  # fmt: skip
    if rows:
        values = [row.difference for row, _ in inside], [y for _, y in inside]
        style: dict[str, Any] = {"facecolors": "white" if look.hollow else look.color, "edgecolors": look.color}
        axes.scatter(
            *values, s=16, marker=look.marker, linewidths=0.9, zorder=4, clip_on=False, label=look.label, **style
        )
