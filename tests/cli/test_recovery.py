"""Thinking again on the command line: fit, transfer, study, import and export, and every mistake."""

from __future__ import annotations

import csv
import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.analyses.recommend.recommend import CHANGE, DISABLE, INTERVENE, TUNE, UNDECIDED
from tests.cli.conftest import Run
from tests.cli.test_errors import files, refused
from tests.errors import file_notes, remarked
from toolkit.imports import import_recovery
from toolkit.log import collect, open_log, write_log
from toolkit.show import SIMULATED

FIT = ("fit-gate", "LOG", "--action", "active_verify", "--on", "split='train'", "--tune", "split='dev'")
SHIPPED = Path(__file__).resolve().parents[2] / "data" / "log"
FIGURES = ("cost_accuracy", "fixes_and_flips", "threshold_sweep", "flips_among", "calibration")
TABLES = (
    "budget_matched", "paired", "gates", "subgroups", "rules_and_headroom", "screening", "budgets", "joint_frontier",
    "threshold_sweep", "tokens", "prices", "per_1000_requests", "seconds",
)  # fmt: skip


@pytest.fixture(scope="module")
def recovery(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of one data set, named as one of the paper's, fitted on another."""
    path = tmp_path_factory.mktemp("recovery") / "log"
    tables = _recovery_tables(600, 11, RecoveryModel(votes=3))
    named = pl.when(pl.col("split") == "test").then(pl.lit("MATH500")).otherwise(pl.lit("MATH"))
    tables["examples"] = tables["examples"].with_columns(dataset=named)
    write_log(path, name="made", tables=tables, simulated=True)
    return path


def given(words: tuple[str, ...], log: Path) -> list[object]:
    return [log if word == "LOG" else word for word in words]


@pytest.mark.slow
def test_the_study_writes_every_table_and_figure(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[prices]\nsimulated = { prompt = 0.2, completion = 0.8 }\n")
    done = thinkback("study", "recovery", recovery, "--out", "o", "--resamples", "100", *PRICED)
    assert done.exit_code == 0, done.output
    made = files(tmp_path / "o")
    assert {f"{name}.{kind}" for name in TABLES for kind in ("md", "tex", "csv")} <= made
    assert {f"{name}.{kind}" for name in FIGURES for kind in ("pdf", "svg", "png")} <= made
    assert {"report.md", "gate-active_verify.json", "gate-continue.json"} <= made
    report = (tmp_path / "o" / "report.md").read_text()
    assert SIMULATED in report
    assert any(f"Recommendation, MATH500: {v}" in report for v in (TUNE, INTERVENE, DISABLE, CHANGE, UNDECIDED))
    rows = read(tmp_path / "o" / "budget_matched.csv")
    by = {row["policy"]: row for row in rows}
    assert (by["always active_verify"]["published_accuracy_pct"], by["base: short"]["published_tokens"]) == (
        "75.5",
        "4313",
    )
    base = float(by["base: short"]["accuracy"])
    for row in rows:
        if row["fix_rate"]:
            assert float(row["accuracy"]) - base == pytest.approx(float(row["fix_rate"]) - float(row["flip_rate"]))
    assert float(by["base: short"]["total_tokens"]) < float(by["always continue"]["total_tokens"])
    for name, column in PUBLISHED.items():
        assert any(row[column] for row in read(tmp_path / "o" / f"{name}.csv")), name
    assert read(tmp_path / "o" / "prices.csv")[0]["per_1000_priced"]


@pytest.mark.slow
def test_the_study_needs_no_more_than_recovery_rows(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    thinkback("export", "recovery", recovery, "--out", "rows.jsonl")
    thinkback("import", "recovery", "rows.jsonl", "--out", "back")
    done = thinkback("study", "recovery", "back", "--out", "o", "--resamples", "50")
    assert done.exit_code == 0, done.output
    policies = {row["policy"] for row in read(tmp_path / "o" / "budget_matched.csv")}
    assert {"base: short", "always active_verify", "selective active_verify"} <= policies
    assert "Recommendation" in (tmp_path / "o" / "report.md").read_text()


PRICED = ("--prices", "prices.toml", "--published", "MATH500,MATH")
PUBLISHED = {
    "paired": "published_p", "gates": "published_verify_pct", "subgroups": "published_accuracy_pct",
    "rules_and_headroom": "published_flips_pct", "screening": "published_fix_pct",
    "prices": "published_relative", "per_1000_requests": "published_calls_avoided",
}  # fmt: skip


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def test_a_gate_is_fitted_moved_and_read(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    fitted = thinkback(*given(FIT, recovery), "--out", "gate.json")
    assert fitted.exit_code == 0, fitted.output
    assert "AUROC" in fitted.stdout
    moved = thinkback("transfer", recovery, "--gate", "gate.json", "--where", "split='test'", "--resamples", "50")
    assert moved.exit_code == 0, moved.output
    assert "the gate, frozen" in moved.stdout
    assert SIMULATED in moved.stdout
    told = thinkback("export", "predictions", recovery, "--gate", "gate.json", "--out", "p.jsonl")
    assert told.exit_code == 0, told.output
    first = json.loads((tmp_path / "p.jsonl").read_text().splitlines()[0])
    assert {"example_id", "probability", "threshold", "choose_verify", "base_correct", "verify_accuracy"} <= set(first)
    assert first["choose_verify"] == (first["probability"] >= first["threshold"])


def test_out_of_fold_scores_are_written(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    pytest.importorskip("xgboost")
    done = thinkback(
        "fit-gate", recovery, "--action", "active_verify", "--on", "split='train'", "--folds", "4", "--kind", "trees",
        "--scores", "s.csv", "--out", "gate.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert set(read(tmp_path / "s.csv")[0]) == {"example_id", "score", "repair"}


def test_boosted_trees_without_xgboost_are_one_line(
    recovery: Path, thinkback: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    done = thinkback(
        "fit-gate", recovery, "--action", "active_verify", "--on", "split='train'", "--folds", "4", "--kind", "trees",
        "--out", "gate.json",
    )  # fmt: skip
    refused(done, "package", "`trees`", "xgboost", "'thinkback[xgboost-cpu]'")
    assert list(tmp_path.iterdir()) == []


def test_rows_go_out_and_come_back(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    assert thinkback("export", "recovery", recovery, "--out", "rows.jsonl").exit_code == 0
    back = thinkback("import", "recovery", "rows.jsonl", "--out", "back")
    assert back.exit_code == 0, back.output
    assert "600 examples, 4,200 traces" in back.stdout.splitlines()[-1]


FOLDER = ("--out", "o")
MISTAKES = {
    "same rows for both": ((*FIT[:6], "--tune", "split='train'", *FOLDER), ("leakage", "300", "`q000000`")),
    "few fixes": ((*FIT[:6], "--tune", "example_id between 'q000300' and 'q000330'", *FOLDER), ("empty", "20")),
    "no rows to fit on": ((*FIT[:4], "--tune", "split='dev'", *FOLDER), ("required", "--on")),
    "no rows to tune on": ((*FIT[:6], *FOLDER), ("required", "--tune", "--folds")),
    "scores without folds": ((*FIT, "--scores", "s.csv", *FOLDER), ("required", "--folds")),
    "no such action": (
        ("fit-gate", "LOG", "--action", "active_verfy", "--on", "true", "--tune", "true", *FOLDER),
        ("unknown", "active_verify"),
    ),
    "mistyped rows to tune on": (
        (*FIT[:6], "--tune", "split='dve'", *FOLDER),
        ("empty", "`--tune`", "`dev`, `test`, `train`"),
    ),
    "a study of mistyped rows": (
        ("study", "recovery", "LOG", "--tune", "split = 'dve'", *FOLDER),
        ("empty", "`--tune`", "`dev`, `test`, `train`"),
    ),
    "a study that fits and tunes on the same": (
        ("study", "recovery", "LOG", "--on", "true", "--tune", "split = 'dev'", *FOLDER),
        ("leakage", "`--on` (true)", "`--tune` (split = 'dev')", "120", "`q000300`"),
    ),
    "a study that reports what it fits on": (
        ("study", "recovery", "LOG", "--action", "active_verify", "--where", "split='train'", *FOLDER),
        ("leakage", "`--on` (split = 'train', ", "`--where` (split='train')", "300"),
    ),
    "a study that reports what it tunes on": (
        ("study", "recovery", "LOG", "--where", "split <> 'train'", *FOLDER),
        ("leakage", "`--tune` (split = 'dev', ", "`--where` (split <> 'train')", "120"),
    ),
    "a study without a test split": (
        ("study", "recovery", "LOG", "--where", "split = 'tset'", *FOLDER),
        ("empty", "`--where`", "split = 'tset'", "`dev`, `test`, `train`"),
    ),
    "a study of a misspelt column": (
        ("study", "recovery", "LOG", "--where", "splt = 'test'", *FOLDER),
        ("invalid", "`--where` (splt = 'test')"),
    ),
    "a study of no such action": (
        ("study", "recovery", "LOG", "--action", "verify", *FOLDER),
        ("unknown", "active_verify"),
    ),
    "a study of no such pool": (("study", "recovery", "LOG", "--base", "shrt", *FOLDER), ("unknown", "`short`")),
    "a study of no such budget": (("study", "recovery", "LOG", "--budgets", "lon", *FOLDER), ("unknown", "`long`")),
    "a margin in points": (("study", "recovery", "LOG", "--margin", "1", *FOLDER), ("invalid", "0.01")),
    "no such verifier": (
        ("export", "replay", "LOG", "--action", "active_verify", "--verifier", "gate", *FOLDER),
        ("unknown", "`gate`"),
    ),
    "a gate that is none": (
        ("transfer", "LOG", "--gate", "LOG/manifest.json"),
        ("format", "`thinkback fit-gate`", "fit-gate"),
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line_and_write_nothing(name: str, recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    words, refusal = MISTAKES[name]
    refused(thinkback(*(str(word).replace("LOG", str(recovery)) for word in words)), *refusal)
    assert files(tmp_path) == set()


def test_a_study_on_what_a_frozen_gate_has_seen_is_refused(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    thinkback(*given(FIT, recovery), "--out", "gate.json")
    before = files(tmp_path)
    where = ("--where", "split <> 'test'")
    reused = thinkback("study", "recovery", recovery, "--gate", "gate.json", *where, "--out", "o")
    refused(reused, "leakage", "gate.json", "420", "`--where`")
    assert "reuse" not in reused.output
    document = json.loads((tmp_path / "gate.json").read_text())
    (tmp_path / "gate.json").write_text(json.dumps(document | {"threshold": 0.5}))
    refused(thinkback("study", "recovery", recovery, "--gate", "gate.json", "--out", "o"), "damaged", "gate.json")
    assert files(tmp_path) == before


def test_a_study_with_a_gate_for_another_base_says_so_first(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    thinkback(*given(FIT, recovery), "--out", "gate.json")
    thinkback("export", "recovery", recovery, "--out", "rows.jsonl")
    thinkback("import", "recovery", "rows.jsonl", "--base", "first", "--out", "renamed")
    before = files(tmp_path)
    study = ("study", "recovery", "renamed", "--gate", "gate.json", "--out", "o")
    for asked in ((), ("--base", "first")):
        done = thinkback(*study, *asked)
        refused(done, "mismatch", "`gate.json`", "`short`", "`--base`")
    other = thinkback("study", "recovery", recovery, "--gate", "gate.json", "--action", "continue", "--out", "o")
    refused(other, "mismatch", "`gate.json`", "`active_verify`", "`continue`")
    assert files(tmp_path) == before


def test_a_gate_is_carried_to_rows_that_came_back(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    """The pool of the base attempts keeps its name; where it was renamed, `--base` says what it is called."""
    thinkback(*given(FIT, recovery), "--out", "gate.json")
    thinkback("export", "recovery", recovery, "--out", "rows.jsonl")
    move = ("--gate", "gate.json", "--where", "split='test'", "--resamples", "50")
    told = thinkback("transfer", recovery, *move).stdout.splitlines()[2:]
    for name, base in (("back", ()), ("renamed", ("--base", "first"))):
        assert thinkback("import", "recovery", "rows.jsonl", *base, "--out", name).exit_code == 0
        moved = thinkback("transfer", name, *move, *base)
        assert moved.exit_code == 0, moved.output
        assert SIMULATED in moved.stdout
        assert moved.stdout.splitlines()[2:] == told
    refused(thinkback("transfer", "renamed", *move), "mismatch", "`gate.json`", "`short`")
    out = ("export", "predictions", "renamed", "--gate", "gate.json", "--base", "first", "--out", "p.jsonl")
    done = thinkback(*out)
    assert re.search(r"WARNING: 420 [^\n]*\bgate\.json\b", done.stdout)


@pytest.mark.slow
def test_a_gate_of_a_real_log_fitted_by_default_is_carried(thinkback: Run, tmp_path: Path) -> None:
    """It reads sums of log-probabilities too, and says the same of the rows that came back, to the last digit."""
    log = open_log(SHIPPED)
    algebra = collect(log.scan("examples"), log).filter(dataset="algebra_linear_1d")
    examples = algebra.group_by("split", maintain_order=True).head(150)
    wanted = pl.col("pool").is_in(["short", "active-verify"])
    traces = collect(log.scan("traces"), log).filter(wanted).join(examples.select("example_id"), on="example_id")
    write_log(tmp_path / "real", name="real", tables={"examples": examples, "traces": traces})
    fitted = thinkback(*given(FIT, tmp_path / "real"), "--out", "gate.json")
    assert fitted.exit_code == 0, fitted.output
    read = {feature["name"] for feature in json.loads((tmp_path / "gate.json").read_text())["features"]}
    assert {"sum_logprob", "truncated", "completion_tokens", "invalid", "answer_length"} <= read
    assert thinkback("export", "recovery", "real", "--base", "short", "--out", "rows.jsonl").exit_code == 0
    back = thinkback("import", "recovery", "rows.jsonl", "--out", "back")
    assert back.exit_code == 0, back.output
    move = ("--gate", "gate.json", "--where", "split='test'", "--resamples", "50")
    told, moved = (thinkback("transfer", name, *move) for name in ("real", "back"))
    assert moved.exit_code == 0, moved.output
    assert moved.stdout.splitlines()[2:] == told.stdout.splitlines()[2:]


def test_a_gate_that_reads_answers_is_not_moved_to_rows_without(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    thinkback(*given(FIT, recovery), "--out", "gate.json")
    thinkback("export", "recovery", recovery, "--out", "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    bare = [{k: v for k, v in line.items() if k not in ("base_answer", "final_answer")} for line in lines]
    (tmp_path / "bare.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))
    line = remarked(import_recovery(["bare.jsonl"], "again").notes, "no_answers")
    assert line in thinkback("import", "recovery", "bare.jsonl", "--out", "bare").stdout
    moved = thinkback("transfer", "bare", "--gate", "gate.json", "--where", "split='test'")
    refused(moved, "format", "`gate.json`", "`short`", "`--features`")
    asked = (*given(FIT, tmp_path / "bare"), "--out", "o.json")
    refused(thinkback(*asked, "--features", "answer_length"), "unsuitable", "`answer_length`")
    assert thinkback(*asked).exit_code == 0
    features = json.loads((tmp_path / "o.json").read_text())["features"]
    assert not {"answer_length", "invalid"} & {feature["name"] for feature in features}


def test_a_score_that_is_no_chance_says_why_it_has_no_reliability(recovery: Path, thinkback: Run) -> None:
    done = thinkback(
        "fit-gate", recovery, "--action", "active_verify", "--kind", "score", "--features", "completion_tokens",
        "--tune", "split='dev'", "--out", "gate.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert re.search(r"\boutside 0 to 1\b.*\bBrier\b", done.stdout)
    assert "mean score" not in done.stdout


@pytest.mark.slow
def test_a_verdict_without_rows_held_back_has_a_caveat(recovery: Path, thinkback: Run, tmp_path: Path) -> None:
    thinkback("export", "recovery", recovery, "--out", "rows.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    bare = [{k: v for k, v in line.items() if k not in ("split", "simulated")} for line in lines]
    (tmp_path / "bare.jsonl").write_text("".join(json.dumps(line) + "\n" for line in bare))
    remarked(import_recovery(["bare.jsonl"], "again").notes, "no_split", "600 of 600 ", "`test`")
    assert "600 of 600 " in thinkback("import", "recovery", "bare.jsonl", "--out", "bare").stdout
    done = thinkback("study", "recovery", "bare", "--action", "active_verify", "--out", "o", "--resamples", "50")
    assert done.exit_code == 0, done.output
    told = (tmp_path / "o" / "report.md").read_text()
    for code, value in (("screened_on_reported", "`on`"), ("rules_without_fit", "`active_verify`")):
        (caveat,) = (
            note["text"] for note in file_notes(tmp_path / "o", code, value) if note["text"].startswith("CAVEAT: ")
        )
        for text in (done.stdout, told):
            assert caveat in text
    assert re.search(r"`on` [^`]*split = 'train'; [^`]*`test`", told)


def test_rows_that_are_refused_leave_nothing(thinkback: Run, tmp_path: Path) -> None:
    row = {"example_id": "a", "action": "active_verify", "base_correct": True, "final_correct": True}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    refused(thinkback("import", "recovery", "rows.jsonl", "--out", "o"), "empty", "`accept`")
    refused(thinkback("import", "replay", "rows.jsonl", "--out", "o"), "required", "verified_correct")
    (tmp_path / "empty.jsonl").write_text("")
    refused(thinkback("import", "recovery", "empty.jsonl", "--out", "o"), "empty", "`empty.jsonl`")
    refused(thinkback("import", "replay", "empty.jsonl", "--out", "o"), "empty", "`empty.jsonl`")
    assert files(tmp_path) == {"rows.jsonl", "empty.jsonl"}
