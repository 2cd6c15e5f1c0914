"""Verdicts and answers of samples whose format does not say how to read them.

A verdict is the metric that is 0 or 1 in every sample, where 1 is better. Without one, answers are read from texts by
what the reference is; of references that are lists of right answers one must be chosen.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from toolkit.answers import boxed, normalise, number_form, read_answers
from toolkit.imports.formats.prepared import FileNote, Row

NUMBERS = ("boxed", "####", "answer is", "last number")
TEXTS = ("boxed", "####", "answer is")
UNREAD = object()
"""Marks an answer that must be read from the text."""
_TOGETHER = 2_000
_LONE_LETTER = r"^\W*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{)?\W*[A-Z]\W*$"


def with_answers(rows: Iterable[Row]) -> Iterator[Row]:
    """Yields rows with their `gold` read. Rows whose `answer` is UNREAD get one from their `text`, in gold's way.

    Where that is a number: what is marked as the answer, else the last number; else what is marked, else all the text.
    Where it is a letter, all answers beside it are the letters that they name.
    """
    source = iter(rows)
    while block := list(itertools.islice(source, _TOGETHER)):
        for row in block:
            row["gold"] = read_gold(row["gold"])
        due = [row for row in block if row["answer"] is UNREAD]
        texts = pl.Series("text", [row["text"] for row in due], dtype=pl.String)
        numeric = pl.Series([row["gold"] is not None and number_form(row["gold"]) is not None for row in due],
                            dtype=pl.Boolean)  # fmt: skip
        marked = read_answers(texts, TEXTS)
        whole = marked.zip_with(marked.is_not_null(), texts.str.strip_chars().replace("", None))
        for row, answer in zip(due, read_answers(texts, NUMBERS).zip_with(numeric, whole), strict=True):
            row["answer"] = answer
        _name_letters(block)
        yield from block


def _name_letters(rows: Sequence[Row]) -> None:
    """Writes gold and answers as the letters of choices where gold is one, as in `(A)`. A text without a mark counts as
    the letter that its last line names, if any.
    """
    table = pl.DataFrame(
        [(place, row["gold"], row["answer"]) for place, row in enumerate(rows)],
        schema={"place": pl.Int64, "gold": pl.String, "answer": pl.String},
        orient="row",
    ).filter(pl.col("gold").str.contains(_LONE_LETTER))
    answers = normalise(table["answer"], "choice")
    last = normalise(read_answers(answers, ["last line"]), "choice")
    named = last.zip_with(_is_letter(last) & ~_is_letter(answers), answers)
    for place, gold, answer in zip(table["place"], normalise(table["gold"], "choice"), named, strict=True):
        rows[place].update(gold=gold, answer=answer)


def _is_letter(forms: pl.Series) -> pl.Series:
    return forms.str.contains("^[A-Z]$").fill_null(False)


def read_gold(gold: str | None) -> str | None:
    """The answer in a reference text: the boxed part, else what follows `####`, else the whole."""
    if gold is None:
        return None
    answer = boxed(gold) or gold.rpartition("####")[2]
    return answer.strip() or gold


def note_list_golds(rows: Iterable[Row], task: str, notes: list[FileNote]) -> Iterator[Row]:
    """Yields the rows unchanged. It adds a note where answers without a verdict are compared with lists of texts."""
    any_list = False
    for row in rows:
        any_list = any_list or (row["correct"] is None and not row["opaque"] and _is_list(row["gold"]))
        yield row
    if any_list:
        text = "the targets are lists, with which no answer is equal: name the element that counts, such as"
        notes.append(FileNote(task, f"{text} `--set 'examples.gold=gold[0]'`", code="gold_lists"))


def _is_list(gold: str | None) -> bool:
    """Whether a reference is a JSON list of several texts. `[1, 2]` is not, as it may be an answer."""
    if gold is None or not gold.startswith("["):
        return False
    try:
        value = json.loads(gold)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


KNOWN = (
    "exact_match", "extractive_match", "math_verify", "acc", "pass@1", "em", "quasi_exact_match", "qem",
    "prefix_exact_match",
)  # fmt: skip

_LOWER = re.compile(
    r"toxic|stereotyp|unsafe|hallucinat|attack|perplexity|error|brier|(^|_)(wer|cer|ter|ece)(_|$)", re.IGNORECASE
)
"""Names of metrics for which lower is better."""


def verdict_metric(samples: Iterable[Mapping[str, Any]]) -> str | None:
    """The metric that serves as verdict: a known name, else the first that is 0 or 1 in every sample, nulls ignored.
    None where there is none.
    """
    seen: dict[str, bool] = {}
    for sample in samples:
        note_metrics(seen, sample)
    return best_metric(seen)


def note_metrics(seen: dict[str, bool], sample: Mapping[str, Any]) -> None:
    """Updates `seen` with a sample: for each metric, whether it was 0 or 1 in every sample so far."""
    for name, value in sample.items():
        if value is not None:
            seen[name] = seen.get(name, True) and as_verdict(value) is not None


def best_metric(verdicts: Mapping[str, bool], higher: Mapping[str, bool] | None = None) -> str | None:
    """The metric that serves as verdict, among those that are 0 or 1 throughout with 1 the better. None without one.
    `higher`: whether higher is better, by metric; for others the name decides.
    """
    known = higher or {}
    names = [name for name, whole in verdicts.items() if whole and known.get(name, not _LOWER.search(name))]
    return next((name for name in KNOWN if name in names), names[0] if names else None)


def as_verdict(value: Any) -> bool | None:
    """A metric's value as a verdict, true for 1 and false for 0; None for any other."""
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None


@dataclass
class ScoreValues:
    """A running summary of a scorer's values. `odd`: the number of values that are no numbers."""

    count: int = 0
    odd: int = 0
    least: float = math.inf
    most: float = -math.inf
    whole: bool = True  # 0 or 1 throughout

    def add(self, value: float | None) -> None:
        """Add a value."""
        if value is None:
            self.odd += 1
            return
        self.count += 1
        self.least, self.most = min(self.least, value), max(self.most, value)
        self.whole = self.whole and as_verdict(value) is not None

    @property
    def is_share(self) -> bool:
        """Whether there are values and all of them lie from 0 to 1."""
        return self.count > 0 and self.least >= 0 and self.most <= 1
