"""BM25 by bm25s (Lù 2024, arXiv:2407.03618): Lucene's form, words of letters and digits in lower case."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from toolkit.errors import PackageError
from toolkit.progress import progress

WORD = r"[^\W_]+"
"""Pattern of a word."""
CHUNK = 2**14
"""Passages whose words are counted between two moves of the bar."""


def import_bm25s() -> Any:
    """The package. PackageError where it is not installed."""
    try:
        import bm25s as package
    except ImportError:
        raise PackageError("searches of passages need bm25s: pip install 'thinkback[retrieval]'") from None
    return package


def words_of(text: str) -> list[str]:
    """The words of a text."""
    return re.findall(WORD, text.lower())


def index_words(texts: pl.Series, k1: float, b: float) -> Any:
    """The BM25 index of some texts."""
    vocabulary: dict[str, int] = {}
    numbers: list[list[int]] = []
    with progress("indexing", len(texts), "passages") as advance:
        for chunk in (texts.slice(start, CHUNK) for start in range(0, len(texts), CHUNK)):
            for text in chunk:
                numbers.append([vocabulary.setdefault(word, len(vocabulary)) for word in words_of(text)])
            advance(len(chunk))
    vocabulary.setdefault("", len(vocabulary))
    index = import_bm25s().BM25(k1=k1, b=b, method="lucene")
    index.index((numbers, vocabulary), show_progress=False)
    return index


def save_words(index: Any, folder: Path) -> None:
    """Write an index into a folder."""
    index.save(folder, show_progress=False)


def load_words(folder: Path) -> Any:
    """An index from its folder, whose arrays stay on disk until they are read."""
    return import_bm25s().BM25.load(folder, mmap=True, show_progress=False)


def best_by_words(index: Any, query: str, top: int) -> tuple[np.ndarray, np.ndarray]:
    """The places of the passages, at most `top`, that share a word with a query, best first, and their scores.

    A word counts once, however often the query has it. Equal scores: the earlier passage first.
    """
    numbers = index.get_tokens_ids(list(dict.fromkeys(words_of(query))))
    if not numbers:
        return np.zeros(0, np.int64), np.zeros(0)
    return best_places(index.get_scores_from_ids(numbers), top, 0.0)


def best_places(scores: np.ndarray, top: int, above: float) -> tuple[np.ndarray, np.ndarray]:
    """The places of the `top` highest scores (n,) above a bound, highest first, then by place, and these scores."""
    there = np.flatnonzero(scores > above)
    if len(there) > top:
        least = np.partition(scores[there], len(there) - top)[len(there) - top]
        there = there[scores[there] >= least]
    places = there[np.argsort(-scores[there], kind="stable")[:top]]
    return places, scores[places].astype(float)
