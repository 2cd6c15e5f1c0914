"""What can't be read, or not be compared, is told with what helps: older files, ids of several golds, grades, lists."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses
from tests.formats.test_variants import samples, traces, write
from tests.seeds import seeds
from toolkit.imports import import_format
from toolkit.show import code_of


def test_results_of_an_older_evalplus_are_refused_by_their_form(tmp_path: Path) -> None:
    task = {"nfiles": 1, "base": [["pass", [True]]], "plus": [["pass", []]]}
    file = tmp_path / "m_eval_results.json"
    file.write_text(json.dumps({"date": "x", "hash": "h", "eval": {"HumanEval/0": task}}))
    with refuses("format", "`HumanEval/0`"):
        import_format("evalplus", [str(file)], tmp_path / "log")


def problem(index: int, gold: str, correct: Any = True) -> dict[str, Any]:
    return {"problem_idx": index, "model_name": "m", "idx_answer": 0, "answer": "x", "gold_answer": gold,
            "parsed_answer": "4", "correct": correct}  # fmt: skip


def test_one_id_with_two_golds_names_the_setting_that_tells_them_apart(tmp_path: Path) -> None:
    for name, gold in (("aime", "4"), ("hmmt", "5")):
        write(tmp_path / "in" / f"{name}.jsonl", [problem(0, gold, gold == "4")])
    with refuses("invalid", "`--set ids=gold`"):
        import_format("matharena", [str(tmp_path / "in")], tmp_path / "log")
    report = import_format("matharena", [str(tmp_path / "in")], tmp_path / "log", settings=["ids=gold"])
    assert (report.examples, report.readings.right) == (2, 1)


def own_file(index: int, *correct: Any) -> dict[str, Any]:
    answers = [str(number) for number in range(len(correct))]
    return {"idx": index, "problem": f"P{index}", "gold_answer": "0", "answers": answers, "correct": list(correct)}


def test_verdicts_between_0_and_1_are_credit(tmp_path: Path) -> None:
    for model, rows in {"a": [own_file(1, True, False), own_file(2, 0.5, 1)], "b": [own_file(1, True, False)]}.items():
        for row in rows:
            path = tmp_path / "in" / model / f"{row['idx']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(row))
    write(tmp_path / "in" / "rows.jsonl", [problem(7, "4", 0.25)])
    report = import_format("matharena", [str(tmp_path / "in")], tmp_path / "log")
    assert traces(report).select("example_id", "pool", "correct", "credit").rows() == [
        ("problem-1", "a", True, 1.0),
        ("problem-1", "a", False, 0.0),
        ("problem-1", "b", True, None),
        ("problem-1", "b", False, None),
        ("problem-2", "a", False, 0.5),
        ("problem-2", "a", True, 1.0),
        ("problem-7", "m", False, 0.25),
    ]
    assert "`a`, `rows.jsonl`: verdicts between 0 and 1 are credit; right is 1" in report.notes


def test_points_beyond_1_name_the_setting_that_says_which_are_right(tmp_path: Path) -> None:
    file = write(tmp_path / "rows.jsonl", [problem(0, "4", 7), problem(1, "4", 2)])
    with refuses("invalid", "`7`", "row 1", "`--set 'traces.correct=score > 0.5'`"):
        import_format("matharena", [file], tmp_path / "log")


@pytest.mark.parametrize(
    ("target", "told"),
    seeds(2, [(["Paris", "City of Paris"], True), ('["Paris"]', True), ("[1, 2]", False), ("[0, ", False)]),
)
def test_targets_that_are_lists_of_texts(target: Any, told: bool, tmp_path: Path) -> None:
    row = samples(target=target, resps=[["Paris", "Rome"]], filtered_resps=["Paris", "Rome"])
    file = write(tmp_path / "m" / "samples_t.jsonl", [row])
    report = import_format("lm-eval", [file], tmp_path / "log")
    found = [note for note in report.notes if code_of(note) == "gold_lists"]
    assert len(found) == told
    if told:
        assert found[0].endswith("such as `--set 'examples.gold=gold[0]'`")
        again = import_format("lm-eval", [file], tmp_path / "again", settings=["examples.gold=gold[0]"])
        assert traces(again)["correct"].to_list() == [True, False]


def test_a_verdict_of_the_source_needs_no_target(tmp_path: Path) -> None:
    row = samples(target=["Paris", "City of Paris"], resps=[["Paris"]], filtered_resps=["Paris"])
    report = import_format("lm-eval", [write(tmp_path / "m" / "samples_t.jsonl", [row])], tmp_path / "log")
    assert not [note for note in report.notes if "targets" in note]
