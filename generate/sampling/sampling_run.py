"""Running a recipe into a log: block by block, step by step, resumable at any moment.

The examples of a shard are taken in blocks. Each step asks its calls of a whole block, so that an engine has enough to
batch; each answered call goes to the journal at once (generate.journal). When a block is through all steps its rows are
made and appended as shards, and when all blocks are there the log is sealed. A run that is killed and started again
reads the journal, asks what is missing, and makes the same rows.

What ends a run early: an engine that can't work at all (EngineError), `PATIENCE` failures in a row that another
attempt may cure, as many equal refusals before a pool has its first answer, a full disk, an interruption. Progress is
saved and the same command goes on. A call whose own prompt is at fault is recorded and not asked again; the log is
sealed without its traces, and names it. So it is with what fails for the moment where failures are given up.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from generate.engines.base import FAILED, Call, CallFailure, Completion, Engine, EngineError, Outcome
from generate.engines.weights import versions_here
from generate.journal.database import BEGUN, FOLDER, Journal, difference
from generate.journal.dispatch import Dispatch, JournalCall
from generate.journal.events import Answered
from generate.passes.embedding import Embedder
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling import samples
from generate.sampling.context import EVIDENCE, Context, Prepared, finalizer_prompt, prompt_of
from generate.sampling.samples import FINALIZER
from generate.sampling.sampling_plan import SamplingPlan, contract_columns, plan_again
from toolkit.errors import ExistsError, IncompleteError, MismatchError, ThinkbackError, argument
from toolkit.log import LEFT_OUT, Log, LogError, LogWriter, collect, open_log
from toolkit.progress import Advance, uncounted
from toolkit.settings import flatten


def _check_out(identity: Mapping[str, Any], out: Path) -> None:
    """ThinkbackError where `out` holds a complete log, of this recipe or of another, or something else."""
    if (out / "manifest.json").exists():
        log = open_log(out)
        source = log.manifest.source if log.manifest is not None else None
        before = source.get("settings") if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(before, Mapping):
            raise ExistsError(f"`{out}` is a log that no recipe made: name another `out`")
        _compare(identity, before, out)
        shutil.rmtree(out / FOLDER, ignore_errors=True)  # of a run that was interrupted once its log was sealed
        failed = len(source.get("failures") or ())
        calls = f"{failed:,} call{'s' if failed > 1 else ''} failed permanently (`source.failures` of its manifest)"
        raise ExistsError(
            f"`{out}` is complete (shard {before['shard']}: {log.rows('examples'):,} examples,"
            f" {log.rows('traces'):,} traces): nothing is left to generate"
            + (f"; {calls}: another `out` asks again" if failed else "")
        )
    if out.is_dir() and not (out / FOLDER).exists() and any(out.iterdir()):
        raise ExistsError(f"`{out}` holds something that no recipe made: name another `out`")


def _check_begun(identity: Mapping[str, Any], journal: Journal, origin: Mapping[str, Any]) -> None:
    """ThinkbackError where the journal holds answers under other settings; else it is begun with these."""
    if next(journal.events(Answered), None) is not None:
        _compare(identity, journal.saved(BEGUN), journal.out)
    journal.append((), {BEGUN: identity, ORIGIN: origin})


def _compare(now: Mapping[str, Any], before: Mapping[str, Any], out: Path) -> None:
    differs = difference(before, now)
    if differs is not None:
        raise ExistsError(f"`{out}` holds a log of other settings: {differs}; name another `out`")


ORIGIN = "made_of"
"""The journal's name for the recipe of a run, and the shard."""
MODELS = "models"
ENGINE, EMBEDDING = "engine", "embedding"
DECIDING = ("model", "revision", "weights_sha256", "sha256", "pooling", "max_tokens", "dtype", "device", "context")
"""Keys of a model's record that must stay equal between two runs; versions and batch sizes may change."""
GROWING = ("reported_models", "system_fingerprints")
"""Keys of a model's record that servers state in each answer; they are collected over all runs."""


class _ModelsSeen:
    """The records of the models of a log, by use: earlier records, and those of open models."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: dict[str, dict[str, Any]] = {} if journal.empty() else journal.saved(MODELS)
        self.settled: set[str] = set()

    def record(self, use: str, model: Engine | Embedder) -> None:
        """Store a model's record; that of a server is updated with each answer. ThinkbackError where another model
        answered before.
        """
        if use in self.settled and not any(key in self.known[use] for key in GROWING):
            return
        now: dict[str, Any] = dict(model.describe())
        if use == ENGINE:
            now = {"name": model.name, "model": model.model, **now}  # type: ignore[union-attr]
        before = self.known.get(use)
        if before is not None:
            differs = difference(before, now, [key for key in DECIDING if key in before], most=18)
            if differs is not None:
                raise MismatchError(
                    f"`{self.journal.out}` was begun with another model: the {use}'s {differs}; name another `out`"
                )
            now |= {key: sorted({*before.get(key, ()), *now[key]}) for key in GROWING if key in now}
        self.settled.add(use)
        if now != before:
            self.known[use] = now
            self.journal.keep(MODELS, self.known)


SEEDS = "first 4 bytes, without the sign bit, of SHA-256 of recipe seed, example, pool and index, joined by byte 0"


def _source_of(
    recipe: Recipe,
    identity: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    context: Context,
    seconds: Mapping[str, float],
    failures: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Settings, texts of prompts, versions; per pool model, engine, prompt, sampling, seed, wall-clock seconds.

    `models`: what engine and encoder say of themselves (ModelsSeen). `seconds`: wall-clock per pool, finalizers
    under their own name. `failures`: calls without traces, and why.
    """
    source: dict[str, Any] = {
        "generated_by": "thinkback generate",
        "recipe": recipe.name,
        "seed": recipe.seed,
        "seeds": SEEDS,
        "shard": identity["shard"],
        "versions": versions_here(),
        "prompts": {name: template.text for name, template in recipe.prompts.items()},
        "pools": {step.pool: _pool(recipe, step, models[ENGINE], seconds) for step in recipe.steps},
        "failures": [{"call": call, "reason": reason} for call, reason in failures],
        "settings": dict(identity),
    }
    if context.pool is not None:
        source["few_shot"] = {"examples": len(context.pool.ids), "left_out_as_data": context.pool.excluded}
    if EMBEDDING in models:
        source["embedding"] = dict(models[EMBEDDING])
    return source


def _pool(recipe: Recipe, step: PoolStep, engine: Mapping[str, Any], seconds: Mapping[str, float]) -> dict[str, Any]:
    sampling = flatten(step)
    pool: dict[str, Any] = {
        "model": engine["model"],
        "engine": dict(engine),
        "action": step.action,
        "prompt": step.prompt,
        "sampling": {key: value for key, value in sampling.items() if key not in ("pool", "prompt", "action")},
        "seed": recipe.seed,
        "wall_clock_s": round(seconds.get(step.pool, 0.0) + seconds.get(step.pool + FINALIZER, 0.0), 3),
    }
    if step.of is not None:
        pool["of"] = step.of
    if recipe.finalizer is not None and step.finalize:
        pool["finalizer"] = recipe.finalizer.prompt
    return pool


BLOCK = 256


@dataclass(frozen=True)
class Generated:
    """The result of a run: the sealed log, failed calls with their reasons, and how answers were judged, unless by
    comparing strings.
    """

    log: Log
    failures: tuple[tuple[str, str], ...]
    judging: samples.Judging | None = None


def generate(
    plan: SamplingPlan,
    out: Path,
    open_engine: Callable[[Recipe], Engine] | None = None,
    *,
    embedder: Embedder | None = None,
    block: int = BLOCK,
    started: Callable[[int], Advance] | None = None,
    with_failures: bool = False,
    allow_keys: Collection[str] = (),
) -> Generated:
    """Run a plan into the log `out`, or go on with it; the engine, by default the recipe's, is opened when the first
    call is due.

    `block` is how many examples go through the steps together; the rows do not depend on it. `started` is told how
    many traces the journal held already, and gives a function to count more with. `with_failures` seals the log without
    the calls that fail now, whatever the reason: no later run asks them again. `allow_keys`: variables of the
    environment whose key may go to whatever server the recipe names.
    ThinkbackError when the log in `out` is complete or of another recipe, and for all that ends a run early.
    """
    _check_out(plan.identity, out)
    context = Context(plan.recipe, plan.examples, plan.pool, embedder)
    writer = LogWriter(out)
    with Journal(writer.path) as journal:
        _check_begun(plan.identity, journal, plan.origin)
        opens = open_engine or (lambda one: one.engine.opened(one, allow_keys))
        run = _Run(plan, writer, journal, context, opens, _ModelsSeen(journal))
        try:
            run.recall()
            run.advance = started(run.known()) if started is not None else uncounted
            for rows in plan.examples.iter_slices(block):
                run.block(rows)
            if with_failures:
                run.give_up()
            for rows in run.unfinished().iter_slices(block):  # what waited for an answer of its pool, or was given up
                run.block(rows)
            return run.seal()
        except (EngineError, LogError) as error:
            raise run.with_progress(error) from None
        finally:
            run.close()


@dataclass
class _Run:
    plan: SamplingPlan
    writer: LogWriter
    journal: Journal
    context: Context
    open_engine: Callable[[Recipe], Engine]
    models: _ModelsSeen
    advance: Advance = uncounted
    engine: Engine | None = None
    done: dict[tuple[str, str, int], Completion] = field(default_factory=dict)
    failed: dict[tuple[str, str, int], tuple[str, str]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    counted: dict[str, int] = field(default_factory=dict)
    written: dict[str, frozenset[str]] = field(default_factory=dict)
    finished: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.dispatch = Dispatch(self.journal, f"`{self.writer.path}`")

    def recall(self) -> None:
        """Read the earlier answers, and the examples that are done: with all their rows, or without any trace."""
        log = self.writer.log()
        for table in ("examples", "traces"):
            ids = collect(log.scan(table, ["example_id"]))["example_id"].unique() if log.has(table) else ()
            self.written[table] = frozenset(ids)
        for answered in self.journal.events(Answered):
            self.note(answered)
        begun = {example_id for example_id, _, _ in self.done}
        self.finished = self.written["examples"] & (self.written["traces"] | (self.written["examples"] - begun))

    def note(self, event: Answered) -> None:
        """Record an answered sample. Completions of written rows are dropped from memory."""
        self.seconds[event.pool] = self.seconds.get(event.pool, 0.0) + event.elapsed_s
        self.counted[event.pool] = self.counted.get(event.pool, 0) + 1
        self.dispatch.note(event)
        if event.completion is None:
            self.failed[event.about, event.pool, event.sample] = event.failure or "", event.cause or FAILED
        elif not all(event.about in ids for ids in self.written.values()):
            self.done[event.about, event.pool, event.sample] = event.completion

    def known(self) -> int:
        """The number of samples answered before, without finalizers."""
        return sum(count for pool, count in self.counted.items() if not pool.endswith(samples.FINALIZER))

    def block(self, rows: pl.DataFrame) -> None:
        """Take a block of examples through all steps and write the rows of those whose calls are all settled."""
        rows = rows.filter(~pl.col("example_id").is_in(list(self.finished)))
        if not rows.height:
            return
        prepared = self.context.prepare(rows)
        if self.context.opened is not None:
            self.models.record(EMBEDDING, self.context.opened)
        for step in self.plan.recipe.steps:
            self.step(step, prepared)
        unsettled = self.dispatch.open()
        rows = rows.filter(~pl.col("example_id").is_in(list(unsettled)))
        if rows.height:
            self.write(rows, [one for one in prepared if one.example_id not in unsettled])

    def step(self, step: PoolStep, prepared: Sequence[Prepared]) -> None:
        """Run the missing calls of a step for a block, then the finalizers of its unreadable texts."""
        recipe = self.plan.recipe
        per_call = recipe.engine.samples_at_once(step.samples)
        calls: list[JournalCall] = []
        for example in prepared:
            missing = [i for i in range(step.samples) if not self.has(example.example_id, step.pool, i)]
            prompt = prompt_of(recipe, step, example, self.attempt) if missing else None
            if prompt is not None:
                calls += samples.ask_samples(step, recipe.seed, example.example_id, prompt, missing, per_call)
        self.ask(calls)
        if recipe.finalizer is None or not step.finalize:
            return
        ready = [(e, i) for e in prepared for i in range(step.samples) if (e.example_id, step.pool, i) in self.done]
        texts = [self.whole(step, example.example_id, index) for example, index in ready]
        calls = []
        for (example, index), (text, _), answer in zip(ready, texts, samples.read(texts, recipe.answers), strict=True):
            name = example.example_id
            unread = not samples.readable(answer, recipe.answers)
            if unread and not self.has(name, step.pool + samples.FINALIZER, index):
                prompt = finalizer_prompt(recipe, example, text)
                calls.append(samples.ask_finalizer(recipe.finalizer, recipe.seed, name, step.pool, prompt, index))
        self.ask(calls)

    def ask(self, calls: Sequence[JournalCall]) -> None:
        """Run calls; each answer is in the journal before it is counted."""
        if not calls:
            return
        engine = self.opened()
        for one, answered in self.dispatch.answers(engine, calls):
            for sample in answered:
                self.note(sample)
            if not one.pool.endswith(samples.FINALIZER):
                self.advance(len(answered))
        self.models.record(ENGINE, engine)

    def unfinished(self) -> pl.DataFrame:
        """The examples without rows whose calls are all final."""
        return self.plan.examples.filter(~pl.col("example_id").is_in([*self.finished, *self.dispatch.open()]))

    def give_up(self) -> None:
        """Make the failures of this run final."""
        for _, answered in self.dispatch.give_up():
            for sample in answered:
                self.note(sample)

    def has(self, example_id: str, pool: str, index: int) -> bool:
        """Whether a call was answered, if only by a failure of its own."""
        return (example_id, pool, index) in self.done or (example_id, pool, index) in self.failed

    def attempt(self, example_id: str, pool: str, index: int) -> tuple[str, str | None] | None:
        """The text of a trace, and its answer: the finalizer's where one was asked."""
        completion = self.done.get((example_id, pool, index))
        if completion is None:
            return None
        recipe = self.plan.recipe
        answer = samples.read([self.answering(recipe.step_of(pool), example_id, index)], recipe.answers)[0]
        return completion.text, answer if samples.readable(answer, recipe.answers) else None

    def whole(self, step: PoolStep, example_id: str, index: int) -> tuple[str, bool]:
        """A trace's text, after the attempt's where the step goes on from there, and whether its limit cut it off."""
        completion = self.done[example_id, step.pool, index]
        before = self.done[example_id, step.of, step.of_sample].text if step.joined and step.of is not None else ""
        return before + completion.text, completion.finish_reason == "length"

    def answering(self, step: PoolStep, example_id: str, index: int) -> tuple[str, bool]:
        """The text that a trace's answer is read from, the finalizer's where one was asked, else the whole; and
        whether its limit cut it off."""
        finalizer = self.done.get((example_id, step.pool + samples.FINALIZER, index))
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
        for table, frame in (("examples", examples), ("traces", traces)):
            new = frame.filter(~pl.col("example_id").is_in(list(self.written[table])))
            if new.height:
                self.writer.append(table, new)
        ids = set(rows["example_id"])
        self.finished |= ids
        self.done = {key: value for key, value in self.done.items() if key[0] not in ids}

    def traces(self, rows: pl.DataFrame, prepared: Sequence[Prepared]) -> pl.DataFrame:
        """The traces of a block in the order of steps, examples and samples, numbered without the missing ones."""
        recipe, trace_rows, texts = self.plan.recipe, [], []
        model = self.model()
        for step in recipe.steps:
            for example in prepared:
                place = 0
                for index in range(step.samples):
                    attempt = self.done.get((example.example_id, step.pool, index))
                    if attempt is None:
                        continue
                    finalizer = self.done.get((example.example_id, step.pool + samples.FINALIZER, index))
                    row = samples.trace_row(recipe, step, model, example.example_id, index, attempt, finalizer)
                    trace_rows.append({**row, "sample_index": place})
                    place += 1
                    texts.append(self.answering(step, example.example_id, index))
        answers = samples.read(texts, recipe.answers)
        for row, answer in zip(trace_rows, answers, strict=True):
            row["answer_read"] = answer
        return samples.judged(trace_rows, rows, recipe.answers, self.cache)

    @property
    def cache(self) -> Path:
        """The file of the judge's comparisons."""
        return self.journal.folder / "equivalence.sqlite"

    def opened(self) -> Engine:
        """The engine, opened when it is first needed."""
        if self.engine is None:
            self.engine = self.open_engine(self.plan.recipe)
            self.models.record(ENGINE, self.engine)
        return self.engine

    def model(self) -> str:
        """The value of the log's column `model`, also without opening the engine again."""
        if ENGINE not in self.models.known:
            self.opened()
        return str(self.models.known[ENGINE]["model"])

    def seal(self) -> Generated:
        """Write the manifest, when nothing is missing that another run could add."""
        self.dispatch.check()
        if not self.writer.log().has("traces"):
            (example_id, pool, index), (reason, _) = min(self.failed.items())
            raise IncompleteError(
                f"`{self.writer.path}` has no traces, so it can't be sealed: all {len(self.failed):,} calls failed"
                f" permanently, the first is `{example_id}/{pool}/{index}`: {reason}; mend that, and name another `out`"
            )
        self.model()  # known by now, except where a run of an older version began
        failures = tuple((f"{e}/{p}/{i}", reason) for (e, p, i), (reason, _) in sorted(self.failed.items()))
        plan, left_out = self.plan, Counter(cause for _, cause in self.failed.values())
        source = _source_of(plan.recipe, plan.identity, self.models.known, self.context, self.seconds, failures)
        source |= {LEFT_OUT: dict(sorted(left_out.items()))} if left_out else {}
        judging = samples.judging(self.writer.log().scan("traces"), self.plan.recipe.answers, self.cache)
        source |= {"counts": list(self.plan.notes), "judging": None if judging is None else asdict(judging)}
        self.writer.seal(name=self.plan.recipe.name, license=self.plan.recipe.license, source=source)
        self.journal.remove()
        return Generated(open_log(self.writer.path), failures, judging)

    def with_progress(self, error: ThinkbackError) -> ThinkbackError:
        """The error that ended a run, which says that progress is saved, where there is some, and to run again where
        that can help: not where rows are unfit, but where an engine or the disk failed."""
        if not self.known():
            return error
        helps = isinstance(error, EngineError) or isinstance(error.__context__, OSError)
        return error.about("", f"; progress is saved{': run the same command again' if helps else ''}")

    def close(self) -> None:
        if self.engine is not None:
            self.engine.close()


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
        origin, models = journal.saved(ORIGIN), journal.saved(MODELS)
    if not origin or ENGINE not in models:
        raise IncompleteError(
            f"`{out}` is an unfinished run that {'has no answer yet' if origin else 'does not know its recipe'}: run"
            f" the recipe again, with {argument('with_failures')}"
        )
    return generate(plan_again(origin), out, lambda _: _SilentEngine(models[ENGINE]), with_failures=True)


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
        """Nothing is held."""
