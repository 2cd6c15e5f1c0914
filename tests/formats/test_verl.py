"""verl's rewards as verdicts, and its references of several shapes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses, remarked
from tests.formats.test_variants import traces, write
from toolkit.imports import ImportReport, import_format
from toolkit.log import collect, open_log
from toolkit.show import code_of


def generation(number: int = 4, score: Any = 1.0, gts: Any = "4", **more: Any) -> dict[str, Any]:
    return {"input": "2 + 2?", "output": f"It is {number}", "gts": gts, "score": score, "step": 1, **more}


def imported(tmp_path: Path, rows: list[dict[str, Any]], *settings: str) -> ImportReport:
    file = write(tmp_path / "run" / "1.jsonl", rows)
    return import_format("verl", [file], tmp_path / "log", settings=settings)


def gold_of(report: ImportReport) -> list[str | None]:
    log = open_log(report.log)
    return [row.get("gold") for row in collect(log.scan("examples"), log).to_dicts()]


@pytest.mark.parametrize("scores", [(7.5, 1.0, -0.5), (1.1, 0.1, 1.0), (0.3, 0.9, 1.0), (-1.0, 1.0, 1.0)])
def test_scores_that_are_not_0_or_1_are_no_verdicts(scores: tuple[float, ...], tmp_path: Path) -> None:
    rows = [generation(number, score) for number, score in zip((4, 5, 4), scores, strict=True)]
    report = imported(tmp_path, rows)
    assert traces(report)["correct"].to_list() == [True, False, True]  # by comparing with gts
    least, most = min(scores), max(scores)
    remarked(
        report.notes, "grades", "`run`: `score`", f" {least:g} to {most:g} ", "`--set 'traces.correct=score >= …'`"
    )
    assert [note for note in report.notes if note.startswith("3 answers graded")]
    assert traces(report)["reward"].to_list() == list(scores)


def test_a_setting_says_which_scores_are_right(tmp_path: Path) -> None:
    rows = [generation(4, 7.5), generation(5, 1.0), generation(6, -0.5)]
    assert traces(imported(tmp_path, rows, "traces.correct=score >= 1"))["correct"].to_list() == [True, True, False]


def test_acc_is_the_verdict_whatever_the_scores_are(tmp_path: Path) -> None:
    rows = [generation(4, 1.0, acc=True), generation(5, -1.0, acc=False), generation(6, -1.0, acc=[0.0])]
    report = imported(tmp_path, rows)
    assert traces(report)["correct"].to_list() == [True, False, False]
    assert "grades" not in map(code_of, report.notes)


def test_what_a_folder_holds_decides_for_all_of_its_files(tmp_path: Path) -> None:
    plain = write(tmp_path / "sums" / "1.jsonl", [generation(5, 1.0), generation(4, 0.0)])
    bonus = [write(tmp_path / "bonus" / f"{step}.jsonl", [generation(7, 1.0 + step / 10)]) for step in (0, 1)]
    found = traces(import_format("verl", [plain, *bonus], tmp_path / "log"))
    assert found.select("pool", "correct").unique().sort("pool", "correct").rows() == [
        ("bonus step 1", False), ("sums step 1", False), ("sums step 1", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("gts", "gold", "part"),
    [
        ("4", "4", None),
        (4, "4", None),
        (["4"], "4", None),
        (["4", "four"], None, "gts[0]"),
        ({"target": [4, 5], "numbers": [2, 2]}, None, "gts.target[0]"),
        ({"the target": "4"}, None, "gts['the target']"),
        ([], None, None),
        (None, None, None),
    ],
)
def test_references_of_several_shapes(gts: Any, gold: str | None, part: str | None, tmp_path: Path) -> None:
    report = imported(tmp_path, [generation(gts=gts)])
    assert gold_of(report) == [gold]
    told = [note for note in report.notes if code_of(note) == "gold_lists"]
    assert len(told) == (part is not None)
    if part is not None:
        assert told[0].endswith(f"such as `--set 'examples.gold={part}'`")
        again = import_format("verl", [str(tmp_path / "run")], tmp_path / "again", settings=[f"examples.gold={part}"])
        assert gold_of(again) == ["4"]


def test_a_score_beside_what_else_its_function_gave(tmp_path: Path) -> None:
    report = imported(
        tmp_path, [generation(5, {"score": 1.5, "acc": True}), generation(4, {"score": 0.5, "acc": False})]
    )
    found = traces(report)
    assert found.select("correct", "reward").rows() == [(True, 1.5), (False, 0.5)]


def test_samples_without_a_score_are_unjudged_or_compared(tmp_path: Path) -> None:
    report = imported(tmp_path, [generation(4, None), generation(5, float("nan")), generation(6, 0.0)])
    assert traces(report)["correct"].to_list() == [True, False, False]


def test_a_line_that_is_no_sample_is_named(tmp_path: Path) -> None:
    with refuses("format", "1.jsonl`", "`input`", "`output`", "`score`", "2"):
        imported(tmp_path, [generation(), {"input": "2 + 2?"}])
