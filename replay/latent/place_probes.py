"""One classifier a place: how well each tells right traces, and how it carries over to other traces.

As in LiLaVe (2025): a classifier reads the states of one layer and token alone. A verifier of several places is the
mean of their probabilities. Nothing here is kept; areas are measured on traces of other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.latent.model_rows import ModelRows
from replay.latent.models import MODELS
from replay.latent.placed_traces import PlacedTraces, PlaceRows
from replay.latent.traced_values import NO_FOLD, Traces
from replay.latent.verifier_settings import VerifierSettings
from toolkit.stats import Interval, PairedInterval
from toolkit.stats.curves.roc import Influenced, pooled_area, within_area

FEWEST = 20
"""Traces to train on below which nothing is fitted."""
PROBE = VerifierSettings("probe", folds=0)
"""XGBoost with the defaults of `fit-verifier`."""


@dataclass(frozen=True)
class PlaceArea:
    """What the classifier of one place is worth: its area over all traces and within questions."""

    layer: int
    token: int
    traces: int
    pooled: Interval
    within: Interval


def _probe_scores(
    state: np.ndarray, right: np.ndarray, unit: np.ndarray, train: np.ndarray, asked: np.ndarray,
    settings: VerifierSettings = PROBE,
) -> np.ndarray | None:  # fmt: skip
    """Probabilities of being right of the states (n, d) in the mask `asked` (n,) by a model of those in `train` (n,).

    None where too few of them are trained on, or all are of one class.
    """
    if train.sum() < FEWEST or right[train].all() or not right[train].any():
        return None
    labels = right.astype(np.float64)
    rows = Traces(pl.DataFrame(), unit, labels, state, (), np.full(len(state), NO_FOLD))
    kind = MODELS[settings.model]
    (model,) = kind.fit(ModelRows(rows, None, train, told=False), labels, [train], unit, settings)
    return np.asarray(kind.scorer(model)(state[asked]), np.float64)


def score_table(
    traces: PlacedTraces, train: np.ndarray, rows: Iterable[PlaceRows], settings: VerifierSettings = PROBE
) -> np.ndarray:
    """Scores (N, P) of the measured traces by the classifier of each place, fitted on the traces of a mask (N,).

    `rows`: the states of the places that are asked for. NaN at others, and where a trace has no state; of traces to
    train on there are none: in-sample scores tell nothing.
    """
    table = np.full((len(traces.right), len(traces.places)), np.nan)
    for place, trace, state in rows:
        asked = ~traces.train[trace]
        scores = _probe_scores(state, traces.right[trace], traces.unit[trace], train[trace], asked, settings)
        if scores is not None:
            table[trace[asked], place] = scores
    return table


def joint(table: np.ndarray, places: Sequence[int] | None = None) -> np.ndarray:
    """The mean (N,) of the scores (N, P) that a trace has at some places, NaN where it has none."""
    own = table if places is None else table[:, list(places)]
    count = (~np.isnan(own)).sum(axis=1)
    return np.where(count > 0, np.nansum(own, axis=1) / np.maximum(count, 1), np.nan)


def pooled(traces: PlacedTraces, score: np.ndarray, on: np.ndarray) -> Influenced:
    """The area over the scored traces of a mask (N,)."""
    return pooled_area(np.where(on, score, np.nan), traces.right, traces.unit, traces.units)


def within(traces: PlacedTraces, score: np.ndarray, on: np.ndarray) -> Influenced:
    """The mean area within questions, over the scored traces of a mask (N,)."""
    names = traces.keys["example_id"].to_numpy()
    return within_area(np.where(on, score, np.nan), traces.right, names, traces.unit, traces.units)


def mean_area(areas: Sequence[Influenced]) -> Influenced:
    """The mean of several areas on the same questions; of those that are known."""
    known = [one for one in areas if not np.isnan(one.estimate)]
    if not known:
        return Influenced(np.nan, np.zeros(len(areas[0].influence) if areas else 0), 0)
    influence = np.mean([one.influence for one in known], axis=0)
    return Influenced(float(np.mean([one.estimate for one in known])), influence, max(one.units for one in known))


def location_map(traces: PlacedTraces, table: np.ndarray, level: float = 0.95) -> tuple[PlaceArea, ...]:
    """What each place is worth on the measured traces, by layer and token."""
    on, made = ~traces.train, []
    for place, (layer, token) in enumerate(traces.places):
        score = table[:, place]
        if not np.isnan(score[on]).all():
            told = pooled(traces, score, on), within(traces, score, on)
            count = int((on & ~np.isnan(score)).sum())
            made.append(PlaceArea(layer, token, count, *(one.interval(level) for one in told)))
    return tuple(made)


def transfer(
    traces: PlacedTraces, parts: Mapping[str, np.ndarray], places: Sequence[int], settings: VerifierSettings = PROBE,
    *, together: bool = False, trained_on: Mapping[str, np.ndarray] | None = None,
) -> dict[tuple[str, str], Influenced]:  # fmt: skip
    """Areas by what was trained on and what was measured, both of the `parts`: masks (N,) by name.

    The mean of the areas of the classifiers of each place; `together`: the area of their mean score. `trained_on`: the
    training traces of each part, by default all of them. Parts without enough to train on, or without right and wrong
    traces to measure, are left out.
    """
    found: dict[tuple[str, str], Influenced] = {}
    held = list(traces.at(places))
    for trained, inside in parts.items():
        train = inside & traces.train if trained_on is None else trained_on[trained]
        table = score_table(traces, train, held, settings)
        for measured, outside in parts.items():
            on = outside & ~traces.train
            scores = [joint(table, places)] if together else [table[:, place] for place in places]
            area = mean_area([pooled(traces, score, on) for score in scores])
            if not np.isnan(area.estimate):
                found[trained, measured] = area
    return found


def own_less(areas: Mapping[tuple[str, str], Influenced], level: float = 0.95) -> dict[tuple[str, str], PairedInterval]:
    """How far what was trained on the part that is measured is above what was trained on another, on the same traces.

    `areas` are those of `transfer`. What was trained on the measured part itself has no difference.
    """
    return {
        (trained, measured): areas[measured, measured].minus(area, level)
        for (trained, measured), area in areas.items()
        if trained != measured and (measured, measured) in areas
    }
