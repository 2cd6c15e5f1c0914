"""Logged traces of one example, and what calls cost, as rows of an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.costs import by_name

COST_COLUMNS = ("traces", "verifications", "operations", "calls", "completion_tokens", "total_tokens", "latency_s")
"""The costs that the tables of an explanation have."""

TRACE_SCHEMA = {
    "of": pl.String,
    "sample": pl.Int64,
    "answer": pl.String,
    "completion_tokens": pl.Float64,
    "tokens": pl.Float64,
}
"""The columns of `trace_rows`."""


def trace_rows(block: LogBlock, slice_: str, samples: Iterable[int], judged: bool = False) -> Iterator[dict[str, Any]]:
    """Sample index, answer and tokens of some traces of a slice; with `judged`, whether they are right."""
    pool = block.pools[slice_]
    for sample in samples:
        if sample >= int(pool.size[0]):
            continue
        row: dict[str, Any] = {"of": slice_, "sample": sample, "answer": word_of(block, int(pool.word[0, sample]))}
        if judged:
            row["correct"] = known(pool.judged[0, sample])
        row["completion_tokens"] = known(pool.costs["completion_tokens"][0, sample])
        row["tokens"] = known(pool.costs["prompt_tokens"][0, sample] + pool.costs["completion_tokens"][0, sample])
        yield row


def traces_there(block: LogBlock, slice_: str) -> tuple[tuple[str, int], ...]:
    """All traces of a slice on the one example of a block."""
    return tuple((slice_, sample) for sample in range(int(block.pools[slice_].size[0])))


def cost_row(part: str, costs: np.ndarray) -> dict[str, Any]:
    """What one part paid, from costs (C,)."""
    named = by_name(costs)
    return {"part": part, **{name: known(float(named[name])) for name in COST_COLUMNS}}


def word_of(block: LogBlock, word: int) -> str | None:
    """An answer by its number in the block's vocabulary; None for -1."""
    return block.vocabulary[word] if word >= 0 else None


def known(value: float) -> float | None:
    """None for NaN."""
    return None if np.isnan(value) else float(value)
