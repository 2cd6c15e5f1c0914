"""Contradiction between an example's traces, by a model of natural language inference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from generate.engines.loading import Placing, load_network
from generate.engines.weights import find_model, installed, load_tokens
from generate.passes.batching import Ids
from generate.passes.reader import Reader
from generate.passes.taking import outputs_of
from generate.signals.additions import Features
from toolkit.errors import ThinkbackError


class Contradiction:
    """An NLI model: any sequence classifier one of whose labels is called contradiction."""

    def __init__(self, step: Features, model: str):
        installed("generate", "torch", "transformers", "safetensors")
        files = find_model(model, None, download=False)
        tokens = load_tokens(str(files.folder))
        network = load_network(files, "sequence", Placing(step.device), f"`features.{step.name}`")
        self.reader = Reader(files, tokens, network, "sequence", None, step.batch_tokens, left=False)
        names = {int(place): str(name) for place, name in network.config.id2label.items()}
        found = [place for place, name in names.items() if "contradict" in name.lower()]
        if len(found) != 1:
            listed = ", ".join(f"`{name}`" for name in names.values())
            raise ThinkbackError(f"`features.{step.name}.model`: none of its labels ({listed}) is one contradiction")
        self.label = found[0]

    def describe(self) -> dict[str, object]:
        """The model."""
        return self.reader.describe()

    def encode(self, premise: str, hypothesis: str) -> Ids:
        """A pair of texts as the model reads it."""
        made = self.reader.tokens.tokenizer(premise, hypothesis)
        types = made.get("token_type_ids")
        return Ids(tuple(made["input_ids"]), types=None if types is None else tuple(types))

    def __call__(self, pairs: Sequence[Ids]) -> np.ndarray:
        """(n,) pairs -> (n,) probabilities that the premise contradicts the hypothesis. A pair that comes twice is read
        once.
        """
        places = {pair.all: place for place, pair in enumerate(dict.fromkeys(pairs))}
        distinct = list(dict.fromkeys(pairs))
        found = np.zeros(len(distinct))
        for read in self.reader.read(distinct):
            outputs = outputs_of(read)
            weights = np.exp(outputs - outputs.max(axis=1, keepdims=True))
            found[list(read.places)] = weights[:, self.label] / weights.sum(axis=1)
        return found[[places[pair.all] for pair in pairs]]

    def close(self) -> None:
        """Free the model."""
        self.reader.close()


def peers_of(groups: Sequence[int], earlier: bool, most: int | None) -> list[list[int]]:
    """For each trace the places of its peers: others of its group, or those before it; the nearest `most` of them.

    groups: ascending, those of a group in order of sample index.
    """
    found: list[list[int]] = []
    start = 0
    for place, group in enumerate(groups):
        if groups[start] != group:
            start = place
        end = place if earlier else next((i for i in range(place, len(groups)) if groups[i] != group), len(groups))
        others = [i for i in range(start, end) if i != place]
        by_distance = sorted((abs(i - place), i) for i in others)
        found.append(sorted(i for _, i in by_distance[:most]))
    return found


def peer_contradiction(probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean probability that a peer's text contradicts the trace's, with the peer's as premise.

    probabilities: (sum of counts,), those of one trace side by side; counts: (n,), its peers. Range [0, 1]; 0 without
    peers. Source: SelfCheckGPT (Manakul et al., 2023), its NLI variant, whole texts in place of sentences.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(owner, weights=probabilities, minlength=len(counts)) / np.maximum(counts, 1)
