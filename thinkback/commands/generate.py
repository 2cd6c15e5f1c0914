"""`thinkback generate`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from generate.annotating.annotation_plan import AnnotationPlan
    from generate.recipes.recipe import EngineSettings
    from generate.sampling.sampling_plan import SamplingPlan
    from generate.sampling.sampling_run import Generated
    from toolkit.progress import Advance


def generate(
    recipe: str,
    out: Path | None = None,
    on: Path | None = None,
    shard: str = "1/1",
    limit: int | None = None,
    settings: list[str] | None = None,
    dry_run: bool = False,
    with_failures: bool = False,
    allow_keys: list[str] | None = None,
    workers: str | None = None,
) -> None:
    """Run a recipe: ask a model, and make a log or add to one.

    After an interruption, the same command continues; answered calls are not repeated. Included recipes need the
    data's folder: --set data.path=FOLDER. --on adds to an existing log what it lacks of the recipe's
    pools, where it has no [data], and of its verifiers, features and hidden states, and seals it again; nothing in it
    is changed.
    """
    from generate.recipes.recipe import load_recipe
    from generate.sampling.sampling_plan import make_plan
    from generate.sampling.sampling_run import generate as run
    from thinkback import console
    from toolkit.errors import ConflictError, IncompleteError, RequiredError
    from toolkit.progress import progress

    if on is not None:
        if out is not None:
            raise ConflictError("`--out` writes a new log and `--on` adds to one: give one of them")
        _add(recipe, on, shard, limit, settings or (), dry_run, with_failures, allow_keys or (), workers)
        return
    if workers is not None:
        raise ConflictError("`--workers` adds signals to a log: give it with `--on`")
    read = load_recipe(recipe, settings or ())
    plan = make_plan(read, _parse_shard(shard), limit)
    for note in plan.notes:
        console.say(note)
    if dry_run:
        _print_estimate(plan)
        return
    if out is None:
        raise RequiredError("name the log to write, `--out LOG`, or one to add to, `--on LOG`")
    for engine in (read.engine, *read.engines.values()):
        _say_server(engine, allow_keys or ())
    with progress(f"generating {read.name}", plan.traces, "traces") as advance:

        def started(known: int) -> Advance:
            advance(known)
            return advance

        done = run(plan, out, started=started, with_failures=with_failures, allow_keys=allow_keys or ())
    say_generated(done, out)
    if done.failures and with_failures:
        console.say(failure_line(done, out))
    elif done.failures:
        raise IncompleteError(failure_line(done, out))


def say_generated(done: Generated, out: Path) -> None:
    """Prints the result of a run."""
    from thinkback import console

    log = done.log
    tables = ("examples", "traces", *(name for name in ("rounds", "checks") if log.has(name)))
    console.say(f"wrote {out}: " + ", ".join(f"{log.rows(name):,} {name}" for name in tables))
    for note in done.notes:
        console.say(note)
    if done.judging is not None:
        console.say(str(done.judging))


def failure_line(done: Generated, out: Path) -> str:
    """The line about the calls that failed for good."""
    call, reason = done.failures[0]
    return (
        f"`{out}` is sealed without {len(done.failures):,} calls that can't be answered, the first is `{call}`:"
        f" {reason}; the manifest lists them under `source.failures`"
    )


def _say_server(engine: EngineSettings | None, allow_keys: Sequence[str]) -> None:
    """Prints the server that will be asked, and the variable of its key, before anything is sent. EngineError where
    that key may not go there.
    """
    from thinkback import console

    if engine is not None:
        engine.options.check_api_key_access(allow_keys)
        reached = engine.options.server_and_key_text()
        if reached is not None:
            console.say(f"asks {engine.model} at {reached}")


def _add(
    recipe: str, on: Path, shard: str, limit: int | None, settings: Sequence[str], dry_run: bool,
    with_failures: bool, allow_keys: Sequence[str], workers: str | None,
) -> None:  # fmt: skip
    """Carries out `generate --on`: adds a recipe's pools to a log, then its signals."""
    from generate.recipes.recipe import load_added_pools
    from generate.recipes.toml_file import read_toml
    from generate.sampling.added_pools import add_pools, plan_added_pools
    from thinkback import console
    from toolkit.errors import IncompleteError, listed
    from toolkit.progress import progress
    from toolkit.workers.chosen import on_workers

    read = load_added_pools(recipe, settings)
    signals = read is None or any(name in read_toml(recipe, settings)[0] for name in ("verify", "features", "states"))
    if read is not None:
        added = plan_added_pools(read, on, _parse_shard(shard), limit)
        if added.has_nothing_to_add and signals:
            console.say(f"{on} already has {listed(added.names)}")
        elif dry_run and not added.has_nothing_to_add:
            _print_estimate(added.plan, with_examples=False)
            signals = False  # of these pools nothing is known yet
        else:
            for engine in (read.engine, *read.engines.values()):
                _say_server(None if added.has_nothing_to_add else engine, allow_keys)
            with progress(f"adding to {on.name}", added.plan.traces, "traces") as advance:

                def started(known: int) -> Advance:
                    advance(known)
                    return advance

                before = added.log.rows("traces")
                done = add_pools(added, started=started, with_failures=with_failures, allow_keys=allow_keys)
            console.say(f"added {listed(added.names)} to {on}: {done.log.rows('traces') - before:,} traces")
            if done.failures:
                line = failure_line(done, on)
                if not with_failures:
                    raise IncompleteError(line)
                console.say(line)
    if signals:
        with on_workers(None if dry_run else workers):
            _add_signals(recipe, on, shard, limit, settings, dry_run, with_failures, allow_keys)


def _add_signals(
    recipe: str, on: Path, shard: str, limit: int | None, settings: Sequence[str], dry_run: bool,
    with_failures: bool, allow_keys: Sequence[str],
) -> None:  # fmt: skip
    """Carries out `generate --on`: adds a recipe's signals to a log."""
    from generate.annotating.annotation_plan import make_add_plan
    from generate.annotating.annotation_run import add_signals
    from generate.signals.additions import load_additions
    from thinkback import console
    from toolkit.errors import listed
    from toolkit.progress import progress

    plan = make_add_plan(load_additions(recipe, settings), on, _parse_shard(shard), limit)
    for step in plan.idle:
        console.say(f"{step.name} is for {listed(step.dataset)}, of which {on} has no examples")
    if dry_run:
        _print_remaining_work(plan)
        return
    if not plan.missing_row_count:
        add_signals(plan)
        console.say(f"{on} already has everything that {plan.additions.name} adds")
        return
    if any(todo.step.needs_engine and todo.traces.height for todo in plan.todo):
        _say_server(plan.additions.engine, allow_keys)
    with progress(f"adding to {on.name}", plan.missing_row_count, "traces") as advance:

        def started(known: int) -> Advance:
            advance(known)
            return advance

        done = add_signals(plan, started=started, with_failures=with_failures, allow_keys=allow_keys)
    for step, record in done.steps:
        line = f"added {step.name} to {on}: {record.rows:,} rows of {step.table}"
        if record.skipped:
            trace, reason = record.skipped[0]
            line += f"; left out: {len(record.skipped):,}, the first is `{trace}`: {reason}"
        if record.incomplete:
            trace, reason = next(iter(record.incomplete.items()))
            line += f"; with values missing: {len(record.incomplete):,}, the first is `{trace}`: {reason}"
        if record.recounted:
            trace, reason = next(iter(record.recounted.items()))
            line += f"; texts read again with another number of tokens: {len(record.recounted):,}, the first is"
            line += f" `{trace}`: {reason}"
        if record.unreadable_count:
            line += f"; judgements that can't be read: {record.unreadable_count:,}"
        console.say(line)


def _print_remaining_work(plan: AnnotationPlan) -> None:
    from generate.annotating.annotation_plan import estimate_remaining_work
    from thinkback import console

    console.say(f"{plan.additions.name} on {plan.path}, shard {plan.shard.replace('-of-', '/')}; at most:")
    for one in estimate_remaining_work(plan):
        cost = one.cost
        calls = f", {cost.calls:,} calls" if cost.calls else ""
        tokens = f", {cost.tokens:,} tokens" if cost.tokens else ""
        console.say(
            f"  {one.name}  {one.kind}: missing for {one.traces:,} of {one.requested:,} traces{calls}{tokens},"
            f" {cost.disk_bytes:,} bytes"
        )


def _parse_shard(text: str) -> tuple[int, int]:
    from toolkit.errors import InvalidError

    number, slash, count = text.partition("/")
    if not slash or not (number.isascii() and number.isdigit() and count.isascii() and count.isdigit()):
        raise InvalidError(f"`--shard {text}`: write it as I/N, for example 2/4")
    if not 1 <= int(number) <= int(count):
        raise InvalidError(f"`--shard {text}`: the first number must be between 1 and {count}")
    return int(number), int(count)


def _print_estimate(plan: SamplingPlan, with_examples: bool = True) -> None:
    from generate.sampling.sampling_estimate import estimate_pools, examples_bytes
    from thinkback import console

    pools = estimate_pools(plan)
    console.say(f"{plan.recipe.name}: {plan.examples.height:,} examples, shard {plan.identity['shard']}; at most:")
    width = max(len(pool.pool) for pool in pools)
    for pool in pools:
        finalizers = f" and {pool.finalizers:,} of the finalizer" if pool.finalizers else ""
        console.say(
            f"  {pool.pool:<{width}}  {pool.action}: {pool.requests:,} requests{finalizers} for"
            f" {pool.samples:,} traces, {pool.prompt_tokens:,} prompt + {pool.completion_tokens:,} completion tokens,"
            f" about {pool.disk_bytes:,} bytes"
        )
    examples = examples_bytes(plan) if with_examples else 0
    if with_examples:
        console.say(f"  {'examples':<{width}}  and what a log has besides: about {examples:,} bytes")
    total = [sum(getattr(pool, name) for pool in pools) for name in ("requests", "finalizers", "tokens", "disk_bytes")]
    total[3] += examples
    console.say(
        f"total: {total[0]:,} requests and {total[1]:,} of finalizers, {total[2]:,} tokens;"
        f" about {total[3]:,} bytes on disk ({total[3] / 2**20:,.1f} MiB)"
    )
    for pool in pools:
        if pool.requests and not pool.completion_tokens:
            console.say(f"{pool.pool}: its loop has no `max_tokens`, so the tokens that it writes are not counted")
