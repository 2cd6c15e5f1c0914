"""Fitting a gate on one set of examples, and choosing its threshold on another, to report on a third."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.data.choice import Choice, UsedRows
from replay.data.conditions import ids_where
from replay.data.fitted_scores import fold_of_each_example, unseen_folds
from replay.engine.signals import GateInput
from replay.gatefit.data import (
    GateData,
    GateSetting,
    gate_setting,
    inputs_on_conditions,
    missing_inputs_text,
    parse_features,
    read_data,
)  # fmt: skip
from replay.policies import gate_file
from replay.policies.gate_models import MODELS, fit_model
from replay.runs.passes.gate_sweep import best_threshold, replay_branches, spread_places, threshold_means
from replay.runs.passes.reuse import first_ids_text
from toolkit.arguments import checks_arguments
from toolkit.errors import (
    ConflictError,
    EmptyError,
    InvalidError,
    LeakageError,
    RequiredError,
    UnsuitableError,
    argument,
    counted,
    listed,
    require_known,
)
from toolkit.files import replacing_file
from toolkit.log import AnyLog
from toolkit.notes import remark
from toolkit.stats.curves.calibration import CalibrationScores, calibration

LEAST_FIXES = 20
"""The fewest examples repaired by some rollout on which a threshold may be chosen."""


@dataclass(frozen=True, eq=False)
class _FittedGate:
    """A fitted gate, with its results on the examples that its threshold was chosen on.

    `choice`: which these are, and which it was fitted on. `curve`: every threshold there. `out_of_fold`: example_id,
    score and repair, where folds took the place of a split.
    """

    gate: gate_file.GateFile
    document: Mapping[str, Any]
    choice: Choice
    curve: pl.DataFrame
    calibration: CalibrationScores
    out_of_fold: pl.DataFrame | None
    notes: tuple[str, ...]

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the gate file, which policies of kind `when` read; with `force` it replaces a file."""
        with replacing_file(path, force) as temporary:
            temporary.write_text(gate_file.gate_file_text(self.document), encoding="utf-8")


@checks_arguments(base="a pool's name", features="a list of names")
def fit_gate(
    log: AnyLog,
    *,
    action: str,
    on: str | None = None,
    tune: str | None = None,
    base: str | None = None,
    pool: str | None = None,
    kind: str = "logistic",
    features: str | Sequence[str] = (),
    n_folds: int | None = None,
    below: bool = False,
    seed: int = 0,
) -> _FittedGate:
    """Fit a gate on the examples where `on` holds, and choose its threshold where `tune` holds (SQL conditions).

    `kind` is `logistic`, `trees` or `score` (then `features` names one logged score, and `on` is left out). `n_folds`
    takes the place of `tune`: the threshold is chosen on out-of-fold scores. `below` is for scores that are low where
    intervening helps. Raises ThinkbackError for conditions that share examples or questions, and for a development
    split with one class or fewer than 20 fixes.
    """
    require_known(kind, MODELS, f"unknown kind `{kind}` of gate")
    features = (features,) if isinstance(features, str) else features
    at = gate_setting(log, action, base, pool)
    inputs = parse_features(features, at)
    _check_settings(kind, inputs, on, tune, n_folds, below)
    for key, condition in (("on", on), ("tune", tune)):
        if condition is not None:
            ids_where(at.log, condition, key)
    left_out: tuple[str, ...] = ()
    if not features:
        inputs, left_out = inputs_on_conditions(at, [on, tune] if n_folds is None else [on])
    fitted = read_data(at, on, inputs) if MODELS[kind].fit is not None else None
    tuned = fitted if fitted is not None and n_folds is not None else read_data(at, tune, inputs)
    if fitted is not None and n_folds is None:
        _check_disjoint(fitted, tuned)
    if fitted is not None:
        _check_classes(fitted.repair, f"{argument('on')} ({on})", 1)
    chosen_on = f"{argument('tune')} ({tune})" if n_folds is None else f"{argument('on')} ({on})"
    _check_classes(tuned.repair, chosen_on, LEAST_FIXES)
    model = fit_model(kind, fitted.values, fitted.repair, seed) if fitted is not None else {}
    scores = MODELS[kind].scores(model, tuned.values)
    if n_folds is not None:
        place = _folds_of_examples(at, tuned, n_folds)
        scores = _out_of_fold(tuned, kind, place, seed)
    rows = None if fitted is None else _choice_rows(at, fitted, on)
    choice = Choice(_choice_rows(at, tuned, tune if n_folds is None else on), fitted=rows, folds=n_folds)
    draft = _draft_document(at, kind, inputs, model, below, choice)
    untuned = gate_file.gate_from_document({**draft, "sha256": gate_file.content_hash(draft)}, "the gate")
    branches = replay_branches(tuned.plan, at.gated_policy(untuned, below).required_swept_gate)
    if branches.ids.to_list() != tuned.ids.to_list():
        raise UnsuitableError(
            f"some examples of {argument('tune')} lack what one of the two branches needs: leave them out"
        )
    table = threshold_means(replace(branches, signal=scores))
    calibrated = calibration(scores, tuned.repair)
    best = best_threshold(table, below)
    if below and best == table["threshold"].min():  # no score was seen below it, whatever scores come elsewhere
        best = -np.inf
    document = _finished_document(draft, table, best, calibrated, below)
    gate = gate_file.gate_from_document(document, "the gate")
    fold_rows = pl.DataFrame({"example_id": tuned.ids, "score": scores, "repair": tuned.repair})
    return _FittedGate(
        gate, document, choice, table, calibrated, fold_rows if n_folds is not None else None,
        (*left_out, *_fit_notes(fitted, tuned), *_fold_notes(at, tuned, n_folds)),
    )  # fmt: skip


def _check_settings(
    kind: str, inputs: tuple[GateInput, ...], on: str | None, tune: str | None, n_folds: int | None, below: bool
) -> None:
    if MODELS[kind].fit is None:
        if len(inputs) != 1:
            raise RequiredError(
                f"a gate of kind `{kind}` takes one score: name it with {argument('features')}, as `verifier:NAME`"
            )
        if on is not None or n_folds is not None:
            raise ConflictError(
                f"a gate of kind `{kind}` has nothing to fit: leave out {argument('on')} and {argument('n_folds')}"
            )
    elif on is None:
        raise RequiredError(f"name the examples to fit on with {argument('on')}, such as \"split = 'train'\"")
    elif below:
        raise ConflictError(f"{argument('below')} needs a gate of kind `score`: fitted scores are high for repairs")
    if (tune is None) == (n_folds is None):
        raise RequiredError(
            f"name the examples on which the threshold is chosen with {argument('tune')}, such as \"split = 'dev'\", "
            f"or give {argument('n_folds')}, such as 5, for out-of-fold scores"
        )
    if n_folds is not None and n_folds < 2:
        raise InvalidError(f"{argument('n_folds')} is {n_folds}; give at least 2")


def _check_disjoint(fitted: GateData, tuned: GateData) -> None:
    """Raise where an example, or a copy of a question, is in both sets."""
    shared = sorted(set(fitted.ids) & set(tuned.ids))
    if shared:
        raise LeakageError(
            f"{argument('on')} and {argument('tune')} share {counted(len(shared), 'example')} "
            f"({first_ids_text(shared)}): fit and tune on disjoint ones"
        )
    known = set(fitted.questions)
    copies = [name for name, digest in zip(tuned.ids, tuned.questions, strict=True) if digest in known]
    if copies:
        raise LeakageError(
            f"{len(copies):,} examples of {argument('tune')} ask questions that {argument('on')} asks too "
            f"({first_ids_text(copies)}): leave them out of one of the two"
        )


def _check_classes(repair: np.ndarray, where: str, least: int) -> None:
    fixes, count = int((repair > 0).sum()), len(repair)
    text = f"{where}: {counted(count, 'example')} with a judged revision, {_repairs_text(repair)}"
    if fixes == 0 or (repair >= 1).all():
        raise UnsuitableError(f"{text}, so all are repaired or none is: take others")
    if fixes < least:
        raise EmptyError(f"{text}; at least {least} are needed: take more")


def _repairs_text(repair: np.ndarray) -> str:
    """How many examples some rollout repairs, and their mean over rollouts, in words."""
    total = float(repair.sum())
    text = f"{total:,.4g} repair{'' if total == 1 else 's'}"
    return f"{int((repair > 0).sum()):,} of which some rollout repairs ({text}, averaged over rollouts)"


def _folds_of_examples(at: GateSetting, data: GateData, count: int) -> np.ndarray:
    """The fold (N,) of each example: that of the verifiers that are read, if they were fitted in folds; else by
    question.
    """
    known = unseen_folds(at.log, (feature.name for feature in data.features if feature.source == "verifier"))
    count = max(known.values()) + 1 if known else count
    places = zip(data.ids, data.questions, strict=True)
    return np.array([known.get(name, int(digest, 16) % count) for name, digest in places])


def _out_of_fold(data: GateData, kind: str, place: np.ndarray, seed: int) -> np.ndarray:
    """The score (N,) of each example, by a model fitted on the other folds."""
    scores = np.full(len(data.ids), np.nan)
    for fold in range(int(place.max()) + 1):
        inside = place == fold
        if inside.any():
            _check_classes(data.repair[~inside], f"the folds without number {fold + 1}", 1)
            model = fit_model(kind, data.values[~inside], data.repair[~inside], seed)
            scores[inside] = MODELS[kind].scores(model, data.values[inside])
    return scores


def _draft_document(
    at: GateSetting, kind: str, inputs: tuple[GateInput, ...], model: Mapping[str, Any], below: bool, choice: Choice
) -> dict[str, Any]:  # fmt: skip
    return {
        "format": gate_file.FORMAT,
        "version": MODELS[kind].version,
        "kind": kind,
        "action": at.act.action,
        "base": at.base.pool,
        "pool": at.pool,
        "label": "repair: the base is wrong and the action's answer right, mean over rollouts",
        "features": [{"source": feature.source, "name": feature.name} for feature in inputs],
        "model": dict(model),
        "direction": "below" if below else "at_least",
        "threshold": 0.0,
        **choice.record(),
    }


def _choice_rows(at: GateSetting, data: GateData, where: str | None) -> UsedRows:
    ids, questions = sorted(gate_file.text_hashes(data.ids.to_list())), sorted(data.questions)
    repairs = float(data.repair.sum())
    return UsedRows(where, len(data.ids), repairs, at.log.name, at.log.digest(), tuple(ids), tuple(questions))


def _finished_document(
    draft: dict[str, Any], table: pl.DataFrame, threshold: float, scores: CalibrationScores, below: bool
) -> dict[str, Any]:
    points = [
        point | {"threshold": gate_file.threshold_for_file(point["threshold"], below)}
        for point in table[spread_places(len(table))].iter_rows(named=True)
    ]
    judged = {name: getattr(scores, name) for name in ("auroc", "auprc", "brier", "ece", "rate", "n")}
    numbers = {name: None if np.isnan(value) else value for name, value in judged.items()}
    document = draft | {
        "threshold": gate_file.threshold_for_file(threshold, below),
        "development": {"calibration": numbers, "reliability": [vars(one) for one in scores.bins], "curve": points},
    }
    return document | {"sha256": gate_file.content_hash(document)}


def _fold_notes(at: GateSetting, data: GateData, n_folds: int | None) -> list[str]:
    """Notes that the gate learns from scores whose models, for one fold, have seen the labels of the others."""
    verifiers = (
        [feature.name for feature in data.features if feature.source == "verifier"] if n_folds is not None else []
    )
    folded = fold_of_each_example(at.log, verifiers)["verifier"].unique().sort().to_list()
    if not folded:
        return []
    text = (
        f"{listed(folded)} scored each fold by the labels of the others, so the scores that choose the threshold are "
        f"somewhat too good: name other examples than those of the fit with {argument('tune')}"
    )
    return [remark("folds_seen", text)]


def _fit_notes(fitted: GateData | None, tuned: GateData) -> list[str]:
    notes = []
    for name, data in (("fitted on", fitted), ("tuned on", tuned)):
        if data is None:
            continue
        notes.append(f"{name} {counted(len(data.ids), 'example')}, {_repairs_text(data.repair)}")
        if data.without_revision:
            notes.append(f"left out of these: {counted(data.without_revision, 'example')} without a judged revision")
        if data.without_input:
            notes.append(
                f"left out of these: {counted(data.without_input, 'example')} with a missing input of the gate"
                f"{missing_inputs_text(data.lacking)}"
            )
    return notes
