"""After an import: the share that is right, wrong answers beside their gold, a warning with a cure that was tried."""

from __future__ import annotations

import pytest

from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.imports import import_table

READ = """
[traces]
pool = "'p'"
sample_index = "row order"
model = "'m'"
text = "t"
[answers]
kind = "number"
read = ["last number"]
"""


def told(bench: Bench) -> str:
    assert bench.report is not None
    return "\n".join(map(str, bench.report.readings.notes()))


def solved(count: int, gold: str = "{}") -> list[dict[str, object]]:
    return [sample(f"e{i}", t=f"It is {i + 10}", gold=gold.format(i + 10)) for i in range(count)]


def test_the_share_that_is_right_and_three_wrong_answers_beside_their_gold(bench: Bench) -> None:
    rows = solved(6)
    for row in rows[:4]:
        row["t"] = "It is 7"
    bench.run(rows, HEAD + READ)
    assert told(bench).split("\n") == [
        "right: 2 of 6 judged traces (33.3 %)",
        "wrong: e0: answer `7`, gold `10`",
        "wrong: e1: answer `7`, gold `11`",
        "wrong: e2: answer `7`, gold `12`",
    ]


def test_the_gold_of_gsm8k_is_no_silent_nought(bench: Bench) -> None:
    gold = "He has 3 + 7 of them, so <<3+7=10>> and all.\n#### {}"
    bench.run(solved(8, gold), HEAD + READ)
    lines = told(bench).split("\n")
    assert lines[0] == "right: 0 of 8 judged traces (0.0 %)"
    assert lines[1].startswith("wrong: e0: answer `10`, gold `He has 3 + 7 of them")
    assert lines[-1] == (
        "WARNING: only 0 of 8 judged traces are right:"
        " `--set 'answers.read_gold=[\"####\"]'` would make 8 of 8 tried right"
    )


def test_its_cure_cures(bench: Bench) -> None:
    rows = bench.rows(solved(8, "words\n#### {}"))
    setting = 'answers.read_gold=["####"]'
    report = import_table([rows], bench.mapping(HEAD + READ), bench.folder / "cured", settings=[setting])
    assert report.readings.right == report.readings.judged == 8
    assert report.readings.cure is None


CURES = {
    "another kind": (HEAD + TRACES, "{}.0", "a", "--set 'answers.kind=number'"),
    "a boxed answer": (HEAD + TRACES, "so \\boxed{{{}}}", "a", "--set 'answers.read=[\"boxed\"]'"),
    "a boxed gold": (HEAD + TRACES, "{}", "gold", "--set 'answers.read_gold=[\"boxed\"]'"),
}


@pytest.mark.parametrize("case", CURES)
def test_likely_cures(bench: Bench, case: str) -> None:
    mapping, form, column, cure = CURES[case]
    rows = [sample(f"e{i}", str(i + 10), gold=str(i + 10)) for i in range(5)]
    for i, row in enumerate(rows):
        row[column] = f"\\boxed{{{i + 10}}}" if column == "gold" else form.format(i + 10)
    bench.run(rows, mapping)
    assert f"`{cure}` would make 5 of 5 tried right" in told(bench)


def test_verdicts_of_the_source_are_replaced_by_rejudging(bench: Bench) -> None:
    rows = [sample(f"e{i}", str(i), gold=str(i), ok=False) for i in range(5)]
    bench.run(rows, HEAD + TRACES + 'correct = "ok"\n')
    assert "only 0 of 5 judged traces are right: `--rejudge` would make 5 of 5 tried right" in told(bench)


def test_nothing_readable(bench: Bench) -> None:
    rows = [sample(f"e{i}", t=f"\\boxed{{x_{i}}}") for i in range(5)]
    for row in rows:
        row.pop("gold")
    bench.run(rows, HEAD.replace('gold = "gold"\n', "") + READ.replace("last number", "####"))
    assert told(bench) == (
        "WARNING: only 0 of 5 traces have a readable answer: `--set 'answers.read=[\"boxed\"]'` would read 5 of 5 tried"
    )


def test_where_no_cure_is_known_the_warning_says_where_to_look(bench: Bench) -> None:
    bench.run([sample(f"e{i}", "no", gold=f"g{i}") for i in range(5)], HEAD + TRACES)
    assert told(bench).endswith(
        "see whether `answers.kind`, `answers.read` and the gold column are what they should be"
    )


def test_verdicts_without_answers_show_no_answers(bench: Bench) -> None:
    rows = [sample(f"e{i}", ok=i == 0) for i in range(5)]
    bench.run(rows, HEAD + TRACES.replace('answer = "a"', 'correct = "ok"'))
    assert told(bench) == "right: 1 of 5 judged traces (20.0 %)"
