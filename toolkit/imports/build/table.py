"""`import_table`: any JSONL, CSV or Parquet, through a mapping file, into a sealed log."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import polars as pl

from toolkit.arguments import checks_arguments
from toolkit.errors import EmptyError, InvalidError, RequiredError, UnsuitableError, counted
from toolkit.files import check_replaceable, replacing
from toolkit.imports.build.blocks import PreparedSources, SourceBlocks, open_source
from toolkit.imports.build.examples import make_examples
from toolkit.imports.build.judgements import has_only_verdicts, judge_traces, settable_marks, with_answers
from toolkit.imports.build.readings import Readings, check_readings
from toolkit.imports.build.traces import (
    count_behind_gaps,
    feature_rows,
    further_table_rows,
    index_traces,
    trace_columns,
    verifier_rows,
)
from toolkit.imports.map.expressions import EXAMPLE, EXTRA, ROW, SourceRows
from toolkit.imports.map.mapping import ROW_ORDER, ImportMapping, read_mapping
from toolkit.imports.map.opening import is_constant, list_place_notes
from toolkit.log import LogError, schema_of
from toolkit.log.write.sealing import seal_folder
from toolkit.log.write.shard_files import write_shards
from toolkit.log.write.writer import ROWS_PER_SHARD, sorted_blocks
from toolkit.notes import WARNING, remark
from toolkit.show.tables.html import bullet_list
from toolkit.work_places import remove_path

_ROWS = ".rows"
"""The folder, within the log, for files of an unfinished import; readers ignore it for the dot in its name."""
WORKING = (
    "row", "group", "of_pool", "of_index", "verdict", "ours", "gold", "golds", "classed", "blind", "reread", "alike",
)  # fmt: skip


_NOTES = {
    "duplicates_dropped": "{n} [trace|traces] dropped: one of the same example, pool and index came before",
    "duplicates_numbered": "{n} [trace|traces] of a repeated sample index [has a new one|have new ones]",
    "repeated": "{n} [trace is|traces are] numbered by row order, and the second half of [its|their] example's rows"
    " repeats the first: was a run appended twice?",
    "namesakes": "{n} [trace|traces] of one example and pool [comes|come] from several files of one name: are these"
    " runs of their own? Tell them apart by a column of the `path`, such as `{{model}}/*.jsonl`",
    "ids_split": "{n} [example_id|example_ids] had different questions{gold}: now one id each, by its hash",
    "behind_gaps": WARNING + "{n} [trace comes|traces come] after a gap in [its|their] sample indices (from 0): not"
    f" replayed; `--set 'traces.sample_index={ROW_ORDER}'` numbers samples as they come",
    "trusted": '{n} [example_id has|example_ids have] different questions: the first was kept (`ids = "trust"`)',
    "unread_gold": "{n} [example has|examples have] a gold in which `answers.read_gold` finds no answer:"
    " [it has|they have] none",
    "null_answers": "{n} [trace has|traces have] no readable answer (counted as wrong)",
    "null_right": "the source calls {n} without a readable answer right; map `traces.opaque` to keep its verdicts",
    "veiled": "{n} [trace has|traces have] a verdict and no answer: opaque, so no votes and no margins",
    "by_conflict": "{n} [trace has an answer|traces have answers] that the source judged differently: `{how}`",
    "contested": "{n} [trace keeps|traces keep] a verdict that an equal answer does not have: contested, so no votes"
    " and no margins on [its example|their examples]",
    "judged_here": "{n} [answer|answers] graded by comparing with gold",
    "as_equal": "{n} [answer|answers] graded like an equal answer of the example",
    "without_gold": "{n} [trace has|traces have] no gold: not compared again",
    "undecided": "{n} [trace has|traces have] neither answer nor verdict: no trace of [its example|their examples] is"
    " judged",
    "blind_examples": "{n} [example has|examples have] labels and no gold, by which a verdict could be checked:"
    " unjudged; map `examples.gold`, or `traces.opaque` to keep the source's verdicts and give up votes",
    "unjudged_examples": "{n} [example is|examples are] unjudged",
}
"""The note for each count that is not 0.

`[trace|traces]`: the words for one, and those for several.
"""


SOURCES = "files, folders or globs"


@dataclass(frozen=True)
class ImportReport:
    """The result of an import, in counts of rows of the table that a field names, unless its comment says otherwise."""

    log: Path
    name: str
    rows_read: int  # of the source
    rows_used: int  # after `where` and `explode`
    examples: int
    traces: int
    verifications: int
    features: int
    rounds: int
    checks: int
    null_answers: int  # traces without an answer
    opaque_answers: int  # traces with a verdict in place of an answer
    judgements_changed: int  # traces whose verdict is not the source's any more
    duplicates_dropped: int  # traces
    duplicates_numbered: int  # traces
    ids_split: int  # example_ids of several questions
    unjudged_examples: int
    behind_gaps: int  # traces after a gap in their sample indices, which are not replayed
    readings: Readings  # what was right, and what was wrong beside its gold
    notes: tuple[str, ...]  # one line each, for people

    def _repr_html_(self) -> str:
        rows = [counted(self.examples, "example"), counted(self.traces, "trace")]
        rows.append(counted(self.verifications, "verification"))
        rows += [counted(count, name) for name, count in (("round", self.rounds), ("check", self.checks)) if count]
        return bullet_list(f"{self.name}: {', '.join(rows)}", self.lines())

    def lines(self) -> tuple[str, ...]:
        """The lines that a user reads after an import: the notes, then what is said of the answers read."""
        return (*self.notes, *map(str, self.readings.notes()))


@checks_arguments(sources=SOURCES, mapping="a TOML file or the name of a shipped map", settings="texts KEY=VALUE")
def import_table(
    sources: Sequence[str | Path] | str | Path,
    mapping: str | Path,
    out: str | Path,
    *,
    rejudge: bool = False,
    name: str | None = None,
    settings: Sequence[str] = (),
    prepared: PreparedSources | None = None,
) -> ImportReport:
    """Imports `sources` (files, globs, folders) through `mapping` (a TOML file or a shipped map's name) into log `out`.

    The source's own verdicts are kept, unless `rejudge` judges every answer against gold again. `settings`
    (`answers.kind=number`) replace the mapping's. ThinkbackError, and nothing is written, where the mapping or the
    source is wrong, or `out` exists.
    """
    check_replaceable(out, force=False)
    plan = read_mapping(mapping, settings)
    _check_plan(plan, rejudge)
    title = name or plan.name or Path(out).resolve().name
    given = [sources] if isinstance(sources, str | Path) else sources
    counts: Counter[str] = Counter()
    with replacing(out) as folder:
        source = open_source(plan, [str(one) for one in given], folder / _ROWS, prepared)
        shards: dict[str, tuple[int, int]] = {}
        for number in range(source.count):
            tables = _build_block(source, number, plan, rejudge)
            counts.update(tables.counts)
            for table, frame in tables.tables.items():
                written = write_shards(folder, table, sorted_blocks(frame, table, ROWS_PER_SHARD))
                shards |= {f"{table}/{path.name}": (number, block) for block, path in enumerate(written)}
        if source.several is not None:
            counts["ids_split"] = source.several.len()  # each once, in however many blocks its questions are
        if not any(counts[name] for name in ("traces", *plan.rows)):
            raise EmptyError(f"mapping `{plan.file}`: no row of the source becomes a trace; check `where`")
        files = [{"file": file, "sha256": digest} for file, digest in source.files]
        address = {"from": plan.source} if plan.source else {}
        origin = {"imported": "table", "mapping": plan.file, "rejudged": rejudge, "files": files, **address}
        pools = {**(prepared.pools if prepared is not None else {}), **plan.pools}
        details = {"license": plan.license, "simulated": False, "source": origin, "pools": pools or None}
        try:
            seal_folder(folder, validate=True, name=title, trusted=True, **details)
        except LogError as error:
            place = _message_with_source_row(error, shards, lambda number: _build_block(source, number, plan, rejudge))
            raise InvalidError(f"what mapping `{plan.file}` makes breaks the log's rules: {place}") from None
        remove_path(folder / _ROWS)
    return _import_report(Path(out), title, source, counts, plan, rejudge)


@dataclass(frozen=True)
class _ImportedBlock:
    """The result for a block of the rows: tables of the log, traces with their source rows, the source row of each row
    of further tables, and counts.
    """

    rows: SourceRows
    tables: dict[str, pl.DataFrame]
    traces: pl.DataFrame
    places: Mapping[str, pl.Series]
    counts: Mapping[str, int]


def _build_block(source: SourceBlocks, number: int, plan: ImportMapping, rejudge: bool) -> _ImportedBlock:
    """Builds the tables of the log from block `number` of the source, which has all rows of its examples."""
    rows = source.block(number)
    examples = make_examples(rows, plan, source.several)
    numbers = pl.int_range(rows.frame.height, eager=True)
    marked = replace(rows, frame=rows.frame.with_columns(numbers.alias(ROW), examples.ids.alias(EXAMPLE)))
    further = {name: further_table_rows(marked, name, tables) for name, tables in plan.rows.items()}
    places = {name: frame["row"] for name, frame in further.items()}
    tables = {"examples": examples.table, **{name: frame.drop("row") for name, frame in further.items()}}
    counts, traces = dict(examples.counts), pl.DataFrame()
    if plan.traces:
        solved = index_traces(marked, plan, [trace_columns(marked, plan, group) for group in range(len(plan.traces))])
        judged = judge_traces(marked, plan, with_answers(solved.frame, plan), examples.table, rejudge)
        traces = judged.frame
        tables |= _log_tables(rows, plan, traces, source.count == 1)
        counts |= {**solved.counts, **judged.counts, "behind_gaps": count_behind_gaps(traces)}
        counts["veiled"] = counts["opaque_answers"] - counts["undecided"]
    counts |= {name: table.height for name, table in tables.items()}
    return _ImportedBlock(
        marked, {name: table for name, table in tables.items() if table.height}, traces, places, counts
    )


def _check_plan(plan: ImportMapping, rejudge: bool) -> None:
    """Raises where a mapping lacks what its way of judging needs, or where `rejudge` has nothing to judge by."""
    for table in plan.traces:
        readable = "answer" in table.columns or (plan.answers.read and "text" in table.columns)
        if not readable and "correct" not in table.columns:
            way = "last number" if plan.answers.kind in ("exact", "number") else "answer is"
            raise RequiredError(
                f"mapping `{plan.file}`: no answer and no verdict: map `traces.answer` or `traces.correct`, or say how"
                f' to read an answer out of `traces.text` with `answers.read = ["{way}"]`'
            )
    if not rejudge:
        return
    if plan.answers.judge == "source":
        raise UnsuitableError(
            f"mapping `{plan.file}`: only the source can judge these answers (`answers.judge`); don't rejudge"
        )
    if not {"gold", "golds"} & set(plan.examples.columns):
        raise RequiredError(f"mapping `{plan.file}`: rejudging needs `examples.gold`")
    if plan.traces and all(has_only_verdicts(table, plan) for table in plan.traces):
        raise UnsuitableError(
            f"mapping `{plan.file}`: the source has verdicts and no answers, so nothing can be rejudged"
        )


def _message_with_source_row(
    error: LogError, shards: Mapping[str, tuple[int, int]], build: Callable[[int], _ImportedBlock]
) -> str:
    """A log error's message, with the source row of the faulty row. `shards`: the block of the source and that of
    the table of each shard.
    """
    fault = error.problem
    if fault is None or fault.row is None or fault.file not in shards:
        return str(error)
    number, block = shards[fault.file]
    table, source_block = fault.file.partition("/")[0], build(number)
    blocks = sorted_blocks(source_block.tables[table].with_row_index("__row"), table, ROWS_PER_SHARD)
    rows = next(rows for place, rows in enumerate(blocks) if place == block)
    at = int(rows["__row"][fault.row])
    key = "example_id" if table == "examples" else "trace_id"
    if table in source_block.places:
        row = source_block.places[table][at]
    elif source_block.traces.width:
        row = source_block.traces.filter(pl.col(key) == source_block.tables[table][at, key])["row"].min()
    else:
        row = source_block.rows.frame.filter(pl.col(EXAMPLE) == source_block.tables[table][at, key])[ROW].min()
    place = source_block.rows.row_place(int(row)) if isinstance(row, int) else "in the source"
    return f"`{table}.{fault.column}` {place}: {fault.message}"


def _log_tables(rows: SourceRows, plan: ImportMapping, frame: pl.DataFrame, alone: bool) -> dict[str, pl.DataFrame]:
    """The log's traces, and what hangs on them: verifications or features without rows are left out. `alone`: no other
    rows come.
    """
    working = [name for name in WORKING if name in frame.columns]
    contract = schema_of("traces")
    tables = {"traces": frame.drop(working).rename(lambda name: name.removeprefix(EXTRA))}
    drop = [
        name for name in tables["traces"].columns
        if name in contract and contract[name].nullable and tables["traces"][name].null_count() == frame.height
    ]  # fmt: skip
    marks = settable_marks(plan)
    drop += [name for name in ("opaque", "contested") if not frame[name].any() and (alone or name not in marks)]
    tables["traces"] = tables["traces"].drop(drop)
    parts: dict[str, list[pl.DataFrame]] = {"verifications": [], "features": []}
    for group, table in enumerate(plan.traces):
        traces = frame.filter(pl.col("group") == group)
        joined = replace(rows, frame=rows.frame[traces["row"]])
        parts["verifications"].append(verifier_rows(joined, table, traces))
        parts["features"].append(feature_rows(joined, table, traces))
    for name, frames in parts.items():
        filled = [part for part in frames if part.height]
        if filled:
            tables[name] = pl.concat(filled, how="diagonal_relaxed")
    return tables


def _sentence_for_count(words: str, count: int) -> str:
    """The sentence with the right word of each `[one|many]` for this count."""
    return re.sub(r"\[([^|\]]*)\|([^\]]*)\]", r"\1" if count == 1 else r"\2", words)


def _import_report(
    out: Path, title: str, source: SourceBlocks, counts: Counter[str], plan: ImportMapping, rejudge: bool
) -> ImportReport:
    every = not counts["repeats_single"] and counts["repeats_ordered"] > 2
    # Short answers of a few samples have equal halves by chance: of four fair coins in an eighth of the questions.
    clear = counts["repeats_unlike_runs"] >= max(2, counts["repeats_even_runs"] / 2)
    repeated = (counts["repeats_unlike"] if clear or every else 0) + (counts["repeats_alike"] if every else 0)
    totals = {**counts, "repeated": repeated, "rows_read": source.read, "rows_used": source.used}
    numbers = {code: totals.get(code, 0) for code in _NOTES}
    if is_constant(plan.examples.columns["example_id"]):
        del numbers["ids_split"]  # ids are meant to be the questions' hashes
    gold = " or golds" if plan.ids == "gold" else ""
    notes: list[str] = [
        remark(
            code, _sentence_for_count(_NOTES[code], count).format(n=f"{count:,}", how=plan.answers.conflicts, gold=gold)
        )
        for code, count in numbers.items()
        if count
    ]
    notes += list_place_notes(plan)
    if source.left_out:
        does = "does" if source.left_out == 1 else "do"
        text = f"{counted(source.left_out, 'file')} {does} not fit the mapping's `path`: left out"
        notes.append(remark("files_left_out", text))
    if rejudge or counts["judgements_changed"]:
        why = "`--rejudge` compares again" if rejudge else "the log's rules require it"
        text = f"{counts['judgements_changed']:,} of the source's verdicts changed: {why}"
        notes.append(remark("judgements_changed", text))
    return ImportReport(
        log=out,
        name=title,
        **{field.name: totals.get(field.name, 0) for field in fields(ImportReport) if field.type == "int"},
        readings=check_readings(out, plan, counts["reread"]),
        notes=tuple(notes),
    )
