"""What a reader of a data set is, and the frame it makes: the log's `examples`, with further columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from generate.datasets.counting import Count
from toolkit.errors import ThinkbackError

_FIRST = {
    "example_id": pl.String(),
    "dataset": pl.String(),
    "split": pl.String(),
    "question": pl.String(),
    "gold": pl.String(),
    "labels": pl.List(pl.String()),
    "cluster": pl.String(),
}


@dataclass(frozen=True)
class Loaded:
    """Examples as the log has them, and what was counted."""

    examples: pl.DataFrame
    counts: tuple[Count, ...] = ()


@dataclass(frozen=True)
class Request:
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
    title: str
    published_by: str
    columns: str
    files: Mapping[str, Sequence[str]]
    read: Callable[[Request], Loaded]
    options: Mapping[str, str] = field(default_factory=dict)


def frame(
    rows: Sequence[Mapping[str, Any]], extra: Mapping[str, pl.DataType], labels: Sequence[str] | None = None
) -> pl.DataFrame:
    """Rows with the columns of `examples` and of `extra`. `labels`, if given, is the label space of all rows."""
    schema = {**_FIRST, **extra}
    made = [{"cluster": None, "labels": list(labels) if labels else None, **row} for row in rows]
    return pl.DataFrame([{name: row[name] for name in schema} for row in made], schema=schema)


def example_name(request: Request, number: int) -> str:
    """`gsm8k-test-00012`: the id of a row without one of its own, by its place in the file from 0."""
    return f"{request.name}-{request.split}-{number:05d}"


def unique(examples: pl.DataFrame, place: Path) -> pl.DataFrame:
    """The frame; ThinkbackError where an id of the publishers occurs twice."""
    twice = examples.filter(pl.col("example_id").is_duplicated())
    if twice.height:
        raise ThinkbackError(f"`{place}`: the id `{twice['example_id'][0]}` occurs {twice.height} times among the rows")
    return examples
