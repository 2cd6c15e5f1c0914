"""What of Inspect's scores is a verdict: values from 0 to 1, as Inspect reads them; nothing else, and nothing anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses, remarked
from toolkit.imports import ImportReport, detect_format, import_format
from toolkit.log import collect, open_log

USAGE = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}


def sample(number: int, value: Any, answer: str | None = "4", epoch: int = 1, **usage: int) -> dict[str, Any]:
    return {
        "id": number, "epoch": epoch, "input": f"Q{number}", "target": "4",
        "output": {"completion": "It is 4", "choices": [{"message": {"content": "It is 4"}, "stop_reason": "stop"}]},
        "scores": {"judge": {"value": value, "answer": answer}}, "model_usage": {"m": {**USAGE, **usage}},
    }  # fmt: skip


def write(path: Path, samples: list[dict[str, Any]], task: str = "t") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = {"task": task, "model": "m", "dataset": {"name": "d"}}
    path.write_text(json.dumps({"version": 2, "status": "success", "eval": spec, "samples": samples}))
    return path


def verdicts(report: ImportReport) -> list[bool | None]:
    log = open_log(report.log)
    return collect(log.scan("traces"), log).sort("example_id", "sample_index")["correct"].to_list()


def imported(tmp_path: Path, values: list[Any], *settings: str) -> ImportReport:
    path = write(tmp_path / "in" / "log.json", [sample(number, value) for number, value in enumerate(values)])
    return import_format("inspect", [str(path)], tmp_path / "log", settings=settings)


@pytest.mark.parametrize("values", [[10, 1, 0], [7, 7, 7], [-1, 0, 1]])
def test_grades_are_no_verdicts(tmp_path: Path, values: list[int]) -> None:
    report = imported(tmp_path, values)
    assert (report.readings.judged, report.opaque_answers) == (0, 0)
    remarked(report.notes, "grades", "t: ", "`judge`", f" {min(values)} to {max(values)},")
    log = open_log(report.log)
    assert collect(log.scan("traces", ["credit"]), log)["credit"].count() == 0


def test_a_bar_that_the_user_sets_makes_them_verdicts(tmp_path: Path) -> None:
    assert verdicts(imported(tmp_path, [10, 1, 7], "traces.correct=value >= 7")) == [True, False, True]


def test_grades_in_one_log_of_a_task_are_grades_in_the_others(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.json", [sample(0, 1)])
    write(tmp_path / "in" / "b.json", [sample(1, 9)])
    assert import_format("inspect", [str(tmp_path / "in")], tmp_path / "log").readings.judged == 0


def test_texts_are_read_as_inspect_reads_them(tmp_path: Path) -> None:
    values = ["C", "I", "P", "N", "yes", "No", "TRUE", "false", "1", "0", "0.5", True, False]
    right = [True, False, False, False, True, False, True, False, True, False, False, True, False]
    report = imported(tmp_path, values)
    log = open_log(report.log)
    found = collect(log.scan("traces", ["example_id", "correct"]), log)
    assert dict(found.rows()) == {f"t/{number}": correct for number, correct in enumerate(right)}


@pytest.mark.parametrize("value", [float("nan"), {"a": 1, "b": 0}, [1, 0], "great"])
def test_what_was_not_scored_is_left_unjudged(tmp_path: Path, value: Any) -> None:
    report = imported(tmp_path, [value, "C", "I"])
    assert verdicts(report) == [None, True, False]
    assert [note for note in report.notes if note.startswith("t: 1 sample") and "`judge`" in note]
    assert not any("graded" in note for note in report.notes)


def test_nor_does_it_take_the_verdict_of_an_equal_answer(tmp_path: Path) -> None:
    path = write(tmp_path / "log.json", [sample(0, "C"), sample(0, float("nan"), epoch=2), sample(1, "I")])
    assert verdicts(import_format("inspect", [str(path)], tmp_path / "log")) == [None, None, False]


def test_a_scorer_of_several_values_judges_nothing(tmp_path: Path) -> None:
    report = imported(tmp_path, [{"a": 1, "b": 0}] * 3)
    assert (report.readings.judged, report.opaque_answers) == (0, 0)


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens_cache_read": 100}, 110),
        ({"input_tokens_cache_read": 4, "input_tokens_cache_write": 3, "total_tokens": 22}, 17),
        ({"input_tokens_cache_read": 4}, 10),  # of a total of 15, so they are among the input
        ({}, 10),
    ],
)
def test_prompts_out_of_a_cache_are_counted_once(tmp_path: Path, usage: dict[str, int], tokens: int) -> None:
    path = write(tmp_path / "log.json", [sample(0, "C", **usage)])
    log = open_log(import_format("inspect", [str(path)], tmp_path / "log").log)
    assert collect(log.scan("traces", ["prompt_tokens"]), log).item() == tokens


def test_a_folder_gives_the_logs_that_detection_finds(tmp_path: Path) -> None:
    write(tmp_path / "in" / "mylog.json", [sample(0, "C")])
    write(tmp_path / "in" / "2026-01-01T00-00-00_t_a.json", [sample(0, "C")], "u")
    (tmp_path / "in" / "notes.json").write_text('{"a": 1}')
    report = import_format("inspect", [str(tmp_path / "in")], tmp_path / "log")
    assert report.traces == 2
    assert [note for note in report.notes if note.startswith("`notes.json`") and "Inspect" in note]
    assert {file.name for file in detect_format([str(tmp_path / "in")]).files} >= {"mylog.json"}


def scored(number: int, **scores: tuple[Any, str | None]) -> dict[str, Any]:
    made = {name: {"value": value, "answer": answer} for name, (value, answer) in scores.items()}
    return sample(number, 1) | {"scores": made}


def test_another_scorer_gives_answer_verdict_and_credit(tmp_path: Path) -> None:
    """Grades of P are half a credit and no success, whatever the first scorer says."""
    rows = [
        scored(0, f1=(0.2, "a"), judge=("C", "4")),
        scored(1, f1=(1, "b"), judge=("P", "5")),
        scored(2, f1=(1, "c"), judge=("I", None)),
    ]
    path = write(tmp_path / "in" / "log.json", rows)
    report = import_format("inspect", [str(path)], tmp_path / "log", settings=["scorer=judge"])
    log = open_log(report.log)
    found = collect(log.scan("traces", ["example_id", "answer", "correct", "credit"]), log).sort("example_id")
    assert found.drop("example_id").rows() == [("4", True, 1.0), ("5", False, 0.5), (None, False, 0.0)]


def test_a_scorer_that_no_sample_has(tmp_path: Path) -> None:
    path = write(tmp_path / "in" / "log.json", [scored(0, f1=(1, "a"), judge=("C", "4"))])
    with refuses("unknown", "`judg`", "`judge`"):
        import_format("inspect", [str(path)], tmp_path / "log", settings=["scorer=judg"])
