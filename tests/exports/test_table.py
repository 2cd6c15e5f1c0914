"""`export table`: each cell of the flat table is that of the log, in every format, whatever the size of the blocks."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from tests.errors import refuses, says
from tests.logs import sealed
from toolkit.exports import export_table, table
from toolkit.log import Log, open_log, write_log

ODD = "=1+1\n\x1b[31m“q”,"


def scored_tables() -> dict[str, pl.DataFrame]:
    """Three examples with four traces, which two verifiers score in part; texts that would run or steer."""
    ids = ["b", "b", "a", "c"]
    examples = {"example_id": ["a", "b", "c"], "dataset": "d", "split": "s", "question": ["", ODD, "q"],
                "gold": "1", "labels": [None, ["1", ODD], []], "model": ["x", None, "z"]}  # fmt: skip
    traces = {"trace_id": ["t0", "t1", "t2", "t3"], "example_id": ids, "pool": "p", "action": "solve",
              "sample_index": [1, 0, 0, 0], "model": "m", "answer": ["1", None, "2", ""], "text": [ODD, "", None, "x"],
              "correct": [True, False, False, False], "seed": [2**62, 1, None, 3]}  # fmt: skip
    verifications = {"trace_id": ["t0", "t1", "t0"], "example_id": "b", "verifier": ["v", "v", "w w"],
                     "score": [0.1, 0.25, -3.0]}  # fmt: skip
    features = {"trace_id": ["t3"], "example_id": ["c"], "length": [0.5]}
    tables = {"examples": examples, "traces": traces, "verifications": verifications, "features": features}
    return {name: pl.DataFrame(one) for name, one in tables.items()}


log = sealed(scored_tables, "log")

EXPECTED = [
    {"example_id": "a", "question": "", "trace_id": "t2", "sample_index": 0, "answer": "2", "text": None,
     "seed": None, "score.v": None, "score.w w": None, "feature.length": None, "labels": None, "example.model": "x"},
    {"example_id": "b", "question": ODD, "trace_id": "t1", "sample_index": 0, "answer": None, "text": "",
     "seed": 1, "score.v": 0.25, "score.w w": None, "feature.length": None, "labels": ["1", ODD],
     "example.model": None},
    {"example_id": "b", "question": ODD, "trace_id": "t0", "sample_index": 1, "answer": "1", "text": ODD,
     "seed": 2**62, "score.v": 0.1, "score.w w": -3.0, "feature.length": None, "labels": ["1", ODD],
     "example.model": None},
    {"example_id": "c", "question": "q", "trace_id": "t3", "sample_index": 0, "answer": "", "text": "x",
     "seed": 3, "score.v": None, "score.w w": None, "feature.length": 0.5, "labels": [], "example.model": "z"},
]  # fmt: skip


@pytest.mark.parametrize("block", [1, 2, 1000])
def test_jsonl_and_parquet_hold_every_cell(
    log: Log, tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "ROWS", block)
    assert export_table(log, tmp_path / "t.jsonl", "jsonl") == 4
    export_table(log, tmp_path / "t.parquet", "parquet")
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text("utf-8").splitlines()]
    rows = pl.read_parquet(tmp_path / "t.parquet").to_dicts()
    for found in (lines, rows):
        assert [{name: row[name] for name in EXPECTED[0]} for row in found] == EXPECTED
        assert all(row["model"] == "m" and row["gold"] == "1" for row in found)
        assert "latency_s" not in found[0]


def test_csv_holds_the_same_texts_untouched(log: Log, tmp_path: Path) -> None:
    export_table(log, tmp_path / "t.csv", "csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text("utf-8"), newline="")))
    assert [row["question"] for row in rows] == ["", ODD, ODD, "q"]
    assert [row["text"] for row in rows] == ["", "", ODD, "x"]
    assert [json.loads(row["labels"]) if row["labels"] else None for row in rows] == [None, ["1", ODD], ["1", ODD], []]
    assert [row["score.v"] for row in rows] == ["", "0.25", "0.1", ""]


def test_a_flat_table_comes_in_again(log: Log, tmp_path: Path) -> None:
    from toolkit.imports import import_table

    export_table(log, tmp_path / "t.parquet", "parquet")
    (tmp_path / "map.toml").write_text(
        '[examples]\nexample_id = "example_id"\ndataset = "dataset"\nsplit = "split"\nquestion = "question"\n'
        'gold = "gold"\n[traces]\ntrace_id = "trace_id"\npool = "pool"\nsample_index = "sample_index"\n'
        'model = "model"\ncorrect = "correct"\n[[verifiers]]\nverifier = "\'v\'"\nscore = \'"score.v"\'\n'
    )
    report = import_table([str(tmp_path / "t.parquet")], tmp_path / "map.toml", tmp_path / "again")
    assert (report.examples, report.traces, report.verifications) == (3, 4, 2)


def test_a_format_that_there_is_not_and_an_empty_log_are_refused(log: Log, tmp_path: Path) -> None:
    with refuses("unknown", "`to`", "`xlsx`", "`csv`", "`jsonl`", "`parquet`"):
        export_table(log, tmp_path / "t.xlsx", "xlsx")
    examples = pl.DataFrame({"example_id": ["a"], "dataset": "d", "split": "s", "question": "q"})
    write_log(tmp_path / "empty", name="empty", tables={"examples": examples})
    with refuses("empty", "empty`"):
        export_table(open_log(tmp_path / "empty"), tmp_path / "t.csv", "csv")


def test_a_file_without_an_ending_says_no_format(log: Log, tmp_path: Path) -> None:
    from thinkback.app import app

    done = CliRunner().invoke(app, ["export", "table", log.address, "--out", str(tmp_path / "t")])
    assert done.exit_code == 2
    says(done, "required", "`--to parquet`")
    assert not (tmp_path / "t").exists()
