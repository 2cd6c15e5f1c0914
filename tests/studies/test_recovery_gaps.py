"""What a log lacks: the study's tables keep their columns, with dashes and reasons, and name what is left out."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.data.contents import read_contents
from replay.gatefit.gate_set import missing_rules
from replay.studies.kit.cells import left_out_note, unlogged_note
from replay.studies.recovery.figures import missing_figures
from replay.studies.recovery.study import LACKING, DatasetStudy, caveat_lines
from replay.studies.recovery.tables import tables as tables_of
from tests.errors import quotes, remarked
from tests.studies.recovery import study
from thinkback.app import app
from toolkit.log import open_log, write_log
from toolkit.show import Table

COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "finalizer_used", "finalizer_tokens")
TOKENS, SECONDS = unlogged_note("tokens", "trace"), unlogged_note("seconds", "trace")


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> DatasetStudy:
    tables = _recovery_tables(600, 11, RecoveryModel(votes=3))
    tables["traces"] = tables["traces"].drop(COSTS, strict=False)
    return study(tables, tmp_path_factory.mktemp("bare") / "log")


@pytest.fixture(scope="module")
def bare_tables(bare: DatasetStudy) -> dict[str, Table]:
    return tables_of([bare])


@pytest.fixture(scope="module")
def holed_tables(holed: DatasetStudy) -> dict[str, Table]:
    return tables_of([holed])


def column(table: Table, name: str) -> list[object]:
    place = [one.key or one.name for one in table.columns].index(name)
    return [row[place] for row in table.rows]


def test_tables_keep_their_columns_where_costs_are_not_logged(
    bare_tables: dict[str, Table], holed_tables: dict[str, Table]
) -> None:
    for name, table in bare_tables.items():
        assert [one.name for one in table.columns] == [one.name for one in holed_tables[name].columns], name


@pytest.mark.parametrize(
    ("table", "names", "reason"),
    [
        ("seconds", ("mean", "p50", "p95", "p99"), SECONDS),
        ("prices", ("total_tokens", "per_1000_at_0.5", "relative"), TOKENS),
        ("budget_matched", ("total_tokens", "calls", "finalizers"), TOKENS),
        ("budget_matched", ("finalizers",), unlogged_note(LACKING["finalizers"].what, "trace")),
        ("per_1000_requests", ("total_tokens_saved", "action_tokens_saved"), TOKENS),
        ("joint_frontier", ("total_tokens", "regret", "best", "on_front"), TOKENS),
        ("threshold_sweep", ("total_tokens",), TOKENS),
    ],
)
def test_what_is_not_logged_is_a_dash_with_its_reason(
    table: str, names: tuple[str, ...], reason: str, bare_tables: dict[str, Table], holed_tables: dict[str, Table]
) -> None:
    found = bare_tables[table]
    assert reason in found.below
    assert all(set(column(found, name)) == {None} for name in names)
    assert reason not in holed_tables[table].below


def test_unlogged_tokens_of_actions_are_not_none_spent(bare: DatasetStudy) -> None:
    screened = tables_of([bare])["screening"]
    spent = dict(zip(column(screened, "action"), column(screened, "action_tokens"), strict=True))
    assert spent["accept"] == 0
    assert spent["active_verify"] is None


def test_figures_that_cannot_be_drawn_are_named(bare: DatasetStudy, holed: DatasetStudy) -> None:
    drawn = ("fixes_and_flips", "threshold_sweep", "flips_among", "calibration")
    told = list(missing_figures(bare, drawn))
    assert len(told) == 2
    remarked(told, "no_figure", "sim-a", "`cost_accuracy`", "tokens")
    remarked(told, "no_figure", "sim-a", "`threshold_sweep`", "tokens")
    assert not list(missing_figures(holed, ("cost_accuracy", *drawn)))


def test_rules_that_the_log_cannot_serve_are_named(bare: DatasetStudy) -> None:
    contents = read_contents(open_log(bare.result.provenance["log"]["address"]))
    action = bare.roles.action
    told = list(missing_rules(contents, {"difficulty": "difficulty", "verification need": "need"}, action, fitted=True))
    assert len(told) == 2
    remarked(told, "no_rule", "`near limit (0.9)`", "`completion_tokens`", "`finalizer_used`")
    remarked(told, "no_rule", "`verification need`", "`need`")
    ended = replace(contents, trace_columns={"model": pl.String()})
    told = list(missing_rules(ended, {}, action, fitted=True))
    assert len(told) == 3
    for rule in ("truncation only", "near limit (0.9)", "completed only"):
        remarked(told, "no_rule", f"`{rule}`")
    ungated = list(missing_rules(contents, {}, action, fitted=False))
    remarked(ungated, "no_rule", "`completed only`", "`active_verify`")


def test_rules_without_a_fit_are_no_caveat_where_none_is_compared(bare: DatasetStudy) -> None:
    ungated = replace(bare.roles, gates={}, screened_apart=True)
    remarked(caveat_lines(ungated, rules=True), "rules_without_fit", f"`{ungated.action}`")
    assert list(caveat_lines(ungated, rules=False)) == []


def test_left_out_examples_are_told_with_the_first_of_them() -> None:
    assert left_out_note({}) == ()
    remarked(left_out_note({"b": "why"}), "left_out", "1", "`b`", "`left_out.csv`")
    many = dict.fromkeys("edcba", "why")
    remarked(left_out_note(many), "left_out", "5", "`a`, `b`, `c`;", "`left_out.csv`")


@pytest.mark.slow
def test_left_out_examples_are_written_and_said_with_their_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of the reported examples of one data set, and none of the other, lack a revision."""
    tables = _recovery_tables(600, 11, RecoveryModel(votes=3))
    number = pl.int_range(pl.len()) % 2
    named = pl.when(number == 0).then(pl.lit("even")).otherwise(pl.lit("odd"))
    examples = tables["examples"].with_columns(dataset=named)
    gone = examples.filter((pl.col("split") == "test") & (pl.col("dataset") == "odd"))["example_id"].sort()[:2]
    hole = pl.col("example_id").is_in(gone.implode()) & (pl.col("action") == "active_verify")
    tables |= {"examples": examples, "traces": tables["traces"].filter(~hole)}
    write_log(tmp_path / "log", name="made", tables=tables, simulated=True)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["study", "recovery", "log", "--out", "o", "--resamples", "20"])
    assert done.exit_code == 0, done.output
    said = f"`{gone[0]}`, `{gone[1]}`"
    (line,) = (line for line in done.output.splitlines() if said in line)
    quotes(line, "odd: 2 examples", "`left_out.csv`")
    assert "WARNING: odd: 2 of " in done.output
    assert "even: " not in done.output.split("WARNING")[1]
    report = (tmp_path / "o" / "report.md").read_text()
    assert said in report
    assert "> **WARNING: odd: 2 of " in report
    with (tmp_path / "o" / "left_out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["dataset"], row["example_id"]) for row in rows] == [("odd", name) for name in gone]
    assert all("active_verify" in row["reason"] and row["simulated"] == "true" for row in rows)
