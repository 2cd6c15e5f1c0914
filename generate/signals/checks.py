"""What can be checked of an attempt without a model: SeVRA's summary of checks, as features.

SeVRA (2026, appendix Y.2) recommends that a log stores three flags of a checked answer, an arithmetic mismatch, a
constraint mismatch and whether the final answer changed, and leaves open how they are found. The rules here are ours.
They are cautious: what they cannot read with certainty is no mismatch.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import polars as pl

from generate.signals.feature_signals import FeatureSignal, FeatureWorker
from generate.traces.block import Texts, TraceBlock

_TERM = r"[( \t]*[-+−]?\d+(?:,\d{3})*(?:\.\d+)?[) \t]*"
_SUM = rf"{_TERM}(?:[-+*/×÷·−]{_TERM})*"
_EQUATION = re.compile(rf"{_SUM}(?:={_SUM})+")
_JOINED_BEFORE, _JOINED_AFTER = r"[\w.:,$\\}%^]$|[-+*/×÷·−^(\\}%][ \t]*$", r"[\w%^{\\√!(]|[ \t]*[-+*/×÷·−^]"
_SIGNS = str.maketrans({"×": "*", "÷": "/", "·": "*", "−": "-"})
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PLAIN = re.compile(r"[-+]?\d+(?:\.(\d+))?")
_UNKNOWN = re.compile(r"\bfor ([a-z])\b|\bvalue of ([a-z])\b|\bwhat is ([a-z])\b", re.IGNORECASE)
_COUNTED = re.compile(r"\bhow many\b|\binteger\b|\bwhole number\b", re.IGNORECASE)
_EQUAL = 1e-9
_LONGEST = 200  # characters of a side; a longer one is not read

_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def arithmetic_mismatch(texts: pl.Series) -> pl.Series:
    """Whether some equation between numbers alone is wrong: `15 + 19 = 35`, or a step of `2 * 3 = 6 = 7`.

    Sides are numbers, + - * / and brackets; one beside a letter, such as that of `60 = 20*j`, is not read. A side that
    is a decimal number may be rounded in its last digit. Range {0, 1}; null where the log has no text. Source: SeVRA,
    appendix Y.2, "arithmetic mismatch".
    """
    return _flags(texts, (None if text is None else _wrong_sum(text) for text in texts.cast(pl.String)))


def constraint_mismatch(questions: pl.Series, answers: pl.Series, labels: pl.Series) -> pl.Series:
    """Whether an answer breaks what the question says of it: it is no label of the example; put in the place of the
    unknown (`Solve 2*x + 1 = 7 for x`) it makes the sides of the question's only equation differ; or it is negative or
    no whole number where the question asks how many, or for an integer.

    labels: (n,) lists, null where the example has none. Range {0, 1}; an answer that was not read breaks nothing.
    Source: SeVRA, appendix Y.2, "constraint mismatch".
    """
    rows = zip(questions.cast(pl.String), answers.cast(pl.String), labels.to_list(), strict=True)
    return _flags(questions, (_breaks(question or "", answer, among) for question, answer, among in rows))


def answer_changed(answers: pl.Series, attempts: pl.Series, revised: pl.Series) -> pl.Series:
    """Whether a revision's answer is another one than that of the attempt that it revises; to give one where there was
    none is a change, and so is the reverse.

    revised: (n,) whether a trace revises another. Range {0, 1}; null for a first attempt, which changes nothing.
    Source: SeVRA, appendix Y.2, "final-answer changed".
    """
    frame = pl.DataFrame({"own": answers.cast(pl.String), "before": attempts.cast(pl.String), "revised": revised})
    own, before = pl.col("own").str.strip_chars(), pl.col("before").str.strip_chars()
    return frame.select(changed=pl.when("revised").then(own.ne_missing(before)).cast(pl.Float64))["changed"]


def _flags(like: pl.Series, values: Iterable[bool | None]) -> pl.Series:
    return pl.Series(like.name, [None if value is None else float(value) for value in values], dtype=pl.Float64)


def _wrong_sum(text: str) -> bool:
    """Whether some step of an equation between numbers does not hold."""
    return any(
        first is not None and second is not None and not _agree(first, second)
        for found in _EQUATION.finditer(text)
        for first, second in pairwise(_sides(text, found))
    )


def _sides(text: str, found: re.Match[str]) -> list[tuple[float, float] | None]:
    """The sides of an equation, each as a number and the rounding that it allows; None where more belongs to it."""
    inner = found[0].strip()
    start = found.start() + found[0].index(inner)
    before, after = text[max(0, start - 20) : start], text[start + len(inner) :][:20]
    sides = [_number(side) for side in inner.split("=")]
    signed = inner[0] in "-+−" and re.search(r"[\w)\]][ \t]*$", before)
    if signed or re.search(_JOINED_BEFORE, before):
        sides[0] = None
    if re.match(_JOINED_AFTER, after) or re.match(r"[ \t]+[A-Za-z](?![A-Za-z])", after):  # an unknown, not a unit
        sides[-1] = None
    return sides


def _number(side: str) -> tuple[float, float] | None:
    """What a side comes to, with half of the last decimal of a plain number."""
    plain = _GROUPED.sub("", side.strip()).translate(_SIGNS)
    value = _value(plain)
    if value is None:
        return None
    shown = _PLAIN.fullmatch(plain)
    return value, 0.5 * 10.0 ** -len(shown[1]) if shown and shown[1] else 0.0


def _agree(first: tuple[float, float], second: tuple[float, float]) -> bool:
    room = max(first[1], second[1]) * (1 + _EQUAL)
    return math.isclose(first[0], second[0], rel_tol=_EQUAL, abs_tol=room + _EQUAL)


def _value(expression: str) -> float | None:
    """An expression of numbers, + - * / and brackets; None for anything else."""
    if not expression or len(expression) > _LONGEST:
        return None
    try:
        found = _evaluated(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None
    return found if math.isfinite(found) else None


def _evaluated(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(left), _evaluated(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(operand))
    raise ValueError("not a sum")


def _breaks(question: str, answer: str | None, labels: list[str] | None) -> bool:
    if answer is None:
        return False
    if labels:
        return answer not in labels
    given = _number(answer)
    if given is None:
        return False
    if _COUNTED.search(question) and ((given[0] < 0 and "how many" in question.lower()) or given[0] != int(given[0])):
        return True
    return _unsolved(question, answer)


def _unsolved(question: str, answer: str) -> bool:
    """Whether the answer makes the sides of the question's only equation differ."""
    named = _UNKNOWN.search(question)
    if named is None:
        return False
    letter = next(filter(None, named.groups()))
    alone = re.sub(r"[A-Za-z]+", lambda word: word[0] if word[0] == letter else "|", question)
    run = re.compile(rf"[-+*/().\d \t{letter}×÷·−]*=[-+*/().\d \t{letter}×÷·−]*")
    equations = [one for one in run.findall(alone) if letter in one]
    if question.count("=") != 1 or len(equations) != 1:
        return False
    put = re.sub(rf"(?<=[\d)])[ \t]*{letter}", f"*{letter}", equations[0]).replace(letter, f"({answer})")
    first, second = (_value(side.strip(" .").translate(_SIGNS)) for side in put.split("="))
    return first is not None and second is not None and not math.isclose(first, second, rel_tol=1e-6, abs_tol=1e-6)


class CheckWorker(FeatureWorker):
    """Reads sums, puts answers into equations, and compares revisions with their attempts."""

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        """All columns."""
        labels = [name for name in ("labels",) if name in block.examples.columns]
        both = rows.join(
            block.examples.select("example_id", "question", *labels), on="example_id", how="left", maintain_order="left"
        )
        among = both["labels"] if labels else pl.Series([None] * len(both), dtype=pl.List(pl.String))
        attempts = block.traces.select(parent_id="trace_id", before="answer")
        before = rows.select("parent_id").join(attempts, on="parent_id", how="left", maintain_order="left")["before"]
        made = {
            "arithmetic_mismatch": arithmetic_mismatch(both["text"]),
            "constraint_mismatch": constraint_mismatch(both["question"], both["answer"], among),
            "answer_changed": answer_changed(both["answer"], before, rows["parent_id"].is_not_null()),
        }
        return made, {}


@dataclass(frozen=True, kw_only=True)
class CheckFeatures(FeatureSignal):
    """SeVRA's summary of checks. A trace without a text has what its answer says."""

    kind = "checks"
    worker = CheckWorker
    features = ("arithmetic_mismatch", "constraint_mismatch", "answer_changed")
    texts = Texts.NONE
