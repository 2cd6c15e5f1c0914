"""What a stacked verifier learns from: scores by models that saw neither a trace's own fold nor the one to be scored.

A score out of fold comes from the labels of all other folds. A model that is to score fold k would find k's labels in
the scores of the rows that it is trained on. So each verifier that is read and was fitted in folds is fitted anew,
without each pair of folds, as the manifest says that it was fitted, and so are those that it reads in turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import matching
from replay.data.fitted_scores import fitted_verifiers, folds_of
from replay.latent.material import Material, Values, read_material
from replay.latent.traced_values import NO_FOLD
from replay.latent.verifier_settings import VerifierSettings
from replay.runs.passes.reuse import question_hashes
from toolkit.errors import ThinkbackError, argument
from toolkit.log import Log, collect

INPUT = "verifier:"
Unseen = frozenset[int]
"""Folds that a model has not seen."""


def folded_inputs(log: Log, settings: VerifierSettings) -> tuple[str, ...]:
    """The verifiers that are read and have scores out of fold."""
    read = [name.removeprefix(INPUT) for name in settings.inputs if name.startswith(INPUT)]
    return tuple(folds_of(log, read)["verifier"].unique().sort())


def nested_values(log: Log, material: Material, folds: np.ndarray, count: int) -> Values:
    """For each fold what is read (N, V) of the traces of the other folds, by models that saw neither. `folds` (N,).

    Empty where nothing that is read was fitted in folds. ThinkbackError where the log does not say how it was.
    """
    inputs = folded_inputs(log, material.settings)
    if not inputs:
        return {}
    fold_of = _fold_of_group(material, folds)
    pairs = [frozenset(pair) for pair in combinations(range(count), 2)]
    scores = {name: _scores_without(log, name, pairs, fold_of) for name in inputs}
    return {
        fold: _with_scores(
            material, scores, [None if own in (NO_FOLD, fold) else frozenset((fold, own)) for own in folds.tolist()]
        )
        for fold in range(count)
    }


def _scores_without(
    log: Log, verifier: str, unseen: Sequence[Unseen], fold_of: Mapping[int, int]
) -> dict[Unseen, dict[str, float]]:
    """By sets of folds the scores, by trace, of traces in one of these folds by the verifier as it would be without
    them.
    """
    record = _record(log, verifier)
    settings = _settings(record, verifier)
    material = read_material(log, settings)
    fitted_at = record.get("places") or [list(place) for place in material.places]
    material = material.at([number for number, place in enumerate(material.places) if list(place) in fitted_at])
    ids = matching(log, record["trained_on"]["where"], "train_on")
    chosen = material.traces.keys["example_id"].is_in(ids.implode()).to_numpy() & ~np.isnan(material.traces.right)
    trained = material.held & chosen
    _check_same(log, material, trained, record, verifier)
    folds = np.array([fold_of.get(group, NO_FOLD) for group in material.traces.group.tolist()])
    parts = [trained & ~np.isin(folds, list(one)) for one in unseen]
    if material.one_class(parts) or any(len(np.unique(material.traces.right[part])) < 2 for part in parts):
        raise ThinkbackError(
            f"without two folds `{verifier}` would be fitted on traces of one class: take more with "
            f"{argument('train_on')}"
        )
    inputs = folded_inputs(log, settings)
    needed = {one | {fold} for one in unseen for fold in set(folds.tolist()) - {NO_FOLD}}
    scores = {name: _scores_without(log, name, sorted(needed, key=sorted), fold_of) for name in inputs}
    values = {
        number: _with_scores(material, scores, [one | {fold} if fold != NO_FOLD else None for fold in folds.tolist()])
        for number, one in enumerate(unseen)
        if inputs
    }
    fits = material.fit(parts, values)
    at = material.names.index(verifier)
    found = {}
    for number, one in enumerate(unseen):
        keep = material.held & np.isin(folds, list(one))
        table = material.score(fits, np.full(len(keep), number), keep, values.get(number))[:, at]
        known = ~np.isnan(table)
        own = material.traces.keys["trace_id"].filter(pl.Series(known))
        found[one] = dict(zip(own.to_list(), table[known].tolist(), strict=True))
    return found


def _with_scores(
    material: Material, scores: Mapping[str, Mapping[Unseen, Mapping[str, float]]], by: Iterable[Unseen | None]
) -> np.ndarray:
    """The values of traces (N, V) with the scores of verifiers that have not seen the folds which `by` names for each.
    Where it names none, or there is no such score, it is missing.
    """
    values = material.traces.values.copy()
    ids, which = material.traces.keys["trace_id"].to_list(), list(by)
    for name, of_sets in scores.items():
        column = material.traces.names.index(f"{INPUT}{name}")
        own = (
            of_sets[one].get(trace, np.nan) if one is not None else np.nan
            for trace, one in zip(ids, which, strict=True)
        )
        values[:, column] = np.fromiter(own, np.float32, len(ids))
    return values


def _fold_of_group(material: Material, folds: np.ndarray) -> dict[int, int]:
    known = folds != NO_FOLD
    return dict(zip(material.traces.group[known].tolist(), folds[known].tolist(), strict=True))


def _record(log: Log, verifier: str) -> Mapping[str, Any]:
    record = fitted_verifiers(log).get(verifier)
    if record is None:
        raise ThinkbackError(
            f"`{verifier}` was fitted on questions of this log, and the manifest does not say how, so it cannot be "
            "fitted without those that are to be scored: leave it out, or fit it with `thinkback fit-verifier`"
        )
    return record


def _settings(record: Mapping[str, Any], verifier: str) -> VerifierSettings:
    given = record["settings"]
    known = {field.name for field in fields(VerifierSettings)}
    made: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items() if name in known}
    states = record["trained_on"].get("states")  # the log may have those of other models by now
    return VerifierSettings(**made | ({"states": states["model"]} if states else {}))


def _check_same(log: Log, material: Material, trained: np.ndarray, record: Mapping[str, Any], verifier: str) -> None:
    """ThinkbackError where the verifier would not be fitted on the questions that it was fitted on."""
    ids = material.traces.keys["example_id"].filter(pl.Series(trained)).unique()
    asked = log.scan("examples", ["example_id", "question"]).filter(pl.col("example_id").is_in(ids.implode()))
    then = record["trained_on"]
    if set(question_hashes(collect(asked, log), then["log"])) != set(then["questions"]):
        raise ThinkbackError(
            f"`{verifier}` was fitted on other questions of this log than `{then['where']}` names now, so it cannot be "
            "fitted without those that are to be scored: leave it out, or fit it anew under another name"
        )
