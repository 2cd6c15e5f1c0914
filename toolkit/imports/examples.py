"""The examples of an import: one row per question, out of rows that repeat it for each sample."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import polars as pl

from toolkit.answers import normalise
from toolkit.imports.expressions import SourceRows
from toolkit.imports.mapping import AnswerRules, ImportMapping
from toolkit.log import schema_of


@dataclass(frozen=True)
class ImportedExamples:
    """`table`: the examples. `ids`: the example_id of each source row. `split`: ids that meant several questions."""

    table: pl.DataFrame
    ids: pl.Series
    split: int
    trusted: int  # ids with several questions of which the first was kept


def make_examples(rows: SourceRows, mapping: ImportMapping) -> ImportedExamples:
    """Examples in order of first appearance. ThinkbackError where rows of one example contradict each other."""
    contract = schema_of("examples")
    columns = {}
    for name, value in mapping.examples.columns.items():
        key = f"examples.{name}"
        made = rows.typed(key, value, contract[name].dtype, required=not contract[name].nullable)
        columns[name] = rows.sound(key, value, made)
    for name, value in mapping.examples.extra.items():
        key = f"examples.extra.{name}"
        columns[name] = rows.finite(key, rows.compute(key, value))
    frame = pl.DataFrame([series.alias(name) for name, series in columns.items()])
    questions = frame.group_by("example_id").agg(pl.col("question").n_unique())
    several = questions.filter(pl.col("question") > 1)["example_id"]
    if several.len() and mapping.ids == "split":
        frame = _split(frame, several)
    frame = _normal_gold(frame, mapping.answers)
    trusted = ["question"] if mapping.ids == "trust" else []
    _check_agreement(rows, frame, trusted)
    firsts = [pl.col(name).drop_nulls().first() for name in frame.columns if name != "example_id"]
    table = frame.group_by("example_id", maintain_order=True).agg(firsts)
    split = several.len() if mapping.ids == "split" else 0
    return ImportedExamples(table, frame["example_id"], split, several.len() - split)


def _split(frame: pl.DataFrame, several: pl.Series) -> pl.DataFrame:
    """An id of its own for each question: `-` and the first 8 hex digits of the question's SHA-256 at its end."""
    odd = pl.col("example_id").is_in(several.to_list())
    questions = frame.filter(odd)["question"].unique().to_list()
    digests = [hashlib.sha256(question.encode()).hexdigest()[:8] for question in questions]
    suffix = pl.col("question").replace_strict(questions, digests, default=None, return_dtype=pl.String)
    return frame.with_columns(example_id=pl.when(odd).then(pl.col("example_id") + "-" + suffix).otherwise("example_id"))


def _normal_gold(frame: pl.DataFrame, answers: AnswerRules) -> pl.DataFrame:
    """Gold in the answers' normal form, and the label space in every row where the mapping gives one for all."""
    if answers.labels and "labels" not in frame.columns:
        frame = frame.with_columns(labels=pl.lit(pl.Series([list(answers.labels)])).first())
    if "gold" not in frame.columns:
        return frame
    return frame.with_columns(normalise(frame["gold"], answers.kind, answers.labels, answers.aliases).alias("gold"))


def _check_agreement(rows: SourceRows, frame: pl.DataFrame, trusted: list[str]) -> None:
    """Rows of one example must say the same of it; null says nothing."""
    for name in frame.columns:
        if name in ("example_id", *trusted):
            continue
        pairs = frame.select("example_id", name).drop_nulls().unique()
        twice = pairs.filter(pl.col("example_id").is_duplicated())
        if twice.height:
            example = twice.sort("example_id")["example_id"][0]
            values = twice.filter(pl.col("example_id") == example)[name].to_list()
            shown = " and ".join(f"`{str(value)[:60]}`" for value in sorted(values, key=str)[:2])
            raise rows.error(
                f"`{name}` of example `{example}` is {shown} in different rows, and an example has one value: what"
                " differs from sample to sample belongs under `[traces]` or `[features]`, or the id is too coarse"
            )
