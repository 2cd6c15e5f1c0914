"""Figures 5.1, 5.2 and B.1 of the thesis with their paired differences, and the verifiers' calibration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from replay.analyses.surrogate_keys import gaps
from replay.studies.factcheck.fixed_budgets import PUBLISHED_POOLS, FixedBudgets
from replay.studies.factcheck.published import CAP, published_claims
from replay.studies.factcheck.runs import TITLES, VERIFYING
from replay.studies.factcheck.study import Study
from replay.studies.kit.calibration import LEFT_OUT, reliability_panels
from replay.studies.kit.gaps import reasons, said_of
from replay.studies.kit.report import by_dataset
from replay.studies.kit.setting_maps import HEATS, SweptSettings, setting_maps
from toolkit.show import (
    WIDTH,
    DifferenceCurve,
    MethodPoint,
    PlottedCurve,
    ReliabilityPanel,
    curves_figure,
    differences_figure,
    reliability_figure,
    trade_offs_figure,
    warned,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {"generation": "generation order", "random": "random", "surrogate": "surrogate-guided"}
REFERENCES = {"random, expected": "random, all orders", "score": "top-k by score"}
COLUMNS = {
    "generation": "generation_order_macro_f1_pct",
    "random": "random_macro_f1_pct",
    "surrogate": "surrogate_macro_f1_pct",
}
"""Published columns of table B.4, by order."""
BUDGETS = {
    "figure_5_2": ("Macro-F1 under fixed verifier budgets", LINES),
    "figure_B_1": ("Fixed budgets with the verifier-score reference", LINES | REFERENCES),
}
DIFFERENCES = {
    "figure_5_2_differences": (("surrogate", "generation"), ("surrogate", "random, expected")),
    "figure_B_1_differences": (("score", "surrogate"), ("random, expected", "generation")),
}
"""Pairs of orders, the first less the second."""
PAIRED = "paired differences, with their intervals: "


def figures(studies: Sequence[Study], width: float = WIDTH) -> dict[str, Figure]:
    """The figures by the names of their files, each with the warnings of its runs; several data sets side by side."""
    made: dict[str, Figure] = {}
    main = said_of(studies, lambda study: study.warnings[""])
    fixed = said_of(studies, lambda study: study.warnings["B.4"])
    if any(_served(study) for study in studies):
        made["figure_5_1"] = warned(trade_off(studies, width), main)
    for name, (title, lines) in BUDGETS.items():
        if any(_orders(study, lines) for study in studies):
            made[name] = warned(budget_curves(studies, title, lines, f"{PAIRED}{name}_differences", width), fixed)
        pairs = DIFFERENCES[f"{name}_differences"]
        if panels := list(difference_panels(studies, pairs)):
            made[f"{name}_differences"] = warned(budget_differences(studies, panels, width), fixed)
    if scored := reliability_panels(studies):
        made["calibration"] = warned(calibration(studies, scored, width), main)
    return made | by_dataset(studies, lambda study: setting_maps(_swept(study), width))


def undone(study: Study) -> list[str]:
    """Which figures are not drawn, or lack a method, an order, a pool or a setting, and why."""
    found = []
    if len(_served(study)) < len(VERIFYING):
        found.append(_lacks("figure 5.1", bool(_served(study)), reasons(study.main.missing)))
    if unpublished := _unpublished(study):
        found.append(f"figure 5.1: the thesis has no macro-F1 of {', '.join(unpublished)} on {study.dataset}")
    for name, (_, lines) in BUDGETS.items():
        number, drawn = name.removeprefix("figure_").replace("_", "."), bool(_orders(study, lines))
        own = [str(gap) for gap in study.budget_gaps if gap.order in lines]
        if own or not drawn:
            own = own or [str(gap) for gap in study.budget_gaps]
        if lacking := [*own, *study.validation.missing, *_unseen_pools(study)]:
            found.append(_lacks(f"figure {number}", drawn, lacking))
    if swept := study.missing["sensitivity"]:
        drawn = any(_swept(study).known(metric) for metric in HEATS)
        found.append(_lacks("the heat maps of `sensitivity`", drawn, swept))
    return found


def _swept(study: Study) -> SweptSettings:
    own, told = study.setting, study.warnings["sensitivity"]
    return SweptSettings(study.sensitivity.table, study.dataset, own.margin, own.cap, study.simulated, told)


def _lacks(what: str, drawn: bool, reasons: Sequence[str]) -> str:
    return f"{what}: {'drawn without what is missing' if drawn else 'not drawn'}: {'; '.join(reasons)}"


def _unpublished(study: Study) -> list[str]:
    """Methods without a published point, where there are published numbers of the study's cap."""
    numbers = study.setting.published
    if numbers is None or study.setting.cap != CAP:
        return []
    return [name for name in _served(study) if _theirs(study, name) is None]


def _unseen_pools(study: Study) -> Iterator[str]:
    """Panels of the published figure that the log has no counterpart of."""
    numbers = study.setting.published
    shown = {fixed.published(numbers) for fixed in study.fixed_budgets}
    for (dataset, _, size), pool in PUBLISHED_POOLS.items():
        if numbers is not None and dataset == numbers.dataset and pool not in shown:
            yield f"no panel of {pool}, {size} traces: the log has no such pool"


def _served(study: Study) -> list[str]:
    return [name for name in VERIFYING if study.main.cell(name, "verifications") is not None]


def _orders(study: Study, lines: Mapping[str, str]) -> set[str]:
    """Orders of which a budget is known."""
    known = (pl.col("metric") == "macro_f1") & pl.col("estimate").is_not_null()
    return {o for fixed in study.fixed_budgets for o in fixed.made.by_k.filter(known)["order"] if o in lines}


def trade_off(studies: Sequence[Study], width: float) -> Figure:
    """Verifier calls against macro-F1 (figure 5.1), of the methods that the log can serve: a panel a data set."""
    panels = {}
    for study in studies:
        points = {}
        for name in VERIFYING:
            calls, quality = study.main.cell(name, "verifications"), study.main.cell(name, "macro_f1")
            if calls is not None and quality is not None:
                points[TITLES[name].removesuffix(" (baseline)")] = MethodPoint(calls, quality, _theirs(study, name))
        if points:
            panels[study.dataset] = points
    return trade_offs_figure(
        panels,
        title=f"Verifier calls and Macro-F1 (N = {studies[0].setting.cap})",
        cost="verifier calls per claim",
        quality="Macro-F1",
        level=_level(studies),
        simulated=studies[0].simulated,
        width=width,
    )


def _theirs(study: Study, method: str) -> tuple[float, float] | None:
    """The published point of figure 5.1, per claim; the thesis has none of some methods."""
    numbers, claims = study.setting.published, published_claims(study.setting.published)
    if numbers is None or claims is None or study.setting.cap != CAP:
        return None
    calls = numbers.value("fig5.1", "verifier_calls", method=method)
    quality = numbers.value("fig5.1", "macro_f1_pct", method=method) or numbers.value(
        "5.2", "macro_f1_pct", method=method
    )
    return None if calls is None or quality is None else (calls / claims, quality)


def budget_curves(
    studies: Sequence[Study], title: str, lines: Mapping[str, str], note: str, width: float = WIDTH
) -> Figure:
    """Macro-F1 over the budget, one line an order, a panel a pool (figures 5.2 and B.1)."""
    panels = [(study.dataset, panel) for study in studies for panel in budget_panels([study], lines)]
    return curves_figure(
        [panel for _, panel in panels],
        scales=[dataset for dataset, _ in panels],
        title=title,
        x="verifier calls, k",
        y="Macro-F1, %",
        doubling=False,
        level=_level(studies),
        simulated=studies[0].simulated,
        width=width,
        banded=0,
        note=note,
    )


def budget_panels(studies: Sequence[Study], lines: Mapping[str, str]) -> Iterator[tuple[str, list[PlottedCurve]]]:
    """The lines of each pool whose budgets are known."""
    for study in studies:
        for fixed in study.fixed_budgets:
            curves = []
            for order, name in lines.items():
                rows = fixed.made.by_k.filter((pl.col("order") == order) & (pl.col("metric") == "macro_f1")).sort("k")
                if rows["estimate"].null_count() == len(rows):
                    continue
                k, estimate, low, high = (tuple(rows[column]) for column in ("k", "estimate", "low", "high"))
                diagnostic, theirs = bool(rows["diagnostic"][0]), tuple(_published(study, fixed, order, k))
                curves.append(PlottedCurve(name, k, estimate, low, high, diagnostic, "sees all scores", theirs))
            if curves:
                yield f"{study.dataset}, {fixed.name}", curves


def _published(study: Study, fixed: FixedBudgets, order: str, ks: Sequence[int]) -> Iterator[tuple[int, float]]:
    """The published points of an order, as fractions."""
    for k in ks if order in COLUMNS else ():
        row = study.published("B.4", [study.main], pool=fixed.published(study.setting.published), k=k)
        value = row.get("published", {}).get(COLUMNS[order])
        if value is not None:
            yield k, value / 100


def difference_panels(studies: Sequence[Study], pairs: Sequence[tuple[str, str]]) -> Iterator[DifferenceCurve]:
    """Paired differences in macro-F1, one order less another, in points: for each pair a panel a pool."""
    names = LINES | REFERENCES
    for first, second in pairs:
        for study in studies:
            for fixed in study.fixed_budgets:
                found = gaps(fixed.made, first, second)
                if not found:
                    continue
                ends = ((gap.points.estimate, gap.points.low, gap.points.high) for gap in found.values())
                estimate, low, high = zip(*ends, strict=True)
                theirs = tuple(_published_differences(study, fixed, first, second, list(found)))
                name = f"{study.dataset}, {fixed.name}: {names[first]} − {names[second]}"
                yield DifferenceCurve(name, tuple(found), estimate, low, high, theirs)


def _published_differences(
    study: Study, fixed: FixedBudgets, first: str, second: str, ks: Sequence[int]
) -> Iterator[tuple[int, float]]:
    own = {order: dict(_published(study, fixed, order.removesuffix(", expected"), ks)) for order in (first, second)}
    for k, value in own[first].items():
        if k in own[second]:
            yield k, 100 * (value - own[second][k])


def budget_differences(studies: Sequence[Study], panels: Sequence[DifferenceCurve], width: float) -> Figure:
    """What one order has over another at each budget."""
    return differences_figure(
        panels,
        title="Paired differences under fixed verifier budgets",
        x="verifier calls, k",
        y="Macro-F1, points",
        published="published; of random, one order",
        level=_level(studies),
        simulated=studies[0].simulated,
        width=width,
    )


def calibration(studies: Sequence[Study], panels: Sequence[ReliabilityPanel], width: float) -> Figure:
    """Share of right traces over the verifier's score: a panel a verifier and data set."""
    return reliability_figure(
        panels,
        title="Calibration of the verifiers",
        x="mean score",
        y="right traces",
        note=LEFT_OUT,
        level=_level(studies),
        simulated=studies[0].simulated,
        width=width,
    )


def _level(studies: Sequence[Study]) -> float:
    return float(studies[0].setting.asked.get("level", 0.95))
