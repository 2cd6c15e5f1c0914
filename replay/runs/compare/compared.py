"""The result of comparing policies pair by pair: frames, and the tables of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import polars as pl

from replay.runs.compare.same_questions import AGAIN, OTHER_SAMPLES, SameQuestions
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.notes import Note, Severity, remark
from toolkit.show import (
    SIMULATED,
    ColumnNote,
    IntervalCell,
    NameForm,
    Number,
    NumberWithInterval,
    Table,
    TableColumn,
    Tick,
    Words,
    table_of,
)
from toolkit.show.ranking.ranking import MARKED, mark_reasons
from toolkit.show.tables.table_content import PValue
from toolkit.stats.many.summary_notes import BATCHED_SECONDS

FIX, FLIP, OTHER = "fix", "flip", "other answer"
PAIRS = {
    "first": pl.String, "second": pl.String, "metric": pl.String, "difference": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "p_value": pl.Float64, "differs": pl.Boolean, "fixes": pl.Int64, "flips": pl.Int64,
    "n": pl.Int64, "method": pl.String,
}  # fmt: skip
METRICS = ("metric", "first", "second", "difference", "low", "high", "p_value", "n", "method")
EXAMPLES = ("example_id", "change", "gold", "answer_first", "answer_second", "correct_first", "correct_second")
GIVING_WAY = {"gold": 1, "correct_second": 2, "correct_first": 3}
"""Columns of examples that a narrow terminal drops; the column of changes still says which policy was right."""
FEW = {
    "tango": "†: fewer than twenty examples on which the two differ, so Tango's at the shared level.",
    "graded_tango": "†: means of several outcomes that differ by no more than on twenty whole examples, so at least "
    "Tango's at the shared level.",
    "max-t_few": "†: fewer than 100 examples, or means of fewer than 500 examples, whose tail they may not have seen.",
}
"""Method of the limits of all pairs -> the mark beneath the table."""
FEW_CLUSTERS = {
    "tango": "†: few clusters or examples on which the two differ, so Tango's interval with the clusters as trials.",
    "max-t_few": "†: clusters worth fewer than ten of equal size, or means of costs of fewer than 500.",
}
"""Method of an interval -> the mark beneath the table, where examples are clustered."""
IDENTICAL = "Identical: the same answers and costs on every example; other examples may tell them apart."


@dataclass(frozen=True, eq=False)
class ComparedPolicies:
    """Policies compared with each other; differences are always first minus second.

    `pairs`: differences by `metric`, with limits and p-values that hold for all `compared` pairs at once; fixes and
    flips: examples on which the first, the second does better. Of two that are named (`names`) it has their row alone
    (none where limits for all pairs are not known), and there are `metrics`: every metric of both, with limits for this
    pair by itself, and `examples`: those on which the two differ. `n`: examples compared; `left_out`: those that only
    one of two results has; `diagnostics`: whether policies that see gold are in no pair; `identical`: whether two that
    are named made the same calls on every example; `called`: what tables call policies, by name; `fixed`: whether it is
    said what other samples of the same questions would show, by `same`, None where that is not known; `cost`: the cost
    whose difference is the column `cost` of `pairs`.
    """

    title: str
    names: tuple[str, ...]
    metric: str
    pairs: pl.DataFrame
    compared: int
    metrics: pl.DataFrame | None
    examples: pl.DataFrame | None
    identical: bool
    n: int
    left_out: int
    diagnostics: bool
    columns: tuple[OutcomeColumn, ...]
    level: float
    simulated: bool
    notes: tuple[Note, ...]
    clustered: bool = False
    same: SameQuestions | None = None
    fixed: bool = False
    cost: OutcomeColumn | None = None
    called: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return str(self.table(limit=10))

    def _repr_html_(self) -> str:
        return self.table(limit=40).html()

    def table(self, limit: int | None = None) -> Table:
        """The table of all pairs, or of the metrics of two policies, with at most `limit` rows."""
        return self._pairs_table(limit) if self.metrics is None else self._metrics_table(self.metrics)

    def examples_table(self, limit: int | None = None) -> Table | None:
        """The table of at most `limit` examples on which two policies differ; None for all pairs, or where they never
        differ.
        """
        if self.examples is None or self.examples.is_empty():
            return None
        counts = {change: self.examples.filter(change=change).height for change in (FIX, FLIP, OTHER)}
        first, second = self.names
        notes = [
            f"{FIX}: `{first}` does better, {counts[FIX]:,}; {FLIP}: `{second}` does better, {counts[FLIP]:,}; "
            f"{OTHER}: {counts[OTHER]:,}.",
            *self._cut_table_notes(self.examples.height, limit, "examples"),
        ]
        frame = self.examples if limit is None else self.examples.head(limit)
        table = table_of(frame, f"Examples on which {first} and {second} differ", decimals=2, notes=notes)
        columns = (replace(column, drop=GIVING_WAY.get(column.name, 0)) for column in table.columns)
        return replace(table, columns=tuple(columns))

    def _pairs_table(self, limit: int | None) -> Table:
        column, pairs = metric_column(self.metric, self.columns), self.pairs
        decimals, scale = _decimals_and_scale(column)
        columns: tuple[TableColumn, ...] = (
            TableColumn("first", NameForm(self.called)),
            TableColumn("second", NameForm(self.called)),
            TableColumn("Δ points" if column.share else "Δ", NumberWithInterval(decimals, scale, True), "difference"),
            TableColumn("p", PValue(), "p_adjusted", drop=2),
            TableColumn("told apart", Tick(), "differs"),
            TableColumn("fixes", Number(0), "fixes", drop=1, if_filled=True),
            TableColumn("flips", Number(0), "flips", drop=1, if_filled=True),
        )
        if self.cost is not None:
            form = NumberWithInterval(*_decimals_and_scale(self.cost), True)
            columns = (*columns[:3], TableColumn(f"Δ {self.cost.heading}", form, "cost"), *columns[3:])
        if self.fixed:
            form = NumberWithInterval(1, 100, True)
            columns = (*columns, TableColumn("Δ points, these questions", form, "same_questions", drop=1))
        rows = pairs.head(pairs.height if limit is None else limit).select(
            "first", "second", "difference", "low", "high", "method", "p_value", "differs", "fixes", "flips"
        )
        paid: Sequence[tuple[IntervalCell | None, ...]] = [()] * rows.height
        if self.cost is not None:
            values = pairs["cost"].head(rows.height)
            paid = [(None if value is None else IntervalCell(value, None, None),) for value in values]
        body = [
            (one, other, IntervalCell(float(change), low, high, "†" * (method in FEW)), *more, *rest, *again)
            for more, (one, other, change, low, high, method, *rest) in zip(paid, rows.iter_rows(), strict=True)
            for again in [self._another_run_cells(one, other)]
        ]
        below = [
            *self._cut_table_notes(pairs.height, limit, "pairs"),
            *self._notes_on_examples_and_level(column),
            ColumnNote("p: two-sided and adjusted for all pairs, step by step, so it may tell apart where Δ does not.",
                       ("p_adjusted",)),
            ColumnNote("fixes, flips: examples on which the first, the second does better.", ("fixes", "flips")),
        ]  # fmt: skip
        below += [why for method, why in self._few_units_message().items() if method in set(rows["method"])]
        if self.cost is not None:
            below.append(ColumnNote(f"Δ {self.cost.heading}: first minus second, of the means.", ("cost",)))
        if rows["low"].null_count():
            below.append("No interval: fewer than three clusters, or of an F1 fewer than thirty fixes and flips.")
        below += [remark("no_diagnostics", "Policies that see gold are in no pair.")] if self.diagnostics else []
        below += self._another_run_lines(rows["first"], rows["second"]) if self.fixed else []
        below += self._notes_without_single_intervals([self.metric])
        title = f"Pairs of policies on {self.title}, by {column.label}"
        return Table(
            title, columns, tuple(body), above=self._lines_above(), below=tuple(below), marks=self._csv_marks()
        )

    def _metrics_table(self, metrics: pl.DataFrame) -> Table:
        first, second = self.names
        columns = (
            TableColumn("metric"),
            TableColumn(first, Words(), "first", drop=2),
            TableColumn(second, Words(), "second", drop=2),
            TableColumn("Δ", Words(), "difference", core=True),
            TableColumn("p", PValue(), "p_value", drop=1),
            TableColumn("n", Number(0), "n", drop=3),
        )
        rows, marks = [], set[str]()
        if self.cost is not None:
            first_rows = [self.metric, str(self.cost.metric)]
            metrics = metrics.sort(~pl.col("metric").is_in(first_rows), maintain_order=True)
        for name, one, other, change, low, high, p_value, n, method in metrics.iter_rows():
            column = metric_column(name, self.columns)
            if one == other == 0 and not column.quality:  # neither draws, verifies or pays any
                continue
            decimals, scale = _decimals_and_scale(column)
            number = Number(decimals, scale, significant=2)
            marks |= {method} if method in MARKED else set()
            apart = None if change is None else IntervalCell(change, low, high, "†" * (method in MARKED))
            values = [None if value is None else number.show(value) for value in (one, other)]
            form = NumberWithInterval(decimals, scale, signed=True, significant=2)
            rows.append((column.heading, *values, None if apart is None else form.show(apart), p_value, n))
        below = [
            *([IDENTICAL] if self.identical else []),
            f"{self.n:,} examples. Δ: {first} minus {second}, with {100 * self.level:g} % intervals for this pair "
            "alone, as if it had been named before the data were seen.",
            *self._pair_among_all_notes(),
            *self._same_questions_lines(),
            *([f"†: {'; '.join(mark_reasons(marks, self.clustered))}."] if marks else []),
            *self._notes_without_single_intervals(metrics["metric"]),
        ]
        title = f"{first} against {second} on {self.title}"
        return Table(
            title, columns, tuple(rows), above=self._lines_above(), below=tuple(below), marks=self._csv_marks()
        )

    def _pair_among_all_notes(self) -> Iterator[str]:
        column = metric_column(self.metric, self.columns)
        decimals, scale = _decimals_and_scale(column)
        form = NumberWithInterval(decimals, scale, signed=True)
        for change, low, high, p_value, differs in self.pairs.select(
            "difference", "low", "high", "p_value", "differs"
        ).iter_rows():
            verdict = "told apart" if differs else "not told apart"
            p = "" if p_value is None else f", p {PValue().show(p_value)}"
            value = form.show(IntervalCell(change, low, high))
            text = f"Among all {self.compared:,} pairs at once: {column.heading} {value}{p}; {verdict}."
            yield remark("all_pairs", text)
        yield from self._left_out_notes()

    def _another_run_cells(self, first: str, second: str) -> tuple[IntervalCell | None, ...]:
        """The cell of a pair in the column of other samples of the same questions; empty if there is no such column."""
        if not self.fixed:
            return ()
        return (None if self.same is None else self.same.variation_of(first, second).cell,)

    def _another_run_lines(self, first: pl.Series, second: pl.Series) -> list[str]:
        """Lines on the column of other samples: what its brackets are, and why cells are empty."""
        if self.same is None:
            return [f"{OTHER_SAMPLES}: – (policies of two results)."]
        whys = Counter(
            why for one, other in zip(first, second, strict=True) if (why := self.same.variation_of(one, other).why)
        )
        brackets = [AGAIN.format(100 * self.level)] * (whys.total() < len(first))
        return [*brackets, *(f"– in {number:,} of {len(first):,} pairs: {why}." for why, number in whys.items())]

    def _same_questions_lines(self) -> Iterator[str]:
        """Lines on how the difference of two policies would vary over other samples of the same questions."""
        if not self.fixed:
            return
        first, second = self.names
        if self.same is None:
            yield f"{OTHER_SAMPLES}: – (policies of two results)."
            return
        yield self.same.sentence(
            *(self.same.variation_phrase(*names) for names in ((first,), (second,), (first, second)))
        )

    def _few_units_message(self) -> dict[str, str]:
        return FEW | FEW_CLUSTERS if self.clustered else FEW

    def _notes_on_examples_and_level(self, column: OutcomeColumn) -> Iterator[str]:
        points, level = " in percentage points" * column.share, f"{100 * self.level:g} %"
        at_once = f"the {level} intervals of all {self.compared:,} pairs hold at once"
        intervals = at_once if self.compared > 1 else f"{level} intervals"
        text = f"{self.n:,} examples. Δ: first minus second{points}; {intervals}."
        yield remark("at_once" if self.compared > 1 else "one_pair", text)
        yield from self._left_out_notes()

    def _left_out_notes(self) -> Iterator[str]:
        if self.left_out:
            yield f"{self.left_out:,} examples that only one of the results has are left out."

    def _notes_without_single_intervals(self, metrics: Iterable[str]) -> list[str]:
        """Notes on the whole, and on sums of seconds if it shows any; without those on intervals of single values."""
        names = set(metrics)
        return [
            remark(note.code, str(note))
            for note in self.notes
            if note.severity is Severity.NOTE
            and (not note.metrics or (note.code == BATCHED_SECONDS and names & {*note.metrics}))
        ]

    def _cut_table_notes(self, height: int, limit: int | None, what: str) -> list[str]:
        if limit is None or height <= limit:
            return []
        more = f"{height - limit:,} more {what}"
        return [
            ColumnNote(
                f"{more}: `--out DIR`, or `.{what}` in Python, has all.", (), paper=f"{more} are not shown.", code="cut"
            )
        ]

    def _lines_above(self) -> tuple[str, ...]:
        warned = (str(note) for note in self.notes if note.severity is Severity.WARNING)
        return (*[SIMULATED] * self.simulated, *warned)

    def _csv_marks(self) -> tuple[tuple[str, str], ...]:
        return (("simulated", "true"),) if self.simulated else ()


def _decimals_and_scale(column: OutcomeColumn) -> tuple[int, float]:
    """Decimals that a metric's numbers are shown with, and the factor that they are multiplied by."""
    if column.share:
        return 1, 100.0
    return (column.decimals if column.header else 2), column.scale
