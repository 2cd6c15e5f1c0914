"""The scores that a model which reads texts gives to the requests of loops."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from generate.loops.requests import Scores
from generate.passes.batching import TokenIds
from generate.passes.reader import ReadBatch, Reader


def read_scores(
    reader: Reader, requests: Sequence[Sequence[TokenIds]], values: Callable[[ReadBatch], np.ndarray]
) -> list[Scores]:
    """The scores of each request's texts, read together; None for a text that is too long. values: from a batch that
    was read to the scores (n,) of its texts.
    """
    listed = [(number, text) for number, texts in enumerate(requests) for text in texts]
    scores: list[float | None] = [None] * len(listed)
    tokens, busy, began = [0] * len(requests), [0.0] * len(requests), time.perf_counter()
    fitting = [place for place, (_, text) in enumerate(listed) if reader.unreadable_reason(text) is None]
    for read in reader.read([listed[place][1] for place in fitting]):
        for place, score, seconds in zip(read.places, values(read), read.device_s, strict=True):
            number, text = listed[fitting[place]]
            scores[fitting[place]] = float(score)
            tokens[number] += len(text)
            busy[number] += seconds
    waited = time.perf_counter() - began
    grouped: list[list[float | None]] = [[] for _ in requests]
    for (number, _), score in zip(listed, scores, strict=True):
        grouped[number].append(score)
    return [Scores(tuple(v), t, 0, waited, s) for v, t, s in zip(grouped, tokens, busy, strict=True)]
