"""Reading answers from texts for which a format has no verdict and names no way to read: by what the reference is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from toolkit.answers import boxed, normalise, number_form, read_answers
from toolkit.imports.formats.format import Row

NUMBERS = ("boxed", "####", "answer is", "last number")
TEXTS = ("boxed", "####", "answer is")
UNREAD = object()
"""Stands for an answer that is yet to be read."""
_TOGETHER = 2_000
_LONE_LETTER = r"^\W*(?:\\(?:text|textbf|mathrm|mathbf)\s*\{)?\W*[A-Z]\W*$"


def with_answers(rows: Iterable[Row]) -> Iterator[Row]:
    """Rows with their `gold` read; those whose `answer` is UNREAD get one from their `text`, as their gold is.

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
    """Where a gold is a letter, as in `(A)`, put it and the answers beside it into the form of a choice.

    A text without a mark is the letter of its last line, where this names one.
    """
    table = pl.DataFrame(
        [(place, row["gold"], row["answer"]) for place, row in enumerate(rows)],
        schema={"place": pl.Int64, "gold": pl.String, "answer": pl.String},
        orient="row",
    ).filter(pl.col("gold").str.contains(_LONE_LETTER))
    answers = normalise(table["answer"], "choice")
    last = normalise(read_answers(answers, ["last line"]), "choice")
    named = last.zip_with(_letters(last) & ~_letters(answers), answers)
    for place, gold, answer in zip(table["place"], normalise(table["gold"], "choice"), named, strict=True):
        rows[place].update(gold=gold, answer=answer)


def _letters(forms: pl.Series) -> pl.Series:
    return forms.str.contains("^[A-Z]$").fill_null(False)


def read_gold(gold: str | None) -> str | None:
    """A reference without the solution around it: what is boxed in it, else what follows `####`; else the whole."""
    if gold is None:
        return None
    found = boxed(gold) or gold.rpartition("####")[2]
    return found.strip() or gold
