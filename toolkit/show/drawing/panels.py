"""Small panels side by side, one a policy, a verifier or a gate, as many in a row as the page is wide enough for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.show.drawing.lettering import folded, words, wrapped
from toolkit.show.drawing.style import SMALL, TEXT, calm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_EACH = 1.6  # inches that a panel needs
_TALL = 0.8  # of its width
MOST = 4
"""Panels in a row."""


@dataclass(frozen=True)
class Panels:
    """A grid of panels with their headings, on a page `width` inches wide."""

    headings: tuple[str, ...]
    columns: int
    width: float

    @classmethod
    def of(cls, names: Sequence[str], second: Sequence[str], width: float) -> Panels:
        """For panels of these names, with a second line each where it is not empty."""
        most = max(1, min(MOST, len(names), int(width / _EACH)))
        rows = max(1, -(-len(names) // most))
        columns = max(1, -(-len(names) // rows))  # as few empty places as can be
        space = width / columns - 0.5
        headings = [
            "\n".join(filter(None, [folded(words(name), space, SMALL, 4), wrapped(line, space, SMALL, 1)]))
            for name, line in zip(names, second, strict=True)
        ]
        return cls(tuple(headings), columns, width)

    @property
    def rows(self) -> int:
        """Rows of panels."""
        return -(-len(self.headings) // self.columns)

    @property
    def height(self) -> float:
        """Inches of all rows with their headings; the first panel of a single one is as wide as the page."""
        each = self.width / self.columns
        lines = [
            max(heading.count("\n") + 1 for heading in self.headings[row * self.columns : (row + 1) * self.columns])
            for row in range(self.rows)
        ]
        return sum(min(_TALL * each, 0.35 * each + 1.0) + 0.125 * count + 0.1 for count in lines) + 0.25

    def axes(self, figure: Figure, x: str, y: str, *, alike: bool = True) -> list[Axes]:
        """The axes with headings and labels; scales are common where panels are `alike`."""
        grid = figure.subplots(self.rows, self.columns, squeeze=False, sharey=alike, sharex=alike)
        found = list(grid.flat)
        for number, (axes, heading) in enumerate(zip(found, self.headings, strict=False)):
            axes.set_title(heading, loc="left", fontsize=SMALL, linespacing=1.05, pad=3.0, parse_math=False)
            if number + self.columns >= len(self.headings):
                axes.set_xlabel(wrapped(x, self.width / self.columns - 0.3, TEXT))
                axes.tick_params(labelbottom=True)
            if number % self.columns == 0:
                axes.set_ylabel(wrapped(y, self.height / self.rows - 0.4, TEXT))
            calm(axes)
        for axes in found[len(self.headings) :]:
            axes.set_visible(False)
        return found[: len(self.headings)]
