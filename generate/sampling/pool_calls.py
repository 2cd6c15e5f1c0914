"""The calls of a pool's samples: prompt, seeds and temperatures, grouped as the engine likes them."""

from __future__ import annotations

from collections.abc import Sequence

from generate.engines.base import Call, Prompt
from generate.journal.asking import JournalCall
from generate.recipes.recipe import FinalizerSettings, PoolStep
from generate.recipes.temperatures import seed_of

FINALIZER = "/finalizer"
"""Behind a pool's name: the calls that read an answer for it. No pool has a slash in its name."""


def ask_samples(
    step: PoolStep, recipe_seed: int, example_id: str, prompt: Prompt, indices: Sequence[int], per_call: int
) -> list[JournalCall]:
    """The calls for some samples of one example, at most `per_call` samples each."""
    asked = []
    for group in (tuple(indices[start : start + per_call]) for start in range(0, len(indices), per_call)):
        span = str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
        drawn = [(recipe_seed, example_id, step.pool, index) for index in group]
        call = Call(
            key=f"{example_id}/{step.pool}/{span}",
            prompt=prompt,
            seeds=tuple(seed_of(*one) for one in drawn),
            temperatures=tuple(step.temperature.temperature(*one) for one in drawn),
            max_tokens=step.max_tokens,
            top_p=step.top_p,
            stop=step.stop,
            logprobs=step.logprobs,
            extra=step.extra,
        )
        asked.append(JournalCall(call, example_id, step.pool, group))
    return asked


def ask_finalizer(
    rule: FinalizerSettings, recipe_seed: int, example_id: str, pool: str, prompt: Prompt, index: int
) -> JournalCall:
    """The call that reads the answer of one sample."""
    name = pool + FINALIZER
    call = Call(
        key=f"{example_id}/{pool}/{index}{FINALIZER}",
        prompt=prompt,
        seeds=(seed_of(recipe_seed, example_id, name, index),),
        temperatures=(rule.temperature,),
        max_tokens=rule.max_tokens,
        stop=rule.stop,
        extra=rule.extra,
    )
    return JournalCall(call, example_id, name, (index,))
