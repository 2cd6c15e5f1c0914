"""Replaying without a policy file, and checking one without a replay."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import thinkback as tb
from tests.errors import noted, numbers
from thinkback import console
from toolkit.log import open_log, write_log


@pytest.mark.slow
def test_replay_without_policies_takes_it(thinkback: Callable, log: Path, tmp_path: Path) -> None:
    printed = thinkback("suite", log, "--where", "true")
    assert printed.exit_code == 0
    (tmp_path / "suite.toml").write_text(printed.stdout)
    assert thinkback("replay", log, "--out", "a", "--resamples", "50", "--where", "true").exit_code == 0
    same = ("--resamples", "50", "--where", "true", "--baseline", "majority@4")
    given = thinkback("replay", log, "--policies", "suite.toml", "--out", "b", *same)
    assert given.exit_code == 0
    assert "difference" in (tmp_path / "a" / "table.csv").read_text()  # to the vote over most traces
    assert (tmp_path / "a" / "table.csv").read_text() == (tmp_path / "b" / "table.csv").read_text()


def test_what_the_suite_shows_fits_two_screens(thinkback: Callable, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    done = thinkback("replay", log, "--out", "a", "--resamples", "50", "--where", "true")
    lines = done.stdout.splitlines()
    rows = (Path("a") / "table.csv").read_text().count("\n") - 1
    assert rows > 20
    assert len(lines) < 60
    (rest,) = (line for line in lines if re.search(r" table\.csv .*\bsummary\.parquet\.$", line))
    assert numbers(rest) == [f"{rows - 7}"]
    assert all(len(line) <= 80 for line in lines if not line.startswith("a/:"))


@pytest.mark.slow
def test_replay_without_policies_reports_test_examples_by_data_set(thinkback: Callable, log: Path) -> None:
    made = {name: open_log(log).scan(name).collect() for name in ("examples", "traces", "verifications")}
    number = pl.int_range(pl.len())
    halves = pl.when(number % 2 == 0)
    made["examples"] = made["examples"].with_columns(
        split=halves.then(pl.lit("dev")).otherwise(pl.lit("test")), dataset=pl.lit("d") + (number % 4).cast(pl.String)
    )
    write_log(Path("split"), name="split", tables=made)
    done = thinkback("replay", "split", "--out", "test", "--resamples", "50")
    assert done.exit_code == 0
    assert [line for line in done.stdout.splitlines() if line.startswith("dataset = ")] == [
        "dataset = d1",
        "dataset = d3",
    ]
    assert done.stdout.count("Pareto ●:") == 1  # said once, of all tables
    assert len(re.findall(r"table_by\.md [a-z ]*summary_by\.parquet\.", done.stdout)) == 2
    noted(tb.load("test").notes, "suite", "split = 'test'")
    assert "split = 'test'" in done.stdout
    read = pl.read_parquet("test/examples.parquet")
    assert set(read["dataset"]) == {"d1", "d3"}
    assert len(read) == 60
    everything = thinkback("replay", "split", "--out", "all", "--resamples", "50", "--where", "true")
    assert everything.exit_code == 0
    assert "split = 'test'" not in everything.stdout
    assert len(pl.read_parquet("all/examples.parquet")) == 120
    ours = tb.run("split", resamples=50)
    asked = tb.run("split", tb.suite("split"), resamples=50)
    for one in (ours, asked):
        assert one.table().markdown() == tb.load("test").table().markdown()
        assert (one.by_summary is not None, one.notes) == (True, tb.load("test").notes)
    assert tb.run("split", where="true", resamples=50).examples.height == 120
    assert tb.run("split", tb.suite("split"), by="split", resamples=50).by == ("split",)


def test_what_the_suite_leaves_out_is_a_note_of_the_result(log: Path) -> None:
    made = {name: open_log(log).scan(name).collect() for name in ("examples", "traces", "verifications")}
    one = made["examples"].filter(split="test")["example_id"][0]
    few = made["verifications"].filter((pl.col("verifier") != "weak") | (pl.col("example_id") == one))
    result = tb.run(made | {"verifications": few}, resamples=20)
    missing, reported = [note.text for note in result.notes if note.code == "suite"]
    assert "`weak`" in missing
    assert "split = 'test'" in reported


def test_what_stands_for_policies_may_be_a_suite(log: Path) -> None:
    standard = tb.suite(log)
    file = tb.load_policies(standard)
    assert (file.where, file.by, file.left_out) == (standard.where, standard.by, standard.left_out)
    assert tb.check_policies(standard, log).policies
    example = open_log(log).scan("examples").collect()["example_id"][0]
    assert tb.explain(log, standard, file.policies[0].name, example).ending


def test_a_long_line_is_folded_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = " ".join(["`policy[gate.below=-1.44]`"] * 6)
    monkeypatch.setenv("COLUMNS", "60")
    console.say_folded(line)
    monkeypatch.setattr(console, "on_terminal", lambda: True)
    console.say_folded(line)
    plain, *folded = capsys.readouterr().out.splitlines()
    assert plain == line
    assert folded == [" ".join(["`policy[gate.below=-1.44]`"] * 2)] * 3


def test_a_policy_file_is_checked_without_a_replay(thinkback: Callable, log: Path, policies: Path) -> None:
    found = thinkback("check", policies)
    assert (found.exit_code, found.stdout) == (0, f"{policies}: 6 policies (5 sample, 1 oracle).\n")
    found = thinkback("check", policies, "--log", log)
    assert numbers(found.stdout) == ["6", "5", "1", "120"]
    policies.write_text(policies.read_text().replace('verifier = "strong"', 'verifier = "stong"', 1))
    assert thinkback("check", policies).exit_code == 0
    wrong = thinkback("check", policies, "--log", log)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "`stong`" in wrong.stderr
    assert "`strong`" in wrong.stderr
