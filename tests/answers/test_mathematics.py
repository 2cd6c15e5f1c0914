"""Mathematical answers, judged by the real math-verify: equivalence, merging, the time limit, the cache."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from tests.errors import numbers, refuses
from toolkit.answers import mathematics
from toolkit.answers.mathematics import DIFFERENT, FAILED, LONGEST, SAME, TIMED_OUT, Mathematics, judge_mathematics

pytest.importorskip("math_verify")

# A tower of powers: the integer has more digits than there are atoms. No signal handler runs while it is multiplied.
TOWER = "9^{9^{9^{9}}}"
SLOW = r"\int_0^1 \frac{\sin(x^3+\ln(x+2))}{\sqrt{x^5+\cos(x)+7}} dx"


@pytest.fixture(scope="module")
def judge() -> Iterator[Mathematics]:
    with Mathematics(limit_s=20, workers=2) as made:
        yield made


def table(*rows: tuple[str, str | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema={"example_id": pl.String, "answer": pl.String, "gold": pl.String}, orient="row")


def test_equivalent_expressions_are_the_same_and_others_are_not(judge: Mathematics) -> None:
    same = [
        (r"\frac{1}{2}", "0.5"), ("x^2+2x+1", "(x+1)^2"), (r"\sqrt{8}", r"2\sqrt{2}"), ("5", "x=5"),
        (r"\{1,2\}", r"\{2,1\}"), (r"\text{east}", "east"), (r"\left( 3, \frac{\pi}{2} \right)", r"(3,\pi/2)"),
    ]  # fmt: skip
    different = [("1/2", "1/3"), ("(2,1)", "(1,2)"), ("x+1", "x+2"), ("12", "13"), (r"\pi", "4")]
    found = judge.compare([*same, *different])
    assert [found[pair] for pair in same] == [SAME] * len(same)
    assert [found[pair] for pair in different] == [DIFFERENT] * len(different)


def test_judging_merges_equivalent_answers_into_the_earliest(judge: Mathematics) -> None:
    rows = table(
        ("a", "0.5", r"\frac{1}{2}"),  # right, earliest of the right ones
        ("a", "1/2", r"\frac{1}{2}"),
        ("a", r"2\sqrt{2}", r"\frac{1}{2}"),  # wrong, earliest of its group
        ("a", r"\sqrt{8}", r"\frac{1}{2}"),
        ("a", r"\sqrt{8}", r"\frac{1}{2}"),
        ("a", None, r"\frac{1}{2}"),
        ("b", r"\sqrt{8}", "3"),  # another example: its own strings
        ("c", "x+1", None),  # no reference: no verdict, merged all the same
        ("c", "1+x", None),
    )
    done = judge_mathematics(rows.with_row_index("order"), judge)
    assert done.frame["order"].to_list() == list(range(9))
    half, root = "0.5", r"2\sqrt{2}"
    assert done.frame["answer"].to_list() == [half, half, root, root, root, None, r"\sqrt{8}", "x+1", "x+1"]
    assert done.frame["correct"].to_list() == [True, True, False, False, False, False, False, None, None]
    assert (done.merged, done.rewritten) == (3, 4)  # 1/2, √8 of `a` (two rows) and 1+x
    assert (done.timed_out, done.failed) == (0, 0)
    assert numbers(done)[:2] == ["3", "4"]


def test_equal_answers_get_equal_verdicts_and_judging_again_changes_nothing(judge: Mathematics) -> None:
    answers = ["1", "2/2", "1.0", "x", "2", "4/2", r"\frac{4}{2}", "0.5", "1/2"]
    once = judge_mathematics(table(*[("a", answer, "2") for answer in answers]), judge)
    per_answer = once.frame.group_by("answer").agg(pl.col("correct").n_unique())
    assert per_answer["correct"].max() == 1
    twice = judge_mathematics(once.frame.drop("correct"), judge)
    assert twice.frame.equals(once.frame)
    assert twice.merged == 0


@pytest.mark.slow
def test_the_limit_holds_and_the_next_comparison_works() -> None:
    with Mathematics(limit_s=1.5, workers=1) as judge:
        judge.compare([("x", "y")])  # the process is up
        start = time.perf_counter()
        found = judge.compare([(TOWER, "x+1"), ("7", TOWER + "+1"), ("x+1", "1+x")])
        assert time.perf_counter() - start < 2 * 1.5 + 15  # two limits and the starts of new processes
        assert found[("x+1", "1+x")] == SAME
        assert {found[(TOWER, "x+1")], found[("7", TOWER + "+1")]} <= {TIMED_OUT, FAILED}  # failed: memory ended first


def test_a_long_computation_without_a_python_step_is_cut_off() -> None:
    """One multiplication of huge integers never looks at a signal: only killing ends it."""
    with Mathematics(limit_s=1, workers=1) as judge:
        start = time.perf_counter()
        assert judge.compare([("5", "3^{400000000}")]) == {("5", "3^{400000000}"): TIMED_OUT}
        assert time.perf_counter() - start < 20  # a second, and the start of the process


def test_a_comparison_that_overruns_is_false_and_counted() -> None:
    with Mathematics(limit_s=0.002, workers=2) as judge:  # nothing symbolic is done in two milliseconds
        done = judge_mathematics(table(("a", r"\int_0^{x} \sin(t^2) dt", SLOW), ("a", SLOW, SLOW)), judge)
    assert done.frame["correct"].to_list() == [False, True]
    assert done.timed_out >= 1


def test_it_works_in_a_thread() -> None:
    found: dict = {}

    def work() -> None:
        with Mathematics(limit_s=20, workers=1) as judge:
            found.update(judge.compare([("x+1", "1+x")]))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert found == {("x+1", "1+x"): SAME}


def test_a_process_that_dies_is_replaced(judge: Mathematics) -> None:
    judge.compare([("a+b", "b+a")])
    for worker in judge._workers:
        if worker._process is not None:
            worker._process.kill()
            worker._process.wait()
    after = judge.compare([("c+b", "b+c"), ("d+b", "b+d"), ("e+b", "b+e"), ("f+b", "b+f")])
    assert list(after.values()).count(FAILED) <= 2  # one for each process that was found dead
    assert list(judge.compare([("g+h", "h+g")]).values()) == [SAME]


def test_the_cache_answers_without_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "cache.sqlite"
    rows = table(("a", "1+x", "x+1"), ("a", "2x", "x+1"), ("a", "x+x", "x+1"))
    with Mathematics(workers=1, cache=path) as judge:
        first = judge_mathematics(rows, judge)
    assert (first.comparisons, first.cached) == (4, 0)  # three against the reference, x+x against 2x

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(mathematics.subprocess, "Popen", refuse)
    with Mathematics(workers=1, cache=path) as judge:
        again = judge_mathematics(rows, judge)
    assert (again.comparisons, again.cached) == (0, 4)
    assert again.frame.equals(first.frame)
    assert again.merged == first.merged == 1


def test_a_remembered_time_out_is_asked_again_only_under_a_longer_limit(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with Mathematics(limit_s=1, workers=1, cache=path) as judge:
        judge._cache.store_verdict(("x+1", "1+x"), TIMED_OUT)  # type: ignore[union-attr]
    with Mathematics(limit_s=0.5, workers=1, cache=path) as judge:
        assert judge.compare([("x+1", "1+x")]) == {("x+1", "1+x"): TIMED_OUT}
    with Mathematics(limit_s=30, workers=1, cache=path) as judge:
        assert judge.compare([("x+1", "1+x")]) == {("x+1", "1+x"): SAME}


def test_plain_cases_need_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mathematics.subprocess, "Popen", None)
    long = "x" * (LONGEST + 1)
    with Mathematics() as judge:
        found = judge.compare([("7", "7"), ("7", "-7"), ("x", long), (long, long)])
    assert list(found.values()) == [SAME, DIFFERENT, DIFFERENT, SAME]


def test_bad_input_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, judge: Mathematics) -> None:
    with refuses("required", "`gold`"):
        judge_mathematics(pl.DataFrame({"example_id": ["a"], "answer": ["1"]}), judge)
    with refuses("mismatch", "`a`", "`gold`", "2"):
        judge_mathematics(table(("a", "1", "1"), ("a", "1", "2")), judge)
    bad = tmp_path / "cache"
    bad.write_bytes(b"no database, but long enough to be looked at" * 50)
    with refuses("format", "cache`"):
        Mathematics(cache=bad)
    monkeypatch.setattr(mathematics.importlib.util, "find_spec", lambda _: None)
    with refuses("package", "thinkback[mathematics]"):
        Mathematics()


def test_an_empty_frame_and_odd_texts_are_no_trouble(judge: Mathematics) -> None:
    empty = judge_mathematics(table(), judge)
    assert empty.frame.columns == ["example_id", "answer", "gold", "correct"]
    odd = judge_mathematics(table(("a", "}{\\", "1"), ("a", "line\nbreak", "1"), ("a", "π ∞ 你好", "1")), judge)
    assert odd.frame["correct"].to_list() == [False, False, False]


def test_two_may_share_a_cache(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    with Mathematics(workers=1, cache=path) as one, Mathematics(workers=1, cache=path) as two:
        one.compare([("x+1", "1+x")])
        two.compare([("x+1", "1+x"), ("x+2", "2+x")])
        assert (one.comparisons, two.comparisons, two.cached) == (1, 1, 1)
    assert sqlite3.connect(path).execute("select count(*) from comparisons").fetchone() == (2,)
