"""Features of a trace among its peers: similarity by embeddings, contradiction by a model of language inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from generate.passes.batching import TokenIds
from generate.passes.reader import ReadSettings, encode_pair, label_probabilities, open_reader
from generate.signals.feature_signals import (
    SHARED,
    EmbeddingWorker,
    FeatureWorker,
    PeerSignal,
    peer_groups,
    too_long_reasons,
)
from generate.signals.signal import WorkerInput
from generate.signals.similarity import embed_texts, peer_similarity
from generate.traces.block import TraceBlock
from toolkit.errors import UnsuitableError, listed
from toolkit.settings import setting


class _PeerWorker(EmbeddingWorker):
    """Computes the similarity of each trace to its peers from embeddings."""

    step: PeerSimilarity
    among_peers = True

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        unit = embed_texts(self.step.justifications(rows["text"]).to_list(), self.embedder)
        (name,) = self.step.features
        similarity = peer_similarity(unit, peer_groups(rows), self.step.only_earlier_peers)
        return {name: similarity}, too_long_reasons(rows, np.isnan(unit).any(axis=1))


@dataclass(frozen=True, kw_only=True)
class PeerSimilarity(PeerSignal):
    """A feature: the mean similarity of a trace to its peers."""

    kind = "peers"
    worker = _PeerWorker
    needs_embedding = True
    recorded = SHARED
    what = "similarity"


PAIRS = 4_096
"""Pairs of texts held as tokens at once."""


class _ContradictionWorker(FeatureWorker):
    """Computes how likely peers contradict a trace, from pairs of texts; without a value where a pair is too long."""

    step: PeerContradiction
    among_peers = True

    def __init__(self, step: PeerContradiction, work: WorkerInput):
        super().__init__(step, work)
        reading = ReadSettings(device=step.device, batch_tokens=step.batch_tokens)
        self.reader = open_reader(work.additions.resolve_model(step.model), "sequence", reading, step.place_in_recipe)
        names = {int(place): str(name) for place, name in self.reader.network.config.id2label.items()}
        labels = [place for place, name in names.items() if "contradict" in name.lower()]
        if len(labels) != 1:
            raise UnsuitableError(
                f"{step.place_in_recipe}: `model` needs one label for contradiction, and has"
                f" {listed(list(names.values()))}: name another"
            )
        self.label = labels[0]

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), **self.reader.describe()}

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        texts = self.step.justifications(rows["text"]).to_list()
        peers = _peers_of(peer_groups(rows).tolist(), self.step.only_earlier_peers, self.step.most)
        names, values = rows["trace_id"].to_list(), np.full(rows.height, np.nan)
        lacking: dict[str, str] = {}
        wanted = [place for place, name in enumerate(names) if name in block.wanted]
        for chunk in _chunks(wanted, [len(peers[place]) for place in wanted]):
            places, pairs, counts = [], [], []
            for place in chunk:
                trace_pairs = [encode_pair(self.reader.tokens, texts[i], texts[place]) for i in peers[place]]
                reason = next((why for pair in trace_pairs if (why := self.reader.unreadable_reason(pair))), None)
                if reason is not None:
                    lacking[names[place]] = f"the pair with another trace's justification: {reason}"
                    continue
                places.append(place)
                counts.append(len(trace_pairs))
                pairs += trace_pairs
            probabilities = self._contradiction_probabilities(pairs)
            values[places] = peer_contradiction(probabilities, np.array(counts, dtype=np.int64))
        (name,) = self.step.features
        return {name: values}, lacking

    def close(self) -> None:
        self.reader.close()

    def _contradiction_probabilities(self, pairs: Sequence[TokenIds]) -> np.ndarray:
        """The probability that each pair's premise contradicts its hypothesis, (n,). Equal pairs are read once."""
        distinct = list(dict.fromkeys(pairs))
        places = {pair.all_ids: place for place, pair in enumerate(distinct)}
        contradiction = np.zeros(len(distinct))
        for read in self.reader.read(distinct):
            contradiction[list(read.places)] = label_probabilities(read)[:, self.label]
        return contradiction[[places[pair.all_ids] for pair in pairs]]


@dataclass(frozen=True, kw_only=True)
class PeerContradiction(PeerSignal):
    """A feature: how likely a trace's peers contradict it. most: the largest number of peers, the nearest by sample
    index. model: a sequence classifier with a label called contradiction.
    """

    kind = "contradiction"

    most: int | None = setting(None, low=1)
    model: str = setting(identity=False)

    worker = _ContradictionWorker
    what = "contradiction"
    recorded = SHARED


def _chunks(places: Sequence[int], pairs: Sequence[int]) -> Iterator[list[int]]:
    """Yields neighbouring places with at most about `PAIRS` pairs together, so that memory does not grow with peers."""
    chunk: list[int] = []
    held = 0
    for place, count in zip(places, pairs, strict=True):
        if chunk and held + count > PAIRS:
            yield chunk
            chunk, held = [], 0
        chunk.append(place)
        held += count
    if chunk:
        yield chunk


def _peers_of(groups: Sequence[int], earlier: bool, most: int | None) -> list[list[int]]:
    """The places of each trace's peers: others of its group, or only those before it; at most the nearest `most`.

    groups: ascending, those of a group in order of sample index.
    """
    starts, ends = (np.searchsorted(groups, groups, side=side).tolist() for side in ("left", "right"))
    peers = []
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        others = [i for i in range(start, place if earlier else end) if i != place]
        peers.append(sorted(sorted(others, key=lambda i: (abs(i - place), i))[:most]))
    return peers


def peer_contradiction(probabilities: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean probability that a peer's text, as premise, contradicts the trace's text.

    probabilities: (sum of counts,), those of one trace side by side; counts: (n,), its peers. Range [0, 1]; 0 without
    peers. Source: SelfCheckGPT (Manakul et al., 2023), its NLI variant, whole texts in place of sentences.
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.bincount(owner, weights=probabilities, minlength=len(counts)) / np.maximum(counts, 1)
