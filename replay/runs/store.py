"""Outcomes as a table: from the engine's arrays to `outcomes.parquet`, and from there to the statistics.

One row per (policy, example), in chunks of examples: within a chunk all policies in their order, and under
each all its examples by id. A chunk is a row group, so the statistics read what was written, chunk by
chunk, and memory does not grow with the log. Chunks are cut by example alone, so the bytes do not depend on
the blocks in which the log was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.engine.costs import by_name
from replay.engine.mixing import predicted
from replay.engine.outcome import ENDINGS, MIXED, Outcome
from replay.policies.base import Policy, columns_of
from toolkit.columns import COLUMNS, with_columns
from toolkit.stats import OutcomeBlock, unit_numbers

if TYPE_CHECKING:
    import pyarrow.parquet as pq

ANSWERS = pl.List(pl.Struct({"answer": pl.String, "share": pl.Float64}))
KEYS: dict[str, pl.DataType | type[pl.DataType]] = {
    "policy": pl.String,
    "example_id": pl.String,
    "answer": pl.String,
    "answers": ANSWERS,
    "ending": pl.String,
}


@dataclass(frozen=True)
class ExampleSet:
    """The examples of a run and what the statistics need of them, in example_id order."""

    frame: pl.DataFrame  # example_id, labels, gold, cluster and whatever `by` names
    labels: tuple[str, ...] | None  # the label space, where all examples share one

    def gold_codes(self, kept: pl.DataFrame) -> np.ndarray | None:
        """Gold of each example as an index into the labels, -1 where it has none."""
        if self.labels is None:
            return None
        return kept.select(_label_codes("gold", self.labels)).to_series().fill_null(-1).cast(pl.Int32).to_numpy()


def resampling_units(examples: pl.DataFrame) -> pl.Series:
    """Name of what each example is resampled with: its cluster, else itself. The two kinds never share a name."""
    alone = pl.lit("e") + pl.col("example_id")
    return examples.select(pl.coalesce(pl.lit("c") + pl.col("cluster"), alone)).to_series()


def chunk_size(policies: int, traces: int) -> int:
    """Examples per chunk: few enough that one chunk of all policies, and one walk over it, stay small in memory."""
    return int(np.clip(min(2**20 // max(policies, 1), 2**17 // max(traces, 1)), 64, 8192))


def number_columns(policies: Sequence[Policy], priced: bool) -> tuple[str, ...]:
    """Numeric columns of the outcomes of some policies: those of every run, and those that a policy adds."""
    extra = columns_of(policies)
    added, table = {column.name for column in extra} | ({"price"} if priced else set()), with_columns(extra)
    return tuple(c.name for c in table if not (c.computed or c.family) and (c.always or c.name in added))


def chunk_frame(
    policies: Sequence[Policy], outcomes: Sequence[Outcome], block: LogBlock, keep: np.ndarray, columns: Sequence[str]
) -> pl.DataFrame:
    """Rows of one chunk: the examples where `keep` (E,) is true, under every policy; `columns` of numbers."""
    kept = block.examples["example_id"].filter(pl.Series(keep))
    names = pl.Series([p.name for p in policies], dtype=pl.String)
    repeated = pl.Series(np.repeat(np.arange(len(policies)), len(kept)))
    parts, empty = [outcome_values(o, keep) for o in outcomes], np.full(len(kept), np.nan)
    numbers = {name: np.concatenate([part.get(name, empty) for part in parts]) for name in columns}
    single, lists = _answers(outcomes, block.vocabulary, keep)
    endings = np.concatenate([o.ending[keep] for o in outcomes])
    ending = pl.Series(endings.astype(np.int64)).replace_strict(
        {MIXED: None} | dict(enumerate(ENDINGS)), return_dtype=pl.String
    )
    made = {
        "policy": names.gather(repeated),
        "example_id": pl.concat([kept] * len(policies)),
        "answer": single,
        "answers": lists,
        "ending": ending,
    } | {name: pl.Series(values, nan_to_null=True) for name, values in numbers.items()}
    return pl.DataFrame(made, schema=KEYS | dict.fromkeys(columns, pl.Float64))


def outcome_values(outcome: Outcome, keep: np.ndarray) -> dict[str, np.ndarray]:
    """Numeric columns of one policy on the examples kept; NaN for null."""
    values = by_name(outcome.costs[keep]) | {name: column[keep] for name, column in outcome.measured.items()}
    values["intervened"] = np.zeros(int(keep.sum()))
    against = outcome.against
    values |= {c.name: getattr(against, c.name)[keep] for c in COLUMNS if hasattr(against, c.name)}
    return values | {"correct": outcome.correct[keep], "credit": outcome.credit[keep]}


def _answers(outcomes: Sequence[Outcome], vocabulary: pl.Series, keep: np.ndarray) -> tuple[pl.Series, pl.Series]:
    """`answer` of single rows and `answers` with their shares of means over several."""
    words = np.concatenate([np.where(o.rows == 1, predicted(o), -1)[keep] for o in outcomes])
    index = pl.Series(words, dtype=pl.Int64)
    single = vocabulary.gather(index.replace(-1, None)).rename("answer")
    size = int(keep.sum())
    lists = [_shares(o, keep, p * size) for p, o in enumerate(outcomes) if (o.rows[keep] > 1).any()]
    empty = pl.DataFrame({"row": pl.Series(np.arange(len(words)), dtype=pl.Int64)})
    if not lists:
        return single, pl.Series("answers", [None] * len(words), dtype=ANSWERS)
    shares = (
        pl.concat(lists)
        .with_columns(answer=vocabulary.gather(pl.concat(lists)["word"].replace(-1, None)))
        .group_by("row", "answer")
        .agg(pl.col("share").sum())
        .sort("row", -pl.col("share").round(12), "answer", nulls_last=True)
        .group_by("row", maintain_order=True)
        .agg(pl.struct("answer", "share").alias("answers"))
    )
    return single, empty.join(shares, on="row", how="left", maintain_order="left")["answers"].cast(ANSWERS)


def _shares(outcome: Outcome, keep: np.ndarray, offset: int) -> pl.DataFrame:
    """Rows (row, word, share) of the examples whose outcome is a mean over two or more rows."""
    shares = np.ones(outcome.words.shape) if outcome.shares is None else outcome.shares
    several = np.where(outcome.rows > 1, shares, 0.0)[:, keep]
    row, example = np.nonzero(several)
    return pl.DataFrame(
        {
            "row": pl.Series(example + offset, dtype=pl.Int64),
            "word": pl.Series(outcome.words[:, keep][row, example], dtype=pl.Int64),
            "share": several[row, example],
        }
    )


class OutcomeStore:
    """Writes chunks to a Parquet file and reads them back as blocks for the statistics."""

    def __init__(self, path: Path, policies: Sequence[Policy], priced: bool) -> None:
        self.path, self.policies = path, tuple(policies)
        self.numbers = number_columns(policies, priced)
        self._writer: pq.ParquetWriter | None = None
        self._ids: list[pl.Series] = []  # of the examples of each chunk

    def append(self, chunk: pl.DataFrame) -> None:
        """Write one chunk as a row group."""
        import pyarrow.parquet as pq

        table = chunk.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=max(len(chunk), 1))
        self._ids.append(chunk["example_id"][: len(chunk) // len(self.policies)])

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def blocks(self, examples: ExampleSet, subset: pl.Series | None = None) -> Iterator[OutcomeBlock]:
        """The outcomes chunk by chunk, of the examples in `subset` (ids) or of all.

        Raises OSError when the file is gone.
        """
        import pyarrow.parquet as pq

        ids = pl.concat(self._ids)
        ids = ids if subset is None else ids.filter(ids.is_in(subset.implode()))
        kept = examples.frame.filter(pl.col("example_id").is_in(ids.implode()))
        units, done = unit_numbers(resampling_units(kept)), 0
        with pq.ParquetFile(self.path) as file:
            for group in range(file.num_row_groups):
                frame = pl.DataFrame(pl.from_arrow(file.read_row_group(group)))
                if subset is not None:
                    frame = frame.filter(pl.col("example_id").is_in(subset.implode()))
                if len(frame):
                    size = len(frame) // len(self.policies)
                    yield self._block(frame, examples, kept[done : done + size], units[done : done + size])
                    done += size

    def _block(self, frame: pl.DataFrame, examples: ExampleSet, kept: pl.DataFrame, unit: np.ndarray) -> OutcomeBlock:
        policies, ids = len(self.policies), kept["example_id"]
        values = {name: frame[name].fill_null(np.nan).to_numpy().reshape(policies, len(ids)) for name in self.numbers}
        return OutcomeBlock(
            example_ids=ids.to_numpy(),
            unit=unit,
            values=values,
            gold=examples.gold_codes(kept),
            predicted=_label_shares(frame, examples.labels, policies),
        )


def _label_codes(column: str, labels: Sequence[str]) -> pl.Expr:
    """A column of answers as indices into the labels, null for any other."""
    return pl.col(column).replace_strict(list(labels), range(len(labels)), default=None, return_dtype=pl.Int64)


def _label_shares(frame: pl.DataFrame, labels: tuple[str, ...] | None, policies: int) -> np.ndarray | None:
    """Share of each label among the predictions: float (P, E, L)."""
    if labels is None:
        return None
    shares = np.zeros((len(frame), len(labels)))
    codes = frame.select(_label_codes("answer", labels)).to_series()
    on = np.flatnonzero(codes.is_not_null().to_numpy())
    shares[on, codes.drop_nulls().to_numpy()] = 1.0
    lists = (
        frame.select("answers")
        .with_row_index("row")
        .drop_nulls("answers")
        .explode("answers")
        .unnest("answers")
        .with_columns(code=_label_codes("answer", labels))
        .drop_nulls("code")
    )
    np.add.at(shares, (lists["row"].to_numpy(), lists["code"].to_numpy()), lists["share"].to_numpy())
    return shares.reshape(policies, -1, len(labels))
