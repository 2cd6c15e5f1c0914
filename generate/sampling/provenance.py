"""How a log came about: whether a run goes on with the one in `out`, and the manifest's `source`.

Is the log in `out` of this recipe, and by the same models? If not, errors say what differs, the first in the recipe's
order. The recipe names a model, and another one may lie under that name on another day. So what an engine and an
encoder say of themselves is kept in the journal from the first call on, and compared whenever one is opened: weights by
their hash, folders by their name. It is also what the manifest tells, with all that servers reported in all runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from generate.engines.base import Engine
from generate.engines.weights import versions_here
from generate.journal.database import BEGUN, FOLDER, Journal, difference
from generate.journal.events import Answered
from generate.passes.embedding import Embedder
from generate.recipes.recipe import PoolStep, Recipe
from generate.sampling.context import Context
from generate.sampling.samples import FINALIZER
from toolkit.errors import ThinkbackError
from toolkit.log import open_log
from toolkit.settings import flatten


def check_out(identity: Mapping[str, Any], out: Path) -> None:
    """ThinkbackError where `out` holds a complete log, of this recipe or of another, or something else."""
    if (out / "manifest.json").exists():
        log = open_log(out)
        source = log.manifest.source if log.manifest is not None else None
        before = source.get("settings") if isinstance(source, Mapping) else None
        if not isinstance(source, Mapping) or not isinstance(before, Mapping):
            raise ThinkbackError(f"`{out}` is a log that no recipe made: name another `out`")
        _compare(identity, before, out)
        failed = len(source.get("failures") or ())
        calls = f"{failed:,} call{'s' if failed > 1 else ''} failed permanently (`source.failures` of its manifest)"
        raise ThinkbackError(
            f"`{out}` is complete (shard {before['shard']}: {log.rows('examples'):,} examples,"
            f" {log.rows('traces'):,} traces): nothing is left to generate"
            + (f"; {calls}: another `out` asks again" if failed else "")
        )
    if out.is_dir() and not (out / FOLDER).exists() and any(out.iterdir()):
        raise ThinkbackError(f"`{out}` holds something that no recipe made: name another `out`")


def check_begun(identity: Mapping[str, Any], journal: Journal, made_of: Mapping[str, Any]) -> None:
    """ThinkbackError where the journal holds answers under other settings; else it is begun with these."""
    if next(journal.events(Answered), None) is not None:
        _compare(identity, journal.kept(BEGUN), journal.out)
    journal.append((), {BEGUN: identity, MADE_OF: made_of})


def _compare(now: Mapping[str, Any], before: Mapping[str, Any], out: Path) -> None:
    differs = difference(before, now)
    if differs is not None:
        raise ThinkbackError(f"`{out}` holds a log of other settings: {differs}; name another `out`")


MADE_OF = "made_of"
"""Under this name is kept which recipe a run is of, and which part of it."""
MODELS = "models"
ENGINE, EMBEDDING = "engine", "embedding"
DECIDING = ("model", "revision", "weights_sha256", "sha256", "pooling", "max_tokens", "dtype", "device", "context")
"""What decides which answers and seconds come back; versions and batch sizes may change between two runs."""
GROWING = ("reported_models", "system_fingerprints")
"""What a server says of itself, answer by answer: of all runs together."""


class ModelsSeen:
    """The models of one log, by what they are for: what is known of them from before, and of those that are open."""

    def __init__(self, journal: Journal):
        self.journal = journal
        self.known: dict[str, dict[str, Any]] = {} if journal.empty() else journal.kept(MODELS)
        self.settled: set[str] = set()

    def settle(self, what: str, model: Engine | Embedder) -> None:
        """Keep what a model says of itself, which is asked once, but again of what tells more with each answer.
        ThinkbackError where another one answered before."""
        if what in self.settled and not any(key in self.known[what] for key in GROWING):
            return
        now: dict[str, Any] = dict(model.describe())
        if what == ENGINE:
            now = {"name": model.name, "model": model.model, **now}  # type: ignore[union-attr]
        before = self.known.get(what)
        if before is not None:
            differs = difference(before, now, [key for key in DECIDING if key in before], most=18)
            if differs is not None:
                raise ThinkbackError(
                    f"`{self.journal.out}` was begun with another model: the {what}'s {differs}; name another `out`"
                )
            now |= {key: sorted({*before.get(key, ()), *now[key]}) for key in GROWING if key in now}
        self.settled.add(what)
        if now != before:
            self.known[what] = now
            self.journal.keep(MODELS, self.known)


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
