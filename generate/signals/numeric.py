"""Numbers in texts: whether those of a claim come up in a justification, and whether those of a justification are
grounded in the evidence.

A number is a run of the digits 0 to 9, with commas between groups of three and a decimal point, and takes a scale word
that follows it: `1,450`, `1450.0` and `1.45 thousand` are one number. Its sign, unit, currency and percent sign don't
count.
"""

from __future__ import annotations

import polars as pl

_NUMBER = r"(?i)(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[ -]?(?:thousand|million|billion|trillion)\b)?"
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_DECIMALS = 6


def numbers_in(texts: pl.Series) -> pl.Series:
    """The distinct numbers in each text as lists (n,) of float64, rounded to six decimals; null for a null."""
    number = pl.element().str.to_lowercase()
    value = number.str.extract(r"^([0-9,.]+)", 1).str.replace_all(",", "").cast(pl.Float64)
    scale = number.str.extract(r"([a-z]+)$", 1).replace_strict(_SCALES, default=1.0, return_dtype=pl.Float64)
    listed = pl.col("text").str.extract_all(_NUMBER)
    numbers = listed.list.eval((value * scale).round(_DECIMALS)).list.unique(maintain_order=True)
    frame = pl.DataFrame({"text": texts.cast(pl.String)})
    return frame.select(numbers=numbers.cast(pl.List(pl.Float64)))["numbers"]


def _share_among(numbers: pl.Series, among: pl.Series) -> pl.Series:
    """The share of each list's numbers that are in the list beside it, (n,) float64; 1 for an empty list."""
    frame = pl.DataFrame({"numbers": numbers, "among": among})
    both = pl.col("numbers").list.set_intersection("among").list.len()
    share = pl.when(pl.col("numbers").list.len() == 0).then(1.0).otherwise(both / pl.col("numbers").list.len())
    return frame.select(share.cast(pl.Float64).alias("share"))["share"]


def claim_numeric_coverage(claims: pl.Series, justifications: pl.Series) -> pl.Series:
    """The share of a claim's distinct numbers that its justification mentions.

    Range [0, 1]; 1 for a claim without numbers, for then nothing is missing. Source: the thesis on efficient
    fact-checking (TU Delft, 2026), section 4.6.5, which names the feature; the definition of a number is ours.
    """
    return _share_among(numbers_in(claims), numbers_in(justifications))


def evidence_numeric_grounding(justifications: pl.Series, evidence: pl.Series) -> pl.Series:
    """The share of a justification's distinct numbers that its evidence mentions.

    Range [0, 1]; 1 for a justification without numbers, for then nothing is made up. Source: as
    `claim_numeric_coverage`.
    """
    return _share_among(numbers_in(justifications), numbers_in(evidence))


def relative_justification_length(justifications: pl.Series, long: int) -> pl.Series:
    """The number of words in a justification divided by `long`, at most 1.

    Range [0, 1]. Source: as `claim_numeric_coverage` ("normalized justification length"); the thesis does not say by
    what it is normalised, so `long` is a setting (200 by default).
    """
    return (word_counts(justifications) / long).clip(0, 1)


def word_counts(texts: pl.Series) -> pl.Series:
    """The number of words in each text by white space, (n,) float64; null for a null."""
    return texts.cast(pl.String).str.count_matches(r"\S+").cast(pl.Float64)
