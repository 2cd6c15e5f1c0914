"""Texts as arrays: texts of like length side by side, padded at their ends, with what is to be learnt marked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from generate.tasks import TaskText
from toolkit.errors import ThinkbackError

IGNORED = -100
"""The target of a place that is not learnt: torch's cross-entropy leaves it out."""
SORTED = 48
"""Batches that are cut from one run of texts: the more, the less padding and the less randomness."""


@dataclass(frozen=True)
class TextBatch:
    """ids (B, L): tokens, padded at the end; targets (B, L): the next token where it belongs to a completion or is the
    end behind it, else `IGNORED`. tokens: without padding.
    """

    ids: NDArray[np.int64]
    targets: NDArray[np.int64]
    tokens: int


def batches(
    texts: Iterator[TaskText], tokenizer: Any, places: int, context: int, rng: random.Random
) -> Iterator[TextBatch]:
    """Batches of at most `places` places, without end. A text longer than `context` is left out.

    ThinkbackError where a text holds a character that the tokenizer lacks, or none is short enough.
    """
    mean = 128
    while True:
        run = list(_encoded(islice(texts, max(8, SORTED * places // mean)), tokenizer))
        kept = sorted((pair for pair in run if len(pair[0]) <= min(context, places)), key=lambda pair: len(pair[0]))
        if not kept:
            raise ThinkbackError(f"no text is short enough for {min(context, places)} tokens: widen `model.context`")
        mean = max(1, sum(len(ids) for ids, _ in kept) // len(kept))
        groups = list(_groups(kept, places))
        rng.shuffle(groups)
        for group in groups:
            yield _padded(group, tokenizer.pad_token_id)


def _encoded(texts: Iterator[TaskText], tokenizer: Any) -> Iterator[tuple[list[int], int]]:
    """Each text's tokens with the end behind them, and how many of them are its prompt's."""
    taken = list(texts)
    whole = tokenizer([text.prompt + text.completion for text in taken])["input_ids"]
    for text, ids in zip(taken, whole, strict=True):
        if tokenizer.unk_token_id in ids:
            character = (text.prompt + text.completion)[ids.index(tokenizer.unk_token_id)]
            raise ThinkbackError(f"a text of `{text.format}` holds `{character}`, which the tokenizer lacks")
        yield [*ids, tokenizer.eos_token_id], len(text.prompt)


def _groups(pairs: Sequence[tuple[list[int], int]], places: int) -> Iterator[list[tuple[list[int], int]]]:
    """Runs of pairs, shortest first, each of at most `places` places once padded to its longest."""
    group: list[tuple[list[int], int]] = []
    for pair in pairs:
        if group and (len(group) + 1) * len(pair[0]) > places:
            yield group
            group = []
        group.append(pair)
    yield group


def _padded(group: Sequence[tuple[list[int], int]], pad: int) -> TextBatch:
    width = max(len(ids) for ids, _ in group)
    ids = np.full((len(group), width), pad, dtype=np.int64)
    targets = np.full((len(group), width), IGNORED, dtype=np.int64)
    for row, (tokens, prompt) in enumerate(group):
        ids[row, : len(tokens)] = tokens
        first = max(prompt, 1)  # the token that opens a text is predicted by none
        targets[row, first - 1 : len(tokens) - 1] = tokens[first:]
    return TextBatch(ids, targets, sum(len(tokens) for tokens, _ in group))
