"""Small panels side by side, one a policy, a verifier or a gate, as many in a row as the page is wide enough for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.show.drawing.lettering import drawable_text, folded_name, wrapped
from toolkit.show.drawing.page import page_figure
from toolkit.show.drawing.style import SMALL, TEXT, calm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_EACH = 1.6  # inches that a panel needs
_TALL = 0.8  # of its width
MOST = 4
"""Panels in a row."""


@contextmanager
def panel_grid(
    names: Sequence[str],
    x: str,
    y: str,
    *,
    width: float,
    second: Sequence[str] = (),
    alike: bool = True,
    highest: float = math.inf,
    title: str = "",
    simulated: bool = False,
    note: str = "",
    handle: float = 2.6,
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure `width` inches wide with a labelled panel for each name. It is arranged when all is drawn.

    Panels have a `second` line of heading where it is not empty, and common scales where they are `alike`. All rows
    are at most `highest` inches high. The rest is as `page_figure` has it.
    """
    most = max(1, min(MOST, len(names), int(width / _EACH)))
    rows = max(1, -(-len(names) // most))
    columns = max(1, -(-len(names) // rows))  # as few empty places as can be
    rows, each = -(-len(names) // columns), width / columns
    room = each - 0.5
    headings = [
        "\n".join(filter(None, [folded_name(drawable_text(name), room, SMALL, 4), wrapped(line, room, SMALL, 1)]))
        for name, line in zip(names, second or [""] * len(names), strict=True)
    ]
    lines = [
        max(heading.count("\n") + 1 for heading in headings[row * columns : (row + 1) * columns]) for row in range(rows)
    ]
    # the first panel of a single row is as wide as the page
    height = sum(min(_TALL * each, 0.35 * each + 1.0) + 0.125 * count + 0.1 for count in lines) + 0.25
    body = min(height, highest)
    with page_figure(body, width, title=title, simulated=simulated, note=note, handle=handle) as figure:
        grid = list(figure.subplots(rows, columns, squeeze=False, sharey=alike, sharex=alike).flat)
        for number, (axes, heading) in enumerate(zip(grid, headings, strict=False)):
            axes.set_title(heading, loc="left", fontsize=SMALL, linespacing=1.05, pad=3.0, parse_math=False)
            if number + columns >= len(headings):
                axes.set_xlabel(wrapped(x, each - 0.3, TEXT))
                axes.tick_params(labelbottom=True)
            if number % columns == 0:
                axes.set_ylabel(wrapped(y, height / rows - 0.4, TEXT))
            calm(axes)
        for axes in grid[len(headings) :]:
            axes.set_visible(False)
        yield figure, grid[: len(headings)]


def ticks_on_values(values: Sequence[float], weights: Sequence[float], most: int = 5) -> list[float]:
    """Some of the `values`, at most `most`, evenly spaced among them, for ticks; of several choices the heaviest.

    No two are nearer than half of their mean distance. Both lists are (n,), the values distinct and in rising order.
    """
    best, choice = -math.inf, [*values[:1]]
    for step in range(-(-len(values) // most), len(values) + 1):
        for start in range(step):
            ticks = [*values[start::step]]
            gaps = [after - before for before, after in itertools.pairwise(ticks)]
            near = bool(gaps) and 2 * min(gaps) < (values[-1] - values[0]) / most
            weight = sum(weights[start::step])
            if len(ticks) >= min(2, len(values)) and not near and weight > best:
                best, choice = weight, ticks
    return choice


LINE = 0.125  # inches of a line of small text
_GAP = 0.06  # inches between two rows
SHARE = 0.37  # of the figure's width: the most that names take


@dataclass(frozen=True)
class PolicyRowPlaces:
    """The rows of a figure, one a policy. `places`: their middles in inches from the top; `height`: of the axes."""

    names: tuple[str, ...]
    places: tuple[float, ...]
    height: float

    @classmethod
    def of(cls, names: Sequence[str], width: float) -> PolicyRowPlaces:
        """The rows for the policies called `names`, in a figure `width` inches wide."""
        lines = tuple(folded_name(drawable_text(name), SHARE * width, SMALL, 4) for name in names)
        places, top = [], _GAP / 2
        for name in lines:
            height = LINE * (name.count("\n") + 1) + _GAP
            places.append(top + height / 2)
            top += height
        return cls(lines, tuple(places), top + _GAP / 2)

    def write_names(self, axes: Axes) -> None:
        """Writes the names beside the axes, the first at the top. y is in inches from there."""
        axes.set_yticks(self.places, self.names, parse_math=False, linespacing=1.0)
        axes.set_ylim(self.height, 0.0)
