"""Mapping files: how the rows of a foreign table become a log. The manual's page on mapping files tells what they hold.

TOML; every value of a column is a column's name, an expression of polars' SQL, or a constant. A value that
is exactly a column's name is that column, however odd the name. Three columns are always there: `source_file` (the
file's name), `source_path` (below the folder that all files share) and `source_row` (from 1). After `explode`,
`element` is the place in the list, from 0.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toolkit.answers import JUDGES, KINDS, WAYS, check_pattern
from toolkit.documents import parse_toml, read_text, toml_value
from toolkit.errors import (
    ConflictError,
    InvalidError,
    LimitError,
    NotFoundError,
    RequiredError,
    UnknownError,
    error_prefix,
    quote,
    suggest,
)
from toolkit.imports.files import file_names
from toolkit.imports.files.paths import is_path
from toolkit.imports.rows.json_files import WHOLE
from toolkit.log import schema_of
from toolkit.log.contract.manifest import SEES
from toolkit.log.contract.schema import SCHEMAS
from toolkit.settings import check, from_table, setting

MAPS = Path(__file__).parents[1] / "maps"
ROW_ORDER = "row order"
Value = str | int | float | bool
Values = Mapping[str, Value]

_DERIVED = {"trace_id", "example_id"}  # keys of the tables that hang on the traces
_TRACES = tuple(name for name in schema_of("traces") if name != "example_id")
_VERIFIERS = tuple(name for name in schema_of("verifications") if name not in _DERIVED)


def _read_value(value: Any, place: str) -> Value:
    if not isinstance(value, str | int | float | bool):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a string, a number, true or false")
    return value


def _read_values(table: Any, place: str, known: Iterable[str] = (), needed: Iterable[str] = ()) -> dict[str, Value]:
    """Reads a table of expressions. Where `known` is given, other keys are errors."""
    if not isinstance(table, dict):
        raise InvalidError(f"`{place}` is {quote(table)}; it takes a table")
    for key in table if known else ():
        if key not in known:
            further = f" (further columns go under `[{place}.extra]`)" if place in SCHEMAS else ""
            raise UnknownError(f"unknown key `{key}` in `[{place}]`; {suggest(key, known)}{further}")
    for key in needed:
        if key not in table:
            raise RequiredError(
                f"`{place}.{key}` is missing: give a column, an expression, or a constant such as `{key} = \"'…'\"`"
            )
    return {key: _read_value(value, f"{place}.{key}") for key, value in table.items()}


def _read_features(table: Any, place: str) -> dict[str, Value]:
    features = _read_values(table, place)
    for name in _DERIVED & features.keys():
        raise ConflictError(f"`{place}.{name}` is the key of the table `features`: give the feature another name")
    return features


def _verifiers(given: Any, place: str) -> tuple[Values, ...]:
    tables = given if isinstance(given, list) else [given]
    return tuple(_read_values(table, place, _VERIFIERS, ("verifier", "score")) for table in tables)


@dataclass(frozen=True)
class _ExampleTable:
    """The table `[examples]` of a mapping: the log's columns, and further ones."""

    columns: Values
    extra: Values


@dataclass(frozen=True)
class RowTable(_ExampleTable):
    """One `[rounds]` or `[checks]` table: which rows, and which columns."""

    where: Value | None


@dataclass(frozen=True)
class TraceTable(RowTable):
    """One `[traces]` table: which rows, which columns, their parent, verifiers and features."""

    parent: Values
    verifiers: tuple[Values, ...]
    features: Values


def _read_columns(given: Any, place: str, known: Iterable[str], needed: Iterable[str]) -> dict[str, Any]:
    """Reads the columns of `[examples]` or `[traces]` and their `extra`, which may name no column of the contract."""
    table = dict(given) if isinstance(given, dict) else given
    extra = _read_values(table.pop("extra", {}) if isinstance(table, dict) else {}, f"{place}.extra")
    for name in extra.keys() & schema_of(place).keys():
        raise ConflictError(f"`{place}.extra.{name}` is a column of the contract: write `{place}.{name}`")
    return {"columns": _read_values(table, place, known, needed), "extra": extra}


def _read_examples(table: Any, place: str) -> _ExampleTable:
    needed = ("example_id", "dataset", "split", "question")
    return _ExampleTable(**_read_columns(table, place, (*schema_of("examples"), "extra"), needed))


def _read_trace_tables(tables: Any, place: str) -> tuple[TraceTable, ...]:
    return tuple(_trace_table(table, place) for table in (tables if isinstance(tables, list) else [tables]))


def _read_row_tables(tables: Any, place: str) -> tuple[RowTable, ...]:
    """The tables of `rounds` or `checks`, whichever `place` is."""
    return tuple(_row_table(table, place) for table in (tables if isinstance(tables, list) else [tables]))


def _row_table(given: Any, place: str) -> RowTable:
    schema = {name: column for name, column in schema_of(place).items() if name != "example_id"}
    needed = [name for name, column in schema.items() if not column.nullable]
    columns = _read_columns(_without_keys(given, ("where",)), place, (*schema, "where", "extra"), needed)
    return RowTable(**columns, where=_read_value(given["where"], f"{place}.where") if "where" in given else None)


def _without_keys(given: Any, keys: Collection[str]) -> Any:
    """A table without some keys; what is no table as it is."""
    return {key: value for key, value in given.items() if key not in keys} if isinstance(given, dict) else given


def _trace_table(given: Any, place: str) -> TraceTable:
    subtables = ("where", "parent", "verifiers", "features")
    columns = _read_columns(
        _without_keys(given, subtables), place, (*_TRACES, "extra", *subtables), ("pool", "sample_index", "model")
    )
    if "parent" in given and "parent_id" in given:
        raise ConflictError("`traces.parent` and `traces.parent_id` say the same: keep one")
    if "parent_id" in given and "trace_id" not in given:
        raise RequiredError("`traces.parent_id` needs `traces.trace_id`, the column that it points to")
    slot = ("pool", "sample_index")
    return TraceTable(
        **columns,
        where=_read_value(given["where"], "traces.where") if "where" in given else None,
        parent=_read_values(given["parent"], "traces.parent", slot, slot) if given.get("parent") else {},
        verifiers=_verifiers(given.get("verifiers", []), "traces.verifiers"),
        features=_read_features(given.get("features", {}), "traces.features"),
    )


@dataclass(frozen=True)
class AnswerRules:
    """How answers are read, normalised and judged, in the keys of the mapping's table `[answers]`."""

    kind: str = setting("exact", choices=KINDS)
    read: tuple[str, ...] = setting((), choices=WAYS)
    read_gold: tuple[str, ...] = setting((), choices=WAYS)
    pattern: str | None = setting(None)
    judge: str = setting("equal", choices=(*JUDGES, "source"))
    labels: tuple[str, ...] = setting(())
    aliases: Mapping[str, str] = setting({})
    conflicts: str = setting("error", choices=("error", "first", "majority", "opaque", "keep"))

    def __post_init__(self) -> None:
        check(self)
        if self.kind == "label" and not self.labels:
            raise RequiredError("`answers.kind` is `label`, so `answers.labels` must list the label space")
        if ("pattern" in (*self.read, *self.read_gold)) != (self.pattern is not None):
            raise RequiredError("`answers.pattern` and the way `pattern` in `answers.read` go together: give both")
        if self.pattern is not None:
            check_pattern(self.pattern)


@dataclass(frozen=True)
class JoinedFile:
    """The key `join` of a mapping: a file in the first source's folder, and the columns by which its rows are matched.

    `on`: for each column of the file, or expression of its columns, the source's own that equals it.
    """

    file: str = setting()
    on: Mapping[str, str] = setting()


def _read_join(value: Any, place: str) -> JoinedFile:
    table = dict(value) if isinstance(value, dict) else value
    on = table.get("on") if isinstance(table, dict) else None
    names = [on] if isinstance(on, str) else on
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        table["on"] = {name: name for name in names}
    elif not isinstance(on, dict | None) or on == {}:
        raise InvalidError(
            f"`{place}.on` is {quote(on)}; it takes a column, a list of columns, or a table that gives each column of"
            " the file the source's expression that equals it: `{ task_id = \"'HumanEval/' || number\" }`"
        )
    return from_table(JoinedFile, table, place)


@dataclass(frozen=True)
class OpenedList:
    """A list that `explode` turns into rows: the column that its elements become, and the path to the list."""

    name: str
    path: str


def _read_explode(value: Any, place: str) -> tuple[tuple[OpenedList, ...], ...]:
    """Reads `explode`: lists in one group are opened side by side, groups one after another.

    `["a", "b"]` opens two together, `[["a"], ["b"]]` one and then the other, `{ part = "a.parts" }` gives a name. A
    name that comes again is opened again.
    """
    nested = isinstance(value, list) and any(isinstance(item, list | dict) for item in value)
    steps: list[tuple[OpenedList, ...]] = []
    for step in value if nested else [value]:
        together: dict[str, OpenedList] = {}
        for one in _read_list_group([step] if nested and isinstance(step, str) else step, place):
            if one.name in together:
                steps.append(tuple(together.values()))
                together = {}
            together[one.name] = one
        steps += [tuple(together.values())] if together else []
    if len(steps) > _MOST_STEPS:
        raise LimitError(f"`{place}` opens {len(steps)} lists inside each other; it opens at most {_MOST_STEPS}")
    return tuple(steps)


_MOST_STEPS = 8


def _read_list_group(value: Any, place: str) -> list[OpenedList]:
    items = list(value.items()) if isinstance(value, dict) else value
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        items = [(name, name) for name in value]
    if not isinstance(items, list) or not all(isinstance(item, tuple) and isinstance(item[1], str) for item in items):
        raise InvalidError(
            f"`{place}` is {quote(value)}; it takes a list of strings, or a table of names and paths, or a list of"
            " these that are opened one after another"
        )
    return [OpenedList(*item) for item in items]


def _read_path_pattern(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes a string, such as `{{model}}/{{task}}.jsonl`")
    return file_names.check_pattern(value, place)


def _read_records_path(value: Any, place: str) -> str:
    if not isinstance(value, str) or (value != WHOLE and not is_path(value)):
        raise InvalidError(f"`{place}` is {quote(value)}; it takes the path of a list, such as `samples`, or `.`")
    return value


@dataclass(frozen=True)
class _PoolSettings:
    prefix: bool = setting(True)
    explore: str | Mapping[str, Any] | None = setting(None, read=lambda given, place: given)
    sees: str | None = setting(None, choices=SEES)


def _read_pools(value: Any, place: str) -> Mapping[str, Any]:
    for name, pool in value.items() if isinstance(value, dict) else [(place, value)]:
        from_table(_PoolSettings, pool, f"{place}.{name}")
    return value


@dataclass(frozen=True, kw_only=True)
class ImportMapping:
    """A mapping file, read and checked. Its verifiers and features belong to each of its `traces` tables too."""

    name: str = setting("")
    license: str | None = setting(None)
    source: str | None = setting(None)
    path: str | None = setting(None, read=_read_path_pattern)
    records: str | None = setting(None, read=_read_records_path)
    where: Value | None = setting(None, read=_read_value)
    explode: tuple[tuple[OpenedList, ...], ...] = setting((), read=_read_explode)
    join: JoinedFile | None = setting(None, read=_read_join)
    ids: str = setting("split", choices=("split", "gold", "trust"))
    duplicates: str = setting("resumed", choices=("resumed", "first", "number"))
    finish_reasons: Mapping[str, str] = setting({})
    pools: Mapping[str, Any] = setting({}, read=_read_pools)
    examples: _ExampleTable = setting(read=_read_examples)
    traces: tuple[TraceTable, ...] = setting((), read=_read_trace_tables)
    rounds: tuple[RowTable, ...] = setting((), read=_read_row_tables)
    checks: tuple[RowTable, ...] = setting((), read=_read_row_tables)
    answers: AnswerRules = setting(AnswerRules(), read=lambda given, place: from_table(AnswerRules, given, place))
    verifiers: tuple[Values, ...] = setting((), read=_verifiers)
    features: Values = setting({}, read=_read_features)
    format: Mapping[str, Any] = setting({})
    """Which files a known tool writes that it is for; see `toolkit.imports.formats`."""
    file: str = setting("", key=False)

    @property
    def rows(self) -> Mapping[str, tuple[RowTable, ...]]:
        """The tables of further rows than traces, by their name in the log."""
        return {name: tables for name in ("rounds", "checks") if (tables := getattr(self, name))}


def override_setting(top: dict[str, Any], given: str) -> None:
    """Writes a `KEY=VALUE` setting over a mapping's tables. A value that is not TOML is a text."""
    key, equals, text = given.partition("=")
    *tables, name = key.strip().split(".")
    if not equals or not name or not all(tables):
        raise InvalidError(f"`{given}`: write a setting as KEY=VALUE, as `answers.kind=number`")
    table: Any = top
    for part in tables:
        table = table.setdefault(part, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise UnknownError(f"`{key}` names no setting of a mapping, or one of a list: change a copy of the file")
    table[name] = _setting_value(text)


def _setting_value(text: str) -> Any:
    """A setting's value read as TOML; else, and in single quotes (a mapping's constant), the text itself."""
    return text if text.lstrip().startswith("'") else toml_value(text)


def shipped_maps() -> tuple[str, ...]:
    """The names of the mapping files that come with the product."""
    return tuple(sorted(path.stem for path in MAPS.glob("*.toml")))


def read_mapping(mapping: str | Path, settings: Sequence[str] = ()) -> ImportMapping:
    """Reads a mapping file, or a shipped one by its name. ThinkbackError: one line that names file and key.

    `settings` (`answers.kind=number`) replace what it says.
    """
    path = Path(mapping)
    if not path.is_file():
        if path.suffix or path.name != str(mapping):
            raise NotFoundError(f"mapping `{mapping}`: there is no such file; name a TOML file or a shipped map")
        if path.name not in shipped_maps():
            raise UnknownError(f"unknown mapping `{path.name}`; {suggest(path.name, shipped_maps())}")
        path = MAPS / f"{path.name}.toml"
    named = f"mapping `{path.name}`"
    given = parse_toml(read_text(path, named), named)
    for one in settings:
        override_setting(given, one)
    with error_prefix(f"{named}: "):
        keys = from_table(ImportMapping, {"examples": {}, **given})
        if not keys.traces and not keys.rows:
            raise RequiredError("`[traces]` is missing: map the columns of traces in it (or `[rounds]`, `[checks]`)")
    traces = [
        replace(table, verifiers=(*keys.verifiers, *table.verifiers), features={**keys.features, **table.features})
        for table in keys.traces
    ]
    reasons = {reason.lower(): meaning for reason, meaning in keys.finish_reasons.items()}
    return replace(keys, traces=tuple(traces), finish_reasons=reasons, file=path.name)
