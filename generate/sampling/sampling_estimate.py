"""Upper bounds of a recipe's calls, tokens and bytes on disk. No model, tokenizer or encoder is loaded for it.

A bound, not a forecast. Completion tokens are the limits of the calls. A prompt has at most as many tokens as bytes
in UTF-8, for no token is shorter than one, and `PER_MESSAGE` for each message's frame; a text that a model wrote comes
back in a later prompt with the tokens it had. The finalizer is counted once for every sample. Where passages or
few-shot examples are chosen by similarity, the longest are counted. Bytes are those of the tables `examples` and
`traces` and of the journal beside them, before compression.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from generate.engines.base import Prompt
from generate.journal.database import PAGE, WAL_PAGES
from generate.recipes.prompting import PER_MESSAGE
from generate.recipes.recipe import FinalizerSettings, PoolStep, Recipe
from generate.sampling.context import Attempt, Context, Prepared, finalizer_prompt, prompt_of
from generate.sampling.sampling_plan import SamplingPlan
from generate.sampling.sampling_run import examples_per_shard

TOKEN_BYTES = 16
"""Bytes of text per token, as they come to lie on disk: three times those of most texts. No vocabulary is loaded here,
and one may hold longer tokens, but no text is made of these alone."""
ROW_BYTES = 700
ID_COPIES = 8
"""The number of times that an example's id stands in a trace's row and its journal rows."""
CELL_BYTES = 24
SHARD_BYTES = 2**16
"""Bytes of a Parquet or JSON file beside its rows."""
LOGPROB_BYTES = 56
ID_BYTES = 8
"""Bytes of a token's id: six digits and a separator."""
JOURNAL_BYTES = 2 * PAGE * WAL_PAGES
"""Bytes of a journal beside its rows: the write-ahead log, and nearly empty pages of tables."""


@dataclass(frozen=True)
class _PoolEstimate:
    """Upper bounds for one pool; finalizer calls are those of the pool's samples."""

    pool: str
    action: str
    samples: int
    calls: int
    finalizers: int
    prompt_tokens: int
    completion_tokens: int
    disk_bytes: int

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


def estimate(plan: SamplingPlan) -> list[_PoolEstimate]:
    """One line per pool, in the order in which they run. ThinkbackError where a prompt can't be made."""
    context = Context(plan.recipe, plan.examples, plan.pool)
    examples = context.bound(plan.examples)
    return [_pool(plan.recipe, step, examples) for step in plan.recipe.steps]


def examples_bytes(plan: SamplingPlan) -> int:
    """Bytes on disk of the table of examples and of what a log has besides rows: every value as text, twice."""
    rows, recipe = plan.examples, plan.recipe
    text = sum(len(json.dumps(row, ensure_ascii=False, default=str).encode()) for row in rows.iter_rows(named=True))
    more = 0
    if recipe.evidence is not None:
        more += recipe.evidence.top * 2 * CELL_BYTES
    if plan.pool is not None and recipe.few_shot is not None:
        more += recipe.few_shot.k * (CELL_BYTES + max((len(name.encode()) for name in plan.pool.ids), default=0))
    files = 4 + 2 * -(-rows.height // examples_per_shard(recipe))
    prompts = sum(len(template.text.encode()) for template in recipe.prompts.values())
    return 2 * text + rows.height * (more + CELL_BYTES * rows.width) + files * SHARD_BYTES + 2 * prompts + JOURNAL_BYTES


def _pool(recipe: Recipe, step: PoolStep, examples: Sequence[Prepared]) -> _PoolEstimate:
    samples = len(examples) * step.samples
    per_call = recipe.engine.samples_at_once(step.samples)
    rule = recipe.finalizer if step.finalize else None
    prompts = sum(_prompt_tokens(recipe, step, example) for example in examples) * step.samples
    completions = samples * step.max_tokens
    if rule is not None:
        prompts += sum(_finalizer_tokens(recipe, rule, step, example) for example in examples) * step.samples
        completions += samples * rule.max_tokens
    ids = ID_COPIES * step.samples * sum(len(example.example_id.encode()) for example in examples)
    # text in the journal and, later, in a shard: both are there for a moment
    disk = 2 * (completions * (TOKEN_BYTES + ID_BYTES) + samples * (ROW_BYTES + step.logprobs * LOGPROB_BYTES)) + ids
    return _PoolEstimate(
        pool=step.pool,
        action=step.action,
        samples=samples,
        calls=len(examples) * -(-step.samples // per_call),
        finalizers=0 if rule is None else samples,
        prompt_tokens=prompts,
        completion_tokens=completions,
        disk_bytes=disk,
    )


def _prompt_tokens(recipe: Recipe, step: PoolStep, example: Prepared) -> int:
    prompt = prompt_of(recipe, step, example, lambda *_: Attempt())
    return 0 if prompt is None else _bytes(prompt) + _written(recipe, step)


def _written(recipe: Recipe, step: PoolStep) -> int:
    """Tokens that a model wrote and a prompt repeats: the attempt, wherever the prompt or its conversation names it."""
    if step.of is None:
        return 0
    parent = recipe.step_of(step.of)
    template = recipe.prompts[step.prompt]
    tokens = parent.max_tokens + (recipe.finalizer.max_tokens if recipe.finalizer is not None else 0)
    times = template.text.count("{{attempt}}") + template.text.count("{{answer}}")
    again = template.text.count("{{prompt}}") + sum(role == "conversation" for role, _ in template.parts)
    return tokens * times + _written(recipe, parent) * again


def _finalizer_tokens(recipe: Recipe, rule: FinalizerSettings, step: PoolStep, example: Prepared) -> int:
    prompt = finalizer_prompt(recipe, example, "")
    return _bytes(prompt) + min(step.max_tokens, 4 * rule.tail) * recipe.prompts[rule.prompt].text.count("{{tail}}")


def _bytes(prompt: Prompt) -> int:
    texts = [prompt] if isinstance(prompt, str) else [message.content for message in prompt]
    return sum(len(text.encode()) + PER_MESSAGE for text in texts)
