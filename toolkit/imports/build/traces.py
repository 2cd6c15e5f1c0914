"""The traces of an import: their columns, sample indices, duplicates, ids and parents, before judgement.

A frame of traces carries, besides the contract's columns, `row` (its source row) and `group` (its place among the
mapping's `[traces]` tables); further columns have EXTRA before their names until they are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import polars as pl

from toolkit.errors import counted
from toolkit.imports.map.expressions import EXAMPLE, EXTRA, ROW, SourceRows, source_verdicts
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping, RowTable, TraceTable, Values
from toolkit.imports.map.opening import tables_in_row_order
from toolkit.log.contract.schema import CALL_COSTS

CONTENT = "__content"
SLOT = ("example_id", "pool", "action", "parent_id", "sample_index")
_RUN = SLOT[:-1]
_LINKS = {"trace_id": pl.String(), "parent_id": pl.String(), "of_pool": pl.String(), "of_index": pl.Int32()}

# What engines and harnesses call the two endings that matter.
_ENDINGS = {
    **dict.fromkeys(("length", "max_tokens", "max_length", "model_length", "max_output_tokens", "token_limit",
                     "max_new_tokens", "truncated", "limit"), "length"),
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "completed", "complete"), "stop"),
}  # fmt: skip


@dataclass(frozen=True)
class CountedTraces:
    """Traces with the counts that notes and the report name."""

    frame: pl.DataFrame
    counts: Mapping[str, int]


def trace_columns(rows: SourceRows, mapping: ImportMapping, group: int) -> pl.DataFrame:
    """The mapped columns of one `[traces]` table in contract types, for the source rows that belong to it."""
    table = mapping.traces[group]
    group_rows = rows.filter_rows("traces.where", table.where)
    series = [group_rows.frame[ROW].alias("row"), group_rows.frame[EXAMPLE].alias("example_id")]
    columns = {"action": "'solve'", **table.columns}
    for name, value in columns.items():
        if name == "correct":
            series.append(source_verdicts(group_rows, "traces.correct", value).alias(name))
        elif name == "sample_index" and value == ROW_ORDER:
            series.append(pl.Series(name, [None] * group_rows.frame.height, dtype=pl.Int32))
        else:
            series.append(group_rows.log_column("traces", name, value))
    for name, value in table.extra.items():
        key = f"traces.extra.{name}"
        series.append(group_rows.check_finite(key, group_rows.compute(key, value)).alias(EXTRA + name))
    frame = pl.DataFrame(series).with_columns(group=pl.lit(group, pl.Int32))
    frame = _with_parent_slot(frame, group_rows, table.parent)
    return _finish_reasons(frame, mapping.finish_reasons)


def _with_parent_slot(frame: pl.DataFrame, rows: SourceRows, parent: Values) -> pl.DataFrame:
    """Adds `of_pool` and `of_index`, pool and sample index of a revision's parent, where the mapping gives them."""
    if not parent:
        return frame
    pool = rows.compute_typed("traces.parent.pool", parent["pool"], pl.String())
    index = rows.compute_typed("traces.parent.sample_index", parent["sample_index"], pl.Int32())
    return frame.with_columns(pool.alias("of_pool"), index.alias("of_index"))


def _finish_reasons(frame: pl.DataFrame, further: Mapping[str, str]) -> pl.DataFrame:
    """Finish reasons in the log's words: `length` and `stop` are translated, others are kept in lower case."""
    if "finish_reason" not in frame.columns:
        return frame
    names = {**_ENDINGS, **further}
    return frame.with_columns(pl.col("finish_reason").str.to_lowercase().replace(list(names), list(names.values())))


def index_traces(rows: SourceRows, mapping: ImportMapping, parts: list[pl.DataFrame]) -> CountedTraces:
    """Numbers the samples, drops or renumbers duplicates, sets ids, and finds the parent of every revision."""
    frame = pl.concat(parts, how="diagonal_relaxed")
    for name, dtype in _LINKS.items():
        if name not in frame.columns:
            frame = frame.with_columns(pl.lit(None, dtype).alias(name))
    solves = frame.filter(pl.col("action") == "solve").with_columns(parent_id=pl.lit(None, pl.String))
    solves, dropped, numbered = _number_samples(rows, mapping, solves)
    whole = solves = _set_trace_ids(solves)
    revisions = frame.filter(pl.col("action") != "solve")
    if revisions.height:
        revisions = _find_parents(rows, revisions, solves)
        revisions, more_dropped, more_numbered = _number_samples(rows, mapping, revisions)
        revisions, orphans = _without_dropped_parents(rows, frame, _set_trace_ids(revisions), solves)
        whole = pl.concat([solves, revisions], how="diagonal_relaxed")
        dropped, numbered = dropped + orphans + more_dropped, numbered + more_numbered
    namesakes = _count_namesakes(rows, whole) if mapping.path is None else 0  # a `path` tells files of one name apart
    counts = {"duplicates_dropped": dropped, "duplicates_numbered": numbered, "namesakes": namesakes}
    return CountedTraces(whole, counts | _count_repeats(rows, mapping, whole))


def _number_samples(rows: SourceRows, mapping: ImportMapping, frame: pl.DataFrame) -> tuple[pl.DataFrame, int, int]:
    """The frame with one row for each (example, pool, sample index); missing indices count in row order. The numbers
    count the duplicates dropped and renumbered.
    """
    by_row = pl.int_range(pl.len(), dtype=pl.Int32).over(_RUN)
    unnumbered = pl.col("group").is_in(tables_in_row_order(mapping))
    frame = frame.with_columns(sample_index=pl.when(unnumbered).then(by_row).otherwise("sample_index"))
    again = frame.select(~pl.struct(SLOT).is_first_distinct()).to_series()
    if not again.any():
        return frame, 0, 0
    if mapping.duplicates == "resumed":
        _check_one_file(rows, frame, again)
    if mapping.duplicates != "number":
        return frame.filter(~again), int(again.sum()), 0
    first = frame.with_columns(again=again).with_columns(
        top=pl.col("sample_index").max().over(_RUN), turn=pl.col("again").cast(pl.Int32).cum_sum().over(_RUN)
    )
    moved = pl.when(pl.col("again")).then(pl.col("top") + pl.col("turn")).otherwise(pl.col("sample_index"))
    return first.with_columns(sample_index=moved).drop("again", "top", "turn"), 0, int(again.sum())


def _check_one_file(rows: SourceRows, frame: pl.DataFrame, again: pl.Series) -> None:
    """Raises where two files have samples of the same (example, pool, index), since dropping would lose a run."""
    path = rows.frame["source_path"].gather(frame["row"])
    placed = frame.select(*SLOT, "row", path=path)
    twice = placed.with_columns(first=pl.col("path").first().over(SLOT)).filter(
        again & (pl.col("path") != pl.col("first"))
    )
    if twice.height:
        row = twice.row(0, named=True)
        raise rows.error(
            f"{counted(twice.height, 'trace has', 'traces have')} the example, pool and index of those of another file:"
            f" the first is sample {row['sample_index']} of example `{row['example_id']}` in pool `{row['pool']}`,"
            f" in `{row['first']}` and `{row['path']}`; tell two runs apart by a column of the `path`"
            f" (`{_run_options(row['first'], row['path'])}`), take them for more samples (`--set duplicates=number`),"
            " or keep one of each (`--set duplicates=first`)"
        )


def _run_options(first_path: str, second_path: str) -> str:
    """The options that make the runs of two files separate pools."""
    first, second = PurePosixPath(first_path), PurePosixPath(second_path)
    pattern = f"{{run}}{first.suffix}" if first.suffix == second.suffix else "{run}"
    pattern = f"{{run}}/*{first.suffix}" if first.name == second.name else pattern
    return f"--set 'path={pattern}' --set traces.pool=run"


def _count_namesakes(rows: SourceRows, frame: pl.DataFrame) -> int:
    """The number of traces in runs whose rows come from several files of the same name."""
    if rows.frame["source_path"].n_unique() == rows.frame["source_file"].n_unique():
        return 0
    files = rows.frame.select("source_file", "source_path")[frame["row"]]
    paths = frame.select(_RUN).hstack(files).group_by(*_RUN, "source_file")
    sizes = paths.agg(paths=pl.col("source_path").n_unique(), traces=pl.len())
    return int(sizes.filter(pl.col("paths") > 1)["traces"].sum())


def _count_repeats(rows: SourceRows, mapping: ImportMapping, frame: pl.DataFrame) -> dict[str, int]:
    """Counts of runs, numbered by row order, whose second half of source rows repeats the first exactly. `unlike` and
    `alike`: their traces, by whether the samples differ; `single`: runs without a repeat; `ordered`: examples;
    `unlike_runs`: runs with a repeat of unlike samples; `even_runs`: all of an even number of samples, not all alike.
    """
    ordered = frame.filter(pl.col("group").is_in(tables_in_row_order(mapping)))
    if not ordered.height:
        return {}
    codes = rows.frame[CONTENT] if CONTENT in rows.frame.columns else content_hashes(rows.frame)
    coded = ordered.select(*_RUN, "sample_index", code=codes.gather(ordered["row"])).sort("sample_index")
    half = pl.len() // 2
    runs = coded.group_by(_RUN).agg(
        size=pl.len(),
        twice=(pl.len() % 2 == 0) & (pl.col("code").head(half) == pl.col("code").tail(half)).all(),
        kinds=pl.col("code").n_unique(),
    )
    twice, alike = pl.col("twice"), pl.col("kinds") == 1
    counts = runs.select(
        repeats_unlike=pl.col("size").filter(twice & ~alike).sum(),
        repeats_alike=pl.col("size").filter(twice & alike).sum(),
        repeats_single=(~twice).sum(),
        repeats_ordered=pl.col("example_id").n_unique(),
        repeats_unlike_runs=(twice & ~alike).sum(),
        repeats_even_runs=((pl.col("size") % 2 == 0) & ~alike).sum(),
    )
    return counts.row(0, named=True)


def content_hashes(frame: pl.DataFrame) -> pl.Series:
    """A hash of each source row's content, without the columns that say where it stands."""
    return frame.drop(ROW, "source_row", "source_file", "source_path", strict=False).hash_rows().alias(CONTENT)


def count_behind_gaps(frame: pl.DataFrame) -> int:
    """The number of traces whose sample index follows a gap, as when a source counts from 1."""
    place = pl.col("sample_index").rank("ordinal").over(_RUN) - 1
    return int(frame.select((pl.col("sample_index") > place).sum()).item())


def _set_trace_ids(frame: pl.DataFrame) -> pl.DataFrame:
    """Sets ids where the source has none: `EXAMPLE/POOL/INDEX`; a revision's id continues its parent's."""
    example, pool, action = (_escape_part(name) for name in ("example_id", "pool", "action"))
    index = pl.col("sample_index").cast(pl.String)
    solve = pl.concat_str([example, pool, index], separator="/")
    revision = pl.concat_str([pl.col("parent_id"), action, pool, index], separator="/")
    slot_id = pl.when(pl.col("action") == "solve").then(solve).otherwise(revision)
    return frame.with_columns(trace_id=pl.coalesce("trace_id", slot_id))


def _escape_part(name: str) -> pl.Expr:
    """A part of an id with the separator escaped, so that different parts never give equal ids."""
    return pl.col(name).str.replace_all("%", "%25", literal=True).str.replace_all("/", "%2F", literal=True)


def _find_parents(rows: SourceRows, revisions: pl.DataFrame, solves: pl.DataFrame) -> pl.DataFrame:
    """Sets each revision's parent_id from the pool and index of its parent; parent ids of the source stay."""
    slots = solves.select("example_id", of_pool="pool", of_index="sample_index", parent_trace="trace_id")
    joined = revisions.join(slots, on=["example_id", "of_pool", "of_index"], how="left", maintain_order="left")
    joined = joined.with_columns(parent_id=pl.coalesce("parent_id", "parent_trace")).drop("parent_trace")
    lost = joined.filter(pl.col("parent_id").is_null())
    if lost.height:
        row = lost.row(0, named=True)
        named = f"sample {row['of_index']} of pool `{row['of_pool']}`" if row["of_pool"] is not None else "none named"
        raise rows.error(
            f"a trace with action `{row['action']}` of example `{row['example_id']}` {rows.row_place(row['row'])}"
            f" has no parent ({named}): set `traces.parent` or `traces.parent_id`; a first attempt has `'solve'`"
        )
    return joined


def _without_dropped_parents(
    rows: SourceRows, everything: pl.DataFrame, revisions: pl.DataFrame, solves: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """The revisions without those of dropped duplicates, and how many. ThinkbackError for a parent without a row."""
    known = set(everything["trace_id"].drop_nulls()) | set(solves["trace_id"])
    unknown = revisions.filter(~pl.col("parent_id").is_in(list(known)))
    if unknown.height:
        row = unknown.row(0, named=True)
        raise rows.error(f"`traces.parent_id` is `{row['parent_id']}` {rows.row_place(row['row'])}, which no row has")
    before = revisions.height
    while True:
        ids = [*solves["trace_id"].to_list(), *revisions["trace_id"].to_list()]
        staying = revisions.filter(pl.col("parent_id").is_in(ids))
        if staying.height == revisions.height:
            return revisions, before - staying.height
        revisions = staying


def verifier_rows(rows: SourceRows, table: TraceTable, traces: pl.DataFrame) -> pl.DataFrame:
    """The verifications of one `[traces]` table's traces. A row without a score and without costs has none.

    A call that failed and was paid stays, without a score.

    `rows` are the source rows of `traces`, in their order.
    """
    parts = []
    for verifier in table.verifiers:
        series = [rows.log_column("verifications", name, value, "verifiers") for name, value in verifier.items()]
        # A plain number says what any call costs, and not that there was one.
        paid = [pl.col(name) > 0 for name in CALL_COSTS if isinstance(verifier.get(name), str)]
        every = pl.DataFrame([traces["trace_id"], traces["example_id"], *series])
        parts.append(every.filter(pl.any_horizontal(pl.col("score").is_not_null(), *paid)))
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.DataFrame()


def feature_rows(rows: SourceRows, table: TraceTable, traces: pl.DataFrame) -> pl.DataFrame:
    """The features of one `[traces]` table's traces. A row without any feature is left out."""
    if not table.features:
        return pl.DataFrame()
    series = [traces["trace_id"], traces["example_id"]]
    for name, value in table.features.items():
        key = f"features.{name}"
        series.append(rows.check_finite(key, rows.compute_typed(key, value, pl.Float64())).alias(name))
    return pl.DataFrame(series).filter(~pl.all_horizontal(pl.col(list(table.features)).is_null()))


def further_table_rows(rows: SourceRows, table: str, maps: Sequence[RowTable]) -> pl.DataFrame:
    """The rows of a further table of the log (`rounds`, `checks`), with `row`, the source row of each."""
    parts = []
    for one in maps:
        some = rows.filter_rows(f"{table}.where", one.where)
        series = [some.frame[ROW].alias("row"), some.frame[EXAMPLE].alias("example_id")]
        series += [some.log_column(table, name, value) for name, value in one.columns.items()]
        for name, value in one.extra.items():
            key = f"{table}.extra.{name}"
            series.append(some.check_finite(key, some.compute(key, value)).alias(name))
        parts.append(pl.DataFrame(series))
    return pl.concat(parts, how="diagonal_relaxed")
