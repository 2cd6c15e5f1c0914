"""`algebra_linear_1d` in the manner of Saxton et al. (2019, arXiv:1904.01557), with worked steps.

    Solve 5*(2*k-3)+4=3*k+10 for k.
    10*k-15+4=3*k+10
    10*k-11=3*k+10
    10*k-3*k=10+11
    7*k=21
    k=3
    #### 3

An integer is chosen as the answer; both sides are sums of random terms, some of them brackets, and one constant
is set so that the answer solves the equation. The steps: brackets multiplied out, the innermost first; each side
collected; the variable brought to one side and the constants to the other; both collected; divided. A step that would
repeat the line before it is left out.

There are eight ways through these steps (`_SolutionWay`), and a solution takes any of them: a model that has seen them
all varies its way from sample to sample, so that its errors differ and a vote among samples can be better than one.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from generate.tasks.exercises import ExerciseTask
from generate.tasks.task import ANSWER, AnswerCheck, Item, answer_of, share_of_lines_that_hold
from toolkit.errors import InvalidError, ThinkbackError
from toolkit.settings import setting

VARIABLE = "x"
_TOKEN = re.compile(r"\s*(\d+|[a-z]|[-+*()])")


@dataclass(frozen=True)
class _Term:
    """A term of a sum: `factor` times `inner`, which is None for a constant, `VARIABLE`, or a sum in brackets."""

    factor: int
    inner: str | tuple[_Term, ...] | None = None

    @property
    def depth(self) -> int:
        """How deep brackets are nested in the term."""
        return 1 + bracket_depth(self.inner) if isinstance(self.inner, tuple) else 0


Sum = tuple[_Term, ...]


def bracket_depth(terms: Sum) -> int:
    """How deep brackets are nested in a sum."""
    return max((term.depth for term in terms), default=0)


def linear_coefficients(terms: Sum) -> tuple[int, int]:
    """The numbers (a, b) for which the sum equals a*x + b."""
    a = b = 0
    for term in terms:
        if isinstance(term.inner, tuple):
            inner_a, inner_b = linear_coefficients(term.inner)
            a, b = a + term.factor * inner_a, b + term.factor * inner_b
        elif term.inner is None:
            b += term.factor
        else:
            a += term.factor
    return a, b


def _sum_text(terms: Sum, letter: str) -> str:
    """The sum as text, such as `3*x-4+2*(x-1)`. Factors of one are left out, and so is a sum of nothing but 0."""
    text = ""
    for term in terms:
        size, sign = abs(term.factor), "-" if term.factor < 0 else "+" if text else ""
        if term.inner is None:
            text += f"{sign}{size}"
            continue
        body = letter if isinstance(term.inner, str) else f"({_sum_text(term.inner, letter)})"
        text += f"{sign}{body}" if size == 1 else f"{sign}{size}*{body}"
    return text or "0"


def _linear_sum(a: int, b: int) -> Sum:
    """The sum a*x + b without terms that are 0."""
    terms = (_Term(a, VARIABLE), _Term(b))
    return tuple(term for term in terms if term.factor) or (_Term(0),)


def _expand(terms: Sum) -> Sum:
    """The sum with its innermost brackets multiplied out, so that its depth falls by one."""
    deepest = bracket_depth(terms)
    expanded: list[_Term] = []
    for term in terms:
        if isinstance(term.inner, tuple) and term.depth == deepest:
            if deepest == 1:
                expanded += [_Term(term.factor * inner.factor, inner.inner) for inner in term.inner]
            else:
                expanded.append(_Term(term.factor, _expand(term.inner)))
        else:
            expanded.append(term)
    return tuple(term for term in expanded if term.factor) or (_Term(0),)


def canonical(question: str) -> str:
    """A form of an equation, or of a question with one, that ignores letter, order and sides.

    >>> canonical("Solve 4*k+2=10 for k.") == canonical("10 = 2 + 4*z")
    True
    """
    return _canonical_equation(*_equation_sides(question))


def _canonical_equation(left: Sum, right: Sum) -> str:
    return "=".join(sorted((_sorted_text(left), _sorted_text(right))))


def _equation_sides(text: str) -> tuple[Sum, Sum]:
    """The two sides of the only equation in `text`. ThinkbackError where there is none."""
    bare = re.sub(r"^Solve | for [a-z]\.?$", "", text.strip())
    sides = bare.split("=")
    if len(sides) != 2:
        raise InvalidError(f"`{text}` holds no equation")
    return parse_sum(sides[0]), parse_sum(sides[1])


def parse_sum(text: str) -> Sum:
    """Parses a sum. ThinkbackError where the text is no linear expression in one letter."""
    tokens = _TOKEN.findall(text)
    if re.sub(r"\s", "", "".join(tokens)) != re.sub(r"\s", "", text) or not tokens:
        raise InvalidError(f"`{text}` is not a linear expression")
    letters = {token for token in tokens if token.isalpha()}
    terms, end = _read_sum(tokens, 0, text)
    if end != len(tokens) or len(letters) > 1:
        raise InvalidError(f"`{text}` is not a linear expression in one letter")
    return terms


def _read_sum(tokens: list[str], at: int, text: str) -> tuple[Sum, int]:
    terms: list[_Term] = []
    while at < len(tokens) and tokens[at] != ")":
        sign = 1
        if tokens[at] in "+-":
            sign = -1 if tokens[at] == "-" else 1
            at += 1
        elif terms:
            raise InvalidError(f"`{text}` is not a linear expression: a sign is missing before `{tokens[at]}`")
        term, at = _read_term(tokens, at, sign, text)
        terms.append(term)
    return tuple(terms), at


def _read_term(tokens: list[str], at: int, sign: int, text: str) -> tuple[_Term, int]:
    factor = sign
    if at < len(tokens) and tokens[at].isdigit():
        factor *= int(tokens[at])
        at += 1
        if at == len(tokens) or tokens[at] != "*":
            return _Term(factor), at
        at += 1
    if at < len(tokens) and tokens[at].isalpha():
        return _Term(factor, VARIABLE), at + 1
    if at < len(tokens) and tokens[at] == "(":
        inner, end = _read_sum(tokens, at + 1, text)
        if inner and end < len(tokens):
            return _Term(factor, inner), end + 1
    raise InvalidError(f"`{text}` is not a linear expression")


def _sorted_text(terms: Sum) -> str:
    return "+".join(
        sorted(
            f"{term.factor}({_sorted_text(term.inner) if isinstance(term.inner, tuple) else term.inner or ''})"
            for term in terms
        )
    )


def _only_solution(left: Sum, right: Sum) -> Fraction | None:
    """The only solution of an equation; null where there is none, or every number is one."""
    a, b = linear_coefficients(left)
    c, d = linear_coefficients(right)
    return Fraction(d - b, a - c) if a != c else None


LETTERS = "abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class _SolutionWay:
    """A way to solve an equation. apart: brackets on the left are multiplied out before those on the right; direct:
    sides are not collected before the variable moves; right: the variable moves to the right side.
    """

    apart: bool = False
    direct: bool = False
    right: bool = False


@dataclass(frozen=True)
class Algebra(ExerciseTask):
    """Difficulty: answers up to `answer` in size, factors up to `factor`, constants up to `constant`; one to `terms`
    terms a side; a term is a bracket with probability `bracket`, and a bracket holds another one with probability
    `nested`. `largest` bounds the numbers that appear in the steps.
    """

    answer: int = setting(20, low=1)
    factor: int = setting(9, low=2)
    constant: int = setting(30, low=1)
    terms: int = setting(3, low=1)
    bracket: float = setting(0.25, low=0, high=1)
    nested: float = setting(0.15, low=0, high=1)
    largest: int = setting(999)

    name: ClassVar[str] = "algebra_linear_1d"
    labels: ClassVar[None] = None

    def draw(self, rng: random.Random) -> Item | None:
        """Draws an equation with its steps; null where a number came out too large or there is no single solution."""
        answer = rng.randint(-self.answer, self.answer)
        left, right = self._draw_side(rng), self._draw_side(rng)
        if rng.random() < 0.3:  # a constant alone on one side, as often in Saxton et al.
            right = ()
        gap = _value_at(left, answer) - _value_at(right, answer)
        if gap or not right:
            place = rng.randint(0, len(right))
            right = (*right[:place], _Term(gap), *right[place:])
        if rng.random() < 0.5:
            left, right = right, left
        if _only_solution(left, right) != answer:
            return None
        letter = rng.choice(LETTERS)
        lines = solution_lines(left, right, letter, _draw_way(rng))
        question = f"Solve {_sum_text(left, letter)}={_sum_text(right, letter)} for {letter}."
        if _largest_number(question) > self.largest or any(_largest_number(line) > self.largest for line in lines):
            return None
        solution = "\n".join([*lines, f"{ANSWER}{answer}"])
        return Item(question, str(answer), solution, _canonical_equation(left, right), {})

    def wrong_solution(self, item: Item, rng: random.Random) -> str:
        """A worked solution with one wrong number in some step, solved on from there."""
        lines = item.solution.split("\n")[:-1]
        letter = item.question.rstrip(".")[-1]
        for _ in range(100):
            at = rng.randrange(len(lines))
            left, right = (list(side) for side in _equation_sides(lines[at]))
            side = rng.choice([one for one in (left, right) if one])
            place = rng.randrange(len(side))
            wrong = side[place].factor + rng.choice((-10, -2, -1, 1, 2, 10))
            side[place] = _Term(-side[place].factor if rng.random() < 0.3 else wrong, side[place].inner)
            root = _only_solution(tuple(left), tuple(right))
            if root is None or root == Fraction(item.answer) or any(not term.factor for term in side):
                continue
            mistaken = f"{_sum_text(tuple(left), letter)}={_sum_text(tuple(right), letter)}"
            rest = _final_lines(tuple(left), tuple(right), letter, round(root), _draw_way(rng))
            if str(round(root)) != item.answer:
                return "\n".join([*lines[:at], *_without_repeats([mistaken, *rest]), f"{ANSWER}{round(root)}"])
        off = int(item.answer) + rng.choice((-1, 1))
        return "\n".join([*lines[:-1], f"{letter}={off}", f"{ANSWER}{off}"])

    def check(self, item: Item, answer: str | None) -> AnswerCheck:
        """Checks an answer by putting it in for the variable, side by side: `5*(2*3-3)+4=19, 3*3+10=19`."""
        try:
            value = Fraction(int(answer or ""))
        except ValueError:
            return AnswerCheck("no answer", False)
        left, right = _equation_sides(item.question)
        number = f"({answer})" if value < 0 else str(answer)
        parts, values = [], []
        for side in (left, right):
            a, b = linear_coefficients(side)
            values.append(a * value + b)
            parts.append(f"{_sum_text(side, VARIABLE).replace(VARIABLE, number)}={values[-1]}")
        return AnswerCheck("\n".join(parts), values[0] == values[1])

    def sound_share(self, item: Item, attempt: str) -> float:
        """The share of an attempt's lines that the true answer solves. Lines that are no equation count as unsolved."""
        return share_of_lines_that_hold(attempt, lambda line: self._is_solution_line(line, item.answer))

    def _is_solution_line(self, line: str, answer: str) -> bool:
        if line.startswith(ANSWER):
            return answer_of(line) == answer
        try:
            return _only_solution(*_equation_sides(line)) == Fraction(answer)
        except ThinkbackError:
            return False

    def _draw_side(self, rng: random.Random) -> Sum:
        return tuple(self._draw_term(rng, 0) for _ in range(rng.randint(1, self.terms)))

    def _draw_term(self, rng: random.Random, inside: int) -> _Term:
        probability = self.nested if inside else self.bracket
        if inside < 2 and rng.random() < probability:
            inner = (_Term(self._draw_factor(rng), VARIABLE), _Term(_draw_signed(rng, self.constant // 2 or 1)))
            if inside == 0 and rng.random() < self.nested:
                inner = (self._term_in_bracket(rng), inner[1])
            return _Term(self._draw_factor(rng, 2), inner if rng.random() < 0.7 else inner[::-1])
        if rng.random() < 0.5:
            return _Term(self._draw_factor(rng), VARIABLE)
        return _Term(_draw_signed(rng, self.constant))

    def _term_in_bracket(self, rng: random.Random) -> _Term:
        inner = (_Term(self._draw_factor(rng), VARIABLE), _Term(_draw_signed(rng, self.constant // 3 or 1)))
        return _Term(self._draw_factor(rng, 2), inner)

    def _draw_factor(self, rng: random.Random, least: int = 1) -> int:
        size = rng.randint(least, self.factor)
        return size if rng.random() < 0.7 else -size


def solution_lines(left: Sum, right: Sum, letter: str, way: _SolutionWay) -> list[str]:
    """The lines of a worked solution, without the question and the answer's line."""
    lines: list[str] = []
    first = f"{_sum_text(left, letter)}={_sum_text(right, letter)}"
    while bracket_depth(left) or bracket_depth(right):
        if way.apart and bracket_depth(left):
            left = _expand(left)
        else:
            deepest = max(bracket_depth(left), bracket_depth(right))
            left = _expand(left) if bracket_depth(left) == deepest else left
            right = _expand(right) if bracket_depth(right) == deepest else right
        lines.append(f"{_sum_text(left, letter)}={_sum_text(right, letter)}")
    root = _only_solution(left, right)
    whole = int(root) if root is not None and root.denominator == 1 else None
    lines += _final_lines(left, right, letter, whole if whole is not None else 0, way)
    return _without_repeats([first, *lines])[1:] or [f"{letter}={whole}"]


def _final_lines(left: Sum, right: Sum, letter: str, root: int, way: _SolutionWay) -> list[str]:
    """The last lines of a solution, once brackets are multiplied out: collected, moved, collected, divided."""
    (a, b), (c, d) = linear_coefficients(left), linear_coefficients(right)
    if not way.direct:
        left, right = _linear_sum(a, b), _linear_sum(c, d)
    here, there = (right, left) if way.right else (left, right)
    variable = _terms_of_kind(here, VARIABLE) + _negate_terms(_terms_of_kind(there, VARIABLE))
    constant = _terms_of_kind(there, None) + _negate_terms(_terms_of_kind(here, None)) or (_Term(0),)
    factor, value = (c - a, b - d) if way.right else (a - c, d - b)
    sides = [] if way.direct else [(left, right)]
    for one, other in ((variable, constant), (_linear_sum(factor, 0), _linear_sum(0, value))):
        sides.append((other, one) if way.right else (one, other))
    sides.append(((_Term(1, VARIABLE),), (_Term(root),)))
    written = [f"{_sum_text(one, letter)}={_sum_text(other, letter)}" for one, other in sides]
    return _without_repeats(written)


def _terms_of_kind(terms: Sum, inner: str | None) -> Sum:
    """The variable's terms of a sum, or its constants, without those that are 0."""
    return tuple(term for term in terms if term.inner == inner and term.factor)


def _negate_terms(terms: Sum) -> Sum:
    return tuple(_Term(-term.factor, term.inner) for term in terms)


def _draw_way(rng: random.Random) -> _SolutionWay:
    return _SolutionWay(*(rng.random() < 0.5 for _ in range(3)))


def _without_repeats(lines: list[str]) -> list[str]:
    return [line for number, line in enumerate(lines) if not number or line != lines[number - 1]]


def _value_at(terms: Sum, value: int) -> int:
    a, b = linear_coefficients(terms)
    return a * value + b


def _draw_signed(rng: random.Random, size: int) -> int:
    value = rng.randint(1, size)
    return value if rng.random() < 0.5 else -value


def _largest_number(text: str) -> int:
    return max(map(int, re.findall(r"\d+", text)), default=0)
