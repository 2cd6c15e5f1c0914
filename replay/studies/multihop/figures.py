"""The study's figures: what each shows of a data set, and how it is drawn."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from replay.studies.kit.report import Figures, StudyFigure
from replay.studies.multihop.cases import main_chains
from replay.studies.multihop.chains import DIRECT
from replay.studies.multihop.retrieval import BOTH_RANKED, EXPLORED, MEASURE, PLAIN, STABLE
from replay.studies.multihop.selection import BEST, IDEAL, LISTWISE, MAJORITY, PARTS, SINGLE_SHOT
from replay.studies.multihop.study import MultihopStudy
from toolkit.errors import EmptyError
from toolkit.show import (
    IntervalCell,
    PlottedCurve,
    ReliabilityPanel,
    curves_figure,
    outcomes_figure,
    reliability_figure,
)
from toolkit.show.drawing.lettering import wrapped
from toolkit.show.drawing.page import WIDTH, page_figure
from toolkit.show.drawing.style import GREY, NAVY, ORANGE, SKY, SMALL, calm
from toolkit.show.figures.forest import PolicyDifference, forest_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Bar = tuple[str, Sequence[IntervalCell]]
"""A bar's name, and the cells that it is made of."""
_COLORS = (NAVY, ORANGE, SKY)


def _bars_figure(
    bars: Sequence[Bar], *, labels: Sequence[str], x: str, note: str = "", title: str = "", simulated: bool = False,
    width: float = WIDTH,
) -> Figure:  # fmt: skip
    """Draws each row's cells as bars beside each other, with their intervals. Raises ThinkbackError without rows."""
    from matplotlib import patheffects

    if not bars:
        raise EmptyError("there is no bar to draw")
    halo = [patheffects.withStroke(linewidth=2.0, foreground="white")]
    each = 0.8 / len(labels)
    with page_figure(
        0.7 + (0.24 + 0.13 * len(labels)) * len(bars), width, title=title, simulated=simulated, note=note
    ) as figure:
        axes = figure.add_subplot()
        for number, label in enumerate(labels):
            places = [place + (number - (len(labels) - 1) / 2) * each for place in range(len(bars))]
            cells = [bar[1][number] for bar in bars]
            values, name = [cell.estimate for cell in cells], label if len(labels) > 1 else None
            axes.barh(places, values, height=0.9 * each, color=_COLORS[number], label=name)
            for place, cell in zip(places, cells, strict=True):
                if cell.low is not None and cell.high is not None:
                    axes.plot([cell.low, cell.high], [place, place], color="black", linewidth=0.9, path_effects=halo)
        axes.axvline(0, color=GREY, linewidth=0.8)
        axes.set_yticks(range(len(bars)), [wrapped(bar[0], 0.3 * width, SMALL) for bar in bars], parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(x)
        calm(axes)
    return figure


def _direct_bars(study: MultihopStudy) -> list[Bar]:
    bars: list[Bar] = []
    for one in study.measured:
        cells = [one.cells[name] for name in ("cover_substring", "cover")]
        if one.pool.form == DIRECT and None not in cells:
            bars.append((f"{one.pool.evidence}, {one.pool.reader}", [cell for cell in cells if cell is not None]))
    return bars


def _headroom_bars(study: MultihopStudy) -> list[Bar]:
    bars: list[Bar] = []
    for one in study.headroom:
        cells = [cell for part in PARTS if (cell := one.parts[part]) is not None]
        if one.way.selector in (SINGLE_SHOT, MAJORITY, BEST, LISTWISE) and len(cells) == len(PARTS):
            bars.append((f"{one.way.pool.name}: {one.way.label}", cells))
    return bars


def _chain_panels(study: MultihopStudy) -> list[tuple[str, list[PlottedCurve]]]:
    """Draws the share of right answers over the number of chains: votes, every verifier's best, and any right one."""
    pool, lines = main_chains(study.answers), []
    for way, points in study.curves.items():
        cells = [cell for _, cell in points]
        estimate, low, high = (tuple(getattr(cell, key) for cell in cells) for key in ("estimate", "low", "high"))
        if len(points) > 1:
            lines.append(PlottedCurve(way, tuple(k for k, _ in points), estimate, low, high, way == IDEAL))
    return [(pool.name, lines)] if lines and pool is not None else []


def _ranking_differences(study: MultihopStudy) -> list[PolicyDifference]:
    run = study.retrieval.run
    names = [name for name in run.policies if name not in (PLAIN, STABLE, EXPLORED, BOTH_RANKED)]
    gaps = run.differences(MEASURE, [(name, PLAIN) for name in names], 100)
    rows = [PolicyDifference(name, cell.estimate, cell.low, cell.high) for (name, _), cell in gaps.items()]
    return sorted(rows, key=lambda row: -row.difference)


def _sensitivity_differences(study: MultihopStudy) -> list[PolicyDifference]:
    gaps = study.retrieval.sensitivity_gaps.items()
    rows = [PolicyDifference(name, cell.estimate, cell.low, cell.high) for name, cell in gaps]
    return sorted(rows, key=lambda row: -row.difference)


def _reliability_panels(study: MultihopStudy) -> list[ReliabilityPanel]:
    pool = main_chains(study.answers)
    panels = []
    for verifier in study.verifiers:
        if pool is not None and verifier.pool.name == pool.name and verifier.calibration.reliability_points:
            panels.append(ReliabilityPanel(verifier.verifier, verifier.calibration.reliability_points, pool.name))
    return panels


def _change_bars(study: MultihopStudy) -> Collection[Any]:
    pool = main_chains(study.answers)
    rows = (change for change in study.changes if pool is not None and change.way.pool.name == pool.name)
    return [
        (f"{row.way.verifier}, {row.type}", row.fixes.scaled(0.01), row.flips.scaled(0.01))
        for row in rows
        if row.fixes is not None and row.flips is not None
    ]


_AT_ONCE = "limits hold for all rows at once"
_SETTING = f"rows: K, multiplier, frontier of, support, reward; {_AT_ONCE}"
_forest = partial(forest_figure, baseline=PLAIN, quality="recall@10")
FIGURES: Figures = {
    "rankings": StudyFigure(
        "Rankings", _ranking_differences, partial(_forest, note=_AT_ONCE),
        "no rounds with gold documents could be replayed",
    ),
    "sensitivity": StudyFigure(
        "Settings of the frontier", _sensitivity_differences, partial(_forest, note=_SETTING),
        "no rounds with gold documents could be replayed",
    ),
    "figure_5_1": StudyFigure(
        "Answers without reasoning",
        _direct_bars,
        partial(_bars_figure, labels=("substring", "whole words"), x="right, %"),
        "no pool of direct answers",
    ),
    "figure_5_2": StudyFigure(
        "More chains", _chain_panels, partial(curves_figure, x="chains, n", doubling=False),
        "no pool of several judged chains of retrieved evidence",
    ),
    "headroom": StudyFigure(
        "What answers lack", _headroom_bars, partial(_bars_figure, labels=PARTS, x="points"),
        "no chains of gold evidence and of retrieved by the same reader",
    ),
    "calibration": StudyFigure(
        "Calibration", _reliability_panels, reliability_figure, "no verifier's scores are probabilities"
    ),
    "fixes_and_flips": StudyFigure(
        "Fixes and flips", _change_bars, outcomes_figure, "no verifier scored chains of retrieved evidence"
    ),
}  # fmt: skip
