"""A label space of thousands of labels costs nothing where few of them are gold."""

import time

import polars as pl
from polars.testing import assert_frame_equal

import replay
from tests.logs import BEST, FIRST, GOLDS, POOL, tables
from toolkit.log import write_log


def run(folder, labels):
    made = tables({"n3": POOL}, GOLDS, labels)
    return replay.run(write_log(folder, name="small", tables=made), [FIRST, BEST], resamples=50, baseline="first")


def test_labels_that_no_example_has_as_gold_change_nothing_and_cost_nothing(tmp_path):
    few = run(tmp_path / "few", ["A", "B"])
    start = time.process_time()
    many = run(tmp_path / "many", [f"x{i}" for i in range(9_000)] + ["A", "B"])
    assert time.process_time() - start < 20
    assert_frame_equal(many.summary, few.summary)
    assert_frame_equal(many.comparisons, few.comparisons)
    assert set(many.summary["metric"].filter(pl.Series(many.summary["metric"]).str.starts_with("f1:"))) == {
        "f1:A", "f1:B"
    }  # fmt: skip


def test_an_answer_that_is_nobodys_gold_is_a_miss_and_no_false_alarm(tmp_path):
    """e2 (gold B) is answered C in both logs, e1 and e3 A: F1 of A is 1, of B 0."""
    pool = {"e1": [("A", 0.4)], "e2": [("C", 0.9)], "e3": [("A", 0.7)]}
    made = tables({"n3": pool}, GOLDS, ["A", "B", "C"])
    summary = replay.run(write_log(tmp_path / "log", name="small", tables=made), FIRST, resamples=50).summary
    found = dict(summary.select("metric", "estimate").iter_rows())
    assert (found["f1:A"], found["f1:B"], found["macro_f1"]) == (1.0, 0.0, 0.5)
    assert "f1:C" not in found
