"""Judging answers by references: verdicts of each judge, several right answers, and further measures beside a verdict.

`cover` counts whole words; `cover_substring` is the count of DEXTER's public code, in which `no` is in `unknown`.
`credit` is the F1 of words of SQuAD's evaluation script (Rajpurkar et al. 2016, arXiv:1606.05250).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import polars as pl

from toolkit.answers.forms import text_forms
from toolkit.answers.values import same_values
from toolkit.errors import UnknownError, suggest


def _as_texts(answers: pl.Series, gold: pl.Series) -> pl.DataFrame:
    """The normal forms of both as texts: columns `a` and `g`."""
    return pl.DataFrame({"a": text_forms(answers.str.strip_chars()), "g": text_forms(gold.str.strip_chars())})


def _equal_texts(answers: pl.Series, gold: pl.Series) -> pl.Series:
    return _as_texts(answers, gold).select(pl.col("a") == pl.col("g")).to_series()


def _contains_words(answers: pl.Series, gold: pl.Series) -> pl.Series:
    padded = [pl.format(" {} ", pl.col(name)) for name in ("a", "g")]
    return _as_texts(answers, gold).select(padded[0].str.contains(padded[1], literal=True)).to_series()


def _contains_characters(answers: pl.Series, gold: pl.Series) -> pl.Series:
    return _as_texts(answers, gold).select(pl.col("a").str.contains(pl.col("g"), literal=True)).to_series()


_JUDGES: dict[str, Callable[[pl.Series, pl.Series], pl.Series]] = {
    "equal": lambda answers, gold: answers == gold,
    "normalised": _equal_texts,
    "cover": _contains_words,
    "cover_substring": _contains_characters,
    "form": lambda answers, gold: (answers == gold) | same_values(answers, gold),
}
JUDGES = tuple(_JUDGES)
CREDIT = "credit"
MEASURES = {"cover": "cover", "cover_substring": "cover_substring", "exact": "normalised"}
"""Columns of verdicts beside `correct`, with their judges."""


def judge(answers: pl.Series, gold: pl.Series, how: str = "equal", golds: pl.Series | None = None) -> pl.Series:
    """The verdicts (Boolean) on `answers` by `gold`, two string columns of equal length. golds: lists of all right
    answers, where there are several.
    """
    if how not in JUDGES:
        raise UnknownError(f"unknown judge `{how}`; {suggest(how, JUDGES)}")
    right = _JUDGES[how](answers, gold).fill_null(False)
    if golds is not None:
        several = _rows_by_right_answer(answers, golds)
        matches = several.filter(_JUDGES[how](several["answer"], several["golds"]).fill_null(False))
        right |= pl.int_range(len(right), eager=True).is_in(matches["row"].implode())
    return right.zip_with(gold.is_not_null(), right.clear(len(right))).alias("correct")


def _rows_by_right_answer(answers: pl.Series, golds: pl.Series) -> pl.DataFrame:
    """A row for each answer and each of its right answers: `answer`, `golds`, and the `row` of the answer."""
    frame = pl.DataFrame({"answer": answers, "golds": golds}, schema_overrides={"golds": pl.List(pl.String)})
    return frame.with_columns(row=pl.int_range(pl.len())).filter(pl.col("golds").list.len() > 0).explode("golds")


def measure_answers(
    answers: pl.Series, gold: pl.Series, names: Sequence[str], golds: pl.Series | None = None
) -> pl.DataFrame:
    """A column for each name of `MEASURES`, bool, and for `credit`, the largest F1 of words with a right answer
    (float32, 0 for a null answer). The arguments are those of `judge`.
    """
    columns = [judge(answers, gold, MEASURES[name], golds).alias(name) for name in names if name != CREDIT]
    if CREDIT in names:
        columns.append(_best_word_f1(answers, gold, golds))
    return pl.DataFrame(columns)


def _best_word_f1(answers: pl.Series, gold: pl.Series, golds: pl.Series | None) -> pl.Series:
    """The largest F1 of words of each answer with a right one; null without gold."""
    pairs = pl.DataFrame({"answer": answers, "golds": gold}).with_columns(row=pl.int_range(pl.len()))
    if golds is not None:
        pairs = pl.concat([pairs, _rows_by_right_answer(answers, golds)], how="diagonal_relaxed")
    texts = _as_texts(pairs["answer"], pairs["golds"]).fill_null("")
    distinct = texts.unique(maintain_order=True)
    values = pl.Series("f1", [_word_f1(*pair) for pair in distinct.iter_rows()], dtype=pl.Float32)
    scores = texts.join(distinct.with_columns(values), on=["a", "g"], how="left", maintain_order="left")["f1"]
    best = pairs.with_columns(scores).group_by("row").agg(pl.col("f1").max()).sort("row")["f1"]
    return best.zip_with(gold.is_not_null(), best.clear(len(best))).alias(CREDIT)


def _word_f1(answer: str, gold: str) -> float:
    words, right = answer.split(), gold.split()
    shared = sum((Counter(words) & Counter(right)).values())
    return 2 * shared / (len(words) + len(right)) if shared else 0.0
