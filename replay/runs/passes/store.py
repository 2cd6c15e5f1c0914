"""The outcomes of a result: those of its policies on the examples that it compares, read from the result of a pass.

As a table there is one row per (policy, example), in chunks of examples: within a chunk all policies in their order,
and under each all its examples by id. A chunk is a row group. The statistics read the same piece by piece, so memory
does not grow with policies times examples.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from replay.engine.outcome import ENDINGS
from replay.runs.passes.example_set import ExampleSet
from replay.runs.passes.pass_result import ENDING, WORD, PassBlock, PassResult, RowShares
from replay.runs.passes.versions import ReportedPolicies
from toolkit.stats.metrics.outcomes import Key, Store
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.ways import Rows

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


@dataclass(frozen=True, eq=False)
class _CoveredChunk:
    """Some examples of a block, for the policies that are reported."""

    block: PassBlock
    reported: ReportedPolicies
    labels: tuple[str, ...] | None
    first: int  # number of the block's first example among all
    chosen: Ints  # examples of the block, ascending

    @property
    def size(self) -> int:
        return len(self.chosen)

    @property
    def keys(self) -> Collection[Key]:
        return self.block.tables.keys

    def values(self, key: Key, policies: Ints, start: int, stop: int) -> Floats:
        """A column, or a label's predicted shares, of some policies and examples, (policies, E)."""
        here = self.chosen[start:stop]
        low, high = int(here[0]), int(here[-1]) + 1
        if isinstance(key, str):
            numbers = self.reported.values(self.block.tables, key, policies, self.first, low, high)
        else:
            numbers = self._label_shares(self._label_numbers[key], policies, low, high)
        return numbers if len(here) == high - low else numbers[:, here - low]

    def outcome_rows(self, start: int, stop: int) -> Ints | None:
        """The rows of the outcomes of all policies, (policies, E); None where no two share one."""
        tables, here = self.block.tables, self.chosen[start:stop]
        if not tables.has_shared_outcomes or self.reported.acting or self.block.shares is not None:
            return None
        low, high = int(here[0]), int(here[-1]) + 1
        return tables.outcome_numbers(self.reported.places[:, 0], low, high)[:, here - low]

    def at_rows(self, key: Key, rows: Rows) -> Floats:
        """A column, or a label's predicted shares, in some rows of outcomes."""
        if isinstance(key, str):
            return self.block.tables.at_rows(key, rows)
        return (self.block.tables.at_rows(WORD, rows) == self._label_numbers[key]).astype(float)

    @cached_property
    def _label_numbers(self) -> list[int]:
        """The block's number for each label's text; −1 for a label that nobody predicts."""
        known = {word: number for number, word in enumerate(self.block.vocabulary)}
        return [known.get(label, -1) for label in self.labels or ()]

    def _label_shares(self, word: int, policies: Ints, start: int, stop: int) -> Floats:
        words = self.reported.values(self.block.tables, WORD, policies, self.first, start, stop)
        values = (words == word).astype(float)
        shares = self.block.shares
        if shares is None or word < 0:
            return values
        rows = np.flatnonzero((shares.word == word) & (shares.example >= start) & (shares.example < stop))
        version, example, share = shares.version[rows], shares.example[rows] - start, shares.share[rows]
        place = np.full(max(int(self.reported.places.max()), int(shares.version[-1])) + 1, -1)
        plain = [row for row, policy in enumerate(policies) if int(policy) not in self.reported.acting]
        place[self.reported.places[policies[plain], 0]] = plain
        on = place[version] >= 0
        np.add.at(values, (place[version[on]], example[on]), share[on])  # one word may stand in several rows
        for row in sorted(set(range(len(policies))) - set(plain)):
            counts = self.reported.version_by_example(int(policies[row]), self.first + start, self.first + stop)
            on = version == counts[example]
            np.add.at(values, (row, example[on]), share[on])
        return values


@dataclass(frozen=True, eq=False)
class CoveredOutcomes:
    """The outcomes of the covered examples; `keep` (N,): which examples of the pass every policy covers."""

    pass_result: PassResult
    reported: ReportedPolicies
    examples: ExampleSet
    keep: np.ndarray

    @property
    def labels(self) -> tuple[str, ...] | None:
        return self.examples.labels

    def statistics(self, ids: pl.Series | None = None) -> Store:
        """The outcomes of the examples with these ids, or of all, in the form that the statistics read."""
        chosen = self.keep
        if ids is not None:
            chosen = chosen & self.examples.frame["example_id"].is_in(ids.implode()).to_numpy()
        examples = self.examples.frame.filter(pl.Series(chosen))
        gold, (unit, strata) = self.examples.gold_codes(examples), self.examples.resampling_units(examples)
        chunks, size = list(self._chunks(chosen)), len(self.reported.policies)
        return Store(chunks, unit, gold, size, self.pass_result.numbers, strata)

    def _chunks(self, chosen: np.ndarray) -> Iterator[_CoveredChunk]:
        first = 0
        for block in self.pass_result.blocks:
            here = np.flatnonzero(chosen[first : first + len(block)])
            if len(here):
                yield _CoveredChunk(block, self.reported, self.examples.labels, first, here)
            first += len(block)

    @property
    def schema(self) -> pl.Schema:
        return pl.Schema(KEYS | dict.fromkeys(self.pass_result.numbers, pl.Float64))

    def frames(self, columns: list[str] | None = None, policy: str | None = None) -> Iterator[pl.DataFrame]:
        """The table of outcomes, chunk by chunk: some columns, for one policy or all."""
        wanted = list(self.schema) if columns is None else columns
        names = pl.Series([one.name for one in self.reported.policies], dtype=pl.String)
        chosen = np.arange(len(names)) if policy is None else np.flatnonzero((names == policy).to_numpy())
        for chunk in self._chunks(self.keep):
            series = {name: self._chunk_column(name, chunk, names, chosen) for name in wanted}
            yield pl.DataFrame(series, schema={name: self.schema[name] for name in wanted})

    def _chunk_column(self, name: str, chunk: _CoveredChunk, names: pl.Series, chosen: Ints) -> pl.Series:
        size = chunk.size
        if name == "policy":
            return names.gather(np.repeat(chosen, size))
        if name == "example_id":
            return pl.concat([chunk.block.ids.gather(chunk.chosen)] * len(chosen))
        if name == "answer":
            return answers_of_numbers(chunk.values(WORD, chosen, 0, size), chunk.block.vocabulary)
        if name == "answers":
            return _answer_column(chunk, chosen)
        if name == "ending":
            return answers_of_numbers(chunk.values(ENDING, chosen, 0, size), pl.Series(ENDINGS))
        return pl.Series(chunk.values(name, chosen, 0, size).ravel(), nan_to_null=True)

    def write(self, path: Path) -> None:
        """The table as a Parquet file."""
        with FrameWriter(path) as file:
            for frame in self.frames():
                file.write_row_group(frame)


def answers_of_numbers(numbers: Floats, words: pl.Series) -> pl.Series:
    """The words with some numbers; null for a number below 0."""
    flat = pl.Series(numbers.ravel(), nan_to_null=True).cast(pl.Int64)
    return words.gather(flat) if len(words) else pl.Series([None] * len(flat), dtype=pl.String)


def _answer_column(chunk: _CoveredChunk, policies: Ints) -> pl.Series:
    """The answers of means over several rows, each with its shares; null for policies of one row."""
    shares, rows = chunk.block.shares, len(policies) * chunk.size
    entries = [] if shares is None else list(_share_entries(chunk, shares, policies))
    if shares is None or not entries:
        return pl.Series([None] * rows, dtype=ANSWERS)
    row, which = (np.concatenate(part) for part in zip(*entries, strict=True))
    answers = (
        pl.DataFrame({"row": row, "share": shares.share[which]})
        .with_columns(answer=answers_of_numbers(_null_share(shares.word[which]), chunk.block.vocabulary))
        .group_by("row", "answer")
        .agg(pl.col("share").sum())
        .sort("row", -pl.col("share").round(12), "answer", nulls_last=True)
        .group_by("row", maintain_order=True)
        .agg(pl.struct("answer", "share").alias("answers"))
    )
    empty = pl.DataFrame({"row": np.arange(rows)})
    return empty.join(answers, on="row", how="left", maintain_order="left")["answers"].cast(ANSWERS)


def _null_share(words: Ints) -> Floats:
    return np.where(words < 0, np.nan, words)


def _share_entries(chunk: _CoveredChunk, shares: RowShares, policies: Ints) -> Iterator[tuple[Ints, Ints]]:
    """(row of the table, place among the shares) for each entry of the shares, policy by policy."""
    place = np.full(len(chunk.block), -1)
    place[chunk.chosen] = np.arange(chunk.size)
    for number, policy in enumerate(policies.tolist()):
        counts = chunk.reported.version_by_example(policy, chunk.first, chunk.first + len(chunk.block))
        for version in np.unique(counts):
            start, stop = np.searchsorted(shares.version, [version, version + 1])
            example = shares.example[start:stop]
            on = np.flatnonzero((counts[example] == version) & (place[example] >= 0))
            if len(on):
                yield number * chunk.size + place[example[on]], start + on


class FrameWriter:
    """Writes frames of one schema to a file, which gets its name once it is whole, and is removed if writing fails."""

    def __init__(self, path: Path) -> None:
        self.path, self._part = path, path.with_suffix(".part")
        self._writer: pq.ParquetWriter | None = None

    def write_row_group(self, frame: pl.DataFrame) -> None:
        """Write one frame as a row group."""
        import pyarrow.parquet as pq

        table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._part, table.schema, compression="zstd")
        self._writer.write_table(table, row_group_size=max(len(frame), 1))

    def __enter__(self) -> FrameWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()
        if error is None:
            self._part.rename(self.path)
        else:
            self._part.unlink(missing_ok=True)
