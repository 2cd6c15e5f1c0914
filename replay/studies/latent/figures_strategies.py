"""The paper's figures of strategies: what more samples, a vote by score and a doubted probe are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from replay.analyses.strategies.strategies import BEST, CONDITIONAL, MAJORITY, ORACLE, WEIGHTED, Strategies, Strategy
from replay.analyses.strategies.strategy_grids import Conditional, grid, grid_intervals
from replay.studies.kit.report import Figures, StudyFigure
from replay.studies.latent.study import LatentStudy
from toolkit.show import PlottedCurve, curves_figure
from toolkit.show.drawing.page import WIDTH
from toolkit.stats import Interval
from toolkit.stats.curves.influences import mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panel = tuple[str, list[PlottedCurve]]
BANDS = "bands: intervals of each line, by question or cluster; lines are not compared by them"
AT_ONCE = "band: holds for all thresholds of the line at once, by question or cluster"
DOUBTED = (0.1, 0.25, 0.5, 0.75)
"""Shares of the probes with the lowest scores: thresholds of conditional voting that are drawn."""
MOST = 41
"""Thresholds of conditional self-correction."""


def curve_of(
    name: str, at: Sequence[float], found: Sequence[Interval], diagnostic: bool = False, sees: str = "sees gold"
) -> PlottedCurve:
    """A line with its band of intervals."""
    estimate, low, high = (tuple(getattr(one, key) for one in found) for key in ("estimate", "low", "high"))
    return PlottedCurve(name, tuple(at), estimate, low, high, diagnostic, sees)


def _plain(study: LatentStudy, made: Strategies, one: Strategy) -> PlottedCurve | None:
    """A strategy that always draws n samples, over n."""
    values = made.plain.get(one)
    if values is None:
        return None
    size, level = int(made.unit.max()) + 1, study.asked.settings.level
    found = [mean_of(column, made.unit, size).interval(level) for column in values.T]
    return curve_of(one.name, made.n.tolist(), found, one.sees_gold)


def _verifier(study: LatentStudy) -> str | None:
    """Of the study's verifiers the one that the strategies ask."""
    made = study.strategies
    asked = [] if made is None else [one.verifier for one in made.plain if one.verifier] + list(made.scores or {})
    return asked[0] if asked else None


def _selected(study: LatentStudy) -> list[Panel]:
    return _over_n(study, [MAJORITY, WEIGHTED, BEST])


def _oracle(study: LatentStudy) -> list[Panel]:
    return _over_n(study, [MAJORITY, WEIGHTED, BEST, ORACLE])


def _over_n(study: LatentStudy, names: Sequence[str]) -> list[Panel]:
    made, verifier = study.scored or study.strategies, _verifier(study)
    if made is None:
        return []
    asked = [Strategy(name, verifier if name in (WEIGHTED, BEST) else None) for name in names]
    curves = [curve for curve in (_plain(study, made, one) for one in asked) if curve is not None]
    return [("", curves)] if len(curves) > 1 and len(made.n) > 1 else []


def _reported(study: LatentStudy) -> tuple[Strategies, Strategies] | None:
    """The half to choose on, and the one to report."""
    made, chosen = study.strategies, study.chosen
    if made is None or made.probe is None or chosen is None or not chosen.any() or chosen.all():
        return None
    return made.among(chosen), made.among(~chosen)


def _votes(study: LatentStudy) -> list[Panel]:
    """Conditional voting over the mean samples, a panel for each share of the probes that is doubted."""
    halves, verifier = _reported(study), _verifier(study)
    if halves is None or verifier not in (halves[1].scores or {}):
        return []
    made = halves[1]
    of = made.conditional(str(verifier))
    known = np.sort(of.score[~np.isnan(of.score)])
    thresholds = np.unique(known[(np.array(DOUBTED) * len(known)).astype(int)])
    exact = grid(of, thresholds)
    told = grid_intervals(of, thresholds, made.unit, study.asked.settings)
    majority = _plain(study, made, Strategy(MAJORITY))
    panels: list[Panel] = []
    for at, threshold in enumerate(thresholds):
        line = PlottedCurve(
            "conditional majority", tuple(exact.samples[at]), tuple(told.estimate[at]), tuple(told.low[at]),
            tuple(told.high[at]),
        )  # fmt: skip
        name = f"score below {threshold:.3g}: {100 * exact.fired[at]:.0f} % of the probes"
        panels.append((name.replace("-", "−"), [one for one in (majority, line) if one is not None]))
    return panels


def _corrected(study: LatentStudy) -> list[Panel]:
    """Conditional self-correction over the mean samples, and the threshold that was best on the other half."""
    halves, verifier = _reported(study), _verifier(study)
    if halves is None or halves[1].corrected is None or verifier not in (halves[1].scores or {}):
        return []
    chosen, made = (one.self_correction(str(verifier)) for one in halves)
    thresholds = made.thresholds(MOST)
    told = grid_intervals(made, thresholds, halves[1].unit, study.asked.settings)
    samples = grid(made, thresholds).samples[:, 0]
    line = PlottedCurve(
        "conditional self-correction", tuple(samples), tuple(told.estimate[:, 0]), tuple(told.band_low[:, 0]),
        tuple(told.band_high[:, 0]),
    )  # fmt: skip
    return [("", [line, _best(chosen, made, halves[1], study.asked.settings.level)])]


def _best(chosen: Conditional, made: Conditional, on: Strategies, level: float) -> PlottedCurve:
    thresholds = chosen.thresholds()
    best = thresholds[int(np.argmax(grid(chosen, thresholds).accuracy[:, 0]))]
    right, samples = made.outcomes(best, 0)
    found = mean_of(right, on.unit, int(on.unit.max()) + 1).interval(level)
    return curve_of("threshold that is best on the other half", [float(samples.mean())], [found])


def _fronts(study: LatentStudy) -> list[Panel]:
    """Both conditional strategies, settings chosen on the other half."""
    if study.front is None:
        return []
    curves = []
    for name in (MAJORITY, CONDITIONAL):
        rows = study.front.front.filter(pl.col("strategy") == name).sort("samples")
        if rows.height > 1:
            samples, accuracy, low, high = (tuple(rows[key]) for key in ("samples", "accuracy", "low", "high"))
            curves.append(PlottedCurve(name, samples, accuracy, low, high))
    panels: list[Panel] = [("conditional majority voting", curves)] if len(curves) > 1 else []
    return [*panels, *(("conditional self-correction", lines) for _, lines in _corrected(study))]


def _drawn(
    panels: Sequence[Panel], x: str, title: str, simulated: bool, width: float = WIDTH, note: str = BANDS
) -> Figure:
    """Accuracy over samples, on a scale of powers of two; up to two of them on a plain one."""
    most = max(at for _, curves in panels for curve in curves for at in curve.k)
    doubled = [2.0**power for power in range(int(np.ceil(np.log2(max(most, 2)))) + 1)]
    ticks = doubled if most > 2 else [1, 1.25, 1.5, 1.75, 2]
    return curves_figure(
        panels, title=title, x=x, ticks=ticks, doubling=most > 2, simulated=simulated, width=width,
        banded=4, note=note, scales=["accuracy"] * len(panels) if len(panels) > 2 else (),
    )  # fmt: skip


def _over_samples(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return _drawn(panels, "samples, n", title, simulated, width)


def _over_means(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return _drawn(panels, "mean samples", title, simulated, width)


def _over_thresholds(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return _drawn(panels, "mean samples", title, simulated, width, AT_ONCE)


STRATEGY_FIGURES: Figures = {
    "figure_3_best_of_n_and_votes": StudyFigure("Best of n and votes", _selected, _over_samples),
    "figure_4_self_correction": StudyFigure("Conditional self-correction", _corrected, _over_thresholds),
    "figure_5_conditional_votes": StudyFigure("Conditional majority voting", _votes, _over_means),
    "figure_10_oracle": StudyFigure("Distance to the oracle", _oracle, _over_samples),
    "figure_13_conditional": StudyFigure("Conditional strategies", _fronts, _over_means),
}
"""Figure 13 is of the settings that are chosen on the other half."""
