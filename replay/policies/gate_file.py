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

from replay.data.choice import Choice
from replay.data.contents import Contents
from replay.engine.signals import GateInput, gate_input
from replay.policies.gate_models import MODELS, import_xgboost
from toolkit.arguments import checks_arguments
from toolkit.documents import parse_json, read_text
from toolkit.errors import DamagedError, FormatError, ThinkbackError, argument, errors_begin

FORMAT = "thinkback-gate"
HASH_DIGITS = 16
GATE = "a gate file (a path), or a gate that was loaded or fitted"


@dataclass(frozen=True)
class GateFile:
    """A gate as it was fitted. `content` is the whole document; gates are equal when their hashes are."""

    path: str
    sha256: str
    kind: str = field(compare=False)
    features: tuple[GateInput, ...] = field(compare=False)
    threshold: float = field(compare=False)
    content: Mapping[str, Any] = field(compare=False, repr=False)
    action: str = field(compare=False)
    """The action whose repairs it predicts."""
    base: str = field(compare=False)
    """The pool of the base attempts."""
    pool: str | None = field(compare=False, default=None)
    """The pool of the revisions that it was fitted on; None where the file does not say."""
    direction: str = field(compare=False, default="at_least")
    """`at_least` or `below`: which side of the threshold fires."""

    def require(self, contents: Contents, base: str) -> None:
        """Raise unless the log has every input that the gate reads, of first attempts in pool `base`."""
        for one in self.features:
            try:
                one.require_answers(contents, [base])
            except ThinkbackError as error:
                raise FormatError(
                    f"gate file `{self.path}` cannot be read here: {error}; fit one without it ({argument('features')})"
                ) from None
            with errors_begin(f"gate file `{self.path}` reads {one.source} `{one.name}`: "):
                one.require(contents, [base], "the gate file")

    def record(self) -> dict[str, Any]:
        """Identity of the file, as plain data."""
        return {"path": self.path, "sha256": self.sha256, "kind": self.kind, "threshold": self.content["threshold"]}

    def seen(self) -> frozenset[str]:
        """Hashes of the questions that it was fitted or tuned on."""
        return Choice.read(self.content).seen

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Score of each row of `values` (N, features): float (N,), NaN where a value is."""
        return MODELS[self.kind].scores(self.content["model"], values)


_MINUS = re.compile("[\u2010\u2011\u2012\u2013\u2212]")
"""Hyphens, en dashes and minus signs: copies of a question write any of them for `-`."""
_DASH = re.compile(r"[\u2014\u2015]|-{2,}(?!\s*\.?\d)|-(?!\s*\.?\d)(?=\s|$)|(?<=\w)-(?=[^\W\d])")
"""Em dashes; others before a space or between words, but for those that a number follows."""


def normalised_question(text: str) -> str:
    """A question without case, accents' composition, spacing and the punctuation of sentences: what copies share.

    Marks between two word characters stay, and brackets, since they change what is asked: 1.5, 5!/3, 2*(3+4). A dash
    between words or set off by spaces goes; a minus before a number, or that a letter follows at once, stays.
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    folded = _DASH.sub(" ", _MINUS.sub("-", folded))
    return " ".join(re.findall(r"\w+|(?<=\w)[,.;:!?'\"](?=\w)|(?<=\d)!|[^\w\s,.;:!?'\"]", folded))


def hashed(texts: Iterable[str]) -> list[str]:
    """The first digits of each text's SHA-256."""
    return [hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS] for text in texts]


def content_hash(document: Mapping[str, Any]) -> str:
    """Hash of a gate document, without its own `sha256`."""
    rest = {key: value for key, value in document.items() if key != "sha256"}
    text = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def write_text(document: Mapping[str, Any]) -> str:
    """A gate document as the text of its file, with its hash."""
    signed = {**document, "sha256": content_hash(document)}
    return json.dumps(signed, ensure_ascii=False, indent=1) + "\n"


@checks_arguments(path="the path of a gate file")
def load_gate(path: str | Path) -> GateFile:
    """Read a gate file. ThinkbackError where it is none, is of a newer version, or was edited by hand.

    So too where it holds boosted trees and XGBoost is not installed, or older than the one that fitted them.
    """
    label = f"gate file `{path}`"
    return gate_of(parse_json(read_text(path, label), label), str(path))


def gate_given(gate: GateFile | str | Path) -> GateFile:
    """A gate, which may be given by its file."""
    return gate if isinstance(gate, GateFile) else load_gate(gate)


def written_threshold(value: float, below: bool) -> float | str:
    """A threshold as a file holds it: JSON knows no infinity, so past every score it is `never` or `always`."""
    if np.isfinite(value):
        return float(value)
    return "always" if (value > 0) == below else "never"


def _read_threshold(written: Any, below: bool) -> float:
    if written in ("never", "always"):
        return float("inf") if (written == "always") == below else -float("inf")
    return float(written)


def gate_of(document: Any, path: str) -> GateFile:
    """A gate from its document; `path` is its name in messages."""
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise FormatError(f"`{path}` is not a gate file; write one with `thinkback fit-gate`")
    kind, version = document.get("kind"), document.get("version")
    model = MODELS.get(str(kind))
    if model is None or version != model.version:
        raise FormatError(
            f"gate file `{path}` has kind {kind!r} and version {version!r}, which this program does not read: upgrade "
            "thinkback"
        )
    if document.get("sha256") != content_hash(document):
        raise DamagedError(
            f"gate file `{path}` was changed after it was fitted (its hash does not match): fit it again; another "
            "threshold is given in the policy, with `at_least`"
        )
    if "learner" in document["model"]:
        import_xgboost(f"gate file `{path}`", document["model"]["version"])
    features = tuple(gate_input(one["source"], one["name"]) for one in document["features"])
    threshold = _read_threshold(document["threshold"], document.get("direction") == "below")
    settings = {name: document[name] for name in ("action", "base", "pool", "direction") if name in document}
    return GateFile(path, document["sha256"], document["kind"], features, threshold, document, **settings)
