"""`import_table`: any JSONL, CSV or Parquet, through a mapping file, into a sealed log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from toolkit.errors import ThinkbackError, listed
from toolkit.files import check_replaceable
from toolkit.imports.examples import ImportedExamples, make_examples
from toolkit.imports.expressions import EXAMPLE, EXTRA, ROW, SourceRows, roots
from toolkit.imports.judgements import JudgedTraces, judge_traces, only_verdicts, with_answers
from toolkit.imports.literals import holds
from toolkit.imports.mapping import ImportMapping, Value, read_mapping
from toolkit.imports.opening import beside, opened_rows
from toolkit.imports.paths import expression, fields_of
from toolkit.imports.readings import Readings, check_readings
from toolkit.imports.records import AROUND, Records
from toolkit.imports.sources import SourceFiles, SourceRules, read_beside, read_sources
from toolkit.imports.traces import Solved, behind_gaps, feature_rows, settle, trace_columns, verifier_rows
from toolkit.log import LogError, schema_of, write_log
from toolkit.log.write.writer import ROWS_PER_SHARD, sorted_blocks

WORKING = ("row", "group", "of_pool", "of_index", "verdict", "ours", "gold", "classed", "blind")


_NOTES = {
    "duplicates": "{n} traces dropped: one of the same example, pool and index came before",
    "numbered": "{n} traces of a taken sample index were given further ones",
    "repeated": "{n} traces are numbered by row order, and the second half of their example's rows repeats the first:"
    " was a run appended twice?",
    "split": "{n} example_ids had different questions: now one id per question, by its hash",
    "gaps": "{n} traces come after a gap in their sample indices (from 0): not replayed",
    "trusted": '{n} example_ids have different questions: the first was kept (`ids = "trust"`)',
    "unread_gold": "{n} examples have a gold in which `answers.read_gold` finds no answer: they have none",
    "nulls": "{n} traces have no readable answer (counted as wrong)",
    "null_right": "{n} of these the source calls right; map `traces.opaque` to keep its verdicts",
    "veiled": "{n} traces have a verdict and no answer: opaque, so no votes and no margins",
    "by_conflict": "{n} traces have answers that the source judged differently: `{how}`",
    "judged_here": "{n} answers graded by comparing with gold, or as an equal answer was",
    "without_gold": "{n} traces have no gold: not rejudged",
    "undecided": "{n} traces have neither answer nor verdict: no trace of their examples is judged",
    "blind_examples": "{n} examples have labels and no gold, by which a verdict could be checked: unjudged; map"
    " `examples.gold`, or `traces.opaque` to keep the source's verdicts and give up votes",
    "open_examples": "{n} examples are unjudged",
}
"""What is said of each count that is not 0: one line for everything that a user might not take for granted."""


@dataclass(frozen=True)
class ImportReport:
    """What an import did. Counts are of rows of the table named, unless the comment names something else."""

    log: Path
    name: str
    rows_read: int  # of the source
    rows_used: int  # after `where` and `explode`
    examples: int
    traces: int
    verifications: int
    features: int
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

    def told(self) -> tuple[str, ...]:
        """What a user is told of the import: the notes, and what was right and wrong."""
        return (*self.notes, *map(str, self.readings.notes()))


@dataclass(frozen=True)
class PreparedSources:
    """Files that were unpacked or rewritten for a mapping, and what of them is told in their place."""

    runs: Mapping[str, str]
    """By address: what tells the folder that a file was in from those of others, the column `source_run`."""
    files: tuple[tuple[str, str], ...]
    """What they were made of: (path, sha256)."""
    folder: str
    """Where a mapping's `join` looks."""


def import_table(
    sources: Sequence[str],
    mapping: str | Path,
    out: str | Path,
    *,
    rejudge: bool = False,
    name: str | None = None,
    settings: Sequence[str] = (),
    prepared: PreparedSources | None = None,
) -> ImportReport:
    """Read `sources` (files, globs, folders) through `mapping` (a TOML file or a shipped map's name) into log `out`.

    The source's own verdicts are kept, unless `rejudge` judges every answer against gold again. `settings`
    (`answers.kind=number`) replace the mapping's. ThinkbackError, and nothing is written, where the mapping or the
    source is wrong, or `out` exists.
    """
    check_replaceable(out, force=False)
    plan = read_mapping(mapping, settings)
    _check_plan(plan, rejudge)
    given = [sources] if isinstance(sources, str | Path) else sources
    rules = _source_rules(plan)
    if prepared is not None:
        rules = replace(rules, runs=prepared.runs)
    source = read_sources([str(one) for one in given], rules)
    if prepared is not None:
        source = replace(source, files=prepared.files, folder=prepared.folder)
    rows = _rows(plan, source)
    examples = make_examples(rows, plan)
    number = pl.int_range(rows.frame.height, eager=True)
    marked = replace(rows, frame=rows.frame.with_columns(number.alias(ROW), examples.ids.alias(EXAMPLE)))
    solved = settle(marked, plan, [trace_columns(marked, plan, group) for group in range(len(plan.traces))])
    if not solved.frame.height:
        raise ThinkbackError(f"mapping `{plan.file}`: no row of the source becomes a trace; see `where`")
    judged = judge_traces(marked, plan, with_answers(solved.frame, plan), examples.table, rejudge)
    tables = _tables(rows, plan, examples, judged.frame)
    title = name or plan.name
    files = [{"file": file, "sha256": digest} for file, digest in source.files]
    told = {"from": plan.source} if plan.source else {}
    origin = {"imported": "table", "mapping": plan.file, "rejudged": rejudge, "files": files, **told}
    try:
        write_log(out, name=title, tables=tables, source=origin, license=plan.license, pools=plan.pools or None)
    except LogError as error:
        place = _place(error, marked, tables, judged.frame)
        raise ThinkbackError(f"what mapping `{plan.file}` makes breaks the log's rules: {place}") from None
    read = (source.table.frame.height, rows.frame.height)
    return _report(Path(out), title, read, tables, examples, solved, judged, plan, rejudge)


def _check_plan(plan: ImportMapping, rejudge: bool) -> None:
    """What a mapping must have for its answers and judgement, and what goes against rejudging."""
    for table in plan.traces:
        readable = "answer" in table.columns or (plan.answers.read and "text" in table.columns)
        if not readable and "correct" not in table.columns:
            raise ThinkbackError(
                f"mapping `{plan.file}`: no answer and no verdict: map `traces.answer` or `traces.correct`, or say how"
                ' to read an answer out of `traces.text` with `answers.read = ["last number"]`'
            )
    if not rejudge:
        return
    if plan.answers.judge == "source":
        raise ThinkbackError(
            f"mapping `{plan.file}`: only the source can judge these answers (`answers.judge`); don't rejudge"
        )
    if "gold" not in plan.examples.columns:
        raise ThinkbackError(f"mapping `{plan.file}`: rejudging needs `examples.gold`")
    if all(only_verdicts(table, plan) for table in plan.traces):
        raise ThinkbackError(
            f"mapping `{plan.file}`: the source has verdicts and no answers, so nothing can be rejudged"
        )


def _source_rules(plan: ImportMapping) -> SourceRules:
    """What the mapping says of reading its files."""
    around = tuple(dict.fromkeys(name for value in _every_value(plan) for name in fields_of(value, AROUND)))
    records = Records(plan.records, around) if plan.records is not None else None
    return SourceRules(_texts(plan), records, plan.path)


def _counted(plan: ImportMapping) -> list[str]:
    """A note on each place in a list that SQL would count from 1, as mappings once did."""
    told = dict.fromkeys(
        use.path.text
        for value in _every_value(plan)
        if isinstance(value, str)
        for use in expression(value).places.values()
        if len(use.path.steps) == 1 and isinstance(use.path.steps[0], int) and use.path.steps[0] > 0
    )
    return [f"`{path}` counts from 0: `{path.rpartition('[')[0]}[0]` is the first" for path in told]


def _every_value(plan: ImportMapping) -> Iterator[Value]:
    """All values of a mapping that may be expressions."""
    yield plan.where or ""
    yield from (one.path for together in plan.explode for one in together)
    yield from (plan.join.on.values() if plan.join is not None else ())
    for table in (plan.examples, *plan.traces):
        yield from (*table.columns.values(), *table.extra.values())
    for traces in plan.traces:
        yield from (traces.where or "", *traces.parent.values(), *traces.features.values())
        yield from (value for verifier in traces.verifiers for value in verifier.values())


def _texts(plan: ImportMapping) -> frozenset[str]:
    """The source's columns of which the mapping makes texts: their numbers are kept as they are written."""
    made = [plan.examples.columns, *(table.columns for table in plan.traces), *(table.parent for table in plan.traces)]
    contract = {**schema_of("verifications"), **schema_of("traces"), **schema_of("examples")}
    found = [value for table in made for name, value in table.items() if holds(contract[name].dtype, pl.String)]
    found += [verifier["verifier"] for table in plan.traces for verifier in table.verifiers]
    names = roots(found)
    return frozenset(names) | {name.removesuffix("_right") for name in names}


def _place(error: LogError, rows: SourceRows, tables: dict[str, pl.DataFrame], traces: pl.DataFrame) -> str:
    """A fault of a row of the log, by the row of the source that it was made of."""
    fault = error.problem
    if fault is None or fault.row is None:
        return str(error)
    table, _, file = fault.file.partition("/")
    blocks = sorted_blocks(tables[table].with_row_index("__made"), table, ROWS_PER_SHARD)
    block = next(block for number, block in enumerate(blocks) if f"{number:05d}" in file)
    made = tables[table][int(block["__made"][fault.row])]
    key = "example_id" if table == "examples" else "trace_id"
    row = traces.filter(pl.col(key) == made[key][0])["row"].min()
    place = rows.place(int(row)) if isinstance(row, int) else "in the source"
    return f"`{table}.{fault.column}` {place}: {fault.message}"


def _rows(plan: ImportMapping, source: SourceFiles) -> SourceRows:
    """The source's rows: joined, opened, filtered."""
    table = source.table
    if not table.frame.height:
        raise ThinkbackError(f"the source holds no rows: {listed([name for name, _ in source.files[:3]])}")
    other = None
    if plan.join is not None:
        other = beside(plan, plan.join, read_beside(plan.join.file, source.folder, _texts(plan)))
    every = opened_rows(plan, table, other)
    rows = every.where("where", plan.where)
    if not rows.frame.height:
        raise ThinkbackError(f"mapping `{plan.file}`: `where` takes none of the {every.frame.height} rows")
    return rows


def _tables(
    rows: SourceRows, plan: ImportMapping, examples: ImportedExamples, frame: pl.DataFrame
) -> dict[str, pl.DataFrame]:
    """The log's tables; a table without rows is left out."""
    working = [name for name in WORKING if name in frame.columns]
    contract = schema_of("traces")
    tables = {"examples": examples.table, "traces": frame.drop(working).rename(lambda name: name.removeprefix(EXTRA))}
    drop = [
        name for name in tables["traces"].columns
        if name in contract and contract[name].nullable and tables["traces"][name].null_count() == frame.height
    ]  # fmt: skip
    drop += [] if frame["opaque"].any() else ["opaque"]
    tables["traces"] = tables["traces"].drop(drop)
    parts: dict[str, list[pl.DataFrame]] = {"verifications": [], "features": []}
    for group, table in enumerate(plan.traces):
        traces = frame.filter(pl.col("group") == group)
        own = replace(rows, frame=rows.frame[traces["row"]])
        parts["verifications"].append(verifier_rows(own, table, traces))
        parts["features"].append(feature_rows(own, table, traces))
    for name, found in parts.items():
        filled = [part for part in found if part.height]
        if filled:
            tables[name] = pl.concat(filled, how="diagonal_relaxed")
    return tables


def _report(
    out: Path,
    title: str,
    read: tuple[int, int],
    tables: dict[str, pl.DataFrame],
    examples: ImportedExamples,
    solved: Solved,
    judged: JudgedTraces,
    plan: ImportMapping,
    rejudge: bool,
) -> ImportReport:
    gaps = behind_gaps(judged.frame)
    counts = {**vars(examples), **vars(solved), **vars(judged), "gaps": gaps}
    counts["veiled"] = judged.opaque - judged.undecided
    told = {words: counts[name] for name, words in _NOTES.items() if counts[name]}
    notes = [words.format(n=f"{count:,}", how=plan.answers.conflicts) for words, count in told.items()]
    notes += _counted(plan)
    if rejudge or judged.changed:
        by = "rejudging" if rejudge else "the log's rules"
        notes.append(f"{judged.changed:,} of the source's judgements changed by {by}")
    heights = {name: tables[name].height if name in tables else 0 for name in ("verifications", "features")}
    return ImportReport(
        log=out,
        name=title,
        rows_read=read[0],
        rows_used=read[1],
        examples=examples.table.height,
        traces=judged.frame.height,
        **heights,
        null_answers=judged.nulls,
        opaque_answers=judged.opaque,
        judgements_changed=judged.changed,
        duplicates_dropped=solved.duplicates,
        duplicates_numbered=solved.numbered,
        ids_split=examples.split,
        unjudged_examples=judged.open_examples,
        behind_gaps=gaps,
        readings=check_readings(out, plan),
        notes=tuple(notes),
    )
