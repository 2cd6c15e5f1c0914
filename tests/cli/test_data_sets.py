"""Strata, weights and fixed questions on the command line, on the log that comes with the project."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import replay

LOG = Path(__file__).parents[2] / "data" / "log"
POLICIES = """
[[policy]]
name = "one"
kind = "sample"
pool = "votes"
max_traces = 1
select = "first"
expected = true

[[policy]]
name = "vote"
kind = "sample"
pool = "votes"
max_traces = 8
select = "majority"
expected = true
"""
SOME = "split = 'test' AND (dataset = 'numeric_claims' OR example_id < 'algebra_linear_1d-test-00100')"


def test_replay_and_compare(thinkback: Callable, tmp_path: Path) -> None:
    file, out = tmp_path / "two.toml", tmp_path / "out"
    file.write_text(POLICIES)
    words = ["replay", LOG, "--policies", file, "--baseline", "one", "--where", SOME, "--resamples", "200"]
    done = thinkback(*words, "--weigh", "algebra_linear_1d=3,numeric_claims=1", "--questions", "fixed", "--out", out)
    assert done.exit_code == 0, done.stderr
    result = replay.load(out)
    assert (result.provenance["strata"], result.provenance["weights"]) == (
        "dataset", {"algebra_linear_1d": 3.0, "numeric_claims": 1.0},
    )  # fmt: skip
    assert {"strata", "weighed"} <= {one.code for one in result.notes}
    with (out / "same_questions.csv").open(newline="", encoding="utf-8") as rows:
        assert {(row["policy"], row["other"]) for row in csv.DictReader(rows)} == {
            ("one", ""), ("vote", ""), ("one", "vote"),
        }  # fmt: skip
    pair = thinkback("compare", out, "vote", "one", "--questions", "fixed")
    assert pair.exit_code == 0
    assert "These questions, other samples" in pair.stdout


def test_what_is_refused(thinkback: Callable, tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(POLICIES)
    words = ["replay", LOG, "--policies", file, "--where", SOME, "--resamples", "100", "--out", tmp_path / "out"]
    for given, code in {
        ("--strata", "nothing"): "unknown",
        ("--weigh", "halves"): "invalid",
        ("--weigh", "algebra_linear_1d=1"): "invalid",
        ("--strata", "none", "--weigh", "equal"): "conflict",
    }.items():
        done = thinkback(*words, *given)
        assert done.exit_code == 2
        assert f"[{code}]" in done.stderr
    assert thinkback(*words, "--questions", "either").exit_code == 2
    assert not (tmp_path / "out").exists()
