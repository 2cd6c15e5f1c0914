"""Figures of a study as data: what each shows of a data set (with `dataset` and `simulated`), and how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolkit.show.drawing.page import WIDTH

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class StudyFigure:
    """A figure: what it shows of a data set, nothing where that is not known, how that is drawn, and why it is not."""

    title: str
    shows: Callable[[Any], Collection[Any]]
    draw: Callable[..., Figure]
    missing: str | Callable[[Any], str] = ""

    def of(self, part: Any, width: float = WIDTH) -> Figure | None:
        """The figure of a data set; None where there is nothing to show."""
        shown, title = self.shows(part), f"{self.title}, {part.dataset}"
        return self.draw(shown, title=title, simulated=part.simulated, width=width) if shown else None


Figures = Mapping[str, StudyFigure]
"""Figures by the names of their files."""


def drawable(figures: Figures, part: Any) -> list[str]:
    """The names of the figures that a data set has."""
    return [key for key, figure in figures.items() if figure.shows(part)]


def drawn(figures: Figures, part: Any, width: float = WIDTH) -> dict[str, Figure]:
    """Every figure of a data set, `width` inches wide."""
    made = {key: figure.of(part, width) for key, figure in figures.items()}
    return {key: figure for key, figure in made.items() if figure is not None}


def undrawn(figures: Figures, part: Any, drawn: Collection[str]) -> Iterator[str]:
    """The figures of a data set that are not drawn, each with its reason."""
    for key, figure in figures.items():
        if key not in drawn:
            why = figure.missing(part) if callable(figure.missing) else figure.missing
            yield f"{part.dataset}: no figure `{key}`: {why}"
