"""The paper's figures, by the names of their files: those of fits and signals; those of strategies stand beside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from typing import TYPE_CHECKING

from replay.studies.kit.report import Figures, StudyFigure
from replay.studies.latent.figures_strategies import BANDS, STRATEGY_FIGURES, Panel, curve_of
from replay.studies.latent.signals import POOLED, WITHIN
from replay.studies.latent.study import LatentStudy
from toolkit.show import Heat, PlottedCurve, curves_figure, heat_figure
from toolkit.show.drawing.page import WIDTH
from toolkit.show.figures.forest import PolicyDifference, forest_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CHANCE = ("chance", 0.5)


def _parts(tokens: Collection[int]) -> list[tuple[str, list[int]]]:
    """Tokens of the beginning and of the end of the text, each in order."""
    split = [("first", sorted(t for t in tokens if t >= 0)), ("last", sorted(t for t in tokens if t < 0))]
    return [(name, own) for name, own in split if own]


def _locations(study: LatentStudy) -> list[Panel]:
    """Over the tokens of either end, a panel a layer."""
    found = {(one.layer, one.token): one.pooled for one in study.ablations.locations}
    panels = []
    for layer in sorted({layer for layer, _ in found}, reverse=True):
        for name, tokens in _parts({token for own, token in found if own == layer}):
            line = curve_of("one classifier a place", tokens, [found[layer, token] for token in tokens])
            panels.append((f"layer {layer}, {name} tokens".replace("-", "−"), [line]))
    return panels


def _areas(
    panels: Sequence[Panel], x: str, title: str, simulated: bool, width: float = WIDTH, note: str = BANDS,
) -> Figure:  # fmt: skip
    most = max(len(curves) for _, curves in panels)
    return curves_figure(
        panels, title=title, x=x, y="AUC, %", doubling=False, simulated=simulated, width=width,
        banded=most, note=note, reference=CHANCE,
    )  # fmt: skip


def _drawn_locations(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return _areas(panels, "token", title, simulated, width)


def _location_heat(study: LatentStudy) -> list[Heat]:
    """Layer by token, a panel for either end of the text."""
    found = {(one.layer, one.token): one.pooled.estimate for one in study.ablations.locations}
    layers = sorted({layer for layer, _ in found}, reverse=True)
    panels = []
    for name, tokens in _parts({token for _, token in found}):
        cells = tuple(tuple(_hundred(found.get((layer, token))) for token in tokens) for layer in layers)
        panels.append(Heat(f"{name} tokens", _signed(tokens), _signed(layers), cells))
    return panels


def _hundred(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _signed(numbers: Sequence[int]) -> tuple[str, ...]:
    return tuple(str(number).replace("-", "−") for number in numbers)


def _drawn_heat(panels: Sequence[Heat], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return heat_figure(
        panels, columns=1, title=title, x="token", y="layer", simulated=simulated, width=width,
        note="AUC, %; chance is 50; intervals: see the table `locations`",
    )  # fmt: skip


def _temperatures(study: LatentStudy) -> list[Heat]:
    found = {(one.trained, one.measured): one.area.estimate for one in study.ablations.temperatures}
    trained, measured = (sorted({key[at] for key in found}) for at in (0, 1))
    names = [tuple(f"{degree:g}" for degree in own) for own in (measured, trained)]
    cells = tuple(tuple(_hundred(found.get((a, b))) for b in measured) for a in trained)
    return [Heat(study.dataset, names[0], names[1], cells)] if found else []


def _drawn_temperatures(panels: Sequence[Heat], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return heat_figure(
        panels, columns=1, title=title, x="measured at", y="trained at", simulated=simulated, width=width,
        note="mean AUC of classifiers of one place each, %; intervals: see the table `temperatures`",
    )  # fmt: skip


def _models(study: LatentStudy) -> list[Panel]:
    """The median of the seeds over the tokens, with the ends of what they reach."""
    curves = []
    for model in dict.fromkeys(one.model for one in study.ablations.models):
        own = sorted((one for one in study.ablations.models if one.model == model), key=lambda one: one.token)
        tokens, medians = tuple(one.token for one in own), tuple(one.median for one in own)
        ends = tuple(one.least for one in own), tuple(one.most for one in own)
        curves.append(PlottedCurve(model, tokens, medians, *ends))
    return [("", curves)] if curves else []


def _drawn_models(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    note = "lines: medians of the seeds; bands: their lowest and highest; intervals: see the table `classifiers`"
    return _areas(panels, "token", title, simulated, width, note)


def _suffixes(study: LatentStudy) -> list[Panel]:
    found, curves = study.ablations.suffixes, []
    for name, key in (("log-probability of the last k tokens", "logprob"), ("states of the last k tokens", "states")):
        own = [(one.length, getattr(one, key)) for one in found if getattr(one, key) is not None]
        if own:
            curves.append(curve_of(name, [length for length, _ in own], [area for _, area in own]))
    return [("", curves)] if curves else []


def _drawn_suffixes(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return _areas(panels, "tokens of the suffix, k", title, simulated, width)


def _votes(study: LatentStudy) -> list[Panel]:
    """Over the temperature, a panel for each number of votes."""
    panels: list[Panel] = []
    for votes in sorted({one.votes for one in study.ablations.votes}):
        own = sorted((one for one in study.ablations.votes if one.votes == votes), key=lambda one: one.temperature)
        if votes & (votes - 1) == 0:
            name = "1 sample" if votes == 1 else f"majority of {votes}"
            line = curve_of("majority voting", [one.temperature for one in own], [one.accuracy for one in own])
            panels.append((name, [line]))
    return panels


def _drawn_votes(panels: Sequence[Panel], title: str, simulated: bool, width: float = WIDTH) -> Figure:
    ticks = sorted({at for _, curves in panels for curve in curves for at in curve.k})
    return curves_figure(
        panels, title=title, x="temperature", ticks=ticks, doubling=False, simulated=simulated, width=width,
        note=BANDS,
    )  # fmt: skip


PAPER_FIGURES: Figures = {
    "figure_1_locations": StudyFigure("AUC by place", _locations, _drawn_locations),
    "figure_1_heat_map": StudyFigure("AUC by layer and token", _location_heat, _drawn_heat),
    "figure_2_and_8_temperatures": StudyFigure("Transfer between temperatures", _temperatures, _drawn_temperatures),
    **STRATEGY_FIGURES,
    "figure_9_classifiers": StudyFigure("Kinds of classifiers", _models, _drawn_models),
    "figure_11_suffixes": StudyFigure("AUC by length of the suffix", _suffixes, _drawn_suffixes),
    "figure_12_votes": StudyFigure("Majority voting by temperature", _votes, _drawn_votes),
}


SCALE = 100.0


def _behind(study: LatentStudy, over: str) -> list[PolicyDifference]:
    """Every other signal's area less the verifier's, the largest first."""
    pool, found = study.main, []
    if pool.single and over == WITHIN:
        return []
    for key, one in pool.signals.items():
        less = pool.less(one, over, study.asked.settings.level)
        if one is not pool.latent and less.difference is not None:
            low, high = (None if end is None else -SCALE * end for end in (less.high, less.low))
            found.append(PolicyDifference(one.told(key), -SCALE * less.difference, low, high))
    return sorted(found, key=lambda one: -one.difference)


def _draw(rows: Sequence[PolicyDifference], quality: str, title: str, simulated: bool, width: float = WIDTH) -> Figure:
    return forest_figure(
        rows, baseline="the latent verifier", quality=quality, unit="hundredths", title=title, simulated=simulated,
        width=width, note="intervals of each difference by itself, by question or cluster",
    )  # fmt: skip


WORTH_FIGURES: Figures = {
    "signals": StudyFigure("Other signals", partial(_behind, over=POOLED), partial(_draw, quality="AUC")),
    "signals_within": StudyFigure(
        "Other signals within questions", partial(_behind, over=WITHIN), partial(_draw, quality="AUC within questions")
    ),
}
