"""What holds of several files or tasks of an import is said in one line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.errors import quotes
from tests.formats.published import TIME, published
from toolkit.imports import import_format
from toolkit.imports.formats.prepared import FileNote, merged_notes

SAID = [
    ([FileNote("a", "x")], ["a: x"]),
    ([FileNote("a", "x"), FileNote("b", "x"), FileNote("a", "y")], ["a, b: x", "a: y"]),
    ([FileNote("a", "x")] * 3, ["a: x"]),
    ([FileNote(str(i), "x") for i in range(1_003)], ["0, 1 and 1,001 more: x"]),
    ([FileNote("", "x"), FileNote("", "x")], ["x"]),
    ([FileNote("a", "failed", 1, "request")], ["a: 1 request failed"]),
    ([FileNote("a", "failed", 1, "request"), FileNote("b", "failed", 2, "request")], ["a, b: 3 requests failed"]),
]


@pytest.mark.parametrize(("notes", "lines"), SAID)
def test_a_sentence_is_said_once(notes: list[FileNote], lines: list[str]) -> None:
    assert list(merged_notes(notes)) == lines


def sample(**more: Any) -> str:
    row = {"doc_id": 0, "target": "4", "resps": [["It is 4"]], "filtered_resps": ["4"], "exact_match": 1.0, **more}
    return json.dumps(row) + "\n"


def test_the_verdicts_of_many_tasks_of_lm_eval(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for number in range(5):
        (folder / f"samples_mmlu_{number}.jsonl").write_text(sample(filter="a") + sample(filter="b"))
    report = import_format("lm-eval", [str(folder)], tmp_path / "log")
    verdicts, filters = report.notes[:2]
    quotes(verdicts, "mmlu_0, mmlu_1 and 3 more: ", "`exact_match`")
    quotes(filters, "mmlu_0, mmlu_1 and 3 more: ", "`a`, `b`", "`--set filter=b`")


def test_those_of_many_runs_of_helm_and_lighteval(tmp_path: Path) -> None:
    run = published("helm", tmp_path) / "run"
    for number in range(3):
        copy = shutil.copytree(run, run.with_name(f"run{number}"))
        (copy / "run_spec.json").write_text(json.dumps({"name": f"colours:number={number},model=openai/gpt2"}))
    report = import_format("helm", [str(run.parent)], tmp_path / "log")
    assert [line.startswith("HELM's verdicts") for line in report.notes].count(True) == 1
    details = published("lighteval", tmp_path) / "details" / "org" / "model" / TIME
    (single,) = details.glob("details_single*")
    for number in range(3):
        shutil.copy(single, single.with_name(f"details_single{number}|0_{TIME}.parquet"))
    report = import_format("lighteval", [str(tmp_path / "lighteval")], tmp_path / "other")
    assert [line.rpartition(": ")[0] for line in report.notes if ": the verdicts" in line] == [
        "arc|0",
        "single0|0, single1|0 and 2 more",
    ]


def test_what_is_no_log_of_inspect(tmp_path: Path) -> None:
    folder = published("inspect", tmp_path)
    for number in range(4):
        (folder / f"notes{number}.json").write_text("{}")
    report = import_format("inspect", [str(folder)], tmp_path / "log")
    assert [line for line in report.notes if line.startswith("`expected.json`, `notes0.json` and 3 more")]
