"""A fitted gate as a small JSON file: what it reads, its coefficients or trees, its threshold, and what it has seen.

A file carries the hash of its own content, so that one that was edited is refused, and hashes of the example ids and
of the normalised questions that it was fitted and tuned on, so that it is not reported on them.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from replay.data.choice import Choice, UsedRows
from replay.data.contents import Contents
from replay.engine.signals import GateInput, gate_input
from replay.policies.gate_models import MODELS, import_xgboost
from toolkit.arguments import checks_arguments
from toolkit.errors import (
    DamagedError,
    FormatError,
    InvalidError,
    MismatchError,
    ThinkbackError,
    argument,
    counted,
    error_prefix,
    quote,
)
from toolkit.models import list_reader, read_model
from toolkit.settings import Checked, as_kind, from_table, setting

FORMAT = "thinkback-gate"
HASH_DIGITS = 16
GATE = "a gate file (a path), or a gate that was loaded or fitted"


@dataclass(frozen=True)
class GateFile:
    """A fitted gate, read from its file. `content` is the whole document; gates with equal hashes are equal."""

    path: str
    sha256: str
    kind: str = field(compare=False)
    features: tuple[GateInput, ...] = field(compare=False)
    threshold: float = field(compare=False)
    content: Mapping[str, Any] = field(compare=False, repr=False)
    model: Mapping[str, Any] = field(compare=False, repr=False)
    """The model that gives the score, its fields checked."""
    choice: Choice = field(compare=False, repr=False)
    """The examples that the gate was fitted and tuned on."""
    action: str = field(compare=False)
    """The action whose repairs the gate predicts."""
    base: str = field(compare=False)
    """The pool of the base attempts."""
    pool: str | None = field(compare=False, default=None)
    """The pool of the revisions that it was fitted on; None where the file does not say."""
    direction: str = field(compare=False, default="at_least")
    """`at_least` or `below`: on which side of the threshold the gate fires."""

    def require_inputs(self, contents: Contents, base: str) -> None:
        """Raise unless the log has every input of the gate on the first attempts of pool `base`."""
        for feature in self.features:
            try:
                feature.require_answers(contents, [base])
            except ThinkbackError as error:
                raise FormatError(
                    f"gate file `{self.path}` cannot be read here: {error}; fit one without it ({argument('features')})"
                ) from None
            with error_prefix(f"gate file `{self.path}` reads {feature.source} `{feature.name}`: "):
                feature.require_in_log(contents, [base], "the gate file")

    def record(self) -> dict[str, Any]:
        """What identifies the file, as plain data."""
        return {"path": self.path, "sha256": self.sha256, "kind": self.kind, "threshold": self.content["threshold"]}

    def seen_question_hashes(self) -> frozenset[str]:
        """Hashes of the questions that the gate was fitted or tuned on."""
        return self.choice.seen_questions

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Score of each row of `values` (N, features): float (N,), NaN where a value is."""
        return MODELS[self.kind].scores(self.model, values)


_MINUS = re.compile("[\u2010\u2011\u2012\u2013\u2212]")
"""Hyphens, en dashes and minus signs: copies of a question write any of them for `-`."""
_DASH = re.compile(r"[\u2014\u2015]|-{2,}(?!\s*\.?\d)|-(?!\s*\.?\d)(?=\s|$)|(?<=\w)-(?=[^\W\d])")
"""Em dashes; others before a space or between words, but for those that a number follows."""


def normalised_question(text: str) -> str:
    """A question in the form that its copies share: no case, accents composed, no spacing, no punctuation of sentences.

    Marks between two word characters stay, and brackets, since they change what is asked: 1.5, 5!/3, 2*(3+4). A dash
    between words or set off by spaces goes; a minus before a number, or that a letter follows at once, stays.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = _DASH.sub(" ", _MINUS.sub("-", folded))
    return " ".join(re.findall(r"\w+|(?<=\w)[,.;:!?'\"](?=\w)|(?<=\d)!|[^\w\s,.;:!?'\"]", folded))


def text_hashes(texts: Iterable[str]) -> list[str]:
    """The first digits of each text's SHA-256, as gate files store questions."""
    return [hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS] for text in texts]


def content_hash(document: Mapping[str, Any]) -> str:
    """The hash of a gate document, computed without its own field `sha256`."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def gate_file_text(document: Mapping[str, Any]) -> str:
    """The text of a gate's file, from its document, with its hash."""
    signed = {**document, "sha256": content_hash(document)}
    return json.dumps(signed, ensure_ascii=False, indent=1) + "\n"


@checks_arguments(path="the path of a gate file")
def load_gate(path: str | Path) -> GateFile:
    """Read a gate file. ThinkbackError where it is none, is of a newer version, was edited by hand, or holds what no
    gate does; nothing of it reaches XGBoost before it is checked whole.

    So too where it holds boosted trees and XGBoost is not installed, or older than the one that fitted them.
    """
    named = f"gate file `{path}`"
    return gate_from_document(read_model(path, named), str(path))


def as_gate_file(gate: GateFile | str | Path) -> GateFile:
    """A gate, from its file's path or as it is."""
    return gate if isinstance(gate, GateFile) else load_gate(gate)


def threshold_for_file(value: float, below: bool) -> float | str:
    """A threshold as a file stores it: a number, or `never` or `always`, since JSON has no infinity."""
    if np.isfinite(value):
        return float(value)
    return "always" if (value > 0) == below else "never"


ENDS = ("never", "always")
"""What a file stores for a threshold beyond every score."""


def _parse_threshold(given: Any, place: str) -> float | str:
    """A threshold of a file, checked: a number, `never` or `always`."""
    number = as_kind(float, given)
    if (number is None or np.isinf(number)) and given not in ENDS:
        raise InvalidError(f"`{place}` is {quote(given)}; it takes a number, `never` or `always`")
    return given if number is None else float(number)


@dataclass(frozen=True)
class _GateInputTable(Checked):
    source: str = setting()
    name: str = setting()


def _parse_gate_input(given: Any, place: str) -> GateInput:
    read = from_table(_GateInputTable, given, place)
    with error_prefix(f"`{place}`: "):
        read_input = gate_input(read.source, read.name)
        read_input.require_in_file()
    return read_input


@dataclass(frozen=True)
class _TuningRows(UsedRows):
    """The examples that a threshold was chosen on; `folds`: how many folds the scores were out of, if any."""

    folds: int | None = setting(None, low=2)


@dataclass(frozen=True, kw_only=True)
class _GateDocument(Checked):
    """The keys of a gate file."""

    format: str = setting()
    version: int = setting()
    kind: str = setting()
    action: str = setting()
    base: str = setting()
    pool: str | None = setting(None)
    label: str = setting("")
    features: tuple[GateInput, ...] = setting(read=list_reader(_parse_gate_input))
    model: Mapping[str, Any] = setting()
    direction: str = setting("at_least", choices=("at_least", "below"))
    threshold: float | str = setting(read=_parse_threshold)
    fitted_on: UsedRows = setting()
    tuned_on: _TuningRows = setting()
    development: Mapping[str, Any] = setting({})
    sha256: str = setting()

    @property
    def numeric_threshold(self) -> float:
        """The threshold as a number, which may be infinite."""
        if isinstance(self.threshold, float):
            return self.threshold
        return float("inf") if (self.threshold == "always") == (self.direction == "below") else -float("inf")


def gate_from_document(document: Mapping[str, Any], path: str) -> GateFile:
    """A gate from its document; messages call it `path`."""
    if document.get("format") != FORMAT:
        raise FormatError(f"`{path}` is not a gate file; write one with `thinkback fit-gate`")
    kind, version = document.get("kind"), document.get("version")
    model = MODELS.get(str(kind))
    if model is None or version != model.version:
        raise FormatError(
            f"gate file `{path}` has kind {quote(kind)} and version {quote(version)}, which this program does not "
            "read: upgrade thinkback"
        )
    if document.get("sha256") != content_hash(document):
        raise DamagedError(
            f"gate file `{path}` was changed after it was fitted (its hash does not match): fit it again; another "
            "threshold is given in the policy, with `at_least`"
        )
    named = f"gate file `{path}`"
    with error_prefix(f"{named}: "):
        read = from_table(_GateDocument, document)
        checked, columns = model.check(document["model"], "model")
        if columns != len(read.features):
            raise MismatchError(
                f"`model` reads {counted(columns, 'number')}, and `features` names {len(read.features)}"
            )
    if "learner" in checked:
        import_xgboost(named, checked["version"])
    fitted = read.fitted_on if read.fitted_on.examples else None
    return GateFile(
        path, read.sha256, read.kind, read.features, read.numeric_threshold, document, checked,
        Choice(read.tuned_on, fitted=fitted, folds=read.tuned_on.folds), read.action, read.base, read.pool,
        read.direction,
    )  # fmt: skip
