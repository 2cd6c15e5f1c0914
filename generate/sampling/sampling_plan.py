"""What a recipe will generate: its examples in a shard, its worked examples, and what the log is known by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from generate.recipes.example_shards import shard_of
from generate.recipes.recipe import Recipe
from generate.sampling.prompt_parts import FewShotPool, make_pool
from generate.sampling.recipe_examples import check_examples, digest_of, load_examples, with_reference


@dataclass(frozen=True)
class SamplingPlan:
    """What is to be generated: a recipe, its examples in this shard, and the settings that the log is known by.

    `notes`: what was counted in the data, and in the worked examples of prompts, beside the published counts.
    """

    recipe: Recipe
    examples: pl.DataFrame
    pool: FewShotPool | None
    identity: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def traces(self) -> int:
        """How many traces there will be, failures apart."""
        return self.examples.height * sum(step.samples for step in self.recipe.steps)


def make_plan(recipe: Recipe, shard: tuple[int, int] = (1, 1), limit: int | None = None) -> SamplingPlan:
    """Load the examples, the first `limit` of them, and of these the shard (i, n), counted from 1."""
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
    mine = shard_of(rows, shard, limit)
    rows = rows if limit is None else rows.head(limit)
    identity |= {"data.examples": rows.height, "data.sha256": digest_of(rows), "shard": f"{shard[0]}/{shard[1]}"}
    return SamplingPlan(recipe, mine, pool, identity, notes)
