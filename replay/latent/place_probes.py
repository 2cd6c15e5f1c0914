"""One classifier for each place of a model: how well it tells right traces, and whether it carries over to others.

As in LiLaVe (2025): a classifier reads the states of one layer and token alone. A verifier of several places is the
mean of their probabilities. Nothing here is kept; areas are measured on traces of other questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import polars as pl

from replay.latent.model_rows import NO_FOLD, ModelRows, StateRows, Traces, find_states, question_groups
from replay.latent.models import MODELS, VerifierSettings
from toolkit.log import Log, collect
from toolkit.stats import Interval, PairedInterval, unit_numbers
from toolkit.stats.curves.roc import InfluencedEstimate, grouped_auc, pooled_auc

MEMORY_BYTES = 2**29
"""How many bytes of states are in memory at a time; for further places the log is read again."""


class _PlaceRows(NamedTuple):
    """The states (n, d) of one place, in single precision, and the numbers (n,) of their traces."""

    place: int
    trace: np.ndarray
    state: np.ndarray


@dataclass(frozen=True, eq=False)
class PlacedTraces:
    """N judged first attempts whose states a model read. `keys`: trace_id, example_id, dataset, pool; `unit` (N,):
    questions that are asked alike, or are of one cluster, have one number; `right`, `train` (N,): whether a trace is
    right, and whether it is trained on (all others are measured); `left_out`: traces beyond those that are taken.
    """

    keys: pl.DataFrame
    unit: np.ndarray
    right: np.ndarray
    train: np.ndarray
    states: StateRows
    left_out: int = 0

    @property
    def places(self) -> tuple[tuple[int, int], ...]:
        return self.states.places

    @property
    def count_units(self) -> int:
        return int(self.unit.max(initial=-1)) + 1

    def has_value(self, column: str, value: object) -> np.ndarray:
        """Mask (N,) of the traces with a value in a column of the keys."""
        return (self.keys[column] == value).to_numpy()

    def states_at(self, places: Sequence[int] | None = None) -> Iterator[_PlaceRows]:
        """The states of each place, or of some by number; as many places at once as memory may hold."""
        wanted = list(range(len(self.places)) if places is None else places)
        size, width = len(self.right), self.states.width
        each = max(1, MEMORY_BYTES // max(1, 4 * size * width))
        every = np.ones(size, bool)
        for start in range(0, len(wanted), each):
            chunk = wanted[start : start + each]
            column = np.full(len(self.places), -1)
            column[chunk] = np.arange(len(chunk))
            held = np.zeros((len(chunk), size, width), np.float32)
            there = np.zeros((len(chunk), size), bool)
            for batch in self.states.rows_of_traces(every).read_batches():
                known = column[batch.place] >= 0
                where = column[batch.place[known]], batch.trace[known]
                held[where], there[where] = batch.state[known], True
            for number, place in enumerate(chunk):
                yield _PlaceRows(place, np.flatnonzero(there[number]), held[number][there[number]])


def placed_traces(
    log: Log, states: str, train: pl.Series, measured: pl.Series, most: int, seed: int = 0, *, answered: bool = False
) -> PlacedTraces | None:
    """The judged first attempts of some examples, by ids, that have states of a model; None where none has.

    At most so many of each data set, pool, and part (trained on or measured) are taken, 0 for all: those of questions
    drawn by the seed. `answered` leaves out traces without an answer. Copies of questions that are trained on are not
    measured.
    """
    known = train.implode(), measured.implode()
    examples = log.scan("examples", ["example_id", "dataset"]).filter(
        pl.col("example_id").is_in(known[0]) | pl.col("example_id").is_in(known[1])
    )
    rows = log.scan("traces", ["trace_id", "example_id", "pool", "action", "answer", "correct"]).filter(
        pl.col("action") == "solve", pl.col("correct").is_not_null(), pl.col("answer").is_not_null() | (not answered)
    )
    with_states = log.scan(f"hidden_states/{states}", ["trace_id"]).unique()
    frame = collect(rows.join(examples, on="example_id").join(with_states, on="trace_id", how="semi"), log)
    frame = frame.join(question_groups(log), on="example_id").with_columns(train=pl.col("example_id").is_in(known[0]))
    seen = frame.filter("train")["group"].unique()
    frame = frame.filter(pl.col("train") | ~pl.col("group").is_in(seen.implode()))
    if frame.is_empty():
        return None
    sample = (_drawn_rows(frame, most, seed) if most else frame).sort("trace_id")
    state_rows, _ = find_states(log, states, (), (), sample["trace_id"])
    return PlacedTraces(
        keys=sample.select("trace_id", "example_id", "dataset", "pool"),
        unit=unit_numbers(sample["group"]),
        right=sample["correct"].to_numpy().astype(bool),
        train=sample["train"].to_numpy(),
        states=state_rows,
        left_out=frame.height - sample.height,
    )


def _drawn_rows(frame: pl.DataFrame, most: int, seed: int) -> pl.DataFrame:
    """The first traces of each data set, pool and part, question by question in an order drawn by the seed."""
    groups = frame["group"].unique().sort()
    order = pl.Series("order", np.random.default_rng(seed).permutation(len(groups)))
    ranked = frame.join(pl.DataFrame({"group": groups, "order": order}), on="group").sort("order", "trace_id")
    return ranked.filter(pl.int_range(pl.len()).over("dataset", "pool", "train") < most)


def restrict_traces(traces: PlacedTraces, on: np.ndarray) -> PlacedTraces:
    """The placed traces in a mask (N,) alone."""
    number = np.where(on, np.cumsum(on) - 1, -1)
    state_rows = traces.states.rows_of_traces(on)
    groups = tuple(
        (file, at, np.where(trace >= 0, number[trace], -1), place) for file, at, trace, place in state_rows.groups
    )
    return replace(
        traces,
        keys=traces.keys.filter(pl.Series(on)),
        unit=unit_numbers(traces.unit[on]),
        right=traces.right[on],
        train=traces.train[on],
        states=replace(state_rows, groups=groups),
    )


FEWEST = 20
"""The fewest traces that a classifier is trained on."""
PROBE = VerifierSettings("probe", folds=0)
"""XGBoost with the defaults of `fit-verifier`."""


@dataclass(frozen=True)
class PlaceAuc:
    """The quality of one place's classifier: its area over all traces, and within questions."""

    layer: int
    token: int
    traces: int
    pooled: Interval
    within: Interval


def _probe_scores(
    state: np.ndarray, right: np.ndarray, unit: np.ndarray, train: np.ndarray, mask: np.ndarray,
    settings: VerifierSettings = PROBE,
) -> np.ndarray | None:  # fmt: skip
    """Probabilities of being right for the states in `mask` (n,), by a model of the states in `train` (n,).

    None where too few of them are trained on, or all are of one class.
    """
    if train.sum() < FEWEST or right[train].all() or not right[train].any():
        return None
    labels = right.astype(np.float64)
    rows = Traces(pl.DataFrame(), unit, labels, state, (), np.full(len(state), NO_FOLD))
    kind = MODELS[settings.model]
    (model,) = kind.fit(ModelRows(rows, None, train, with_places=False), labels, [train], unit, settings)
    return np.asarray(kind.scorer(model)(state[mask]), np.float64)


def score_table(
    traces: PlacedTraces, train: np.ndarray, rows: Iterable[_PlaceRows], settings: VerifierSettings = PROBE
) -> np.ndarray:
    """Scores (N, P) of the measured traces by each place's classifier, fitted on the traces in `train` (N,).

    `rows`: the states of the places that are asked for. NaN at others, and where a trace has no state; of traces to
    train on there are none: in-sample scores tell nothing.
    """
    return score_tables(traces, [train], rows, settings)[0]


def score_tables(
    traces: PlacedTraces, trains: Sequence[np.ndarray], rows: Iterable[_PlaceRows],
    settings: VerifierSettings | Sequence[VerifierSettings] = PROBE,
) -> list[np.ndarray]:  # fmt: skip
    """The scores of `score_table` for several training masks with their settings; each place is read once."""
    each = [settings] * len(trains) if isinstance(settings, VerifierSettings) else settings
    tables = [np.full((len(traces.right), len(traces.places)), np.nan) for _ in trains]
    for place, trace, state in rows:
        mask, right, unit = ~traces.train[trace], traces.right[trace], traces.unit[trace]
        for table, train, fit in zip(tables, trains, each, strict=True):
            scores = _probe_scores(state, right, unit, train[trace], mask, fit)
            if scores is not None:
                table[trace[mask], place] = scores
    return tables


def mean_score_over_places(table: np.ndarray, places: Sequence[int] | None = None) -> np.ndarray:
    """The mean (N,) of a trace's scores (N, P) at some places; NaN where it has none."""
    columns = table if places is None else table[:, list(places)]
    count = (~np.isnan(columns)).sum(axis=1)
    return np.where(count > 0, np.nansum(columns, axis=1) / np.maximum(count, 1), np.nan)


def pooled_auc_of_score(traces: PlacedTraces, score: np.ndarray, on: np.ndarray) -> InfluencedEstimate:
    """The area under the curve over all scored traces of a mask (N,)."""
    return pooled_auc(np.where(on, score, np.nan), traces.right, traces.unit, traces.count_units)


def auc_within_questions(traces: PlacedTraces, score: np.ndarray, on: np.ndarray) -> InfluencedEstimate:
    """The mean area under the curve within questions, over the scored traces of a mask (N,)."""
    names = traces.keys["example_id"].to_numpy()
    return grouped_auc(np.where(on, score, np.nan), traces.right, names, traces.unit, traces.count_units)


def mean_auc(areas: Sequence[InfluencedEstimate]) -> InfluencedEstimate:
    """The mean of several areas on the same questions, without those that are unknown."""
    known = [area for area in areas if not np.isnan(area.estimate)]
    if not known:
        return InfluencedEstimate(np.nan, np.zeros(len(areas[0].influence) if areas else 0), 0)
    influence = np.mean([one.influence for one in known], axis=0)
    return InfluencedEstimate(
        float(np.mean([one.estimate for one in known])), influence, max(one.units for one in known)
    )


def auc_by_place(traces: PlacedTraces, table: np.ndarray, level: float = 0.95) -> tuple[PlaceAuc, ...]:
    """The quality of each place on the measured traces, by layer and token."""
    on, areas = ~traces.train, []
    for place, (layer, token) in enumerate(traces.places):
        score = table[:, place]
        if not np.isnan(score[on]).all():
            influences = pooled_auc_of_score(traces, score, on), auc_within_questions(traces, score, on)
            count = int((on & ~np.isnan(score)).sum())
            areas.append(PlaceAuc(layer, token, count, *(influence.interval(level) for influence in influences)))
    return tuple(areas)


def transfer_aucs(
    traces: PlacedTraces, parts: Mapping[str, np.ndarray], places: Sequence[int], settings: VerifierSettings = PROBE,
    *, together: bool = False, trained_on: Mapping[str, np.ndarray] | None = None,
) -> dict[tuple[str, str], InfluencedEstimate]:  # fmt: skip
    """Areas by (part trained on, part measured); `parts` are masks (N,) of traces by name.

    The mean of the areas of the classifiers of each place; `together`: the area of their mean score. `trained_on`: the
    training traces of each part, by default all of them. Parts without enough to train on, or without right and wrong
    traces to measure, are left out.
    """
    areas: dict[tuple[str, str], InfluencedEstimate] = {}
    trains = [inside & traces.train if trained_on is None else trained_on[name] for name, inside in parts.items()]
    for trained, table in zip(parts, score_tables(traces, trains, traces.states_at(places), settings), strict=True):
        for measured, outside in parts.items():
            on = outside & ~traces.train
            scores = [mean_score_over_places(table, places)] if together else [table[:, place] for place in places]
            area = mean_auc([pooled_auc_of_score(traces, score, on) for score in scores])
            if not np.isnan(area.estimate):
                areas[trained, measured] = area
    return areas


def transfer_auc_gaps(
    areas: Mapping[tuple[str, str], InfluencedEstimate], level: float = 0.95
) -> dict[tuple[str, str], PairedInterval]:
    """How much better a classifier trained on the measured part itself is than one trained on another part.

    `areas` are those of `transfer_aucs`. What was trained on the measured part itself has no difference.
    """
    return {
        (trained, measured): areas[measured, measured].difference_to(area, level)
        for (trained, measured), area in areas.items()
        if trained != measured and (measured, measured) in areas
    }


SHARES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of right traces to train on."""
HALVINGS = 5
"""How many times the number of training questions is halved."""
MOST_OF_ALL = 0.8
"""The share of the training questions that each seed draws, to compare models."""


@dataclass(frozen=True)
class SeededAuc:
    """The areas of several seeds: median and range, and mean with its interval.

    `size`: what the training rows were (their number of questions, or their share of right traces); `rows`: of traces.
    """

    size: float
    rows: int
    median: float
    least: float
    most: float
    mean: Interval


@dataclass(frozen=True)
class ModelAuc(SeededAuc):
    """The areas of one kind of model at one token, with `size` questions to train on."""

    model: str
    layer: int
    token: int


def _auc_over_seeds(areas: Sequence[InfluencedEstimate], level: float) -> tuple[float, float, float, Interval] | None:
    known = [area.estimate for area in areas if not np.isnan(area.estimate)]
    if not known:
        return None
    return float(np.median(known)), min(known), max(known), mean_auc(areas).interval(level)


def _draw_questions(traces: PlacedTraces, count: int, seed: int) -> np.ndarray:
    """Mask (N,) of the training traces of `count` questions, drawn by the seed; more hold those of fewer."""
    known = np.unique(traces.unit[traces.train])
    drawn = np.random.default_rng(seed).permutation(known)[:count]
    return np.asarray(traces.train & np.isin(traces.unit, drawn))


def equal_training_parts(traces: PlacedTraces, parts: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Part -> a mask (N,) of training traces, equally many for each part, drawn by the seed from equally many
    questions.
    """
    order = np.random.default_rng(seed).permutation(len(traces.right))
    inside = {name: order[(part & traces.train)[order]] for name, part in parts.items()}
    least = min(len(drawn) for drawn in inside.values())
    masks = {}
    for name, drawn in inside.items():
        turn = pl.DataFrame({"unit": traces.unit[drawn]}).select(pl.int_range(pl.len()).over("unit")).to_series()
        masks[name] = np.zeros(len(traces.right), bool)
        masks[name][drawn[np.argsort(turn.to_numpy(), kind="stable")[:least]]] = True
    return masks


def _draw_rows_by_right_share(traces: PlacedTraces, share: float, rows: int, seed: int) -> np.ndarray:
    """Mask (N,) of `rows` training traces of which a share is right, drawn by the seed."""
    rng = np.random.default_rng(seed)
    right, wrong = (
        rng.permutation(np.flatnonzero(traces.train & is_right)) for is_right in (traces.right, ~traces.right)
    )
    count = round(share * rows)
    mask = np.zeros(len(traces.right), bool)
    mask[np.concatenate([right[:count], wrong[: rows - count]])] = True
    return mask


def _training_rows_for_shares(traces: PlacedTraces, shares: Sequence[float] = SHARES) -> int:
    """The largest number of training traces with which every share of right ones is possible."""
    right, wrong = int((traces.train & traces.right).sum()), int((traces.train & ~traces.right).sum())
    return int(min(min(right / share, wrong / (1 - share)) for share in shares))


def auc_by_training_questions(
    traces: PlacedTraces, places: Sequence[int], seeds: int, level: float = 0.95
) -> Iterator[SeededAuc]:
    """The quality of a verifier of some places by the number of training questions: all, half, a quarter, …"""
    whole = len(np.unique(traces.unit[traces.train]))
    yield from _auc_by_training_size(traces, places, {
        count: [_draw_questions(traces, count, seed) for seed in range(seeds if count < whole else 1)]
        for count in sorted({whole >> halved for halved in range(HALVINGS)})
    }, level)  # fmt: skip


def auc_by_right_share(
    traces: PlacedTraces, places: Sequence[int], seeds: int, level: float = 0.95
) -> Iterator[SeededAuc]:
    """The quality of a verifier of some places by the share of right traces among equally many to train on."""
    rows = _training_rows_for_shares(traces)
    drawn = {share: [_draw_rows_by_right_share(traces, share, rows, seed) for seed in range(seeds)] for share in SHARES}
    yield from _auc_by_training_size(traces, places, drawn, level)


def _auc_by_training_size(
    traces: PlacedTraces, places: Sequence[int], drawn: Mapping[float, Sequence[np.ndarray]], level: float
) -> Iterator[SeededAuc]:
    tables = iter(score_tables(traces, [mask for masks in drawn.values() for mask in masks], traces.states_at(places)))
    for size, masks in drawn.items():
        areas = [pooled_auc_of_score(traces, mean_score_over_places(next(tables)), ~traces.train) for _ in masks]
        if (spread := _auc_over_seeds(areas, level)) is not None:
            yield SeededAuc(size, int(masks[0].sum()), *spread)


def auc_by_model_kind(
    traces: PlacedTraces, places: Sequence[int], models: Sequence[str], seeds: int, level: float = 0.95
) -> Iterator[ModelAuc]:
    """The quality of classifiers of one place by the kind of model, each seed on the questions that it draws."""
    count = max(1, round(MOST_OF_ALL * len(np.unique(traces.unit[traces.train]))))
    samples = [_draw_questions(traces, count, seed) for seed in range(seeds)]
    areas: dict[tuple[str, int], list[InfluencedEstimate]] = {
        (model, place): [] for model in models for place in places
    }
    fits = [(train, replace(PROBE, model=model, seed=seed)) for seed, train in enumerate(samples) for model in models]
    tables = score_tables(traces, [train for train, _ in fits], traces.states_at(places), [probe for _, probe in fits])
    for (_, settings), table in zip(fits, tables, strict=True):
        for place in places:
            areas[settings.model, place].append(pooled_auc_of_score(traces, table[:, place], ~traces.train))
    for (model, place), seed_areas in areas.items():
        layer, token = traces.places[place]
        summary = _auc_over_seeds(seed_areas, level)
        if summary is not None:
            yield ModelAuc(count, int(samples[0].sum()), *summary, model, layer, token)
