"""The tables `[score.NAME]` of kinds `cross_encoder` and `entailment`: models that read two texts at once.

They cost seconds and no tokens, so that the tokens of a row are those of language models.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from generate.engines import weights
from generate.engines.lfm2 import lfm2_classifier
from generate.loops.meanings import CONTRADICTS, ENTAILS
from generate.loops.requests import Score, Scores, Verify
from generate.passes.batching import TokenIds
from generate.passes.reader import ReadBatch, Reader, ReadSettings, classifier_outputs, encode_pair, open_reader
from generate.passes.scoring import read_scores
from generate.recipes.recipe import Recipe
from toolkit.errors import PackageError, RuleError, UnsuitableError, listed
from toolkit.settings import Checked, setting

Scoring = tuple[Score | Verify, Mapping[str, str]]
"""A request for scores, with the fields of its example."""
Pair = tuple[str, str]


def pairs_of(request: Score | Verify, place: str) -> Sequence[Pair]:
    """The pairs that a request wants scored. RuleError where it has single texts."""
    pairs = request.texts if type(request) is Score else ()
    if not pairs or not all(isinstance(pair, tuple) for pair in pairs):
        raise RuleError(f"`{place}` scores pairs of texts: give `Score` tuples of two")
    return pairs  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class EntailmentScore(ReadSettings):
    """A sequence classifier of three labels, which its config calls entailment, neutral and contradiction: its most
    likely label for a pair of texts, as 1, 0 or -1. A pair that is too long has no score.
    """

    model: str = setting()

    def opened(self, recipe: Recipe, place: str) -> _Entailment:
        """The classifier, loaded. UnsuitableError where it has other labels."""
        reader = open_reader(recipe.resolve_model(self.model), "sequence", self, place)
        names = [str(name) for _, name in sorted(reader.network.config.id2label.items())]
        places = [[i for i, name in enumerate(names) if word in name.lower()]
                  for word in ("entail", "neutral", "contradict")]  # fmt: skip
        if len(names) != 3 or [len(one) for one in places] != [1, 1, 1]:
            raise UnsuitableError(
                f"`{place}.model`: the labels of `{reader.files.name}` are {listed(names)}; it takes a model with"
                " entailment, neutral and contradiction"
            )
        values = np.zeros(3)
        values[places[0][0]], values[places[2][0]] = ENTAILS, CONTRADICTS
        return _Entailment(place, reader, values)


@dataclass(frozen=True)
class _Entailment:
    place: str
    reader: Reader
    values: np.ndarray
    """The score of each label (3,)."""

    def answer(self, requests: Sequence[Scoring]) -> list[Scores]:
        ids = [[self._ids(pair) for pair in pairs_of(request, self.place)] for request, _ in requests]
        return [replace(score, prompt_tokens=0) for score in read_scores(self.reader, ids, self._scores)]

    def _ids(self, pair: Pair) -> TokenIds:
        return encode_pair(self.reader.tokens, *pair)

    def _scores(self, read: ReadBatch) -> np.ndarray:
        return self.values[classifier_outputs(read).argmax(axis=1)]

    def describe(self) -> Mapping[str, Any]:
        return self.reader.describe()


@dataclass(frozen=True, kw_only=True)
class CrossEncoderScore(Checked):
    """A cross-encoder of sentence-transformers with one output: how relevant the second text is for the first. A pair
    that is longer than it takes is cut, as sentence-transformers does.
    """

    model: str = setting()
    batch: int = setting(32, low=1, identity=False)
    device: str = setting("auto", choices=weights.DEVICES, identity=False)
    context: int | None = setting(None, low=1)

    def opened(self, recipe: Recipe, place: str) -> _CrossEncoder:
        """The model, from a folder or the hub's cache. ThinkbackError where it is not there, or has several outputs."""
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise PackageError(
                "cross-encoders need sentence-transformers: pip install 'thinkback[generate,retrieval]'"
            ) from None
        files = weights.find_model(recipe.resolve_model(self.model), None, download=False)
        device = weights.chosen_device(self.device, f"`{place}`")
        lfm2_classifier()
        try:
            model = CrossEncoder(str(files.folder), device=device, max_length=self.context, local_files_only=True)
        except Exception as error:  # safetensors and tokenizers raise their own
            raise UnsuitableError(f"`{place}.model`: can't be loaded: {weights.first_line(error)}") from None
        if model.num_labels != 1:
            raise UnsuitableError(
                f"`{place}.model`: `{files.name}` has {model.num_labels} outputs; a cross-encoder has one"
            )
        return _CrossEncoder(self, place, files, model)


@dataclass(frozen=True)
class _CrossEncoder:
    settings: CrossEncoderScore
    place: str
    files: weights.ModelFiles
    model: Any

    def answer(self, requests: Sequence[Scoring]) -> list[Scores]:
        groups = [pairs_of(request, self.place) for request, _ in requests]
        began = time.perf_counter()
        pairs = [pair for group in groups for pair in group]
        values = self.model.predict(pairs, batch_size=self.settings.batch, show_progress_bar=False).tolist()
        spent, scores = time.perf_counter() - began, iter(values)
        return [
            Scores(tuple(next(scores) for _ in group), latency_s=spent, device_s=spent * len(group) / len(pairs))
            for group in groups
        ]

    def describe(self) -> Mapping[str, Any]:
        return {
            "model": self.files.name, "revision": self.files.revision, "weights_sha256": self.files.weights_sha256(),
            "activation": type(self.model.activation_fn).__name__, "context": self.model.max_seq_length,
            "versions": weights.package_versions("sentence-transformers", "torch", "transformers"),
        }  # fmt: skip
