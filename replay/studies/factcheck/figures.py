"""Figures 5.1, 5.2 and B.1 of the thesis with their paired differences, and the verifiers' calibration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replay.studies.factcheck.budgets.budget_figures import (
    LINES,
    REFERENCES,
    budget_curves,
    budget_differences,
    difference_panels,
    known_orders,
    served,
    trade_off,
)
from replay.studies.factcheck.budgets.setting_maps import HEATS, SweptSettings, setting_maps
from replay.studies.factcheck.calibration import calibration_figure, reliability_panels
from replay.studies.factcheck.methods.methods import VERIFYING
from replay.studies.factcheck.published import CAP, pool_of, published_claims, published_pools
from replay.studies.factcheck.study import Study
from replay.studies.kit.gaps import reasons, said_of
from replay.studies.kit.report import by_dataset
from toolkit.show import WIDTH, warned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    if any(served(study) for study in studies):
        made["figure_5_1"] = warned(trade_off(studies, _theirs, width), main)
    for name, (title, lines) in BUDGETS.items():
        if any(known_orders(study, lines) for study in studies):
            note = f"{PAIRED}{name}_differences"
            made[name] = warned(budget_curves(studies, title, lines, note, Study.points, width), fixed)
        pairs = DIFFERENCES[f"{name}_differences"]
        if panels := list(difference_panels(studies, pairs, Study.points)):
            made[f"{name}_differences"] = warned(budget_differences(studies, panels, width), fixed)
    if scored := reliability_panels(studies):
        made["calibration"] = warned(calibration_figure(studies, scored, width), main)
    return made | by_dataset(studies, lambda study: setting_maps(_swept(study), width))


def undone(study: Study) -> list[str]:
    """Which figures are not drawn, or lack a method, an order, a pool or a setting, and why."""
    found = []
    if len(served(study)) < len(VERIFYING):
        found.append(_lacks("figure 5.1", bool(served(study)), reasons(study.main.missing)))
    if unpublished := _unpublished(study):
        found.append(f"figure 5.1: the thesis has no macro-F1 of {', '.join(unpublished)} on {study.dataset}")
    for name, (_, lines) in BUDGETS.items():
        number, drawn = name.removeprefix("figure_").replace("_", "."), bool(known_orders(study, lines))
        gaps = study.budgets.gaps
        own = [str(gap) for gap in gaps if gap.order in lines] or ([] if drawn else [*map(str, gaps)])
        if lacking := [*own, *study.budgets.validation.missing, *_unseen_pools(study)]:
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
    return [name for name in served(study) if _theirs(study, name) is None]


def _unseen_pools(study: Study) -> Iterator[str]:
    """Panels of the published figure that the log has no counterpart of."""
    numbers = study.setting.published
    if numbers is not None:
        shown = [pool_of(numbers.dataset, one.split, one.made.max_traces) for one in study.budgets.pools]
        for pool in published_pools(numbers.dataset):
            if pool not in shown:
                yield f"no panel of {pool.name}, {pool.size} traces: the log has no such pool"


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
