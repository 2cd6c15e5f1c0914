"""Figures 5.1, 5.2 and B.1 of the thesis, and the heat maps of the settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import polars as pl

from replay.studies.factcheck.runs import BEST, TITLES, VERIFYING
from replay.studies.factcheck.study import Study, told
from replay.studies.kit.frontiers import frontier_points
from toolkit.show import Heat, PlottedCurve, curves_figure, frontier, heat_figure, warned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {"generation": "generation order", "random": "random", "surrogate": "surrogate-guided"}
REFERENCES = {"random, expected": "random, all orders", "score": "top-k by score"}
BUDGETS = {
    "figure_5_2": ("Macro-F1 under fixed verifier budgets", LINES),
    "figure_B_1": ("Fixed budgets with the verifier-score reference", LINES | REFERENCES),
}
HEATS = {"macro_f1": "Macro-F1, %", "operations": "Operations per claim"}


def figures(study: Study) -> dict[str, Figure]:
    """The figures by the names of their files, each with the warnings of its runs."""
    made = {}
    if _served(study):
        made["figure_5_1"] = warned(trade_off(study), study.warnings[""])
    for name, (title, lines) in BUDGETS.items():
        if _orders(study, lines):
            made[name] = warned(budget_curves(study, title, lines), study.warnings["B.4"])
    for metric, words in HEATS.items():
        if _settings(study, metric):
            made[f"sensitivity_{metric}"] = warned(heat(study, metric, words, 1), study.sensitivity.warnings)
    return made


def undone(study: Study) -> list[str]:
    """Which figures are not drawn, or lack a method, an order or a setting, and why."""
    found = []
    if len(_served(study)) < len(VERIFYING):
        found.append(_lacks("figure 5.1", bool(_served(study)), told(study.main)))
    for name, (_, lines) in BUDGETS.items():
        number, drawn = name.removeprefix("figure_").replace("_", "."), bool(_orders(study, lines))
        own = [gap for gap in study.budget_gaps if gap.order in lines]
        if own or not drawn:
            found.append(_lacks(f"figure {number}", drawn, [str(gap) for gap in own or study.budget_gaps]))
    if study.sensitivity.missing:
        drawn = any(_settings(study, metric) for metric in HEATS)
        found.append(_lacks("the heat maps of `sensitivity`", drawn, study.sensitivity.missing))
    return found


def _lacks(what: str, drawn: bool, reasons: Sequence[str]) -> str:
    return f"{what}: {'drawn without what is missing' if drawn else 'not drawn'}: {'; '.join(reasons)}"


def _served(study: Study) -> list[str]:
    return [name for name in VERIFYING if study.main.cell(name, "verifications") is not None]


def _orders(study: Study, lines: Mapping[str, str]) -> set[str]:
    """Orders of which a budget is known."""
    known = (pl.col("metric") == "macro_f1") & pl.col("estimate").is_not_null()
    return {order for found in study.budgets for order in found.by_k.filter(known)["order"] if order in lines}


def _settings(study: Study, metric: str) -> bool:
    return not study.sensitivity.table.filter(pl.col("metric") == metric, pl.col("estimate").is_not_null()).is_empty()


def trade_off(study: Study) -> Figure:
    """Verifier calls against macro-F1 (figure 5.1), of the methods that the log can serve."""
    cells = {name: (study.main.cell(name, "verifications"), study.main.cell(name, "macro_f1")) for name in VERIFYING}
    points = frontier_points(cells, baseline=BEST)
    return frontier(
        [replace(point, name=TITLES[name].removesuffix(" (baseline)")) for name, point in points.items()],
        title=f"Verifier calls and Macro-F1, {study.name} (N = {study.setting.cap})",
        cost="verifier calls per claim",
        accuracy="Macro-F1",
        level=_level(study),
        simulated=study.simulated,
    )


def budget_curves(study: Study, title: str, lines: Mapping[str, str]) -> Figure:
    """Macro-F1 over the budget, one line an order (figures 5.2 and B.1)."""
    panels = []
    for found in study.budgets:
        curves = []
        for order, name in lines.items():
            rows = found.by_k.filter((pl.col("order") == order) & (pl.col("metric") == "macro_f1")).sort("k")
            if rows["estimate"].null_count() == len(rows):
                continue
            k, estimate, low, high = (tuple(rows[column]) for column in ("k", "estimate", "low", "high"))
            curves.append(PlottedCurve(name, k, estimate, low, high, bool(rows["diagnostic"][0]), "sees all scores"))
        if curves:
            panels.append((f"{study.name}, {found.max_traces} traces", curves))
    return curves_figure(
        panels,
        title=title,
        x="verifier calls, k",
        y="Macro-F1, %",
        doubling=False,
        level=_level(study),
        simulated=study.simulated,
    )


def heat(study: Study, metric: str, words: str, decimals: int) -> Figure:
    """Margin by cap, a row of panels for each bootstrap pool and a column for each minimum."""
    table = study.sensitivity.table.filter(pl.col("metric") == metric)
    scale = 100 if metric == "macro_f1" else 1
    margins, caps, minima, firsts = (
        table[column].unique(maintain_order=True).to_list() for column in ("margin", "cap", "min_valid", "bootstrap")
    )
    value = {
        (r["bootstrap"], r["min_valid"], r["margin"], r["cap"]): r["estimate"] for r in table.iter_rows(named=True)
    }
    panels = []
    for first in firsts:
        for least in minima:
            cells = tuple(
                tuple(None if (v := value.get((first, least, m, c))) is None else scale * v for c in caps)
                for m in margins
            )
            name = "adaptive" if first is None else f"surrogate from {first}"
            shown = tuple(map(str, caps)), tuple(f"{m:g}" for m in margins)
            panels.append(Heat(f"{name}, min. {least}", *shown, cells))
    title = f"{words} by margin, cap, minimum and bootstrap pool, {study.name}"
    return heat_figure(
        panels, columns=len(minima), title=title, x="cap", y="margin", decimals=decimals, simulated=study.simulated
    )


def _level(study: Study) -> float:
    return float(study.setting.asked.get("level", 0.95))
