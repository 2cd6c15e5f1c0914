"""Numeric claims: labels by an independent reading of the claim's words, justifications, balance, canonical form."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product

from generate.tasks import Claims, Item, answer_of, first_questions
from generate.tasks.numeric_claims import KINDS, LABELS, _ClaimPart, _FactTable, _label_of, canonical, part_verdict
from tests.errors import refuses

TASK = Claims()


@cache
def items() -> list[Item]:
    """Drawn when a test first asks for them: every worker imports this file."""
    return first_questions(TASK, "test", 900, seed=2)


WORD, NUMBER, YEAR = r"([a-z]+)", r"(\d+)", r"(20\d\d)"


def two(test: Callable[[int, int, int], bool]) -> Callable[[int], Callable[[int, int], bool]]:
    return lambda n: lambda p, q: test(n, p, q)


def one(test: Callable[[int, int], bool]) -> Callable[[int], Callable[[int], bool]]:
    return lambda n: lambda p: test(n, p)


RISE, GAP = two(lambda n, p, q: q - p == n), two(lambda n, p, q: p - q == n)
TOTAL, TIMES = two(lambda n, p, q: p + q == n), two(lambda n, p, q: p == n * q)
ABOVE, BELOW, EQUAL = one(lambda n, p: p > n), one(lambda n, p: p < n), one(lambda n, p: p == n)
READINGS = [  # wording -> (cells, test of their numbers)
    (rf"{WORD} (?:rose|grew) by {NUMBER} from {YEAR} to {YEAR}", lambda a, n, y, z: ([(a, y), (a, z)], RISE(n))),
    (rf"{WORD} (?:fell|shrank) by {NUMBER} from {YEAR} to {YEAR}", lambda a, n, y, z: ([(a, y), (a, z)], GAP(n))),
    (rf"{WORD} in {YEAR} and {YEAR} add up to {NUMBER}", lambda a, y, z, n: ([(a, y), (a, z)], TOTAL(n))),
    (rf"{WORD} came to {NUMBER} in {YEAR} and {YEAR} together", lambda a, n, y, z: ([(a, y), (a, z)], TOTAL(n))),
    (rf"{WORD} beat {WORD} by {NUMBER} in {YEAR}", lambda a, b, n, y: ([(a, y), (b, y)], GAP(n))),
    (rf"{NUMBER} more {WORD} than {WORD} in {YEAR}", lambda n, a, b, y: ([(a, y), (b, y)], GAP(n))),
    (rf"{WORD} were {NUMBER} times {WORD} in {YEAR}", lambda a, n, b, y: ([(a, y), (b, y)], TIMES(n))),
    (rf"in {YEAR} there were {NUMBER} times as many {WORD} as {WORD}", lambda y, n, a, b: ([(a, y), (b, y)], TIMES(n))),
    (rf"{WORD} were above {NUMBER} in {YEAR}", lambda a, n, y: ([(a, y)], ABOVE(n))),
    (rf"more than {NUMBER} {WORD} in {YEAR}", lambda n, a, y: ([(a, y)], ABOVE(n))),
    (rf"{WORD} were below {NUMBER} in {YEAR}", lambda a, n, y: ([(a, y)], BELOW(n))),
    (rf"fewer than {NUMBER} {WORD} in {YEAR}", lambda n, a, y: ([(a, y)], BELOW(n))),
    (rf"{WORD} (?:were|stood at) {NUMBER} in {YEAR}", lambda a, n, y: ([(a, y)], EQUAL(n))),
    (rf"in {YEAR} there were {NUMBER} {WORD}", lambda y, n, a: ([(a, y)], EQUAL(n))),
]  # fmt: skip


def read_label(question: str) -> str:
    """The label from the words alone."""
    *lines, claim = question.split("\n")
    head = lines[0].split()[1:]
    cells = {}
    for line in lines[1:]:
        year, *values = line.split()
        for topic, value in zip(head, values, strict=True):
            cells[(topic, int(year))] = [int(one) for one in value.split("/")]
    rest, held = claim.removeprefix("claim: ").removesuffix("."), []
    while rest:
        for pattern, meaning in READINGS:
            found = re.match(pattern + r"(?: and |$)", rest)
            if found:
                groups = [int(one) if one.isdigit() else one for one in found.groups()]
                where, test = meaning(*groups)
                held.append({test(*numbers) for numbers in product(*(cells[place] for place in where))})
                rest = rest[found.end() :]
                break
        else:
            raise AssertionError(f"no reading of {rest!r}")
    if all(one == {True} for one in held):
        return "True"
    return "False" if all(one == {False} for one in held) else "Conflicting"


def test_labels_follow_from_the_words() -> None:
    wrong = [item.question for item in items() if read_label(item.question) != item.answer]
    assert wrong == []


def test_the_arithmetic_of_justifications_is_right() -> None:
    for item in items():
        *lines, last = item.solution.split("\n")
        assert last == f"#### {item.answer}"
        assert _label_of([line.rpartition(": ")[2] for line in lines if ": " in line]) == item.answer
        assert {*lines} <= {*item.facts}
        for left, right in re.findall(r"(\d+[-+*]\d+)=(-?\d+)", item.solution):
            assert eval(left) == int(right)
        assert item.question == "\n".join([*item.extra["evidence"], f"claim: {item.extra['claim']}"])


def read_out(item: Item) -> bool:
    return ": " not in item.solution.split("\n")[0]


def test_justifications_take_their_parts_in_either_order_and_may_read_out_the_cells() -> None:
    for item in items():
        *lines, _ = item.solution.split("\n")
        if not read_out(item):
            continue
        assert len(lines) % 2 == 0
        for cells, sums in zip(lines[::2], lines[1::2], strict=True):
            topic, year, cell = cells.split(",")[0].split(" ")
            columns, *rows = [row.split(" ") for row in item.extra["evidence"]]
            stands = {(row[0], name): value for row in rows for name, value in zip(columns, row, strict=True)}
            assert stands[year, topic] == cell
            assert sums.startswith(f"{topic} ")
    two = [item for item in items() if len(item.facts) == 4]
    sums = [[line for line in item.solution.split("\n") if ": " in line] for item in two]
    first = [lines[0] == item.facts[1] for item, lines in zip(two, sums, strict=True)]
    assert 0.4 < sum(first) / len(first) < 0.6


def test_labels_and_kinds_are_balanced() -> None:
    labels = Counter(item.answer for item in items())
    assert set(labels) == set(LABELS)
    assert all(250 < labels[label] < 350 for label in LABELS)  # 300 expected, standard deviation 14
    wording = " ".join(item.extra["claim"] for item in items())
    assert all(word in wording for word in ("rose", "fell", "add up", "above", "fewer", "beat", "times", "stood at"))
    parts = Counter(len(re.findall(": (?:yes|no|half)$", item.solution, re.MULTILINE)) for item in items())
    assert set(parts) == {1, 2}
    assert min(parts.values()) > 100
    assert 0.4 < sum(read_out(item) for item in items()) / len(items()) < 0.6
    skewed = first_questions(Claims(shares=(0.2, 0.6, 0.2)), "dev", 300, seed=0)
    assert 150 < Counter(item.answer for item in skewed)["False"] < 210


def test_three_verdicts_of_a_part_and_three_labels() -> None:
    table = _FactTable(("jobs", "homes"), (2011, 2012), (((40,), (46, 49)), ((12,), (15,))))
    rise = _ClaimPart("change", 1, 0, 1, 0, 1, 6)  # 46-40 = 6, but 49-40 = 9
    assert part_verdict(table, rise) == "half"
    assert part_verdict(table, replace(rise, number=7)) == "no"
    assert part_verdict(table, _ClaimPart("bound", 1, 0, 1, 1, 0, 45)) == "yes"  # 46 and 49 are above 45
    assert part_verdict(table, _ClaimPart("times", 0, 1, 0, 0, 1, 2)) == "no"
    assert [_label_of(list(said)) for said in (["yes"], ["no", "no"], ["yes", "no"], ["half"], ["half", "yes"])] == [
        "True", "False", "Conflicting", "Conflicting", "Conflicting",
    ]  # fmt: skip


def test_names_years_wording_and_order_do_not_escape_the_canonical_form() -> None:
    table = _FactTable(("jobs", "homes"), (2011, 2012), (((40,), (46, 49)), ((12,), (15,))))
    parts = (_ClaimPart("change", 1, 0, 1, 0, 1, 6), _ClaimPart("gap", 0, 0, 1, 0, 1, 28))
    form = canonical(table, parts)
    assert canonical(_FactTable(("cars", "votes"), (2003, 2004), table.cells), parts[::-1]) == form
    turned = _FactTable(("homes", "jobs"), (2011, 2012), (((12,), (15,)), ((40,), (49, 46))))
    assert (
        canonical(turned, tuple(replace(part, column=1 - part.column, other=1 - part.other) for part in parts)) == form
    )
    unused = (replace(parts[0], other=0), parts[1])  # a change says nothing of another column
    assert canonical(table, unused) == form
    assert canonical(table, (replace(parts[0], number=7), parts[1])) != form
    assert canonical(table, parts[:1]) != form


def test_flawed_justifications_are_wrong() -> None:
    rng = random.Random(0)
    for item in items()[:300]:
        flawed = TASK.wrong_solution(item, rng)
        assert answer_of(flawed) in set(LABELS) - {item.answer}
        assert TASK.sound_share(item, flawed) < 1 == TASK.sound_share(item, item.solution)
        assert TASK.check(item, item.answer).holds
        assert not TASK.check(item, answer_of(flawed)).holds


def test_settings_that_make_no_sense_are_refused() -> None:
    for settings in (
        {"years": 1},
        {"columns": 1},
        {"largest": 3},
        {"kinds": ("odd",)},
        {"shares": (0, 0, 0)},
        {"differ": 2},
    ):
        with refuses("unknown" if "kinds" in settings else "invalid", f"`{next(iter(settings))}`"):
            Claims(**settings)
    only = first_questions(Claims(kinds=("value",), two_parts=0.0, differ=0.0, shares=(1, 1, 0)), "train", 40, seed=0)
    assert {item.answer for item in only} == {"True", "False"}
    assert len(KINDS) == 6
