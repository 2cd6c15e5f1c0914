"""Logged traces of one example as rows of an explanation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from replay.data.block import LogBlock


def trace_rows(block: LogBlock, slice_: str, samples: Iterable[int], judged: bool = False) -> Iterator[dict[str, Any]]:
    """Sample index, answer and tokens of some traces of a slice; with `judged`, whether they are right."""
    pool = block.pools[slice_]
    for sample in samples:
        if sample >= int(pool.size[0]):
            continue
        word = int(pool.word[0, sample])
        row: dict[str, Any] = {"of": slice_, "sample": sample, "answer": block.vocabulary[word] if word >= 0 else None}
        if judged:
            row["correct"] = _known(pool.judged[0, sample])
        else:
            row["tokens"] = _known(pool.costs["prompt_tokens"][0, sample] + pool.costs["completion_tokens"][0, sample])
        yield row


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
