"""Tables of cases for every rule that `toolkit.answers` states, and idempotence of every normal form."""

from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.errors import refuses
from toolkit.answers import JUDGES, KINDS, boxed, judge, measure_answers, normalise, number_form, read_answers

NUMBERS = {
    "18": "18", "18.0": "18", "+18": "18", "018": "18", "18.": "18", "-0": "0", "-0.00": "0", ".5": "0.5",
    "1,450,000": "1450000", "10{,}000": "10000", "$1,000.50": "1000.5", "-$5": "-5", "$-5": "-5", "\\$18": "18",
    "€ 7": "7", "12 dollars": "12", "50%": "50", "50 \\%": "50", "12.5 percent": "12.5", "45^\\circ": "45",
    "45°": "45", "1/2": "0.5", "2/6": "1/3", "-10/4": "-2.5", "3/-4": "-0.75", "1.5/3": "0.5",
    "\\frac{1}{2}": "0.5", "-\\frac{40}{153}": "-40/153", "\\dfrac12": "0.5", "1\\frac{8}{91}": "99/91",
    "2 1/2": "2.5", "1e3": "1000", "1.8E1": "18", "2.5e-3": "0.0025", "3 \\times 10^{5}": "300000",
    "3x10^5": "300000", "10^3": "1000", "1.5×10^2": "150", "$\\boxed{42}$": "42", "\\(7\\)": "7", "−3": "-3",
    "**9**": "9", "0.30": "0.3", "7/14": "0.5", "1/1024": "0.0009765625", "6.": "6",
}  # fmt: skip
NOT_NUMBERS = (
    "3,14", "12,34,567", "1.2.3", "3 feet", "5 million", "x=3", "4:30", "1/0", "0/0", "1e999", "infinite",
    "\\sqrt{2}", "7\\pi", "5 or 6", "2^3", "--3", "1 000", "(1,2)", "nan", "inf", "1_000", "٣", "4a-2", "%", "$",
)  # fmt: skip


@pytest.mark.parametrize(("written", "form"), NUMBERS.items())
def test_numbers_have_one_form(written: str, form: str) -> None:
    assert number_form(written) == form
    assert normalise(pl.Series([written, f"  {written}\n"]), "number").to_list() == [form, form]


@pytest.mark.parametrize("written", NOT_NUMBERS)
def test_what_is_not_a_number_keeps_its_text(written: str) -> None:
    assert number_form(written) is None
    assert normalise(pl.Series([f" {written} "]), "number").to_list() == [written]


def test_long_digits_are_exact_and_absurd_ones_cost_nothing() -> None:
    assert number_form("123456789012345678901234567890.10") == "123456789012345678901234567890.1"
    assert number_form("1" * 1001) is None
    assert number_form("1e300") == "1" + "0" * 300
    assert number_form("1e99999999999") is None


CHOICES = {
    "B": "B", "b": "B", "(B)": "B", "[b]": "B", "B.": "B", "B)": "B", "B:": "B", "(B": "(B", "B. Paris": "B",
    "(B) Paris": "B", "B) Paris": "B", "answer: b": "B", "Answer: (C)": "C", "The answer is (D).": "D",
    "the correct answer is D": "D", "Option A": "A", "option is: c": "C", "**B**": "B", "$\\textbf{(E)}$": "E",
    "\\text{(B)}": "B", "\\boxed{A}": "A", "A dog": "A dog", "AB": "AB", "e.g.": "e.g.", "Answer": "Answer",
    "(A) and (C)": "(A) and (C)", "12": "12", "I think so": "I think so", "an": "an", "7)": "7)",
}  # fmt: skip


@pytest.mark.parametrize(("written", "form"), CHOICES.items())
def test_choices_are_one_upper_case_letter(written: str, form: str) -> None:
    assert normalise(pl.Series([written]), "choice").to_list() == [form]


def test_labels_do_not_mind_case_spaces_and_underscores() -> None:
    labels = ["TRUE", "FALSE", "NEARLY HALF TRUE"]
    written = ["true", "False.", "nearly_half_true", "NEARLY-HALF TRUE", "'NearlyHalfTrue'", "NHT"]
    written += ["maybe", " ", None]
    wanted = ["TRUE", "FALSE", *["NEARLY HALF TRUE"] * 4, "maybe", None, None]
    assert normalise(pl.Series(written), "label", labels, {"nht": "NEARLY HALF TRUE"}).to_list() == wanted


def test_labels_that_one_spelling_cannot_tell_apart_are_refused() -> None:
    with refuses("conflict", "`a b`", "`A_B`"):
        normalise(pl.Series(["a"]), "label", ["a b", "A_B"])
    with refuses("unknown", "`yes`"):
        normalise(pl.Series(["a"]), "label", ["yes", "no"], {"y": "yess"})


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("The Eiffel-Tower!", "eiffeltower"), ("An  apple a day", "apple day"), ("the", "the"), ("A", "a"),
        ("?!", "?!"), ("theatre", "theatre"), ("Ärger im Café", "ärger im café"), ("U.S.A.", "usa"), (" \n", None),
    ],
)  # fmt: skip
def test_text_has_squads_form(written: str, form: str | None) -> None:
    assert normalise(pl.Series([written]), "text").to_list() == [form]


def test_exact_is_trimmed_and_blank_is_null() -> None:
    assert normalise(pl.Series([" a B ", "", "\t", None]), "exact").to_list() == ["a B", None, None, None]


def test_empty_columns_stay_empty() -> None:
    for kind in KINDS:
        assert normalise(pl.Series("x", [], dtype=pl.String), kind, ["a"]).to_list() == []
        assert normalise(pl.Series("x", [None], dtype=pl.String), kind, ["a"]).to_list() == [None]
    for how in JUDGES:
        empty = pl.Series("x", [], dtype=pl.String)
        assert judge(empty, empty, how).to_list() == []


SPELLED = st.one_of(
    st.text(max_size=12),
    st.text("0123456789.,/-+e$% {}\\frac^x*", max_size=12),
    st.text("ABab().: answeris[]*$", max_size=14),
    st.fractions().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(SPELLED, min_size=1, max_size=20), st.sampled_from(KINDS))
def test_every_form_is_idempotent_and_elementwise(written: list[str], kind: str) -> None:
    labels = ["Yes", "No", "not sure"]
    once = normalise(pl.Series(written), kind, labels)
    assert normalise(once, kind, labels).to_list() == once.to_list()
    alone = [normalise(pl.Series([text]), kind, labels).item() for text in written[:4]]
    assert alone == once.to_list()[:4]


@settings(max_examples=200, deadline=None)
@given(st.fractions(max_denominator=10**6), st.integers(1, 50))
def test_equal_fractions_have_one_form(value: object, factor: int) -> None:
    top, bottom = value.numerator * factor, value.denominator * factor  # type: ignore[attr-defined]
    assert number_form(f"{top}/{bottom}") == number_form(str(value))


def test_judges() -> None:
    answers = pl.Series(["Paris", "paris", "in Paris, France", "comparison", None, "Paris", None])
    gold = pl.Series(["Paris", "The Paris!", "Paris", "paris", "Paris", None, None])
    assert judge(answers, gold).to_list() == [True, False, False, False, False, None, None]
    assert judge(answers, gold, "normalised").to_list() == [True, True, False, False, False, None, None]
    assert judge(answers, gold, "cover").to_list() == [True, True, True, False, False, None, None]
    assert judge(answers, gold, "cover_substring").to_list() == [True, True, True, True, False, None, None]


def test_covers_differ_on_short_golds_and_any_right_answer_counts() -> None:
    answers = pl.Series(["unknown", "no", "the United Nations", "NYC", "york", None, "a"])
    gold = pl.Series(["no", "no", "no", "New York City", "New York City", "no", None])
    golds = pl.Series([None, None, ["no", "UN"], ["New York City", "NYC", "York"], None, None, None])
    names = ["exact", "cover", "cover_substring", "credit"]
    frame = measure_answers(answers, gold, names, golds)
    assert frame.columns == names
    assert frame["exact"].to_list() == [False, True, False, True, False, False, None]
    assert frame["cover"].to_list() == [False, True, False, True, False, False, None]
    assert frame["cover_substring"].to_list() == [True, True, True, True, False, False, None]
    assert frame["credit"].to_list() == pytest.approx([0, 1, 0, 1, 0.5, 0, None])
    assert judge(answers, gold, "normalised", golds).to_list()[3] is True
    assert measure_answers(answers, gold, ["credit"])["credit"][3] == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text("ab no.", max_size=9), st.text("ab no.", min_size=1, max_size=9)), min_size=1))
def test_word_credit_is_that_of_squads_script(pairs: list[tuple[str, str]]) -> None:
    answers, golds = ([pair[place] for pair in pairs] for place in (0, 1))
    values = measure_answers(pl.Series(answers), pl.Series(golds), ["credit"])["credit"]
    for (answer, gold), value in zip(pairs, values, strict=True):
        ours, right = (normalise(pl.Series([one]), "text").to_list()[0] or "" for one in (answer, gold))
        same = sum(min(ours.split().count(word), right.split().count(word)) for word in set(ours.split()))
        precision, recall = (same / max(1, len(one.split())) for one in (ours, right))
        assert value == pytest.approx(2 * precision * recall / (precision + recall) if same else 0, abs=1e-6)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    for call, names in (
        (lambda: normalise(pl.Series(["a"]), "numbre"), ["`numbre`", "`number`?"]),
        (lambda: judge(pl.Series(["a"]), pl.Series(["a"]), "covers"), ["`covers`", "`cover`?"]),
        (lambda: read_answers(pl.Series(["a"]), ["boxd"]), ["`boxd`", "`boxed`?"]),
    ):
        with refuses("unknown", *names):
            call()


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"so \boxed{3} or \boxed{\frac{1}{2}}.", r"\frac{1}{2}"), (r"\boxed{a} then \boxed{cut \frac{", "a"),
        (r"\fbox{ 7 }", "7"), (r"$\boxed 12$", "12"), (r"\boxed{", None), ("no box", None), (r"\boxed{{x}}", "{x}"),
    ],
)  # fmt: skip
def test_boxes_balance_their_braces(text: str, inside: str | None) -> None:
    assert boxed(text) == inside
    assert read_answers(pl.Series([text]), ["boxed"]).to_list() == [inside]


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ("answer is", "The answer is 42. I am sure.", "42"),
        ("answer is", "Final Answer: The final answer is $5.50", "$5.50"),
        ("answer is", "answer is A.\nThe answer is (B).\nbye", "(B)"), ("answer is", "ANSWER = x + 1", "x + 1"),
        ("answer is", "The answer is 3.14", "3.14"), ("answer is", "no such thing", None),
        ("answer is", "the answer is", None),
        ("####", "steps\n#### 1,000\n", "1,000"), ("####", "#### 1\n#### 2", "2"), ("####", "none", None),
        ("last number", "10-3 is 7", "7"), ("last number", "x = -2.5.", "-2.5"),
        ("last number", "it costs $1,200.", "$1,200"),
        ("last number", "12-5", "5"), ("last number", "half: 1/2", "1/2"), ("last number", "so 30%", "30%"),
        ("last number", "6e3 units", "6e3"), ("last number", "about 6.6e-34", "6.6e-34"),
        ("last number", "2e-5-3 is", "3"),
        ("last number", "so 10/2.5", "10/2.5"),
        ("last number", "on 3/4/2020", "2020"), ("last number", "none", None), ("last number", "1-2-3", "3"),
        ("last line", "a\n b \n\n", "b"), ("last line", "  ", None),
        ("whole text", " a\n b ", "a\n b"), ("whole text", "  ", None),
    ],
)  # fmt: skip
def test_ways_of_reading(way: str, text: str, answer: str | None) -> None:
    assert read_answers(pl.Series([text, None]), [way]).to_list() == [answer, None]


def test_the_first_way_that_finds_something_counts() -> None:
    texts = pl.Series([r"\boxed{3} and 4", "the answer is 5", "only 6", "nothing"])
    assert read_answers(texts, ["boxed", "answer is", "last number"]).to_list() == ["3", "5", "6", None]


def test_a_pattern_of_ones_own() -> None:
    texts = pl.Series(["<a>1</a> <a>2</a>", "none", None])
    assert read_answers(texts, ["pattern"], r"<a>(.*?)</a>").to_list() == ["2", None, None]
    assert read_answers(texts, ["pattern"], r"<a>").to_list() == ["<a>", None, None]
    with refuses("invalid", "`pattern`"):
        read_answers(texts, ["pattern"], "(")
    with refuses("required", "`pattern`", "`pattern = '"):
        read_answers(texts, ["pattern"])


@pytest.mark.parametrize(
    ("way", "text", "answer"),
    [
        ("####", "#### 12", None),
        ("####", "#### 12\nand", "12"),
        ("answer is", "The answer is 4", None),
        ("answer is", "The answer is 4. Or", "4"),
        ("last line", "5\n1", None),
        ("last line", "5\n1\n", "1"),
        ("whole text", "5\n1", None),
        ("whole text", "5\n", "5"),
        ("last number", "It is 5 or 1", None),
        ("last number", "It is 5 or", "5"),
        ("boxed", "\\boxed{5} or \\boxed{1", "5"),
        ("boxed", "\\boxed{5}", "5"),
        ("pattern", "<5 <1", None),
        ("pattern", "<5 <1>", "1"),
    ],
)
def test_what_reaches_the_end_of_a_text_cut_by_its_limit_is_not_read(way: str, text: str, answer: str | None) -> None:
    cut = pl.Series([True, False, None])
    read = read_answers(pl.Series([text] * 3), [way], r"<(\d+)", cut).to_list()
    assert read[0] == answer
    assert read[1:] == read_answers(pl.Series([text] * 2), [way], r"<(\d+)").to_list()


PIECES = ("\\boxed", "\\fbox", "{", "}", "{", "}", " ", "$", "x", "\n", "\\frac", "\x1c", "\u2003", "####", "#", "\t")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=16).map("".join) | st.none(), max_size=8))
def test_a_column_is_read_as_its_texts_are(texts: list[str | None]) -> None:
    column = pl.Series(texts, dtype=pl.String)
    assert read_answers(column, ["boxed"]).to_list() == [boxed(text) or None if text else None for text in texts]
    hashes = re.compile(r"[\s\S]*####[ \t]*([^\n]+)")
    found = [hashes.match(text or "") for text in texts]
    behind = pl.Series([one and one[1] for one in found], dtype=pl.String).str.strip_chars()
    assert read_answers(column, ["####"]).to_list() == [text or None for text in behind]
