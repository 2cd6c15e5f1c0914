"""Feature columns: the base classes of their kinds. What is known before any verifier is called.

Each feature is a function of its own: its docstring gives the definition, the range and the source.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl

from generate.engines.weights import DEVICES
from generate.passes.embedding import Embedder, MeanPooling
from generate.signals.signal import BlockRows, TraceSignal, Worker, WorkerInput
from generate.traces.block import TextsToRead, TraceBlock
from toolkit.answers import check_pattern, last_matches
from toolkit.errors import InvalidError
from toolkit.log import Log, collect
from toolkit.progress import Advance
from toolkit.settings import setting

SHARED: Mapping[str, Any] = {"pattern": None, "evidence": "evidence", "long": 200, "peers": "others", "most": None}
"""Settings that older logs recorded for every kind."""


@dataclass(frozen=True, kw_only=True)
class FeatureSignal(TraceSignal):
    """Feature columns of one kind for each trace. `name` is the kind unless given. prefix: starts every name."""

    prefix: str = setting("")

    list_name = "features"
    section = "features"
    table = "features"
    one_row = True
    renamed_by = "prefix"
    texts_to_read = TextsToRead.COMPLETION
    features: ClassVar[tuple[str, ...]]
    """The names of its columns, without the prefix."""

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(self.prefix + name for name in self.features)

    def traces_with_rows(self, log: Log) -> pl.DataFrame | None:
        names = [name for name in self.columns if log.has(self.table) and name in log.columns(self.table)]
        if not names:
            return None
        held = pl.any_horizontal(pl.col(name).is_not_null() for name in names)
        return collect(log.scan(self.table, ["trace_id", *names]).filter(held).select("trace_id"), log)


class FeatureWorker(Worker):
    """Computes the feature columns of one kind."""

    per_block = 16_384
    among_peers: ClassVar[bool] = False
    """Whether all traces of the examples that have a text are looked at, wanted or not."""

    @abstractmethod
    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """The values of some traces of a block: (name -> column, one value a row; trace -> why it lacks a value)."""

    def describe(self) -> Mapping[str, Any]:
        return {"columns": list(self.step.columns)}

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        wanted = pl.col("trace_id").is_in(list(block.wanted))
        rows = block.traces.filter(pl.col("text").is_not_null() if self.among_peers else wanted)
        values, lacking = self.values(block, rows)
        named = {self.step.prefix + name: column for name, column in values.items()}
        frame = rows.select("trace_id", "example_id").with_columns(
            pl.Series(name, column, dtype=pl.Float64, nan_to_null=True) for name, column in named.items()
        )
        frame = frame.filter(wanted & pl.any_horizontal(pl.col(name).is_not_null() for name in named))
        advance(frame.height)
        there = frozenset(frame["trace_id"])
        reasons = [(trace, why) for trace, why in lacking.items() if trace in block.wanted]
        return BlockRows(
            frame,
            skipped=tuple(pair for pair in reasons if pair[0] not in there),
            incomplete=tuple(pair for pair in reasons if pair[0] in there),
        )


class EmbeddingWorker(FeatureWorker):
    """Computes features by comparing embeddings, made by the recipe's encoder or by the one given in its place."""

    def __init__(self, step: JustificationSignal, work: WorkerInput):
        super().__init__(step, work)
        if work.embedder is not None:
            self.embedder: Embedder = work.embedder
            return
        assert work.additions.embedding is not None  # the recipe was checked
        folder = work.additions.resolve_path(work.additions.embedding.model)
        self.embedder = MeanPooling(folder, batch_tokens=step.batch_tokens, device=step.device)

    def describe(self) -> Mapping[str, Any]:
        return {**super().describe(), "embedding": dict(self.embedder.describe())}


@dataclass(frozen=True, kw_only=True)
class JustificationSignal(FeatureSignal):
    """Features of a trace's justification: the part of the text that the first group of `pattern` matches last. Without
    a pattern or a match it is the whole text.
    """

    pattern: str | None = setting(None)
    batch_tokens: int | None = setting(None, low=1, identity=False)
    device: str = setting("auto", choices=DEVICES, identity=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pattern is None:
            return
        if check_pattern(self.pattern) < 1:
            raise InvalidError("`pattern` has no group: put the part to read in parentheses")

    def justifications(self, texts: pl.Series) -> pl.Series:
        """The part of each text that the pattern's first group matches last; the whole text without a match."""
        plain = texts.cast(pl.String).fill_null("")
        if self.pattern is None:
            return plain
        matches = last_matches(plain, self.pattern)["content"]
        return matches.zip_with(matches.is_not_null(), plain)


@dataclass(frozen=True, kw_only=True)
class PeerSignal(JustificationSignal):
    """Features that compare a trace with its peers. peers: the example's `others` in the pool, or only the `earlier`
    ones, which a rule that stops early may know.
    """

    peers: str = setting("others", choices=("others", "earlier"))

    what: ClassVar[str]
    """The end of the column's name."""

    @property
    def only_earlier_peers(self) -> bool:
        """Whether only earlier traces are peers."""
        return self.peers == "earlier"

    @property
    def features(self) -> tuple[str, ...]:  # type: ignore[override]
        return (f"{'earlier' if self.only_earlier_peers else 'peer'}_{self.what}",)


def peer_groups(rows: pl.DataFrame) -> np.ndarray:
    """The number of each row's (example, pool), (n,). Rows come in that order."""
    return rows.select(pl.struct("example_id", "pool").rle_id().alias("group"))["group"].to_numpy().astype(np.int64)


def too_long_reasons(rows: pl.DataFrame, flagged: np.ndarray) -> dict[str, str]:
    """The traces whose text, or claim, is too long for the encoder, each with that as reason."""
    reason = "the text or its claim is longer than the encoder takes, so it has no similarity"
    return dict.fromkeys(rows.filter(pl.Series(flagged))["trace_id"], reason)
