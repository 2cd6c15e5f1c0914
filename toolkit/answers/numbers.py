"""The normal form of a number: equal numbers get one string, whatever way they were written.

Rules, each decided once:

* exact arithmetic, no floats: `0.30` and `0.3` are equal, `0.3333` and `1/3` are not;
* an integer is its digits (`1,450,000`, `18.0`, `+18`, `1.8e1` are `1450000`, `18`, `18`, `18`); a number with a
  finite decimal expansion is that decimal (`1/8` is `0.125`); any other is a reduced fraction (`2/6` is `1/3`);
* a comma is a thousands separator and comes before groups of three digits; `3,14` is not a number;
* currency signs and codes, the percent sign and degrees are dropped, and so are their words: `50%` is `50`, since a
  question that asks for a percentage has `50` as its reference. Other units are part of the answer: `3 feet` is
  not `3`, and `5 million` is not `5`;
* LaTeX for the same things is understood: `$…$`, `\\(…\\)`, `\\boxed{…}`, `\\frac{1}{2}`, `1\\frac{1}{2}`,
  `10{,}000`, `3 \\times 10^{5}`, `45^\\circ`;
* `**` around a text, or left over at one of its ends, is Markdown and dropped: `**42**` and `42**` are 42. Between two
  numbers it is a power, like `^`: `10**3` is 1000, and `2**10` keeps its text, as `2^10` does;
* whatever is not a number by these rules keeps its text, trimmed: a vote of its own, equal to itself alone.

The comma, currency and percent rules are those of the GSM8K and MATH graders (Cobbe et al. 2021,
arXiv:2110.14168; Hendrycks et al. 2021, arXiv:2103.03874), here with exact fractions in place of floats.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import lru_cache

import polars as pl

# Longer texts are not numbers that anyone means, and exponents beyond this would fill the memory.
LONGEST = 1000
LARGEST_EXPONENT = 300

_PLAIN = r"^(0|-?[1-9][0-9]*)$"
_DECIMAL = r"(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+"
_POWER = r"10\s*\^\s*\{{?\s*(?P<{}>[+-]?[0-9]+)\s*\}}?"
_TIMES = r"\s*(?:×|x|\*|·|\\times|\\cdot)\s*"
_NUMBER = re.compile(
    rf"""(?P<sign>[+-]?)\s*(?:
        (?P<whole>[0-9]+)\s+(?P<top>[0-9]+)\s*/\s*(?P<bottom>[0-9]+)
      | (?P<over>{_DECIMAL})\s*/\s*(?P<sign2>-?)(?P<under>{_DECIMAL})
      | (?P<mantissa>{_DECIMAL})(?:[eE](?P<exponent>[+-]?[0-9]+)|{_TIMES}{_POWER.format("power")})?
      | {_POWER.format("ten")}
    )""",
    re.VERBOSE,
)

# Signs that LaTeX sets a formula with. Between two digits they part two numbers.
_SIGNS = r"(?:\\[()\[\]]|\\?\$|\\left|\\right)"
_BOLD = r"(?<![\w*)\]}.])\*\*(?=[^\s*])([^*]*)(?<=[^\s*])\*\*(?![\w*(\[{\\])"

# Spellings that mean the same, applied in this order.
_SPELLINGS = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"[−–]", "-"),
        (r"\\boxed\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}", r"\1"),
        (rf"(?<=[0-9]){_SIGNS}+(?=[0-9])", " "),
        (_SIGNS, ""),
        (_BOLD, r"\1"),
        (r"(?<=[0-9)\]}.])\s*\*\*\s*(?=[-+]?[0-9(\[{.\\])", "^"),
        (r"\*\*", ""),
        (r"\{,\}", ","),
        (r"\\[,;!: ]|[\u00a0\u202f]|~", " "),
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r" \1/\2"),
        (r"\\[dt]?frac\s*([0-9])\s*([0-9])", r" \1/\2"),
        (r"-\s+(?=[0-9.]+/)", "-"),
        (r"^([+-]?)\s*(?:[€£¥]|USD|EUR|GBP)\s*", r"\1"),
        (r"\.$", ""),
        (r"(?i)\s*(?:\\?%|percent|°|\^\s*\{?\\circ\}?|degrees?|€|£|¥|dollars?|euros?|usd|eur|gbp)$", ""),
    )
)


FULL_WIDTH = {0xFEE0 + code: chr(code) for code in (*range(0x30, 0x3A), *map(ord, "+-.,/%"))}
"""Digits and signs as Chinese and Japanese texts set them, by their plain ones."""


@lru_cache(1 << 14)
def number_form(text: str) -> str | None:
    """The normal form of one number, or None where `text` is not one number."""
    if len(text) > LONGEST:
        return None
    spelled = (text if text.isascii() else text.translate(FULL_WIDTH)).strip()
    for pattern, by in _SPELLINGS:
        spelled = pattern.sub(by, spelled).strip()
    match = _NUMBER.fullmatch(spelled)
    if match is None:
        return None
    value = _exact_value(match)
    return None if value is None else _canonical_text(value)


def _exact_value(match: re.Match[str]) -> Fraction | None:
    """The exact value of a match of `_NUMBER`; None for a zero denominator or an exponent out of bounds."""
    part = match.groupdict()
    sign = -1 if part["sign"] == "-" else 1
    if part["whole"] is not None:
        bottom = int(part["bottom"])
        return sign * (int(part["whole"]) + Fraction(int(part["top"]), bottom)) if bottom else None
    if part["over"] is not None:
        under = _decimal(part["under"])
        sign = -sign if part["sign2"] else sign
        return sign * _decimal(part["over"]) / under if under else None
    exponent = int(part["exponent"] or part["power"] or part["ten"] or 0)
    if abs(exponent) > LARGEST_EXPONENT:
        return None
    mantissa = _decimal(part["mantissa"]) if part["mantissa"] else Fraction(1)
    return sign * mantissa * Fraction(10) ** exponent


def _decimal(digits: str) -> Fraction:
    return Fraction(digits.replace(",", "").rstrip(".") or "0")


def _canonical_text(value: Fraction) -> str:
    """The normal form of a value: digits, a finite decimal, or a reduced fraction; equal values get equal strings."""
    if value.denominator == 1:
        return str(value.numerator)
    rest, places = value.denominator, 0
    while (shared := math.gcd(rest, 10)) > 1:
        rest, places = rest // shared, places + 1
    if rest != 1:
        return f"{value.numerator}/{value.denominator}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}"


def numbers(answers: pl.Series) -> pl.Series:
    """The normal forms of a column of trimmed answers. Plain integers, most answers of real logs, stay as they are."""
    odd = answers.filter(answers.str.contains(_PLAIN).not_()).drop_nulls().unique(maintain_order=True)
    forms = {text: form for text in odd.to_list() if (form := number_form(text)) is not None and form != text}
    return answers.replace(list(forms), list(forms.values())) if forms else answers
