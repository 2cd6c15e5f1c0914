"""A scorer that knows nothing, to be compared with."""

from __future__ import annotations

import hashlib

from generate.signals.additions import Random
from generate.signals.signal import Advance, Made, score_rows
from generate.traces.block import Block


class RandomWorker:
    """Uniform scores in [0, 1) that depend on the seed, the verifier's name and the trace alone, and cost nothing."""

    per_block = 16_384

    def __init__(self, step: Random, seed: int):
        self.step, self.seed = step, seed

    def describe(self) -> dict[str, object]:
        """How the scores are drawn."""
        return {"drawn": "first 8 bytes of SHA-256 of recipe seed, verifier and trace, joined by byte 0, over 2**64"}

    def run(self, block: Block, advance: Advance) -> Made:
        """A verification for each trace."""
        free = {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "device_s": 0.0}
        rows = [
            {
                "trace_id": row["trace_id"],
                "verifier": self.step.name,
                "example_id": row["example_id"],
                "score": chance(self.seed, self.step.name, row["trace_id"]),
                **free,
            }
            for row in block.rows
        ]
        advance(len(rows))
        return Made(score_rows(rows))

    def close(self) -> None:
        """Nothing to give back."""


def chance(seed: int, name: str, trace_id: str) -> float:
    """A number in [0, 1)."""
    drawn = hashlib.sha256(f"{seed}\0{name}\0{trace_id}".encode()).digest()[:8]
    return int.from_bytes(drawn, "big") / 2**64 * (1 - 2**-53)
