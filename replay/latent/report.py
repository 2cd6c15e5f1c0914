"""Fitting a verifier and adding it to its log, sealed, with its record and its quality, as the command does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.data.fitted_scores import FITTED
from replay.latent.fitting import FittedVerifier
from replay.latent.fitting import fit_verifier as fit
from replay.latent.models import ONE, STATES, VerifierSettings
from replay.latent.verifier_file import verifier_document
from replay.policies.gate_file import text_hashes
from replay.policies.gate_models import import_xgboost
from replay.runs.passes.reuse import question_hashes
from replay.runs.saved.provenance import software_versions
from toolkit.arguments import checks_arguments
from toolkit.errors import counted
from toolkit.files import replacing_file
from toolkit.log import Log, collect, extend_log, open_sealed
from toolkit.log.describe.verifier_quality import VerifierQuality, quality_of_log, quality_rows, quality_tables
from toolkit.printable import printable

if TYPE_CHECKING:
    from toolkit.show import Table


FOLDER = "models"
"""The folder of a log for its verifiers' models; it is no table."""


SECTION = "verifiers"


LONGEST = 80
"""The most letters of a verifier's name in the name of its file."""


NAME, NAMES, PLACES = "a name", "a list of names", "a list of integers"


@dataclass(frozen=True, eq=False)
class VerifierReport:
    """A verifier that was added to a log, and its quality.

    `log`: with its scores. `quality`: the signals of each data set and pool, and in words which examples these are of.
    """

    fitted: FittedVerifier
    log: Log
    quality: tuple[tuple[str, VerifierQuality], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """Sentences on the fit, its training rows, and what the verifier added."""
        fitted, seconds = self.fitted, self.fitted.seconds
        places = f" at {counted(len(fitted.places), 'place')} of {fitted.states}" if fitted.states else ""
        inside = fitted.scores["fold"].is_not_null().sum()
        names = fitted.verifiers
        what = f"`{names[0]}`" if len(names) == 1 else counted(len(names), "verifier")
        return (
            *(str(note) for note in fitted.notes),
            f"trained on {counted(fitted.rows, 'row')}{places}, {counted(len(fitted.trained), 'example')}, "
            f"{fitted.right:.1%} of the rows right; {fitted.folds} folds; {seconds['training']:.1f} s, scoring "
            f"{seconds['scoring']:.1f} s",
            f"added {what} to {self.log.address}: {fitted.scores.height:,} scores, {inside:,} of them out of fold",
        )

    @property
    def rows(self) -> pl.DataFrame:
        """The quality of every signal: dataset, pool, signal, metric, estimate, low, high, n, p_value, remark."""
        return quality_rows(measures for _, measures in self.quality)

    def tables(self) -> Iterator[Table]:
        """A table of the quality of every signal for each data set and pool; another of suffixes, where they are
        logged.
        """
        for which, measures in self.quality:
            yield from quality_tables(measures, which)

    def _repr_html_(self) -> str:
        from toolkit.show.tables.html import paragraph

        return "".join([*map(paragraph, self.sentences), *(table.html() for table in self.tables())])

    def __repr__(self) -> str:
        return "\n".join(printable(sentence) for sentence in self.sentences)


@checks_arguments(
    log="the folder of a sealed log", name=NAME, inputs=NAMES, pools=NAMES, layers=PLACES, tokens=PLACES
)  # fmt: skip
def fit_verifier(
    log: str | Path,
    train_on: str,
    *,
    name: str,
    model: str = "xgboost",
    inputs: Sequence[str] = (STATES,),
    states: str = "",
    layers: Sequence[int] = (),
    tokens: Sequence[int] = (),
    places: str = ONE,
    aggregate: str = "mean",
    pools: Sequence[str] = (),
    folds: int = 5,
    depth: int = 5,
    eta: float = 0.1,
    rounds: int = 30,
    seed: int = 0,
) -> VerifierReport:
    """Fit a verifier where `train_on` (SQL) holds, add its scores to the log, and report their quality.

    The log is a sealed one in a folder, and sealed again. Questions that were trained on are scored by models of other
    folds alone. ThinkbackError, and the log as it was, where it lacks what is read, has a verifier of that name, or
    what is trained on is of one class.
    """
    settings = VerifierSettings(
        name=name, model=model, inputs=tuple(inputs), states=states, layers=tuple(layers), tokens=tuple(tokens),
        places=places, aggregate=aggregate, pools=tuple(pools), folds=folds, depth=depth, eta=eta, rounds=rounds,
        seed=seed,
    )  # fmt: skip
    fitted = fit(open_sealed(log), train_on, settings)
    extended = _add_verifier(log, fitted)
    measures = quality_of_log(extended, fitted.trained, fitted.verifiers, fitted.pools)
    return VerifierReport(fitted, extended, tuple(measures))


def _add_verifier(path: str | Path, fitted: FittedVerifier) -> Log:
    """Add a fitted verifier to a local, sealed log, and seal it again; the log is unchanged where that fails."""
    log = open_sealed(path)
    text = json.dumps(verifier_document(fitted), ensure_ascii=False, separators=(",", ":")) + "\n"
    file = Path(path) / FOLDER / f"{_file_name(fitted.settings.name)}.json"
    there = file.parent.is_dir()
    file.parent.mkdir(exist_ok=True)
    record = _manifest_record(log, fitted, file.relative_to(path).as_posix(), hashlib.sha256(text.encode()).hexdigest())
    try:
        with replacing_file(file, force=True) as temporary:  # what a killed run left is of no verifier
            temporary.write_text(text, encoding="utf-8")
        return extend_log(
            path, {"verifications": fitted.scores}, lambda source: _source_with_verifier(source, fitted, record)
        )
    except BaseException:
        file.unlink(missing_ok=True)
        if not there:
            file.parent.rmdir()
        raise


def _file_name(verifier: str) -> str:
    """A verifier's name in a form that a file may have; a hash is added where letters are lost."""
    plain = "".join(one if one.isalnum() or one in "-_" else "-" for one in verifier)
    return plain if plain == verifier[:LONGEST] else f"{plain[:LONGEST]}-{text_hashes([verifier])[0][:8]}"


def _manifest_record(log: Log, fitted: FittedVerifier, file: str, digest: str) -> dict[str, Any]:
    ids = fitted.trained
    scan = log.scan("examples", ["example_id", "question"]).filter(pl.col("example_id").is_in(ids.implode()))
    questions = collect(scan, log).sort("example_id")
    extra = {"xgboost": import_xgboost("the record").__version__} if fitted.settings.model == "xgboost" else {}
    states = log.shards.get(f"hidden_states/{fitted.states}", ())
    return {
        "added_by": "thinkback fit-verifier",
        "kind": FITTED,
        "settings": {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(fitted.settings).items()},
        "places": [list(place) for place in fitted.places] if fitted.states else [],
        "model": {"file": file, "sha256": digest},
        "fold_models": [[_model_sha256(model) for model in of_place] for of_place in fitted.fold_models],
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
        "versions": software_versions() | extra,
    }


def _model_sha256(model: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(model, sort_keys=True).encode()).hexdigest()


def _source_with_verifier(source: Any, fitted: FittedVerifier, record: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest's `source` with the record of the verifier, or of each place's verifier."""
    whole = dict(source) if isinstance(source, Mapping) else {} if source is None else {"log": source}
    return whole | {SECTION: dict(whole.get(SECTION) or {}) | dict.fromkeys(fitted.verifiers, record)}
