"""The nearest neighbours of every row of a matrix by cosine, exactly, by blocks of a product of matrices.

Cosines are rounded to nine decimals, so that they do not depend on the size of blocks; equal ones: the earlier row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from generate.retrieval.words import WORD
from toolkit.progress import progress

NONE = -1
"""The number in the place of a neighbour where a row has no more."""
DIGITS = 10**9
WIDTH, CELLS = 2**14, 2**24
"""Columns of a block of cosines, and its cells at most: 128 MB of them."""


def word_vectors(texts: pl.Series) -> Any:
    """TF-IDF of texts at length one, a sparse matrix (n, words) float64, with the words of BM25."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return TfidfVectorizer(token_pattern=WORD, dtype=np.float64).fit_transform(texts)


def nearest_rows(rows: Any, most: int, width: int = WIDTH, cells: int = CELLS) -> np.ndarray:
    """The numbers of the `most` nearest other rows of each row (n, most) int32, nearest first; NONE where there are
    fewer, since no further one has a cosine above 0. rows: (n, d), dense or sparse, each of length one or zero.
    """
    count = rows.shape[0]
    width = min(count, width)
    height = max(1, cells // width)
    out = np.full((count, most), NONE, dtype=np.int32)
    with progress("finding neighbours", count, "passages") as advance:
        for start in range(0, count, height):
            chunk = rows[start : start + height]
            keys = np.full((chunk.shape[0], most), -1, dtype=np.int64)
            for first in range(0, count, width):
                cosines = _dot_products(chunk, rows[first : first + width])
                keys = _keep_largest(keys, _sort_keys(cosines, start, first, count), most)
            order = np.sort(keys, axis=1)[:, ::-1]
            out[start : start + height] = np.where(order >= 0, count - 1 - order % count, NONE)
            advance(chunk.shape[0])
    return out


def _dot_products(chunk: Any, others: Any) -> np.ndarray:
    if hasattr(chunk, "toarray"):
        return (chunk @ others.T).toarray()
    return chunk.astype(np.float64) @ others.astype(np.float64).T


def _sort_keys(cosines: np.ndarray, start: int, first: int, count: int) -> np.ndarray:
    """A number for each cosine that puts these in order, equal ones by place; -1 for those that do not count."""
    whole = np.rint(cosines * DIGITS).astype(np.int64)
    places = np.arange(first, first + whole.shape[1])
    keys = whole * count + (count - 1 - places)
    keys[(whole <= 0) | (places == np.arange(start, start + len(whole))[:, None])] = -1
    return keys


def _keep_largest(before: np.ndarray, keys: np.ndarray, most: int) -> np.ndarray:
    both = np.concatenate([before, keys], axis=1)
    return np.partition(both, both.shape[1] - most, axis=1)[:, -most:]
