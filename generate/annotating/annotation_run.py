"""Adding to a log: signal by signal and block by block, resumable at any moment, and sealed again at the end.

What is made lies in `LOG/.adding/SHARD/SIGNAL/` until everything is there: a block's rows as a shard of their own, and
in a journal, which one run at a time holds, answered calls and traces without a row. Readers of the log see nothing of
it. Then the rows that the log lacks are put beside its own, the log's new manifest takes the place of the old, and the
folders of these signals go. A run that is killed and started again does what is missing. Work that was begun with other
settings, or for other signals, is neither used nor touched.
"""

from __future__ import annotations

import contextlib
import pickle
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from pathlib import Path
from typing import Any

import polars as pl

from generate.annotating.annotation_plan import AnnotationPlan, SignalPlan
from generate.annotating.records import (
    SignalRecord,
    check_same_model,
    first_difference_text,
    signal_folder_name,
    signal_records,
    source_with_records,
)
from generate.engines.base import Engine
from generate.journal.database import BEGUN, Journal
from generate.journal.events import Answered, BlockDone, Incomplete, Recounted, SignalEvent, Skipped, Unreadable
from generate.passes.embedding import Embedder
from generate.signals.signal import Additions, BlockRows, TraceSignal, UnreadableError, Worker, WorkerInput
from generate.traces.block import TraceBlock, choice_group, read_block, trace_blocks, wanted_by_block
from toolkit.errors import MismatchError, ThinkbackError, UnsuitableError, argument, listed
from toolkit.log import ADDING, Log, LogWriter, collect, extend_log, open_log
from toolkit.progress import Advance, no_progress
from toolkit.workers.chosen import CHOSEN
from toolkit.workers.pool import Part, Pool, results_in_order
from toolkit.workers.travel import pack_job

OpenEngine = Callable[[Additions], Engine]
MAX_BLOCK_TRACES = 65_536
"""Most traces in a block, whatever a signal asks for."""
LATE = "the trace came after the choice in its group was made"
SINGLE = "the trace is alone in its group, so there is nothing to choose among"


@dataclass(frozen=True)
class _AnnotationResult:
    """The result of a run: the sealed log, and the record of each signal."""

    log: Log
    steps: tuple[tuple[TraceSignal, SignalRecord], ...]


def add_signals(
    plan: AnnotationPlan,
    open_engine: OpenEngine | None = None,
    *,
    embedder: Embedder | None = None,
    started: Callable[[int], Advance] | None = None,
    with_failures: bool = False,
    allow_keys: Collection[str] = (),
) -> _AnnotationResult:
    """Carries out a plan, or continues it. Engines, by default the recipe's, and models are opened when first needed.

    `started` is told how many traces were done before, and gives a function to count more with. `with_failures` leaves
    out, for good, traces about which a call fails now, whatever the reason. `allow_keys`: environment variables whose
    key may go to whatever server the recipe names. ThinkbackError for all that ends a run early: the log is unchanged
    then, and the same command goes on.
    """
    opens = open_engine or (lambda steps: steps.engine_settings().opened(steps, allow_keys))
    todo = [one for one in plan.todo if one.traces.height]
    _remove_leftovers(plan)
    if not todo:
        return _AnnotationResult(plan.log, ())
    judges = [one.step.place_in_recipe for one in todo if one.step.needs_engine]
    if judges and CHOSEN.get() is not None:
        raise UnsuitableError(
            f"{listed(judges)} would ask the recipe's engine from every worker at once: add them without"
            f" {argument('workers')}, which is for signals of all other kinds"
        )
    added: list[tuple[TraceSignal, SignalRecord, Mapping[str, Any]]] = []
    tables: dict[str, list[list[pl.LazyFrame]]] = {}
    with contextlib.ExitStack() as held:
        runs = [_SignalRun(plan, one, held, with_failures) for one in todo]
        advance = started(sum(run.finished_count() for run in runs)) if started is not None else no_progress
        for run in runs:
            try:
                described = run.compute_rows(opens, embedder, advance)
            except UnreadableError:  # it is asked anew by the next run: what was said is not kept
                run.remove_folder()
                raise
            added.append((run.step, run.record, described))
            for table, parts in run.new_rows():
                tables.setdefault(table, []).append(parts)
        shared = {step.table for step, *_ in added if step.one_row}
        whole = {name: _join_signals(signals, name in shared) for name, signals in tables.items()}
        extend_log(plan.path, whole, lambda source: source_with_records(source, plan.additions, added))
        for run in runs:
            run.remove_folder_once_added()
    return _AnnotationResult(open_log(plan.path), tuple((step, record) for step, record, _ in added))


class _SignalRun:
    """One signal of a run: the rows of earlier runs, and the work on the missing ones."""

    def __init__(self, plan: AnnotationPlan, todo: SignalPlan, held: contextlib.ExitStack, with_failures: bool):
        self.plan, self.todo, self.step, self.with_failures = plan, todo, todo.step, with_failures
        out = _rows_folder(plan, todo)
        self.journal = held.enter_context(Journal(out))
        self.writer = LogWriter(out)
        held.callback(self.remove_if_empty)
        self.record = SignalRecord(todo.traces["trace_id"])
        self.others: set[str] = set()
        for done in self.journal.events(BlockDone):
            self._record_event(done)
        settled: tuple[type[Skipped | Unreadable], ...] = (Skipped, Unreadable)
        remarked: tuple[type[Incomplete | Recounted], ...] = (Incomplete, Recounted)
        for kind in settled:
            for event in self.journal.events(kind):
                if event.trace_id in self.due_traces:
                    self._record_event(event)
                else:  # of traces that this run is not for, only that they are settled
                    self.others.add(event.trace_id)
        for remarks in remarked:
            for remark in self.journal.events(remarks):
                if remark.trace_id in self.due_traces:
                    self._record_event(remark)

    @cached_property
    def due_traces(self) -> frozenset[str]:
        """The traces that this run works on. They are read only where an earlier run left work."""
        return frozenset(self.todo.traces["trace_id"])

    def _record_event(self, event: SignalEvent) -> None:
        record = self.record
        if isinstance(event, BlockDone):
            record.seconds += event.elapsed_s
            record.lost_tokens += event.lost_tokens
        elif isinstance(event, Skipped):
            record.skipped.append((event.trace_id, event.reason))
            if event.cause is not None:
                record.left_out[event.cause] += 1
        elif isinstance(event, Incomplete):
            record.incomplete[event.trace_id] = event.reason
        elif isinstance(event, Recounted):
            record.recounted[event.trace_id] = event.reason
        else:
            record.unreadable.append(event.trace_id)
            record.unreadable_count += event.first

    def finished_traces(self) -> pl.Series:
        """The traces that are done: with rows, or settled without."""
        log = self.writer.log()
        ids = [collect(log.scan(table, ["trace_id"]).unique(), log)["trace_id"] for table in log.shards]
        settled = [trace for trace, _ in self.record.skipped] + self.record.unreadable
        return pl.concat([*ids, pl.Series("trace_id", settled, dtype=pl.String)]).unique()

    def finished_count(self) -> int:
        """The number of traces that earlier runs finished."""
        return self.todo.traces.filter(pl.col("trace_id").is_in(self.finished_traces().implode())).height

    def compute_rows(self, open_engine: OpenEngine, embedder: Embedder | None, advance: Advance) -> Mapping[str, Any]:
        """Computes the missing rows, block by block; returns the manifest's record of the model and its settings."""
        plan, todo, pool = self.plan, self.todo, CHOSEN.get()
        work = WorkerInput(
            plan.additions, plan.log, todo.pools, todo.existing, self.journal, open_engine, embedder, self.with_failures
        )
        if pool is not None:
            described = self._compute_on_workers(pool, replace(work, journal=None, open_engine=None), advance)
            self.record.rows = self._count_rows()
            return described
        # an interruption between journal and shard leaves skips noted whose block's rows are missing, never rows twice
        with contextlib.closing(self.step.worker(self.step, work)) as worker:
            described = self.checked_record(worker.describe())
            left = self._traces_left(advance)
            began = time.monotonic()
            size = min(worker.per_block, MAX_BLOCK_TRACES)
            blocks = trace_blocks(plan.log, left, size, self.step.trace_columns)
            parts = (_without_skipped(self.step, block) for block in blocks)
            part = next(parts, None)
            while part is not None:
                following = next(parts, None) if worker.looks_ahead else None
                if following is not None:
                    worker.announce_next(following[0])
                self.store_block(_block_rows(*part, worker, advance), time.monotonic() - began)
                part, began = following or next(parts, None), time.monotonic()
            self.record.rows = self._count_rows()
            return worker.final_record(self.record.rows + todo.existing, self.record.unreadable_count) or described

    def _compute_on_workers(self, pool: Pool, work: WorkerInput, advance: Advance) -> Mapping[str, Any]:
        """Computes the missing rows, a block a part, on the workers of a call; returns the record of their model."""
        step, log = self.step, self.plan.log
        left = self._traces_left(advance)
        pool = pool.with_accelerators() if step.models or step.needs_embedding else pool
        job = pack_job(_SignalJob(step, replace(work, log=log.within("", ""))), f"`{step.name}`", log.address)
        described, size = next(results_in_order(pool, job, [Part(f"`{step.name}`", pickle.dumps(None))]))
        self.checked_record(described)
        parts = list[Part]()
        for wanted in wanted_by_block(log, left, min(size, MAX_BLOCK_TRACES)):
            low, high = wanted["example_id"][0], wanted["example_id"][-1]  # they are sorted
            part = log.within(low, high), wanted
            parts.append(Part(f"`{step.name}` of examples `{low}` to `{high}`", pickle.dumps(part)))
        for record, rows, traces, seconds in results_in_order(pool, job, parts):
            if record != described:
                self.checked_record(record)
            self.store_block(rows, seconds)
            advance(traces)
        return dict(described)

    def _traces_left(self, advance: Advance) -> pl.DataFrame:
        """The traces that have no row yet, without those that came too late for one, which are settled."""
        late = sorted(self.todo.late - set(self.finished_traces())) if self.todo.late else []
        if late:
            advance(len(late))
            self.store_block(BlockRows(pl.DataFrame(), tuple((trace, LATE) for trace in late)), 0.0)
        return self.todo.traces.filter(~pl.col("trace_id").is_in(self.finished_traces().implode()))

    def _count_rows(self) -> int:
        return sum(collect(pl.concat(parts).select(pl.len())).item() for _, parts in self.new_rows())

    def checked_record(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns a worker's record. ThinkbackError where earlier rows are of another model or of other settings."""
        step, additions, manifest = self.step, self.plan.additions, self.plan.log.manifest
        check_same_model(
            signal_records(manifest.source if manifest else None, step, additions), step, additions, described
        )
        begun, marks = self.journal.stored_mapping(BEGUN), step.weights_and_prompts(described)
        differs = first_difference_text(begun, marks)
        if differs is not None:
            raise MismatchError(
                f"`{step.name}` was begun with another model or prompt: {differs}; put that one back, or remove"
                f" `{self.journal.out}`"
            )
        self.journal.store_mapping(BEGUN, {**begun, **marks})
        return described

    def store_block(self, rows: BlockRows, seconds: float) -> None:
        """Stores a block's events, then its rows, which mark the block as done."""
        events: list[SignalEvent] = [
            *(Skipped(*one) for one in (*rows.skipped, *rows.refused)),
            *(Incomplete(*pair) for pair in rows.incomplete),
            *(Recounted(*pair) for pair in rows.recounted),
            *(Unreadable(trace, not place) for traces in rows.unreadable for place, trace in enumerate(traces)),
            BlockDone(seconds, rows.lost_tokens),
        ]
        self.journal.append(events)
        self.journal.sync_to_disk()
        for event in events:
            self._record_event(event)
        if rows.rows.height:
            self.writer.append(self.step.table, rows.rows)

    def new_rows(self) -> Iterator[tuple[str, list[pl.LazyFrame]]]:
        """Yields the new rows that the log lacks, by table, block by block."""
        log, due = self.writer.log(), self.todo.traces.select("trace_id").lazy()
        for table in log.shards:
            existing, parts = log.scan(table, ["trace_id"]).unique(), log.scans_by_shard(table)
            others = collect(existing.join(due, on="trace_id", how="anti"), log)["trace_id"]
            yield (
                table,
                [part.filter(~pl.col("trace_id").is_in(others.implode())) if len(others) else part for part in parts],
            )

    def remove_folder_once_added(self) -> None:
        """Removes the signal's folder once its rows are in the log, unless it holds work of another run."""
        known = set(self.others)
        if not self.step.whole_groups:  # what is asked about a group is not called after a trace
            known |= {answered.about for answered in self.journal.events(Answered)}
        ids = pl.concat([self.finished_traces(), pl.Series("trace_id", list(known), dtype=pl.String)]).to_frame()
        left = ids.join(self.todo.traces, on="trace_id", how="anti")
        existing = self.step.traces_with_rows(self.plan.log) if left.height else None
        left = left if existing is None else left.join(existing, on="trace_id", how="anti")
        if not frozenset(left["trace_id"]) - self.todo.settled:
            self.remove_folder()

    def remove_if_empty(self) -> None:
        """Removes the files of a run that made no rows."""
        if self.journal.out.is_dir() and self.journal.has_no_events() and not self.writer.log().shards:
            self.remove_folder()

    def remove_folder(self) -> None:
        """Removes the signal's folder with all its content."""
        shutil.rmtree(self.journal.out, ignore_errors=True)
        for folder in (self.journal.out.parent, self.journal.out.parent.parent):
            with contextlib.suppress(OSError):  # another run is at work there
                folder.rmdir()


def _rows_folder(plan: AnnotationPlan, todo: SignalPlan) -> Path:
    """The folder where a signal's rows lie until they are in the log."""
    return plan.path / ADDING / plan.shard / signal_folder_name(todo.step, plan.additions)


def _remove_leftovers(plan: AnnotationPlan) -> None:
    """Removes the files of a run that was killed after its rows were in the log."""
    for one in plan.todo:
        if not one.traces.height and _rows_folder(plan, one).is_dir():
            with contextlib.suppress(ThinkbackError), contextlib.ExitStack() as held:  # another run is at work there
                _SignalRun(plan, one, held, with_failures=False).remove_folder_once_added()


@dataclass(frozen=True)
class _SignalJob:
    """The job of a signal on workers of a cluster, each of which loads its model once."""

    step: TraceSignal
    work: WorkerInput

    @cached_property
    def worker(self) -> Worker:
        return self.step.worker(self.step, self.work)

    def __call__(self, part: tuple[Log, pl.DataFrame] | None) -> tuple[Any, ...]:
        """The model's record, and without a part the size of a block; else a block's rows, its number of wanted
        traces, and the seconds that they took.
        """
        described = self.worker.describe()
        if part is None:
            return described, self.worker.per_block
        began = time.monotonic()
        block, skipped = _without_skipped(self.step, read_block(*part, self.step.trace_columns))
        rows = _block_rows(block, skipped, self.worker, no_progress)
        return described, rows, len(block.wanted) + len(skipped), time.monotonic() - began


def _without_skipped(step: TraceSignal, block: TraceBlock) -> tuple[TraceBlock, dict[str, str]]:
    """A block without the traces that can have no row, and why each of these is skipped."""
    silent = block.traces_without_text(step.texts_to_read, step.whole_groups)
    rest = replace(block, wanted=block.wanted - silent.keys())
    single = _traces_alone_in_group(rest) if step.whole_groups else {}
    return replace(rest, wanted=rest.wanted - single.keys()), {**silent, **single}


def _block_rows(block: TraceBlock, skipped: Mapping[str, str], worker: Worker, advance: Advance) -> BlockRows:
    """A worker's rows for a block. Each wanted or skipped trace advances the bar once, with or without a row."""
    counted = 0.0

    def count(done: float = 1, tokens: int = 0) -> None:
        nonlocal counted
        counted += done
        advance(done, tokens)

    rows = worker.run(block, count)
    advance(len(block.wanted) + len(skipped) - counted)
    return replace(rows, skipped=(*skipped.items(), *rows.skipped))


def _traces_alone_in_group(block: TraceBlock) -> dict[str, str]:
    """The wanted traces that are alone in their group, and why each is skipped."""
    counts = Counter(map(choice_group, block.wanted_rows))
    return {row["trace_id"]: SINGLE for row in block.wanted_rows if counts[choice_group(row)] == 1}


def _join_signals(signals: list[list[pl.LazyFrame]], one_row: bool) -> pl.LazyFrame | list[pl.LazyFrame]:
    """The rows of several signals for one table, in parts. With `one_row` a trace's values are joined into one row."""
    if not one_row:
        return [part for parts in signals for part in parts]
    key = ["trace_id", "example_id"]
    return reduce(lambda a, b: a.join(b, on=key, how="full", coalesce=True), map(pl.concat, signals))
