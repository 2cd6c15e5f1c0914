"""Shards: which part of the examples a run is for."""

from __future__ import annotations

import polars as pl

from toolkit.errors import ThinkbackError


def shard_of(rows: pl.DataFrame, shard: tuple[int, int], limit: int | None = None) -> pl.DataFrame:
    """Part i of n (from 1) of the first `limit` rows: every n-th, so that parts are alike. None is in two parts.

    ThinkbackError where there is no such part, or it is empty.
    """
    number, count = shard
    if not 1 <= number <= count:
        raise ThinkbackError(f"`shard` is {number}/{count}: the first number must be between 1 and {count}")
    if limit is not None and limit < 1:
        raise ThinkbackError(f"`limit` is {limit}; it takes an integer, at least 1")
    first = rows if limit is None else rows.head(limit)
    part = first.gather_every(count, number - 1)
    if not part.height:
        raise ThinkbackError(f"`shard` is {number}/{count}, and has no examples: there are {first.height}")
    return part
