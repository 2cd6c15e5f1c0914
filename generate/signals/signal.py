"""What a step of adding is: something that makes rows of a block of examples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from generate.traces.block import Block
from toolkit.errors import ThinkbackError

SCORES: dict[str, Any] = {
    "trace_id": pl.String, "verifier": pl.String, "example_id": pl.String, "score": pl.Float64, "candidates": pl.Int32,
    "prompt_tokens": pl.Int32, "completion_tokens": pl.Int32, "latency_s": pl.Float32, "device_s": pl.Float32,
}  # fmt: skip
"""The columns of a verification."""

Advance = Callable[[float], None]


class Unreadable(ThinkbackError):
    """Nothing that a verifier says can be read."""


@dataclass(frozen=True)
class Made:
    """The rows of a block. `skipped`: traces that can't have any, and why; `incomplete`: those whose row lacks a value,
    and why. `unreadable`: judgements that could not be read, as the traces of each. `tokens`: spent on calls that came
    to nothing, prompt and completion.
    """

    rows: pl.DataFrame
    skipped: tuple[tuple[str, str], ...] = ()
    unreadable: tuple[tuple[str, ...], ...] = ()
    tokens: int = 0
    incomplete: tuple[tuple[str, str], ...] = ()


class Worker(Protocol):
    """A step at work. `per_block`: about how many traces it takes at once, so that memory stays bounded."""

    per_block: int

    def describe(self) -> dict[str, object]:
        """For the manifest: the model, its weights' hash, versions, device, prompts."""
        ...

    def run(self, block: Block, advance: Advance) -> Made:
        """The rows of a block's wanted traces; `advance` counts traces that are done."""
        ...

    def close(self) -> None:
        """Give back memory and connections."""
        ...


def score_rows(rows: Sequence[dict[str, Any]], decimals: int | None = None) -> pl.DataFrame:
    """Verifications as a frame, columns that are missing being null; scores rounded to `decimals`, where given."""
    made = pl.DataFrame([{name: row.get(name) for name in SCORES} for row in rows], schema=SCORES)
    return made if decimals is None else made.with_columns(pl.col("score").round(decimals))
