"""The study's figures: three texts on a line of words, when methods act, and what errors found cost in false alarms."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from replay.studies.buzz.cases import Case
from replay.studies.buzz.further_tables import SETTINGS, deviation_curves, swept_settings, timed_methods
from replay.studies.buzz.study import BuzzStudy, Variant
from replay.studies.kit.report import Figures, StudyFigure
from toolkit.errors import EmptyError
from toolkit.show import IntervalCell, PlottedCurve, ReliabilityPanel, curves_figure, reliability_figure
from toolkit.show.drawing.lettering import drawable_text, text_width, wrapped
from toolkit.show.drawing.page import HIGHEST, WIDTH, page_figure
from toolkit.show.drawing.style import GREY, INK, NAVY, ORANGE, SKY, SMALL, calm
from toolkit.show.figures.buzzes import (
    Buzzes,
    DetectionPanel,
    DetectionRates,
    buzzes_figure,
    deviations_figure,
    trades_figure,
)
from toolkit.show.figures.forest import PolicyDifference, forest_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_LOOKS = {"supported": (NAVY, "o"), "refuted": (ORANGE, "X"), "not_enough": (SKY, "s")}
MOST_PANELS = 6
"""Methods that figures of acts draw at the most, the main one first."""
_WORD, _LONGEST_WORD = 5.5, 16
"""Points of the words of a text and of its claims, and the most signs of a word."""
_TEXTS_NOTE = (
    "a row for each claim, in the order of extraction, orange where it names the error; the last words also hold the "
    "revisions"
)
_ROW, _LEAST_ROW = 0.15, 0.09
"""Inches of a claim's row, and those below which not every claim's text is written."""


def _texts_figure(cases: Sequence[Case], *, title: str = "", simulated: bool = False, width: float = WIDTH) -> Figure:
    """Draws each text as a line of its words: a row for each claim with its rounds and what it says, the act, and the
    word that shows the error.
    """
    if not cases:
        raise EmptyError("there is no text to draw")
    claims = [case.rounds.filter(case.rounds["verdict"] != "none") for case in cases]
    sizes = [max(1, rows["claim"].n_unique()) for rows in claims]
    below = [max((text_width(word, _WORD) for word in _words(case)), default=0.15) for case in cases]
    fixed = sum(below) + 0.4 * len(cases) + 0.2
    row = min(_ROW, max(0.02, (HIGHEST - 1.0 - fixed) / sum(sizes)))
    with page_figure(fixed + row * sum(sizes), width, title=title, simulated=simulated, note=_TEXTS_NOTE) as figure:
        panels = figure.subplots(len(cases), 1, squeeze=False, gridspec_kw={"height_ratios": sizes})[:, 0]
        for number, (axes, case, rows) in enumerate(zip(panels, cases, claims, strict=True)):
            place = {claim: row for row, claim in enumerate(rows["claim"].unique(maintain_order=True))}
            for verdict, (color, marker) in _LOOKS.items():
                there = rows.filter(rows["verdict"] == verdict)
                axes.plot(
                    there["position"], [place[one] for one in there["claim"]], marker, color=color, markersize=3.5,
                    linestyle="none", label=verdict.replace("_", " ") if number == 0 else "_",
                    zorder=2 if verdict == "not_enough" else 3,
                )  # fmt: skip
            if not np.isnan(case.first):
                axes.axvline(case.first, color=GREY, linestyle=(0, (2, 1.5)), linewidth=1.0,
                             label="the error can be seen" if number == 0 else "_")  # fmt: skip
            for each in rows.filter(rows["buzz"]).iter_rows(named=True):
                axes.plot(
                    each["position"], place[each["claim"]], "o", markersize=8, markerfacecolor="none",
                    markeredgecolor="black", label="_",
                )  # fmt: skip
            last = 1.02 * max(case.rounds["position"].max(), np.nan_to_num(case.length))
            axes.set_yticks([])
            axes.set_xlim(0, last)
            axes.set_ylim(len(place) - 0.4, -0.6)
            axes.set_title(wrapped(f"{case.kind}: {case.example}", 0.9 * width, SMALL), fontsize=SMALL, loc="left")
            calm(axes)
            _write_words(axes, case, last / width)
            _write_claims(axes, rows, place, last, width, every=row >= _LEAST_ROW)
        panels[-1].set_xlabel("words; circled: where it acts")
    return figure


def _words(case: Case) -> list[str]:
    """The words of a text, none where they are not logged or not as many as its length; long ones are cut."""
    words = [word if len(word) <= _LONGEST_WORD else f"{word[:_LONGEST_WORD]}…" for word in case.question.split()]
    return [drawable_text(word) for word in words] if len(words) == case.length else []


def _write_words(axes: Axes, case: Case, words_an_inch: float) -> None:
    """Writes each word at its place, or as many of a long text as there is room for; that of the error always."""
    words, step = _words(case), int(np.ceil(words_an_inch * 1.15 * _WORD / 72))
    if not words:
        return
    error = 0 if np.isnan(case.first) else int(case.first)
    at = [one for one in range(1, len(words) + 1) if one == error or (one % step == 0 and abs(one - error) >= step)]
    axes.grid(visible=False)
    axes.set_xticks(at, [words[one - 1] for one in at], rotation=90, fontsize=_WORD)
    for one, label in zip(at, axes.get_xticklabels(), strict=True):
        label.set_color(ORANGE if one == error else INK)


def _write_claims(
    axes: Axes, rows: pl.DataFrame, place: Mapping[int, int], last: float, width: float, every: bool
) -> None:
    """Writes what each claim says beside its rounds, on the side with more room; `every`, else where it matters."""
    for (claim,), rounds in rows.drop_nulls("claim_text").group_by("claim", maintain_order=True):
        places = rounds["position"].to_numpy()
        first, end = float(places.min()), float(places.max())
        names = bool(rounds["matches_error"].any())
        if not (every or names or rounds["buzz"].any()):
            continue
        right = last - end > first
        space = float(0.9 * width * (last - end if right else first) / last - 0.15)
        text = wrapped(rounds["claim_text"][0], space, _WORD, 1)
        axes.annotate(
            text, (end if right else first, place[claim]), (7 if right else -7, 0), textcoords="offset points",
            ha="left" if right else "right", va="center", fontsize=_WORD, color=ORANGE if names else GREY,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )  # fmt: skip


def _curve(name: str, points: Mapping[float, IntervalCell | None]) -> PlottedCurve:
    cells = {at: cell for at, cell in points.items() if cell is not None}
    ends = [tuple(None if (end := getattr(cell, key)) is None else end / 100 for cell in cells.values())
            for key in ("estimate", "low", "high")]  # fmt: skip
    return PlottedCurve(name, tuple(100 * at for at in cells), ends[0], ends[1], ends[2])


def _trade(name: str, alarms: IntervalCell | None, finds: IntervalCell | None) -> list[DetectionRates]:
    if alarms is None or finds is None:
        return []
    x, y = ((cell.estimate, cell.low, cell.high) for cell in (alarms, finds))
    return [DetectionRates(name, x, y)]


def _trade_panels(study: BuzzStudy) -> list[DetectionPanel]:
    """The errors found and the false alarms of each value of a swept setting, and of verdicts on texts beside."""
    panels: dict[str, list[DetectionRates]] = {}
    for key, value, name in swept_settings(study):
        alarms, finds = (study.sweep.cell(name, metric, 100) for metric in ("false_alarm", "found"))
        panels.setdefault(SETTINGS[key], []).extend(_trade(f"{value:g}", alarms, finds))
    beside: list[DetectionRates] = []
    for one in study.methods if any(panels.values()) else ():
        if not one.system.checks and one.system.group == study.systems.main.group:
            acts = study.acts(one.name)
            means = study.means({"alarms": acts.false_alarm, "finds": acts.finds})
            beside += _trade(_title(study, one), means["alarms"], means["finds"])
    return [DetectionPanel(name, values, beside[:MOST_PANELS]) for name, values in panels.items() if values]


def _drawn_methods(study: BuzzStudy) -> list[Variant]:
    """The methods with panels or lines of their own, the main one first."""
    return sorted(timed_methods(study), key=lambda one: one.name != study.systems.main.name)[:MOST_PANELS]


def _title(study: BuzzStudy, one: Variant) -> str:
    """A method's name, with what its acts are where no claim is compared with the error."""
    return one.name if study.names_claims(one) else f"{one.name}, for any reason"


def _deviation_panels(study: BuzzStudy) -> list[tuple[str, list[PlottedCurve]]]:
    curves = {_title(study, one): deviation_curves(study, one) for one in _drawn_methods(study)}
    if not curves:
        return []
    lines = [[_curve(name, getattr(each, key)) for name, each in curves.items()] for key in ("finds", "accuracy")]
    return list(zip(("errors found, of texts with one", "accuracy, of all texts"), lines, strict=True))


def _acts(study: BuzzStudy) -> list[Buzzes]:
    panels, texts = [], study.texts
    for one in _drawn_methods(study):
        acts = study.acts(one.name)
        on = (texts.error == 1) & ~np.isnan(acts.position) & ~np.isnan(texts.first) & (texts.length > 0)
        first, position = (values[on] / texts.length[on] for values in (texts.first, acts.position))
        count = int(((texts.error == 1) & acts.replayed).sum())
        panels.append(Buzzes(_title(study, one), first, position, acts.finds[on] == 1, count))
    return panels


def _deviations(study: BuzzStudy) -> dict[str, np.ndarray]:
    """Δ of the errors that each method found, by its name."""
    some = ((_title(study, one), study.acts(one.name)) for one in _drawn_methods(study))
    return {name: acts.deviation[acts.timed] for name, acts in some}


def _reliability_panels(study: BuzzStudy) -> list[ReliabilityPanel]:
    shares = ((name, one.calibration.reliability_points) for name, one in study.confidences)
    return [ReliabilityPanel(name, some) for name, some in shares if some]


def _part_differences(study: BuzzStudy) -> Collection[Any]:
    main = study.systems.main.name
    cells = study.part_differences("accuracy", 100)
    named = {name if whole == main else f"{name}, of {whole}": cell for (whole, name), cell in cells.items()}
    return [PolicyDifference(name, cell.estimate, cell.low, cell.high) for name, cell in named.items()]


_NO_PLACE = "no `gold_position` or `length` of texts, or no error was found"
_NO_SETTING = "no setting could be replayed"
FIGURES: Figures = {
    "figure_1": StudyFigure(
        "Texts as they unfold", lambda study: study.cases.cases, _texts_figure, "no text for any rule"
    ),
    "frontier": StudyFigure(
        "Errors found against false alarms", _trade_panels, trades_figure,
        lambda study: "it needs texts with and without an error" if study.texts.one_label else _NO_SETTING,
    ),
    "by_deviation": StudyFigure(
        "Errors found and accuracy where later acts do not count", _deviation_panels,
        partial(curves_figure, x="Δ at most, % of the text", y="% of texts", doubling=False,
                ticks=range(-40, 101, 20), note="bands where there are few lines: intervals of each; paired "
                "differences in accuracy: table `by_deviation`"), _NO_PLACE,
    ),
    "deviation": StudyFigure("When methods act that found the error", _deviations, deviations_figure, _NO_PLACE),
    "acts": StudyFigure("Where methods act", _acts, buzzes_figure, _NO_PLACE),
    "calibration": StudyFigure(
        "Confidence", _reliability_panels, partial(reliability_figure, x="confidence"), "few confidences with labels"
    ),
    "parts": StudyFigure(
        "The system without a part", _part_differences,
        partial(forest_figure, quality="accuracy of the system", baseline="itself without the part",
                note="limits hold for all rows at once"),
        "no pool and no policy without a part",
    ),
}  # fmt: skip
