"""What can be checked of an attempt without a model: SeVRA's summary of checks, as features.

SeVRA (2026, appendix Y.2) recommends that a log stores three flags of a checked answer, an arithmetic mismatch, a
constraint mismatch and whether the final answer changed, and leaves open how they are found. The rules here are ours.
They are cautious: what they cannot read with certainty is no mismatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import polars as pl

from generate.signals.feature_signals import FeatureSignal, FeatureWorker
from generate.signals.sums import evaluated, wrong_sum
from generate.traces.block import Texts, TraceBlock
from toolkit.answers import normalise, number_form

_EQUAL = 1e-6
_SIGNS = str.maketrans({"×": "*", "÷": "/", "·": "*", "−": "-"})

_UNKNOWN = re.compile(
    r"\b(?:for|value of|what is) ([a-z])(?=\s*(?:[.?!,;:]|$)|\s+(?:if|when|given|where)\b)", re.IGNORECASE
)
_MORE_THAN_AN_EQUATION = re.compile(r"[\^√∛\\{}\[\]|!%<>≤≥≠≡~²³⁴°_]|\*\*|/[ \t]*\d+[ \t]*[A-Za-z]")
_BEFORE_EQUATION = frozenset(["solve", "if", "equation", "that", "let", "suppose", "given", "when", "where", "and"])
_AFTER_EQUATION = frozenset(["for", "what", "find", "then", "determine", "where"])

_WHOLE_THINGS = (
    "people|persons|children|kids|students|boys|girls|men|women|friends|players|workers|employees|passengers|guests|"
    "customers|teachers|animals|dogs|cats|birds|fish|horses|cows|chickens|sheep|cars|buses|boats|books|apples|oranges|"
    "eggs|coins|marbles|balls|cards|tickets|stamps|stickers|toys|pencils|pens|chairs|flowers|trees|homes|houses|"
    "integers|primes|prime numbers|divisors|factors|solutions|ways|digits|subsets|triangles|vertices"
)
_COUNTED = re.compile(
    rf"\bhow many (?:(?:other|different|distinct|possible|positive) )?(?:{_WHOLE_THINGS})\b", re.IGNORECASE
)
_WHOLE = re.compile(
    r"\b(?:as an?|(?:to|in) the nearest|answer (?:is|must be|should be) an?) (?:integer|whole number)\b|"
    r"\bfind the (?:positive |negative |smallest |largest |least |greatest )?integer\b(?! (?:divided|over|times))",
    re.IGNORECASE,
)
_FRACTIONAL = re.compile(
    r"\b(?:decimals?|fractions?|averages?|mean|expected|percent\w*|half|halves|per|each|every|share\w*|ratio|rate|tenths?|"
    r"hundredths?|change\w*|differ\w*)\b|%",
    re.IGNORECASE,
)


def arithmetic_mismatch(texts: pl.Series, cut: pl.Series | None = None) -> pl.Series:
    """Whether some equation between numbers alone is wrong: `15 + 19 = 35`, or a step of `2 * 3 = 6 = 7`.

    Sides are numbers, + - * / and brackets, and the cross between two numbers. One is read only where what stands
    beside it is known not to belong to it: not that of `60 = 20*j`, `half of 20 = 10` or `7 = 1 (mod 3)`. A decimal
    number may be rounded, or cut off, in its last digit, and a number with a unit may be in one of another size. cut:
    (n,) whether a text ends where its tokens ended. Range {0, 1}; null where the log has no text. Source: SeVRA,
    appendix Y.2, "arithmetic mismatch".
    """
    ends = [False] * len(texts) if cut is None else cut.fill_null(False).to_list()
    pairs = zip(texts.cast(pl.String), ends, strict=True)
    return _flags(texts, (None if text is None else wrong_sum(text, end) for text, end in pairs))


def constraint_mismatch(questions: pl.Series, answers: pl.Series, labels: pl.Series) -> pl.Series:
    """Whether an answer breaks what the question says of it: it is no label of the example; put in the place of the
    unknown (`Solve 2*x + 1 = 7 for x`) it makes the sides of the question's only equation differ; or it is negative or
    no whole number where the question asks how many there are of things that come whole (`how many apples`, not `how
    many hours`), or no whole number where it asks for an integer.

    labels: (n,) lists, null where the example has none. Range {0, 1}; an answer that was not read breaks nothing.
    Source: SeVRA, appendix Y.2, "constraint mismatch".
    """
    rows = zip(questions.cast(pl.String), answers.cast(pl.String), labels.to_list(), strict=True)
    return _flags(questions, (_breaks(question or "", answer, among) for question, answer, among in rows))


def answer_changed(answers: pl.Series, attempts: pl.Series, revised: pl.Series) -> pl.Series:
    """Whether a revision's answer is another one than that of the attempt that it revises; to give one where there was
    none is a change, and so is the reverse.

    One answer in two spellings (`3` and `3.0`, `True` and `true.`) has not changed, nor one with a unit beside it.
    revised: (n,) whether a trace revises another, which is at hand. Range {0, 1}; null for a first attempt, which
    changes nothing. Source: SeVRA, appendix Y.2, "final-answer changed".
    """
    rows = zip(answers.cast(pl.String), attempts.cast(pl.String), revised, strict=True)
    return _flags(answers, (_differ(own, before) if again else None for own, before, again in rows))


def _differ(own: str | None, before: str | None) -> bool:
    one, other = (None if text is None or not text.strip() else _bare(text) for text in (own, before))
    if one is None or other is None or one == other:
        return one is not other and one != other
    numbers = [number_form(text) for text in (one, other)]
    if None not in numbers:
        return numbers[0] != numbers[1]
    within = [set(re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))) for text in (one, other)]
    return not (within[0] and within[0] == within[1])


def _bare(text: str) -> str:
    """An answer without the name of an unknown, case, and the signs and spaces around it."""
    return re.sub(r"^[a-z]\s*=\s*", "", " ".join(text.split()).strip("$.*\"' ").casefold())


def _flags(like: pl.Series, values: Iterable[bool | None]) -> pl.Series:
    return pl.Series(like.name, [None if value is None else float(value) for value in values], dtype=pl.Float64)


def _breaks(question: str, answer: str | None, labels: list[str] | None) -> bool:
    if answer is None or not answer.strip():
        return False
    if labels:
        return normalise(pl.Series([answer]), "label", list(dict.fromkeys(labels)))[0] not in labels
    form = number_form(answer)
    if form is None or re.search(r"[%°]|percent|degree", answer):
        return False
    given = Fraction(form)
    if _WHOLE.search(question) and not _FRACTIONAL.search(question) and given.denominator != 1:
        return True
    if _COUNTED.search(question) and not _FRACTIONAL.search(question) and (given < 0 or given.denominator != 1):
        return True
    return _unsolved(question, answer, given)


def _unsolved(question: str, answer: str, given: Fraction) -> bool:
    """Whether the answer makes the sides of the question's only equation differ."""
    named = _UNKNOWN.search(question)
    if named is None or question.count("=") != 1 or _MORE_THAN_AN_EQUATION.search(question):
        return False
    letter = named[1]
    alone = re.sub(r"[A-Za-z]+", lambda word: word[0] if word[0] == letter else "|" * len(word[0]), question)
    run = re.search(rf"[-+*/().\d \t{letter}×÷·−]*=[-+*/().\d \t{letter}×÷·−]*", alone)
    if run is None or letter not in run[0] or not _stands_alone(question[: run.start()], question[run.end() :]):
        return False
    put = re.sub(rf"(?<=[\d)])[ \t]*{letter}", f"*{letter}", run[0].translate(_SIGNS))
    decimals = re.fullmatch(r"[-+−]?[\d,]*\.(\d+)", answer.strip())
    room = Fraction(1, 10 ** len(decimals[1])) if decimals else Fraction(0)
    apart = [_apart(put, letter, value) for value in (given - room, given, given + room)]
    known = [value for value in apart if value is not None]
    # a decimal answer may be rounded: the sides meet somewhere in its last digit
    return len(known) == len(apart) and (min(known) > _EQUAL or max(known) < -_EQUAL)


def _stands_alone(before: str, after: str) -> bool:
    """Whether an equation is whole: what is beside it belongs to the sentence."""
    word = re.search(r"([A-Za-z]+)\s*$", before)
    begins = not before.strip() or before.rstrip()[-1] in ":,." or (word and word[1].lower() in _BEFORE_EQUATION)
    ahead = re.match(r"\s*([A-Za-z]+)", after)
    ends = not after.strip() or re.match(r"\s*[,;?](?!\d)", after) or (ahead and ahead[1].lower() in _AFTER_EQUATION)
    return bool(begins and ends)


def _apart(equation: str, letter: str, value: Fraction) -> float | None:
    """The left side less the right, relative to their size, with a number in the place of the unknown."""
    put = equation.replace(letter, f"({value.numerator}/{value.denominator})")
    first, second = (evaluated(side.strip(" .")) for side in put.split("="))
    if first is None or second is None:
        return None
    return (first - second) / max(1.0, abs(first), abs(second))


class CheckWorker(FeatureWorker):
    """Reads sums, puts answers into equations, and compares revisions with their attempts."""

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """All columns."""
        labels = [name for name in ("labels",) if name in block.examples.columns]
        both = rows.join(
            block.examples.select("example_id", "question", *labels), on="example_id", how="left", maintain_order="left"
        )
        among = both["labels"] if labels else pl.Series([None] * len(both), dtype=pl.List(pl.String))
        attempts = block.traces.select(parent_id="trace_id", before="answer", known=pl.lit(True))
        attempt = rows.select("parent_id").join(attempts, on="parent_id", how="left", maintain_order="left")
        made = {
            "arithmetic_mismatch": arithmetic_mismatch(both["text"], both["finish_reason"] == "length"),
            "constraint_mismatch": constraint_mismatch(both["question"], both["answer"], among),
            "answer_changed": answer_changed(both["answer"], attempt["before"], attempt["known"].fill_null(False)),
        }
        return made, {}


@dataclass(frozen=True, kw_only=True)
class CheckFeatures(FeatureSignal):
    """SeVRA's summary of checks. A trace without a text has what its answer says."""

    kind = "checks"
    worker = CheckWorker
    features = ("arithmetic_mismatch", "constraint_mismatch", "answer_changed")
    texts = Texts.NONE
