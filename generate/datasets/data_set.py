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
class Count:
    """One count: of what, how many were found, how many were published, and where. `published` is null if nowhere."""

    what: str
    counted: int
    published: int | None = None
    source: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether both are equal; null where nothing was published."""
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


def lines(counts: Iterable[Count]) -> list[str]:
    """One line a count, as a command prints them."""
    return [str(count) for count in counts]


_FIRST = {name: schema_of("examples")[name].dtype for name in (
    "example_id", "dataset", "split", "question", "gold", "labels", "cluster",
)}  # fmt: skip


@dataclass(frozen=True)
class Loaded:
    """Examples as the log has them, and what was counted."""

    examples: pl.DataFrame
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True)
class ReadRequest:
    """The input of a reader: the data set's name, the files of one split, that split, and the options."""

    name: str
    split: str
    files: tuple[Path, ...]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class DataSet:
    """One data set: how its files are named, how they are read, which options there are, and where to get it.

    `files` maps each split to glob patterns of the published folder, best first. `options` maps a name to its meaning.
    """

    name: str
    published_by: str
    files: Mapping[str, Sequence[str]]
    read: Callable[[ReadRequest], Loaded]
    options: Mapping[str, str] = field(default_factory=dict)


def frame(
    request: ReadRequest,
    rows: Sequence[Mapping[str, Any]],
    extra: Mapping[str, pl.DataType],
    labels: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Rows with the columns of `examples` and of `extra`. `labels`, if given, is the label space of all rows.

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
    """`gsm8k-test-00012`: the id of a row without one of its own, by its place in the file from 0."""
    return f"{request.name}-{request.split}-{number:05d}"


@dataclass(frozen=True)
class Choosing(Checked):
    """Options of every data set: so many examples, by which column's shares, and the share of the split `dev`."""

    choose: int | None = setting(None)
    choose_seed: int = setting(0)
    choose_by: str | None = setting(None)
    dev_share: float | None = setting(None)


def choose(examples: pl.DataFrame, n: int, seed: int = 0, by: str | None = None) -> pl.DataFrame:
    """`n` examples drawn without replacement, in the order of the frame.

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
    quotas = _quotas({key: len(names) for key, names in strata.items()}, n)
    rng = random.Random(f"choose {seed}")
    chosen = {name for key, names in strata.items() for name in rng.sample(names, quotas[key])}
    return examples.filter(pl.col("example_id").is_in(chosen))


def divide(examples: pl.DataFrame, share: float, seed: int = 0, name: str = "dev") -> pl.DataFrame:
    """The same rows, with the split `name` for `share` of the examples (rounded), clusters whole."""
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


def _quotas(sizes: dict[Hashable, int], n: int) -> dict[Hashable, int]:
    """Whole shares of `n` by size that add up to `n`."""
    total = sum(sizes.values())
    floors = {key: n * size // total for key, size in sizes.items()}
    rest = sorted(sizes, key=lambda key: (-(n * sizes[key] % total), str(key)))
    for key in rest[: n - sum(floors.values())]:
        floors[key] += 1
    return floors
