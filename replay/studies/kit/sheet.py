"""A table of a study as data: columns of numbers, rows of policies, published numbers beside them; and its layout.

Every table of a study has the same page layout, with what must be said above and below it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from replay.studies.kit.published import PublishedRow
from toolkit.show import (
    SIMULATED,
    ColumnNote,
    IntervalCell,
    Number,
    NumberWithInterval,
    Table,
    TableColumn,
    Words,
    code_of,
    remark,
)
from toolkit.show.tables.table_content import Form


@dataclass(frozen=True)
class DashReason:
    """A reason for dashes. It stands beneath tables with a dash in one of `columns`, or beneath all tables where none
    is named.
    """

    text: str
    columns: frozenset[str] = frozenset()

    def concerns_table(self, dashed: Collection[str]) -> bool:
        """Whether a table with dashes in these columns shows the reason."""
        return not self.columns or not self.columns.isdisjoint(dashed)


class _NamedDataset(Protocol):
    """The results on one data set, with the data set's name."""

    @property
    def dataset(self) -> str:
        """The data set, as rows name it."""


P = TypeVar("P", bound=_NamedDataset)


def merge_notes(parts: Sequence[P], describe: Callable[[P], Iterable[str]]) -> list[str]:
    """Merges the notes of several data sets: a line that holds for all stands once, others follow the name of their
    data set.

    Empty lines are left out.
    """
    by_part = [(part.dataset, [line for line in describe(part) if line]) for part in parts]
    lines: list[str] = []
    for dataset, part_lines in by_part:
        for line in part_lines:
            of_all = all(line in others for _, others in by_part)
            lines.append(line if of_all else remark(code_of(line), f"{dataset}: {line}"))
    return list(dict.fromkeys(lines))


Value = IntervalCell | float | str | bool | None
"""A cell; None is a dash."""


class MetricCells(Protocol):
    """The object of a table's row, such as one policy of a run: it knows the numbers of its metrics."""

    def cell(self, metric: str, scale: float = 1.0) -> IntervalCell | None:
        """Returns estimate and interval of a metric, times `scale`; None where it is unknown."""


@dataclass(frozen=True)
class PublishedColumn:
    """A column of published numbers, by default beside the column of ours.

    `key` is the column in the published rows. `apart`: after all other columns, without differences to it.
    """

    key: str
    heading: str = ""
    name: str = ""
    form: Form | None = None
    apart: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, its name in CSV, where its cells come from and how they are written.

    A cell is what the row holds under `key`, else what `value` makes of what the row is of, else its `metric` times
    `scale`. `published_column` says which published numbers belong to it; None: those under `key`. `note` stands
    below the table. Where the page is too narrow, columns with the highest `drop` go first.
    """

    heading: str
    key: str
    form: Form = field(default_factory=lambda: Number(2))
    metric: str = ""
    scale: float = 1.0
    value: Callable[[Any], Value] | None = None
    published_column: PublishedColumn | None = None
    note: str = ""
    drop: int = 0

    @property
    def published(self) -> PublishedColumn:
        """The column of published numbers that belongs to this one."""
        return self.published_column or PublishedColumn(self.key)

    def cell(self, row: Row) -> Value:
        if self.key in row.values or row.of is None:
            return row.values.get(self.key)
        if self.value is not None:
            return self.value(row.of)
        return row.of.cell(self.metric, self.scale) if self.metric else None

    def value_as_displayed(self, value: Value) -> Value:
        """Converts a cell to what its form takes: a number with an interval, a number, or words."""
        if isinstance(self.form, NumberWithInterval):
            return IntervalCell(value) if isinstance(value, float | int) else value
        return value.estimate if isinstance(value, IntervalCell) else value

    @property
    def plain_number_form(self) -> Form:
        """The form of the column's numbers without intervals, in the unit of the table."""
        form = self.form
        return (
            Number(form.decimals, signed=form.signed, significant=form.significant)
            if isinstance(form, Number)
            else form
        )


def numbers(
    heading: str, key: str, decimals: int = 2, value: Callable[[Any], Value] | None = None, **keys: Any
) -> Column:
    """Makes a column of plain numbers; `signed`, `significant` and `factor` (a factor for people)
    belong to its form.
    """
    return Column(heading, key, Number(decimals, **_form_options(keys)), value=value, **keys)


def intervals(
    heading: str, key: str, decimals: int = 2, value: Callable[[Any], Value] | None = None, **keys: Any
) -> Column:
    """Makes a column of numbers with intervals; its form takes the same options as that of plain numbers."""
    return Column(heading, key, NumberWithInterval(decimals, **_form_options(keys)), value=value, **keys)


def words(heading: str, key: str, value: Callable[[Any], Value] | None = None, **keys: Any) -> Column:
    """Makes a column of words."""
    return Column(heading, key, Words(), value=value, **keys)


def with_published(column: Column, key: str, heading: str, name: str, decimals: int = 2) -> Column:
    """Adds published numbers to a column; they stand after all other columns."""
    return replace(column, published_column=PublishedColumn(key, heading, name, Number(decimals), apart=True))


def _form_options(keys: dict[str, Any]) -> dict[str, Any]:
    options = {name: keys.pop(name) for name in ("signed", "significant") if name in keys}
    return options | ({"scale": keys.pop("factor")} if "factor" in keys else {})


@dataclass(frozen=True)
class Row:
    """A row of a table: its first cells, the object that gives its numbers, finished numbers, and published ones.

    `unlike` names published columns that are of something else than the row's own, so that they have no difference.
    """

    heads: tuple[Any, ...]
    of: Any = None
    values: Mapping[str, Value] = field(default_factory=dict)
    published: PublishedRow = field(default_factory=dict)
    unlike: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sheet(Generic[P]):
    """The description of one table of a study: `name` is its file's; `rows` gives the rows of one data set.

    `title`, `columns`, `notes` and `needed` may depend on all parts. Every row begins with the name of its data set
    where the heading `dataset` is not empty, and else where there are several. Among `notes` may be functions, which
    tell what is said of one part. `number` is the published table's, and
    `group` says for what a table has around it which runs it is of; by default the number. One that is
    `optional` is left out where it has no row. One that is not `printed` is for programs: reports name its files.
    """

    name: str
    title: str | Callable[[Sequence[P]], str]
    heads: tuple[str | TableColumn, ...]
    columns: Sequence[Column] | Callable[[Sequence[P]], Sequence[Column]]
    rows: Callable[[P], Iterable[Row]]
    notes: Sequence[str | Callable[[P], Iterable[str]]] | Callable[[Sequence[P]], Iterable[str]] = ()
    dataset: str = ""
    number: str = ""
    group: str = ""
    needed: Callable[[Sequence[P]], bool] = bool
    optional: bool = False
    printed: bool = True

    @property
    def run_of_numbers(self) -> str:
        return self.group or self.number


def rows_of_records(
    records: Iterable[Mapping[str, Any]], heads: Sequence[str], interval: str = "", key: str = "", scale: float = 100.0
) -> Iterator[Row]:
    """Yields a row for each record of a frame: `heads` name the columns of its first cells, the others are its values.

    `interval` names the column of estimates; with its ends in `low` and `high` it is the cell `key`, times `scale`.
    """
    for row in records:
        values = dict(row)
        if interval:
            values[key or interval] = IntervalCell.of((row[interval], row["low"], row["high"]), scale)
        yield Row(tuple(row[head] for head in heads), values=values)


COLUMN = "column"
"""Code of a line that explains a column."""
DATASET, DATASET_KEY = "Data set", "Dataset"
"""Heading of the column of data sets, and its name in CSV."""


@dataclass(frozen=True)
class Captions(Generic[P]):
    """The captions of all tables of a study, computed from the sheet, the data sets and the cells.

    `suffix` ends every title, `dataset` is the name in CSV of the column of data sets. `below` is told the keys of the
    columns with published numbers. `gaps` say what the log lacks, each beneath the tables that have a dash for it.
    """

    simulated: bool
    suffix: str = ""
    dataset: str = ""
    above: Callable[[Sheet[P], Sequence[P]], Iterable[str]] = lambda sheet, parts: ()
    below: Callable[[Sheet[P], Sequence[P], Collection[str]], Iterable[str]] = lambda sheet, parts, published: ()
    gaps: Callable[[Sheet[P], Sequence[P]], Iterable[DashReason]] = lambda sheet, parts: ()


def tables_of(sheets: Iterable[Sheet[P]], parts: Sequence[P], captions: Captions[P]) -> dict[str, Table]:
    """Lays out the sheets that these data sets need, by the names of their files."""
    tables = {}
    for sheet in (one for one in sheets if one.needed(parts)):
        rows = _rows_by_dataset(sheet, parts)
        if rows or not sheet.optional:
            tables[sheet.name] = _table_of_rows(sheet, parts, captions, rows)
    return tables


def laid_out_table(sheet: Sheet[P], parts: Sequence[P], captions: Captions[P]) -> Table:
    """Lays out a sheet as a table: the rows of each data set, one data set after the other.

    Columns for which some row has a published number get one more for it, and one for the difference. A column whose
    published number stands apart gets it after all others.
    """
    return _table_of_rows(sheet, parts, captions, _rows_by_dataset(sheet, parts))


def _rows_by_dataset(sheet: Sheet[P], parts: Sequence[P]) -> list[tuple[str, Row]]:
    return [(part.dataset, row) for part in parts for row in sheet.rows(part)]


def _table_of_rows(
    sheet: Sheet[P], parts: Sequence[P], captions: Captions[P], rows: Sequence[tuple[str, Row]]
) -> Table:
    columns = _values_for_datasets(sheet.columns, parts)
    dataset_heading = sheet.dataset or (DATASET if len(parts) > 1 else "")
    known = {c.key for c in columns if any(row.published.get(c.published.key) is not None for _, row in rows)}
    laid_columns: list[tuple[TableColumn, list[Any]]] = []
    if dataset_heading:
        laid_columns.append(
            (
                TableColumn(
                    dataset_heading, key=captions.dataset or (DATASET_KEY if dataset_heading == DATASET else None)
                ),
                [dataset for dataset, _ in rows],
            )
        )
    laid_columns += [(_head_column(head), [row.heads[i] for _, row in rows]) for i, head in enumerate(sheet.heads)]
    last_columns: list[tuple[TableColumn, list[Any]]] = []
    dashed = set()
    for column in columns:
        cells = [column.value_as_displayed(column.cell(row)) for _, row in rows]
        laid_columns.append((TableColumn(column.heading, column.form, column.key, drop=column.drop), cells))
        dashed |= {column.key} if None in cells else set()
        if column.key in known:
            published_cells = list(_published_columns(column, [row for _, row in rows], cells))
            (last_columns if column.published.apart else laid_columns).extend(published_cells)
    laid_columns += last_columns
    explained = [ColumnNote(column.note, (column.key,), code=COLUMN) for column in columns if column.note]
    gaps = [gap.text for gap in captions.gaps(sheet, parts) if gap.concerns_table(dashed)]
    below = (*_notes_of_sheet(sheet, parts), *explained, *captions.below(sheet, parts, known), *gaps)
    title = sheet.title if isinstance(sheet.title, str) else sheet.title(parts)
    return Table(
        title=f"{f'Table {sheet.number}: ' if sheet.number else ''}{title}{captions.suffix}",
        columns=tuple(column for column, _ in laid_columns),
        rows=tuple(zip(*(cells for _, cells in laid_columns), strict=True)),
        above=(*([SIMULATED] if captions.simulated else []), *dict.fromkeys(captions.above(sheet, parts))),
        below=tuple(dict.fromkeys(below)),
        printed=sheet.printed,
    )


def _notes_of_sheet(sheet: Sheet[P], parts: Sequence[P]) -> Iterator[str]:
    """Yields the notes of the sheet itself and those on single data sets."""
    for note in _values_for_datasets(sheet.notes, parts):
        yield from merge_notes(parts, note) if callable(note) else [note]


def _values_for_datasets(what: Any, parts: Sequence[_NamedDataset]) -> Sequence[Any]:
    return tuple(what(parts) if callable(what) else what)


def _head_column(head: str | TableColumn) -> TableColumn:
    return TableColumn(head) if isinstance(head, str) else head


def _published_columns(
    column: Column, rows: Sequence[Row], cells: Sequence[Value]
) -> Iterator[tuple[TableColumn, list[Any]]]:
    """Yields the column of published numbers and, unless it stands apart, the column of differences to them."""
    published = column.published
    published_cells = [row.published.get(published.key) for row in rows]
    form: Form = published.form or column.plain_number_form
    heading, name = published.heading or f"{column.heading} published", published.name or f"{column.key}_published"
    yield (
        TableColumn(heading, form, name, drop=column.drop, under="" if published.apart else column.key),
        published_cells,
    )
    if published.apart or not isinstance(column.plain_number_form, Number):
        return
    scale = column.form.scale if isinstance(column.form, Number) else 1.0
    difference = [
        None if published.key in row.unlike else _difference_to_published(cell, other, scale)
        for row, cell, other in zip(rows, cells, published_cells, strict=True)
    ]
    signed = Number(column.plain_number_form.decimals, signed=True)
    yield TableColumn("difference", signed, f"{column.key}_difference", drop=column.drop, printed=False), difference


def _difference_to_published(cell: Value, published: Any, scale: float) -> float | None:
    value = cell.estimate if isinstance(cell, IntervalCell) else cell
    if published is None or not isinstance(value, float | int):
        return None
    return scale * value - float(published)
