"""Running a recipe into a log: block by block, step by step, resumable at any moment.

The examples of a shard are taken in blocks. Each step asks its calls of a whole block, so that an engine has enough to
batch; each answered call goes to the journal at once (journal.py). When a block is through all steps its rows are made
and appended as shards, and when all blocks are there the log is sealed. A run that is killed and started again reads
the journal, asks what is missing, and makes the same rows.

What ends a run early: an engine that can't work at all (EngineError), `PATIENCE` failures in a row that another
attempt may cure, a full disk, an interruption. Work so far is kept and the same command goes on. A call whose own
prompt is at fault is recorded and not asked again; the log is sealed without its traces, and names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines.base import Call, CallFailure, Completion, Engine, EngineError, Outcome, writable
from generate.journal.store import FOLDER, Entry, Journal
from generate.passes.embedding import Embedder
from generate.recipes.recipe import Recipe, Revise, Step
from generate.sampling.context import EVIDENCE, Context, Prepared, finalizer_prompt, prompt_of
from generate.sampling.examples import (
    check_examples,
    contract_columns,
    digest_of,
    load_examples,
    shard_of,
    with_reference,
)
from generate.sampling.fewshot import Pool, make_pool
from generate.sampling.identity import check_same
from generate.sampling.manifest_source import source_of
from generate.sampling.models_seen import EMBEDDING, ENGINE, Models
from generate.sampling.pool_calls import FINALIZER, Asked, ask_finalizer, ask_samples, samples_per_call
from generate.sampling.trace_rows import Judging, judged, judging, read, readable, trace_row
from toolkit.errors import ThinkbackError
from toolkit.log import Log, LogError, LogWriter, collect, open_log

BLOCK = 256
PATIENCE = 20

Advance = Callable[[float], None]


@dataclass(frozen=True)
class Plan:
    """What is to be generated: a recipe, its examples in this shard, and the settings that the log is known by.

    `notes`: what was counted in the data, and in the worked examples of prompts, beside the published counts.
    """

    recipe: Recipe
    examples: pl.DataFrame
    pool: Pool | None
    identity: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def traces(self) -> int:
        """How many traces there will be, failures apart."""
        return self.examples.height * sum(step.samples for step in self.recipe.steps)


@dataclass(frozen=True)
class Generated:
    """What came of a run: the sealed log, the calls that could not be answered, with the reason of each, and how
    answers were judged, where that took more than comparing strings."""

    log: Log
    failures: tuple[tuple[str, str], ...]
    judging: Judging | None = None


def make_plan(recipe: Recipe, shard: tuple[int, int] = (1, 1), limit: int | None = None) -> Plan:
    """Load the examples, the first `limit` of them, and of these the shard (i, n), counted from 1."""
    number, count = shard
    if not 1 <= number <= count:
        raise ThinkbackError(f"`--shard {number}/{count}`: the first number must be between 1 and {count}")
    if limit is not None and limit < 1:
        raise ThinkbackError(f"`--limit` must be at least 1, not {limit}")
    rows, notes = load_examples(recipe.data, recipe.find)
    rows = with_reference(rows, recipe.answers)
    check_examples(rows, recipe.data)
    identity = dict(recipe.identity())
    pool = None
    if recipe.few_shot is not None:
        worked, more = load_examples(recipe.few_shot.data(recipe.data), recipe.find)
        notes += tuple(f"few-shot pool: {note}" for note in more)
        pool = make_pool(worked, rows, recipe.few_shot, recipe.prompts[recipe.few_shot.prompt])
        identity["few_shot.sha256"] = digest_of(worked)
    rows = rows if limit is None else rows.head(limit)
    identity |= {"data.examples": rows.height, "data.sha256": digest_of(rows), "shard": f"{number}/{count}"}
    mine = shard_of(rows, shard)
    if not mine.height:
        raise ThinkbackError(f"`--shard {number}/{count}` has no examples: there are {rows.height}")
    return Plan(recipe, mine, pool, identity, notes)


def generate(
    plan: Plan,
    out: Path,
    open_engine: Callable[[Recipe], Engine],
    *,
    embedder: Embedder | None = None,
    block: int = BLOCK,
    started: Callable[[int], Advance] | None = None,
) -> Generated:
    """Run a plan into the log `out`, or go on with it; the engine is opened when the first call is due.

    `block` is how many examples go through the steps together; the rows do not depend on it. `started` is told how
    many traces the journal held already, and gives a function to count more with.
    ThinkbackError when the log in `out` is whole already or of another recipe, and for all that ends a run early.
    """
    check_same(plan.identity, out)
    context = Context(plan.recipe, plan.examples, plan.pool, embedder)
    writer = LogWriter(out)
    with Journal(writer.path) as journal:
        journal.begin(plan.identity)
        run = _Run(plan, writer, journal, context, open_engine, Models(journal))
        try:
            run.recall()
            run.advance = started(run.known()) if started is not None else _ignore
            for rows in plan.examples.iter_slices(block):
                run.block(rows)
            return run.seal()
        except (EngineError, LogError) as error:
            raise run.kept(error) from None
        finally:
            run.close()


def _ignore(_: float) -> None:
    """Counts nothing."""


@dataclass
class _Run:
    plan: Plan
    writer: LogWriter
    journal: Journal
    context: Context
    open_engine: Callable[[Recipe], Engine]
    models: Models
    advance: Advance = _ignore
    engine: Engine | None = None
    done: dict[tuple[str, str, int], Completion] = field(default_factory=dict)
    failed: dict[tuple[str, str, int], str] = field(default_factory=dict)
    transient: list[tuple[str, str]] = field(default_factory=list)
    in_a_row: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    written: dict[str, frozenset[str]] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()

    def recall(self) -> None:
        """What was answered before, and which examples have their rows: all tables', or no traces for ever."""
        log = self.writer.log()
        for table in ("examples", "traces"):
            ids = collect(log.scan(table, ["example_id"]))["example_id"].unique() if log.has(table) else ()
            self.written[table] = frozenset(ids)
        for entry in self.journal.entries():
            self.keep(entry)
        begun = {example_id for example_id, _, _ in self.done}
        self.finished = self.written["examples"] & (self.written["traces"] | (self.written["examples"] - begun))

    def keep(self, entry: Entry) -> None:
        """Note an answered call. Completions whose rows are written need not be held."""
        self.seconds[entry.pool] = self.seconds.get(entry.pool, 0.0) + entry.elapsed_s
        self.counted[entry.pool] = self.counted.get(entry.pool, 0) + len(entry.indices)
        for index in entry.indices:
            if entry.failure is not None:
                self.failed[entry.example_id, entry.pool, index] = entry.failure
        if not all(entry.example_id in ids for ids in self.written.values()):
            for index, completion in zip(entry.indices, entry.completions, strict=entry.failure is None):
                self.done[entry.example_id, entry.pool, index] = completion

    def known(self) -> int:
        """Samples answered before, finalizers apart."""
        return sum(count for pool, count in self.counted.items() if not pool.endswith(FINALIZER))

    def block(self, rows: pl.DataFrame) -> None:
        """Take a block of examples through all steps and write its rows."""
        rows = rows.filter(~pl.col("example_id").is_in(list(self.finished)))
        if not rows.height:
            return
        prepared = self.context.prepare(rows)
        if self.context.opened is not None:
            self.models.settle(EMBEDDING, self.context.opened)
        for step in self.plan.recipe.steps:
            self.step(step, prepared)
        if not self.transient:
            self.write(rows, prepared)

    def step(self, step: Step, prepared: Sequence[Prepared]) -> None:
        """Ask what a step still lacks of a block, then the finalizers of its unreadable texts."""
        recipe = self.plan.recipe
        per_call = samples_per_call(recipe.engine, step)
        asked: list[Asked] = []
        for example in prepared:
            missing = [i for i in range(step.samples) if not self.has(example.example_id, step.pool, i)]
            prompt = prompt_of(recipe, step, example, self.attempt) if missing else None
            if prompt is not None:
                asked += ask_samples(step, recipe.seed, example.example_id, prompt, missing, per_call)
        self.ask(asked)
        if recipe.finalizer is None or not step.finalize:
            return
        found = [(e, i) for e in prepared for i in range(step.samples) if (e.example_id, step.pool, i) in self.done]
        texts = [self.whole(step, example.example_id, index) for example, index in found]
        asked = []
        for (example, index), (text, _), answer in zip(found, texts, read(texts, recipe.answers), strict=True):
            name = example.example_id
            if not readable(answer, recipe.answers) and not self.has(name, step.pool + FINALIZER, index):
                prompt = finalizer_prompt(recipe, example, text)
                asked.append(ask_finalizer(recipe.finalizer, recipe.seed, name, step.pool, prompt, index))
        self.ask(asked)

    def ask(self, asked: Sequence[Asked]) -> None:
        """Run calls; each answer is in the journal before it is counted."""
        if not asked:
            return
        engine = self.opened()
        of: dict[str, Asked] = {one.call.key: one for one in asked}
        before = time.monotonic()
        try:
            for call, outcome in engine.run([one.call for one in asked]):
                now = time.monotonic()
                self.take(of[call.key], call, outcome, now - before)
                before = now
        finally:
            self.journal.sync()
        self.models.settle(ENGINE, engine)

    def take(self, one: Asked, call: Call, outcome: Outcome, elapsed: float) -> None:
        """One call's outcome."""
        failure: str | None = None
        completions: tuple[Completion, ...] = ()
        if isinstance(outcome, CallFailure):
            if outcome.retryable:
                self.transient.append((call.key, outcome.reason))
                self.in_a_row += 1
                if self.in_a_row >= PATIENCE:
                    raise self.come_again(f"{PATIENCE} calls in a row failed")
                return
            failure = outcome.reason
        else:
            completions = tuple(writable(one) for one in outcome)
        self.in_a_row = 0
        entry = Entry(one.example_id, one.pool, one.indices, completions, failure, elapsed)
        self.journal.append(entry)
        self.keep(entry)
        if not one.pool.endswith(FINALIZER):
            self.advance(len(one.indices))

    def has(self, example_id: str, pool: str, index: int) -> bool:
        """Whether a call was answered, if only by a failure of its own."""
        return (example_id, pool, index) in self.done or (example_id, pool, index) in self.failed

    def attempt(self, example_id: str, pool: str, index: int) -> tuple[str, str | None] | None:
        """The text of a trace, and its answer: the finalizer's where one was asked."""
        completion = self.done.get((example_id, pool, index))
        if completion is None:
            return None
        recipe = self.plan.recipe
        step = next(step for step in recipe.steps if step.pool == pool)
        answer = read([self.answering(step, example_id, index)], recipe.answers)[0]
        return completion.text, answer if readable(answer, recipe.answers) else None

    def whole(self, step: Step, example_id: str, index: int) -> tuple[str, bool]:
        """A trace's text, after the attempt's where the step goes on from there, and whether its limit cut it off."""
        made = self.done[example_id, step.pool, index]
        before = ""
        if isinstance(step, Revise) and step.joined:
            before = self.done[example_id, step.of, step.of_sample].text
        return before + made.text, made.finish_reason == "length"

    def answering(self, step: Step, example_id: str, index: int) -> tuple[str, bool]:
        """The text that a trace's answer is read from, the finalizer's where one was asked, else the whole; and
        whether its limit cut it off."""
        finalizer = self.done.get((example_id, step.pool + FINALIZER, index))
        if finalizer is None:
            return self.whole(step, example_id, index)
        return finalizer.text, finalizer.finish_reason == "length"

    def write(self, rows: pl.DataFrame, prepared: Sequence[Prepared]) -> None:
        """Append a block's rows as shards: what is there already stays."""
        recipe = self.plan.recipe
        more = pl.DataFrame([{"example_id": p.example_id, **p.columns} for p in prepared], infer_schema_length=None)
        chosen = recipe.evidence is not None
        examples = contract_columns(rows, (EVIDENCE,) if chosen else ()).join(more, on="example_id", how="left")
        traces = self.traces(rows, prepared)
        for table, made in (("examples", examples), ("traces", traces)):
            new = made.filter(~pl.col("example_id").is_in(list(self.written[table])))
            if new.height:
                self.writer.append(table, new)
        ids = set(rows["example_id"])
        self.done = {key: value for key, value in self.done.items() if key[0] not in ids}

    def traces(self, rows: pl.DataFrame, prepared: Sequence[Prepared]) -> pl.DataFrame:
        """The traces of a block in the order of steps, examples and samples."""
        recipe, made, texts = self.plan.recipe, [], []
        model = self.model()
        for step in recipe.steps:
            for example in prepared:
                for index in range(step.samples):
                    attempt = self.done.get((example.example_id, step.pool, index))
                    if attempt is None:
                        continue
                    finalizer = self.done.get((example.example_id, step.pool + FINALIZER, index))
                    made.append(trace_row(recipe, step, model, example.example_id, index, attempt, finalizer))
                    texts.append(self.answering(step, example.example_id, index))
        answers = read(texts, recipe.answers)
        for row, answer in zip(made, answers, strict=True):
            row["answer_read"] = answer
        return judged(made, rows, recipe.answers, self.cache)

    @property
    def cache(self) -> Path:
        """The file of the judge's comparisons."""
        return self.journal.folder / "equivalence.sqlite"

    def opened(self) -> Engine:
        """The engine, opened when it is first needed."""
        if self.engine is None:
            self.engine = self.open_engine(self.plan.recipe)
            self.models.settle(ENGINE, self.engine)
        return self.engine

    def model(self) -> str:
        """What the log's column of that name says: of the engine, which need not be opened again for it."""
        if ENGINE not in self.models.known:
            self.opened()
        return str(self.models.known[ENGINE]["model"])

    def seal(self) -> Generated:
        """Write the manifest, when nothing is missing that another run could add."""
        if self.transient:
            raise self.come_again(f"{len(self.transient):,} calls failed")
        if not self.writer.log().has("traces"):
            (example_id, pool, index), reason = min(self.failed.items())
            raise ThinkbackError(
                f"`{self.writer.path}` has no traces, so it is no log: all {len(self.failed):,} calls failed for good,"
                f" the first is `{example_id}/{pool}/{index}`: {reason}; mend that, and name another --out"
            )
        self.model()  # known by now, except where a run of an older version began
        failures = tuple((f"{e}/{p}/{i}", reason) for (e, p, i), reason in sorted(self.failed.items()))
        source = source_of(
            self.plan.recipe, self.plan.identity, self.models.known, self.context, self.seconds, failures
        )
        found = self.judging()
        source |= {"counts": list(self.plan.notes), "judging": None if found is None else asdict(found)}
        self.writer.seal(name=self.plan.recipe.name, license=self.plan.recipe.license, source=source)
        self.journal.remove()
        return Generated(open_log(self.writer.path), failures, found)

    def judging(self) -> Judging | None:
        """How the answers of the whole log were judged, where that took more than comparing strings."""
        log = self.writer.log()
        return judging(log.scan("traces"), self.plan.recipe.answers, self.cache) if log.has("traces") else None

    def come_again(self, what: str) -> ThinkbackError:
        """The error of a run that another attempt may complete."""
        key, reason = self.transient[-1]
        return ThinkbackError(
            f"`{self.writer.path}` is not complete: {what}, the last is `{key}`: {reason}; every answered call is kept:"
            " run the same command again"
        )

    def kept(self, error: ThinkbackError) -> ThinkbackError:
        """The error that ended a run, which says that what was answered is not lost, where something was, and to run
        again where that can help: not where rows are unfit, but where an engine or the disk failed."""
        if not self.known():
            return error
        helps = isinstance(error, EngineError) or isinstance(error.__context__, OSError)
        return type(error)(f"{error}; every answered call is kept{': run the same command again' if helps else ''}")

    def close(self) -> None:
        """Give back the engine."""
        if self.engine is not None:
            self.engine.close()


__all__ = ["BLOCK", "FOLDER", "Generated", "Plan", "generate", "make_plan"]
