"""What a manifest records of a run: models, settings, texts of prompts, versions, and pool by pool how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generate.engines.base import Engine
from generate.engines.weights import platform_versions
from generate.journal.database import Journal, differing_key_text
from generate.journal.queue import BESIDE
from generate.loops.loop import prompts_of
from generate.passes.embedding import Embedder
from generate.recipes.recipe import LoopStep, PoolStep, Recipe, without_engine
from generate.sampling.context import Context
from generate.sampling.samples import FINALIZER
from generate.sampling.services import Service
from toolkit.errors import MismatchError
from toolkit.settings import flatten

MODELS = "models"
ENGINE, EMBEDDING = "engine", "embedding"


def engine_key(name: str) -> str:
    """The use of the engine of a name, under which its record is kept."""
    return f"engines.{name}" if name else ENGINE


DECIDING = ("model", "revision", "weights_sha256", "sha256", "pooling", "max_tokens", "dtype", "device", "context")
"""Keys of a model's record that must stay equal between two runs; versions and batch sizes may change."""
GROWING = ("reported_models", "system_fingerprints")
"""Keys of a model's record that servers state in each answer; they are collected over all runs."""


class ModelsSeen:
    """The records of the models of a log, by use: earlier records, and those of open models."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: dict[str, dict[str, Any]] = {} if journal.has_no_events() else journal.stored_mapping(MODELS)
        self.settled: set[str] = set()

    def store_record(self, use: str, model: Engine | Embedder | Service) -> None:
        """Store a model's record, a server's with each answer. ThinkbackError where another model answered before."""
        if use in self.settled and not any(key in self.known[use] for key in GROWING):
            return
        now: dict[str, Any] = dict(model.describe())
        if use.startswith(ENGINE):
            now = {"name": model.name, "model": model.model, **now}  # type: ignore[union-attr]
        before = self.known.get(use)
        if before is not None:
            differs = differing_key_text(before, now, [key for key in DECIDING if key in before], most=18)
            if differs is not None:
                raise MismatchError(
                    f"`{self.journal.out}` was begun with another model: the {use}'s {differs}; name another `out`"
                )
            now |= {key: sorted({*before.get(key, ()), *now[key]}) for key in GROWING if key in now}
        self.settled.add(use)
        if now != before:
            self.known[use] = now
            self.journal.store_mapping(MODELS, self.known)


SEEDS = "first 4 bytes, without the sign bit, of SHA-256 of recipe seed, example, pool and index, joined by byte 0"


def source_of_run(
    recipe: Recipe,
    identity: Mapping[str, Any],
    models: Mapping[str, Mapping[str, Any]],
    context: Context,
    seconds: Mapping[str, float],
    services_s: Mapping[tuple[str, str], float],
    failures: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """Settings, texts of prompts, versions; per pool model, engine, prompt, sampling, seed, wall-clock seconds.

    `models`: what engine and encoder say of themselves (ModelsSeen). `seconds`: wall-clock per pool, finalizers
    under their own name; `services_s`: those of searches and scores, by pool and kind. `failures`: calls without
    traces, and why.
    """
    source: dict[str, Any] = {
        "generated_by": "thinkback generate",
        "recipe": recipe.name,
        "seed": recipe.seed,
        "seeds": SEEDS,
        "shard": identity["shard"],
        "versions": platform_versions(),
        "prompts": {name: template.text for name, template in recipe.prompts.items()},
        "pools": {
            step.pool: _pool_record(recipe, step, models[engine_key(step.engine)], seconds) for step in recipe.steps
        },
        "failures": [{"call": call, "reason": reason} for call, reason in failures],
        "settings": dict(identity),
    }
    for loop in recipe.loop:
        spent = {kind: round(spent, 3) for (pool, kind), spent in services_s.items() if pool == loop.pool}
        source["pools"][loop.pool] = _loop_pool_record(recipe, loop, models[engine_key(loop.engine)], seconds, spent)
    services = {use: dict(known) for use, known in models.items() if use.startswith(("score.", "search."))}
    if services:
        source["services"] = services
    if context.pool is not None:
        source["few_shot"] = {"examples": len(context.pool.ids), "left_out_as_data": context.pool.excluded}
    if EMBEDDING in models:
        source["embedding"] = dict(models[EMBEDDING])
    return source


def _pool_record(
    recipe: Recipe, step: PoolStep, engine: Mapping[str, Any], seconds: Mapping[str, float]
) -> dict[str, Any]:
    sampling = without_engine(flatten(step))
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


def _loop_pool_record(
    recipe: Recipe,
    step: LoopStep,
    engine: Mapping[str, Any],
    seconds: Mapping[str, float],
    services_s: Mapping[str, float],
) -> dict[str, Any]:
    """The record of a loop's pool. services_s: seconds of its searches and scores, by kind."""
    return {
        "model": engine["model"],
        "engine": dict(engine),
        "action": "solve",
        "loop": step.name,
        **prompts_of(step.loop),
        "sampling": {key: value for key, value in flatten(step.loop).items() if key not in prompts_of(step.loop)},
        "seed": recipe.seed,
        "wall_clock_s": round(sum(s for pool, s in seconds.items() if pool.partition(BESIDE)[0] == step.pool), 3),
        "services_s": dict(services_s),
    }
