"""Heat maps of settings: a metric over margin, cap, minimum and bootstrap pool of a sweep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from replay.sampling.stops import Margin
from toolkit.show import WIDTH, Heat, heat_figure, warned
from toolkit.show.drawing.page import HIGHEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEATS = {"macro_f1": "Macro-F1, %", "operations": "Operations per claim"}


@dataclass(frozen=True)
class SweptSettings:
    """What maps show: margin, cap, min_valid, bootstrap, metric and estimate of settings, and those to be framed."""

    table: pl.DataFrame
    dataset: str
    margin: Margin
    cap: int
    simulated: bool = False
    warnings: Sequence[str] = ()

    def known(self, metric: str) -> bool:
        """Whether any setting has a number."""
        return not self.table.filter(pl.col("metric") == metric, pl.col("estimate").is_not_null()).is_empty()


def setting_maps(swept: SweptSettings, width: float = WIDTH) -> dict[str, Figure]:
    """A figure each for macro-F1 and operations, by the names of their files.

    On a page that is too narrow for all minima, those of the framed setting stand for all.
    """
    made = {}
    for metric, words in HEATS.items():
        if not swept.known(metric):
            continue
        table = swept.table.filter(pl.col("metric") == metric)
        figure = _map(swept, table, words, width)
        if figure.get_figheight() > HIGHEST:
            own = table.filter(pl.col("min_valid") == swept.margin.min_valid)
            figure = _map(swept, own, words, width, left_out=len(own) < len(table))
        made[f"sensitivity_{metric}"] = warned(figure, swept.warnings)
    return made


def _map(swept: SweptSettings, table: pl.DataFrame, words: str, width: float, left_out: bool = False) -> Figure:
    """Margin by cap, a row of panels for each bootstrap pool and a column for each minimum."""
    scale = 100 if words.endswith("%") else 1
    margins, caps, minima, firsts = (
        table[column].unique(maintain_order=True).to_list() for column in ("margin", "cap", "min_valid", "bootstrap")
    )
    value = {
        (r["bootstrap"], r["min_valid"], r["margin"], r["cap"]): r["estimate"] for r in table.iter_rows(named=True)
    }
    own = swept.margin
    panels = []
    for first in firsts:
        for least in minima:
            cells = tuple(
                tuple(None if (v := value.get((first, least, m, c))) is None else scale * v for c in caps)
                for m in margins
            )
            name = "adaptive" if first is None else f"surrogate from {first}"
            shown = tuple(map(str, caps)), tuple(f"{m:g}" for m in margins)
            marked = (str(swept.cap), f"{own.threshold:g}") if least == own.min_valid else None
            panels.append(Heat(f"{name}, min. {least}", *shown, cells, marked))
    notes = ["framed: the study's own margin, cap and minimum"] if any(panel.framed for panel in panels) else []
    notes += ["other minima: see the table `sensitivity`"] if left_out else []
    return heat_figure(
        panels,
        columns=len(minima),
        title=f"{words}, by setting: {swept.dataset}",
        x="cap",
        y="margin",
        decimals=1,
        note="; ".join(notes),
        simulated=swept.simulated,
        width=width,
    )
