"""Linear expressions in one variable: reading, writing, expanding, collecting, and their canonical form.

A sum is a tuple of terms; a term is a factor times one of: nothing (a constant), the variable, a sum in brackets.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

from toolkit.errors import ThinkbackError

VARIABLE = "x"
_TOKEN = re.compile(r"\s*(\d+|[a-z]|[-+*()])")


@dataclass(frozen=True)
class Term:
    """`factor` times `inner`: None for a constant, `VARIABLE`, or a sum."""

    factor: int
    inner: str | tuple[Term, ...] | None = None

    @property
    def depth(self) -> int:
        """How many brackets stand in one another."""
        return 1 + depth(self.inner) if isinstance(self.inner, tuple) else 0


Sum = tuple[Term, ...]


def depth(terms: Sum) -> int:
    """How many brackets stand in one another in a sum."""
    return max((term.depth for term in terms), default=0)


def linear(terms: Sum) -> tuple[int, int]:
    """(a, b) of the sum's value a*x + b."""
    a = b = 0
    for term in terms:
        if isinstance(term.inner, tuple):
            inner_a, inner_b = linear(term.inner)
            a, b = a + term.factor * inner_a, b + term.factor * inner_b
        elif term.inner is None:
            b += term.factor
        else:
            a += term.factor
    return a, b


def write(terms: Sum, letter: str) -> str:
    """`3*x-4+2*(x-1)`, without spaces; factors of one are left out, and so is a sum of nothing but 0."""
    text = ""
    for term in terms:
        size, sign = abs(term.factor), "-" if term.factor < 0 else "+" if text else ""
        if term.inner is None:
            text += f"{sign}{size}"
            continue
        body = letter if isinstance(term.inner, str) else f"({write(term.inner, letter)})"
        text += f"{sign}{body}" if size == 1 else f"{sign}{size}*{body}"
    return text or "0"


def collected(a: int, b: int) -> Sum:
    """a*x + b as a sum, without terms that are 0."""
    terms = (Term(a, VARIABLE), Term(b))
    return tuple(term for term in terms if term.factor) or (Term(0),)


def expand(terms: Sum) -> Sum:
    """The innermost brackets multiplied out: a sum of depth less by one."""
    deepest = depth(terms)
    made: list[Term] = []
    for term in terms:
        if isinstance(term.inner, tuple) and term.depth == deepest:
            if deepest == 1:
                made += [Term(term.factor * inner.factor, inner.inner) for inner in term.inner]
            else:
                made.append(Term(term.factor, expand(term.inner)))
        else:
            made.append(term)
    return tuple(term for term in made if term.factor) or (Term(0),)


def canonical(question: str) -> str:
    """The form of an equation, or of a question that holds one, in which letter, order and sides do not count.

    >>> canonical("Solve 4*k+2=10 for k.") == canonical("10 = 2 + 4*z")
    True
    """
    return canonical_of(*equation(question))


def canonical_of(left: Sum, right: Sum) -> str:
    """The canonical form of an equation that is there as sums."""
    return "=".join(sorted((_sorted(left), _sorted(right))))


def equation(text: str) -> tuple[Sum, Sum]:
    """The two sides of the one equation in `text`. ThinkbackError where there is none."""
    bare = re.sub(r"^Solve | for [a-z]\.?$", "", text.strip())
    sides = bare.split("=")
    if len(sides) != 2:
        raise ThinkbackError(f"`{text}` holds no equation")
    return read(sides[0]), read(sides[1])


def read(text: str) -> Sum:
    """A sum from its text. ThinkbackError where it is not a linear expression in one letter."""
    tokens = _TOKEN.findall(text)
    if re.sub(r"\s", "", "".join(tokens)) != re.sub(r"\s", "", text) or not tokens:
        raise ThinkbackError(f"`{text}` is not a linear expression")
    letters = {token for token in tokens if token.isalpha()}
    terms, end = _read_sum(tokens, 0, text)
    if end != len(tokens) or len(letters) > 1:
        raise ThinkbackError(f"`{text}` is not a linear expression in one letter")
    return terms


def _read_sum(tokens: list[str], at: int, text: str) -> tuple[Sum, int]:
    terms: list[Term] = []
    while at < len(tokens) and tokens[at] != ")":
        sign = 1
        if tokens[at] in "+-":
            sign = -1 if tokens[at] == "-" else 1
            at += 1
        elif terms:
            raise ThinkbackError(f"`{text}` is not a linear expression: a sign is missing before `{tokens[at]}`")
        term, at = _read_term(tokens, at, sign, text)
        terms.append(term)
    return tuple(terms), at


def _read_term(tokens: list[str], at: int, sign: int, text: str) -> tuple[Term, int]:
    factor = sign
    if at < len(tokens) and tokens[at].isdigit():
        factor *= int(tokens[at])
        at += 1
        if at == len(tokens) or tokens[at] != "*":
            return Term(factor), at
        at += 1
    if at < len(tokens) and tokens[at].isalpha():
        return Term(factor, VARIABLE), at + 1
    if at < len(tokens) and tokens[at] == "(":
        inner, end = _read_sum(tokens, at + 1, text)
        if inner and end < len(tokens):
            return Term(factor, inner), end + 1
    raise ThinkbackError(f"`{text}` is not a linear expression")


def _sorted(terms: Sum) -> str:
    return "+".join(
        sorted(
            f"{term.factor}({_sorted(term.inner) if isinstance(term.inner, tuple) else term.inner or ''})"
            for term in terms
        )
    )


def root(left: Sum, right: Sum) -> Fraction | None:
    """The one solution; null where there is none or where all numbers are."""
    a, b = linear(left)
    c, d = linear(right)
    return Fraction(d - b, a - c) if a != c else None
