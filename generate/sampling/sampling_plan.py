"""The plan of a generation: the examples of a shard, worked examples, and the identity of the log.

Examples come from a registered data set, or from a Parquet or JSON-lines file in the log's columns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from generate.recipes.recipe import FILES, AnswerSettings, DataSettings, Recipe, load_recipe, rows_of_shard
from generate.sampling.context import FewShotPool, make_pool
from toolkit.answers import normalise
from toolkit.errors import (
    ConflictError,
    EmptyError,
    FormatError,
    InvalidError,
    NotFoundError,
    RequiredError,
    UnknownError,
    suggest,
)
from toolkit.log import LogError, schema_of
from toolkit.log.check.values import first_fault
from toolkit.log.contract.conversion import type_name
from toolkit.log.write.typed_rows import to_contract

LoggedRows = Mapping[str, Mapping[str, tuple[Mapping[str, Any], ...]]]
"""Rows of a log: example -> table -> rows, as loops read them."""


@dataclass(frozen=True)
class SamplingPlan:
    """What is to be generated: a recipe, its examples in this shard, and the settings that the log is known by.

    `notes`: what was counted in the data, and in the worked examples of prompts, beside the published counts.
    `origin`: what to call `plan_from_journal` with; `logged_rows`: what loops read of a log, by example and table.
    """

    recipe: Recipe
    examples: pl.DataFrame
    pool: FewShotPool | None
    identity: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    logged_rows: Callable[[Sequence[str]], LoggedRows] = field(default=lambda names: {}, repr=False)

    @property
    def traces(self) -> int:
        """The number of traces, without failures; a loop counts as one."""
        return self.examples.height * (sum(step.samples for step in self.recipe.steps) + len(self.recipe.loop))


def make_plan(recipe: Recipe, shard: tuple[int, int] = (1, 1), limit: int | None = None) -> SamplingPlan:
    """Load the examples, the first `limit` of them, and of these the shard (i, n), counted from 1."""
    for step in recipe.loop:
        if step.of or getattr(step.loop, "needs_log", False):
            raise RequiredError(f"`loop.{step.pool}.of` reads pools of a log: name that log as `--on`")
    rows, notes = _load_examples(recipe.data, recipe.resolve_path)
    rows = _with_reference(rows, recipe.answers)
    if any(getattr(one.loop, "unfolds", getattr(one.loop, "table", None) == "checks") for one in recipe.loop):
        rows = _with_length(rows)
    _check_examples(rows, recipe.data)
    identity = dict(recipe.identity())
    pool = None
    if recipe.few_shot is not None:
        worked, more = _load_examples(recipe.few_shot.data(recipe.data), recipe.resolve_path)
        notes += tuple(f"few-shot pool: {note}" for note in more)
        pool = make_pool(worked, rows, recipe.few_shot, recipe.prompts[recipe.few_shot.prompt])
        identity["few_shot.sha256"] = _digest_of(worked)
    texts, mine = rows["question"].to_list(), rows_of_shard(rows, shard, limit)
    loops = ((one, one.loop.on_texts(texts) if hasattr(one.loop, "on_texts") else one.loop) for one in recipe.loop)
    recipe = replace(recipe, loop=tuple(replace(one, loop=loop) for one, loop in loops))
    rows = rows if limit is None else rows.head(limit)
    identity |= {"data.examples": rows.height, "data.sha256": _digest_of(rows), "shard": f"{shard[0]}/{shard[1]}"}
    origin = {"recipe": str(recipe.folder / recipe.file), "settings": list(recipe.overruled), "shard": list(shard)}
    return SamplingPlan(recipe, mine, pool, identity, notes, {**origin, "limit": limit})


def plan_from_journal(origin: Mapping[str, Any]) -> SamplingPlan:
    """The plan of an unfinished run, from its journal. ThinkbackError where its files are missing."""
    recipe = load_recipe(origin["recipe"], origin["settings"])
    return make_plan(recipe, (origin["shard"][0], origin["shard"][1]), origin["limit"])


FILE = "examples"
SUFFIXES = (".parquet", ".jsonl", ".ndjson")


def _load_examples(data: DataSettings, find: Callable[[str], Path]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """The examples in the source's order, and what was counted in it, beside the published counts, as lines.

    Their columns are `example_id`, `question` and whatever there is more.

    Missing `dataset` and `split` are filled in. `find` makes paths of the recipe's. ThinkbackError where the source
    is missing or unfit, holds an example twice, or nothing is left of it.
    """
    rows, notes = _examples_of_file(data, find) if data.dataset == FILE else _examples_of_data_set(data, find)
    for needed in ("example_id", "question"):
        if needed not in rows.columns:
            raise RequiredError(f"data `{data.source}` has no column `{needed}`")
    rows = _text_columns(rows, data)
    for name, value in (("dataset", data.dataset), ("split", "test")):
        rows = rows if name in rows.columns else rows.with_columns(pl.lit(value).alias(name))
    if data.split:
        there = rows["split"].unique().drop_nulls().to_list()
        for wanted in data.split:
            if wanted not in there:
                raise UnknownError(f"`data.split`: `{wanted}` is not in the data; {suggest(wanted, there)}")
        rows = rows.filter(pl.col("split").is_in(list(data.split)))
    bad = rows.filter(pl.col("example_id").is_null() | pl.col("question").is_null())
    if bad.height:
        raise InvalidError(f"data `{data.source}`: an example has no id or no question")
    twice = rows.filter(pl.col("example_id").is_duplicated())
    if twice.height:
        raise ConflictError(f"data `{data.source}`: example `{twice['example_id'][0]}` is there twice")
    rows = rows if data.limit is None else rows.head(data.limit)
    if not rows.height:
        raise EmptyError(f"data `{data.source}` has no examples")
    return rows, notes


def _text_columns(rows: pl.DataFrame, data: DataSettings) -> pl.DataFrame:
    """The columns that the log has as texts, as texts: numbers are written out, and nothing else can be."""
    of_text = [name for name, column in schema_of("examples").items() if column.dtype == pl.String]
    for name in of_text:
        kind = rows.schema.get(name, pl.String())
        if not (kind.is_numeric() or kind in (pl.String, pl.Boolean, pl.Categorical, pl.Enum, pl.Null)):
            raise InvalidError(f"data `{data.source}`, column `{name}`: holds {type_name(kind)}, not strings")
    return rows.with_columns(pl.col(name).cast(pl.String) for name in of_text if name in rows.columns)


def _check_examples(rows: pl.DataFrame, data: DataSettings) -> None:
    """ThinkbackError where the log can't hold the examples, before anything is asked about them: types, nulls, numbers
    out of range, references outside their labels."""
    columns = contract_columns(rows, ())
    try:
        examples = to_contract(columns, "examples")
    except LogError as error:
        raise FormatError(f"data `{data.source}`: {error}") from None
    fault = first_fault(examples, "examples")
    if fault is not None:
        raise InvalidError(
            f"data `{data.source}`, example `{examples['example_id'][fault.row or 0]}`, column"
            f" `{fault.column}`: {fault.message}"
        )


def _with_reference(rows: pl.DataFrame, answers: AnswerSettings) -> pl.DataFrame:
    """The examples with their references in normal form, and the recipe's labels where they have none of their own."""
    if "gold" in rows.columns:
        gold = normalise(rows["gold"], answers.kind, answers.labels, answers.aliases)
        rows = rows.with_columns(gold.alias("gold"))
        if "golds" in rows.columns:
            rows = _with_golds(rows, answers)
    if answers.labels:
        labels = pl.lit(list(answers.labels), dtype=pl.List(pl.String))
        label_space = pl.col("labels").fill_null(labels) if "labels" in rows.columns else labels
        rows = rows.with_columns(label_space.alias("labels"))
    return rows


def _with_length(rows: pl.DataFrame) -> pl.DataFrame:
    """The examples with the words of their texts as `length`, where that is missing."""
    words = pl.Series("length", [len(text.split()) for text in rows["question"]], pl.Int32)
    return rows.with_columns(rows["length"].fill_null(words) if "length" in rows.columns else words)


def _with_golds(rows: pl.DataFrame, answers: AnswerSettings) -> pl.DataFrame:
    """The examples with all right answers in normal form, each once, `gold` first; null where it is the only one."""
    several = rows.select("golds", row=pl.int_range(pl.len())).explode("golds")
    several = several.with_columns(normalise(several["golds"], answers.kind, answers.labels, answers.aliases))
    lists = several.drop_nulls().group_by("row", maintain_order=True).agg("golds")
    numbered = rows.drop("golds").with_columns(row=pl.int_range(pl.len()))
    joined = numbered.join(lists, on="row", how="left", maintain_order="left").drop("row")
    every = pl.concat_list("gold", "golds").list.unique(maintain_order=True)
    return joined.with_columns(golds=pl.when(every.list.len() > 1).then(every)).select(rows.columns)


def _digest_of(rows: pl.DataFrame) -> str:
    """SHA-256 of the examples' content, row by row, whatever file they came from."""
    digest = hashlib.sha256()
    for row in rows.select(sorted(rows.columns)).iter_rows(named=True):
        digest.update(json.dumps(row, ensure_ascii=False, sort_keys=True, default=str).encode("utf-8") + b"\n")
    return digest.hexdigest()


def contract_columns(rows: pl.DataFrame, leave: tuple[str, ...]) -> pl.DataFrame:
    """Columns of the log's table `examples` and further ones, without those of `leave`."""
    known = schema_of("examples")
    return rows.select([name for name in rows.columns if name in known or name not in leave])


def _examples_of_file(data: DataSettings, find: Callable[[str], Path]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    if data.path is None:
        raise RequiredError(f"`data.path` is missing: name a file of examples ({', '.join(SUFFIXES)})")
    path = find(data.path)
    if not path.is_file():
        raise NotFoundError(f"data `{data.path}`: there is no such file")
    if path.suffix not in SUFFIXES:
        raise FormatError(f"data `{data.path}`: must be one of {', '.join(SUFFIXES)}")
    try:
        if path.suffix == ".parquet":
            return pl.read_parquet(path), ()
        return pl.read_ndjson(path, infer_schema_length=None), ()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise FormatError(f"data `{data.path}` can't be read: {str(error).splitlines()[0]}") from None


def _examples_of_data_set(data: DataSettings, find: Callable[[str], Path]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    from generate.datasets import count_lines, load

    path = None if data.path is None else find(data.path)
    options = dict(data.options)
    for name in FILES & options.keys():
        if isinstance(options[name], str):
            options[name] = str(find(options[name]))
    loaded = load(data.dataset, path, data.split, options)
    return loaded.examples, tuple(count_lines(loaded.counts))
