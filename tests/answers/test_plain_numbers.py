"""However a plain number is written and read out of a text, its value stays what it was."""

from __future__ import annotations

from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.answers import normalise, number_form, read_answers

SENTENCES = {
    "boxed": "First 7, so \\boxed{%s}.",
    "answer is": "Not 7. The answer is %s.\nbye",
    "####": "7 + 1\n#### %s\n",
    "last number": "Of 7 it is %s.",
    "last line": "7\n%s\n",
    "pattern": "<7> <%s>",
}


@st.composite
def plain_numbers(draw: st.DrawFn) -> tuple[str, Fraction]:
    """A number as people write it: sign, thousands separators, decimals, exponent, percent sign; and its value."""
    whole, decimals = draw(st.integers(0, 10**15)), draw(st.text("0123456789", max_size=6))
    sign = draw(st.sampled_from(["", "+", "-", "−"]))
    digits = f"{whole:,}" if draw(st.booleans()) else str(whole)
    exponent = draw(st.none() | st.integers(-40, 40))
    value = Fraction(f"{whole}.{decimals or 0}") * Fraction(10) ** (exponent or 0)
    power = "" if exponent is None else f"{draw(st.sampled_from('eE'))}{exponent}"
    percent = draw(st.sampled_from(["", "", "%", " %"]))
    text = f"{sign}{digits}{'.' if decimals else ''}{decimals}{power}{percent}"
    return text, -value if sign in ("-", "−") else value


@settings(max_examples=150, deadline=None)
@given(plain_numbers(), st.sampled_from(sorted(SENTENCES)))
def test_reading_never_changes_the_value_of_a_plain_number(number: tuple[str, Fraction], way: str) -> None:
    text, value = number
    form = number_form(text)
    assert form is not None
    assert Fraction(form) == value
    read = read_answers(pl.Series([SENTENCES[way] % text, f"**{SENTENCES[way] % text}**"]), [way], "<([^<>]+)>")
    assert normalise(read.head(1), "number").to_list() == [form]
    assert normalise(pl.Series([f"**{text}**", f"${text}$", f"\\boxed{{{text}}}"]), "number").to_list() == [form] * 3


@settings(max_examples=100, deadline=None)
@given(plain_numbers(), plain_numbers(), st.sampled_from(["**", " ** ", "$", "$$", "\\(", "^", "*"]))
def test_two_numbers_never_become_the_digits_of_one(
    first: tuple[str, Fraction], second: tuple[str, Fraction], between: str
) -> None:
    left, right = first[0], second[0].lstrip("+-−")
    form = number_form(f"{left}{between}{right}")
    assert form is None or form != number_form(f"{left}{right}") or left.endswith("%")


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("2**10", None), ("9**9**9", None), ("2 ** 10", None), ("2**-3", None), ("**2**3", None), ("(2)**(3)", None),
        ("10**3", "1000"), ("3*10**5", "300000"), ("**42**", "42"), ("**42**.", "42"), ("42**", "42"), ("**42", "42"),
        ("$**5**$", "5"), ("-**5**", "-5"), ("**18** dollars", "18"), ("18** dollars", "18"), ("**1** 1/2", "1.5"),
        ("\\boxed{**42**}", "42"), ("$2$$3$", None), ("5$3", None), ("2$3/4$", "2.75"),
    ],
)  # fmt: skip
def test_markup_is_dropped_and_a_power_is_not(written: str, form: str | None) -> None:
    assert number_form(written) == form
