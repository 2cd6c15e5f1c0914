"""Scores by verifiers that were fitted on examples of the log: on which, and in which folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from toolkit.errors import MismatchError
from toolkit.log import Log, collect

FITTED = "fitted"
"""The kind of a verifier of which the manifest says what it was fitted on."""


def fitted_verifiers(log: Log) -> dict[str, Mapping[str, Any]]:
    """Manifest entry of each verifier that was fitted on the log, or on one that was merged into it."""
    return _records(log.manifest.source) if log.manifest is not None else {}


def _records(source: Any) -> dict[str, Mapping[str, Any]]:
    if not isinstance(source, Mapping):
        return {}
    merged, listed = source.get("merged"), source.get("verifiers")
    records: dict[str, Mapping[str, Any]] = {}
    for one in merged if isinstance(merged, list | tuple) else ():
        records |= _records(one.get("source") if isinstance(one, Mapping) else None)
    entries = listed.items() if isinstance(listed, Mapping) else ()
    return records | {name: one for name, one in entries if isinstance(one, Mapping) and one.get("kind") == FITTED}


def folds_of(log: Log, verifiers: Iterable[str]) -> pl.DataFrame:
    """verifier, example_id and fold of the examples whose scores are out of fold, sorted; empty where none are."""
    names = sorted(set(verifiers))
    schema = {"verifier": pl.String, "example_id": pl.String, "fold": pl.Int32}
    if not names or not log.has("verifications") or "fold" not in log.columns("verifications"):
        return pl.DataFrame(schema=schema)
    scores = log.scan("verifications", list(schema))
    folds = scores.filter(pl.col("verifier").is_in(names) & pl.col("fold").is_not_null())
    return collect(folds.unique(), log).sort(list(schema))


def one_fold(log: Log, verifiers: Iterable[str]) -> dict[str, int]:
    """The fold of each example in which all of these verifiers have not seen it. ThinkbackError where they differ."""
    folds = folds_of(log, verifiers)
    clashes = folds.group_by("example_id").agg(pl.col("fold").n_unique(), pl.col("verifier")).filter(pl.col("fold") > 1)
    if clashes.height:
        names = sorted(set(clashes["verifier"][0]))
        raise MismatchError(
            f"{' and '.join(f'`{name}`' for name in names)} have different folds, so no fold is unseen by all of "
            "them: fit them with the same --train-on, --folds and --seed"
        )
    return dict(folds.select("example_id", "fold").iter_rows())
