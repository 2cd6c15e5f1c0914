"""Fitting a verifier on traces of a log, and scoring all of its traces, none by a model that has seen its question."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.conditions import CONDITION, matching
from replay.latent.folds import assign_folds, parts_of
from replay.latent.material import Material, read_material, verifier_names
from replay.latent.models import Document
from replay.latent.nested import nested_values
from replay.latent.state_rows import MOST_NAMED
from replay.latent.traced_values import NO_FOLD, Traces
from replay.latent.verifier_settings import STATES, VerifierSettings
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
        return verifier_names(self.settings, self.places)


@checks_arguments(log=TAKES, train_on=CONDITION, settings="a `VerifierSettings`")
def fit_verifier(log: AnyLog, train_on: str, settings: VerifierSettings) -> FittedVerifier:
    """Fit a verifier on the judged traces of the examples in the SQL condition `train_on`, and score all that it can.

    Questions that were trained on, and copies of them, are scored by models of other folds alone. ThinkbackError where
    the log lacks what the settings name, or what is trained on is of one class.
    """
    log = open_log(log)
    ids = matching(log, train_on, "train_on")
    material = read_material(log, settings)
    _check_free(log, material.names)
    dealt = _deal(material, ids, train_on)
    material, folds, parts = dealt.material, dealt.folds, dealt.parts
    traces, trained = material.traces, parts[-1]
    seen = np.isin(traces.group, np.unique(traces.group[trained]))
    scored = material.held & ~(seen & (folds == NO_FOLD))
    began = time.monotonic()
    fits = material.fit(parts, nested_values(log, material, folds, len(parts) - 1))
    fitted = time.monotonic()
    table = material.score(fits, np.where(folds == NO_FOLD, len(parts) - 1, folds), scored)
    seconds = {"training": fitted - began, "scoring": time.monotonic() - fitted}
    rows = int(material.counts[trained].sum())
    share = float(traces.right[trained] @ material.counts[trained]) / rows
    return FittedVerifier(
        settings=settings,
        train_on=train_on,
        states=material.whose,
        columns=traces.names,
        places=material.places,
        models=tuple(of_place[-1] for of_place in fits),
        fold_models=tuple(tuple(of_place[:-1]) for of_place in fits),
        scores=_score_rows(material, table, folds, seconds["scoring"]),
        pools=tuple(traces.keys["pool"].filter(pl.Series(scored)).unique().sort()),
        trained=traces.keys["example_id"].filter(pl.Series(trained)).unique().sort(),
        rows=rows,
        right=share,
        folds=len(parts) - 1,
        seconds=seconds,
        notes=tuple(_notes(dealt, scored, share)),
    )


@dataclass(frozen=True, eq=False)
class _Dealt:
    """What is trained on. `chosen` (N,): what was asked for; `parts`: what each model sees, the last one all;
    `lacking`: places that are left out.
    """

    material: Material
    chosen: np.ndarray
    folds: np.ndarray
    parts: list[np.ndarray]
    lacking: tuple[tuple[int, int], ...]


def _deal(material: Material, ids: pl.Series, train_on: str) -> _Dealt:
    """Folds of what is trained on, without the places at which some model would see one class alone."""
    traces = material.traces
    chosen = traces.keys["example_id"].is_in(ids.implode()).to_numpy() & ~np.isnan(traces.right)
    lacking: list[tuple[int, int]] = []
    while True:
        trained = material.held & chosen
        _check_classes(traces.right[trained], train_on, lacking)
        folds = _folds(traces, trained, material.settings)
        parts = parts_of(folds, trained)
        for part in parts:
            _check_classes(traces.right[part], f"{train_on}, but for one fold", lacking)
        out = material.one_class(parts)
        if not out:
            return _Dealt(material, chosen, folds, parts, tuple(sorted(lacking)))
        lacking += [material.places[place] for place in out]
        material = material.at([place for place in range(len(material.places)) if place not in out])


def _check_free(log: Log, names: Sequence[str]) -> None:
    """ThinkbackError where the log has a verifier of one of these names."""
    known = set(collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"])
    for name in names:
        if name in known:
            raise ThinkbackError(f"the log has a verifier `{name}`: give another {argument('name')}")


def _check_classes(right: np.ndarray, where: str, lacking: Sequence[tuple[int, int]]) -> None:
    if not len(right) and lacking:
        raise ThinkbackError(
            f"at each of the {counted(len(lacking), 'place')} the traces of {argument('train_on')} ({where}) that have "
            "a state are all right or all wrong: take others, or `--places one`"
        )
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


def _score_rows(material: Material, scores: np.ndarray, folds: np.ndarray, seconds: float) -> pl.DataFrame:
    """Rows of `verifications` from scores (N, names): a state costs no tokens; the seconds of scoring are shared."""
    each = seconds / max(1, int((~np.isnan(scores)).sum()))
    frames = [
        material.traces.keys.select(
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
        for at, name in enumerate(material.names)
    ]
    return pl.concat(frames)


def _notes(dealt: _Dealt, scored: np.ndarray, share: float) -> Sequence[Note]:
    traces, settings, held = dealt.material.traces, dealt.material.settings, dealt.material.held
    made = []
    rarer = min(share, 1 - share)
    if rarer < RARE:
        which = "right" if share < 0.5 else "wrong"
        made.append(
            warning("rare_class", f"only {rarer:.1%} of the training rows are of {which} traces: too few to learn from")
        )
    if (traces.fold != NO_FOLD).any():
        made.append(note("inherited_folds", "its folds are those of the verifiers that it reads"))
    if dealt.lacking:
        named = ", ".join(f"{layer}:{token}" for layer, token in dealt.lacking[:MOST_NAMED])
        more = ", …" * (len(dealt.lacking) > MOST_NAMED)
        made.append(
            note(
                "one_class",
                f"{counted(len(dealt.lacking), 'place')} left out, where the training rows are all right or all wrong "
                f"(layer:token {named}{more})",
            )
        )
    states = dealt.material.states
    some = int((held & (dealt.material.counts < len(states.places))).sum()) if states is not None else 0
    if some:
        count = counted(some, "trace")
        size = len(dealt.material.places)
        made.append(note("some_places", f"{count} had states at only some of the {size} places"))
    lost = int((dealt.chosen & ~held).sum())
    if lost:
        what = "hidden states at these places" if STATES in settings.inputs else "inputs"
        made.append(note("without_inputs", f"{counted(lost, 'trace')} to train on had no {what}"))
    unscored = int((held & ~scored).sum())
    if unscored:
        made.append(
            note("unscored", f"{counted(unscored, 'trace')} of questions that were trained on got no score (no folds)")
        )
    return made
