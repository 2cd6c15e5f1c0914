"""Reading a recipe's file: its tables and lists as settings, and the prompts beside it or shipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from generate.recipes.prompting import Template, read_template, read_whole
from generate.recipes.recipe import (
    AnswerSettings,
    DataSettings,
    EmbeddingSettings,
    EngineSettings,
    EvidenceSettings,
    FewShotSettings,
    FinalizerSettings,
    Recipe,
    ReviseStep,
    SampleStep,
)
from generate.recipes.toml_file import RecipePart, naming, place_of, read_head, read_optional, read_toml, tables_of
from toolkit.errors import ThinkbackError, shown
from toolkit.settings import from_table

_ENGINE = ("kind", "model", "samples_per_call")


def load_recipe(recipe: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, or a shipped one by its name. `settings` are `KEY=VALUE` strings that overrule the file.

    A key is dotted, `engine.model` or `sample.n15.samples`, and a value is TOML, or else a plain string.
    ThinkbackError: one line that names the file and the key.
    """
    top, path = read_toml(recipe, settings)
    with naming(path):
        return replace(_recipe(top, path), overruled=tuple(settings))


def _recipe(top: Mapping[str, Any], path: Path) -> Recipe:
    head = read_head(top, path)
    if not {"data", "sample"} & set(top) and {"verify", "features", "states"} & set(top):
        raise ThinkbackError("adds to an existing log and makes none: name that log as `on`")
    for needed in ("data", "engine", "sample"):
        if needed not in top or top[needed] == []:
            raise ThinkbackError(f"`{'[[sample]]' if needed == 'sample' else f'[{needed}]'}` is missing")
    recipe = Recipe(
        file=path.name,
        folder=path.resolve().parent,
        name=head.name,
        seed=head.seed,
        license=head.license,
        data=from_table(DataSettings, top["data"], "data"),
        engine=read_engine(top["engine"]),
        answers=from_table(AnswerSettings, top.get("answers", {}), "answers"),
        embedding=read_optional(EmbeddingSettings, top, "embedding"),
        evidence=read_optional(EvidenceSettings, top, "evidence"),
        few_shot=read_optional(FewShotSettings, top, "few_shot"),
        finalizer=read_optional(FinalizerSettings, top, "finalizer"),
        sample=_steps(SampleStep, top),
        revise=_steps(ReviseStep, top),
        prompts={},
    )
    parts = (*recipe.steps, *(part for part in (recipe.few_shot, recipe.finalizer) if part is not None))
    prompts = {name: read_template(name, recipe.folder) for name in dict.fromkeys(part.prompt for part in parts)}
    return replace(recipe, prompts=prompts | read_chat_template(recipe.engine, recipe))


def read_engine(table: Any) -> EngineSettings:
    """The table `[engine]`; what is the engine's own is checked by it."""
    if not isinstance(table, Mapping):
        raise ThinkbackError(f"`engine` is {shown(table)}; it takes a table")
    own = {key: value for key, value in table.items() if key in _ENGINE}
    further = {key: value for key, value in table.items() if key not in _ENGINE}
    return from_table(EngineSettings, {**own, "settings": further}, "engine")


def read_chat_template(engine: EngineSettings | None, recipe: RecipePart) -> dict[str, Template]:
    """The chat template of an engine by its name, as if it were a prompt file; empty where it has none of its own."""
    own = None if engine is None else engine.chat_template
    return {} if own is None else {own: read_whole(own, recipe.find(own), "engine.chat_template")}


def _steps(cls: type[Any], top: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(from_table(cls, table, place_of(cls.table, table)) for table in tables_of(top, cls.table))
