"""A random scorer, as a baseline for verifiers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generate.signals.signal import FREE, Additions, BlockRows, VerifierSignal, Worker, score_rows
from generate.traces.block import TextsToRead, TraceBlock
from toolkit.progress import Advance


class _RandomWorker(Worker):
    """Gives random scores that depend only on the seed, the verifier's name and the trace, and cost nothing."""

    per_block = 16_384

    def describe(self) -> Mapping[str, Any]:
        return {"drawn": "first 8 bytes of SHA-256 of recipe seed, verifier and trace, joined by byte 0, over 2**64"}

    def run(self, block: TraceBlock, advance: Advance) -> BlockRows:
        seed, name = self.work.additions.seed, self.step.name
        scores = ((row, _random_score(seed, name, row["trace_id"])) for row in block.wanted_rows)
        rows = [self.step.verification_row(row, score, **FREE) for row, score in scores]
        advance(len(rows))
        return BlockRows(score_rows(rows))


def _random_score(seed: int, name: str, trace_id: str) -> float:
    """A number from 0 to below 1 that these arguments determine."""
    drawn = hashlib.sha256(f"{seed}\0{name}\0{trace_id}".encode()).digest()[:8]
    return int.from_bytes(drawn, "big") / 2**64 * (1 - 2**-53)


@dataclass(frozen=True, kw_only=True)
class RandomScore(VerifierSignal):
    """A baseline verifier: a score uniform from 0 to 1, by the recipe's seed, its own name and the trace's id."""

    kind = "random"
    worker = _RandomWorker
    texts_to_read = TextsToRead.NONE

    def identity(self, additions: Additions) -> dict[str, Any]:
        """The settings that determine the rows, with the recipe's seed among them."""
        return super().identity(additions) | {"seed": additions.seed}
