"""The calls of a pool's samples: prompt, seeds and temperatures, grouped as the engine likes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from generate.engines.base import Call
from generate.recipes.prompting import Rendered
from generate.recipes.recipe import EngineSettings, Finalizer, Step
from generate.recipes.temperatures import seed_of

FINALIZER = "/finalizer"
"""Behind a pool's name: the calls that read an answer for it. No pool has a slash in its name."""


@dataclass(frozen=True)
class Asked:
    """A call and the samples that it is for: `indices` of (example, pool)."""

    call: Call
    example_id: str
    pool: str
    indices: tuple[int, ...]


def samples_per_call(engine: EngineSettings, step: Step) -> int:
    """How many samples of a step go into one call: as the recipe says; else those of one request of a server, and all
    on an engine in this process."""
    if engine.samples_per_call is not None:
        return engine.samples_per_call
    return int(engine.settings.get("samples_per_request", 1)) if engine.kind == "openai" else step.samples


def ask_samples(
    step: Step, recipe_seed: int, example_id: str, prompt: Rendered, indices: Sequence[int], per_call: int
) -> list[Asked]:
    """The calls for some samples of one example, at most `per_call` samples each."""
    groups = [tuple(indices[start : start + per_call]) for start in range(0, len(indices), per_call)]
    asked = []
    for group in groups:
        span = str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}"
        call = Call(
            key=f"{example_id}/{step.pool}/{span}",
            prompt=prompt,
            seeds=tuple(seed_of(recipe_seed, example_id, step.pool, index) for index in group),
            temperatures=tuple(
                step.temperature.temperature(recipe_seed, example_id, step.pool, index) for index in group
            ),
            max_tokens=step.max_tokens,
            top_p=step.top_p,
            stop=step.stop,
            logprobs=step.logprobs,
            extra=step.extra,
        )
        asked.append(Asked(call, example_id, step.pool, group))
    return asked


def ask_finalizer(rule: Finalizer, recipe_seed: int, example_id: str, pool: str, prompt: Rendered, index: int) -> Asked:
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
    return Asked(call, example_id, name, (index,))
