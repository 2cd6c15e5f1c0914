"""The traces of a block sorted once into groups, over which every description adds up: the attempts at an example, or
the revisions of one trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolkit.table_rows import starts_of_equal_runs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

POOL = ("pool", "action")
NO_PLACE = np.iinfo(np.int64).max
"""The least of no numbers."""


@dataclass(frozen=True, eq=False)
class TraceGroups:
    """N traces, sorted by pool and action, example, parent and sample index, in G groups of neighbours.

    `frame`: the traces; `ids`: E ids in ascending order, then those that no example has; `kinds`: pool and action of K
    kinds; `start` (G,): each group's first row; `kind`, `example` (G,): its number among `kinds` and `ids`.
    """

    frame: pl.DataFrame
    ids: pl.Series
    kinds: pl.DataFrame
    start: Ints
    kind: Ints
    example: Ints

    @cached_property
    def size(self) -> Ints:
        """The number (G,) of traces in each group."""
        return np.diff(self.start, append=self.frame.height)

    @cached_property
    def group(self) -> Ints:
        """The group (N,) of each trace."""
        return np.repeat(np.arange(len(self.start)), self.size)

    @cached_property
    def sample_index(self) -> Ints:
        """The sample index (N,) of each trace."""
        return self.frame["sample_index"].cast(pl.Int64).fill_null(-1).to_numpy()

    @cached_property
    def is_before_gap(self) -> Bools:
        """Whether each trace (N,) comes before a gap in its group's sample indices, which count 0, 1, 2 …"""
        return np.arange(self.frame.height) - np.repeat(self.start, self.size) == self.sample_index

    def of_known_examples(self, count: int) -> pl.DataFrame:
        """The traces of the first `count` examples of `ids`."""
        known = self.example < count
        return self.frame if known.all() else self.frame.filter(pl.Series(known[self.group]))

    def group_sum(self, values: NDArray[np.generic]) -> Ints:
        """The sums (G,) of whole numbers, or counts of what is true, of each trace (N,)."""
        return np.add.reduceat(values.astype(np.int64), self.start)

    def group_minimum(self, values: Ints, where: Bools) -> Ints:
        """The least value (G,) in each group among those (N,) of some traces; `NO_PLACE` without one."""
        return np.minimum.reduceat(np.where(where, values, NO_PLACE), self.start)

    def sum_by_kind(self, values: Ints | Floats | Bools) -> Floats:
        """The sums (K,) of numbers of each group (G,) by pool and action."""
        return np.bincount(self.kind, values, len(self.kinds)).astype(np.float64, copy=False)


def group_traces(traces: pl.DataFrame, ids: pl.Series) -> TraceGroups:
    """Sorts the traces of a block. `ids`: the ids of its examples, each once."""
    ids = ids.sort()
    example = _indices_among(traces["example_id"], ids)
    if example.null_count():
        unknown = traces["example_id"].filter(example.is_null()).unique().sort()
        ids = pl.concat([ids, unknown])
        example = _indices_among(traces["example_id"], ids)
    kinds = traces.select(POOL).unique().sort(pl.col("action") != "solve", *POOL)
    kind = _kind_of_traces(traces, kinds)
    parents = traces["parent_id"]
    parent = np.zeros(traces.height, np.int64)
    if parents.null_count() < len(parents):
        parent = _indices_among(parents, parents.drop_nulls().unique().sort()).cast(pl.Int64).fill_null(-1).to_numpy()
    keys = [traces["sample_index"].to_numpy(), parent, example.cast(pl.Int64).to_numpy(), kind]
    order = np.lexsort(keys)
    start = starts_of_equal_runs(*(key[order] for key in keys[1:]))
    return TraceGroups(traces[order], ids, kinds, start, kind=kind[order][start], example=keys[2][order][start])


def _kind_of_traces(traces: pl.DataFrame, kinds: pl.DataFrame) -> Ints:
    """The number (N,) of each trace's pool and action among `kinds`."""
    code = np.zeros(traces.height, np.int64)
    of_kind = np.zeros(kinds.height, np.int64)
    for name in POOL:
        names = pl.Enum(kinds[name].unique().sort())
        for codes, frame in ((code, traces), (of_kind, kinds)):
            codes *= len(names.categories)
            codes += frame[name].cast(names).to_physical().to_numpy()
    order = np.argsort(of_kind)
    return order[np.searchsorted(of_kind[order], code)]


def _indices_among(values: pl.Series, known: pl.Series) -> pl.Series:
    """The place of each value among distinct known ones; null for others, and for null. Equal neighbours are sought
    once.
    """
    run = values.rle_id()
    heads = values.filter(run.diff().fill_null(1) != 0).to_frame("value")
    places = known.to_frame("value").with_row_index("place")
    return heads.join(places, on="value", how="left", maintain_order="left")["place"][run]
