"""The content of a table: rows of computed numbers, and columns with the form of their cells.

A *form* knows how a cell is shown (rounded, for people) and what a CSV file gets (full precision, for programs).
A missing value is a dash for people and an empty field for programs, never a zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from toolkit.columns import OutcomeColumn
from toolkit.errors import UnknownError, suggest
from toolkit.notes import LineWithCode, code_of
from toolkit.printable import printable
from toolkit.rounding import rounded_text

DASH = "–"
DELTA = ("δ", "∆", "delta")
"""What users may type for the heading Δ, in lower case: the Greek letter, and the increment sign that looks like it."""


@dataclass(frozen=True)
class IntervalCell:
    """An estimate with the limits of its interval, which may be missing, and a mark that a note explains."""

    estimate: float
    low: float | None = None
    high: float | None = None
    mark: str = ""

    @classmethod
    def of(cls, numbers: Sequence[float | None], factor: float = 1.0) -> IntervalCell | None:
        """The cell of (estimate, low, high) times a `factor` that is not negative; None where there is no estimate."""
        estimate, low, high = numbers
        return None if estimate is None else cls(estimate, low, high).scaled(factor)

    def scaled(self, factor: float) -> IntervalCell:
        """The cell in another unit: estimate and limits times `factor`, which is not negative."""
        low, high = (None if end is None else factor * end for end in (self.low, self.high))
        return IntervalCell(factor * self.estimate, low, high, self.mark)

    def reversed(self) -> IntervalCell:
        """The same difference with first and second exchanged: all signs change, and the limits swap places."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        return IntervalCell(-self.estimate, low, high, self.mark)


class ColumnNote(LineWithCode):
    """A line beside a table that explains the columns with these keys. It is dropped where all of them are hidden.

    `on_gaps`: it says why they lack values, so that it stays where they hold nothing. `paper`: what is printed in its
    place, where it speaks of files or commands that a paper's reader does not have; empty: nothing.
    """

    columns: tuple[str, ...]
    on_gaps: bool
    paper: str | None

    def __new__(
        cls, text: str, columns: tuple[str, ...] = (), on_gaps: bool = False, paper: str | None = None, code: str = ""
    ) -> ColumnNote:
        """Makes the line: a string that also has the fields of ColumnNote."""
        note = super().__new__(cls, text)
        note.columns, note.on_gaps, note.paper, note.code = columns, on_gaps, paper, code
        return note


class Form:
    """How the cells of a column are written. A value of `None` is written as a dash and never reaches `show`."""

    align: ClassVar[str] = "left"  # or `right` or `center`
    stacks: ClassVar[str] = ""  # where a cell begins with this, print begins a line

    def show(self, value: Any) -> str:
        """The value as people read it, in a terminal and in Markdown."""
        return str(value)

    def csv_fields(self, name: str) -> tuple[str, ...]:
        """The names of the CSV columns that the column called `name` becomes."""
        return (name,)

    def csv_values(self, value: Any) -> tuple[Any, ...]:
        """The value for the CSV columns, unscaled and unrounded."""
        return (value,)


@dataclass(frozen=True)
class Words(Form):
    """Cells of text, written unchanged."""


@dataclass(frozen=True)
class NameForm(Form):
    """Cells of names: people read each name's value in `names`, programs the name itself."""

    names: Mapping[str, str]

    def show(self, value: str) -> str:
        return self.names.get(value, value)


@dataclass(frozen=True)
class Number(Form):
    """Cells of numbers with thousands separators. `scale` multiplies what people read (100 for per cent).

    One below 1 has as many more decimals as it takes to show `significant` digits.
    """

    align = "right"

    decimals: int = 0
    scale: float = 1.0
    signed: bool = False
    significant: int = 0

    def show(self, value: Any) -> str:
        """The rounded number. One that rounds to zero has no minus."""
        return rounded_text(float(value) * self.scale, self.places(value), signed=self.signed)

    def places(self, value: float) -> int:
        """The number of decimals that this value is shown with."""
        size = abs(float(value) * self.scale)
        if not self.significant or not 0 < size < 1:
            return self.decimals
        return max(self.decimals, self.significant - 1 - math.floor(math.log10(size)))


@dataclass(frozen=True)
class PValue(Number):
    """Cells of p-values with four decimals. One too small for them is written as below the least, never as zero."""

    decimals: int = 4

    def show(self, value: Any) -> str:
        return "< .0001" if float(value) < 1e-4 else super().show(value)


@dataclass(frozen=True)
class NumberWithInterval(Number):
    """Cells of an estimate with its interval: `61.2 [59.0, 63.4]`. The limits have as many decimals as the estimate."""

    decimals: int = 1

    @classmethod
    def of(cls, column: OutcomeColumn, signed: bool = False) -> NumberWithInterval:
        """The form for a metric's column, in the unit that people read: shares in per cent."""
        return cls(1, 100.0, signed) if column.share else cls(column.decimals, column.scale, signed, column.significant)

    def show(self, value: IntervalCell) -> str:
        number = Number(self.places(value.estimate), self.scale, self.signed)
        if value.low is None or value.high is None:
            return number.show(value.estimate) + value.mark
        return f"{number.show(value.estimate)} [{number.show(value.low)}, {number.show(value.high)}]{value.mark}"

    def csv_fields(self, name: str) -> tuple[str, ...]:
        return (name, f"{name}_low", f"{name}_high")

    def csv_values(self, value: IntervalCell | None) -> tuple[Any, ...]:
        return (None, None, None) if value is None else (value.estimate, value.low, value.high)


@dataclass(frozen=True)
class Tick(Form):
    """Cells of yes and no: `●` or nothing, or the two words given. A text in place of the value is written as it is."""

    align = "center"

    yes: str = "●"
    no: str = ""

    def show(self, value: bool | str) -> str:
        words: dict[bool | str, str] = {True: self.yes, False: self.no}
        return words.get(value, str(value))

    def csv_values(self, value: Any) -> tuple[Any, ...]:
        return ({None: "", True: "true", False: "false"}.get(value, value),)


@dataclass(frozen=True)
class RankSet(Form):
    """Cells of the lowest and the highest possible rank: `1–4`, or `3` where they are one."""

    align = "center"

    def show(self, value: tuple[int, int]) -> str:
        return f"{value[0]:,}" if value[0] == value[1] else f"{value[0]:,}–{value[1]:,}"

    def csv_fields(self, name: str) -> tuple[str, ...]:
        return (f"{name}_low", f"{name}_high")

    def csv_values(self, value: tuple[int, int] | None) -> tuple[Any, ...]:
        return (None, None) if value is None else value


@dataclass(frozen=True)
class FrontMark(Form):
    """Cells that say whether a policy is on the Pareto front (`●`), and in what share of normal draws (None: not
    known).

    A share that rounds to 0 % is not shown beside a policy that is not on it.
    """

    align = "center"

    def show(self, value: tuple[bool, float | None]) -> str:
        on, share = value
        text = "" if share is None or not (on or share >= 0.005) else f"{rounded_text(100 * share)} %"
        return " ".join(part for part in ("●" * on, text) if part)

    def csv_fields(self, name: str) -> tuple[str, ...]:
        return (name, "front_share")

    def csv_values(self, value: tuple[bool, float | None] | None) -> tuple[Any, ...]:
        return ("", None) if value is None else (*Tick().csv_values(value[0]), value[1])


@dataclass(frozen=True)
class TableColumn:
    """One column of a table. `key` names it in CSV.

    On a narrow terminal the columns with the highest `drop` go first (0: never), and the `core` ones last, after
    everything that makes room without dropping them. On any, the cells of one that is `beneath` are written under the
    row's first words instead of in a column of their own, and one that is shown `if_filled` is not where every cell is
    empty or a dash. In LaTeX the numbers of one that stands `under` another, named by its key, are in that one's cells,
    in parentheses, and one that is not `printed` is there only where it was asked for.
    """

    name: str
    form: Form = field(default_factory=Words)
    key: str | None = None
    drop: int = 0
    beneath: bool = False
    core: bool = False
    if_filled: bool = False
    under: str = ""
    printed: bool = True


@dataclass(frozen=True)
class TableContent:
    """The rows, columns and notes of a table. `strong` and `faint` hold the numbers of the rows that a terminal shows
    bold and dimmed; `marks` are columns of the CSV file with one value throughout, such as (simulated, true), for it
    has no place for notes. Title, headings, notes and the cells for people are printable, whatever they are made of.
    One that is not `printed` is for programs, too long to read: a report names its files.
    """

    title: str
    columns: tuple[TableColumn, ...]
    rows: tuple[tuple[Any, ...], ...]
    above: tuple[str, ...] = ()
    below: tuple[str, ...] = ()
    strong: frozenset[int] = frozenset()
    faint: frozenset[int] = frozenset()
    marks: tuple[tuple[str, str], ...] = ()
    printed: bool = True

    def __post_init__(self) -> None:
        notes = {name: tuple(map(_printable_note, getattr(self, name))) for name in ("above", "below")}
        columns = tuple(replace(column, name=printable(column.name)) for column in self.columns)
        for name, value in {"title": printable(self.title), "columns": columns, **notes}.items():
            object.__setattr__(self, name, value)

    def only(self, names: Sequence[str]) -> Self:
        """The table with only the columns called `names`, in that order, after the first column of words.

        Each goes by its heading or by its name in CSV; notes on other columns go with these, remarks stay. Raises
        ThinkbackError for a column that it lacks.
        """
        known: dict[str, int] = {}
        for place, column in enumerate(self.columns):
            spellings = (column.key, column.name, column.name.removesuffix(" %"), column.name.partition(" ")[0])
            for name in (*spellings, *(DELTA if "Δ" in spellings else ())):
                known.setdefault((name or column.name).casefold(), place)
        for name in names:
            if name.casefold() not in known:
                heads = [column.key or column.name for column in self.columns]
                if name.casefold() in (*DELTA, f"{DELTA[0]} points", "difference"):
                    raise UnknownError(
                        f"the table has no column `{name}`: name the policy that is compared with, the baseline"
                    )
                raise UnknownError(f"the table has no column `{name}`; {suggest(name, heads, limit=len(heads))}")
        words = [i for i, column in enumerate(self.columns) if column.form.align == "left" and not column.beneath][:1]
        chosen = list(dict.fromkeys(known[name.casefold()] for name in names))
        first = [] if set(words) & set(chosen) else words
        under = [i for i, column in enumerate(self.columns) if column.beneath and i not in chosen]
        part = self._only_columns(tuple(dict.fromkeys([*first, *chosen, *under])))
        order = {self.columns[place].name: number for number, place in enumerate(chosen)}
        columns = (
            replace(column, core=True, drop=order[column.name] * (column.drop > 0)) if column.name in order else column
            for column in part.columns
        )
        return replace(part, columns=tuple(columns))

    def _only_columns(self, places: Sequence[int]) -> Self:
        """The table with only the columns at these places, and without the notes on others."""
        columns = tuple(self.columns[i] for i in places)
        rows = tuple(tuple(row[i] for i in places) for row in self.rows)
        above, below = (notes_on(notes, columns) for notes in (self.above, self.below))
        return replace(self, columns=columns, rows=rows, above=above, below=below)

    def texts(self) -> list[list[str]]:
        """The texts of the cells as people read them, row by row."""
        pairs = (zip(self.columns, row, strict=True) for row in self.rows)
        return [
            [DASH if value is None else printable(column.form.show(value)) for column, value in row] for row in pairs
        ]


def notes_on(
    notes: Sequence[str], columns: Sequence[TableColumn], empty: Sequence[TableColumn] = ()
) -> tuple[str, ...]:
    """The notes that explain any of the columns, and those on columns left out as `empty`."""
    there, empty_names = ({column.key or column.name for column in some} for some in (columns, empty))

    def explains(note: str) -> bool:
        named = set(getattr(note, "columns", ()))
        return not named or bool(named & there) or (getattr(note, "on_gaps", False) and bool(named & empty_names))

    return tuple(filter(explains, notes))


def _printable_note(note: str) -> ColumnNote:
    paper = getattr(note, "paper", None)
    text = None if paper is None else printable(paper)
    on_gaps = getattr(note, "on_gaps", False)
    return ColumnNote(printable(note), getattr(note, "columns", ()), on_gaps, text, code_of(note))


_LEVELS = "▁▂▃▄▅▆▇█"


def bar_line(counts: Sequence[float]) -> str:
    """A line of bars, one character a count, as high as its share of the largest; a blank for zero: `▂█ ▁`."""
    largest = max(counts, default=0)
    if largest <= 0:
        return " " * len(counts)
    return "".join(_LEVELS[min(7, int(8 * count / largest))] if count > 0 else " " for count in counts)


def count_in_equal_ranges(pairs: Sequence[tuple[int, int]], bins: int = 12) -> list[tuple[str, int]]:
    """Groups (value, count) pairs into at most `bins` equal ranges: (label, count), empty ranges included."""
    if not pairs:
        return []
    low, high = min(value for value, _ in pairs), max(value for value, _ in pairs)
    width = max(1, -(-(high - low + 1) // bins))
    starts = range(low, high + 1, width)
    totals = [0] * len(starts)
    for value, count in pairs:
        totals[(value - low) // width] += count
    return [
        (f"{start}" if width == 1 else f"{start}–{min(start + width - 1, high)}", total)
        for start, total in zip(starts, totals, strict=True)
    ]
