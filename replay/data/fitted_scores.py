"""Verifiers that were fitted on examples of the log: which examples they were trained on, and in which folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.sampling.abandon import NAMED_TOKENS
from toolkit.errors import MismatchError, error_prefix
from toolkit.log import Log, collect
from toolkit.models import read_pairs, table_reader
from toolkit.settings import Checked, setting

FITTED = "fitted"
"""The kind of verifier whose training the manifest records."""


@dataclass(frozen=True)
class _NamedInputs(Checked):
    name: str = setting()
    inputs: tuple[str, ...] = setting()


def _read_fit_settings(given: Any, place: str) -> dict[str, Any]:
    checked = vars(table_reader(_NamedInputs)(given, place))
    return {**given, **checked}


@dataclass(frozen=True)
class _StatesRead(Checked):
    model: str = setting()
    shards: tuple[str, ...] = setting(())


@dataclass(frozen=True)
class TrainedOn(Checked):
    """The examples that a verifier was trained on: their SQL condition, the log's and their questions' hashes."""

    where: str = setting()
    log: str = setting()
    questions: tuple[str, ...] = setting()
    states: _StatesRead | None = setting(None)


@dataclass(frozen=True)
class FitRecord(Checked):
    """The manifest's record of a fitted verifier: `settings`, with `name` and `inputs` checked, and its `places`, each
    a layer and a token.
    """

    settings: dict[str, Any] = setting(read=_read_fit_settings)
    trained_on: TrainedOn | None = setting(None, read=table_reader(TrainedOn))
    places: tuple[tuple[int, int], ...] = setting((), read=read_pairs)


def fitted_verifiers(log: Log) -> dict[str, FitRecord]:
    """The manifest's record of each verifier that was fitted on this log, or on a log merged into it.

    ThinkbackError where it is no such record.
    """
    return _fit_records(log.manifest.source) if log.manifest is not None else {}


def _fit_records(source: Any) -> dict[str, FitRecord]:
    if not isinstance(source, Mapping):
        return {}
    merged, listed = source.get("merged"), source.get("verifiers")
    records: dict[str, FitRecord] = {}
    for one in merged if isinstance(merged, list | tuple) else ():
        records |= _fit_records(one.get("source") if isinstance(one, Mapping) else None)
    entries = listed.items() if isinstance(listed, Mapping) else ()
    fitted = {name: one for name, one in entries if isinstance(one, Mapping) and one.get("kind") == FITTED}
    with error_prefix("the manifest: "):
        return records | {
            name: table_reader(FitRecord)(one, f"source.verifiers.{name}") for name, one in fitted.items()
        }


def fold_of_each_example(log: Log, verifiers: Iterable[str]) -> pl.DataFrame:
    """A table of verifier, example_id and fold: which fold's model scored an example, sorted; empty without folds."""
    names = sorted(set(verifiers))
    schema = {"verifier": pl.String, "example_id": pl.String, "fold": pl.Int32}
    if not names or not log.has("verifications") or "fold" not in log.columns("verifications"):
        return pl.DataFrame(schema=schema)
    scores = log.scan("verifications", list(schema))
    folds = scores.filter(pl.col("verifier").is_in(names) & pl.col("fold").is_not_null())
    return collect(folds.unique(), log).sort(list(schema))


def unseen_folds(log: Log, verifiers: Iterable[str]) -> dict[str, int]:
    """Example -> the fold whose models, of all these verifiers, have not seen it. ThinkbackError where folds differ."""
    folds = fold_of_each_example(log, verifiers)
    clashes = folds.group_by("example_id").agg(pl.col("fold").n_unique(), pl.col("verifier")).filter(pl.col("fold") > 1)
    if clashes.height:
        names = sorted(set(clashes["verifier"][0]))
        raise MismatchError(
            f"{' and '.join(f'`{name}`' for name in names)} have different folds, so no fold is unseen by all of "
            "them: fit them with the same --train-on, --folds and --seed"
        )
    return dict(folds.select("example_id", "fold").iter_rows())


BEFORE = ("prompt_tokens", "temperature", "max_tokens", "sample_index", "position")
"""Columns of traces whose values are known before the trace is written."""


def score_timing_problem(fitted: Mapping[str, FitRecord], verifier: str, tokens: int) -> str | None:
    """What a fitted verifier reads that does not exist after `tokens` tokens, in words; None: nothing."""
    record = fitted.get(verifier)
    if record is None:
        return None
    settings, places = record.settings, record.places
    name = settings["name"]
    verifier_places = [place for place in places if verifier == f"{name}:{place[0]}:{place[1]}"] or places
    late = next((token for _, token in verifier_places if not 0 <= token < tokens), None)
    if late is not None:
        return f"states at token {late}"
    for given in settings["inputs"]:
        source, _, rest = given.partition(":")
        if source == "verifier" and not _is_scored_early(rest, tokens):
            return score_timing_problem(fitted, rest, tokens) if rest in fitted else f"`{given}`"
        if source == "tokens" or (source == "trace" and rest not in BEFORE):
            return f"`{given}`"
    return None


def _is_scored_early(verifier: str, tokens: int) -> bool:
    """Whether a verifier, by its name, scores traces after at most `tokens` tokens."""
    match = NAMED_TOKENS.fullmatch(verifier)
    return match is not None and int(match[1]) <= tokens
