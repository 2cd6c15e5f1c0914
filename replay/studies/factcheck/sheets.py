"""One table of the study: rows of methods, columns of numbers, each with its published one and the difference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from replay.studies.factcheck.published import CAP, TOTALS
from replay.studies.factcheck.runs import Methods
from replay.studies.factcheck.study import LARGER, OTHER, Study
from toolkit.show import SIMULATED, Number, NumberWithInterval, ShownInterval, Table, TableColumn, Words

Value = ShownInterval | float | str | None
ValueOf = Callable[[Methods, str], Value]
"""A number of one of the methods, by its name."""
OWN_CAPS = (*LARGER, "B.3", "B.4")
"""Tables whose rows say their cap themselves, or that have none."""


@dataclass(frozen=True)
class Measure:
    """A column of numbers: its head, the published column, decimals; `interval` where cells are intervals.

    `words`: it holds words in their place. `significant`: digits that small numbers show at least, in more decimals.
    `value` gives the number of a method, in tables with one row a method.
    """

    head: str
    key: str
    decimals: int = 2
    interval: bool = False
    signed: bool = False
    significant: int = 0
    value: ValueOf | None = None
    words: bool = False

    def of(self, methods: Methods, name: str) -> Value:
        """The number of a method; None for a column of other tables."""
        return None if self.value is None else self.value(methods, name)

    @property
    def plain(self) -> Number:
        """How its numbers are written without their intervals."""
        return Number(self.decimals, signed=self.signed, significant=self.significant)

    @property
    def form(self) -> Words | Number | NumberWithInterval:
        """How its cells are written."""
        if self.words:
            return Words()
        with_interval = NumberWithInterval(self.decimals, signed=self.signed, significant=self.significant)
        return with_interval if self.interval else self.plain


@dataclass(frozen=True)
class SheetRow:
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
    rows: Sequence[SheetRow],
    notes: Sequence[str] = (),
    warnings: Sequence[str] | None = None,
) -> Table:
    """Lay out a table. With published numbers, columns that the thesis has too get two more.

    `warnings` stand above it; by default those of the runs that the numbered table is made of.
    """
    if warnings is None:
        warnings = study.warnings.get(number, study.warnings[""])
    known = {m.key for m in measures if any(_published(study, number, m, row) is not None for row in rows)}
    columns = [TableColumn(head, Number(0) if head in ("Max traces", "k", "Claims") else Words()) for head in heads]
    for measure in measures:
        columns.append(TableColumn(measure.head, measure.form, measure.key))
        if measure.key in known:
            columns.append(TableColumn(f"{measure.head} published", measure.plain, f"{measure.key}_published"))
            signed = Number(measure.decimals, signed=True)
            columns.append(TableColumn("difference", signed, f"{measure.key}_difference"))
    cells = [(*row.heads, *_cells(study, number, measures, known, row)) for row in rows]
    return Table(
        title=f"{f'Table {number}: ' if number else ''}{title}, {study.dataset}",
        columns=tuple(columns),
        rows=tuple(cells),
        above=(*([SIMULATED] if study.simulated else []), *warnings),
        below=(*notes, *(unlike(study, number, known) if known else ()), *study.missing.get(number, ())),
    )


def _cells(study: Study, number: str, measures: Sequence[Measure], known: set[str], row: SheetRow) -> list[Value]:
    cells: list[Value] = []
    for measure in measures:
        value = row.values.get(measure.key)
        plain = value.estimate if isinstance(value, ShownInterval) else value
        if measure.interval:
            cells.append(ShownInterval(value) if isinstance(value, float | int) else value)
        else:
            cells.append(plain)
        if measure.key in known:
            wanted = _published(study, number, measure, row)
            cells.append(wanted)
            incomparable = measure.key in TOTALS and _other_claims(study, number)
            if wanted is None or plain is None or isinstance(plain, str) or incomparable:
                cells.append(None)
            else:
                cells.append(plain - wanted)
    return cells


def unlike(study: Study, number: str, columns: Collection[str]) -> Iterator[str]:
    """How the published numbers in some columns of a table are of something else than its own."""
    if study.setting.published is None:
        return
    theirs, claims = study.setting.published.dataset, study.setting.published.claims
    named = (study.name, *study.datasets)
    if not any(theirs.lower() in name.lower() for name in named):
        of = f"`{study.name}`" + (f" ({', '.join(study.datasets)})" if study.datasets else "")
        yield f"published: of {theirs}, which {of} is not by its name: differences are between data sets too"
        if number in OTHER:
            yield f"published: of a prompted verifier of 7B parameters, here of `{study.setting.other_verifier}`"
    ours = " or ".join(f"{n:,}" for n in sorted({methods.n for methods in _runs(study, number)} - {0}))
    if not TOTALS.isdisjoint(columns) and _other_claims(study, number):
        yield f"published totals are of {claims:,} claims, these of {ours}: no differences"
    if number not in OWN_CAPS and study.setting.cap != CAP:
        yield f"published: with {CAP} traces a claim at most, here with {study.setting.cap}"


def _other_claims(study: Study, number: str) -> bool:
    """Whether a table is of another number of claims than the published one."""
    claims = None if study.setting.published is None else study.setting.published.claims
    return any(methods.n not in (0, claims) for methods in _runs(study, number))


def _runs(study: Study, number: str) -> Sequence[Methods]:
    return [study.other] if number in OTHER else list(study.caps.values()) if number in LARGER else [study.main]


def _published(study: Study, number: str, measure: Measure, row: SheetRow) -> float | None:
    if study.setting.published is None or not row.keys or not number:
        return None
    return study.setting.published.value(number, measure.key, **row.keys)
