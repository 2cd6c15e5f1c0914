"""A verifier and a kind of features from outside the package: all that a kind has to say, in one file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from generate.signals.feature_signals import FeatureSignal, FeatureWorker
from generate.signals.signal import FREE, BlockRows, VerifierSignal, Worker, Workload, score_rows
from generate.traces.block import TraceBlock
from toolkit.errors import ThinkbackError
from toolkit.progress import Advance
from toolkit.settings import setting


class BrevityWorker(Worker):
    """Counts characters."""

    per_block = 10

    def describe(self) -> Mapping[str, Any]:
        """How it scores."""
        return {"of": "characters"}

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        """A score for each trace that is not too long."""
        most = self.step.most
        sizes = {row["trace_id"]: len(block.full_text(row)) for row in block.wanted_rows}
        fits = [row for row in block.wanted_rows if sizes[row["trace_id"]] <= most]
        rows = [self.step.verification_row(row, 1 - sizes[row["trace_id"]] / most, **FREE) for row in fits]
        advance(len(rows))
        return BlockRows(score_rows(rows), tuple((name, "too long") for name in sizes if sizes[name] > most))


@dataclass(frozen=True, kw_only=True)
class Brevity(VerifierSignal):
    """Scores a trace by its length: 1 for no character, 0 for `most` of them; longer ones are left out."""

    kind = "brevity"

    most: int = setting(100, low=1)

    worker = BrevityWorker

    def disk_bytes(self, load: Workload) -> int:
        """Ten bytes a row."""
        return 10 * load.traces


class VowelWorker(FeatureWorker):
    """Counts vowels."""

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """The column."""
        return {"vowels": rows["text"].str.count_matches(f"[{self.step.letters}]")}, {}


@dataclass(frozen=True, kw_only=True)
class Vowels(FeatureSignal):
    """How many vowels a trace has; of `letters`, which must be small."""

    kind = "vowels"

    letters: str = setting("aeiou")

    worker = VowelWorker
    features = ("vowels",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.letters.islower():
            raise ThinkbackError(f"`letters` is `{self.letters}`; it takes small letters")
