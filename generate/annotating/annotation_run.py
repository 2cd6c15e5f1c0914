"""Adding to a log: step by step and block by block, resumable at any moment, and sealed again at the end.

What is made lies in `LOG/.adding/SHARD/STEP/` until everything is there: a block's rows as a shard of their own, the
answered calls of judges in a journal, whose lock one run at a time holds. Readers of the log see nothing of it. Then
the rows that the log lacks are put beside those that stand, the log's new manifest takes the place of the old, and the
folders of these steps go. A run that is killed and started again does what is missing. Work that was begun with other
settings of a step, or for other steps, is neither used nor touched.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import polars as pl

from generate.annotating.annotation_plan import AddPlan, Todo, standing_rows
from generate.annotating.records import Record, check_marks, differing, key_of, marks_of, recorded, with_records
from generate.annotating.texts import with_texts
from generate.engines.base import Engine
from generate.journal.store import Entry, Journal
from generate.passes.embedding import Embedder
from generate.signals.additions import Addition, Additions, Asked, Classifier, Features, LogProb, Random, States
from generate.signals.signal import Advance, Made, Unreadable, Worker
from generate.traces.block import LOGGED, READ, Block, blocks
from toolkit.errors import ThinkbackError
from toolkit.log import ADDING, Log, LogWriter, collect, extend_log, open_log

OpenEngine = Callable[[Additions], Engine]
SECONDS, UNREADABLE, INCOMPLETE = "seconds", "unreadable", "incomplete"
LARGEST = 65_536
"""Traces that a block reads at most, whatever a step takes at once."""
LATE = "the choice in its group was made before it was there"
FEW = 10
"""So many unreadable judgements, where there is no readable one, say that something is wrong; fewer may be chance."""


@dataclass(frozen=True)
class Added:
    """What came of a run: the log, sealed again, and for each step its name and what there is to say of it."""

    log: Log
    steps: tuple[tuple[Addition, Record], ...]


def add(
    plan: AddPlan,
    open_engine: OpenEngine,
    *,
    embedder: Embedder | None = None,
    started: Callable[[int], Advance] | None = None,
) -> Added:
    """Run a plan, or go on with it; engines and models are opened when they are first due.

    `started` is told how many traces were done before, and gives a function to count more with. ThinkbackError for all
    that ends a run early: the log is as it was then, and the same command goes on.
    """
    todo = [one for one in plan.todo if one.traces.height]
    if not todo:
        return Added(plan.log, ())
    made: list[tuple[Addition, Record, Mapping[str, Any]]] = []
    tables: dict[str, list[pl.LazyFrame]] = {}
    with contextlib.ExitStack() as held:
        steps = [_Step(plan, one, held) for one in todo]
        advance = started(sum(step.done() for step in steps)) if started is not None else _ignore
        for step in steps:
            described = step.run(open_engine, embedder, advance)
            made.append((step.todo.step, step.record, described))
            for table, rows in step.rows():
                tables.setdefault(table, []).append(rows)
        extend_log(plan.path, {t: _together(t, frames) for t, frames in tables.items()}, _source(plan.additions, made))
        for step in steps:
            step.remove()
    return Added(open_log(plan.path), tuple((step, record) for step, record, _ in made))


class _Step:
    """One step of a run: what was made before, and the making of the rest."""

    def __init__(self, plan: AddPlan, todo: Todo, held: contextlib.ExitStack):
        self.plan, self.todo, self.key = plan, todo, key_of(todo.step, plan.additions)
        self.journal = journal = held.enter_context(Journal(plan.path / ADDING / plan.shard / self.key))
        self.writer = LogWriter(journal.out)
        held.callback(self.remove_unused)
        self.record = Record(todo.traces["trace_id"])
        self.answered: list[Entry] = []
        self.others: set[str] = set()
        for entry in journal.entries():
            self._recall(entry)

    @cached_property
    def due(self) -> frozenset[str]:
        """The traces that this run is for; looked up only where a run before left something."""
        return frozenset(self.todo.traces["trace_id"])

    def _recall(self, entry: Entry) -> None:
        """Note an entry of the journal of before; of traces that this run is not for only that they are there."""
        what = entry.pool.partition("/")[2]
        if what == SECONDS:
            self.record.seconds += entry.elapsed_s
            self.record.unreadable_tokens += sum(entry.indices)
        elif what == UNREADABLE:
            self.record.unreadable_count += sum(entry.indices) if entry.example_id in self.due else 0
            self._note(entry.example_id, self.record.unreadable)
        elif what == INCOMPLETE:
            self.record.incomplete |= {entry.example_id: entry.failure or ""} if entry.example_id in self.due else {}
        elif what:
            self.answered.append(entry)
        elif entry.failure is not None:
            self._note((entry.example_id, entry.failure), self.record.skipped)

    def _note(self, what: Any, noted: list[Any]) -> None:
        trace = what if isinstance(what, str) else what[0]
        if trace in self.due:
            noted.append(what)
        else:
            self.others.add(trace)

    def there(self) -> pl.Series:
        """The traces that are done: with rows, or without any for ever."""
        log = self.writer.log()
        ids = [collect(log.scan(table, ["trace_id"]).unique(), log)["trace_id"] for table in log.shards]
        settled = [trace for trace, _ in self.record.skipped] + self.record.unreadable
        return pl.concat([*ids, pl.Series("trace_id", settled, dtype=pl.String)]).unique()

    def done(self) -> int:
        """How many traces were done before."""
        return self.todo.traces.filter(pl.col("trace_id").is_in(self.there().implode())).height

    def run(self, open_engine: OpenEngine, embedder: Embedder | None, advance: Advance) -> Mapping[str, Any]:
        """Make what is missing, block by block; what the manifest is to say of the model and its settings."""
        # an interruption between two appends of one block leaves skips noted whose rows are missing, never rows twice
        worker = make_worker(self.todo.step, self.plan, self.todo, self.key, self.journal, open_engine, embedder)
        with contextlib.closing(worker), self._forgetting():
            for entry in self.answered:
                worker.recall(entry)  # type: ignore[attr-defined]
            described = self.known(worker.describe())
            late = sorted(self.todo.late - set(self.there())) if self.todo.late else []
            if late:
                advance(len(late))
                self.keep(Made(pl.DataFrame(), tuple((trace, LATE) for trace in late)), 0.0)
            left = self.todo.traces.filter(~pl.col("trace_id").is_in(self.there().implode()))
            logged = isinstance(self.todo.step, LogProb) and self.todo.step.model is None
            began = time.monotonic()
            for whole in blocks(self.plan.log, left, min(worker.per_block, LARGEST), LOGGED if logged else READ):
                self.keep(self.made_of(whole, worker, advance), time.monotonic() - began)
                began = time.monotonic()
            self.check(worker)
            return worker.describe() if isinstance(self.todo.step, Asked) else described  # of servers more is known now

    def made_of(self, whole: Block, worker: Worker, advance: Advance) -> Made:
        """What a worker makes of a block; each wanted trace is counted once, whether it gets a row or not."""
        counted = 0.0

        def count(traces: float) -> None:
            nonlocal counted
            counted += traces
            advance(traces)

        block, silent = with_texts(self.todo.step, whole)
        made = worker.run(block, count)
        advance(len(whole.wanted) - counted)
        return replace(made, skipped=(*silent, *made.skipped))

    def known(self, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a worker says of itself. ThinkbackError where it is not the one that made what stands or was begun."""
        step, log, marks = self.todo.step, self.plan.log, marks_of(described)
        additions, source = self.plan.additions, log.manifest.source if log.manifest else None
        check_marks(recorded(source, step, additions), step, additions, marks)
        begun = self.journal.begun()
        name = differing(begun, marks)
        if name is not None:
            raise ThinkbackError(
                f"`{step.name}` was begun with another model or prompt (`{name}`): put that one back, or remove"
                f" `{self.journal.out}`"
            )
        self.journal.begin({**begun, **marks})
        return described

    def keep(self, made: Made, seconds: float) -> None:
        """A block's rows, and what is to be remembered of it; the rows last, for they say that the block is done."""
        for trace, reason in made.skipped:
            self.journal.append(Entry(trace, self.key, (0,), (), reason, 0.0))
        for trace, reason in made.incomplete:
            self.journal.append(Entry(trace, f"{self.key}/{INCOMPLETE}", (0,), (), reason, 0.0))
        for traces in made.unreadable:
            for number, trace in enumerate(traces):  # the judgement is counted with its first trace
                counted = (int(number == 0),)
                self.journal.append(Entry(trace, f"{self.key}/{UNREADABLE}", counted, (), "unreadable", 0.0))
        self.journal.append(Entry("", f"{self.key}/{SECONDS}", (made.tokens,), (), None, seconds))
        self.journal.sync()
        self.record.skipped += made.skipped
        self.record.incomplete |= dict(made.incomplete)
        self.record.unreadable += [trace for traces in made.unreadable for trace in traces]
        self.record.unreadable_count += len(made.unreadable)
        self.record.unreadable_tokens += made.tokens
        self.record.seconds += seconds
        if made.rows.height:
            self.writer.append(self.todo.step.table, made.rows)

    def check(self, worker: Worker) -> None:
        """Unreadable where a verifier was asked and nothing that it said, now or before, can be read."""
        self.record.rows = sum(collect(rows.select(pl.len())).item() for _, rows in self.rows())
        if self.record.unreadable_count >= FEW and not self.record.rows and not self.todo.standing:
            worker.unread = self.record.unreadable_count  # type: ignore[attr-defined]
            raise worker.hopeless()  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def _forgetting(self) -> Iterator[None]:
        """A verifier that was given up is asked anew by the next run: what it said is not kept."""
        try:
            yield
        except Unreadable:
            shutil.rmtree(self.journal.out, ignore_errors=True)
            self._remove_empty()
            raise

    def rows(self) -> Iterator[tuple[str, pl.LazyFrame]]:
        """What was made and the log lacks, by table."""
        log, due = self.writer.log(), self.todo.traces.select("trace_id").lazy()
        for table in log.shards:
            yield table, log.scan(table, list(log.columns(table))).join(due, on="trace_id", how="semi")

    def remove(self) -> None:
        """The work is in the log: its folder goes, unless it holds some of another run, over more or other traces."""
        known = set(self.others)
        if not isinstance(self.todo.step, Asked) or self.todo.step.kind != "listwise":
            known |= {entry.example_id for entry in self.answered}
        ids = pl.concat([self.there(), pl.Series("trace_id", list(known), dtype=pl.String)]).to_frame()
        left = ids.join(self.todo.traces, on="trace_id", how="anti")
        standing = standing_rows(self.todo.step, self.plan.log) if left.height else None
        left = left if standing is None else left.join(standing, on="trace_id", how="anti")
        if not frozenset(left["trace_id"]) - self.todo.settled:
            shutil.rmtree(self.journal.out, ignore_errors=True)
            self._remove_empty()

    def remove_unused(self) -> None:
        """Where nothing was made, nothing is left."""
        if self.journal.out.is_dir() and not self.journal.size() and not self.writer.log().shards:
            shutil.rmtree(self.journal.out, ignore_errors=True)
            self._remove_empty()

    def _remove_empty(self) -> None:
        for folder in (self.journal.out.parent, self.journal.out.parent.parent):
            with contextlib.suppress(OSError):  # another run is at work there
                folder.rmdir()


def make_worker(
    step: Addition,
    plan: AddPlan,
    todo: Todo,
    key: str,
    journal: Journal,
    open_engine: OpenEngine,
    embedder: Embedder | None,
) -> Worker:
    """The worker of a step; its model is loaded here, an engine when it is first asked."""
    additions, log = plan.additions, plan.log
    if isinstance(step, Asked):
        from generate.signals.asked import AskedWorker

        return AskedWorker(step, additions, log, key, journal, lambda: open_engine(additions), read=todo.standing)
    if isinstance(step, Classifier):
        from generate.signals.sequence_classifier import ClassifierWorker

        return ClassifierWorker(step, additions, log)
    if isinstance(step, LogProb):
        from generate.signals.logprob import LoggedWorker, LogProbWorker

        return LoggedWorker(step) if step.model is None else LogProbWorker(step, additions, log, todo.pools)
    if isinstance(step, Random):
        from generate.signals.random_score import RandomWorker

        return RandomWorker(step, additions.seed)
    if isinstance(step, States):
        from generate.signals.hidden_states import StatesWorker

        return StatesWorker(step, additions, log, todo.pools)
    assert isinstance(step, Features)
    from generate.signals.features import FeaturesWorker

    return FeaturesWorker(step, additions, log, embedder)


def _together(table: str, frames: list[pl.LazyFrame]) -> pl.LazyFrame:
    """The rows of several steps for one table; features of one trace in one row."""
    if table != "features":
        return pl.concat(frames)
    joined = frames[0]
    for frame in frames[1:]:
        joined = joined.join(frame, on=["trace_id", "example_id"], how="full", coalesce=True)
    return joined


def _source(
    additions: Additions, made: list[tuple[Addition, Record, Mapping[str, Any]]]
) -> Callable[[Any], dict[str, Any]]:
    return lambda source: with_records(source, additions, made)


def _ignore(_: float) -> None:
    """Counts nothing."""
