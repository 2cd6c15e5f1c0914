"""Fitting a verifier on traces of a log, and scoring all of its traces, none by a model that has seen its question.

A verifier that reads scores of others in folds is fitted on scores by models that saw neither fold (nested).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import ids_where
from replay.data.fitted_scores import FitRecord, TrainedOn, fitted_verifiers, fold_of_each_example
from replay.latent.model_rows import MOST_NAMED, NO_FOLD, ModelRows, StateRows, Traces, find_states, read_traces
from replay.latent.models import AGGREGATES, EACH, MODELS, ONE, STATES, Document, VerifierSettings
from replay.latent.reading_costs import reading_cost_notes, reading_costs
from replay.runs.passes.reuse import question_hashes
from toolkit.arguments import checks_arguments
from toolkit.errors import ConflictError, EmptyError, LeakageError, UnsuitableError, argument, counted
from toolkit.log import AnyLog, Log, collect, open_log
from toolkit.models import table_reader
from toolkit.notes import Note, note, warning

Values = Mapping[int, np.ndarray]
"""Subset of the traces -> the inputs (N, V) that the model fitted on it reads."""


@dataclass(frozen=True, eq=False)
class TrainingMaterial:
    """N traces with what models read of them: `states` of the model `whose`, or None; `counts` (N,): the rows of each
    trace.
    """

    settings: VerifierSettings
    traces: Traces
    states: StateRows | None
    whose: str
    counts: np.ndarray

    @property
    def has_rows(self) -> np.ndarray:
        """Mask (N,) of the traces that have a row."""
        return self.counts > 0

    @property
    def layer_token_places(self) -> tuple[tuple[int, int], ...]:
        """Layer and token of each place; without states, one place that stands for the whole trace."""
        return self.states.places if self.states is not None else ((0, 0),)

    @property
    def verifier_names(self) -> tuple[str, ...]:
        return _verifier_names(self.settings, self.layer_token_places)

    @property
    def places_of_models(self) -> list[int | None]:
        """The place that each model reads; None: all places."""
        return (
            [None] if self.settings.places == ONE or self.states is None else list(range(len(self.layer_token_places)))
        )

    def at_places(self, places: Sequence[int]) -> TrainingMaterial:
        """The material at some places alone."""
        if self.states is None:
            return self
        states = self.states.rows_at_places(places)
        return replace(self, states=states, counts=states.count_by_trace(len(self.counts)))

    def places_with_one_class(self, subsets: Sequence[np.ndarray]) -> list[int]:
        """The places at which some subset of the traces has one class, or no row, so that no model can be fitted."""
        if self.states is None or self.places_of_models == [None]:
            return []
        right, places = self.traces.right, []
        for place in range(len(self.layer_token_places)):
            there = self.states.rows_of_traces(np.ones(len(right), bool), place).count_by_trace(len(right)) > 0
            if any(len(np.unique(right[subset & there])) < 2 for subset in subsets):
                places.append(place)
        return places

    def model_rows(self, keep: np.ndarray, place: int | None, values: np.ndarray | None = None) -> ModelRows:
        """The rows of some traces (N,), at one place or at all; `values`, if given, instead of the traces' own."""
        traces = self.traces if values is None else replace(self.traces, values=values)
        states = self.states.rows_of_traces(keep, place) if self.states is not None else None
        return ModelRows(traces, states, keep, with_places=self.settings.places == ONE and self.states is not None)

    def fit_models(self, subsets: Sequence[np.ndarray], values: Values | None = None) -> list[list[Document]]:
        """A model for each set of places and each subset of the traces."""
        kind, right, group = MODELS[self.settings.model], self.traces.right, self.traces.group
        if not values:
            whole = np.logical_or.reduce(subsets)
            return [
                kind.fit(self.model_rows(whole, p), right, subsets, group, self.settings) for p in self.places_of_models
            ]
        return [
            [
                kind.fit(self.model_rows(subset, place, values.get(number)), right, [subset], group, self.settings)[0]
                for number, subset in enumerate(subsets)
            ]
            for place in self.places_of_models
        ]

    def score_traces(
        self, fits: Sequence[Sequence[Document]], who: np.ndarray, keep: np.ndarray, values: np.ndarray | None = None
    ) -> np.ndarray:
        """Scores (N, names) of some traces (N,), each by the models of the subset that `who` (N,) names; NaN of others
        and where there are no rows.
        """
        kind = MODELS[self.settings.model]
        table = np.full((len(keep), len(self.layer_token_places)), np.nan)
        for place, models in zip(self.places_of_models, fits, strict=True):
            score_rows(self.model_rows(keep, place, values), [kind.scorer(model) for model in models], who, table)
        if self.settings.places == EACH:
            return table
        known, scores = ~np.isnan(table).all(axis=1), np.full((len(table), 1), np.nan)
        scores[known, 0] = AGGREGATES[self.settings.aggregate](table[known], axis=1)
        return scores


def _verifier_names(settings: VerifierSettings, places: Sequence[tuple[int, int]]) -> tuple[str, ...]:
    if settings.places != EACH:
        return (settings.name,)
    return tuple(f"{settings.name}:{layer}:{token}" for layer, token in places)


def _read_material(log: Log, settings: VerifierSettings) -> TrainingMaterial:
    """The traces of some pools, with what the verifier reads. ThinkbackError where the log lacks it."""
    traces = read_traces(log, [name for name in settings.inputs if name != STATES], settings.pools)
    if STATES not in settings.inputs:
        return TrainingMaterial(settings, traces, None, "", (~np.isnan(traces.values).all(axis=1)).astype(np.int64))
    ids = traces.keys["trace_id"]
    states, whose = find_states(log, settings.states, settings.layers, settings.tokens, ids)
    return TrainingMaterial(settings, traces, states, whose, states.count_by_trace(len(ids)))


def score_rows(rows: ModelRows, scorers: Sequence[Any], scorer_number: np.ndarray, table: np.ndarray) -> None:
    """Fill `table` (N, places) with scores of rows, each by the scorer that `scorer_number` (N,) names for its
    trace.
    """
    for batch in rows.batches(scorer_number):
        by = scorer_number[batch.trace]
        ends = [0, *(np.flatnonzero(np.diff(by)) + 1).tolist(), len(by)]
        for start, end in pairwise(ends):
            rows_of_scorer = slice(start, end)
            table[batch.trace[rows_of_scorer], batch.place[rows_of_scorer]] = scorers[by[start]](
                batch.values[rows_of_scorer]
            )


RARE = 0.1
"""The share of the training rows below which a class gets a warning."""


@dataclass(frozen=True, eq=False)
class FittedVerifier:
    """A fitted verifier, with its models and scores.

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
        return _verifier_names(self.settings, self.places)


@checks_arguments(settings="a `VerifierSettings`")
def fit_verifier(log: AnyLog, train_on: str, settings: VerifierSettings) -> FittedVerifier:
    """Fit a verifier on the judged traces of the examples where `train_on` holds (SQL), and score all traces.

    Questions that were trained on, and copies of them, are scored by models of other folds alone. ThinkbackError where
    the log lacks what the settings name, or what is trained on is of one class.
    """
    log = open_log(log)
    ids = ids_where(log, train_on, "train_on")
    material = _read_material(log, settings)
    _check_names_are_free(log, material.verifier_names)
    dealt = _deal_training_folds(material, ids, train_on)
    material, folds, subsets = dealt.material, dealt.folds, dealt.subsets
    traces, trained = material.traces, subsets[-1]
    seen = np.isin(traces.group, np.unique(traces.group[trained]))
    scored = material.has_rows & ~(seen & (folds == NO_FOLD))
    began = time.monotonic()
    fits = material.fit_models(subsets, _out_of_fold_values(log, material, folds, len(subsets) - 1))
    fitted = time.monotonic()
    table = material.score_traces(fits, np.where(folds == NO_FOLD, len(subsets) - 1, folds), scored)
    seconds = {"training": fitted - began, "scoring": time.monotonic() - fitted}
    costs, reader = reading_costs(log, material.whose) if material.whose else (None, "")
    rows = int(material.counts[trained].sum())
    share = float(traces.right[trained] @ material.counts[trained]) / rows
    return FittedVerifier(
        settings=settings,
        train_on=train_on,
        states=material.whose,
        columns=traces.names,
        places=material.layer_token_places,
        models=tuple(of_place[-1] for of_place in fits),
        fold_models=tuple(tuple(of_place[:-1]) for of_place in fits),
        scores=_verification_rows(material, table, folds, seconds["scoring"], costs),
        pools=tuple(traces.keys["pool"].filter(pl.Series(scored)).unique().sort()),
        trained=traces.keys["example_id"].filter(pl.Series(trained)).unique().sort(),
        rows=rows,
        right=share,
        folds=len(subsets) - 1,
        seconds=seconds,
        notes=(*_notes_on_fit(dealt, scored, share), *(() if costs is None else reading_cost_notes(costs, reader))),
    )


@dataclass(frozen=True, eq=False)
class _DealtFolds:
    """The training traces in folds. `chosen` (N,): the traces asked for; `subsets`: those that each model sees, and
    last all; `lacking`: places that are left out.
    """

    material: TrainingMaterial
    chosen: np.ndarray
    folds: np.ndarray
    subsets: list[np.ndarray]
    lacking: tuple[tuple[int, int], ...]


def _deal_training_folds(material: TrainingMaterial, ids: pl.Series, train_on: str) -> _DealtFolds:
    """The training traces in folds, without the places at which some model would see one class alone."""
    traces = material.traces
    chosen = traces.keys["example_id"].is_in(ids.implode()).to_numpy() & ~np.isnan(traces.right)
    lacking: list[tuple[int, int]] = []
    while True:
        trained = material.has_rows & chosen
        _check_classes(traces.right[trained], train_on, lacking)
        folds = _folds_of_traces(traces, trained, material.settings)
        subsets = _training_subsets(folds, trained)
        for subset in subsets:
            _check_classes(traces.right[subset], f"{train_on}, but for one fold", lacking)
        out = material.places_with_one_class(subsets)
        if not out:
            return _DealtFolds(material, chosen, folds, subsets, tuple(sorted(lacking)))
        lacking += [material.layer_token_places[place] for place in out]
        material = material.at_places([place for place in range(len(material.layer_token_places)) if place not in out])


def _check_names_are_free(log: Log, names: Sequence[str]) -> None:
    """ThinkbackError where the log has a verifier of one of these names."""
    known = set(collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"])
    for name in names:
        if name in known:
            raise ConflictError(f"the log has a verifier `{name}`: give another {argument('name')}")


def _check_classes(right: np.ndarray, where: str, lacking: Sequence[tuple[int, int]]) -> None:
    if not len(right) and lacking:
        raise UnsuitableError(
            f"at each of the {counted(len(lacking), 'place')} the traces of {argument('train_on')} ({where}) that have "
            "a state are all right or all wrong: take others, or `--places one`"
        )
    if not len(right):
        raise EmptyError(f"{argument('train_on')} ({where}) selects no judged trace that has an input: take others")
    if right.min() == right.max():
        label = "right" if right[0] else "wrong"
        raise UnsuitableError(f"all {len(right):,} traces of {argument('train_on')} ({where}) are {label}: take others")


def _folds_of_traces(traces: Traces, trained: np.ndarray, settings: VerifierSettings) -> np.ndarray:
    if not settings.folds and (traces.fold == NO_FOLD).all():
        return np.full(len(traces.right), NO_FOLD)
    return _assign_folds(traces, trained, settings.folds, settings.seed)


def _verification_rows(
    material: TrainingMaterial, scores: np.ndarray, folds: np.ndarray, seconds: float, costs: pl.DataFrame | None
) -> pl.DataFrame:
    """Rows of `verifications` from scores (N, names); a score costs what reading its states cost, and a share of the
    seconds.
    """
    each = seconds / max(1, int((~np.isnan(scores)).sum()))
    keys = material.traces.keys.select("trace_id", "example_id")
    nothing = keys.select("trace_id", tokens=pl.lit(0, pl.Int32), seconds=pl.lit(0.0))
    paid = keys.join(nothing if costs is None else costs, on="trace_id", how="left", maintain_order="left")
    spent = (paid["seconds"] + each).cast(pl.Float32)
    frames = [
        material.traces.keys.select(
            "trace_id",
            "example_id",
            verifier=pl.lit(name),
            score=pl.Series(scores[:, at]).fill_nan(None),
            fold=pl.Series(folds, dtype=pl.Int32).replace(NO_FOLD, None),
            prompt_tokens=paid["tokens"],
            completion_tokens=pl.lit(0, pl.Int32),
            latency_s=spent,
            device_s=spent,
        ).filter(pl.col("score").is_not_null())
        for at, name in enumerate(material.verifier_names)
    ]
    return pl.concat(frames)


def _notes_on_fit(dealt: _DealtFolds, scored: np.ndarray, share: float) -> Sequence[Note]:
    traces, settings, held = dealt.material.traces, dealt.material.settings, dealt.material.has_rows
    notes = []
    rarer = min(share, 1 - share)
    if rarer < RARE:
        which = "right" if share < 0.5 else "wrong"
        notes.append(
            warning("rare_class", f"only {rarer:.1%} of the training rows are of {which} traces: too few to learn from")
        )
    if (traces.fold != NO_FOLD).any():
        notes.append(note("inherited_folds", "the folds are those of the verifiers among the inputs"))
    if dealt.lacking:
        places = ", ".join(f"{layer}:{token}" for layer, token in dealt.lacking[:MOST_NAMED])
        more = ", …" * (len(dealt.lacking) > MOST_NAMED)
        notes.append(
            note(
                "one_class",
                f"{counted(len(dealt.lacking), 'place')} left out, where the training rows are all right or all wrong "
                f"(layer:token {places}{more})",
            )
        )
    states = dealt.material.states
    some = int((held & (dealt.material.counts < len(states.places))).sum()) if states is not None else 0
    if some:
        count = counted(some, "trace")
        size = len(dealt.material.layer_token_places)
        notes.append(note("some_places", f"{count} have states at only some of the {size} places"))
    lost = int((dealt.chosen & ~held).sum())
    if lost:
        what = "hidden states at these places" if STATES in settings.inputs else "inputs"
        notes.append(note("without_inputs", f"{counted(lost, 'trace')} to train on have no {what}: left out"))
    unscored = int((held & ~scored).sum())
    if unscored:
        notes.append(
            note("unscored", f"{counted(unscored, 'trace')} of questions that were trained on got no score (no folds)")
        )
    return notes


def _assign_folds(traces: Traces, trained: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The fold (N,) of each trace of a question that is trained on, of whatever pool, else -1.

    `trained` (N,): the traces that are trained on. Where a score that is read was made in folds, these are taken, and
    `count` says nothing; questions without one are dealt to them. Folds have about equal shares of right traces.
    """
    known = traces.fold != NO_FOLD
    inherited = dict(zip(traces.group[known].tolist(), traces.fold[known].tolist(), strict=True))
    if any(inherited[group] != fold for group, fold in zip(traces.group[known], traces.fold[known], strict=True)):
        raise LeakageError(
            "the input scores have different folds for copies of one question, or for questions of one cluster, so "
            "no fold is unseen by all: leave them out of the inputs"
        )
    count = max(inherited.values()) + 1 if inherited else count
    groups = np.unique(traces.group[trained])
    free = np.array([group for group in groups if group not in inherited], np.int64)
    if len(groups) < max(count, 2):
        raise EmptyError(
            f"{argument('train_on')} selects {len(groups):,} questions, too few for {max(count, 2)} folds: take more"
        )
    dealt = _folds_of_questions(traces, trained & np.isin(traces.group, free), count, seed) if len(free) else {}
    of_group = dealt | inherited
    return np.array([of_group.get(group, NO_FOLD) for group in traces.group.tolist()], np.int64)


def _folds_of_questions(traces: Traces, rows: np.ndarray, count: int, seed: int) -> dict[int, int]:
    """Question -> its fold, so that folds have alike shares of right traces."""
    from sklearn.model_selection import StratifiedGroupKFold

    groups, right = traces.group[rows], traces.right[rows]
    size = len(np.unique(groups))
    if size < count:  # some questions beside those whose folds are known
        order = np.random.default_rng(seed).permutation(count)
        return dict(zip(np.unique(groups).tolist(), order[:size].tolist(), strict=True))
    if max(right.sum(), (1 - right).sum()) < count:  # too few of either class to share out
        order = np.random.default_rng(seed).permutation(size) % count
        return dict(zip(np.unique(groups).tolist(), order.tolist(), strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class in fewer questions than folds is warned of elsewhere
        dealer = StratifiedGroupKFold(count, shuffle=True, random_state=seed)
        subsets = dealer.split(np.zeros((len(right), 1)), right.astype(int), groups)
        return {int(group): fold for fold, (_, inside) in enumerate(subsets) for group in np.unique(groups[inside])}


def _training_subsets(folds: np.ndarray, trained: np.ndarray) -> list[np.ndarray]:
    """The training traces (N,) of each model: one model for each fold, without it, and a last one for all."""
    count = int(folds.max(initial=NO_FOLD)) + 1
    return [*(trained & (folds != fold) for fold in range(count)), trained]


INPUT = "verifier:"


Unseen = frozenset[int]
"""Folds that a model has not been trained on."""


def _out_of_fold_values(log: Log, material: TrainingMaterial, folds: np.ndarray, count: int) -> Values:
    """Fold -> the inputs (N, V) of traces of the other folds, by models that saw neither fold.

    Empty where nothing that is read was fitted in folds. ThinkbackError where the log does not say how it was.
    """
    inputs = _folded_inputs(log, material.settings)
    if not inputs:
        return {}
    fold_of = _fold_of_group(material, folds)
    pairs = [frozenset(pair) for pair in combinations(range(count), 2)]
    scores = {name: _scores_fitted_without_folds(log, name, pairs, fold_of) for name in inputs}
    return {
        fold: _add_score_columns(
            material,
            scores,
            [None if number in (NO_FOLD, fold) else frozenset((fold, number)) for number in folds.tolist()],
        )
        for fold in range(count)
    }


def _folded_inputs(log: Log, settings: VerifierSettings) -> tuple[str, ...]:
    verifiers = [name.removeprefix(INPUT) for name in settings.inputs if name.startswith(INPUT)]
    return tuple(fold_of_each_example(log, verifiers)["verifier"].unique().sort())


def _scores_fitted_without_folds(
    log: Log, verifier: str, unseen: Sequence[Unseen], fold_of: Mapping[int, int]
) -> dict[Unseen, dict[str, float]]:
    """Set of folds -> trace -> its score by the verifier as it would be if it had been fitted without these folds."""
    record, then = _require_fit_record(log, verifier)
    settings = _settings_of_fit_record(record, then, verifier)
    material = _read_material(log, settings)
    fitted_at = record.places or material.layer_token_places
    material = material.at_places(
        [number for number, place in enumerate(material.layer_token_places) if place in fitted_at]
    )
    ids = ids_where(log, then.where, "train_on")
    chosen = material.traces.keys["example_id"].is_in(ids.implode()).to_numpy() & ~np.isnan(material.traces.right)
    trained = material.has_rows & chosen
    _check_refit(log, material, trained, then, verifier)
    folds = np.array([fold_of.get(group, NO_FOLD) for group in material.traces.group.tolist()])
    subsets = [trained & ~np.isin(folds, list(one)) for one in unseen]
    if material.places_with_one_class(subsets) or any(
        len(np.unique(material.traces.right[subset])) < 2 for subset in subsets
    ):
        raise UnsuitableError(
            f"without two folds `{verifier}` would be fitted on traces of one class: take more with "
            f"{argument('train_on')}"
        )
    inputs = _folded_inputs(log, settings)
    needed = {one | {fold} for one in unseen for fold in set(folds.tolist()) - {NO_FOLD}}
    scores = {name: _scores_fitted_without_folds(log, name, sorted(needed, key=sorted), fold_of) for name in inputs}
    values = {
        number: _add_score_columns(
            material, scores, [one | {fold} if fold != NO_FOLD else None for fold in folds.tolist()]
        )
        for number, one in enumerate(unseen)
        if inputs
    }
    fits = material.fit_models(subsets, values)
    at = material.verifier_names.index(verifier)
    by_folds = {}
    for number, one in enumerate(unseen):
        keep = material.has_rows & np.isin(folds, list(one))
        table = material.score_traces(fits, np.full(len(keep), number), keep, values.get(number))[:, at]
        known = ~np.isnan(table)
        trace_ids = material.traces.keys["trace_id"].filter(pl.Series(known))
        by_folds[one] = dict(zip(trace_ids.to_list(), table[known].tolist(), strict=True))
    return by_folds


def _add_score_columns(
    material: TrainingMaterial, scores: Mapping[str, Mapping[Unseen, Mapping[str, float]]], by: Iterable[Unseen | None]
) -> np.ndarray:
    """The values of traces (N, V) with the scores of verifiers that have not seen the folds which `by` names for each.
    Where it names none, or there is no such score, it is missing.
    """
    values = material.traces.values.copy()
    ids, which = material.traces.keys["trace_id"].to_list(), list(by)
    for name, of_sets in scores.items():
        column = material.traces.names.index(f"{INPUT}{name}")
        cells = (
            of_sets[one].get(trace, np.nan) if one is not None else np.nan
            for trace, one in zip(ids, which, strict=True)
        )
        values[:, column] = np.fromiter(cells, np.float32, len(ids))
    return values


def _fold_of_group(material: TrainingMaterial, folds: np.ndarray) -> dict[int, int]:
    known = folds != NO_FOLD
    return dict(zip(material.traces.group[known].tolist(), folds[known].tolist(), strict=True))


def _require_fit_record(log: Log, verifier: str) -> tuple[FitRecord, TrainedOn]:
    record = fitted_verifiers(log).get(verifier)
    if record is None or record.trained_on is None:
        raise LeakageError(
            f"`{verifier}` was fitted on questions of this log, and the manifest does not say how, so it cannot be "
            "fitted again without the questions to score: leave it out, or fit it with `thinkback fit-verifier`"
        )
    return record, record.trained_on


def _settings_of_fit_record(record: FitRecord, then: TrainedOn, verifier: str) -> VerifierSettings:
    given = record.settings | ({"states": then.states.model} if then.states else {})  # there may be others by now
    return table_reader(VerifierSettings)(given, f"source.verifiers.{verifier}.settings")


def _check_refit(log: Log, material: TrainingMaterial, trained: np.ndarray, then: TrainedOn, verifier: str) -> None:
    """ThinkbackError where a verifier, fitted again, would be fitted on other questions than it was."""
    ids = material.traces.keys["example_id"].filter(pl.Series(trained)).unique()
    questions = log.scan("examples", ["example_id", "question"]).filter(pl.col("example_id").is_in(ids.implode()))
    if set(question_hashes(collect(questions, log), then.log)) != set(then.questions):
        raise LeakageError(
            f"`{verifier}` was fitted on other questions of this log than `{then.where}` names now, so it cannot be "
            "fitted without those that are to be scored: leave it out, or fit it anew under another name"
        )
