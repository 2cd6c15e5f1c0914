"""Figures of verifying methods: macro-F1 against calls, of every order over a fixed budget, and paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.analyses.budgets.surrogate_keys import gaps
from replay.studies.factcheck.budgets.fixed_budgets import FixedBudgets
from replay.studies.factcheck.budgets.verifying_study import VerifyingStudy
from replay.studies.factcheck.methods.methods import TITLES, VERIFYING
from replay.studies.kit.report import around
from toolkit.show import (
    WIDTH,
    DifferenceCurve,
    MethodPoint,
    PlottedCurve,
    curves_figure,
    differences_figure,
    trade_offs_figure,
)  # fmt: skip

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LINES = {"generation": "generation order", "random": "random, one order", "surrogate": "surrogate-guided"}
REFERENCES = {"random, expected": "random, all orders", "score": "top-k by score"}
Points = Callable[[Any, FixedBudgets, str, Sequence[int]], Mapping[int, float]]
"""The published points of an order, as fractions, from its study, pool and budgets."""


def no_points(study: VerifyingStudy, fixed: FixedBudgets, order: str, ks: Sequence[int]) -> Mapping[int, float]:
    """Of orders on which nothing is published."""
    return {}


def served(study: VerifyingStudy) -> list[str]:
    """The methods that the log can serve."""
    return [name for name in VERIFYING if study.main.cell(name, "verifications") is not None]


def trade_off(
    studies: Sequence[VerifyingStudy], theirs: Callable[[Any, str], tuple[float, float] | None], width: float
) -> Figure:
    """Verifier calls against macro-F1, of these methods, beside the published points `theirs`: a panel a data set."""
    panels = {}
    for study in studies:
        points = {}
        for name in served(study):
            calls, quality = study.main.cell(name, "verifications"), study.main.cell(name, "macro_f1")
            if calls is not None and quality is not None:
                points[TITLES[name].removesuffix(" (baseline)")] = MethodPoint(calls, quality, theirs(study, name))
        if points:
            panels[study.dataset] = points
    return trade_offs_figure(
        panels,
        title=f"Verifier calls and Macro-F1 (N = {studies[0].setting.cap})",
        cost="verifier calls per claim",
        quality="Macro-F1",
        **around(studies, width),
    )


def known_orders(study: VerifyingStudy, lines: Mapping[str, str]) -> set[str]:
    """Orders of which a budget is known."""
    known = (pl.col("metric") == "macro_f1") & pl.col("estimate").is_not_null()
    return {o for fixed in study.budgets.pools for o in fixed.made.by_k.filter(known)["order"] if o in lines}


def budget_curves(
    studies: Sequence[VerifyingStudy], title: str, lines: Mapping[str, str], note: str, points: Points = no_points,
    width: float = WIDTH,
) -> Figure:  # fmt: skip
    """Macro-F1 over the budget, one line an order, a panel a pool."""
    panels = [(study.dataset, panel) for study in studies for panel in budget_panels(study, lines, points)]
    return curves_figure(
        [panel for _, panel in panels],
        scales=[dataset for dataset, _ in panels],
        title=title,
        x="verifier calls, k",
        y="Macro-F1, %",
        doubling=False,
        **around(studies, width),
        banded=0,
        note=note,
    )


def budget_panels(
    study: VerifyingStudy, lines: Mapping[str, str], points: Points = no_points
) -> Iterator[tuple[str, list[PlottedCurve]]]:
    """The lines of each pool whose budgets are known."""
    for fixed in study.budgets.pools:
        curves = []
        for order, name in lines.items():
            rows = fixed.made.by_k.filter((pl.col("order") == order) & (pl.col("metric") == "macro_f1")).sort("k")
            if rows["estimate"].null_count() == len(rows):
                continue
            k, estimate, low, high = (tuple(rows[column]) for column in ("k", "estimate", "low", "high"))
            diagnostic, theirs = bool(rows["diagnostic"][0]), tuple(points(study, fixed, order, k).items())
            curves.append(PlottedCurve(name, k, estimate, low, high, diagnostic, "sees all scores", theirs))
        if curves:
            yield f"{study.dataset}, {fixed.name}", curves


def difference_panels(
    studies: Sequence[VerifyingStudy], pairs: Sequence[tuple[str, str]], points: Points = no_points
) -> Iterator[DifferenceCurve]:
    """Paired differences in macro-F1, one order less another, in points: for each pair a panel a pool."""
    names = LINES | REFERENCES
    for first, second in pairs:
        for study in studies:
            for fixed in study.budgets.pools:
                found = gaps(fixed.made, first, second)
                if not found:
                    continue
                ends = ((gap.points.estimate, gap.points.low, gap.points.high) for gap in found.values())
                estimate, low, high = zip(*ends, strict=True)
                one, two = (
                    points(study, fixed, order.removesuffix(", expected"), tuple(found)) for order in (first, second)
                )
                theirs = tuple((k, 100 * (one[k] - two[k])) for k in one if k in two)
                name = f"{study.dataset}, {fixed.name}: {names[first]} − {names[second]}"
                yield DifferenceCurve(name, tuple(found), estimate, low, high, theirs)


def budget_differences(studies: Sequence[VerifyingStudy], panels: Sequence[DifferenceCurve], width: float) -> Figure:
    """What one order has over another at each budget."""
    return differences_figure(
        panels,
        title="Paired differences under fixed verifier budgets",
        x="verifier calls, k",
        y="Macro-F1, points",
        published="published (random: one order)",
        **around(studies, width),
    )
