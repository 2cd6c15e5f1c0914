"""A fitted verifier in the log: its scores as new shards, its model as a file, and what it saw in the manifest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import polars as pl

from replay.data.fitted_scores import FITTED
from replay.latent.fitting import FittedVerifier
from replay.policies.gate_file import hashed
from replay.policies.gate_models import import_xgboost
from replay.runs.passes.reuse import question_hashes
from replay.runs.saved.provenance import versions
from toolkit.files import replacing_file
from toolkit.log import Log, collect, extend_log, open_sealed

FORMAT, VERSION = "thinkback-verifier", 1
FOLDER = "models"
"""A folder of the log for models of its verifiers; no table."""
SECTION = "verifiers"
LONGEST = 80
"""Letters of a verifier's name in that of its file."""


def add_verifier(path: str | Path, fitted: FittedVerifier) -> Log:
    """Add a fitted verifier to a local, sealed log, and seal it again. ThinkbackError, and the log as it was, where
    that can't be done.
    """
    log = open_sealed(path)
    text = json.dumps(_document(fitted), ensure_ascii=False, separators=(",", ":")) + "\n"
    file = Path(path) / FOLDER / f"{file_name(fitted.settings.name)}.json"
    there = file.parent.is_dir()
    file.parent.mkdir(exist_ok=True)
    record = _record(log, fitted, file.relative_to(path).as_posix(), hashlib.sha256(text.encode()).hexdigest())
    try:
        with replacing_file(file, force=True) as temporary:  # what a killed run left is of no verifier
            temporary.write_text(text, encoding="utf-8")
        return extend_log(path, {"verifications": fitted.scores}, lambda source: _with(source, fitted, record))
    except BaseException:
        file.unlink(missing_ok=True)
        if not there:
            file.parent.rmdir()
        raise


def file_name(verifier: str) -> str:
    """A verifier's name as a file's; where that is another one, or a long one, a hash tells it apart."""
    plain = "".join(one if one.isalnum() or one in "-_" else "-" for one in verifier)
    return plain if plain == verifier[:LONGEST] else f"{plain[:LONGEST]}-{hashed([verifier])[0][:8]}"


def _document(fitted: FittedVerifier) -> dict[str, Any]:
    """The model that saw all that was trained on, as plain data."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": fitted.settings.model,
        "states": fitted.states or None,
        "columns": list(fitted.columns),
        "places": [list(place) for place in fitted.places] if fitted.states else [],
        "joined": fitted.settings.places,
        "aggregate": fitted.settings.aggregate,
        "models": list(fitted.models),
    }


def _record(log: Log, fitted: FittedVerifier, file: str, digest: str) -> dict[str, Any]:
    ids = fitted.trained
    asked = log.scan("examples", ["example_id", "question"]).filter(pl.col("example_id").is_in(ids.implode()))
    questions = collect(asked, log).sort("example_id")
    extra = {"xgboost": import_xgboost("the record").__version__} if fitted.settings.model == "xgboost" else {}
    states = log.shards.get(f"hidden_states/{fitted.states}", ())
    return {
        "added_by": "thinkback fit-verifier",
        "kind": FITTED,
        "settings": {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(fitted.settings).items()},
        "places": [list(place) for place in fitted.places] if fitted.states else [],
        "model": {"file": file, "sha256": digest},
        "fold_models": [[_hash(model) for model in of_place] for of_place in fitted.fold_models],
        "trained_on": {
            "where": fitted.train_on,
            "log": log.digest(),
            "states": {"model": fitted.states, "shards": [shard.sha256 for shard in states]} if fitted.states else None,
            "examples": len(ids),
            "rows": fitted.rows,
            "right": fitted.right,
            "questions": sorted(set(question_hashes(questions, log.digest()))),
        },
        "folds": fitted.folds,
        "rows": fitted.scores.height,
        "seconds": {name: round(value, 3) for name, value in fitted.seconds.items()},
        "versions": versions() | extra,
    }


def _hash(model: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def _with(source: Any, fitted: FittedVerifier, record: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's `source` with what is said of the verifier, or of each place's."""
    whole = dict(source) if isinstance(source, Mapping) else {} if source is None else {"log": source}
    return whole | {SECTION: dict(whole.get(SECTION) or {}) | dict.fromkeys(fitted.verifiers, record)}
