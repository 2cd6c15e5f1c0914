"""Fitting a verifier on traces of a log, and scoring all of its traces, none by a model that has seen its question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import CONDITION, matching
from replay.latent.folds import assign_folds, parts_of
from replay.latent.model_rows import ModelRows
from replay.latent.models import MODELS, Document
from replay.latent.state_rows import StateRows, find_states
from replay.latent.traced_values import NO_FOLD, Traces, read_traces
from replay.latent.verifier_settings import AGGREGATES, EACH, ONE, STATES, VerifierSettings
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, argument, counted
from toolkit.log import TAKES, AnyLog, Log, collect, open_log
from toolkit.notes import Note, note, warning

RARE = 0.1
"""Share of the training rows under which a class is warned of."""


@dataclass(frozen=True, eq=False)
class FittedVerifier:
    """A verifier with its scores.

    `scores`: rows of `verifications`, of traces of `pools`. `models`: those that saw all that was trained on, one or
    one for each place; `fold_models`: of the folds. `trained`: the examples' ids; `rows`: what the models were trained
    on, at all places together; `seconds`: of training and of scoring, by name.
    """

    settings: VerifierSettings
    train_on: str
    states: str
    columns: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    models: tuple[Document, ...]
    fold_models: tuple[tuple[Document, ...], ...]
    scores: pl.DataFrame
    pools: tuple[str, ...]
    trained: pl.Series
    rows: int
    right: float
    folds: int
    seconds: Mapping[str, float]
    notes: tuple[Note, ...]

    @property
    def verifiers(self) -> tuple[str, ...]:
        """What the verifiers are called: one, or one for each place."""
        return _verifiers(self.settings, self.places)


@checks_arguments(log=TAKES, train_on=CONDITION, settings="a `VerifierSettings`")
def fit_verifier(log: AnyLog, train_on: str, settings: VerifierSettings) -> FittedVerifier:
    """Fit a verifier on the judged traces of the examples in the SQL condition `train_on`, and score all that it can.

    Questions that were trained on, and copies of them, are scored by models of other folds alone. ThinkbackError where
    the log lacks what the settings name, or what is trained on is of one class.
    """
    log = open_log(log)
    ids = matching(log, train_on, "train_on")
    traces = read_traces(log, [name for name in settings.inputs if name != STATES], settings.pools)
    states, model = None, ""
    if STATES in settings.inputs:
        states, model = find_states(log, settings.states, settings.layers, settings.tokens, traces.keys["trace_id"])
        counts = states.counts(len(traces.right))
    else:
        counts = (~np.isnan(traces.values).all(axis=1)).astype(np.int64)
    places = states.places if states is not None else ((0, 0),)
    _check_free(log, _verifiers(settings, places))
    held = counts > 0
    chosen = traces.keys["example_id"].is_in(ids.implode()).to_numpy() & ~np.isnan(traces.right)
    trained = held & chosen
    _check_classes(traces.right[trained], train_on)
    folds = _folds(traces, trained, settings)
    parts = parts_of(folds, trained)
    for part in parts:
        _check_classes(traces.right[part], f"{train_on}, but for one fold")
    seen = np.isin(traces.group, np.unique(traces.group[trained]))
    scored = held & ~(seen & (folds == NO_FOLD))
    fits, table, seconds = _fitted(traces, states, parts, folds, scored, settings)
    rows = int(counts[trained].sum())
    share = float(traces.right[trained] @ counts[trained]) / rows
    return FittedVerifier(
        settings=settings,
        train_on=train_on,
        states=model,
        columns=traces.names,
        places=places,
        models=tuple(of_place[-1] for of_place in fits),
        fold_models=tuple(tuple(of_place[:-1]) for of_place in fits),
        scores=_score_rows(traces, table, folds, places, settings, seconds["scoring"]),
        pools=tuple(traces.keys["pool"].filter(pl.Series(scored)).unique().sort()),
        trained=traces.keys["example_id"].filter(pl.Series(trained)).unique().sort(),
        rows=rows,
        right=share,
        folds=len(parts) - 1,
        seconds=seconds,
        notes=tuple(_notes(traces, held, chosen, scored, share, settings)),
    )


def _verifiers(settings: VerifierSettings, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    if settings.places != EACH:
        return (settings.name,)
    return tuple(f"{settings.name}:{layer}:{token}" for layer, token in places)


def _check_free(log: Log, names: Sequence[str]) -> None:
    """ThinkbackError where the log has a verifier of one of these names."""
    known = set(collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"])
    for name in names:
        if name in known:
            raise ThinkbackError(f"the log has a verifier `{name}`: give another {argument('name')}")


def _check_classes(right: np.ndarray, where: str) -> None:
    if not len(right):
        raise ThinkbackError(
            f"{argument('train_on')} ({where}) holds on no judged trace that has an input: take others"
        )
    if right.min() == right.max():
        told = "right" if right[0] else "wrong"
        raise ThinkbackError(f"all {len(right):,} traces of {argument('train_on')} ({where}) are {told}: take others")


def _folds(traces: Traces, trained: np.ndarray, settings: VerifierSettings) -> np.ndarray:
    if not settings.folds and (traces.fold == NO_FOLD).all():
        return np.full(len(traces.right), NO_FOLD)
    return assign_folds(traces, trained, settings.folds, settings.seed)


def _fitted(
    traces: Traces, states: StateRows | None, parts: Sequence[np.ndarray], folds: np.ndarray, scored: np.ndarray,
    settings: VerifierSettings,
) -> tuple[list[list[Document]], np.ndarray, dict[str, float]]:  # fmt: skip
    """The models of each set of places, the last of each having seen all; scores (N, places), NaN where none is; and
    the seconds of both.
    """
    kind, trained = MODELS[settings.model], parts[-1]
    joint = settings.places == ONE
    sets: list[int | None] = [None] if joint or states is None else list(range(len(states.places)))
    table = np.full((len(traces.right), len(states.places) if states is not None else 1), np.nan)
    who = np.where(folds == NO_FOLD, len(parts) - 1, folds)
    fits, seconds = [], {"training": 0.0, "scoring": 0.0}
    for place in sets:

        def rows(keep: np.ndarray, place: int | None = place) -> ModelRows:
            own = states.only(keep, place) if states is not None else None
            return ModelRows(traces, own, keep, told=joint and states is not None)

        began = time.monotonic()
        fits.append(kind.fit(rows(trained), traces.right, parts, traces.group, settings))
        fitted = time.monotonic()
        score_rows(rows(scored), [kind.scorer(model) for model in fits[-1]], who, table)
        seconds["training"] += fitted - began
        seconds["scoring"] += time.monotonic() - fitted
    return fits, table, seconds


def score_rows(rows: ModelRows, scorers: Sequence[Any], who: np.ndarray, table: np.ndarray) -> None:
    """Fill `table` (N, places) with the scores of rows, each by the scorer that `who` (N,) names for its trace."""
    for batch in rows.batches(who):
        by = who[batch.trace]
        ends = [0, *(np.flatnonzero(np.diff(by)) + 1).tolist(), len(by)]
        for start, end in pairwise(ends):
            own = slice(start, end)
            table[batch.trace[own], batch.place[own]] = scorers[by[start]](batch.values[own])


def _score_rows(
    traces: Traces, table: np.ndarray, folds: np.ndarray, places: Sequence[tuple[int, int]],
    settings: VerifierSettings, seconds: float,
) -> pl.DataFrame:  # fmt: skip
    """Rows of `verifications`: a state costs no tokens; the seconds of scoring are shared alike."""
    names = _verifiers(settings, places)
    known, scores = ~np.isnan(table).all(axis=1), table
    if settings.places != EACH:
        scores = np.full((len(table), 1), np.nan)
        scores[known, 0] = AGGREGATES[settings.aggregate](table[known], axis=1)
    each = seconds / max(1, int((~np.isnan(scores)).sum()))
    frames = [
        traces.keys.select(
            "trace_id",
            "example_id",
            verifier=pl.lit(name),
            score=pl.Series(scores[:, at]).fill_nan(None),
            fold=pl.Series(folds, dtype=pl.Int32).replace(NO_FOLD, None),
            prompt_tokens=pl.lit(0, pl.Int32),
            completion_tokens=pl.lit(0, pl.Int32),
            latency_s=pl.lit(each, pl.Float32),
            device_s=pl.lit(each, pl.Float32),
        ).filter(pl.col("score").is_not_null())
        for at, name in enumerate(names)
    ]
    return pl.concat(frames)


def _notes(
    traces: Traces, held: np.ndarray, chosen: np.ndarray, scored: np.ndarray, share: float, settings: VerifierSettings
) -> Sequence[Note]:
    made = []
    rarer = min(share, 1 - share)
    if rarer < RARE:
        which = "right" if share < 0.5 else "wrong"
        made.append(
            warning("rare_class", f"only {rarer:.1%} of the training rows are of {which} traces: too few to learn from")
        )
    if (traces.fold != NO_FOLD).any():
        made.append(note("inherited_folds", "its folds are those of the verifiers that it reads"))
    lost = int((chosen & ~held).sum())
    if lost:
        what = "hidden states at these places" if STATES in settings.inputs else "inputs"
        made.append(note("without_inputs", f"{counted(lost, 'trace')} to train on had no {what}"))
    unscored = int((held & ~scored).sum())
    if unscored:
        made.append(
            note("unscored", f"{counted(unscored, 'trace')} of questions that were trained on got no score (no folds)")
        )
    return made
