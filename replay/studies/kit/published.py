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
def document(work: str) -> dict[str, Any]:
    """Everything that was transcribed of a work: tables, claims, the arithmetic that they should satisfy."""
    path = files("replay") / "studies" / "data" / f"{work}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@cache
def _table(work: str, number: str) -> tuple[tuple[str, ...], tuple[PublishedRow, ...]]:
    """Columns and rows of a table; none where the work has no such table."""
    table = next((one for one in document(work)["tables"] if one["id"] == number), {"columns": (), "rows": ()})
    return tuple(table["columns"]), tuple(dict(zip(table["columns"], row, strict=True)) for row in table["rows"])


@dataclass(frozen=True)
class PublishedWork:
    """A published work: its file in `data`, and how its tables name data sets.

    `datasets` maps plain names (small letters and digits) to the work's own. Where a table has a column `dataset`, its
    rows are those of one data set. `only` names the data set of tables that have no such column, by their number;
    `prefixed` tables have a column for each data set, which begins with its name.
    """

    name: str
    datasets: Mapping[str, str]
    only: Mapping[str, str] = field(default_factory=dict)
    prefixed: frozenset[str] = frozenset()

    def dataset(self, name: str) -> str | None:
        """The work's name of a data set; None where it has no such one."""
        return self.datasets.get(re.sub(r"[^a-z0-9]", "", name.lower()))

    def rows(self, table: str) -> tuple[PublishedRow, ...]:
        return _table(self.name, table)[1]

    def row(self, table: str, dataset: str | None, **keys: object) -> PublishedRow:
        """The first row of a data set, by its plain or its published name, in which these columns have these values.

        It is without them. Empty where the work has no such row, no such data set, or a key is None.
        """
        known = None if dataset is None else self.dataset(dataset)
        columns, rows = _table(self.name, table)
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

    def finder(self, table: str, key: str, named: Callable[[str], object] = lambda name: name) -> FindRow:
        """Finds rows by data set and one column; `named` gives the work's name of what is asked for, None of none."""
        return lambda dataset, name: self.row(table, dataset, **{key: named(name)})

    def stated(self, text: str) -> float:
        """The number that the work's text, outside its tables, states of something."""
        return next(float(one["value"]) for one in document(self.name)["claims"] if one["text"] == text)


@dataclass(frozen=True)
class PublishedDataset:
    """A data set of a work, by the work's own name: looks up its rows and single numbers."""

    work: PublishedWork
    dataset: str

    def row(self, table: str, **keys: object) -> PublishedRow:
        """The numbers of a row of a table, without its keys; empty where there is none."""
        match = self.work.row(table, self.dataset, **keys)
        return {key: float(value) for key, value in match.items() if isinstance(value, float | int)}

    def value(self, table: str, column: str, **keys: object) -> float | None:
        """The number in a row of a table; None where the work has no such row, or no number there."""
        return self.row(table, **keys).get(column)


def published_datasets(work: PublishedWork, names: Sequence[str] | str) -> tuple[PublishedDataset, ...]:
    """The data sets of a work by their plain or published names. Raises ThinkbackError for any other name."""
    known = {name: work.dataset(name) for name in ([names] if isinstance(names, str) else names)}
    for name, dataset in known.items():
        if dataset is None:
            raise UnknownError(f"nothing is published on `{name}`; {suggest(name, work.datasets)}")
    return tuple(PublishedDataset(work, dataset) for dataset in known.values() if dataset is not None)


def published_beside(known: Sequence[PublishedDataset], dataset: str, alone: bool) -> PublishedDataset | None:
    """The published numbers that stand beside a log's data set: those of its name, and where it is `alone` in the log
    those of a single one by any name; None where there are none.
    """
    by_name = next((one for one in known if one.dataset == one.work.dataset(dataset)), None)
    return by_name or (known[0] if alone and len(known) == 1 else None)


def published_name(known: Sequence[PublishedDataset], dataset: str, alone: bool) -> str | None:
    """The work's name of the data set whose numbers stand beside one of a log."""
    numbers = published_beside(known, dataset, alone)
    return None if numbers is None else numbers.dataset
