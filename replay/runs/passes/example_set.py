"""The examples of a run: which they are, their groups, and what they are resampled with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.conditions import matching
from replay.data.contents import Contents
from toolkit.errors import ConflictError, EmptyError, argument
from toolkit.log import Log, collect
from toolkit.stats.many.compare import COMPARISONS_SCHEMA, SUMMARY_SCHEMA


@dataclass(frozen=True)
class ExampleSet:
    """The examples of a run and what the statistics need of them, in example_id order."""

    frame: pl.DataFrame  # example_id, dataset, labels, gold, cluster and whatever `by` names
    labels: tuple[str, ...] | None  # of the label space that all examples share, those that are gold of any

    def gold_codes(self, examples: pl.DataFrame) -> np.ndarray | None:
        """Gold of each example as an index into the labels, -1 where it has none."""
        if self.labels is None:
            return None
        return examples.select(label_codes("gold", self.labels)).to_series().fill_null(-1).to_numpy()


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


def select_examples(
    log: Log,
    contents: Contents,
    pools: frozenset[str],
    where: str | None,
    by: Sequence[str] = (),
    columns: Iterable[str] = (),
) -> ExampleSet:
    """The examples of a run, and the labels that are gold of any, which F1 is about.

    `by` are the columns that make groups, `columns` others that are read. There are no labels where one of the `pools`
    that are read has verdicts without answers.
    """
    for column in by:
        contents.require_groups(column)
        if column in {*SUMMARY_SCHEMA, *COMPARISONS_SCHEMA}:
            raise ConflictError(
                f"{argument('by')} names `{column}`, which is also a column of the result's tables: rename it"
            )
    names = list(dict.fromkeys(["example_id", "dataset", "labels", "gold", "cluster", *by, *columns]))
    examples = collect(log.scan("examples", names), log).sort("example_id")
    if where is not None:
        examples = examples.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    if examples.is_empty():
        raise EmptyError(f"{log.address} has no examples")
    veiled = contents.opaque | contents.partly_opaque
    spaces = examples["labels"].unique().to_list()
    shared = spaces[0] if len(spaces) == 1 and spaces[0] and not veiled & pools else ()
    gold = set(examples["gold"].unique())
    return ExampleSet(examples, tuple(label for label in shared if label in gold) or None)
