"""Judging a normalised answer against a normalised reference. A null answer is wrong; no reference, no verdict.

`equal`       the normal forms are equal strings.
`normalised`  their SQuAD forms are equal (exact match of open question answering), also where votes are counted on
              another form.
`cover`       the reference's SQuAD form occurs in the answer's, as whole words: `cover-EM` (Rosset et al. 2020,
              arXiv:2007.00655), with `man` not in `woman`.
Equal answers of one example are judged equally by each of them, for they see nothing but the two strings.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from toolkit.answers.forms import text_forms
from toolkit.errors import ThinkbackError, suggest


def _cover(answers: pl.Series, gold: pl.Series) -> pl.Series:
    frame = pl.DataFrame({"a": text_forms(answers.str.strip_chars()), "g": text_forms(gold.str.strip_chars())})
    padded = [pl.format(" {} ", pl.col(name)) for name in ("a", "g")]
    return frame.select(padded[0].str.contains(padded[1], literal=True).alias("right")).to_series()


_JUDGES: dict[str, Callable[[pl.Series, pl.Series], pl.Series]] = {
    "equal": lambda answers, gold: answers == gold,
    "normalised": lambda answers, gold: text_forms(answers.str.strip_chars()) == text_forms(gold.str.strip_chars()),
    "cover": _cover,
}
JUDGES = tuple(_JUDGES)


def judge(answers: pl.Series, gold: pl.Series, how: str = "equal") -> pl.Series:
    """Verdicts, Boolean, of `answers` against `gold`, two columns of strings of one length."""
    if how not in JUDGES:
        raise ThinkbackError(f"unknown judge `{how}`; {suggest(how, JUDGES)}")
    right = _JUDGES[how](answers, gold).fill_null(False).alias("correct")
    return right.zip_with(gold.is_not_null(), right.clear(len(right)))
