"""The examples of a run, and what they are resampled with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl


@dataclass(frozen=True)
class ExampleSet:
    """The examples of a run and what the statistics need of them, in example_id order."""

    frame: pl.DataFrame  # example_id, dataset, labels, gold, cluster and whatever `by` names
    labels: tuple[str, ...] | None  # of the label space that all examples share, those that are gold of any

    def gold_codes(self, kept: pl.DataFrame) -> np.ndarray | None:
        """Gold of each example as an index into the labels, -1 where it has none."""
        if self.labels is None:
            return None
        return kept.select(label_codes("gold", self.labels)).to_series().fill_null(-1).to_numpy()


def label_codes(column: str, labels: Sequence[str]) -> pl.Expr:
    """A column of answers as indices into the labels, null for any other."""
    return pl.col(column).replace_strict(list(labels), range(len(labels)), default=None, return_dtype=pl.Int64)


def resampling_units(examples: pl.DataFrame) -> pl.Series:
    """Name of what each example is resampled with: its cluster, else itself. The two kinds never share a name."""
    alone = pl.lit("e") + pl.col("example_id")
    return examples.select(pl.coalesce(pl.lit("c") + pl.col("cluster"), alone)).to_series()


Group = tuple[tuple[object, ...], tuple[str | None, ...], pl.Series]
"""The values of a group, the same as texts, and the ids of its examples."""


def groups_of(examples: pl.DataFrame, by: Sequence[str]) -> Iterator[Group]:
    """The groups of examples by some columns, in the order of their values' texts; none without columns."""
    if not by:
        return
    for values, frame in sorted(examples.group_by(*by), key=lambda group: tuple(map(str, group[0]))):
        texts = frame.select(pl.col(name).cast(pl.String) for name in by).row(0)
        yield values, texts, frame["example_id"].sort()
