"""Wrong sums in a text: equations between numbers alone whose sides differ.

Words bear on numbers in more ways than rules can list (`half of 20 = 10`, `7 = 1 (mod 3)`, `90 + 30 = 2 hours`). So a
side is read only where what stands around it is known to leave it alone, and all else is no wrong sum.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

_DIGITS = r"\d+(?:,\d{3})*(?:\.\d+)?"
_TERM = rf"[( \t]*[-+−]?{_DIGITS}[) \t]*"
_CROSS = r"(?<=\d)(?<!\b0)[xX](?=\d)|(?<=[ \t])[xX](?=[ \t]+[\d(])"  # 2x3 and 2 x 3, not 0x10 and 2x
_SUM = rf"{_TERM}(?:(?:[-+*/×÷·−]|{_CROSS}){_TERM})*"
_EQUATION = re.compile(rf"{_SUM}(?:={_SUM})+")
_SIGNS = str.maketrans({"×": "*", "÷": "/", "·": "*", "−": "-", "x": "*", "X": "*"})
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
_EQUAL = 1e-9
_LONGEST = 200  # characters of a side; a longer one is not read
_AROUND = 80  # characters of a line that are looked at before and after an equation


@dataclass(frozen=True)
class Side:
    """A side of an equation. unit: of the last decimal of a plain number, else 0. plain: whether it is one number."""

    text: str
    value: float
    unit: float
    plain: bool


def wrong_sum(text: str, cut: bool = False) -> bool:
    """Whether some step of an equation between numbers does not hold, for certain. cut: whether the text ends where its
    tokens ended, so that its last number may lack digits.
    """
    if _ELSEWHERE.search(text):
        return False
    return any(_wrong(text, found, cut) for found in _EQUATION.finditer(text))


def read_side(text: str) -> Side | None:
    """What a number, or a sum of numbers, comes to; None for anything else."""
    stripped = text.strip()
    if _DATE.fullmatch(stripped) or _POINTED.search(stripped):
        return None
    plain = _GROUPED.sub("", stripped).translate(_SIGNS)
    value = evaluated(plain)
    if value is None:
        return None
    shown = _PLAIN.fullmatch(plain)
    return Side(plain, value, 10.0 ** -len(shown[1]) if shown and shown[1] else 0.0, shown is not None)


def evaluated(expression: str) -> float | None:
    """An expression of numbers, + - * / and brackets; None for anything else."""
    if not expression or len(expression) > _LONGEST:
        return None
    try:
        found = _evaluated(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, RecursionError, MemoryError):
        return None
    return found if math.isfinite(found) else None


_OPERATORS: Mapping[type[ast.AST], Callable[..., float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.UAdd: operator.pos, ast.USub: operator.neg,
}  # fmt: skip


def _evaluated(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(left), _evaluated(right))
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluated(operand))
    raise ValueError("not a sum")


def _wrong(text: str, found: re.Match[str], cut: bool) -> bool:
    inner = found[0].strip()
    start = found.start() + found[0].index(inner)
    before, after = text[:start], text[start + len(inner) :]
    line = before.rpartition("\n")[2][-_AROUND:] + " " + after.partition("\n")[0][:_AROUND]
    sides = [read_side(side) for side in inner.split("=")]
    if _DOUBTED.search(line) or all(side is None or side.plain for side in sides):
        return False
    first, last = sides[0], sides[-1]
    # a text that stops here may have been cut off within a number, a sum or a multiple of the unknown
    at_end = not after.strip(" \t.,")
    if first is None or not _begins(before, first):
        sides[0] = None
    open_end = at_end and (last is None or not last.plain or _COEFFICIENT.search(text))
    if not _ends(after) or open_end:
        sides[-1] = None
    steps = list(pairwise(sides))
    unit = bool(re.match(r"[ \t]+[^\W\d_]", after))
    for place, (one, other) in enumerate(steps, start=1):
        if one is None or other is None or _agree(one, other) or _is_range(one, other) or _is_range(other, one):
            continue
        ending = place == len(steps)
        if not ending and _goes_on(one, other):
            continue
        if ending and at_end and (cut or one.value.is_integer()) and f"{one.value:.12g}".startswith(other.text):
            continue
        if ending and unit and _may_be_converted(one, other):
            continue
        return True
    return False


def _begins(before: str, side: Side) -> bool:
    """Whether nothing that stands before a side belongs to it."""
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


def _ends(after: str) -> bool:
    """Whether nothing that stands behind a side belongs to it. A unit may."""
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


def _agree(one: Side, other: Side) -> bool:
    if math.isclose(one.value, other.value, rel_tol=_EQUAL, abs_tol=_EQUAL):
        return True
    return _shortened(one, other.value) or _shortened(other, one.value)


def _shortened(side: Side, value: float) -> bool:
    """Whether a decimal number may be a value that was rounded, or cut off, at its last digit."""
    apart = abs(side.value - value)
    if apart <= 0.5 * side.unit * (1 + _EQUAL):
        return True
    return apart < side.unit * (1 - _EQUAL) and abs(side.value) < abs(value)


def _is_range(side: Side, other: Side) -> bool:
    """`9-12 = 40 students`."""
    ends = _RANGE.fullmatch(side.text)
    return ends is not None and int(ends[1]) < int(ends[2]) and other.value >= 0


def _goes_on(one: Side, other: Side) -> bool:
    """Whether a sum goes on from what it has come to: `5 + 3 = 8 * 2 = 16`."""
    leading = _LEADING.match(other.text)
    return not other.plain and leading is not None and math.isclose(float(leading[0]), one.value, rel_tol=_EQUAL)


def _may_be_converted(one: Side, other: Side) -> bool:
    """Whether a number with a unit may be the other in a unit of another size, or in whole things."""
    if "/" in one.text and other.unit == 0 and abs(one.value - other.value) < 1:
        return True
    small, large = sorted((abs(one.value), abs(other.value)))
    if small == 0:
        return False
    times = large / small
    room = times * max(side.unit / abs(side.value) for side in (one, other)) + _EQUAL
    return round(times) > 1 and abs(times - round(times)) <= room
