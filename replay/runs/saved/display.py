"""How a result is shown: the input of its ranked table and its figure, and its short form."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from replay.runs.saved.findings import Findings
from replay.runs.saved.promise import within_margin
from replay.runs.saved.provenance import PolicyRecord
from toolkit.columns import MEDIAN_DEVIATION, PERCENTILES, OutcomeColumn, cost_named, metric_column
from toolkit.errors import UnknownError, counted
from toolkit.show import (
    WIDTH,
    NumberWithInterval,
    PolicyRow,
    RankedInput,
    RowLimits,
    Table,
    frontier_figure,
    frontier_points,
    rank,
    ranked_table,
    save_formats,
    table_of,
    write_latex,
)
from toolkit.show.figures.figure import FrontierPoint
from toolkit.show.ranking.one_column import one_column
from toolkit.show.ranking.ranking import short_names
from toolkit.show.tables.latex import COLUMN

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 40
"""How many rows a printed table shows if sweeps are long; `table.csv` has all."""
OF_SWEEP = 10
"""How many rows of each sweep a terminal shows."""
OF_SUITE, OF_SUITE_GROUP = 7, 4
"""How many rows a terminal shows of the standard suite, and of a group of it."""
SUITE_ON_PAPER = 16
"""How many rows of the standard suite LaTeX shows."""
ON_PAGE = 2_000
"""How many examples a page for a browser shows, if it has room for them."""
BEST = 3
"""How many policies the short form of a result names."""


def ranked_input(result: Findings, margin: float | None = None, cost: str | None = None) -> RankedInput:
    """The input of a result's ranked table and figure, with the metric `cost` instead of the run's if given."""
    summariser = result.summariser
    cost_name = summariser.cost if cost is None else cost_named(cost, summariser.columns).cost_name
    results = RankedInput(
        summary=pl.concat([result.summary, _seconds_percentiles(result)]), comparisons=result.comparisons,
        policies=tuple(policy_row(p) for p in result.policies), n=result.statistics.n,
        title=f"Policies on {result.log_name}, ranked by {metric_column(summariser.metric, summariser.columns).label}",
        metric=summariser.metric, by_cost=cost_name, baseline=summariser.baseline, leader=result.leader,
        margin=margin, simulated=result.simulated, seed=summariser.settings.seed,
        resamples=summariser.settings.resamples, level=summariser.settings.level, method=summariser.settings.method,
        notes=result.notes, ranks=result.ranks, columns=summariser.columns,
    )  # fmt: skip
    return replace(results, within=lambda: within_margin(result, margin, str(results.cost_column.metric)))


def _seconds_percentiles(result: Findings) -> pl.DataFrame:
    """Rows as of `summary` with the percentiles of each policy's seconds, and the median of its deviations, where some
    are logged.
    """
    known, schema, parts = result.summary.drop_nulls("estimate")["metric"], result.summary.schema, []
    for column in PERCENTILES if "latency_s" in known else ():
        share, name = column.name.partition("_")[0], pl.lit(column.metric)
        ends = pl.col(share), pl.col(f"{share}_low"), pl.col(f"{share}_high")
        cells = [end.alias(to) for end, to in zip(ends, ("estimate", "low", "high"), strict=True)]
        parts.append(result.seconds.select("policy", *cells, metric=name, n=pl.col("examples"), method=pl.lit(None)))
    if "deviation" in known:
        name = pl.lit(MEDIAN_DEVIATION.metric)
        parts.append(result.medians("deviation").with_columns(metric=name, method=pl.lit(None)))
    rows = [part.select(pl.col(name).cast(dtype) for name, dtype in schema.items()) for part in parts]
    return pl.concat([result.summary.clear(), *rows])


def policy_row(policy: PolicyRecord) -> PolicyRow:
    """What tables and figures need to know of a policy."""
    return PolicyRow(
        policy.name, policy.sweep, policy.sweep_size, policy.diagnostic, policy.base, policy.swept, policy.label or ""
    )


def inputs_by_group(result: Findings, whole: RankedInput) -> list[RankedInput]:
    """The input of a ranked table for each group of `by`."""
    return [
        replace(
            whole,
            summary=statistics.summary,
            comparisons=statistics.comparisons,
            ranks=statistics.ranks,
            n=statistics.n,
            leader=statistics.leader,
            notes=statistics.notes,
            within=None,
            title=", ".join(f"{column} = {value}" for column, value in zip(result.by, group, strict=True)),
        )
        for group, statistics in result.groups.items()
    ]


def printed_tables(
    ranked: RankedInput, groups: Sequence[RankedInput], suite: bool, columns: Sequence[str] = ()
) -> list[Table]:
    """The tables that a terminal shows: that of all examples, then those of groups with their further notes.

    Of the standard `suite` and of sweeps they have the rows that matter most.
    """
    whole = table_of_columns(ranked, columns, RowLimits(ROWS, OF_SWEEP, OF_SUITE if suite else None))
    few = RowLimits(ROWS, OF_SWEEP, OF_SUITE_GROUP if suite else None, "table_by.md and summary_by.parquet")
    tables = [table_of_columns(group, columns, few) for group in groups]
    return [whole, *(replace(table, below=tuple(n for n in table.below if n not in whole.below)) for table in tables)]


def write_display(
    result: Findings,
    ranked: RankedInput,
    folder: Path,
    width: float = WIDTH,
    title: str = "",
    columns: Sequence[str] = (),
    most: int | None = None,
) -> tuple[Table, list[RankedInput]]:
    """Write table.md, table.csv and table.tex; with groups, table_by.md and table_by.tex; and the figure of the front
    in every format with its numbers, if the ranking metric and a cost are known. Figure and LaTeX are `width` inches
    wide.

    `columns` are those of the tables, by default all; `most`: the rows of those in LaTeX. Returns the table in LaTeX
    and the inputs of the groups.
    """
    table, groups = table_of_columns(ranked, columns, ROWS), inputs_by_group(result, ranked)
    on_paper = RowLimits(ROWS, most=most)
    printed = table_of_columns(ranked, columns, on_paper)
    (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
    (folder / "table.csv").write_text(ranked_table_csv(ranked, columns), encoding="utf-8")
    printed = printed if columns or width > COLUMN else one_column(ranked, printed)
    write_latex(folder / "table.tex", {"policies": printed}, width)
    if groups:
        tables = [table_of_columns(group, columns, RowLimits(ROWS, rest="summary_by.parquet")) for group in groups]
        (folder / "table_by.md").write_text("\n".join(one.markdown() for one in tables), encoding="utf-8")
        named = {f"policies-{number}": table_of_columns(one, columns, on_paper) for number, one in enumerate(groups, 1)}
        if not columns and width <= COLUMN:
            named = {name: one_column(one, table) for one, (name, table) in zip(groups, named.items(), strict=True)}
        write_latex(folder / "table_by.tex", named, width)
    figure = frontier_figure(ranked, title, width)
    if figure is not None:
        save_formats(figure, folder, "frontier")
        marks = {"simulated": "true"} if ranked.simulated else {}
        (folder / "frontier.csv").write_text(table_of(frontier_frame(ranked)).csv(marks), encoding="utf-8")
    return printed, groups


def frontier_frame(results: RankedInput) -> pl.DataFrame:
    """The points of the figure of the front, with the full names of their policies."""
    whole = {label: name for name, label in short_names(results.policies, always=True).items()}
    return rows_frame([replace(point, name=whole[point.name]) for point in frontier_points(results)], FrontierPoint)


def rows_frame(rows: Sequence[Any], kind: type) -> pl.DataFrame:
    """A frame of frozen rows; the column `policy` has their names."""
    names = [field.name for field in fields(kind)]
    frame = pl.DataFrame({name: [getattr(row, name) for row in rows] for name in names}, strict=False)
    return frame.rename({"name": "policy"})


def table_of_columns(ranked: RankedInput, columns: Sequence[str], limit: int | RowLimits | None = None) -> Table:
    """The ranked table with some columns, by default all."""
    if not columns:
        return ranked_table(ranked, limit)
    known = set(ranked.summary.drop_nulls("estimate")["metric"])
    names = [_metric_of_column(name, ranked.columns, known) for name in columns]
    return ranked_table(ranked, limit, names).only(names)


def ranked_table_csv(ranked: RankedInput, columns: Sequence[str] = ()) -> str:
    """The ranked table as CSV: all rows, and percentiles and the median unless columns are named."""
    also = [str(column.metric) for column in (*PERCENTILES, MEDIAN_DEVIATION)]
    return (table_of_columns(ranked, columns) if columns else ranked_table(ranked, also=also)).csv()


def _metric_of_column(name: str, columns: Sequence[OutcomeColumn], known: Collection[str]) -> str:
    """The metric whose heading is `name` (`tokens`: those that are logged); the name itself if none is."""
    short = name.strip().casefold()
    names = [str(percentile.metric) for percentile in PERCENTILES if short == percentile.header.partition(" ")[0]]
    try:
        return names[0] if names else str(cost_named(name, columns, known.__contains__).metric)
    except UnknownError:
        return name


def lines_on_result(result: Findings) -> Iterator[str]:
    """A few lines on a result: what was compared on what, and which policy leads."""
    suffix = " (simulated)" if result.simulated else ""
    policies, examples = counted(len(result.policies), "policy", "policies"), counted(result.statistics.n, "example")
    yield f"Result: {policies} on {examples} of {result.log_name}{suffix}"
    ranked = [row for row in rank(ranked_input(result)) if row.place is not None]
    column = metric_column(result.summariser.metric, result.columns)
    form = NumberWithInterval(1, 100) if column.share else NumberWithInterval(column.precision)
    for row in ranked[:BEST]:
        if row.quality is not None:
            yield f"  {row.place}. {row.policy.name}: {column.heading} {form.show(row.quality)}"
    if len(ranked) > BEST:
        yield f"  … {len(ranked) - BEST} more"
    yield from (f"  {what}" for what in _left_out_policies(result))


def _left_out_policies(result: Findings) -> Sequence[str]:
    lines = []
    if result.baseline is not None:
        lines.append(f"baseline: {result.baseline}")
    if result.dropped:
        lines.append(f"dropped: {counted(len(result.dropped), 'policy', 'policies')}")
    if result.excluded:
        lines.append(f"left out: {counted(len(result.excluded), 'example')}")
    return lines
