"""A verdict that is missing is not a wrong answer; rows that come twice are told of."""

from __future__ import annotations

import shutil

import pytest

from tests.errors import numbers, quotes, remarked
from tests.imports.makers import HEAD, TRACES, Bench, sample
from toolkit.log import Log, validate_log
from toolkit.show import code_of

ONLY_VERDICTS = HEAD + TRACES.replace('answer = "a"', 'correct = "ok"')
LABELLED = HEAD + TRACES + 'correct = "ok"\n{}[answers]\nkind = "label"\nlabels = ["A", "B"]'


def judged(log: Log) -> list[tuple]:
    assert validate_log(log).problems == ()
    names = ["example_id", "answer", "correct", "opaque"]
    return log.scan("traces").collect().sort("trace_id").select(names).rows()


@pytest.mark.parametrize("gold", ["1", None])
def test_an_example_that_lacks_a_verdict_is_unjudged(bench: Bench, gold: str | None) -> None:
    rows = [sample("e", ok=ok) for ok in (True, None, True)] + [sample("f", ok=ok) for ok in (True, False)]
    log = bench.run([{**row, "gold": gold} for row in rows], ONLY_VERDICTS)
    assert judged(log) == [
        ("e", "e/p/0", None, True), ("e", "e/p/1", None, True), ("e", "e/p/2", None, True),
        ("f", "f/p/0", True, True), ("f", "f/p/1", False, True),
    ]  # fmt: skip
    assert bench.report is not None
    assert bench.report.unjudged_examples == 1
    assert bench.report.null_answers == 0
    opaque, undecided, unjudged = bench.report.notes[:3]
    quotes(opaque, "4 traces have", "opaque")
    quotes(undecided, "1 trace has", "its example")
    quotes(unjudged, "1 example", "unjudged")


def test_nor_is_a_single_opaque_trace_wrong_for_want_of_a_verdict(bench: Bench) -> None:
    rows = [sample("e", None, ok=ok, veil=True) for ok in (True, None)] + [sample("f", "1", ok=True, veil=False)]
    log = bench.run(rows, HEAD + TRACES + 'correct = "ok"\nopaque = "veil"')
    assert judged(log) == [("e", "e/p/0", None, True), ("e", "e/p/1", None, True), ("f", "1", True, False)]


def test_labels_without_gold_leave_an_example_unjudged(bench: Bench) -> None:
    rows = [sample("e", "A", ok=1), sample("e", "B", ok=0), sample("e", None, ok=0)]
    rows = [{**row, "gold": None} for row in rows]
    rows += [{**sample("f", "A", ok=0), "gold": "A"}, {**sample("g", None, ok=0), "gold": None}]
    log = bench.run(rows, LABELLED.format(""))
    assert [row[:3] for row in judged(log)] == [
        ("e", "A", None), ("e", "B", None), ("e", None, None), ("f", "A", True), ("g", None, None),
    ]  # fmt: skip
    assert bench.report is not None
    assert bench.report.unjudged_examples == 2
    assert [note for note in bench.report.notes if note.startswith("2 examples have") and "`examples.gold`" in note]


def test_or_keep_the_sources_verdicts_as_opaque(bench: Bench) -> None:
    rows = [{**sample("e", "A", ok=ok), "gold": None} for ok in (1, 0)]
    log = bench.run(rows, LABELLED.format('opaque = "gold IS NULL"\n'))
    assert judged(log) == [("e", "e/p/0", True, True), ("e", "e/p/1", False, True)]
    assert bench.report is not None
    assert not any("no gold" in note for note in bench.report.notes)


TWICE = "repeated"
"""The code of what is said of a run that was appended to itself."""


@pytest.mark.parametrize(
    ("answers", "told"), [("1212", "8"), ("1221", None), ("121", None), ("11", None), ("1111", None), ("123123", "12")]
)
def test_a_run_appended_to_itself_is_told_of(bench: Bench, answers: str, told: str | None) -> None:
    bench.run([sample(example, answer) for example in "eg" for answer in answers] + [sample("f", "7")], HEAD + TRACES)
    assert bench.report is not None
    found = [note for note in bench.report.notes if code_of(note) == TWICE]
    assert [numbers(note) for note in found] == ([[told]] if told else [])


def test_equal_halves_by_chance_are_none(bench: Bench) -> None:
    """One question of short answers, or a fourth of them, has equal halves; the others have not."""
    rows = [sample(f"e{n}", answer) for n in range(12) for answer in ("1212" if n < 3 else "1221")]
    bench.run(rows, HEAD + TRACES)
    assert bench.report is not None
    assert TWICE not in map(code_of, bench.report.notes)


def test_also_where_every_example_has_one_sample(bench: Bench) -> None:
    once = [sample(example, "1") for example in "efgh"]
    bench.run(once + once, HEAD + TRACES)
    assert bench.report is not None
    assert numbers(remarked(bench.report.notes, TWICE)) == ["8"]


def test_rows_that_differ_in_anything_are_no_repetition(bench: Bench) -> None:
    bench.run([sample("e", answer, seed=n) for n, answer in enumerate("1212")], HEAD + TRACES)
    assert bench.report is not None
    assert TWICE not in map(code_of, bench.report.notes)


def test_an_answer_takes_the_verdict_of_an_equal_one_or_is_compared_with_gold(bench: Bench) -> None:
    rows = [sample(answer="2", ok=True), sample(answer="2", ok=None), sample(answer="1", ok=None)]
    log = bench.run(rows, HEAD + TRACES + 'correct = "ok"')
    assert log.scan("traces").collect().sort("sample_index")["correct"].to_list() == [True, True, True]
    assert bench.report is not None
    compared, equal = bench.report.notes
    quotes(compared, "1 answer graded", "gold")
    quotes(equal, "1 answer graded", "equal answer")


def test_what_is_said_agrees_with_its_number(bench: Bench) -> None:
    bench.run([sample(answer=None), sample("f", "1")], HEAD + TRACES)
    assert bench.report is not None
    unreadable, compared = bench.report.notes
    quotes(unreadable, "1 trace has", "readable")
    quotes(compared, "1 answer graded")
    bench.report = None
    shutil.rmtree(bench.folder / "log")
    bench.run([sample(answer="7")], HEAD + TRACES)
    assert "0 of 1 judged trace is" in str(bench.report.lines())
