"""Similarity of a trace to the example's other traces, by sentence embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from generate.signals.feature_signals import SHARED, EmbeddingWorker, PeerSignal, peer_groups, too_long
from generate.signals.similarity import embedded, peer_similarity
from generate.traces.block import TraceBlock
from toolkit.settings import setting


class PeerWorker(EmbeddingWorker):
    """Embeds texts."""

    step: PeerSimilarity
    among_peers = True

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """The column."""
        unit = embedded(self.step.justifications(rows["text"]).to_list(), self.embedder)
        (name,) = self.step.features
        found = peer_similarity(unit, peer_groups(rows), self.step.earlier)
        return {name: found}, too_long(rows, np.isnan(unit).any(axis=1))


@dataclass(frozen=True, kw_only=True)
class PeerSimilarity(PeerSignal):
    """The mean similarity to its peers."""

    kind: str = setting("peers", choices=("peers",))

    worker = PeerWorker
    needs_embedding = True
    recorded = SHARED
    what = "similarity"
