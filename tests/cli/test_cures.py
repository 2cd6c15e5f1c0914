"""The first mistakes of a new user: the message says what to type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import says


def test_a_file_in_the_place_of_a_log(thinkback: Callable, tmp_path: Path) -> None:
    rows = [{"id": f"q{n // 2}", "question": f"{n // 2} + 1?", "gold": f"{n // 2 + 1}", "answer": f"{n // 2 + n % 2}"}
            for n in range(12)]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    table, report = "thinkback import table a.jsonl --out mylog", "thinkback report a.jsonl --out report"
    says(thinkback("replay", "a.jsonl", "--out", "r"), "invalid", f"`{table}`", f"`{report}`")
    says(thinkback("import", "auto", "a.jsonl", "--out", "mylog"), "not-found", f"`{table}`", "--map")
    assert thinkback(*table.split()[1:]).exit_code == 0
    says(thinkback("report", "mylog", "--set", "a=1", "--out", "r"), "conflict", "`--set`", "`mylog`")
    says(thinkback("report", "mylog", "--map", "m.toml", "--out", "r"), "conflict", "`--map`", "`mylog`")


def test_the_folder_of_a_report_in_the_place_of_its_log(thinkback: Callable, tmp_path: Path) -> None:
    (tmp_path / "page" / "log").mkdir(parents=True)
    for name in ("report.md", "log/manifest.json"):
        (tmp_path / "page" / name).write_text("", encoding="utf-8")
    says(thinkback("report", "page", "--out", "r"), "not-found", "`page`", "`page/log`")


def test_a_line_that_is_no_json_has_one_place(thinkback: Callable, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": 1}\nnot json\n', encoding="utf-8")
    refusal = thinkback("import", "table", "a.jsonl", "--out", "mylog")
    says(refusal, "format", "`a.jsonl`", "line 2")
    assert refusal.stderr.count("line ") == 1
    assert "char" not in refusal.stderr


def test_a_word_without_quotes(thinkback: Callable) -> None:
    thinkback("simulate", "--examples", "12", "--traces", "3", "--seed", "1", "--out", "mylog")
    for condition in ("dataset = gsm8k", "dataset <> gsm8k", "dataset IN (gsm8k)"):
        says(thinkback("replay", "mylog", "--where", condition, "--out", "r"), "invalid", "single quotes: 'gsm8k'")
    assert "quotes" not in thinkback("replay", "mylog", "--where", "datset = 'gsm8k'", "--out", "r").stderr


@pytest.mark.slow
def test_a_figure_of_a_report(thinkback: Callable, tmp_path: Path) -> None:
    thinkback("simulate", "--examples", "30", "--traces", "3", "--seed", "1", "--out", "mylog")
    assert thinkback("report", "mylog", "--out", "page", "--resamples", "100").exit_code == 0
    assert thinkback("figure", "page", "frontier", "--out", "front.svg").exit_code == 0
    assert (tmp_path / "front.svg").is_file()
    says(thinkback("figure", "mylog", "frontier", "--out", "other.svg"), "format", "result.json")


def test_traces_lost_after_a_gap_are_a_warning(thinkback: Callable, tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "question": "?", "gold": "1", "answer": "1", "k": k} for n in range(3) for k in (0, 2, 3)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    lines = ["[examples]", 'example_id = "id"', "dataset = \"'d'\"", "split = \"'test'\"", 'question = "question"']
    lines += ['gold = "gold"', "[traces]", "pool = \"'p'\"", 'sample_index = "k"', "model = \"'m'\""]
    (tmp_path / "m.toml").write_text("\n".join([*lines, 'answer = "answer"']), encoding="utf-8")
    printed = thinkback("import", "table", "a.jsonl", "--map", "m.toml", "--out", "log").stdout
    assert "WARNING: 6 " in printed
    assert json.loads((tmp_path / "log" / "manifest.json").read_text(encoding="utf-8"))["name"] == "log"
    assert "--set 'traces.sample_index=row order'" in printed
