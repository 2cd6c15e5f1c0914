"""NeMo-Skills: whose verdict counts, seeds in chunks, seconds, and files without what a pipeline may leave out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.seeds import seeds
from toolkit.imports import detect_format, import_format
from toolkit.log import collect, open_log


def row(number: int = 0, **more: Any) -> dict[str, Any]:
    read = {"generation": "so 4", "predicted_answer": "4", "expected_answer": "4"}
    return {"id": number, "problem": f"P{number}", **read, **more}


def traces(tmp_path: Path, **files: list[dict[str, Any]]) -> pl.DataFrame:
    for name, rows in files.items():
        path = tmp_path / "in" / "aime" / f"output{name.replace('_', '-', 1)}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    log = open_log(import_format("nemo-skills", [str(tmp_path / "in")], tmp_path / "log").log)
    return collect(log.scan("traces"), log).sort("example_id", "sample_index")


JUDGEMENTS = {
    "Judgement: Yes": True,
    "Judgement: No": False,
    "Reasoning: Yes, one may think so. Judgement: No": False,
    "Judgement: No, wait.\n\nJudgement: Yes": True,
    "**Judgement**: yes": True,
    "**Judgement:** **No**": False,
    "JUDGEMENT : YES.": True,
    "The final Judgment: No": False,
    "Judgement:\n\n[Yes]": True,
    "__Judgement__: _no_": False,
    "Judgment: No.\nJudgement: Yes": True,
}
NONE = (
    "Now I compare the two.", "Yes, they agree", "The judgement is No", "Judgement: Not sure", "Judgement: Yesterday",
    "Judgement: Yes. Judgement: unknown", "Judgement:", "", "Prejudgement, no",
)  # fmt: skip


@pytest.mark.parametrize("judgement", seeds(5, [*JUDGEMENTS]))
def test_the_judge_says_what_follows_its_last_judgement(tmp_path: Path, judgement: str) -> None:
    right = JUDGEMENTS[judgement]
    found = traces(tmp_path, _rs0=[row(predicted_answer="5" if right else "4", judgement=judgement)])
    assert found["correct"].to_list() == [right]


@pytest.mark.parametrize("judgement", NONE)
def test_without_a_mark_and_a_word_a_judge_says_nothing(tmp_path: Path, judgement: str) -> None:
    found = traces(tmp_path, _rs0=[row(0, judgement=judgement), row(1, predicted_answer="5", judgement=judgement)])
    assert found["correct"].to_list() == [True, False]  # by comparing


@pytest.mark.parametrize(
    ("more", "right"),
    seeds(
        2,
        [
            ({"symbolic_correct": False}, False),
            ({"judgement": "Judgement: No"}, False),
            ({"symbolic_correct": True, "judgement": "Judgement: No"}, True),
            ({"judgement": None}, True),  # by comparing
            ({}, True),
        ],
    ),
)
def test_either_verdict_may_be_absent(tmp_path: Path, more: dict[str, Any], right: bool) -> None:
    assert traces(tmp_path, _rs0=[row(**more)])["correct"].to_list() == [right]


def test_the_chunks_of_a_seed_are_one_sample_each(tmp_path: Path) -> None:
    found = traces(tmp_path, _rs0_chunk_0=[row(0)], _rs0_chunk_1=[row(1)], _rs11=[row(0), row(1)])
    assert found["sample_index"].to_list() == [0, 11, 0, 11]
    assert found["pool"].unique().to_list() == ["nemo-skills"]


def test_seconds_are_those_between_the_two_times(tmp_path: Path) -> None:
    times = {"generation_start_time": 1000.25, "generation_end_time": 1002.75}
    assert traces(tmp_path, _rs0=[row(**times)])["latency_s"].to_list() == [2.5]


def program(number: int = 0, **verdict: Any) -> dict[str, Any]:
    return {"task_id": f"T/{number}", "question": f"Q{number}", "generation": "```python\nx = 1\n```", **verdict}


@pytest.mark.parametrize(
    ("passed", "failed"),
    [
        ({"is_correct": True, "is_correct-plus": True}, {"is_correct": True, "is_correct-plus": False}),
        ({"is_correct": True}, {"is_correct": False}),
        ({"graded_list": [True]}, {"graded_list": [False]}),
        ({"status": "pass"}, {"status": "timeout"}),
    ],
)
def test_programs_that_tests_judged_are_opaque(tmp_path: Path, passed: dict[str, Any], failed: dict[str, Any]) -> None:
    found = traces(tmp_path, _rs0=[program(0, **passed), program(1, **failed)])
    assert found.select("correct", "opaque").rows() == [(True, True), (False, True)]


def test_programs_that_nobody_judged_have_no_verdict(tmp_path: Path) -> None:
    found = traces(tmp_path, _rs0=[program()])
    assert found["example_id"].to_list() == ["aime/T/0"]
    assert "correct" not in found.columns or found["correct"].to_list() == [None]


def test_programs_and_answers_are_imported_together(tmp_path: Path) -> None:
    (tmp_path / "in" / "code").mkdir(parents=True)
    (tmp_path / "in" / "code" / "output-rs0.jsonl").write_text(json.dumps(program(is_correct=True)) + "\n")
    found = traces(tmp_path, _rs0=[row(symbolic_correct=False)])
    expected = [("aime/0", False, False), ("code/T/0", True, True)]
    assert found.select("example_id", "correct", "opaque").rows() == expected


def test_programs_are_told_by_what_they_hold(tmp_path: Path) -> None:
    path = tmp_path / "code" / "output-rs0.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(program(num_generated_tokens=9)) + "\n")
    assert detect_format([str(path)]).format.name == "nemo-skills"
