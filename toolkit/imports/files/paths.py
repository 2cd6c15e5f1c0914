"""Paths into nested data, as mappings write them: `choices[0].message.content`, `scores[-1]`, `min(scores)`.

A path begins with a column. `.name` or `['any name']` takes a field of an object, `[0]` an element of a list, from 0,
`[-1]` the last. What is not there in a row is null. A field or column that no row has is an error, unless the path
ends in `?`. `[*]` takes all elements of a list:
`sum(logprobs.content[*].logprob)`. Where a column holds texts, they are read as JSON; what is found there is text.
`min(path)` and its kin
reduce a list to one value. Paths stand alone or in an expression of SQL, which sees columns in their places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from toolkit.errors import suggest
from toolkit.imports.files.literals import json_as_written, parse_json_literals, type_instance

_NAME = r'(?:[^\W\d]\w*|"(?:[^"]|"")+")'
_STEP = rf"""(?:\.{_NAME}|\[\*\]|\[-?\d{{1,9}}\]|\['(?:[^']|'')*'\]|\["(?:[^"]|"")*"\])"""
_REDUCED = "min|max|sum|prod|avg|mean|len|length|any|all"
_TOKEN = re.compile(
    rf"""'(?:[^']|'')*'|(?P<call>(?:{_REDUCED})\s*\(\s*)(?P<inner>{_NAME}{_STEP}*\??)(?P<end>\s*\)(?!\s*OVER\b))"""
    rf"""|(?P<path>{_NAME}(?:{_STEP}+\??|\?))|{_NAME}|\d[\w.]*""",
    re.IGNORECASE,
)
_ALONE = re.compile(rf"{_NAME}{_STEP}*")
_PART = re.compile(rf"{_NAME}|{_STEP}")
PLACE = "__path "
EACH = None
"""The step to all elements of a list, `[*]`."""
Step = str | int | None


class PathError(ValueError):
    """No row has the path that a mapping names. The line continues "`key = value`"."""


@dataclass(frozen=True)
class _NestedPath:
    """A path into nested data. `steps` lead on from `column`: names of fields, places in lists, and `EACH`."""

    text: str
    column: str
    steps: tuple[Step, ...]
    optional: bool


@dataclass(frozen=True)
class _PathUse:
    """One use of a path in an expression. `call` is the function around it, such as `min(`, which may reduce a list."""

    path: _NestedPath
    call: str = ""
    end: str = ""


@dataclass(frozen=True)
class Expression:
    """A mapping's value as SQL, with a column name in place of each path."""

    parts: tuple[str | _PathUse, ...]
    places: Mapping[str, _PathUse] = field(default_factory=dict)

    @property
    def sql(self) -> str:
        """The SQL, with no list reduced beforehand."""
        return self.sql_of_reduced_lists(())

    def sql_of_reduced_lists(self, places: Collection[str]) -> str:
        """The SQL for rows in which the lists at `places` are reduced already, so without the functions around them."""
        names = iter(self.places)
        texts = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
                continue
            name = next(names)
            call = ("", "") if name in places else (part.call, part.end)
            texts.append(f'{call[0]}"{name}"{call[1]}')
        return "".join(texts)

    def with_user_paths(self, message: str) -> str:
        """A message of polars, with the user's paths in place of the column names that stand for them."""
        for name, use in self.places.items():
            message = message.replace(name, use.path.text)
        return message

    def unchanged_columns(self, passed: Set[str]) -> set[str]:
        """The columns that the expression only passes on: all their uses are in `passed`, and no list is reduced."""
        touched = {use.path.column for name, use in self.places.items() if use.call or name not in passed}
        return set(self.columns(sorted(passed))) - touched

    def root_columns(self) -> list[str]:
        """The columns that the expression reads. polars raises an error where it is not an expression."""
        return self.columns(pl.sql_expr(self.sql_of_reduced_lists(self.places)).meta.root_names())

    def columns(self, names: list[str]) -> list[str]:
        """The source columns that names in the SQL stand for."""
        return list(dict.fromkeys(self.places[name].path.column if name in self.places else name for name in names))


def parse_expression(value: str) -> Expression:
    """Parses a value of a mapping and finds the paths in it."""
    parts: list[str | _PathUse] = []
    at = 0
    for token in _TOKEN.finditer(value):
        text = token["path"] or token["inner"]
        if text is None or text[:6].upper() == "ARRAY[":  # a list that SQL makes
            continue
        parts += [value[at : token.start()], _PathUse(_parse_path(text), token["call"] or "", token["end"] or "")]
        at = token.end()
    parts.append(value[at:])
    uses = [part for part in parts if isinstance(part, _PathUse)]
    return Expression(tuple(parts), {f"{PLACE}{number}": use for number, use in enumerate(uses)})


def is_path(text: str) -> bool:
    """Whether a text is a single path and nothing else."""
    return _ALONE.fullmatch(text) is not None


def fields_of(value: object, column: str) -> list[str]:
    """The fields of an object column that a mapping's value reads."""
    uses = parse_expression(value).places.values() if isinstance(value, str) else ()
    firsts = [use.path.steps[0] for use in uses if use.path.column == column and use.path.steps]
    return [step for step in firsts if isinstance(step, str)]


def _parse_path(text: str) -> _NestedPath:
    column, *steps = _PART.findall(text)
    return _NestedPath(text, _unquote(column), tuple(map(_parse_step, steps)), text.endswith("?"))


def _unquote(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _parse_step(text: str) -> Step:
    if text.startswith("."):
        return _unquote(text[1:])
    if text == "[*]":
        return EACH
    inside, quote = text[1:-1], text[1]
    return inside[1:-1].replace(quote * 2, quote) if quote in "'\"" else int(inside)


def follow_path(frame: pl.DataFrame, path: _NestedPath) -> pl.Series:
    """The value at the end of a path in each row. PathError where no row can have one."""
    if path.column not in frame.columns:
        if not path.optional:
            raise PathError(f"needs the column `{path.column}`, which the source lacks")
        return pl.Series(path.text, [None] * frame.height, dtype=pl.Null)
    return _follow_steps(frame[path.column], path, path.steps).alias(path.text)


def _follow_steps(values: pl.Series, path: _NestedPath, steps: tuple[Step, ...]) -> pl.Series:
    for number, step in enumerate(steps):
        if values.dtype == pl.Null:
            break
        if values.dtype == pl.String:
            return _follow_in_texts(values, steps[number:])
        if step is EACH and isinstance(values.dtype, pl.List):
            return _follow_path_in_elements(values, path, steps[number + 1 :])
        inner = _step_into(values, step)
        if inner is None and not path.optional:
            raise PathError(_missing_part_text(values, step, path))
        values = inner if inner is not None else pl.Series([None] * len(values), dtype=pl.Null)
    return values


def _follow_path_in_elements(values: pl.Series, path: _NestedPath, steps: tuple[Step, ...]) -> pl.Series:
    """Each list as a list of what the remaining steps of a path lead to in its elements."""
    kind = _follow_steps(values.explode(empty_as_null=True), path, steps).dtype
    return values.map_elements(lambda it: _follow_steps(it, path, steps), return_dtype=pl.List(kind))


def _step_into(values: pl.Series, step: Step) -> pl.Series | None:
    """The values one step further along a path; None where the type has no such part."""
    if isinstance(values.dtype, pl.Struct) and isinstance(step, str):
        return values.struct.field(step) if step in values.struct.fields else None
    if isinstance(values.dtype, pl.List) and isinstance(step, int):
        return values.list.get(step, null_on_oob=True)
    if isinstance(values.dtype, pl.Array) and isinstance(step, int):
        return values.arr.get(step, null_on_oob=True)
    return None


def _missing_part_text(values: pl.Series, step: Step, path: _NestedPath) -> str:
    if isinstance(values.dtype, pl.Struct) and isinstance(step, str):
        names = values.struct.fields
        return f"needs the field `{step}`, which its object lacks; {suggest(step, names)}; `{path.text}?` is null then"
    if isinstance(values.dtype, pl.Struct):
        return f"takes element {step} of an object, which has fields: {suggest('', values.struct.fields)}"
    if isinstance(values.dtype, pl.List | pl.Array):
        return (
            f"takes the field `{step}` of a list: name the element first, as in `[0].{step}`, or all of them, as in"
            f" `sum(…[*].{step})`"
        )
    if step is EACH:
        return f"takes all elements (`[*]`) of values that are {values.dtype} and no lists"
    return f"takes `{step}` of values that are {values.dtype} and have no fields"


def _follow_in_texts(texts: pl.Series, steps: tuple[Step, ...]) -> pl.Series:
    """The values that `steps` lead to inside JSON texts, as text; null where a text is not JSON."""
    if EACH in steps:
        raise PathError("takes all elements (`[*]`) of texts that are JSON, which is not known: take one of them")
    return pl.Series(
        [None if text is None else _follow_in_text(text, steps) for text in texts.to_list()], dtype=pl.String
    )


def _follow_in_text(text: str, steps: tuple[Step, ...]) -> str | None:
    try:
        value = parse_json_literals(text)
    except ValueError:
        return None
    for step in steps:
        value = step_value(value, step)
    return None if value is None else json_as_written(value)


def step_value(value: Any, step: Step) -> Any:
    """The part of a parsed JSON value that one step leads to; None where it has no such part."""
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and isinstance(step, int) and -len(value) <= step < len(value):
        return value[step]
    return None


def value_at_path(value: Any, text: str) -> Any:
    """The value at the end of the path `text` in a parsed JSON object; None where there is none."""
    path = _parse_path(text)
    for step in (path.column, *path.steps):
        value = step_value(value, step)
    return value


_LISTED: Mapping[str, Callable[[pl.Expr], pl.Expr]] = {
    "min": lambda it: it.list.min(),
    "max": lambda it: it.list.max(),
    "sum": lambda it: it.list.sum(),
    "prod": lambda it: it.list.eval(pl.element().product()).list.first(),
    "avg": lambda it: it.list.mean(),
    "mean": lambda it: it.list.mean(),
    "len": lambda it: it.list.len(),
    "length": lambda it: it.list.len(),
    "any": lambda it: it.list.any(),
    "all": lambda it: it.list.all(),
}


def reduce_lists(values: pl.Series, call: str) -> pl.Series | None:
    """Reduces each list by `call`, such as its minimum or sum. None for values that are no lists, which SQL handles."""
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if values.dtype == pl.Null:  # what a path that may be missing finds
        return values
    if not isinstance(values.dtype, pl.List):
        return None
    name = call.rstrip("( \t\n").lower()
    if type_instance(values.dtype.inner) == pl.Null:  # empty lists alone
        values = values.cast(pl.List(pl.Float64))
    return values.to_frame("x").select(_LISTED[name](pl.col("x"))).to_series()
