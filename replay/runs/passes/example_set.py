"""The examples of a run: which they are, their groups, strata and resampling units."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.data.conditions import ids_where
from replay.data.contents import Contents
from toolkit.errors import ConflictError, EmptyError, argument
from toolkit.log import Log, collect
from toolkit.log.contract.schema import TEXT_LABELS
from toolkit.stats import unit_numbers
from toolkit.stats.many.compare import COMPARISONS_SCHEMA, SUMMARY_SCHEMA
from toolkit.stats.metrics.spill import Ints
from toolkit.stats.metrics.strata import Strata


@dataclass(frozen=True)
class ExampleSet:
    """The examples of a run and what the statistics need of them, in example_id order.

    `strata`: the column whose values are drawn each by itself; `weights`: of these values, relative to each other.
    """

    frame: pl.DataFrame  # example_id, dataset, labels, gold, cluster and whatever `by` names
    labels: tuple[str, ...] | None  # of the label space that all examples share, those that are gold of any
    strata: str | None = None
    weights: Mapping[str, float] | None = None

    def with_ids(self, ids: pl.Series) -> ExampleSet:
        """The set of the examples with these ids alone."""
        return replace(self, frame=self.frame.filter(pl.col("example_id").is_in(ids.implode())))

    def gold_codes(self, examples: pl.DataFrame) -> np.ndarray | None:
        """The gold of each example as an index into the labels, -1 where it has none."""
        if self.labels is None:
            return None
        return examples.select(label_codes("gold", self.labels)).to_series().fill_null(-1).to_numpy()

    def resampling_units(self, examples: pl.DataFrame) -> tuple[Ints, Strata | None]:
        """The resampling unit of each of some examples, and their strata."""
        unit = unit_numbers(resampling_units(examples))
        if self.strata is None:
            return unit, None
        name = stratum_names(examples, self.strata)
        names = tuple(sorted(name.unique().to_list()))
        code = name.replace_strict(list(names), range(len(names)), return_dtype=pl.Int64).to_numpy()
        return unit, Strata.of(self.strata, code, names, unit, self.weights)


def stratum_names(examples: pl.DataFrame, column: str) -> pl.Series:
    """The stratum of each example; examples without a value are one."""
    return examples[column].cast(pl.String).fill_null("null")


def label_codes(column: str, labels: Sequence[str]) -> pl.Expr:
    """A column of answers as indices into the labels, null for other answers."""
    return pl.col(column).replace_strict(list(labels), range(len(labels)), default=None, return_dtype=pl.Int64)


def resampling_units(examples: pl.DataFrame) -> pl.Series:
    """The name of what each example is resampled with: its cluster, else itself; the two never share a name."""
    alone = pl.lit("e") + pl.col("example_id")
    return examples.select(pl.coalesce(pl.lit("c") + pl.col("cluster"), alone)).to_series()


Group = tuple[tuple[object, ...], tuple[str | None, ...], pl.Series]
"""The values of a group, the same as texts, and the ids of its examples."""


def example_groups(examples: pl.DataFrame, by: Sequence[str]) -> Iterator[Group]:
    """The groups of examples by some columns, sorted by their values' texts; none without columns."""
    if not by:
        return
    for values, frame in sorted(examples.group_by(*by), key=lambda group: tuple(map(str, group[0]))):
        texts = frame.select(pl.col(name).cast(pl.String) for name in by).row(0)
        yield values, texts, frame["example_id"].sort()


def with_gold_of_texts(examples: pl.DataFrame) -> pl.DataFrame:
    """The examples; of texts with `gold_error` the gold and the labels are made from it, where they have none."""
    if "gold_error" not in examples.columns or examples["labels"].null_count() < len(examples):
        return examples
    supported, refuted = TEXT_LABELS
    gold = pl.when("gold_error").then(pl.lit(refuted)).when(~pl.col("gold_error")).then(pl.lit(supported))
    return examples.with_columns(gold=gold, labels=pl.lit(pl.Series([list(TEXT_LABELS)])).first())


def select_examples(
    log: Log,
    contents: Contents,
    pools: frozenset[str],
    where: str | None,
    by: Sequence[str] = (),
    columns: Iterable[str] = (),
) -> ExampleSet:
    """The examples of a run and the labels that are gold of any, which F1 needs.

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
    examples = with_gold_of_texts(collect(log.scan("examples", names), log).sort("example_id"))
    if where is not None:
        examples = examples.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    if examples.is_empty():
        raise EmptyError(f"{log.address} has no examples")
    veiled = contents.opaque | contents.partly_opaque
    spaces = examples["labels"].unique().to_list()
    shared = spaces[0] if len(spaces) == 1 and spaces[0] and not veiled & pools else ()
    gold = set(examples["gold"].unique())
    return ExampleSet(examples, tuple(label for label in shared if label in gold) or None)
