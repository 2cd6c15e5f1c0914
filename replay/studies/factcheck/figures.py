"""Figures 5.1, 5.2 and B.1 of the thesis with their paired differences, calibration, and heat maps of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.analyses.budgets.surrogate_keys import macro_f1_gaps
from replay.studies.factcheck.published import CAP, pool_of, published_claims, published_pools
from replay.studies.factcheck.runs import TITLES, VERIFYING
from replay.studies.factcheck.study import Study
from replay.studies.kit.cells import group_by_reason
from replay.studies.kit.report import NO_FIGURE, figures_by_dataset
from replay.studies.kit.sheet import merge_notes
from toolkit import show
from toolkit.show.drawing.page import HIGHEST
from toolkit.stats.curves.calibration import LEAST, LEAST_CLUSTERS
from toolkit.stopping.stops import Margin

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {"generation": "generation order", "random": "random, one order", "surrogate": "surrogate-guided"}
REFERENCES = {"random, expected": "random, all orders", "score": "top-k by score"}
BUDGETS = {
    "figure_5_2": ("Macro-F1 under fixed verifier budgets", LINES),
    "figure_B_1": ("Fixed budgets with the verifier-score reference", LINES | REFERENCES),
}
DIFFERENCES = {
    "figure_5_2_differences": (("surrogate", "generation"), ("surrogate", "random, expected")),
    "figure_B_1_differences": (("score", "surrogate"), ("random, expected", "generation")),
}
"""Pairs of orders, the first less the second."""
CALLS = "verifier calls, k"


def figures(studies: Sequence[Study], width: float = show.WIDTH) -> dict[str, Figure]:
    """Draws the figures by the names of their files, each with the warnings of its runs; data sets
    stand side by side.
    """
    plots: dict[str, Figure] = {}
    setting = studies[0].setting
    look: dict[str, Any] = {"level": setting.settings.level, "simulated": studies[0].simulated, "width": width}
    main = merge_notes(studies, lambda study: study.warnings[""])
    fixed = merge_notes(studies, lambda study: study.warnings["B.4"])
    if trade_offs := {study.dataset: points for study in studies if (points := _trade_off_points(study))}:
        plots["figure_5_1"] = show.add_warnings(show.trade_offs_figure(
            trade_offs, title=f"Verifier calls and Macro-F1 (N = {setting.cap})", cost="verifier calls per claim",
            quality="Macro-F1", **look,
        ), main)  # fmt: skip
    for name, (title, lines) in BUDGETS.items():
        panels = [(study.dataset, panel) for study in studies for panel in _budget_panels(study, lines)]
        if panels:
            plots[name] = show.add_warnings(show.curves_figure(
                [panel for _, panel in panels], scales=[dataset for dataset, _ in panels], title=title, x=CALLS,
                y="Macro-F1, %", doubling=False, **look, banded=0,
                note=f"paired differences, with their intervals: {name}_differences",
            ), fixed)  # fmt: skip
        if less := list(_difference_curves(studies, DIFFERENCES[f"{name}_differences"])):
            plots[f"{name}_differences"] = show.add_warnings(show.differences_figure(
                less, title="Paired differences under fixed verifier budgets", x=CALLS, y="Macro-F1, points",
                published="published (random: one order)", **look,
            ), fixed)  # fmt: skip
    if scored := [panel for study in studies for panel in _reliability_panels(study)]:
        plots["calibration"] = show.add_warnings(show.reliability_figure(
            scored, title="Calibration of the verifiers", x="mean score", y="right traces",
            note=f"without bins of fewer than {LEAST} traces or {LEAST_CLUSTERS} claims", **look,
        ), main)  # fmt: skip
    return plots | figures_by_dataset(studies, lambda study: _setting_heat_maps(_swept_settings(study), width))


def _replayed_methods(study: Study) -> list[str]:
    """Names the methods that the log can serve."""
    return [name for name in VERIFYING if study.main.cell(name, "verifications") is not None]


def _trade_off_points(study: Study) -> dict[str, show.MethodPoint]:
    """Returns macro-F1 over verifier calls for each method, with the published points."""
    points = {}
    for name in _replayed_methods(study):
        calls, quality = study.main.cell(name, "verifications"), study.main.cell(name, "macro_f1")
        if calls is not None and quality is not None:
            points[TITLES[name].removesuffix(" (baseline)")] = show.MethodPoint(
                calls, quality, _published_point(study, name)
            )
    return points


def _budget_panels(study: Study, lines: Mapping[str, str]) -> Iterator[tuple[str, list[show.PlottedCurve]]]:
    for fixed in study.budgets.pools:
        curves = []
        for order, name in lines.items():
            rows = fixed.budgets.by_k.filter((pl.col("order") == order) & (pl.col("metric") == "macro_f1")).sort("k")
            if rows["estimate"].null_count() == len(rows):
                continue
            k, estimate, low, high = (tuple(rows[column]) for column in ("k", "estimate", "low", "high"))
            diagnostic, published_points = (
                bool(rows["diagnostic"][0]),
                tuple(study.published_curve(fixed, order, k).items()),
            )
            curves.append(
                show.PlottedCurve(name, k, estimate, low, high, diagnostic, "sees all scores", published_points)
            )
        if curves:
            yield f"{study.dataset}, {fixed.name}", curves


def _difference_curves(studies: Sequence[Study], pairs: Sequence[tuple[str, str]]) -> Iterator[show.DifferenceCurve]:
    """Returns the paired differences in macro-F1 between two orders, in points: one panel for each pair and pool."""
    names = LINES | REFERENCES
    for first, second in pairs:
        for study in studies:
            for fixed in study.budgets.pools:
                by_budget = macro_f1_gaps(fixed.budgets, first, second)
                if not by_budget:
                    continue
                ends = ((gap.points.estimate, gap.points.low, gap.points.high) for gap in by_budget.values())
                estimate, low, high = zip(*ends, strict=True)
                one, two = (
                    study.published_curve(fixed, order.removesuffix(", expected"), tuple(by_budget))
                    for order in (first, second)
                )
                published_points = tuple((k, 100 * (one[k] - two[k])) for k in one if k in two)
                name = f"{study.dataset}, {fixed.name}: {names[first]} − {names[second]}"
                yield show.DifferenceCurve(name, tuple(by_budget), estimate, low, high, published_points)


def _reliability_panels(study: Study) -> Iterator[show.ReliabilityPanel]:
    """Returns the share of right traces over the verifier's score, one panel per verifier whose scores are
    probabilities.
    """
    for one in study.calibration:
        if one.calibration is not None and one.calibration.ece is not None and one.calibration.bins:
            name, ece = f"{one.verifier}, {study.dataset}", f"ECE {one.calibration.ece.estimate:.3f}"
            yield show.ReliabilityPanel(name, one.calibration.reliability_points, ece)


HEATS = {"macro_f1": "Macro-F1, %", "operations": "Operations per claim"}


@dataclass(frozen=True)
class _SweptSettings:
    """The data of the heat maps: margin, cap, min_valid, bootstrap, metric and estimate of each setting, and the
    settings to frame.
    """

    table: pl.DataFrame
    dataset: str
    margin: Margin
    cap: int
    simulated: bool = False
    warnings: Sequence[str] = ()

    def has_metric(self, metric: str) -> bool:
        """Whether any setting has a value of the metric."""
        return not self.table.filter(pl.col("metric") == metric, pl.col("estimate").is_not_null()).is_empty()


def _setting_heat_maps(swept: _SweptSettings, width: float = show.WIDTH) -> dict[str, Figure]:
    """Draws a heat map of macro-F1 and one of operations, by the names of their files.

    On a page that is too narrow for all minima, those of the framed setting stand for all.
    """
    maps = {}
    for metric, words in HEATS.items():
        if not swept.has_metric(metric):
            continue
        table = swept.table.filter(pl.col("metric") == metric)
        figure = _heat_map(swept, table, words, width)
        if figure.get_figheight() > HIGHEST:
            subset = table.filter(pl.col("min_valid") == swept.margin.min_valid)
            figure = _heat_map(swept, subset, words, width, left_out=len(subset) < len(table))
        maps[f"sensitivity_{metric}"] = show.add_warnings(figure, swept.warnings)
    return maps


def _heat_map(swept: _SweptSettings, table: pl.DataFrame, words: str, width: float, left_out: bool = False) -> Figure:
    """Draws one metric by margin and cap, with a row of panels per bootstrap pool and a column per minimum of valid
    traces.
    """
    scale = 100 if words.endswith("%") else 1
    margins, caps, minima, firsts = (
        table[column].unique(maintain_order=True).to_list() for column in ("margin", "cap", "min_valid", "bootstrap")
    )
    value = {
        tuple(key): v for *key, v in table.select("bootstrap", "min_valid", "margin", "cap", "estimate").iter_rows()
    }
    margin = swept.margin
    panels = []
    for first in firsts:
        for least in minima:
            values = [[value.get((first, least, m, c)) for c in caps] for m in margins]
            cells = tuple(tuple(None if v is None else scale * v for v in row) for row in values)
            name = "adaptive" if first is None else f"surrogate from {first}"
            ticks = tuple(map(str, caps)), tuple(f"{m:g}" for m in margins)
            marked = (str(swept.cap), f"{margin.threshold:g}") if least == margin.min_valid else None
            panels.append(show.Heat(f"{name}, min. {least}", *ticks, cells, marked))
    notes = ["framed: the study's own margin, cap and minimum"] if any(panel.marked_cell for panel in panels) else []
    notes += ["other minima: see the table `sensitivity`"] if left_out else []
    return show.heat_figure(
        panels, columns=len(minima), title=f"{words}, by setting: {swept.dataset}", x="cap", y="margin", decimals=1,
        note="; ".join(notes), simulated=swept.simulated, width=width,
    )  # fmt: skip


def missing_figure_notes(study: Study) -> list[str]:
    """Lists the figures that are not drawn or lack a method, an order, a pool or a setting, each with its reason."""
    sentences = []
    if len(_replayed_methods(study)) < len(VERIFYING):
        sentences.append(
            _no_figure_note("figure 5.1", bool(_replayed_methods(study)), group_by_reason(study.main.missing))
        )
    if unpublished := _methods_without_published_point(study):
        text = f"figure 5.1: the thesis has no macro-F1 of {', '.join(unpublished)} on {study.dataset}"
        sentences.append(show.remark("unpublished", text))
    for name, (_, lines) in BUDGETS.items():
        number, drawn = name.removeprefix("figure_").replace("_", "."), any(_budget_panels(study, lines))
        gaps = study.budgets.gaps
        causes = [str(gap) for gap in gaps if gap.order in lines] or ([] if drawn else [*map(str, gaps)])
        if lacking := [*causes, *study.budgets.validation.missing, *_missing_pool_notes(study)]:
            sentences.append(_no_figure_note(f"figure {number}", drawn, lacking))
    if swept := study.missing["sensitivity"]:
        drawn = any(_swept_settings(study).has_metric(metric) for metric in HEATS)
        sentences.append(_no_figure_note("the heat maps of `sensitivity`", drawn, swept))
    return sentences


def _swept_settings(study: Study) -> _SweptSettings:
    setting, warnings = study.setting, study.warnings["sensitivity"]
    return _SweptSettings(
        study.sensitivity.table, study.dataset, setting.margin, setting.cap, study.simulated, warnings
    )


def _no_figure_note(what: str, drawn: bool, reasons: Sequence[str]) -> str:
    how = "drawn without what is missing" if drawn else "not drawn"
    return show.remark(NO_FIGURE, f"{what}: {how}: {'; '.join(reasons)}")


def _methods_without_published_point(study: Study) -> list[str]:
    """Names methods without a published point, where numbers at the study's cap are published."""
    numbers = study.setting.published
    if numbers is None or study.setting.cap != CAP:
        return []
    return [name for name in _replayed_methods(study) if _published_point(study, name) is None]


def _missing_pool_notes(study: Study) -> Iterator[str]:
    """Names the panels of the published figure for which the log has no pool."""
    numbers = study.setting.published
    if numbers is not None:
        drawn_pools = [pool_of(numbers.dataset, one.split, one.budgets.max_traces) for one in study.budgets.pools]
        for pool in published_pools(numbers.dataset):
            if pool not in drawn_pools:
                yield f"no panel of {pool.name}, {pool.size} traces: the log has no such pool"


def _published_point(study: Study, method: str) -> tuple[float, float] | None:
    """The published point of a method in figure 5.1, per claim; None for methods that the thesis does not plot."""
    numbers, claims = study.setting.published, published_claims(study.setting.published)
    if numbers is None or claims is None or study.setting.cap != CAP:
        return None
    calls = numbers.number_in_row("fig5.1", "verifier_calls", method=method)
    quality = numbers.number_in_row("fig5.1", "macro_f1_pct", method=method) or numbers.number_in_row(
        "5.2", "macro_f1_pct", method=method
    )
    return None if calls is None or quality is None else (calls / claims, quality)
