"""Upper bounds of a recipe's requests and tokens, without what is asked again, and an estimate of the log's bytes. No
model, tokenizer or encoder is loaded for it.

The bounds are no forecast. Completion tokens are the limits of the calls. A prompt has at most as many tokens as bytes
in UTF-8, for no token is shorter than one, and `PER_MESSAGE` for each message's frame; a text that a model wrote comes
back in a later prompt with the tokens it had. The finalizer is counted once for every sample. Where passages or
few-shot examples are chosen by similarity, the longest are counted.

The bytes are those of the sealed log, compressed: the examples as they are written, and for each trace what its columns
and `WRITTEN` of its limit's tokens come to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO

from generate.engines.base import Prompt
from generate.loops.loop import prompts_of
from generate.recipes.prompting import PER_MESSAGE
from generate.recipes.recipe import FinalizerSettings, LoopStep, PoolStep, Recipe
from generate.sampling.context import EVIDENCE, AttemptTexts, Context, PreparedExample, finalizer_prompt, prompt_of
from generate.sampling.sampling_plan import SamplingPlan, contract_columns
from generate.sampling.sampling_run import LEAST_OPEN, examples_per_shard
from generate.sampling.services import Services
from generate.sampling.steps import attempt_of_row, logged_attempt

WRITTEN = 0.4
"""The share of its limit that a completion is taken to have: by tasks and models it is from a tenth to all of it."""
TOKEN_BYTES, ID_BYTES, NUMBER_BYTES = 1.4, 2.0, 3.6
"""Bytes of a token's text, of its id and of a number about it, once compressed."""
ROW_BYTES, SHARD_BYTES = 60, 10_000
"""Bytes of a trace's other columns, and of a shard of traces beside its rows."""
MANIFEST_BYTES, POOL_BYTES = 2_500, 900
NUMBERED = {"transformers": 3}
"""Numbers that an engine tells of each of the last tokens, where it tells more than log-probabilities."""


@dataclass(frozen=True)
class _PoolEstimate:
    """Upper bounds for one pool, and an estimate of its bytes; finalizers: requests that read its answers."""

    pool: str
    action: str
    samples: int
    requests: int
    finalizers: int
    prompt_tokens: int
    completion_tokens: int
    disk_bytes: int

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def estimate_pools(plan: SamplingPlan) -> list[_PoolEstimate]:
    """One line per pool, in the order in which they run. ThinkbackError where a prompt can't be made."""
    context = Context(plan.recipe, plan.examples, plan.pool)
    examples = context.longest_examples(plan.examples)
    Services(plan.recipe)  # what is wrong with a table of its is said here, too
    attempts = _logged_attempts(plan)
    steps = [_pool_estimate(plan.recipe, step, examples, attempts) for step in plan.recipe.steps]
    return steps + [_loop_estimate(plan, step, examples) for step in plan.recipe.loop]


def examples_bytes(plan: SamplingPlan) -> int:
    """Bytes on disk of the table of examples, of the manifest, and of the shards of traces beside their rows."""
    rows, recipe = plan.examples, plan.recipe
    chosen = recipe.evidence is not None
    file = BytesIO()
    contract_columns(rows, (EVIDENCE,) if chosen else ()).write_parquet(file, compression="zstd")
    more = 0
    if recipe.evidence is not None:
        listed = rows[EVIDENCE].list.head(recipe.evidence.top).list.join(" ", ignore_nulls=True)
        more += int(listed.str.len_bytes().sum() / 3) + rows.height * recipe.evidence.top * 4
    shards = -(-rows.height // examples_per_shard(recipe))
    prompts = sum(len(template.text.encode()) for template in recipe.prompts.values())
    manifest = MANIFEST_BYTES + POOL_BYTES * len(recipe.steps) + prompts
    return len(file.getvalue()) + more + shards * SHARD_BYTES + manifest


_LoggedAttempts = Mapping[tuple[str, str, int], AttemptTexts]


def _logged_attempts(plan: SamplingPlan) -> _LoggedAttempts:
    attempts: dict[tuple[str, str, int], AttemptTexts] = {}
    steps = plan.recipe.logged_trace_revisions
    for rows in plan.examples.iter_slices(LEAST_OPEN) if steps else ():
        for name, tables in plan.logged_rows(rows["example_id"].to_list()).items():
            for step in steps:
                if (row := logged_attempt(tables, step)) is not None:
                    attempts[name, step.of, step.of_sample] = attempt_of_row(row)
    return attempts


def _pool_estimate(
    recipe: Recipe, step: PoolStep, examples: Sequence[PreparedExample], attempts: _LoggedAttempts
) -> _PoolEstimate:
    if step in recipe.logged_trace_revisions:
        examples = [one for one in examples if (one.example_id, step.of, step.of_sample) in attempts]
    samples = len(examples) * step.samples
    engine = recipe.engine_of(step.engine)
    per_call = engine.samples_at_once(step.samples)
    rule = recipe.finalizer if step.finalize else None
    prompts = sum(_prompt_tokens(recipe, step, example, attempts) for example in examples) * step.samples
    completions = samples * step.max_tokens
    if rule is not None:
        prompts += sum(_finalizer_tokens(recipe, rule, step, example) for example in examples) * step.samples
        completions += samples * rule.max_tokens
    written = WRITTEN * step.max_tokens
    numbers = min(step.logprobs, written) * NUMBER_BYTES * NUMBERED.get(engine.kind, 1)
    ids = ID_BYTES * written * (engine.options.server_and_key_text() is None)  # servers tell none, as a rule
    disk = samples * (ROW_BYTES + written * TOKEN_BYTES + numbers + ids)
    return _PoolEstimate(
        pool=step.pool,
        action=step.action,
        samples=samples,
        requests=sum(_request_count(recipe, step, example.example_id, per_call) for example in examples),
        finalizers=0 if rule is None else samples,
        prompt_tokens=prompts,
        completion_tokens=completions,
        disk_bytes=round(disk),
    )


def _loop_estimate(plan: SamplingPlan, step: LoopStep, examples: Sequence[PreparedExample]) -> _PoolEstimate:
    """The most requests of a loop, each counted as a call; a prompt repeats at most what all before it wrote, and what
    is read of a log. A loop may know better (`most_calls`, `most_repeated_tokens`).
    """
    recipe, count, loop = plan.recipe, len(examples), step.loop
    limit, most = int(getattr(loop, "max_tokens", 0)), step.most_requests
    calls, samples = getattr(loop, "most_calls", (most, most * int(getattr(loop, "expand", 1))))
    per_call = recipe.engine_of(step.engine).samples_at_once(samples)
    prompts = [recipe.prompts[file] for file in prompts_of(loop).values()]
    longest = sum(
        max((_prompt_bytes(prompt.render(example.fields)) for prompt in prompts), default=0) for example in examples
    )
    known = hasattr(loop, "most_repeated_tokens")
    longest += count * loop.most_repeated_tokens if known else count * most * limit + _read_bytes(plan, step)
    traces = count * int(getattr(loop, "most_traces", most))
    return _PoolEstimate(
        pool=step.pool,
        action=step.name,
        samples=traces,
        requests=count * max(calls, -(-samples // per_call)),
        finalizers=0,
        prompt_tokens=samples * longest,
        completion_tokens=count * samples * limit,
        disk_bytes=round(traces * ROW_BYTES + WRITTEN * count * calls * limit * TOKEN_BYTES),
    )


def _read_bytes(plan: SamplingPlan, step: LoopStep) -> int:
    total = 0
    for rows in plan.examples.iter_slices(LEAST_OPEN) if step.of else ():
        tables = [
            table
            for logged_row in plan.logged_rows(rows["example_id"].to_list()).values()
            for table in logged_row.values()
        ]
        read = [row for table in tables for row in table if row["pool"] in step.of]
        total += sum(len(str(value).encode()) for row in read for value in row.values() if value is not None)
    return total


def _request_count(recipe: Recipe, step: PoolStep, example_id: str, per_call: int) -> int:
    """The requests for an example's samples, which a server has apart where their temperatures differ."""
    drawn = [step.temperature.temperature(recipe.seed, example_id, step.pool, index) for index in range(step.samples)]
    calls = (drawn[start : start + per_call] for start in range(0, len(drawn), per_call))
    return sum(len(recipe.engine_of(step.engine).options.split_into_requests(call)) for call in calls)


def _prompt_tokens(recipe: Recipe, step: PoolStep, example: PreparedExample, attempts: _LoggedAttempts) -> int:
    prompt = prompt_of(recipe, step, example, lambda *place: attempts.get((example.example_id, *place), AttemptTexts()))
    return 0 if prompt is None else _prompt_bytes(prompt) + _repeated_tokens(recipe, step)


def _repeated_tokens(recipe: Recipe, step: PoolStep) -> int:
    """Tokens that a model wrote and a prompt repeats: the attempt, wherever the prompt or its conversation names it."""
    if step.of is None or step in recipe.logged_trace_revisions:  # of a log the attempt itself is in the prompt
        return 0
    parent = recipe.step_of(step.of)
    template = recipe.prompts[step.prompt]
    tokens = parent.max_tokens + (recipe.finalizer.max_tokens if recipe.finalizer is not None else 0)
    times = template.text.count("{{attempt}}") + template.text.count("{{answer}}")
    again = template.text.count("{{prompt}}") + sum(role == "conversation" for role, _ in template.parts)
    return tokens * times + _repeated_tokens(recipe, parent) * again


def _finalizer_tokens(recipe: Recipe, rule: FinalizerSettings, step: PoolStep, example: PreparedExample) -> int:
    prompt = finalizer_prompt(recipe, example, "")
    return _prompt_bytes(prompt) + min(step.max_tokens, 4 * rule.tail) * recipe.prompts[rule.prompt].text.count(
        "{{tail}}"
    )


def _prompt_bytes(prompt: Prompt) -> int:
    texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
    return sum(len(text.encode()) + PER_MESSAGE for text in texts)
