"""Rows of a figure, one a policy: its name at the left, on as many lines as it needs, and a place of that height."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.show.drawing.lettering import folded, words
from toolkit.show.drawing.style import SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = 0.125  # inches of a line of small text
_GAP = 0.06  # inches between two rows
SHARE = 0.37  # of the figure's width: the most that names take


@dataclass(frozen=True)
class Rows:
    """`places`: the middles of the rows, in inches from the top of the axes; `height`: of the axes."""

    names: tuple[str, ...]
    places: tuple[float, ...]
    height: float

    @classmethod
    def of(cls, names: Sequence[str], width: float) -> Rows:
        """Rows for the names of policies in a figure `width` inches wide."""
        shown = tuple(folded(words(name), SHARE * width, SMALL, 4) for name in names)
        places, top = [], _GAP / 2
        for name in shown:
            own = LINE * (name.count("\n") + 1) + _GAP
            places.append(top + own / 2)
            top += own
        return cls(shown, tuple(places), top + _GAP / 2)

    def name(self, axes: Axes) -> None:
        """Write the names, the first at the top; y is inches from there."""
        axes.set_yticks(self.places, self.names, parse_math=False, linespacing=1.0)
        axes.set_ylim(self.height, 0.0)
