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

There are eight ways through these steps (`Way`), and a solution takes any of them: a model that has seen them all
varies its way from sample to sample, so that its errors differ and a vote among samples can be better than one.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from generate.tasks.equations import (
    VARIABLE,
    Sum,
    Term,
    canonical_of,
    collected,
    depth,
    equation,
    expand,
    linear,
    root,
    write,
)
from generate.tasks.task import ANSWER, Check, Difficulty, Item, answer_of, share_of_lines
from toolkit.errors import ThinkbackError
from toolkit.settings import setting

LETTERS = "abcdefghjkmnpqrstuvwxyz"


@dataclass(frozen=True)
class Way:
    """A way through the steps. apart: brackets of the left side are multiplied out before those of the right;
    direct: sides are not collected before the variable moves; right: the variable moves to the right side.
    """

    apart: bool = False
    direct: bool = False
    right: bool = False


@dataclass(frozen=True)
class Algebra(Difficulty):
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
        """One equation with its steps; null where its numbers came out too large or it has no single solution."""
        answer = rng.randint(-self.answer, self.answer)
        left, right = self._side(rng), self._side(rng)
        if rng.random() < 0.3:  # a constant alone on one side, as often in Saxton et al.
            right = ()
        gap = _at(left, answer) - _at(right, answer)
        if gap or not right:
            place = rng.randint(0, len(right))
            right = (*right[:place], Term(gap), *right[place:])
        if rng.random() < 0.5:
            left, right = right, left
        if root(left, right) != answer:
            return None
        letter = rng.choice(LETTERS)
        lines = steps(left, right, letter, _way(rng))
        question = f"Solve {write(left, letter)}={write(right, letter)} for {letter}."
        if _largest(question) > self.largest or any(_largest(line) > self.largest for line in lines):
            return None
        solution = "\n".join([*lines, f"{ANSWER}{answer}"])
        return Item(question, str(answer), solution, canonical_of(left, right), {})

    def flawed(self, item: Item, rng: random.Random) -> str:
        """A worked solution whose equation went wrong by one number at some step, solved on from there."""
        lines = item.solution.split("\n")[:-1]
        letter = item.question.rstrip(".")[-1]
        for _ in range(100):
            at = rng.randrange(len(lines))
            left, right = (list(side) for side in equation(lines[at]))
            side = rng.choice([one for one in (left, right) if one])
            place = rng.randrange(len(side))
            wrong = side[place].factor + rng.choice((-10, -2, -1, 1, 2, 10))
            side[place] = Term(-side[place].factor if rng.random() < 0.3 else wrong, side[place].inner)
            found = root(tuple(left), tuple(right))
            if found is None or found == Fraction(item.answer) or any(not term.factor for term in side):
                continue
            mistaken = f"{write(tuple(left), letter)}={write(tuple(right), letter)}"
            rest = _finish(tuple(left), tuple(right), letter, round(found), _way(rng))
            if str(round(found)) != item.answer:
                return "\n".join([*lines[:at], *_once([mistaken, *rest]), f"{ANSWER}{round(found)}"])
        off = int(item.answer) + rng.choice((-1, 1))
        return "\n".join([*lines[:-1], f"{letter}={off}", f"{ANSWER}{off}"])

    def check(self, item: Item, answer: str | None) -> Check:
        """The answer put in for the variable, side by side: `5*(2*3-3)+4=19, 3*3+10=19`."""
        try:
            value = Fraction(int(answer or ""))
        except ValueError:
            return Check("no answer", False)
        left, right = equation(item.question)
        shown = f"({answer})" if value < 0 else str(answer)
        parts, values = [], []
        for side in (left, right):
            a, b = linear(side)
            values.append(a * value + b)
            parts.append(f"{write(side, VARIABLE).replace(VARIABLE, shown)}={values[-1]}")
        return Check("\n".join(parts), values[0] == values[1])

    def sound(self, item: Item, attempt: str) -> float:
        """The share of lines that the true answer solves; a line that is not an equation does not hold."""
        return share_of_lines(attempt, lambda line: self._holds(line, item.answer))

    def _holds(self, line: str, answer: str) -> bool:
        if line.startswith(ANSWER):
            return answer_of(line) == answer
        try:
            return root(*equation(line)) == Fraction(answer)
        except ThinkbackError:
            return False

    def _side(self, rng: random.Random) -> Sum:
        return tuple(self._term(rng, 0) for _ in range(rng.randint(1, self.terms)))

    def _term(self, rng: random.Random, inside: int) -> Term:
        probability = self.nested if inside else self.bracket
        if inside < 2 and rng.random() < probability:
            inner = (Term(self._factor(rng), VARIABLE), Term(_signed(rng, self.constant // 2 or 1)))
            if inside == 0 and rng.random() < self.nested:
                inner = (self._term_in_bracket(rng), inner[1])
            return Term(self._factor(rng, 2), inner if rng.random() < 0.7 else inner[::-1])
        if rng.random() < 0.5:
            return Term(self._factor(rng), VARIABLE)
        return Term(_signed(rng, self.constant))

    def _term_in_bracket(self, rng: random.Random) -> Term:
        inner = (Term(self._factor(rng), VARIABLE), Term(_signed(rng, self.constant // 3 or 1)))
        return Term(self._factor(rng, 2), inner)

    def _factor(self, rng: random.Random, least: int = 1) -> int:
        size = rng.randint(least, self.factor)
        return size if rng.random() < 0.7 else -size


def steps(left: Sum, right: Sum, letter: str, way: Way) -> list[str]:
    """The lines of the worked solution, without the question and the answer's line."""
    lines: list[str] = []
    first = f"{write(left, letter)}={write(right, letter)}"
    while depth(left) or depth(right):
        if way.apart and depth(left):
            left = expand(left)
        else:
            deepest = max(depth(left), depth(right))
            left = expand(left) if depth(left) == deepest else left
            right = expand(right) if depth(right) == deepest else right
        lines.append(f"{write(left, letter)}={write(right, letter)}")
    found = root(left, right)
    whole = int(found) if found is not None and found.denominator == 1 else None
    lines += _finish(left, right, letter, whole if whole is not None else 0, way)
    return _once([first, *lines])[1:] or [f"{letter}={whole}"]


def _finish(left: Sum, right: Sum, letter: str, found: int, way: Way) -> list[str]:
    """From two sides to the last line `x=found`: collected, moved, collected, divided. Brackets are multiplied out."""
    (a, b), (c, d) = linear(left), linear(right)
    if not way.direct:
        left, right = collected(a, b), collected(c, d)
    here, there = (right, left) if way.right else (left, right)
    variable = _only(here, VARIABLE) + _turned(_only(there, VARIABLE))
    constant = _only(there, None) + _turned(_only(here, None)) or (Term(0),)
    factor, value = (c - a, b - d) if way.right else (a - c, d - b)
    sides = [] if way.direct else [(left, right)]
    for one, other in ((variable, constant), (collected(factor, 0), collected(0, value))):
        sides.append((other, one) if way.right else (one, other))
    sides.append(((Term(1, VARIABLE),), (Term(found),)))
    written = [f"{write(one, letter)}={write(other, letter)}" for one, other in sides]
    return _once(written)


def _only(terms: Sum, inner: str | None) -> Sum:
    """The terms of a sum in the variable, or its constants; all others, and those that are 0, left out."""
    return tuple(term for term in terms if term.inner == inner and term.factor)


def _turned(terms: Sum) -> Sum:
    return tuple(Term(-term.factor, term.inner) for term in terms)


def _way(rng: random.Random) -> Way:
    return Way(*(rng.random() < 0.5 for _ in range(3)))


def _once(lines: list[str]) -> list[str]:
    """The lines without those that repeat the one before."""
    return [line for number, line in enumerate(lines) if not number or line != lines[number - 1]]


def _at(terms: Sum, value: int) -> int:
    a, b = linear(terms)
    return a * value + b


def _signed(rng: random.Random, size: int) -> int:
    value = rng.randint(1, size)
    return value if rng.random() < 0.5 else -value


def _largest(text: str) -> int:
    return max(map(int, re.findall(r"\d+", text)), default=0)
