"""Published numbers as they were transcribed, and which of them a row of a study stands beside."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

from toolkit.errors import UnknownError, suggest

PublishedRow = Mapping[str, Any]
"""Numbers of one row of a published table, by its columns; empty where the work has no such row."""
FindRow = Callable[[str | None, str], PublishedRow]
"""Finds the published row of a data set and one more name."""


@cache
def read_published(work: str) -> dict[str, Any]:
    """Reads the transcription of a published work: tables, claims, and the arithmetic that they satisfy."""
    path = files("replay") / "studies" / "data" / f"{work}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _published_table(work: str, number: str) -> tuple[tuple[str, ...], tuple[PublishedRow, ...]]:
    table = next((one for one in read_published(work)["tables"] if one["id"] == number), {"columns": (), "rows": ()})
    return tuple(table["columns"]), tuple(dict(zip(table["columns"], row, strict=True)) for row in table["rows"])


@dataclass(frozen=True)
class PublishedWork:
    """A published work: its file in `data`, and its names of data sets.

    `datasets` maps plain names (small letters and digits) to the work's own. Where a table has a column `dataset`, its
    rows are those of one data set. `only` names the data set of tables that have no such column, by their number;
    `prefixed` tables have a column for each data set, which begins with its name.
    """

    name: str
    datasets: Mapping[str, str]
    only: Mapping[str, str] = field(default_factory=dict)
    prefixed: frozenset[str] = frozenset()

    def dataset(self, name: str) -> str | None:
        """Returns the work's name of a data set; None where the work has no such data set."""
        return self.datasets.get(re.sub(r"[^a-z0-9]", "", name.lower()))

    def rows(self, table: str) -> tuple[PublishedRow, ...]:
        return _published_table(self.name, table)[1]

    def row(self, table: str, dataset: str | None, **keys: object) -> PublishedRow:
        """Returns the first row of a data set in which these columns have these values.

        It is without them. Empty where the work has no such row, no such data set, or a key is None.
        """
        known = None if dataset is None else self.dataset(dataset)
        columns, rows = _published_table(self.name, table)
        if known is None or None in keys.values() or self.only.get(table, known) != known:
            return {}
        if "dataset" in columns:
            keys = {"dataset": known, **keys}
        match = next((row for row in rows if all(row.get(key) == value for key, value in keys.items())), {})
        unmatched = {key: value for key, value in match.items() if key not in keys and value is not None}
        if table not in self.prefixed:
            return unmatched
        prefix = f"{known.lower()}_"
        return {key.removeprefix(prefix): value for key, value in unmatched.items() if key.startswith(prefix)}

    def row_finder(self, table: str, key: str, named: Callable[[str], object] = lambda name: name) -> FindRow:
        """Returns a function that looks up a row by data set and one column; `named` translates that column's value
        into the work's words.
        """
        return lambda dataset, name: self.row(table, dataset, **{key: named(name)})

    def number_in_text(self, text: str) -> float:
        """Returns a number that the work states in its text, outside its tables."""
        return next(float(one["value"]) for one in read_published(self.name)["claims"] if one["text"] == text)


@dataclass(frozen=True)
class PublishedDataset:
    """A data set of a work, by the work's name of it: looks up rows and single numbers."""

    work: PublishedWork
    dataset: str

    def row(self, table: str, **keys: object) -> PublishedRow:
        """Returns the numbers in a row of a table, without its keys; empty where there is none."""
        match = self.work.row(table, self.dataset, **keys)
        return {key: float(value) for key, value in match.items() if isinstance(value, float | int)}

    def number_in_row(self, table: str, column: str, **keys: object) -> float | None:
        """Returns the number in a row of a table; None where the work has no such row or no number there."""
        return self.row(table, **keys).get(column)


def published_datasets(work: PublishedWork, names: Sequence[str] | str) -> tuple[PublishedDataset, ...]:
    """Returns the data sets of a work by their plain or published names. Raises ThinkbackError for an unknown name."""
    known = {name: work.dataset(name) for name in ([names] if isinstance(names, str) else names)}
    for name, dataset in known.items():
        if dataset is None:
            raise UnknownError(f"nothing is published on `{name}`; {suggest(name, work.datasets)}")
    return tuple(PublishedDataset(work, dataset) for dataset in known.values() if dataset is not None)


def published_beside(known: Sequence[PublishedDataset], dataset: str, alone: bool) -> PublishedDataset | None:
    """Returns the published data set that stands beside a log's: that of the same name or, where the log has one data
    set and one is published, that one; else None.
    """
    by_name = next((one for one in known if one.dataset == one.work.dataset(dataset)), None)
    return by_name or (known[0] if alone and len(known) == 1 else None)


def published_name(known: Sequence[PublishedDataset], dataset: str, alone: bool) -> str | None:
    """Returns the work's name of the data set whose numbers stand beside one of a log; None where there is none."""
    numbers = published_beside(known, dataset, alone)
    return None if numbers is None else numbers.dataset
