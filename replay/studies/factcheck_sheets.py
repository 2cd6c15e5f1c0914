"""One table of the study: rows of methods, columns of numbers, each with its published one and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.studies.factcheck_study import Study
from toolkit.show import SIMULATED, Column, Estimate, Interval, Number, Table, Text

Value = Interval | float | None


@dataclass(frozen=True)
class Measure:
    """A column of numbers: its head, the published column, decimals; `interval` where cells are intervals."""

    head: str
    key: str
    decimals: int = 2
    interval: bool = False
    signed: bool = False


@dataclass(frozen=True)
class Row:
    """One row: what its first cells say, the numbers by measure key, and which published row it is."""

    heads: tuple[Any, ...]
    values: Mapping[str, Value]
    keys: Mapping[str, Any] = field(default_factory=dict)


def sheet(
    study: Study,
    number: str,
    title: str,
    heads: Sequence[str],
    measures: Sequence[Measure],
    rows: Sequence[Row],
    notes: Sequence[str] = (),
    warnings: Sequence[str] | None = None,
) -> Table:
    """Lay out a table. With published numbers, columns that the thesis has too get two more.

    `warnings` stand above it; by default those of the runs that the numbered table is made of.
    """
    if warnings is None:
        warnings = study.warnings.get(number, study.warnings[""])
    known = {m.key for m in measures if any(_published(study, number, m, row) is not None for row in rows)}
    columns = [Column(head, Number(0) if head in ("Max traces", "k", "Claims") else Text()) for head in heads]
    for measure in measures:
        form = Estimate(measure.decimals, signed=measure.signed) if measure.interval else _plain(measure)
        columns.append(Column(measure.head, form, measure.key))
        if measure.key in known:
            columns.append(Column(f"{measure.head} published", _plain(measure), f"{measure.key}_published"))
            signed = Number(measure.decimals, signed=True)
            columns.append(Column("difference", signed, f"{measure.key}_difference"))
    cells = [(*row.heads, *_cells(study, number, measures, known, row)) for row in rows]
    return Table(
        title=f"{_named(number)}{title}, {study.dataset}",
        columns=tuple(columns),
        rows=tuple(cells),
        above=(*([SIMULATED] if study.simulated else []), *warnings),
        below=(*notes, *study.missing.get(number, ())),
    )


def _named(number: str) -> str:
    return f"Table {number}: " if number else ""


def _plain(measure: Measure) -> Number:
    return Number(measure.decimals, signed=measure.signed)


def _cells(
    study: Study, number: str, measures: Sequence[Measure], known: set[str], row: Row
) -> list[Interval | float | None]:
    cells: list[Interval | float | None] = []
    for measure in measures:
        value = row.values.get(measure.key)
        plain = value.estimate if isinstance(value, Interval) else value
        if measure.interval:
            cells.append(Interval(value) if isinstance(value, float | int) else value)
        else:
            cells.append(plain)
        if measure.key in known:
            wanted = _published(study, number, measure, row)
            cells.append(wanted)
            cells.append(None if wanted is None or plain is None else plain - wanted)
    return cells


def _published(study: Study, number: str, measure: Measure, row: Row) -> float | None:
    if study.published is None or not row.keys or not number:
        return None
    return study.published.value(number, measure.key, **row.keys)
