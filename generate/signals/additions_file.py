"""Reading what a recipe adds to a log: the tables `[[verify]]`, `[[features]]` and `[[states]]` of its file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from generate.recipes.prompting import Template, read_template
from generate.recipes.recipe import Embedding
from generate.recipes.recipe_file import (
    check_keys,
    own_name,
    read_chat_template,
    read_engine,
    read_head,
    read_optional,
    read_toml,
    tables_of,
)
from generate.recipes.settings import from_table
from generate.signals.additions import (
    KINDS,
    Additions,
    Asked,
    Features,
    LogProb,
    States,
    TeacherForced,
    Verify,
    prompt_names,
)
from toolkit.errors import ThinkbackError, suggest


def load_additions(recipe: str | Path, settings: Sequence[str] = ()) -> Additions:
    """Read what a recipe adds to a log. `settings` are `KEY=VALUE` texts, as `verify.judge.max_tokens=32`.

    ThinkbackError: one line that names the file and the key.
    """
    top, path = read_toml(recipe, settings)
    try:
        return _additions(top, path)
    except ThinkbackError as error:
        raise ThinkbackError(f"recipe `{path.name}`: {error}") from None


def _additions(top: Mapping[str, Any], path: Path) -> Additions:
    check_keys(top)
    verify = tuple(_verifier(table) for table in tables_of(top, "verify"))
    features = tuple(
        _named(from_table(Features, table, _place("features", table))) for table in tables_of(top, "features")
    )
    states = tuple(_named(from_table(States, table, _place("states", table))) for table in tables_of(top, "states"))
    if not (verify or features or states):
        raise ThinkbackError("adds nothing to a log: it has no `[[verify]]`, `[[features]]` or `[[states]]`")
    for place, steps in (("verify", verify), ("features", features), ("states", states)):
        _check_names(place, [step.name for step in steps])
    _check_prefixes(features)
    name, seed = read_head(top, path)
    folder = path.resolve().parent
    embedding = read_optional(Embedding, top, "embedding")
    if embedding is None and any(step.kind in ("claims", "peers") for step in features):
        raise ThinkbackError("features that compare texts need `[embedding]` with a `model`")
    engine = read_engine(top["engine"]) if "engine" in top else None
    if engine is None and any(isinstance(step, Asked) for step in verify):
        raise ThinkbackError("a verifier that is asked needs `[engine]`")
    names = dict.fromkeys(name for step in (*verify, *states) for name in prompt_names(step))
    made = Additions(
        file=path.name,
        folder=folder,
        name=name,
        seed=seed,
        engine=engine,
        embedding=embedding,
        verify=verify,
        features=features,
        states=states,
        prompts={file: read_template(file, folder) for file in names},
    )
    own = dict.fromkeys(step.chat_template for step in (*verify, *states) if isinstance(step, TeacherForced))
    chats = {name: _chat_template(name, made) for name in own if name is not None}
    return replace(made, prompts={**made.prompts, **read_chat_template(engine, made.find), **chats})


def _chat_template(name: str, additions: Additions) -> Template:
    try:
        return Template(name, additions.find(name).read_text(encoding="utf-8"), ())
    except (OSError, UnicodeDecodeError) as error:
        raise ThinkbackError(f"`chat_template` {name} can't be read: {error}") from None


def _verifier(table: Any) -> Verify:
    place = _place("verify", table)
    kind = table.get("kind") if isinstance(table, Mapping) else None
    if kind is None:
        raise ThinkbackError(f"`{place}.kind` is missing; {suggest('', KINDS)}")
    if kind not in KINDS:
        raise ThinkbackError(f"`{place}.kind` can't be `{kind}`; {suggest(str(kind), KINDS)}")
    made: Verify = from_table(KINDS[kind], table, place)
    if isinstance(made, Asked) and made.first is not None and made.kind != "listwise":
        raise ThinkbackError(f"`{place}.first` goes with the kind `listwise`")
    if isinstance(made, LogProb) and made.model is None and (made.prompt or made.prompts or made.chat_template):
        raise ThinkbackError(f"`{place}.prompt` goes with a `model`: the log's own log-probabilities need no prompt")
    return made


def _named(step: Any) -> Any:
    """Features are named after their kind, states after their model's folder, unless they have a name."""
    if step.name:
        return step
    return type(step)(**{**vars(step), "name": step.kind if isinstance(step, Features) else Path(step.model).name})


def _check_names(place: str, names: Sequence[str]) -> None:
    for number, name in enumerate(names):
        if not re.fullmatch(r"[^/\s.][^/\n]*", name):
            raise ThinkbackError(f"`{place}.name` `{name}` must be a name without `/` that begins with no dot")
        if name in names[:number]:
            raise ThinkbackError(f"`{place}.name` `{name}` names two steps: give each its own `name`")


def _check_prefixes(steps: Sequence[Features]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for step in steps:
        if step.kind == "contradiction" and step.model is None:
            raise ThinkbackError(f"`features.{step.name}.model` is missing: name the folder of an NLI model")
        if step.pattern is not None:
            _check_pattern(step)
        sort = f"{step.kind}-{step.peers}" if step.kind in ("peers", "contradiction") else step.kind
        if (sort, step.prefix) in seen:
            raise ThinkbackError(
                f"`features.{step.name}` writes the columns of `{seen[sort, step.prefix]}`: set a `prefix`"
            )
        seen[sort, step.prefix] = step.name


def _check_pattern(step: Features) -> None:
    try:
        groups = re.compile(step.pattern or "").groups
    except re.error as error:
        raise ThinkbackError(f"`features.{step.name}.pattern` is no regular expression: {error}") from None
    if groups < 1:
        raise ThinkbackError(f"`features.{step.name}.pattern` has no group: put what is wanted in parentheses")


def _place(kind: str, table: Any) -> str:
    name = own_name(table) if isinstance(table, Mapping) else None
    return f"{kind}.{name}" if isinstance(name, str) else kind
