"""Numbers that are one value in two forms: with a unit, the base of their digits, or in percent.

`5.4 \\text{ cents}` is 5.4, `2516_8` is 2516, and `5 %` is .05 as well as 5. Judges that compare expressions, such as
math-verify, take these for equal; the normal form of a number does not, since it may matter which is meant.
"""

from __future__ import annotations

import re
from functools import lru_cache

import polars as pl

from toolkit.answers.numbers import number_form

_BASE = re.compile(r"(?<=[0-9])_\{?[0-9]+\}?\s*$")
_WORDS = r"\\(?:text|textbf|mathrm|mbox)\s*\{[^{}]*\}|(?<=[0-9.}])\s*[A-Za-z][A-Za-z ./]*"
_UNIT = re.compile(rf"(?:{_WORDS})(?:\^\{{?[23]\}}?)?\s*$")
_PERCENT = re.compile(r"%|percent")
_ANY = r"\\(?:text|mathrm|mbox)|_\{?[0-9]|%|percent|[0-9.}]\s*[A-Za-z]"
"""Pattern of the signs that such a form has."""


def same_values(answers: pl.Series, gold: pl.Series) -> pl.Series:
    """Whether an answer and its gold are one number in two forms, row by row (Boolean); false where one is null."""
    pairs = pl.DataFrame({"answer": answers, "gold": gold})
    odd = pl.any_horizontal(pl.col("answer", "gold").str.contains(_ANY)) & (pl.col("answer") != pl.col("gold"))
    rows = pairs.select(odd.fill_null(False)).to_series().arg_true()
    alike = [bool(_candidate_forms(one) & _candidate_forms(other)) for one, other in pairs[rows].iter_rows()]
    return pl.repeat(False, len(answers), eager=True).scatter(rows, alike)


@lru_cache(maxsize=65_536)
def _candidate_forms(text: str) -> frozenset[str]:
    """The normal forms of all numbers that a text may mean; empty where it is no number."""
    bare = _BASE.sub("", text.strip().strip("$").strip())
    form = number_form(bare) or number_form(_UNIT.sub("", bare))
    if form is None:
        return frozenset()
    share = number_form(f"{form}/100") if _PERCENT.search(text) and "/" not in form else None
    return frozenset([form] if share is None else [form, share])
