"""Checks of an attempt that need no model: SeVRA's summary of checks, as features.

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
from fractions import Fraction
from itertools import pairwise
from typing import Any

import polars as pl

from generate.signals.feature_signals import FeatureSignal, FeatureWorker
from generate.traces.block import TextsToRead, TraceBlock
from toolkit.answers import normalise, number_form

_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
_TERM = rf"[( \t]*[-+−]?{_DIGITS}[) \t]*"
_CROSS = r"(?<=\d)(?<!\b0)[xX](?=\d)|(?<=[ \t])[xX](?=[ \t]+[\d(])"  # 2x3 and 2 x 3, not 0x10 and 2x
_SUM = rf"{_TERM}(?:(?:[-+*/×÷·−]|{_CROSS}){_TERM})*"
_EQUATION = re.compile(rf"{_SUM}(?:={_SUM})+")
_PLAIN_SIGNS = str.maketrans({"×": "*", "÷": "/", "·": "*", "−": "-", "x": "*", "X": "*"})
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_PLAIN = re.compile(r"[-+]?\d+(?:\.(\d+))?")
_LEADING = re.compile(rf"\s*{_DIGITS}")
# a date, a range of numbers, and a point that may group thousands
_DATE, _RANGE = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?/\d\d?/\d{2,4}"), re.compile(r"(\d+)-(\d+)")
_POINTED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}\.\d{3}(?!\d)")
_GROUP_OR_FRACTION = re.compile(r"\d{3}(?!\d)|\d+[ \t]*/")

_COEFFICIENT = re.compile(r"\d[ \t]*[*·]?[ \t]*[A-Za-z]\b(?![ \t]*\d)")

# What makes another calculation of all sums of a text, and what doubts those of its line.
_ELSEWHERE = re.compile(
    r"\bmod(?:ulo)?\b|\bcongruen|\bbase\b|\bbinary\b|\boctal\b|\bhexadecimal\b|clock\b", re.IGNORECASE
)
_DOUBTED = re.compile(
    r"\b(?:not|isn't|wrong|false|incorrect|mistake|error|if|suppose|assume|instead|round|rounds|rounded|rounding|about|"
    r"approx\w*|roughly|nearly|almost|nearest|estimate\w*|floor|ceil\w*|truncat\w*|remainder|rem|leftover|left over|"
    r"impossible|contradict\w*)\b|[?≠≈≡~]",
    re.IGNORECASE,
)
_BEFORE = frozenset({
    "so", "is", "are", "was", "get", "gets", "got", "have", "has", "had", "then", "thus", "hence", "therefore",
    "total", "totals", "gives", "makes", "means", "that", "now", "it's", "that's", "which", "because", "since",
    "compute", "calculate",
})  # fmt: skip
_NO_LABELS = frozenset({
    "times", "minus", "plus", "cos", "roots", "logs", "halves", "thirds", "quarters", "doubles", "triples",
    "has", "his", "this", "its",
})  # fmt: skip
_AFTER = frozenset({
    "times", "plus", "minus", "over", "per", "percent", "pct", "cent", "choose", "factorial", "of", "to", "in",
    "is", "are", "was", "would", "or", "if", "when", "with", "without", "by", "half", "am", "pm", "degrees",
    "deg", "dozen", "hundred", "thousand", "million", "billion", "trillion", "each", "off", "more", "less",
    "short",
})  # fmt: skip
_SAME_VALUE = 1e-9
_LONGEST = 200  # characters of a side; a longer one is not read
_REACH = 80  # characters of a line that are looked at before and after an equation


@dataclass(frozen=True)
class _EquationSide:
    """One side of an equation in a text. unit: the size of a plain number's last decimal, else 0. plain: whether it is
    one number.
    """

    text: str
    value: float
    unit: float
    plain: bool


def _has_wrong_sum(text: str, cut: bool = False) -> bool:
    """Whether some equation between numbers certainly fails. cut: whether the token limit ended the text, so that its
    last number may lack digits.
    """
    if _ELSEWHERE.search(text):
        return False
    return any(_is_wrong_equation(text, match, cut) for match in _EQUATION.finditer(text))


def _read_side(text: str) -> _EquationSide | None:
    """The value of a number or a sum of numbers; None for any other text."""
    stripped = text.strip()
    if _DATE.fullmatch(stripped) or _POINTED.search(stripped):
        return None
    plain = _GROUPED.sub("", stripped).translate(_PLAIN_SIGNS)
    value = evaluate_expression(plain)
    if value is None:
        return None
    decimals = _PLAIN.fullmatch(plain)
    return _EquationSide(
        plain, value, 10.0 ** -len(decimals[1]) if decimals and decimals[1] else 0.0, decimals is not None
    )


def evaluate_expression(expression: str) -> float | None:
    """The value of an expression of numbers, + - * / and brackets; None for anything else."""
    if not expression or len(expression) > _LONGEST:
        return None
    try:
        value = _evaluate_node(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None
    return value if math.isfinite(value) else None


_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def _evaluate_node(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate_node(left), _evaluate_node(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate_node(operand))
    raise ValueError("not a sum")


def _is_wrong_equation(text: str, match: re.Match[str], cut: bool) -> bool:
    inner = match[0].strip()
    start = match.start() + match[0].index(inner)
    before, after = text[:start], text[start + len(inner) :]
    line = before.rpartition("\n")[2][-_REACH:] + " " + after.partition("\n")[0][:_REACH]
    sides = [_read_side(side) for side in inner.split("=")]
    if _DOUBTED.search(line) or all(side is None or side.plain for side in sides):
        return False
    first, last = sides[0], sides[-1]
    # a text that stops here may have been cut off within a number, a sum or a multiple of the unknown
    at_end = not after.strip(" \t.,")
    if first is None or not _starts_term(before, first):
        sides[0] = None
    open_end = at_end and (last is None or not last.plain or _COEFFICIENT.search(text))
    if not _ends_term(after) or open_end:
        sides[-1] = None
    steps = list(pairwise(sides))
    unit = bool(re.match(r"[ \t]+[^\W\d_]", after))
    for place, (one, other) in enumerate(steps, start=1):
        if one is None or other is None or _sides_agree(one, other) or _is_range(one, other) or _is_range(other, one):
            continue
        ending = place == len(steps)
        if not ending and _continues_sum(one, other):
            continue
        if ending and at_end and (cut or one.value.is_integer()) and f"{one.value:.12g}".startswith(other.text):
            continue
        if ending and unit and _may_be_converted(one, other):
            continue
        return True
    return False


def _starts_term(before: str, side: _EquationSide) -> bool:
    """Whether the side begins a term of its own: the text before it does not belong to it."""
    near = before.rstrip(" \t")
    if not near.strip() or near.endswith("<<"):
        return True
    if near[-1] == "\n":
        return near.rstrip()[-1] not in "-+*/×÷·−–^(\\%&<>"
    if near[-1] == "=":
        return near[-2:-1] not in ("<", ">", "!", "/", "~")
    if near == before:
        return False
    if near[-1] in ".;:":
        return not re.search(r"\d[ \t]*:$", near)
    if side.plain or side.text[0] in "(-+":
        return False
    if near[-1].isdigit():
        return not _GROUP_OR_FRACTION.match(side.text)
    if near[-1] == ",":
        return True
    word = re.search(r"(?<![\w\\^'’])[^\W\d_]+(?:['’]s)?$", near)
    if word is None:
        return False
    name = word[0].lower().replace("’", "'")
    labels = word.start() == 0 or near[word.start() - 1] == "\n"
    return name in _BEFORE or (labels and len(name) > 3 and name.endswith("s") and name not in _NO_LABELS)


def _ends_term(after: str) -> bool:
    """Whether a side ends there: the text after it, apart from a unit, does not belong to it."""
    near = after.lstrip(" \t")
    if not near or near.startswith((">>", "=")):
        return True
    if near[0] == "\n":
        return not re.match(r"[-+*/×÷·−–]\s|[×÷·^%]|[+*/]\d", near.lstrip())
    if near == after:
        return near[0] in ".,;:" and near[1:2].strip() == "" and not re.match(r":\s*\d", near)
    if near[0].isdigit():
        return not _GROUP_OR_FRACTION.match(near)
    word = re.match(r"[^\W\d_]+", near)
    if word is None:
        return False
    name = word[0].lower()
    return len(name) > 1 and name not in _AFTER and not name.endswith("ed")


def _sides_agree(first: _EquationSide, second: _EquationSide) -> bool:
    if math.isclose(first.value, second.value, rel_tol=_SAME_VALUE, abs_tol=_SAME_VALUE):
        return True
    return _is_rounded(first, second.value) or _is_rounded(second, first.value)


def _is_rounded(side: _EquationSide, value: float) -> bool:
    """Whether a decimal number may be `value` after rounding, or cutting off, at its last digit."""
    apart = abs(side.value - value)
    if apart <= 0.5 * side.unit * (1 + _SAME_VALUE):
        return True
    return apart < side.unit * (1 - _SAME_VALUE) and abs(side.value) < abs(value)


def _is_range(side: _EquationSide, other: _EquationSide) -> bool:
    """Whether the side is a range of numbers and no difference: `9-12 = 40 students`."""
    ends = _RANGE.fullmatch(side.text)
    return ends is not None and int(ends[1]) < int(ends[2]) and other.value >= 0


def _continues_sum(first: _EquationSide, second: _EquationSide) -> bool:
    """Whether a sum continues from its own result: `5 + 3 = 8 * 2 = 16`."""
    leading = _LEADING.match(second.text)
    return (
        not second.plain and leading is not None and math.isclose(float(leading[0]), first.value, rel_tol=_SAME_VALUE)
    )


def _may_be_converted(first: _EquationSide, second: _EquationSide) -> bool:
    """Whether a number with a unit may be the other one in a unit of another size, or in whole things."""
    if "/" in first.text and second.unit == 0 and abs(first.value - second.value) < 1:
        return True
    small, large = sorted((abs(first.value), abs(second.value)))
    if small == 0:
        return False
    times = large / small
    room = times * max(side.unit / abs(side.value) for side in (first, second)) + _SAME_VALUE
    return round(times) > 1 and abs(times - round(times)) <= room


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
    return _flag_column(texts, (None if text is None else _has_wrong_sum(text, end) for text, end in pairs))


def constraint_mismatch(questions: pl.Series, answers: pl.Series, labels: pl.Series) -> pl.Series:
    """Whether an answer breaks what the question says of it: it is no label of the example; put in the place of the
    unknown (`Solve 2*x + 1 = 7 for x`) it makes the sides of the question's only equation differ; or it is negative or
    no whole number where the question asks how many there are of things that come whole (`how many apples`, not `how
    many hours`), or no whole number where it asks for an integer.

    labels: (n,) lists, null where the example has none. Range {0, 1}; an answer that was not read breaks nothing.
    Source: SeVRA, appendix Y.2, "constraint mismatch".
    """
    rows = zip(questions.cast(pl.String), answers.cast(pl.String), labels.to_list(), strict=True)
    return _flag_column(
        questions, (_breaks_constraint(question or "", answer, among) for question, answer, among in rows)
    )


def answer_changed(answers: pl.Series, attempts: pl.Series, revised: pl.Series) -> pl.Series:
    """Whether a revision's answer differs from that of the attempt it revises. An answer where there was none is a
    change, and so is the reverse.

    One answer in two spellings (`3` and `3.0`, `True` and `true.`) has not changed, nor one with a unit beside it.
    revised: (n,) whether a trace revises another, which is at hand. Range {0, 1}; null for a first attempt, which
    changes nothing. Source: SeVRA, appendix Y.2, "final-answer changed".
    """
    rows = zip(answers.cast(pl.String), attempts.cast(pl.String), revised, strict=True)
    return _flag_column(answers, (_answers_differ(after, before) if again else None for after, before, again in rows))


def _answers_differ(after: str | None, before: str | None) -> bool:
    one, other = (None if text is None or not text.strip() else _bare_answer(text) for text in (after, before))
    if one is None or other is None or one == other:
        return one is not other and one != other
    numbers = [number_form(text) for text in (one, other)]
    if None not in numbers:
        return numbers[0] != numbers[1]
    within = [set(re.findall(r"-?\d+(?:\.\d+)?", text.replace(",", ""))) for text in (one, other)]
    return not (within[0] and within[0] == within[1])


def _bare_answer(text: str) -> str:
    """The answer without an unknown's name, in lower case, without signs and spaces around it."""
    return re.sub(r"^[a-z]\s*=\s*", "", " ".join(text.split()).strip("$.*\"' ").casefold())


def _flag_column(like: pl.Series, values: Iterable[bool | None]) -> pl.Series:
    return pl.Series(like.name, [None if value is None else float(value) for value in values], dtype=pl.Float64)


def _breaks_constraint(question: str, answer: str | None, labels: list[str] | None) -> bool:
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
    return _leaves_unsolved(question, answer, given)


def _leaves_unsolved(question: str, answer: str, labels: Fraction) -> bool:
    """Whether the answer fails to solve the question's only equation."""
    named = _UNKNOWN.search(question)
    if named is None or question.count("=") != 1 or _MORE_THAN_AN_EQUATION.search(question):
        return False
    letter = named[1]
    alone = re.sub(r"[A-Za-z]+", lambda word: word[0] if word[0] == letter else "|" * len(word[0]), question)
    run = re.search(rf"[-+*/().\d \t{letter}×÷·−]*=[-+*/().\d \t{letter}×÷·−]*", alone)
    if run is None or letter not in run[0] or not _stands_alone(question[: run.start()], question[run.end() :]):
        return False
    product = re.sub(rf"(?<=[\d)])[ \t]*{letter}", f"*{letter}", run[0].translate(_SIGNS))
    decimals = re.fullmatch(r"[-+−]?[\d,]*\.(\d+)", answer.strip())
    room = Fraction(1, 10 ** len(decimals[1])) if decimals else Fraction(0)
    apart = [_side_difference(product, letter, value) for value in (labels - room, labels, labels + room)]
    known = [value for value in apart if value is not None]
    # a decimal answer may be rounded: the sides meet somewhere in its last digit
    return len(known) == len(apart) and (min(known) > _EQUAL or max(known) < -_EQUAL)


def _stands_alone(before: str, after: str) -> bool:
    """Whether an equation is complete: the text on both sides of it belongs to the sentence."""
    word = re.search(r"([A-Za-z]+)\s*$", before)
    begins = not before.strip() or before.rstrip()[-1] in ":,." or (word and word[1].lower() in _BEFORE_EQUATION)
    ahead = re.match(r"\s*([A-Za-z]+)", after)
    ends = not after.strip() or re.match(r"\s*[,;?](?!\d)", after) or (ahead and ahead[1].lower() in _AFTER_EQUATION)
    return bool(begins and ends)


def _side_difference(equation: str, letter: str, value: Fraction) -> float | None:
    """The equation's left side less its right, relative to their size, with `value` in place of the unknown."""
    substituted = equation.replace(letter, f"({value.numerator}/{value.denominator})")
    first, second = (evaluate_expression(side.strip(" .")) for side in substituted.split("="))
    if first is None or second is None:
        return None
    return (first - second) / max(1.0, abs(first), abs(second))


class _CheckWorker(FeatureWorker):
    """Computes checks of texts: reads sums, puts answers into equations, compares revisions with attempts."""

    def values(self, block: TraceBlock, rows: pl.DataFrame) -> tuple[Mapping[str, Any], Mapping[str, str]]:
        labels = [name for name in ("labels",) if name in block.examples.columns]
        both = rows.join(
            block.examples.select("example_id", "question", *labels), on="example_id", how="left", maintain_order="left"
        )
        among = both["labels"] if labels else pl.Series([None] * len(both), dtype=pl.List(pl.String))
        attempts = block.traces.select(parent_id="trace_id", before="answer", known=pl.lit(True))
        attempt = rows.select("parent_id").join(attempts, on="parent_id", how="left", maintain_order="left")
        columns = {
            "arithmetic_mismatch": arithmetic_mismatch(both["text"], both["finish_reason"] == "length"),
            "constraint_mismatch": constraint_mismatch(both["question"], both["answer"], among),
            "answer_changed": answer_changed(both["answer"], attempt["before"], attempt["known"].fill_null(False)),
        }
        return columns, {}


@dataclass(frozen=True, kw_only=True)
class CheckFeatures(FeatureSignal):
    """SeVRA's summary of checks. A trace without a text has what its answer says."""

    kind = "checks"
    worker = _CheckWorker
    features = ("arithmetic_mismatch", "constraint_mismatch", "answer_changed")
    texts_to_read = TextsToRead.NONE
