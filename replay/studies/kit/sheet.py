"""A table of a study as data: columns of numbers, rows of policies, and which published number stands beside which."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol

from replay.studies.kit.gaps import P
from replay.studies.kit.published import PublishedRow
from toolkit.show import Number, NumberWithInterval, ShownInterval, TableColumn, Words
from toolkit.show.tables.table_content import Form

Value = ShownInterval | float | str | bool | None
"""A cell; None is a dash."""


class Cells(Protocol):
    """What a row is of, such as one policy of one run: it knows the numbers of its metrics."""

    def cell(self, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`; None where it is not known."""
        ...


@dataclass(frozen=True)
class Theirs:
    """How the published numbers of a column are shown: by default in a column of their own beside it.

    `key` is the column in the published rows. `apart`: after all other columns, without differences to it.
    """

    key: str
    heading: str = ""
    name: str = ""
    form: Form | None = None
    apart: bool = False


@dataclass(frozen=True)
class Column:
    """A column of a table: its heading, its name in CSV, and how its cells are written.

    A cell is what the row holds under `key`, else what `value` makes of what the row is of, else its `metric` times
    `scale`. `theirs` says which published numbers belong to it: None those under `key`. `note` stands beneath. Of
    a page that is too narrow, columns with the highest `drop` go first.
    """

    heading: str
    key: str
    form: Form = field(default_factory=lambda: Number(2))
    metric: str = ""
    scale: float = 1.0
    value: Callable[[Any], Value] | None = None
    theirs: Theirs | None = None
    note: str = ""
    drop: int = 0

    @property
    def published(self) -> Theirs:
        """How its published numbers are shown."""
        return self.theirs or Theirs(self.key)

    def cell(self, row: Row) -> Value:
        """The cell of a row."""
        if self.key in row.values or row.of is None:
            return row.values.get(self.key)
        if self.value is not None:
            return self.value(row.of)
        return row.of.cell(self.metric, self.scale) if self.metric else None

    def shown(self, value: Value) -> Value:
        """A cell as its form takes it: with an interval, without one, or words."""
        if isinstance(self.form, NumberWithInterval):
            return ShownInterval(value) if isinstance(value, float | int) else value
        return value.estimate if isinstance(value, ShownInterval) else value

    @property
    def plain(self) -> Form:
        """How its numbers are written without intervals, in the unit that people see."""
        form = self.form
        return (
            Number(form.decimals, signed=form.signed, significant=form.significant)
            if isinstance(form, Number)
            else form
        )


def numbers(
    heading: str, key: str, decimals: int = 2, value: Callable[[Any], Value] | None = None, **keys: Any
) -> Column:
    """A column of plain numbers; `signed`, `significant` and `shown` (a factor for people) are of its form."""
    return Column(heading, key, Number(decimals, **_form(keys)), value=value, **keys)


def intervals(
    heading: str, key: str, decimals: int = 2, value: Callable[[Any], Value] | None = None, **keys: Any
) -> Column:
    """A column of numbers with intervals, its form as that of plain ones."""
    return Column(heading, key, NumberWithInterval(decimals, **_form(keys)), value=value, **keys)


def words(heading: str, key: str, value: Callable[[Any], Value] | None = None, **keys: Any) -> Column:
    """A column of words."""
    return Column(heading, key, Words(), value=value, **keys)


def beside(column: Column, key: str, heading: str, name: str, decimals: int = 2) -> Column:
    """A column with published numbers of a key, after all other columns."""
    return replace(column, theirs=Theirs(key, heading, name, Number(decimals), apart=True))


def _form(keys: dict[str, Any]) -> dict[str, Any]:
    made = {name: keys.pop(name) for name in ("signed", "significant") if name in keys}
    return made | ({"scale": keys.pop("shown")} if "shown" in keys else {})


@dataclass(frozen=True)
class Row:
    """A row: what its first cells say, what its numbers are of, those that are finished, and the published ones.

    `unlike` names published columns that are of something else than the row's own, so that they have no difference.
    """

    heads: tuple[Any, ...]
    of: Any = None
    values: Mapping[str, Value] = field(default_factory=dict)
    published: PublishedRow = field(default_factory=dict)
    unlike: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sheet(Generic[P]):
    """A table of a study on its data sets, each a part: `name` is its file's, `rows` gives those of one part.

    `title`, `columns`, `notes` and `needed` may depend on all parts. Every row begins with the name of its data set
    where the heading `dataset` is not empty, and else where there are several. Among `notes` may be functions, which
    tell what is said of one part. `number` is the published table's, and
    `group` says for what a table has around it which runs it is of; by default the number. One that is not `printed` is
    for programs: reports name its files.
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
    printed: bool = True

    def beside(self, rows: Callable[[P], Iterable[Row]], theirs: Mapping[str, tuple[str, str, str, int]]) -> Sheet[P]:
        """The same with the rows of a work, and its numbers beside columns, by their keys, as `beside` takes them."""

        def columns(parts: Sequence[P]) -> list[Column]:
            made = self.columns(parts) if callable(self.columns) else self.columns
            return [beside(column, *theirs[column.key]) if column.key in theirs else column for column in made]

        return replace(self, columns=columns, rows=rows)

    @property
    def runs(self) -> str:
        """Which runs it is of."""
        return self.group or self.number


def listed(
    found: Iterable[Mapping[str, Any]], heads: Sequence[str], interval: str = "", key: str = "", scale: float = 100.0
) -> Iterator[Row]:
    """A row for each of a frame: `heads` are the columns of its first cells, the others are its values.

    `interval` names the column of estimates; with its ends in `low` and `high` it is the cell `key`, times `scale`.
    """
    for row in found:
        values = dict(row)
        if interval:
            values[key or interval] = ShownInterval.of((row[interval], row["low"], row["high"]), scale)
        yield Row(tuple(row[head] for head in heads), values=values)
