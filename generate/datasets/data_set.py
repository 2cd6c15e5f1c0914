"""What a reader of a data set is, the frame it makes (the log's `examples`, with further columns), and its counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.errors import ThinkbackError
from toolkit.log import schema_of


@dataclass(frozen=True)
class Count:
    """One count: of what, how many were found, how many were published, and where. `published` is null if nowhere."""

    what: str
    found: int
    published: int | None = None
    source: str = ""

    @property
    def agrees(self) -> bool | None:
        """Whether both are equal; null where nothing was published."""
        return None if self.published is None else self.found == self.published

    def __str__(self) -> str:
        if self.published is None:
            return f"{self.what}: {self.found:,}"
        gap = self.found - self.published
        told = (
            "as published"
            if not gap
            else f"published: {self.published:,}, {abs(gap):,} {'more' if gap > 0 else 'fewer'}"
        )
        return f"{self.what}: {self.found:,} ({told}; {self.source})"


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
    """What a reader gets: the data set's name, the files of one split, that split, and the options."""

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
    own = {"dataset": request.name, "split": request.split, "cluster": None, "labels": list(labels) if labels else None}
    made = [{**own, **row} for row in rows]
    examples = pl.DataFrame([{name: row[name] for name in schema} for row in made], schema=schema)
    twice = examples.filter(pl.col("example_id").is_duplicated())
    if twice.height:
        name = twice["example_id"][0]
        raise ThinkbackError(f"`{request.files[0]}`: the id `{name}` occurs {twice.height} times among the rows")
    return examples


def example_name(request: ReadRequest, number: int) -> str:
    """`gsm8k-test-00012`: the id of a row without one of its own, by its place in the file from 0."""
    return f"{request.name}-{request.split}-{number:05d}"
