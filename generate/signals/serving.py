"""Features that a server can compute: SeVRA's heuristics of the question, and statistics of the texts.

SeVRA (2026, appendix C.1, table 5, and appendix R) names the signals and leaves their formulas open: "static heuristic
estimate". The formulas here are ours, and only count words and signs. How the call ended, its tokens and whether the
finalizer was used stand in `traces` and are no features of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from generate.signals.feature_signals import SHARED, FeatureSignal, FeatureWorker
from generate.signals.numeric import numbers_in, word_counts
from generate.traces.block import TextsToRead, TraceBlock

_OPERATORS = r"[-+*/^=<>≤≥≠√∑∫|]|\\[a-zA-Z]+"
_CONSTRAINTS = (
    r"(?i)\b(?:must|at least|at most|exactly|only|each|every|no|not|none|without|unless|except|distinct|different"
    r"|positive|negative|integers?|prime|consecutive|such that|so that|if|between|(?:less|more|greater|fewer|smaller"
    r"|larger) than|maximum|minimum|divisible|before|after|until|per)\b|[<>≤≥≠=]"
)
_ASKS = (
    r"(?i)\b(?:how (?:many|much|long|far|old|often)|find|compute|calculate|determine|evaluate|solve|simplify|prove"
    r"|what (?:is|are|was) the (?:value|sum|number|total|probability|area|volume|product|average|percentage))\b"
)
_STEPS = r"(?i)\b(?:then|after|before|next|remaining|left|total|altogether|if|when)\b|[.;?!](?:\s|$)"
_WHOLE, _NUMERIC = r"^[-+]?[0-9][0-9,]*$", r"^[-+]?[0-9,]*\.?[0-9]+(?:\s*/\s*[0-9]+)?%?$"


def _capped_share(counts: pl.Series, enough: float) -> pl.Series:
    """The counts divided by `enough`, at most 1."""
    return (counts.cast(pl.Float64) / enough).clip(0, 1)


def _count_matches(texts: pl.Series, pattern: str) -> pl.Series:
    return texts.cast(pl.String).str.count_matches(pattern).cast(pl.Float64)


def difficulty(questions: pl.Series) -> pl.Series:
    """How hard a question looks before it is solved. It is the mean of its words over 100, its distinct numbers over 10
    and its operators and LaTeX commands over 15, each at most 1.

    Range [0, 1]. Source: SeVRA, table 5, "static heuristic estimate attached to the example before solving".
    """
    numbers = numbers_in(questions).list.len()
    return (
        _capped_share(word_counts(questions), 100)
        + _capped_share(numbers, 10)
        + _capped_share(_count_matches(questions, _OPERATORS), 15)
    ) / 3


def verification_need(questions: pl.Series) -> pl.Series:
    """How much a question looks as if checking would help: the share that holds of four cues, that it asks for a
    quantity (find, how many, …), has two numbers or more, has a constraint, and takes steps (three cues of sequence).

    Range {0, 1/4, …, 1}. Source: SeVRA, table 5, "static heuristic estimate of whether the task benefits from
    checking".
    """
    cues = (
        _count_matches(questions, _ASKS) > 0,
        numbers_in(questions).list.len() >= 2,
        _count_matches(questions, _CONSTRAINTS) > 0,
        _count_matches(questions, _STEPS) >= 3,
    )
    return sum((cue.cast(pl.Float64) for cue in cues[1:]), cues[0].cast(pl.Float64)) / len(cues)


def constraint_density(questions: pl.Series) -> pl.Series:
    """The constraints in a question, as words (at least, must, distinct, …) and signs, times five, per word.

    Range [0, 1], cut at 1, which one constraint in five words reaches. Source: SeVRA, table 5, "number and density of
    explicit constraints in the problem".
    """
    return (5 * _count_matches(questions, _CONSTRAINTS) / word_counts(questions).clip(1)).clip(0, 1)


def answer_length(answers: pl.Series) -> pl.Series:
    """The number of characters in the answer. Range 0, 1, …; 0 where none was read. Source: SeVRA, appendix R."""
    return answers.cast(pl.String).fill_null("").str.len_chars().cast(pl.Float64)


def answer_format(answers: pl.Series, labels: pl.Series) -> pl.Series:
    """The form of the answer as a code: 0 none, 1 an integer, 2 another number, 3 a label of the example, 4 other
    words.

    labels: (n,) lists, null where the example has none. A code, not an amount. Range {0, …, 4}. Source: SeVRA,
    appendix R.
    """
    frame = pl.DataFrame({"answer": answers.cast(pl.String), "labels": labels.cast(pl.List(pl.String))})
    answer = pl.col("answer")
    code = (
        pl.when(answer.is_null())
        .then(0)
        .when(pl.col("labels").list.contains(answer).fill_null(False))
        .then(3)
        .when(answer.str.contains(_WHOLE))
        .then(1)
        .when(answer.str.contains(_NUMERIC))
        .then(2)
        .otherwise(4)
    )
    return frame.select(code.cast(pl.Float64).alias("code"))["code"]


def prompt_words(questions: pl.Series) -> pl.Series:
    """The words in the question. Range 0, 1, … Source: SeVRA, appendix R, "shallow prompt/response statistics"."""
    return word_counts(questions)


def prompt_numbers(questions: pl.Series) -> pl.Series:
    """The number of distinct numbers in the question. Range 0, 1, … Source: as `prompt_words`."""
    return numbers_in(questions).list.len().cast(pl.Float64)


def response_words(texts: pl.Series) -> pl.Series:
    """The number of words in the trace. Range 0, 1, …; null where the log lacks its text. Source: as `prompt_words`."""
    return word_counts(texts)


def response_numbers(texts: pl.Series) -> pl.Series:
    """The number of distinct numbers in the trace. Range 0, 1, … Source: as `prompt_words`."""
    return numbers_in(texts).list.len().cast(pl.Float64)


def response_lines(texts: pl.Series) -> pl.Series:
    """The number of lines in the trace that are not blank. Range 0, 1, … Source: as `prompt_words`."""
    return _count_matches(texts, r"(?m)^.*\S.*$")


SERVING: Mapping[str, tuple[Callable[..., pl.Series], tuple[str, ...]]] = {
    "difficulty": (difficulty, ("question",)),
    "verification_need": (verification_need, ("question",)),
    "constraint_density": (constraint_density, ("question",)),
    "answer_length": (answer_length, ("answer",)),
    "answer_format": (answer_format, ("answer", "labels")),
    "prompt_words": (prompt_words, ("question",)),
    "prompt_numbers": (prompt_numbers, ("question",)),
    "response_words": (response_words, ("text",)),
    "response_numbers": (response_numbers, ("text",)),
    "response_lines": (response_lines, ("text",)),
}
"""The function of each feature, and the columns that it reads."""


class _ServingWorker(FeatureWorker):
    """Computes SeVRA's serving-visible features, which count words and signs."""

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        labels = [name for name in ("labels",) if name in block.examples.columns]
        examples = block.examples.select("example_id", "question", *labels)
        both = rows.join(examples, on="example_id", how="left", maintain_order="left")
        both = both if labels else both.with_columns(labels=None)
        features = {name: make(*(both[column] for column in columns)) for name, (make, columns) in SERVING.items()}
        return features, {}


@dataclass(frozen=True, kw_only=True)
class ServingFeatures(FeatureSignal):
    """SeVRA's serving-visible features. A trace without a text has those of its question and its answer."""

    kind = "serving"
    worker = _ServingWorker
    features = tuple(SERVING)
    texts_to_read = TextsToRead.NONE
    recorded = SHARED
