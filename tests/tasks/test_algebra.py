"""`algebra_linear_1d`: answers solve the equations, steps hold, canonical forms, difficulty."""

from __future__ import annotations

import itertools
import random
import re
from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from generate.tasks import Algebra, Item, answer_of, first_questions
from generate.tasks.algebra import _equation_sides, _SolutionWay, _sum_text, canonical, parse_sum, solution_lines
from tests.errors import refuses
from toolkit.errors import ThinkbackError

TASK = Algebra()


@cache
def items() -> list[Item]:
    """Drawn when a test first asks for them: every worker imports this file."""
    return first_questions(TASK, "test", 600, seed=1)


def sides_at(text: str, value: Fraction) -> tuple[Fraction, Fraction]:
    """Both sides of an _equation by Python's own arithmetic, apart from the code under test."""
    body = re.sub(r"^Solve | for [a-z]\.$", "", text)
    left, right = (re.sub(r"[a-z]", "V", side) for side in body.split("="))
    numbers = [re.sub(r"\d+", r"Fraction(\g<0>)", side) for side in (left, right)]
    return tuple(eval(side, {"V": value, "Fraction": Fraction}) + Fraction(0) for side in numbers)  # type: ignore[return-value]


def test_the_answer_is_the_only_solution() -> None:
    for item in items():
        answer = Fraction(int(item.answer))
        left, right = sides_at(item.question, answer)
        assert left == right, item.question
        left, right = sides_at(item.question, answer + 1)  # linear: wrong at one other value is wrong at all others
        assert left != right, item.question


def test_every_step_is_solved_by_the_answer_and_the_last_line_gives_it() -> None:
    for item in items():
        *steps, last = item.solution.split("\n")
        assert last == f"#### {item.answer}"
        assert answer_of(item.solution) == item.answer
        assert len(set(steps)) == len(steps) >= 1
        for step in steps:
            left, right = sides_at(step, Fraction(int(item.answer)))
            assert left == right, (item.question, step)
        assert re.fullmatch(rf"[a-z]={item.answer}", steps[-1])


def test_questions_are_varied() -> None:
    text = [item.question for item in items()]
    share = {
        "bracket": sum("(" in one for one in text) / len(text),
        "nested": sum(bool(re.search(r"\([^()]*\(", one)) for one in text) / len(text),
        "variable on both sides": sum(len(re.findall("[a-z]", one.split(" for ")[0][6:].split("=")[0])) > 0
                                      and len(re.findall("[a-z]", one.split(" for ")[0].split("=")[1])) > 0
                                      for one in text) / len(text),
        "negative answer": sum(item.answer.startswith("-") for item in items()) / len(text),
    }  # fmt: skip
    assert 0.2 < share["bracket"] < 0.8
    assert 0.01 < share["nested"] < 0.3
    assert 0.3 < share["variable on both sides"] < 0.9
    assert 0.35 < share["negative answer"] < 0.6
    assert len(Counter(one.rstrip(".")[-1] for one in text)) > 15
    assert Counter(item.answer for item in items()).most_common(1)[0][1] < 40  # 41 answers, 600 questions


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Solve 4*k+2=10 for k.", "Solve 4*z+2=10 for z."),
        ("Solve 4*k+2=10 for k.", "Solve 10=2+4*q for q."),
        ("Solve 3*(2*a-5)+a=7 for a.", "Solve b+3*(-5+2*b)=7 for b."),
    ],
)
def test_renaming_and_reordering_do_not_escape_the_canonical_form(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


def test_other_equations_have_other_forms() -> None:
    forms = {canonical(text) for text in ("4*k+2=10", "4*k-2=10", "-4*k+2=10", "2*(2*k+1)=10", "4*k+2=11", "2*k+4=10")}
    assert len(forms) == 6
    for item in items()[:100]:
        assert canonical(item.question) == item.canonical


@given(st.integers(1, 10_000))
def test_a_renamed_question_keeps_its_form(number: int) -> None:
    item = items()[number % len(items())]
    letter = "abcdefghjkmnpqrstuvwxyz"[number % 23]
    body = item.question[len("Solve ") : item.question.index(" for ")]
    renamed = f"Solve {re.sub('[a-z]', letter, body)} for {letter}."
    assert canonical(renamed) == item.canonical


def test_reading_and_writing_are_inverse() -> None:
    for item in items()[:200]:
        left, right = _equation_sides(item.question)
        letter = item.question.rstrip(".")[-1]
        assert f"Solve {_sum_text(left, letter)}={_sum_text(right, letter)} for {letter}." == item.question
    for bad in ("", "3*", "x+y", "3 4", "(2*x", "2*x)", "x**2", "3*(", "2x"):
        with pytest.raises(ThinkbackError):
            parse_sum(bad)


def test_difficulty_bounds_hold() -> None:
    easy = first_questions(Algebra(answer=5, factor=4, constant=9, terms=1, bracket=0.0, largest=60), "dev", 60, seed=0)
    for item in easy:
        assert abs(int(item.answer)) <= 5
        assert "(" not in item.question
        assert max(int(number) for number in re.findall(r"\d+", item.question + item.solution)) <= 60
    hard = first_questions(Algebra(bracket=0.9, nested=0.9), "dev", 60, seed=0)
    assert sum("(" in item.question for item in hard) > 50
    with refuses("limit", "`dev`", "`algebra_linear_1d`"):
        first_questions(Algebra(answer=1, factor=2, constant=1, terms=1, bracket=0.0), "dev", 500, seed=0)
    with refuses("invalid", "`terms`"):
        Algebra(terms=0)


def test_flawed_solutions_are_wrong_and_sound_tells_them_apart() -> None:
    rng = random.Random(0)
    for item in items():
        flawed = TASK.wrong_solution(item, rng)
        assert answer_of(flawed) not in (None, item.answer)
        assert TASK.sound_share(item, flawed) < 1 == TASK.sound_share(item, item.solution)
        lines = flawed.split("\n")
        assert all(one != other for one, other in itertools.pairwise(lines))


def test_a_check_puts_the_answer_in() -> None:
    for item in items()[:200]:
        good, bad = TASK.check(item, item.answer), TASK.check(item, str(int(item.answer) + 1))
        assert good.holds
        assert not bad.holds
        for check in (good, bad):
            values = []
            for line in check.text.split("\n"):
                side, _, value = line.rpartition("=")
                assert eval(side) == int(value)
                values.append(int(value))
            assert (values[0] == values[1]) is check.holds
    assert TASK.check(items()[0], None).text == "no answer"


def test_solutions_take_every_way() -> None:
    left, right = _equation_sides("2*(k+1)+3=3*(k-2)")
    made = {
        _SolutionWay(*flags): solution_lines(left, right, "k", _SolutionWay(*flags))
        for flags in product((False, True), repeat=3)
    }
    assert made[_SolutionWay()] == ["2*k+2+3=3*k-6", "2*k+5=3*k-6", "2*k-3*k=-6-5", "-k=-11", "k=11"]
    assert made[_SolutionWay(apart=True)][:2] == ["2*k+2+3=3*(k-2)", "2*k+2+3=3*k-6"]
    assert made[_SolutionWay(direct=True)] == ["2*k+2+3=3*k-6", "2*k-3*k=-6-2-3", "-k=-11", "k=11"]
    assert made[_SolutionWay(right=True)][2:] == ["5+6=3*k-2*k", "11=k", "k=11"]
    assert len({tuple(lines) for lines in made.values()}) == 8
    ways = _SolutionWay(), _SolutionWay(right=True)
    seen = {tuple(item.solution.split("\n")[:-1]) in {tuple(_ways(item)[way]) for way in ways} for item in items()}
    assert seen == {True, False}
    assert all(item.solution.split("\n")[:-1] in _ways(item).values() for item in items()[:200])


def _ways(item: Item) -> dict[_SolutionWay, list[str]]:
    left, right = _equation_sides(item.question)
    letter = item.question.rstrip(".")[-1]
    return {
        _SolutionWay(*flags): solution_lines(left, right, letter, _SolutionWay(*flags))
        for flags in product((False, True), repeat=3)
    }
