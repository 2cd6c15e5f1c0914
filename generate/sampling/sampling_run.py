"""Running a recipe into a log: on one queue of calls, resumable at any moment.

Some examples are open at one time, and each call is asked as soon as what it reads is there (example_loops.py); each
answered call goes to the journal at once (generate.journal). When examples are through all steps their rows are made of
the journal and appended as shards, in the order of the recipe's data, and when all are there the log is sealed. So
memory holds what is open alone, and a run that is killed and started again reads the journal, asks what is missing, and
makes the same rows.

What ends a run early: an engine that can't work at all (EngineError), `PATIENCE` failures in a row that another
attempt may cure, as many equal refusals before a pool has its first answer, a full disk, an interruption. Progress is
saved and the same command goes on. A call whose own prompt is at fault is recorded and not asked again; the log is
sealed without its traces, and names it. So it is with what fails for the moment where failures are given up.
"""

from __future__ import annotations

import itertools
import shutil
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines.base import FAILED, Call, CallFailure, Completion, Engine, EngineError, Outcome
from generate.engines.several import SeveralEngines
from generate.journal.database import BEGUN, FOLDER, Journal, differing_key_text
from generate.journal.events import Answered, Event, Requested
from generate.journal.progress import ProgressFile, failed_calls
from generate.journal.queue import BESIDE, JournalQueue, Settled, tokens_of
from generate.loops.requests import Row, Trace
from generate.passes.embedding import Embedder
from generate.recipes.recipe import LoopStep, Recipe
from generate.sampling import samples
from generate.sampling.context import EVIDENCE, AttemptTexts, Context, PreparedExample
from generate.sampling.example_loops import ROWS, Arrival, ExampleLoops, OpenExample
from generate.sampling.loop_rows import (
    answer_text_of,
    further_table_rows,
    loop_columns,
    pool_settings,
    trace_row_of,
    verifications_of,
)
from generate.sampling.run_record import EMBEDDING, MODELS, ModelsSeen, engine_key, source_of_run
from generate.sampling.samples import JudgingCounts, trace_id
from generate.sampling.sampling_plan import SamplingPlan, contract_columns, plan_from_journal
from generate.sampling.services import Services
from generate.sampling.steps import answer_text, attempt_of_row, logged_attempt
from toolkit.errors import ExistsError, IncompleteError, ThinkbackError, argument
from toolkit.log import LEFT_OUT, Log, LogError, LogWriter, collect, open_log
from toolkit.log.contract.manifest import PER_REQUEST, PROMPT_BILLED
from toolkit.progress import Advance, no_progress


def _check_out(identity: Mapping[str, Any], out: Path) -> None:
    """ThinkbackError where `out` holds a complete log, of this recipe or of another, or something else."""
    if (out / "manifest.json").exists():
        log = open_log(out)
        source = log.manifest.source if log.manifest is not None else None
        before = source.get("settings") if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(before, Mapping):
            raise ExistsError(f"`{out}` is a log that no recipe made: name another `out`")
        _check_same_settings(identity, before, out)
        shutil.rmtree(out / FOLDER, ignore_errors=True)  # of a run that was interrupted once its log was sealed
        failed = len(source.get("failures") or ())
        calls = f"{failed:,} call{'s' if failed > 1 else ''} failed permanently (`source.failures` of its manifest)"
        raise ExistsError(
            f"`{out}` is complete (shard {before['shard']}: {log.rows('examples'):,} examples,"
            f" {log.rows('traces'):,} traces): nothing is left to generate"
            + (f"; {calls}: to ask them again, name another `out`" if failed else "")
        )
    if out.is_dir() and not (out / FOLDER).exists() and any(out.iterdir()):
        raise ExistsError(f"`{out}` holds something that no recipe made: name another `out`")


def _check_or_begin_journal(identity: Mapping[str, Any], journal: Journal, origin: Mapping[str, Any]) -> None:
    """ThinkbackError where the journal holds answers under other settings; else it is begun with these."""
    if next(journal.events(Answered), None) is not None:
        before = journal.stored_mapping(BEGUN)
        tables = {"", *map(_table_name_of, before)}  # nothing was asked by a table that was not there
        _check_same_settings({k: v for k, v in identity.items() if _table_name_of(k) in tables}, before, journal.out)
    journal.append((), {BEGUN: identity, ORIGIN: origin})


def _table_name_of(key: str) -> str:
    """The name of the table (`engines.NAME`) that a setting of an engine, score or search stands in; else empty."""
    table, _, rest = key.partition(".")
    return f"{table}.{rest.partition('.')[0]}" if table in ("engines", "score", "search") else ""


def _check_same_settings(now: Mapping[str, Any], before: Mapping[str, Any], out: Path) -> None:
    differs = differing_key_text(before, now)
    if differs is not None:
        raise ExistsError(f"`{out}` holds a log of other settings: {differs}; name another `out`")


ORIGIN = "made_of"
"""The journal's name for the recipe of a run, and the shard."""
MOST_EXAMPLES, MOST_TRACES, MOST_TOKENS = 256, 4_096, 2**24
"""Of a shard as it is written: so many examples, or traces where these are many, or tokens at most where traces may be
long, since their rows are in memory, and no answer is taken while they are made."""
PREPARED = 32
"""Examples that are prepared together, since an encoder likes batches."""
LEAST_OPEN = 256
LOOK_S = 0.002
"""Seconds between two looks at a server, while threads work."""
NOTED_S = 1.0
"""Seconds between two records of what a server says of itself."""


@dataclass(frozen=True)
class Generated:
    """The result of a run: the sealed log, failed calls with their reasons, how answers were judged, unless by
    comparing strings, and what was counted of the examples on the way.
    """

    log: Log
    failures: tuple[tuple[str, str], ...]
    judging: JudgingCounts | None = None
    notes: tuple[str, ...] = ()


def generate(
    plan: SamplingPlan,
    out: Path,
    open_engine: Callable[[Recipe], Engine] | None = None,
    *,
    embedder: Embedder | None = None,
    block: int | None = None,
    started: Callable[[int], Advance] | None = None,
    with_failures: bool = False,
    allow_keys: Collection[str] = (),
) -> Generated:
    """Run a plan into the log `out`, or go on with it; the engine, by default the recipe's, is opened when the first
    call is due.

    `block` is how many examples are written together, by default 64, or as many as have 1,024 traces; the rows do not
    depend on it. `started` is told how many traces the journal held already, and gives a function to count more with.
    `with_failures` seals the log without the calls that fail now, whatever the reason: no later run asks them again.
    `allow_keys`: variables of the environment whose key may go to whatever server the recipe names.
    ThinkbackError when the log in `out` is complete or of another recipe, and for all that ends a run early.
    """
    _check_out(plan.identity, out)
    options = {"embedder": embedder, "block": block, "started": started, "with_failures": with_failures}
    return run_plan(plan, out, lambda run: run.seal(), open_engine, allow_keys=allow_keys, **options)  # type: ignore[arg-type]


def run_plan(
    plan: SamplingPlan,
    out: Path,
    finish: Callable[[SamplingRun], Generated],
    open_engine: Callable[[Recipe], Engine] | None = None,
    *,
    embedder: Embedder | None = None,
    block: int | None = None,
    started: Callable[[int], Advance] | None = None,
    with_failures: bool = False,
    allow_keys: Collection[str] = (),
) -> Generated:
    """Ask what a plan has left to ask, in the folder `out`; `finish` makes the result of it. The other arguments are
    those of `generate`.
    """
    context = Context(plan.recipe, plan.examples, plan.pool, embedder)
    writer = LogWriter(out)
    with Journal(writer.path) as journal:
        _check_or_begin_journal(plan.identity, journal, plan.origin)
        opens = open_engine or (lambda one: one.engine.opened(one, allow_keys))
        run = SamplingRun(
            plan,
            writer,
            journal,
            context,
            opens,
            ModelsSeen(journal),
            block or examples_per_shard(plan.recipe),
            with_failures,
        )
        try:
            run.read_journal()
            run.advance = run.progress_counter(started(run.samples) if started is not None else no_progress)
            run.run_examples()
            if with_failures:
                run.take_answers(run.queue.make_failures_final())
                run.run_examples()
            return finish(run)
        except (EngineError, LogError) as error:
            raise run.error_with_progress(error) from None
        finally:
            run.close()


def examples_per_shard(recipe: Recipe) -> int:
    """The number of examples that are written together."""
    traces = sum(step.samples for step in recipe.steps)
    traces += sum(getattr(step.loop, "most_traces", 1) for step in recipe.loop)
    tokens = sum(step.samples * step.max_tokens for step in recipe.steps)
    tokens += sum(step.most_requests * int(getattr(step.loop, "max_tokens", 0)) for step in recipe.loop)
    return max(1, min(MOST_EXAMPLES, MOST_TRACES // max(1, traces), MOST_TOKENS // max(1, tokens)))


_LoopRows = Mapping[str, Mapping[str, Sequence[Trace | Row]]]
"""Example -> pool -> the rows that a loop gave."""


@dataclass
class SamplingRun:
    """A run of a plan: what is on its way, what is answered, and the rows made of it."""

    plan: SamplingPlan
    writer: LogWriter
    journal: Journal
    context: Context
    open_engine: Callable[[Recipe], Engine]
    models: ModelsSeen
    block: int
    forgiving: bool = False
    advance: Advance = no_progress
    engines: dict[str, Engine] = field(default_factory=dict)
    samples: int = 0
    """Samples that are answered, without finalizers."""
    failed: dict[tuple[str, str, int], tuple[str, str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    """Examples with an answer of an earlier run."""
    written: dict[str, set[str]] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    opened: dict[str, OpenExample] = field(default_factory=dict)
    stuck: set[str] = field(default_factory=set)
    """Open examples of which nothing is on its way, since calls failed that another run may cure."""
    unwritten: dict[str, PreparedExample] = field(default_factory=dict)
    """The examples that are not written yet."""
    services_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """Seconds of searches and scores, by pool and kind."""
    noted_at: float = 0.0

    def __post_init__(self) -> None:
        currency = self.plan.recipe.engine.options.cost_currency
        self.progress = ProgressFile(self.writer.path, self.plan.recipe.name, self.plan.traces, currency)
        self.queue = JournalQueue(self.journal, f"`{self.writer.path}`", self.opened_engine)
        recipe = self.plan.recipe
        self.services = Services(recipe)
        self.loops = ExampleLoops(recipe, self.services, self.store_requests, forgiving=self.forgiving)
        self.looped = frozenset(step.pool for step in recipe.loop)
        self.upcoming = self.prepared_examples()
        self.shards = self.plan.examples.iter_slices(self.block)
        self.shard = next(self.shards, None)

    def read_journal(self) -> None:
        """Read which calls were answered, and the examples that are done: with all their rows, or without any trace."""
        log = self.writer.log()
        for table in self.tables:
            ids = collect(log.scan(table, ["example_id"]))["example_id"].unique() if log.has(table) else ()
            self.written[table] = set(ids)
        for outcome in self.journal.answers_without_text():
            self.count_sample(outcome)
            self.queue.note_earlier_answer(outcome)
            if outcome.completion is not None:
                self.begun.add(outcome.about)
        silent = self.written["examples"] - self.begun
        if not self.looped:  # what a loop gave no row of is not known from the log
            self.finished = self.written["examples"] & (self.written["traces"] | silent)
        self.progress.traces = self.samples
        self.progress.add_tokens(*self.journal.token_totals())
        self.begun |= {about for about, _, _ in self.failed}
        for requested in self.journal.events(Requested):
            self.begun.add(requested.about)
            self.note_service(requested)

    def progress_counter(self, advance: Advance) -> Advance:
        """A function that counts traces for the progress of the run, and for `advance`."""

        def count(done: float = 1, tokens: int = 0) -> None:
            self.progress.traces += int(done)
            advance(done, tokens)
            if self.progress.is_due():
                self.write_progress()

        self.write_progress()
        return count

    def write_progress(self, running: bool = True) -> None:
        """Say how far the run is, and what failed, in a file that others may read."""
        passing = [(failure.reason, failure.cause) for _, failure in self.queue.failed]
        self.progress.write(failed_calls(self.failed.values(), passing), running)

    @property
    def tables(self) -> tuple[str, ...]:
        """The tables that the recipe writes."""
        return ("examples", "traces", "verifications", *ROWS) if self.looped else ("examples", "traces")

    def store_requests(self, events: Sequence[Event]) -> None:
        """Have what loops asked and were answered in the journal."""
        self.journal.append(events)
        for event in events:
            self.queue.recorded += 1
            if isinstance(event, Answered):
                self.count_sample(event)
            elif isinstance(event, Requested):
                self.note_service(event)

    def note_service(self, event: Requested) -> None:
        """Count the seconds of a search or a score."""
        key = event.pool.partition(BESIDE)[0], event.digest.partition(" ")[0]
        if event.reply is not None:
            self.services_s[key] = self.services_s.get(key, 0.0) + event.elapsed_s

    def count_sample(self, event: Answered) -> None:
        """Count an answered sample."""
        self.seconds[event.pool] = self.seconds.get(event.pool, 0.0) + event.elapsed_s
        self.samples += self.counts_samples(event.pool)
        self.progress.add_completion(event.completion)
        if event.completion is None:
            self.failed[event.about, event.pool, event.sample] = event.failure or "", event.cause or FAILED

    def counts_samples(self, pool: str) -> bool:
        """Whether each sample of a pool is counted: a finalizer's is not, nor a loop's, which counts as one."""
        return not pool.endswith(samples.FINALIZER) and pool.partition(BESIDE)[0] not in self.looped

    def run_examples(self) -> None:
        """Take every example through the steps that can be answered."""
        self.open_examples()
        while self.queue.waiting or self.loops.workers.busy:
            if self.queue.waiting and (self.queue.can_complete() or not self.loops.workers.busy):
                self.take_answers(self.queue.completed())
            if self.loops.workers.busy:
                self.ask_after_threads()
            self.open_examples()
        self.write_shards()

    def ask_after_threads(self) -> None:
        """Ask what follows from what threads have done; wait for them where nothing else is on its way."""
        calls, concerned = self.loops.calls_after_threads(LOOK_S if self.queue.waiting else None)
        self.queue.submit_calls(calls)
        self.forget_examples(concerned)

    def prepared_examples(self) -> Iterator[PreparedExample]:
        """The examples that are not done, prepared as they come to be opened."""
        left = self.plan.examples.filter(~pl.col("example_id").is_in(list(self.finished)))
        for rows in left.iter_slices(PREPARED):
            yield from self.context.prepare(rows)
            if self.context.opened is not None:
                self.models.store_record(EMBEDDING, self.context.opened)

    def open_examples(self) -> None:
        """Open examples until as many are on their way as the engine has use for."""
        most = self.plan.recipe.open_example_count(LEAST_OPEN)
        while (room := most - len(self.opened) + len(self.stuck)) > 0:
            ready = list(islice(self.upcoming, min(room, PREPARED)))
            if not ready:
                return
            examples = list(self.with_logged_rows(ready).values())
            self.unwritten |= {one.example_id: one for one in ready}
            by_name = {example.name: example for example in examples}
            self.add_journaled_answers(by_name, [name for name in by_name if name in self.begun])
            self.opened |= by_name
            self.queue.submit_calls(self.loops.first_calls(examples))
            self.forget_examples(examples)

    def with_logged_rows(self, prepared: Sequence[PreparedExample]) -> dict[str, OpenExample]:
        """Examples to be opened, with the rows that their loops read of a log."""
        logged = self.plan.logged_rows([one.example_id for one in prepared])
        return {one.example_id: OpenExample(one, logged=logged.get(one.example_id, {})) for one in prepared}

    def add_journaled_answers(self, examples: Mapping[str, OpenExample], names: Sequence[str]) -> None:
        """Give examples what the journal has of them."""
        for event in self.journal.answers_of(names):
            examples[event.about].known[event.pool, event.sample] = event
        for requested in self.journal.requests_of(names) if self.looped else ():
            examples[requested.about].requested[requested.pool, requested.number] = requested

    def take_answers(self, settled: Sequence[Settled]) -> None:
        """Ask what follows from answers, and write what is done."""
        arrivals: list[Arrival] = []
        concerned = [self.opened[call.about] for call, _ in settled]
        for example, (call, answered) in zip(concerned, settled, strict=True):
            if not answered:
                example.stuck[call.call.key] = len(call.samples)
                continue
            example.stuck.pop(call.call.key, None)
            example.missing -= len(answered)
            for event in answered:
                self.count_sample(event)
            arrivals += [(example, event) for event in answered]
            if not call.pool.endswith(samples.FINALIZER):
                self.advance(len(answered) * self.counts_samples(call.pool), tokens_of(answered))
        self.queue.submit_calls(self.loops.calls_after_answers(arrivals))
        self.forget_examples(concerned)
        if time.monotonic() - self.noted_at > NOTED_S:
            self.noted_at = time.monotonic()
            self.record_engines()

    def forget_examples(self, examples: Sequence[OpenExample]) -> None:
        """Forget the examples that are done; their rows are made of the journal."""
        done = {example.name for example in examples if not example.missing}
        self.stuck.difference_update(one.name for one in examples)
        self.stuck.update(one.name for one in examples if one.missing and one.waits_for_nothing)
        for name in done:
            self.opened.pop(name, None)
        self.finished |= done
        if self.looped and done:
            self.advance(len(done) * len(self.looped))
        if done:
            self.write_shards()

    def write_shards(self) -> None:
        """Append the shards that are whole, in the order of the examples."""
        while self.shard is not None and self.finished.issuperset(self.shard["example_id"]):
            rows, self.shard = self.shard, next(self.shards, None)
            written = [self.written[table] for table in self.tables]
            left = set(rows["example_id"]).difference(written[0].intersection(*written))
            looped = self.loop_rows(left) if self.looped else {}
            for table in self.tables:
                new = rows.filter(~pl.col("example_id").is_in(list(self.written[table])))
                frame = self.rows_of(table, new, looped) if new.height else new
                if frame.height:
                    self.writer.append(table, frame)
                self.written[table].update(new["example_id"])
            for name in rows["example_id"]:
                self.unwritten.pop(name, None)

    def loop_rows(self, names: Collection[str]) -> _LoopRows:
        """The rows that the loops of examples give, once all that they ask for is there: example -> pool -> rows."""
        again = ExampleLoops(self.plan.recipe, self.services, self.store_requests, final=True)
        examples = self.with_logged_rows([self.unwritten[name] for name in names])
        self.add_journaled_answers(examples, sorted(names))
        again.first_calls(list(examples.values()))
        return {name: example.rows for name, example in examples.items()}

    def rows_of(self, table: str, rows: pl.DataFrame, looped: _LoopRows) -> pl.DataFrame:
        """The rows of a table for some examples."""
        if table == "examples":
            return self.example_rows(rows)
        if table == "traces":
            return self.trace_rows(rows, looped)
        listed = self.numbered_loop_rows(rows["example_id"], looped)
        if table == "verifications":
            return verifications_of({trace_id(name, step.pool, i): (name, row) for step, name, i, row in listed
                                     if isinstance(row, Trace)})  # fmt: skip
        return further_table_rows(
            table, ((name, step.pool, row) for step, name, _, row in listed if isinstance(row, Row))
        )

    def numbered_loop_rows(
        self, names: Iterable[str], looped: _LoopRows
    ) -> list[tuple[LoopStep, str, int, Trace | Row]]:
        """The loops' rows of examples, with step, example, and number among the traces."""
        rows_by_step = []
        for step in self.plan.recipe.loop if looped else ():
            for name in names:
                rows = looped[name].get(step.pool, [])
                places = itertools.accumulate((isinstance(row, Trace) for row in rows), initial=0)
                rows_by_step += [(step, name, place, row) for place, row in zip(places, rows, strict=False)]
        return rows_by_step

    def example_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows of examples with what was chosen for their prompts."""
        leave = (EVIDENCE,) if self.plan.recipe.evidence is not None else ()
        listed = [{"example_id": name, **self.unwritten[name].columns} for name in rows["example_id"]]
        more = pl.DataFrame(listed, infer_schema_length=None)
        return contract_columns(rows, leave).join(more, on="example_id", how="left")

    def trace_rows(self, rows: pl.DataFrame, looped: _LoopRows) -> pl.DataFrame:
        """The traces of examples by step, example, sample, numbered without the missing ones; then those of loops."""
        recipe, trace_rows, texts = self.plan.recipe, [], []
        ids = rows["example_id"].to_list()
        events = self.journal.answers_of(ids)
        done = {
            (event.about, event.pool, event.sample): event.completion
            for event in events
            if event.completion is not None
        }
        began: dict[str, float] = {}
        for (name, _, _), completion in done.items():
            if completion.started_at is not None:
                began[name] = min(began.get(name, completion.started_at), completion.started_at)
        logged = self.plan.logged_rows(ids) if recipe.logged_trace_revisions else {}
        for step in recipe.steps:
            model, in_log = self.model_column_value(step.engine), step in recipe.logged_trace_revisions
            for name in ids:
                revised = logged_attempt(logged.get(name, {}), step) if in_log else None
                place = 0
                for index in range(step.samples):
                    attempt = done.get((name, step.pool, index))
                    if attempt is None:
                        continue
                    last = done.get((name, step.pool + samples.FINALIZER, index))
                    row = samples.trace_row(recipe, step, model, name, index, attempt, last, began.get(name), place)
                    trace_rows.append(row)
                    place += 1
                    parent: AttemptTexts | Completion | None = None
                    if revised is not None:
                        parent, row["parent_id"] = attempt_of_row(revised), revised["trace_id"]
                    elif step.joined and step.of is not None:
                        parent = done[name, step.of, step.of_sample]
                    texts.append(
                        answer_text(attempt, parent if step.joined else None) if last is None else answer_text(last)
                    )
        added: dict[str, Trace] = {}
        for loop, name, place, given in self.numbered_loop_rows(ids, looped):
            if isinstance(given, Trace):
                row = trace_row_of(loop, self.model_column_value(loop.engine), name, place, given, began.get(name))
                trace_rows.append(row)
                texts.append(answer_text_of(given))
                added[row["trace_id"]] = given
        if not trace_rows:
            return rows.clear()
        answers = samples.read_normal_answers(texts, recipe.answers)
        for row, answer in zip(trace_rows, answers, strict=True):
            row["answer_read"] = answer
        frame = samples.judged_traces(trace_rows, rows, recipe.answers, self.comparisons_file)
        return frame.join(loop_columns(added), on="trace_id", how="left", maintain_order="left") if added else frame

    @property
    def comparisons_file(self) -> Path:
        """The file of the judge's comparisons."""
        return self.journal.folder / "equivalence.sqlite"

    def opened_engine(self) -> Engine:
        """The engine, or all of the recipe as one, opened when it is first needed."""
        return SeveralEngines(self.open_named_engine) if self.plan.recipe.engines else self.open_named_engine("")

    def open_named_engine(self, name: str) -> Engine:
        """An engine by its name, opened when it is first needed."""
        if name not in self.engines:
            self.engines[name] = self.open_engine(self.plan.recipe.with_engine(name))
            self.models.store_record(engine_key(name), self.engines[name])
        return self.engines[name]

    def record_engines(self) -> None:
        """Keep what the open engines say of themselves."""
        for name, engine in self.engines.items():
            self.models.store_record(engine_key(name), engine)
        for (table, name), service in self.services.opened.items():
            self.models.store_record(f"{table}.{name}", service)

    def model_column_value(self, name: str) -> str:
        """The value of the log's column `model` for an engine, also without opening it again."""
        if engine_key(name) not in self.models.known:
            self.open_named_engine(name)
        return str(self.models.known[engine_key(name)]["model"])

    def seal(self) -> Generated:
        """Write the manifest, when nothing is missing that another run could add."""
        _, details, judging, notes = self.record_of_log()
        self.writer.seal(name=self.plan.recipe.name, **details)
        self.journal.remove()
        return Generated(open_log(self.writer.path), self.failures, judging, notes)

    def record_of_log(self) -> tuple[Log, dict[str, Any], JudgingCounts | None, tuple[str, ...]]:
        """The rows that were written, what their manifest says, how answers were judged, and what was counted of gold.
        ThinkbackError where another run could add to them, or there are none.
        """
        self.queue.check_failures()
        log = self.writer.log()
        if not any(log.has(table) for table in ("traces", *ROWS)):
            if not self.failed:
                raise IncompleteError(f"`{self.writer.path}` has no rows, so it can't be sealed: its loops gave none")
            (example_id, pool, index), (reason, _) = min(self.failed.items())
            raise IncompleteError(
                f"`{self.writer.path}` has no traces, so it can't be sealed: all {len(self.failed):,} calls failed"
                f" permanently, the first is `{example_id}/{pool}/{index}`: {reason}; mend that, and name another `out`"
            )
        plan, recipe = self.plan, self.plan.recipe
        for step in (*recipe.steps, *recipe.loop):
            self.model_column_value(step.engine)  # known, unless an older version began the run, or all calls failed
        self.record_engines()
        left_out = Counter(cause for _, cause in self.failed.values())
        models, judging = self.models.known, samples.judging_counts(log, recipe.answers, self.comparisons_file)
        source = source_of_run(
            recipe, plan.identity, models, self.context, self.seconds, self.services_s, self.failures
        )
        source |= {LEFT_OUT: dict(sorted(left_out.items()))} if left_out else {}
        notes = self.services.gold_notes(plan.examples)
        source |= {"counts": [*plan.notes, *notes], "judging": None if judging is None else asdict(judging)}
        details: dict[str, Any] = {"license": recipe.license, "source": source}
        billed = [one.pool for one in recipe.steps if recipe.engine_of(one.engine).options.prompt_billed_once]
        pools = {pool: {PROMPT_BILLED: PER_REQUEST} for pool in billed}
        pools |= {step.pool: given for step in recipe.loop if (given := pool_settings(step))}
        if pools:
            details["pools"] = pools
        traces = log.scan("traces", ["cost"]) if log.has("traces") else None
        if traces is not None and collect(traces.select(pl.col("cost").is_not_null().any())).item():
            currencies = (one.options.cost_currency for one in (recipe.engine, *recipe.engines.values()))
            details["currency"] = next((currency for currency in currencies if currency is not None), None)
        return log, details, judging, notes

    @property
    def failures(self) -> tuple[tuple[str, str], ...]:
        """The calls that failed for good, with their reasons."""
        return tuple((f"{e}/{p}/{i}", reason) for (e, p, i), (reason, _) in sorted(self.failed.items()))

    def error_with_progress(self, error: ThinkbackError) -> ThinkbackError:
        """The error that ended a run, which says that progress is saved, where there is some, and to run again where
        that can help: not where rows are unfit, but where an engine or the disk failed."""
        if not self.queue.recorded:
            return error
        helps = isinstance(error, EngineError) or isinstance(error.__context__, OSError)
        return error.with_subject("", f"; progress is saved{': run the same command again' if helps else ''}")

    def close(self) -> None:
        """Let go of the engine, which forgets what is on its way."""
        self.queue.cancel()
        self.write_progress(running=False)
        for name, engine in self.engines.items():
            with suppress(ThinkbackError, OSError):  # what ended the run is said already
                self.models.store_record(engine_key(name), engine)
            engine.close()


UNANSWERED = "unanswered"
"""The cause of a failure where no run had an answer."""


def is_unfinished(out: Path) -> bool:
    """Whether a folder is that of a run that goes on with the same command."""
    return (out / FOLDER).is_dir() and not (out / "manifest.json").exists()


def seal_unfinished(out: Path) -> Generated:
    """Seal an unfinished run of a recipe without what was not answered.

    ThinkbackError where it has no traces, or its recipe is gone or says something else now.
    """
    with Journal(out) as journal:
        origin, models = journal.stored_mapping(ORIGIN), journal.stored_mapping(MODELS)
    if not origin or not set(models) - {EMBEDDING}:
        raise IncompleteError(
            f"`{out}` is an unfinished run that {'has no answer yet' if origin else 'does not know its recipe'}: run"
            f" the recipe again, with {argument('with_failures')}"
        )
    plan = plan_from_journal(origin)
    names = {id(engine): name for name, engine in plan.recipe.engines.items()}

    def silent_engine(recipe: Recipe) -> Engine:
        unknown = {"name": recipe.engine.kind, "model": recipe.engine.model}
        return _SilentEngine(models.get(engine_key(names.get(id(recipe.engine), "")), unknown))

    return generate(plan, out, silent_engine, with_failures=True)


class _SilentEngine:
    """An engine that answers no call, with the record of the run's engine, for sealing an unfinished run."""

    def __init__(self, known: Mapping[str, Any]):
        self.name, self.model, self.known = str(known["name"]), str(known["model"]), known

    def describe(self) -> dict[str, object]:
        """The record from the journal."""
        return dict(self.known)

    def run(self, calls: Sequence[Call]) -> Iterator[tuple[Call, Outcome]]:
        """No call has an answer."""
        for call in calls:
            yield call, CallFailure("no run had an answer", retryable=False, cause=UNANSWERED)

    def close(self) -> None:
        """Does nothing, as nothing is held."""
