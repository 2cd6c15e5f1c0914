"""The manifest's `source`: how a log came about, so that its every number can be made again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generate.engines.weights import versions_here
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling.context import Context
from generate.sampling.identity import EMBEDDING, ENGINE
from generate.sampling.pool_calls import FINALIZER
from toolkit.settings import flatten

SEEDS = "first 4 bytes, without the sign bit, of SHA-256 of recipe seed, example, pool and index, joined by byte 0"


def source_of(
    recipe: Recipe,
    identity: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    context: Context,
    seconds: Mapping[str, float],
    failures: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Settings, texts of prompts, versions; per pool model, engine, prompt, sampling, seed, wall-clock seconds.

    `models`: what engine and encoder say of themselves (models_seen.py). `seconds`: wall-clock per pool, finalizers
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
