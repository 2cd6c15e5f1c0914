"""The summary of checks by hand: sums that are wrong, answers that break the question, answers that changed."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.signals.checks import answer_changed, arithmetic_mismatch, constraint_mismatch
from generate.simulation.recovery import RecoveryModel, recovery_tables
from thinkback.app import app
from toolkit.log import collect, open_log, write_log

SUMS = [
    ("births 15+19=34, 18: no", 0),
    ("births 4+19=28, 18: no", 1),  # 23
    ("loans 18-10=8 27-10=17, 15: half", 0),
    ("loans 18-10=8 27-10=16, 15: half", 1),  # the second of two
    ("2 * 3 = 6 = 7", 1),  # a step of a chain
    ("a = 2 + 2 = 5", 1),
    ("-5*(4*3+1)=-65\n-50-15=-65\nok", 0),
    ("(1+2)*3 = 9; 9 - 1 = 7", 1),
    ("10/3 = 3.33", 0),  # rounded in its last digit, within .005
    ("10/3 = 3.35", 1),
    ("10/3=3", 1),  # a whole number is not rounded
    ("1,200 + 300 = 1,500.", 0),
    ("1,200+300=1,600", 1),
    ("12 / 4 = 4 hours.", 1),  # a unit
    ("7 − 10 = −3, 2×3=6", 0),
    # what cannot be read with certainty is no mismatch
    ("-20*j-5=-50-15\n-5+65=20*j\n60=20*j\nj=3", 0),
    ("x + 2 = 5, 2x+3 = 3, 5 = 3x, 5 = 3 x", 0),
    ("20% = 0.2, $5 + $3 = 9, 2^3 = 8, 5! = 120, \\frac{1}{2} = 0.5, 10:30 = 4, 1/0 = 3, = 7", 0),
    ("", 0),
]


@pytest.mark.parametrize(("text", "wrong"), SUMS)
def test_wrong_sums(text: str, wrong: int) -> None:
    assert arithmetic_mismatch(pl.Series([text, None], dtype=pl.String)).to_list() == [wrong, None]


ANSWERS = [
    ("Solve -5*(4*j+1)=-50-15 for j.", "3", None, 0),  # −5 · 13 = −65
    ("Solve -5*(4*j+1)=-50-15 for j.", "4", None, 1),  # −5 · 17 = −85
    ("Solve -5*(4*j+1)=-50-15 for j.", None, None, 0),
    ("Solve 2x + 1 = 7 for x.", "-3", None, 1),  # −5
    ("Solve 2x + 1 = 7 for x.", "seven", None, 0),
    ("Let x + y = 7 and x = 3. What is y?", "9", None, 0),  # two equations
    ("How many apples are left?", "3", None, 0),
    ("How many apples are left?", "-1", None, 1),
    ("How many apples are left?", "2.5", None, 1),
    ("Find the integer below zero.", "-2", None, 0),
    ("It rose.", "True", ["True", "False"], 0),
    ("It rose.", "Maybe", ["True", "False"], 1),
]


@pytest.mark.parametrize(("question", "answer", "labels", "broken"), ANSWERS)
def test_broken_constraints(question: str, answer: str | None, labels: list[str] | None, broken: int) -> None:
    among = pl.Series([labels], dtype=pl.List(pl.String))
    assert constraint_mismatch(pl.Series([question]), pl.Series([answer], dtype=pl.String), among).to_list() == [broken]


def test_changed_answers() -> None:
    own, before = pl.Series(["1", "2", None, "3 ", "5"]), pl.Series(["1", None, "4", "3", None])
    revised = pl.Series([True, True, True, True, False])
    assert answer_changed(own, before, revised).to_list() == [0, 1, 1, 0, None]


def test_checks_are_added_to_a_log_and_a_gate_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = recovery_tables(40, 11, RecoveryModel(votes=3))
    text = pl.when(pl.col("sample_index") == 0).then(pl.lit("2+2=5")).otherwise(pl.lit("2+2=4"))
    tables["traces"] = tables["traces"].with_columns(text=text)
    write_log(tmp_path / "log", name="made", tables=tables, simulated=True)
    (tmp_path / "checks.toml").write_text('[[features]]\nkind = "checks"\nprefix = "check_"\n')
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["generate", "checks.toml", "--on", "log"])
    assert done.exit_code == 0, done.output
    log = open_log(tmp_path / "log")
    rows = collect(log.scan("traces", ["trace_id", "action", "sample_index", "answer", "parent_id"]), log).join(
        collect(log.scan("features"), log), on="trace_id"
    )
    assert (rows["check_arithmetic_mismatch"] == (rows["sample_index"] == 0).cast(pl.Float64)).all()
    first = rows.filter(pl.col("action") == "solve")
    assert first["check_answer_changed"].null_count() == len(first)
    both = rows.filter(pl.col("action") != "solve").join(
        rows.select(parent_id="trace_id", before="answer"), on="parent_id"
    )
    assert (both["check_answer_changed"] == both["answer"].ne_missing(both["before"]).cast(pl.Float64)).all()
    assert 0 < both["check_answer_changed"].mean() < 1
    (tmp_path / "gated.toml").write_text(
        '[[policy]]\nname = "accept"\nkind = "sample"\npool = "short"\nmax_traces = 1\nselect = "first"\n'
        '[[policy]]\nname = "where a sum is wrong"\nkind = "when"\n'
        'base = { kind = "sample", pool = "short", max_traces = 1, select = "first" }\n'
        'gate = { feature = "check_arithmetic_mismatch", at_least = 1 }\n'
        'then = { kind = "act", action = "active_verify", base = "short" }\n'
    )
    gated = CliRunner().invoke(app, ["replay", "log", "--policies", "gated.toml", "--resamples", "20", "--out", "o"])
    assert gated.exit_code == 0, gated.output
