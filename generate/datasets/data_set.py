"""What a reader of a data set is, the frame it makes (the log's `examples`, with further columns), its counts, and the
choice of some of the examples, as the works make it: a seeded sample, stratified or not, and a development share.

A choice depends on the seed and on the example ids alone, not on the order of the rows. Where examples have a
`cluster`, `divide` keeps each cluster on one side.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.errors import ConflictError, InvalidError, LimitError, UnknownError, suggest
from toolkit.log import schema_of
from toolkit.settings import Checked, setting


@dataclass(frozen=True)
class PublishedCount:
    """A count to check a data set by: of what, how many were read and how many published, and where (null: nowhere)."""

    what: str
    counted: int
    published: int | None = None
    source: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether the number read equals the published one; null where none was published."""
        return None if self.published is None else self.counted == self.published

    def __str__(self) -> str:
        if self.published is None:
            return f"{self.what}: {self.counted:,}"
        gap = self.counted - self.published
        published = (
            "as published"
            if not gap
            else f"published: {self.published:,}, {abs(gap):,} {'more' if gap > 0 else 'fewer'}"
        )
        return f"{self.what}: {self.counted:,} ({published}; {self.source})"


def count_lines(counts: Iterable[PublishedCount]) -> list[str]:
    """One line for each count, as a command prints it."""
    return [str(count) for count in counts]


_FIRST = {name: schema_of("examples")[name].dtype for name in (
    "example_id", "dataset", "split", "question", "gold", "labels", "cluster",
)}  # fmt: skip


@dataclass(frozen=True)
class LoadedDataSet:
    """A data set that was read: its examples in the log's form, and its counts."""

    examples: pl.DataFrame
    counts: tuple[PublishedCount, ...] = ()


@dataclass(frozen=True)
class ReadRequest:
    """What a reader of a data set gets: the data set's name, one split with its files, and the options."""

    name: str
    split: str
    files: tuple[Path, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class DataSet:
    """A published data set: the names of its files, its reader, its options, and where to get it.

    `files` maps each split to glob patterns of the published folder, best first. `options` maps a name to its meaning.
    """

    name: str
    published_by: str
    files: Mapping[str, Sequence[str]]
    read: Callable[[ReadRequest], LoadedDataSet]
    options: Mapping[str, str] = field(default_factory=dict)


def examples_frame(
    request: ReadRequest,
    rows: Sequence[Mapping[str, Any]],
    extra: Mapping[str, pl.DataType],
    labels: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Makes rows into a frame with the columns of `examples` and of `extra`. `labels`: the label space of all rows.

    ThinkbackError where an id of the publishers occurs twice.
    """
    schema = {**_FIRST, **extra}
    space = list(labels) if labels else None
    same = {"dataset": request.name, "split": request.split, "cluster": None, "labels": space}
    full_rows = [{**same, **row} for row in rows]
    examples = pl.DataFrame([{name: row[name] for name in schema} for row in full_rows], schema=schema)
    twice = examples.filter(pl.col("example_id").is_duplicated())
    if twice.height:
        name = twice["example_id"][0]
        raise ConflictError(f"`{request.files[0]}`: the id `{name}` occurs {twice.height} times among the rows")
    return examples


def example_name(request: ReadRequest, number: int) -> str:
    """An id for a row that has none, by its place in the file from 0: `gsm8k-test-00012`."""
    return f"{request.name}-{request.split}-{number:05d}"


@dataclass(frozen=True)
class ChoiceOptions(Checked):
    """Options of every data set: how many examples to draw, stratified by which column, and the share of `dev`."""

    choose: int | None = setting(None)
    choose_seed: int = setting(0)
    choose_by: str | None = setting(None)
    dev_share: float | None = setting(None)


def choose_examples(examples: pl.DataFrame, n: int, seed: int = 0, by: str | None = None) -> pl.DataFrame:
    """Draws `n` examples without replacement and returns them in the frame's order.

    `by` names a column whose shares are kept (largest remainders; ties to the value that sorts first).
    """
    if not 0 < n <= examples.height:
        raise LimitError(f"`choose` is {n}, but there are {examples.height} examples")
    if by is not None and by not in examples.columns:
        raise UnknownError(f"`choose_by`: there is no column `{by}`; {suggest(by, examples.columns)}")
    strata: dict[Hashable, list[str]] = defaultdict(list)
    keys = examples[by].cast(pl.String).fill_null("").to_list() if by else [""] * examples.height
    for key, name in sorted(zip(keys, examples["example_id"].to_list(), strict=True)):
        strata[key].append(name)
    quotas = _proportional_counts({key: len(names) for key, names in strata.items()}, n)
    rng = random.Random(f"choose {seed}")
    chosen = {name for key, names in strata.items() for name in rng.sample(names, quotas[key])}
    return examples.filter(pl.col("example_id").is_in(chosen))


def split_examples(examples: pl.DataFrame, share: float, seed: int = 0, name: str = "dev") -> pl.DataFrame:
    """Gives a `share` of the examples (rounded) the split `name`. A cluster's examples stay together."""
    if not 0 < share < 1:
        raise InvalidError(f"`dev_share` is {share}; it takes a number between 0 and 1")
    unit = pl.coalesce(pl.col("cluster"), pl.col("example_id"))
    sizes = dict(examples.group_by(unit.alias("unit")).len().sort("unit").iter_rows())
    units = list(sizes)
    random.Random(f"divide {seed}").shuffle(units)
    wanted, drawn_units, count = round(share * examples.height), [], 0
    for one in units:
        if count + sizes[one] <= wanted:
            drawn_units.append(one)
            count += sizes[one]
    return examples.with_columns(split=pl.when(unit.is_in(drawn_units)).then(pl.lit(name)).otherwise(pl.col("split")))


def _proportional_counts(sizes: dict[Hashable, int], n: int) -> dict[Hashable, int]:
    """Splits `n` into whole numbers in the proportions of `sizes`."""
    total = sum(sizes.values())
    floors = {key: n * size // total for key, size in sizes.items()}
    rest = sorted(sizes, key=lambda key: (-(n * sizes[key] % total), str(key)))
    for key in rest[: n - sum(floors.values())]:
        floors[key] += 1
    return floors
