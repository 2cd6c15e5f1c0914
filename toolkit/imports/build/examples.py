"""The examples of an import: one row for each question, from source rows that repeat it for each sample."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from toolkit.answers import normalise, read_answers
from toolkit.imports.map.expressions import SourceRows
from toolkit.imports.map.mapping import AnswerRules, ImportMapping

_WHOLE = "__told"
_DIGITS = 20
"""Hex digits of the hash that follows the id and `_APART` in the keys of rows."""
_APART = "\0"
_BY_GOLD = "; `--set ids=gold` makes an example of each gold"


@dataclass(frozen=True)
class ImportedExamples:
    """The examples of an import. `table`: their rows; `ids`: the example_id of each source row; `counts`: by note."""

    table: pl.DataFrame
    ids: pl.Series
    counts: Mapping[str, int]


def example_keys(rows: SourceRows, mapping: ImportMapping) -> pl.Series:
    """The key of the example that each source row belongs to. It tells several questions with one example_id apart, and
    begins with the id, so that sorting by keys keeps the rows of an id together.
    """
    names = ["example_id", *_key_parts(mapping)] if mapping.ids != "trust" else ["example_id"]
    columns = [rows.log_column("examples", name, mapping.examples.columns[name]) for name in names]
    frame = _normal_gold(pl.DataFrame(columns), mapping.answers)[0]
    ids, words = frame["example_id"], names[1:]
    if not words:
        return ids
    hashes = frame.select(_join_columns(words)).to_series().hash()
    return ids + _APART + hashes.cast(pl.String).str.zfill(_DIGITS)


def ids_of_several(keys: pl.Series, mapping: ImportMapping) -> pl.Series | None:
    """The ids that stand for several questions, from the keys of all rows; None where no id does."""
    if mapping.ids == "trust":
        return None
    ids = keys.unique().str.head(-_DIGITS - len(_APART))
    return ids.filter(ids.is_duplicated()).unique()


def _key_parts(mapping: ImportMapping) -> list[str]:
    """The columns that tell several examples with one id apart."""
    return ["question", "gold"] if mapping.ids == "gold" and "gold" in mapping.examples.columns else ["question"]


def _join_columns(columns: list[str]) -> pl.Expr:
    return pl.concat_str([pl.col(column).fill_null("") for column in columns], separator="\0")


def make_examples(rows: SourceRows, mapping: ImportMapping, several: pl.Series | None = None) -> ImportedExamples:
    """Makes one row for each example, in order of first appearance. ThinkbackError where its rows contradict each
    other.

    `several`: the ids of several questions, where the rows are only a part of the source.
    """
    columns = {name: rows.log_column("examples", name, value) for name, value in mapping.examples.columns.items()}
    for name, value in mapping.examples.extra.items():
        key = f"examples.extra.{name}"
        columns[name] = rows.check_finite(key, rows.compute(key, value))
    frame = pl.DataFrame([series.alias(name) for name, series in columns.items()])
    frame, unread = _normal_gold(frame, mapping.answers)
    parts = _key_parts(mapping)
    if several is None:
        questions = frame.group_by("example_id").agg(pl.struct(parts).n_unique().alias("several"))
        several = questions.filter(pl.col("several") > 1)["example_id"]
    if several.len() and mapping.ids != "trust":
        frame = _add_key_parts(frame, several, parts)
    trusted = ["question"] if mapping.ids == "trust" else []
    _check_agreement(rows, frame, trusted, mapping.ids)
    firsts = [pl.col(name).drop_nulls().first() for name in frame.columns if name != "example_id"]
    table = frame.group_by("example_id", maintain_order=True).agg(firsts)
    counts = {"trusted" if mapping.ids == "trust" else "ids_split": several.len(), "unread_gold": unread}
    return ImportedExamples(table, frame["example_id"], counts)


def _add_key_parts(frame: pl.DataFrame, several: pl.Series, parts: list[str]) -> pl.DataFrame:
    """Gives each question of an id that has several an id of its own: `-` and 8 hex digits of its SHA-256 are added."""
    odd = pl.col("example_id").is_in(several.implode())
    frame = frame.with_columns(_join_columns(parts).alias(_WHOLE))
    questions = frame.filter(odd)[_WHOLE].unique().to_list()
    digests = [hashlib.sha256(question.encode()).hexdigest()[:8] for question in questions]
    suffix = pl.col(_WHOLE).replace_strict(questions, digests, default=None, return_dtype=pl.String)
    split = pl.when(odd).then(pl.col("example_id") + "-" + suffix).otherwise("example_id")
    return frame.with_columns(example_id=split).drop(_WHOLE)


def _normal_gold(frame: pl.DataFrame, answers: AnswerRules) -> tuple[pl.DataFrame, int]:
    """The frame with gold in normal form and with the mapping's label space in every row. The number counts the golds
    in which no way of `read_gold` reads an answer.
    """
    if answers.labels and "labels" not in frame.columns:
        frame = frame.with_columns(labels=pl.lit(pl.Series([list(answers.labels)])).first())
    unread = 0
    if "gold" in frame.columns:
        gold = _read_gold_answers(frame["gold"], answers)
        unread = frame.filter(gold.is_null() & frame["gold"].is_not_null())["example_id"].n_unique()
        frame = frame.with_columns(_normal_forms(gold, answers).alias("gold"))
    return (_normal_golds(frame, answers) if "golds" in frame.columns else frame), unread


def _read_gold_answers(gold: pl.Series, answers: AnswerRules) -> pl.Series:
    return read_answers(gold, answers.read_gold, answers.pattern) if answers.read_gold else gold


def _normal_forms(gold: pl.Series, answers: AnswerRules) -> pl.Series:
    return normalise(gold, answers.kind, answers.labels, answers.aliases)


def _normal_golds(frame: pl.DataFrame, answers: AnswerRules) -> pl.DataFrame:
    """Sets `golds` to all right answers in normal form, each once, `gold` first. Without a `gold`, it is the first."""
    items = frame.select("golds", row=pl.int_range(pl.len())).explode("golds")
    items = items.with_columns(golds=_normal_forms(_read_gold_answers(items["golds"], answers), answers)).drop_nulls(
        "golds"
    )
    lists = items.group_by("row").agg("golds")
    frame = frame.drop("golds").with_columns(row=pl.int_range(pl.len()))
    frame = frame.join(lists, on="row", how="left", maintain_order="left").drop("row")
    known = [pl.col("gold")] if "gold" in frame.columns else []
    frame = frame.with_columns(gold=pl.coalesce(*known, pl.col("golds").list.first()))
    every = pl.concat_list(pl.col("gold"), "golds").list.unique(maintain_order=True)
    return frame.with_columns(golds=every)


def _check_agreement(rows: SourceRows, frame: pl.DataFrame, trusted: list[str], ids: str) -> None:
    """Raises where rows of one example differ in a column of `examples`. Nulls do not count."""
    for name in frame.columns:
        if name in ("example_id", *trusted):
            continue
        pairs = frame.select("example_id", name).drop_nulls().unique()
        twice = pairs.filter(pl.col("example_id").is_duplicated())
        if twice.height:
            example = twice.sort("example_id")["example_id"][0]
            values = twice.filter(pl.col("example_id") == example)[name].to_list()
            two = " and ".join(f"`{str(value)[:60]}`" for value in sorted(values, key=str)[:2])
            raise rows.error(
                f"`{name}` of example `{example}` is {two} in different rows, and an example has one value: what"
                " differs from sample to sample belongs under `[traces]` or `[features]`, or the id is too coarse"
                f"{_BY_GOLD if name == 'gold' and ids != 'gold' else ''}"
            )
