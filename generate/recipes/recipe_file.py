"""Reading a recipe's file: TOML, strict keys, prompts beside it or shipped, settings given on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from generate.engines import read_settings, settings_of
from generate.engines.openai_settings import check_extra
from generate.recipes.prompting import Template, read_template
from generate.recipes.recipe import (
    Answers,
    Data,
    Embedding,
    EngineSettings,
    Evidence,
    FewShot,
    Finalizer,
    Recipe,
    Revise,
    Sample,
)
from generate.recipes.settings import from_table, parse_toml
from generate.sampling.trace_rows import MATH_JUDGE
from toolkit.answers import JUDGES
from toolkit.errors import ThinkbackError, suggest

RECIPES = Path(__file__).resolve().parent / "shipped"
_TOP = ("name", "seed", "license", "data", "engine", "answers", "embedding", "evidence", "few_shot", "finalizer",
        "sample", "revise", "verify", "features", "states", "classifier")  # fmt: skip
_ENGINE = ("kind", "model", "samples_per_call")
_LISTS = ("sample", "revise", "verify", "features", "states")


def shipped_recipes() -> tuple[str, ...]:
    """Names of the recipes that come with the product."""
    return tuple(sorted(path.stem for path in RECIPES.glob("*.toml")))


def load_recipe(recipe: str | Path, settings: Sequence[str] = ()) -> Recipe:
    """Read a recipe file, or a shipped one by its name. `settings` are `KEY=VALUE` texts that overrule the file.

    A key is dotted, `engine.model` or `sample.n15.samples`, and a value is TOML, or else plain text.
    ThinkbackError: one line that names the file and the key.
    """
    top, path = read_toml(recipe, settings)
    try:
        return _recipe(top, path)
    except ThinkbackError as error:
        raise ThinkbackError(f"recipe `{path.name}`: {error}") from None


def read_toml(recipe: str | Path, settings: Sequence[str] = ()) -> tuple[dict[str, Any], Path]:
    """A recipe's file as it stands, overruled by the settings, and where it lies."""
    path = _path(recipe)
    top = parse_toml(path)
    try:
        for given in settings:
            _overrule(top, given)
    except ThinkbackError as error:
        raise ThinkbackError(f"recipe `{path.name}`: {error}") from None
    return top, path


def _path(recipe: str | Path) -> Path:
    path = Path(recipe)
    if path.is_file():
        return path
    if path.suffix or path.name != str(recipe):
        raise ThinkbackError(f"recipe `{recipe}`: there is no such file; name a TOML file or a shipped recipe")
    if path.name not in shipped_recipes():
        raise ThinkbackError(f"`{recipe}` is no file and no shipped recipe; {suggest(path.name, shipped_recipes())}")
    return RECIPES / f"{path.name}.toml"


def _overrule(top: dict[str, Any], given: str) -> None:
    key, equals, text = given.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise ThinkbackError(f"`{given}`: write a setting as KEY=VALUE, as `engine.model=llama3.2`")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    table: Any = top
    for place, name in enumerate(names[:-1]):
        if isinstance(table, dict) and place == 0 and name in _LISTS:
            table = {own_name(item): item for item in top.get(name, []) if isinstance(item, dict)}
            if len(names) > 2 and names[1] not in table:
                what = "pool" if name in ("sample", "revise") else "name"
                raise ThinkbackError(f"`{key}`: there is no such {what}; {suggest(names[1], map(str, table))}")
        else:
            table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict) or (names[0] in _LISTS and len(names) != 3):
        raise ThinkbackError(f"`{key}` names no setting")
    table[names[-1]] = value


def own_name(table: Mapping[str, Any]) -> Any:
    """What a table of a list is called: its pool, its name, else its kind or its model's folder."""
    named = table.get("pool") or table.get("name") or table.get("kind")
    return named or (Path(table["model"]).name if isinstance(table.get("model"), str) else None)


def check_keys(top: Mapping[str, Any]) -> None:
    """ThinkbackError where a file has a table that no recipe has."""
    for key in top:
        if key not in _TOP:
            raise ThinkbackError(f"unknown key `{key}`; {suggest(key, _TOP)}")


def read_head(top: Mapping[str, Any], path: Path) -> tuple[str, int]:
    """The recipe's name and seed."""
    name = _of_kind(top.get("name", path.stem), str, "name", "text in quotes")
    return name, _of_kind(top.get("seed", 0), int, "seed", "a whole number")


def tables_of(top: Mapping[str, Any], name: str) -> list[Any]:
    """The tables of a list such as `[[sample]]`."""
    given = top.get(name, [])
    if not isinstance(given, list):
        each = "pool" if name in ("sample", "revise") else "one"
        raise ThinkbackError(f"`{name}` must be written as `[[{name}]]`, once for each {each}")
    return given


def _recipe(top: Mapping[str, Any], path: Path) -> Recipe:
    check_keys(top)
    name, seed = read_head(top, path)
    if not {"data", "sample"} & set(top) and {"verify", "features", "states"} & set(top):
        raise ThinkbackError("makes no log, but adds to one: name it with `--on LOG`")
    for needed in ("data", "engine", "sample"):
        if needed not in top:
            raise ThinkbackError(f"`[{needed}]` is missing" if needed != "sample" else "`[[sample]]` is missing")
    recipe = Recipe(
        file=path.name,
        folder=path.resolve().parent,
        name=name,
        seed=seed,
        license=_of_kind(top["license"], str, "license", "text in quotes") if "license" in top else None,
        data=from_table(Data, top["data"], "data"),
        engine=read_engine(top["engine"]),
        answers=_answers(top.get("answers", {})),
        embedding=read_optional(Embedding, top, "embedding"),
        evidence=read_optional(Evidence, top, "evidence"),
        few_shot=read_optional(FewShot, top, "few_shot"),
        finalizer=read_optional(Finalizer, top, "finalizer"),
        sample=_list(Sample, top, "sample"),
        revise=_list(Revise, top, "revise"),
        prompts={},
    )
    _check_pools(recipe)
    _check_extra(recipe)
    if recipe.embedding is None and (recipe.evidence or (recipe.few_shot and recipe.few_shot.choose == "similar")):
        raise ThinkbackError("evidence and few-shot examples chosen by similarity need `[embedding]` with a `model`")
    return Recipe(**{**vars(recipe), "prompts": _prompts(recipe)})


def read_engine(table: Any) -> EngineSettings:
    """The table `[engine]`; what is the engine's own is checked by it."""
    if not isinstance(table, Mapping):
        raise ThinkbackError("`engine` must be a table")
    own = {key: value for key, value in table.items() if key in _ENGINE}
    further = {key: value for key, value in table.items() if key not in _ENGINE}
    made = from_table(EngineSettings, {**own, "settings": further}, "engine")
    if not made.model.strip():
        raise ThinkbackError("`engine.model` is empty: name a model, or its folder")
    read_settings(settings_of(made.kind), {"model": made.model, **further}, made.kind)
    return made


def _answers(table: Any) -> Answers:
    made = from_table(Answers, table, "answers")
    judges = (*JUDGES, MATH_JUDGE)
    if made.judge not in judges:
        raise ThinkbackError(f"`answers.judge` can't be `{made.judge}`; {suggest(made.judge, judges)}")
    if made.kind == "label" and not made.labels:
        raise ThinkbackError("`answers.kind` is `label`, so `answers.labels` must list the label space")
    if ("pattern" in made.read) != (made.pattern is not None):
        raise ThinkbackError("`answers.pattern` and the way `pattern` in `answers.read` go together: give both")
    return made


def _check_pools(recipe: Recipe) -> None:
    seen: dict[str, int] = {}
    for step in recipe.steps:
        place = "sample" if isinstance(step, Sample) else "revise"
        if not step.pool or "/" in step.pool or step.pool in seen:
            reason = "names two steps" if step.pool in seen else "must be a name without `/`"
            raise ThinkbackError(f"`{place}.pool` `{step.pool}` {reason}")
        if isinstance(step, Revise):
            if step.of not in seen:
                raise ThinkbackError(
                    f"`revise.{step.pool}.of`: no pool `{step.of}` before it; {suggest(step.of, seen)}"
                )
            if step.of_sample >= seen[step.of]:
                raise ThinkbackError(
                    f"`revise.{step.pool}.of_sample` is {step.of_sample}, but `{step.of}` has {seen[step.of]} traces"
                )
            if step.action == "solve" or not step.action:
                raise ThinkbackError(f"`revise.{step.pool}.action` must say what is done to the attempt, not `solve`")
        seen[step.pool] = step.samples


def _check_extra(recipe: Recipe) -> None:
    for place, part in [*((step.pool, step) for step in recipe.steps), ("finalizer", recipe.finalizer)]:
        if part is not None and part.extra:
            if recipe.engine.kind != "openai":
                raise ThinkbackError(f"`{place}`: `extra` is for servers: the engine is `{recipe.engine.kind}`")
            check_extra(part.extra, f"`{place}`: `extra`")


def _prompts(recipe: Recipe) -> dict[str, Template]:
    names = [step.prompt for step in recipe.steps]
    names += [part.prompt for part in (recipe.few_shot, recipe.finalizer) if part is not None]
    found = {name: read_template(name, recipe.folder) for name in dict.fromkeys(names)}
    return found | read_chat_template(recipe.engine, recipe.find)


def read_chat_template(engine: EngineSettings | None, find: Callable[[str], Path]) -> dict[str, Template]:
    """The chat template of an engine by its name, as if it were a prompt file; empty where it has none of its own."""
    own = None if engine is None else engine.settings.get("chat_template")
    if own is None:
        return {}
    try:
        return {own: Template(own, find(own).read_text(encoding="utf-8"), ())}
    except (OSError, UnicodeDecodeError) as error:
        raise ThinkbackError(f"`engine.chat_template` {own} can't be read: {error}") from None


def read_optional(cls: type[Any], top: Mapping[str, Any], name: str) -> Any:
    """A table that may be missing, as its settings class."""
    return from_table(cls, top[name], name) if name in top else None


def _list(cls: type[Any], top: Mapping[str, Any], name: str) -> tuple[Any, ...]:
    return tuple(from_table(cls, table, _place(name, table)) for table in tables_of(top, name))


def _place(name: str, table: Any) -> str:
    pool = table.get("pool") if isinstance(table, Mapping) else None
    return f"{name}.{pool}" if isinstance(pool, str) else name


def _of_kind(value: Any, kind: type[Any], name: str, wanted: str) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ThinkbackError(f"`{name}` must be {wanted}, not {value!r}")
    return value
