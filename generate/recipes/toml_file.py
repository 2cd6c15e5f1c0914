"""A recipe's file: TOML, overruled by `KEY=VALUE` settings; and where the paths that it names are found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolkit import documents
from toolkit.errors import InvalidError, NotFoundError, UnknownError, error_prefix, quote, suggest
from toolkit.settings import Checked, from_table, setting

SHIPPED = Path(__file__).resolve().parent / "shipped"
TABLES = ("name", "seed", "license", "data", "engine", "engines", "answers", "embedding", "evidence", "few_shot",
          "finalizer", "sample", "revise", "loop", "score", "search", "verify", "features", "states",
          "classifier")  # fmt: skip
LISTS = ("sample", "revise", "loop", "verify", "features", "states")


@dataclass(frozen=True)
class _RecipeHead(Checked):
    """The keys before a recipe's tables."""

    name: str = setting()
    seed: int = setting(0)
    license: str | None = setting(None)


def shipped_recipes(folder: Path = SHIPPED) -> tuple[str, ...]:
    """Names of the recipes that come with the product."""
    return tuple(sorted(path.stem for path in folder.glob("*.toml")))


def read_toml(recipe: str | Path, settings: Sequence[str] = ()) -> tuple[dict[str, Any], Path]:
    """A recipe's tables, overruled by the settings, and where its file lies.

    `recipe` is a file, or the name of a shipped one. ThinkbackError: one line that names the file and the key.
    """
    path = _path(recipe)
    top = parse_toml(path)
    with name_file_in_errors(path):
        for given in settings:
            _override_setting(top, given)
        for key in top:
            if key not in TABLES:
                raise UnknownError(f"unknown key `{key}`; {suggest(key, TABLES)}")
    return top, path


def name_file_in_errors(path: Path) -> AbstractContextManager[None]:
    """Put the recipe's file before the line of every error raised within."""
    return error_prefix(f"recipe `{path.name}`: ")


def parse_toml(path: Path) -> dict[str, Any]:
    """The tables of a file. ThinkbackError where it can't be read or is not valid TOML."""
    named = f"recipe `{path.name}`"
    return documents.parse_toml(documents.read_text(path, named), named)


@dataclass(frozen=True)
class RecipePart:
    """A recipe, or a part of one, of the file `file` in `folder`."""

    file: str
    folder: Path
    name: str
    seed: int

    def resolve_path(self, path: str) -> Path:
        """A path of the recipe: beside it where that exists, else as given, in the working directory."""
        beside = self.folder / path
        return beside if beside.exists() else Path(path)

    def resolve_model(self, model: str) -> str:
        """A model's folder as `find` finds it, or its name on a hub."""
        folder = self.resolve_path(model)
        return str(folder) if folder.is_dir() else model


def _table_label(table: Any) -> str | None:
    """The name of a table in a list: its pool, its name, else its kind or its model's folder."""
    if not isinstance(table, Mapping):
        return None
    model = Path(table["model"]).name if isinstance(table.get("model"), str) else None
    named = (table.get("pool"), table.get("name"), table.get("kind"), model)
    return next((name for name in named if isinstance(name, str) and name), None)


def table_place(name: str, table: Any) -> str:
    """How errors name a table of the list `name`, as `sample.n15`."""
    label = _table_label(table)
    return name if label is None else f"{name}.{label}"


def read_head(top: Mapping[str, Any], path: Path) -> _RecipeHead:
    """The recipe's name, seed and license."""
    return from_table(
        _RecipeHead, {"name": path.stem, **{key: top[key] for key in ("name", "seed", "license") if key in top}}
    )


def read_optional(cls: type[Any], top: Mapping[str, Any], name: str) -> Any:
    """A table that may be missing, as its settings class."""
    return from_table(cls, top[name], name) if name in top else None


def table_of(top: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A table of tables, such as `[engines.NAME]`; empty where there is none."""
    given = top.get(name, {})
    if not isinstance(given, Mapping) or not all(isinstance(one, Mapping) for one in given.values()):
        raise InvalidError(f"`{name}` is {quote(given)}; write it as `[{name}.NAME]`, once for each")
    return given


def tables_of(top: Mapping[str, Any], name: str) -> list[Any]:
    """The tables of a list such as `[[sample]]`."""
    given = top.get(name, [])
    if not isinstance(given, list):
        raise InvalidError(f"`{name}` is {quote(given)}; write it as `[[{name}]]`, once for each")
    return given


def _path(recipe: str | Path) -> Path:
    path = Path(recipe)
    if path.is_file():
        return path
    if path.suffix or path.name != str(recipe):
        raise NotFoundError(f"recipe `{recipe}`: there is no such file; name a TOML file or a shipped recipe")
    if path.name not in shipped_recipes():
        raise NotFoundError(
            f"`{recipe}` is neither a file nor a shipped recipe; {suggest(path.name, shipped_recipes())}"
        )
    return SHIPPED / f"{path.name}.toml"


def _override_setting(top: dict[str, Any], given: str) -> None:
    key, equals, text = given.partition("=")
    names = key.strip().split(".")
    if not equals or not all(names):
        raise InvalidError(f"`{given}`: write a setting as KEY=VALUE, as `engine.model=llama3.2`")
    value = documents.toml_value(text)
    table: Any = top
    for place, name in enumerate(names[:-1]):
        if isinstance(table, dict) and place == 0 and name in LISTS:
            listed = top.get(name, [])
            table = {_table_label(item): item for item in listed if isinstance(item, dict)}
            if len(names) > 2 and names[1] not in table:
                what = "pool" if name in ("sample", "revise", "loop") else "name"
                raise UnknownError(f"`{key}`: there is no such {what}; {suggest(names[1], map(str, table))}")
        else:
            table = table.setdefault(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict) or (names[0] in LISTS and len(names) != 3):
        raise UnknownError(f"`{key}` names no setting")
    table[names[-1]] = value
