"""The examples of an import: one row per question, out of rows that repeat it for each sample."""

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
"""Digits of a hash behind an id and `_APART`, in the keys of rows."""
_APART = "\0"
_BY_GOLD = "; `--set ids=gold` makes an example of each gold"


@dataclass(frozen=True)
class ImportedExamples:
    """`table`: the examples. `ids`: the example_id of each source row. `counts`: by the names of the notes."""

    table: pl.DataFrame
    ids: pl.Series
    counts: Mapping[str, int]


def example_keys(rows: SourceRows, mapping: ImportMapping) -> pl.Series:
    """What the rows of one example share, and those of others don't, before an id that is too coarse is split.

    It begins with the id, so that the rows of an id are neighbours in the keys' order.
    """
    names = ["example_id", *_key_parts(mapping)] if mapping.ids != "trust" else ["example_id"]
    columns = [rows.column("examples", name, mapping.examples.columns[name]) for name in names]
    frame = _normal_gold(pl.DataFrame(columns), mapping.answers)[0]
    ids, words = frame["example_id"], names[1:]
    if not words:
        return ids
    hashes = frame.select(_together(words)).to_series().hash()
    return ids + _APART + hashes.cast(pl.String).str.zfill(_DIGITS)


def ids_of_several(keys: pl.Series, mapping: ImportMapping) -> pl.Series | None:
    """The ids of several keys, of which each is an example, by all keys of a source; None where an id is one."""
    if mapping.ids == "trust":
        return None
    ids = keys.unique().str.head(-_DIGITS - len(_APART))
    return ids.filter(ids.is_duplicated()).unique()


def _key_parts(mapping: ImportMapping) -> list[str]:
    """The columns that tell the examples of one id apart."""
    return ["question", "gold"] if mapping.ids == "gold" and "gold" in mapping.examples.columns else ["question"]


def _together(columns: list[str]) -> pl.Expr:
    return pl.concat_str([pl.col(column).fill_null("") for column in columns], separator="\0")


def make_examples(rows: SourceRows, mapping: ImportMapping, several: pl.Series | None = None) -> ImportedExamples:
    """Examples in order of first appearance. ThinkbackError where rows of one example contradict each other.

    `several`: the ids of several questions, where rows of further ones come with other parts of the source.
    """
    columns = {name: rows.column("examples", name, value) for name, value in mapping.examples.columns.items()}
    for name, value in mapping.examples.extra.items():
        key = f"examples.extra.{name}"
        columns[name] = rows.finite(key, rows.compute(key, value))
    frame = pl.DataFrame([series.alias(name) for name, series in columns.items()])
    frame, unread = _normal_gold(frame, mapping.answers)
    parts = _key_parts(mapping)
    if several is None:
        questions = frame.group_by("example_id").agg(pl.struct(parts).n_unique().alias("several"))
        several = questions.filter(pl.col("several") > 1)["example_id"]
    if several.len() and mapping.ids != "trust":
        frame = _split(frame, several, parts)
    trusted = ["question"] if mapping.ids == "trust" else []
    _check_agreement(rows, frame, trusted, mapping.ids)
    firsts = [pl.col(name).drop_nulls().first() for name in frame.columns if name != "example_id"]
    table = frame.group_by("example_id", maintain_order=True).agg(firsts)
    counts = {"trusted" if mapping.ids == "trust" else "ids_split": several.len(), "unread_gold": unread}
    return ImportedExamples(table, frame["example_id"], counts)


def _split(frame: pl.DataFrame, several: pl.Series, parts: list[str]) -> pl.DataFrame:
    """An id of its own for each question (and gold): `-` and the first 8 hex digits of its SHA-256 at its end."""
    odd = pl.col("example_id").is_in(several.implode())
    frame = frame.with_columns(_together(parts).alias(_WHOLE))
    questions = frame.filter(odd)[_WHOLE].unique().to_list()
    digests = [hashlib.sha256(question.encode()).hexdigest()[:8] for question in questions]
    suffix = pl.col(_WHOLE).replace_strict(questions, digests, default=None, return_dtype=pl.String)
    split = pl.when(odd).then(pl.col("example_id") + "-" + suffix).otherwise("example_id")
    return frame.with_columns(example_id=split).drop(_WHOLE)


def _normal_gold(frame: pl.DataFrame, answers: AnswerRules) -> tuple[pl.DataFrame, int]:
    """Gold in the answers' normal form, and the label space in every row where the mapping gives one for all.

    Also how many examples have a gold in which no way of `read_gold` finds an answer.
    """
    if answers.labels and "labels" not in frame.columns:
        frame = frame.with_columns(labels=pl.lit(pl.Series([list(answers.labels)])).first())
    if "gold" not in frame.columns:
        return frame, 0
    gold = read_answers(frame["gold"], answers.read_gold, answers.pattern) if answers.read_gold else frame["gold"]
    normal = normalise(gold, answers.kind, answers.labels, answers.aliases)
    unread = frame.filter(gold.is_null() & frame["gold"].is_not_null())["example_id"].n_unique()
    return frame.with_columns(normal.alias("gold")), unread


def _check_agreement(rows: SourceRows, frame: pl.DataFrame, trusted: list[str], ids: str) -> None:
    """Rows of one example must say the same of it; null says nothing."""
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
