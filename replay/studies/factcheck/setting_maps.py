"""Heat maps of the settings: macro-F1 and operations over margin, cap, minimum and bootstrap pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from replay.studies.factcheck.study import Study
from toolkit.show import WIDTH, Heat, heat_figure, warned
from toolkit.show.page import HIGHEST

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEATS = {"macro_f1": "Macro-F1, %", "operations": "Operations per claim"}


def drawn_maps(study: Study, metric: str) -> bool:
    """Whether any setting has a number."""
    return not study.sensitivity.table.filter(pl.col("metric") == metric, pl.col("estimate").is_not_null()).is_empty()


def setting_maps(study: Study, width: float = WIDTH) -> dict[str, Figure]:
    """A figure each for macro-F1 and operations, by the names of their files.

    On a page that is too narrow for all minima, those of the study's own stand for all.
    """
    made = {}
    for metric, words in HEATS.items():
        if not drawn_maps(study, metric):
            continue
        table = study.sensitivity.table.filter(pl.col("metric") == metric)
        figure = _map(study, table, words, width)
        if figure.get_figheight() > HIGHEST:
            own = table.filter(pl.col("min_valid") == study.setting.margin.min_valid)
            figure = _map(study, own, words, width, left_out=len(own) < len(table))
        made[f"sensitivity_{metric}"] = warned(figure, study.warnings["sensitivity"])
    return made


def _map(study: Study, table: pl.DataFrame, words: str, width: float, left_out: bool = False) -> Figure:
    """Margin by cap, a row of panels for each bootstrap pool and a column for each minimum."""
    scale = 100 if words.endswith("%") else 1
    margins, caps, minima, firsts = (
        table[column].unique(maintain_order=True).to_list() for column in ("margin", "cap", "min_valid", "bootstrap")
    )
    value = {
        (r["bootstrap"], r["min_valid"], r["margin"], r["cap"]): r["estimate"] for r in table.iter_rows(named=True)
    }
    own = study.setting.margin
    panels = []
    for first in firsts:
        for least in minima:
            cells = tuple(
                tuple(None if (v := value.get((first, least, m, c))) is None else scale * v for c in caps)
                for m in margins
            )
            name = "adaptive" if first is None else f"surrogate from {first}"
            shown = tuple(map(str, caps)), tuple(f"{m:g}" for m in margins)
            marked = (str(study.setting.cap), f"{own.threshold:g}") if least == own.min_valid else None
            panels.append(Heat(f"{name}, min. {least}", *shown, cells, marked))
    framed = "framed: the study's own margin, cap and minimum"
    return heat_figure(
        panels,
        columns=len(minima),
        title=f"{words}, by setting: {study.dataset}",
        x="cap",
        y="margin",
        decimals=1,
        note=f"{framed}; other minima: see the table `sensitivity`" if left_out else framed,
        simulated=study.simulated,
        width=width,
    )
