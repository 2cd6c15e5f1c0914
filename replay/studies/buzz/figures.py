"""The study's figures: three texts on a line of words, when methods act, and what errors found cost in false alarms."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from replay.studies.buzz.cases import Case
from replay.studies.buzz.further_tables import deviation_curve, swept_settings, timed_methods
from replay.studies.buzz.study import BuzzStudy
from replay.studies.kit.report import Figures, StudyFigure
from toolkit.errors import EmptyError
from toolkit.show import IntervalCell, PlottedCurve, ReliabilityPanel, curves_figure, reliability_figure
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, on_page
from toolkit.show.drawing.style import GREY, NAVY, ORANGE, SKY, SMALL, calm
from toolkit.show.figures.buzzes import Buzzes, buzzes_figure
from toolkit.show.figures.forest import PolicyDifference, forest_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LOOKS = {"supported": (NAVY, "o"), "refuted": (ORANGE, "X"), "not_enough": (SKY, "s")}
_MOST_PANELS = 6


def _texts_figure(cases: Sequence[Case], *, title: str = "", simulated: bool = False, width: float = WIDTH) -> Figure:
    """Draws each text as a line of words: a row for each claim with its rounds, the act, and the word that shows the
    error.
    """
    if not cases:
        raise EmptyError("there is no text to draw")
    claims = [case.rounds.filter(case.rounds["verdict"] != "none") for case in cases]
    sizes = [max(1, rows["claim"].n_unique()) for rows in claims]
    note = "a row for each claim, in the order of extraction; the last words also hold the revisions"
    with on_page(0.5 * len(cases) + 0.15 * sum(sizes), width, title=title, simulated=simulated, note=note) as figure:
        panels = figure.subplots(len(cases), 1, squeeze=False, gridspec_kw={"height_ratios": sizes})[:, 0]
        for number, (axes, case, rows) in enumerate(zip(panels, cases, claims, strict=True)):
            place = {claim: row for row, claim in enumerate(rows["claim"].unique(maintain_order=True))}
            for verdict, (color, marker) in _LOOKS.items():
                there = rows.filter(rows["verdict"] == verdict)
                axes.plot(
                    there["position"], [place[one] for one in there["claim"]], marker, color=color, markersize=3.5,
                    linestyle="none", label=verdict.replace("_", " ") if number == 0 else "_",
                )  # fmt: skip
            if not np.isnan(case.first):
                axes.axvline(case.first, color=GREY, linestyle=(0, (2, 1.5)), linewidth=1.0,
                             label="the error can be seen" if number == 0 else "_")  # fmt: skip
            for row in rows.filter(rows["buzz"]).iter_rows(named=True):
                axes.plot(
                    row["position"], place[row["claim"]], "o", markersize=8, markerfacecolor="none",
                    markeredgecolor="black", label="_",
                )  # fmt: skip
            axes.set_yticks([])
            axes.set_xlim(0, 1.02 * max(case.rounds["position"].max(), np.nan_to_num(case.length)))
            axes.set_ylim(len(place) - 0.4, -0.6)
            axes.set_title(wrapped(f"{case.kind}: {case.example}", 0.9 * width, SMALL), fontsize=SMALL, loc="left")
            calm(axes)
        panels[-1].set_xlabel("words; circled: where it acts")
    return figure


def _curve(name: str, points: Sequence[tuple[float, IntervalCell]], scale: float = 0.01) -> PlottedCurve:
    ends = [tuple(None if (end := getattr(cell, key)) is None else scale * end for _, cell in points)
            for key in ("estimate", "low", "high")]  # fmt: skip
    return PlottedCurve(name, tuple(at for at, _ in points), ends[0], ends[1], ends[2])


def _frontier_panels(study: BuzzStudy) -> list[tuple[str, list[PlottedCurve]]]:
    """The errors found over the false alarms, a panel for each swept setting."""
    points: dict[str, list[tuple[float, IntervalCell]]] = {}
    for key, _, name in swept_settings(study):
        alarms, finds = study.sweep.cell(name, "false_alarm", 100), study.sweep.cell(name, "found", 100)
        if alarms is not None and finds is not None:
            points.setdefault(key, []).append((alarms.estimate, finds))
    ordered = {key: sorted(some, key=lambda one: (one[0], one[1].estimate)) for key, some in points.items()}
    return [(key.replace("_", " "), [_curve(study.systems.main.name, some)]) for key, some in ordered.items()]


def _deviation_panels(study: BuzzStudy) -> list[tuple[str, list[PlottedCurve]]]:
    lines = []
    for one in timed_methods(study)[:_MOST_PANELS]:
        cells = [(100 * at, cell) for at, cell in deviation_curve(study, one).items() if cell is not None]
        lines.append(_curve(one.name, cells))
    return [("errors found by Δ", lines)] if lines else []


def _acts(study: BuzzStudy) -> list[Buzzes]:
    panels, texts = [], study.texts
    for one in timed_methods(study)[:_MOST_PANELS]:
        acts = study.acts(one.name)
        on = (texts.error == 1) & ~np.isnan(acts.position) & ~np.isnan(texts.first) & (texts.length > 0)
        first, position = (values[on] / texts.length[on] for values in (texts.first, acts.position))
        panels.append(Buzzes(one.name, first, position, acts.finds[on] == 1, int((texts.error == 1).sum())))
    return panels


def _reliability_panels(study: BuzzStudy) -> list[ReliabilityPanel]:
    return [
        ReliabilityPanel(name, bins)
        for name, one in study.calibrations
        if (bins := tuple(
            (each.score, each.label.estimate, each.label.low, each.label.high)
            for each in one.bins if each.label.estimate is not None
        ))
    ]  # fmt: skip


def _part_differences(study: BuzzStudy) -> Collection[Any]:
    main = study.systems.main.name
    pairs = [(one.name, main) for one in study.variants if one.name != main]
    cells = study.run.differences("accuracy", pairs, 100)
    return [PolicyDifference(name, cell.estimate, cell.low, cell.high) for (name, _), cell in cells.items()]


_NO_PLACE = "no `gold_position` or `length` of texts, or no error was found"
FIGURES: Figures = {
    "figure_1": StudyFigure(
        "Texts as they unfold", lambda study: study.cases.cases, _texts_figure, "no text for any rule"
    ),
    "frontier": StudyFigure(
        "Errors found against false alarms", _frontier_panels,
        partial(curves_figure, x="false alarms, %", y="errors found, %", doubling=False),
        "no setting could be replayed",
    ),
    "by_deviation": StudyFigure(
        "Errors found by Δ", _deviation_panels,
        partial(curves_figure, x="Δ at most, % of the text", y="errors found, %", doubling=False), _NO_PLACE,
    ),
    "acts": StudyFigure("Where methods act", _acts, buzzes_figure, _NO_PLACE),
    "calibration": StudyFigure(
        "Confidence", _reliability_panels, partial(reliability_figure, x="confidence"), "no confidences with labels"
    ),
    "parts": StudyFigure(
        "The system without a part", _part_differences,
        partial(forest_figure, baseline="the whole system", note="limits hold for all rows at once"),
        "no pool and no policy without a part",
    ),
}  # fmt: skip
