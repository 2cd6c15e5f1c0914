"""The figures, by the names of their files: of signals, fits and strategies."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from replay.analyses.strategies.strategies import BEST, CONDITIONAL, MAJORITY, ORACLE, WEIGHTED, Strategies, Strategy
from replay.analyses.strategies.strategy_grids import ConditionalStrategy, grid_intervals, threshold_grid
from replay.studies.kit.report import Figures, StudyFigure
from replay.studies.latent.study import LatentStudy
from replay.studies.latent.verdicts import POOLED, WITHIN
from toolkit.show import Heat, PlottedCurve, curves_figure, heat_figure
from toolkit.show.drawing.page import WIDTH
from toolkit.show.figures.forest import PolicyDifference, forest_figure
from toolkit.stats import Interval
from toolkit.stats.curves.roc import mean_with_influences

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Panel = tuple[str, list[PlottedCurve]]
BANDS = "bands: intervals of each line, by question or cluster; lines are not compared by them"
AT_ONCE = "band: holds for all thresholds of the line at once, by question or cluster"
DOUBTED = (0.1, 0.25, 0.5, 0.75)
"""Shares of the probes with the lowest scores: thresholds of conditional voting that are drawn."""
MOST = 41
"""Thresholds of conditional self-correction."""


def _plotted_curve(
    name: str, at: Sequence[float], intervals: Sequence[Interval], diagnostic: bool = False, sees: str = "sees gold"
) -> PlottedCurve:
    """Makes a plotted line of estimates at the points `at`, with their intervals as its band."""
    estimate, low, high = (
        tuple(getattr(interval, key) for interval in intervals) for key in ("estimate", "low", "high")
    )
    return PlottedCurve(name, tuple(at), estimate, low, high, diagnostic, sees)


def _vote_curve(study: LatentStudy, strategies: Strategies, one: Strategy) -> PlottedCurve | None:
    """Returns the accuracy of a strategy that always draws n samples, as a line over n; None where it was not
    replayed.
    """
    values = strategies.plain.get(one)
    if values is None:
        return None
    size, level = int(strategies.unit.max()) + 1, study.setting.settings.level
    intervals = [mean_with_influences(column, strategies.unit, size).interval(level) for column in values.T]
    return _plotted_curve(one.name, strategies.n.tolist(), intervals, one.sees_gold)


def _verifier_of_strategies(study: LatentStudy) -> str | None:
    """Returns the verifier that the strategies read; None where they read none."""
    pool_strategies = study.strategies
    verifiers = (
        []
        if pool_strategies is None
        else [one.verifier for one in pool_strategies.plain if one.verifier] + list(pool_strategies.scores or {})
    )
    return verifiers[0] if verifiers else None


def _panels_over_n(study: LatentStudy, names: Sequence[str]) -> list[Panel]:
    strategies, verifier = study.scored or study.strategies, _verifier_of_strategies(study)
    if strategies is None:
        return []
    choices = [Strategy(name, verifier if name in (WEIGHTED, BEST) else None) for name in names]
    curves = [curve for curve in (_vote_curve(study, strategies, choice) for choice in choices) if curve is not None]
    return [("", curves)] if len(curves) > 1 and len(strategies.n) > 1 else []


def _strategies_by_half(study: LatentStudy) -> tuple[Strategies, Strategies] | None:
    """Returns the strategies on the half of the examples that chooses settings, and on the half that is reported."""
    strategies, chosen = study.strategies, study.chosen
    if strategies is None or strategies.probe is None or chosen is None or not chosen.any() or chosen.all():
        return None
    return strategies.for_examples(chosen), strategies.for_examples(~chosen)


def _conditional_vote_panels(study: LatentStudy) -> list[Panel]:
    """Draws conditional voting: accuracy over mean samples, one panel per threshold below which a probe is followed by
    a vote.
    """
    halves, verifier = _strategies_by_half(study), _verifier_of_strategies(study)
    if halves is None or verifier not in (halves[1].scores or {}):
        return []
    strategies = halves[1]
    of = strategies.conditional(str(verifier))
    known = np.sort(of.score[~np.isnan(of.score)])
    thresholds = np.unique(known[(np.array(DOUBTED) * len(known)).astype(int)])
    exact = threshold_grid(of, thresholds)
    intervals = grid_intervals(of, thresholds, strategies.unit, study.setting.settings)
    majority = _vote_curve(study, strategies, Strategy(MAJORITY))
    panels: list[Panel] = []
    for at, threshold in enumerate(thresholds):
        line = PlottedCurve(
            "conditional majority", tuple(exact.samples[at]), tuple(intervals.estimate[at]), tuple(intervals.low[at]),
            tuple(intervals.high[at]),
        )  # fmt: skip
        name = f"score below {threshold:.3g}: {100 * exact.fired[at]:.0f} % of first attempts"
        panels.append((name.replace("-", "−"), [one for one in (majority, line) if one is not None]))
    return panels


def _self_correction_panels(study: LatentStudy) -> list[Panel]:
    """Draws conditional self-correction: accuracy over mean samples, and the threshold that is best on
    the other half.
    """
    halves, verifier = _strategies_by_half(study), _verifier_of_strategies(study)
    if halves is None or halves[1].corrected is None or verifier not in (halves[1].scores or {}):
        return []
    chosen, correction = (half.self_correction_strategy(str(verifier)) for half in halves)
    thresholds = correction.thresholds(MOST)
    intervals = grid_intervals(correction, thresholds, halves[1].unit, study.setting.settings)
    samples = threshold_grid(correction, thresholds).samples[:, 0]
    line = PlottedCurve(
        "conditional self-correction", tuple(samples), tuple(intervals.estimate[:, 0]), tuple(intervals.band_low[:, 0]),
        tuple(intervals.band_high[:, 0]),
    )  # fmt: skip
    return [("", [line, _best_curve(chosen, correction, halves[1], study.setting.settings.level)])]


def _best_curve(
    chosen: ConditionalStrategy, correction: ConditionalStrategy, on: Strategies, level: float
) -> PlottedCurve:
    thresholds = chosen.thresholds()
    best = thresholds[int(np.argmax(threshold_grid(chosen, thresholds).accuracy[:, 0]))]
    right, samples = correction.correctness_and_samples(best, 0)
    interval = mean_with_influences(right, on.unit, int(on.unit.max()) + 1).interval(level)
    return _plotted_curve("threshold that is best on the other half", [float(samples.mean())], [interval])


def _front_panels(study: LatentStudy) -> list[Panel]:
    """Draws both conditional strategies, with the settings that were chosen on the other half."""
    if study.front is None:
        return []
    curves = []
    for name in (MAJORITY, CONDITIONAL):
        rows = study.front.front.filter(pl.col("strategy") == name).sort("samples")
        if rows.height > 1:
            samples, accuracy, low, high = (tuple(rows[key]) for key in ("samples", "accuracy", "low", "high"))
            curves.append(PlottedCurve(name, samples, accuracy, low, high))
    panels: list[Panel] = [("conditional majority voting", curves)] if len(curves) > 1 else []
    return [*panels, *(("conditional self-correction", lines) for _, lines in _self_correction_panels(study))]


def _samples_figure(
    panels: Sequence[Panel], *, x: str, title: str, simulated: bool, width: float = WIDTH, note: str = BANDS
) -> Figure:
    """Draws accuracy over samples; the axis is logarithmic (base 2) where a line goes beyond two samples."""
    most = max(at for _, curves in panels for curve in curves for at in curve.k)
    doubled = [2.0**power for power in range(int(np.ceil(np.log2(max(most, 2)))) + 1)]
    ticks = doubled if most > 2 else [1, 1.25, 1.5, 1.75, 2]
    return curves_figure(
        panels, title=title, x=x, ticks=ticks, doubling=most > 2, simulated=simulated, width=width,
        banded=4, note=note, scales=["accuracy"] * len(panels) if len(panels) > 2 else (),
    )  # fmt: skip


MOST_LINES = 1_000
"""Lines of a panel with bands: all of them."""


def _tokens_by_end_counted_from(tokens: Collection[int]) -> list[tuple[str, list[int]]]:
    """Splits tokens into those counted from the text's beginning (0 and up) and from its end (below 0), each sorted."""
    split = [("first", sorted(t for t in tokens if t >= 0)), ("last", sorted(t for t in tokens if t < 0))]
    return [(name, group) for name, group in split if group]


def _location_panels(study: LatentStudy) -> list[Panel]:
    """Draws the AUC of a classifier per place over its token, one panel per layer and end of the text."""
    areas = {(location.layer, location.token): location.pooled for location in study.ablations.locations}
    panels = []
    for layer in sorted({layer for layer, _ in areas}, reverse=True):
        for name, tokens in _tokens_by_end_counted_from({token for depth, token in areas if depth == layer}):
            line = _plotted_curve("one classifier a place", tokens, [areas[layer, token] for token in tokens])
            panels.append((f"layer {layer}, {name} tokens".replace("-", "−"), [line]))
    return panels


def _location_heat_maps(study: LatentStudy) -> list[Heat]:
    """Lays out the AUC by layer and token as a heat map, one for each end of the text."""
    areas = {(location.layer, location.token): location.pooled.estimate for location in study.ablations.locations}
    layers = sorted({layer for layer, _ in areas}, reverse=True)
    panels = []
    for name, tokens in _tokens_by_end_counted_from({token for _, token in areas}):
        cells = tuple(tuple(_percent_or_none(areas.get((layer, token))) for token in tokens) for layer in layers)
        panels.append(Heat(f"{name} tokens", _with_minus_signs(tokens), _with_minus_signs(layers), cells))
    return panels


def _percent_or_none(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _with_minus_signs(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(number).replace("-", "−") for number in numbers)


def _temperature_heat_maps(study: LatentStudy) -> list[Heat]:
    areas = {
        (temperature.trained, temperature.measured): temperature.area.estimate
        for temperature in study.ablations.temperatures
    }
    trained, measured = (sorted({key[at] for key in areas}) for at in (0, 1))
    names = [tuple(f"{degree:g}" for degree in degrees) for degrees in (measured, trained)]
    cells = tuple(tuple(_percent_or_none(areas.get((a, b))) for b in measured) for a in trained)
    return [Heat(study.dataset, names[0], names[1], cells)] if areas else []


def _kind_panels(study: LatentStudy) -> list[Panel]:
    """Draws the AUC of each kind of classifier over its token: the median over seeds, with their range as the band."""
    curves = []
    for model in dict.fromkeys(one.model for one in study.ablations.models):
        rows = sorted((one for one in study.ablations.models if one.model == model), key=lambda one: one.token)
        tokens, medians = tuple(row.token for row in rows), tuple(row.median for row in rows)
        ends = tuple(row.least for row in rows), tuple(row.most for row in rows)
        curves.append(PlottedCurve(model, tokens, medians, *ends))
    return [("", curves)] if curves else []


def _suffix_panels(study: LatentStudy) -> list[Panel]:
    suffixes, curves = study.ablations.suffixes, []
    for name, key in (("log-probability of the last k tokens", "logprob"), ("states of the last k tokens", "states")):
        points = [(suffix.length, getattr(suffix, key)) for suffix in suffixes if getattr(suffix, key) is not None]
        if points:
            curves.append(_plotted_curve(name, [length for length, _ in points], [area for _, area in points]))
    return [("", curves)] if curves else []


def _vote_panels(study: LatentStudy) -> list[Panel]:
    """Draws the accuracy of a majority vote over the temperature, one panel per number of votes."""
    panels: list[Panel] = []
    for votes in sorted({vote.votes for vote in study.ablations.votes}):
        rows = sorted((vote for vote in study.ablations.votes if vote.votes == votes), key=lambda one: one.temperature)
        if votes & (votes - 1) == 0:
            name = "1 sample" if votes == 1 else f"majority of {votes}"
            line = _plotted_curve("majority voting", [row.temperature for row in rows], [row.accuracy for row in rows])
            panels.append((name, [line]))
    return panels


def _vote_figure(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    ticks = sorted({at for _, curves in panels for curve in curves for at in curve.k})
    return curves_figure(
        panels, title=title, x="temperature", ticks=ticks, doubling=False, simulated=simulated, width=width,
        note=BANDS,
    )  # fmt: skip


SCALE = 100.0


def _auc_differences(study: LatentStudy, over: str) -> list[PolicyDifference]:
    """Returns the AUC of every other signal minus that of the verifier, the largest difference first."""
    pool, differences = study.main_pool, []
    if pool.is_single and over == WITHIN:
        return []
    for key, one in pool.signals.items():
        less = pool.auc_minus(one, over, study.setting.settings.level)
        if one is not pool.verifier_auc and less.difference is not None:
            low, high = (None if end is None else -SCALE * end for end in (less.high, less.low))
            differences.append(PolicyDifference(one.label(key), -SCALE * less.difference, low, high))
    return sorted(differences, key=lambda one: -one.difference)


_drawn_differences = partial(
    forest_figure, baseline="the latent verifier", unit="hundredths",
    note="intervals of each difference by itself, by question or cluster",
)  # fmt: skip
_areas = partial(curves_figure, y="AUC, %", doubling=False, banded=MOST_LINES, note=BANDS, reference=("chance", 0.5))
MEDIANS = "lines: medians of the seeds; bands: their lowest and highest; intervals: see the table `classifiers`"
_by_place = partial(
    heat_figure, columns=1, x="token", y="layer",
    note="AUC, %; chance is 50; intervals: see the table `locations`",
)  # fmt: skip
_by_degree = partial(
    heat_figure, columns=1, x="measured at", y="trained at",
    note="mean AUC of classifiers of one place each, %; intervals: see the table `temperatures`",
)  # fmt: skip
_over_means = partial(_samples_figure, x="mean samples")
_over_samples = partial(_samples_figure, x="samples, n")
FIGURES: Figures = {
    "signals": StudyFigure(
        "Other signals", partial(_auc_differences, over=POOLED), partial(_drawn_differences, quality="AUC")
    ),
    "signals_within": StudyFigure(
        "Other signals within questions", partial(_auc_differences, over=WITHIN),
        partial(_drawn_differences, quality="AUC within questions"),
    ),
    "figure_1_locations": StudyFigure("AUC by place", _location_panels, partial(_areas, x="token")),
    "figure_1_heat_map": StudyFigure("AUC by layer and token", _location_heat_maps, _by_place),
    "figure_2_and_8_temperatures": StudyFigure("Transfer between temperatures", _temperature_heat_maps, _by_degree),
    "figure_3_best_of_n_and_votes": StudyFigure(
        "Best of n and votes", partial(_panels_over_n, names=[MAJORITY, WEIGHTED, BEST]), _over_samples
    ),
    "figure_4_self_correction": StudyFigure(
        "Conditional self-correction", _self_correction_panels, partial(_over_means, note=AT_ONCE)
    ),
    "figure_5_conditional_votes": StudyFigure("Conditional majority voting", _conditional_vote_panels, _over_means),
    "figure_10_oracle": StudyFigure(
        "Distance to the oracle", partial(_panels_over_n, names=[MAJORITY, WEIGHTED, BEST, ORACLE]), _over_samples
    ),
    "figure_13_conditional": StudyFigure("Conditional strategies", _front_panels, _over_means),
    "figure_9_classifiers": StudyFigure("Kinds of classifiers", _kind_panels, partial(_areas, x="token", note=MEDIANS)),
    "figure_11_suffixes": StudyFigure(
        "AUC by length of the suffix", _suffix_panels, partial(_areas, x="tokens of the suffix, k")
    ),
    "figure_12_votes": StudyFigure("Majority voting by temperature", _vote_panels, _vote_figure),
}  # fmt: skip
"""Figure 13 is of the settings that are chosen on the other half."""
