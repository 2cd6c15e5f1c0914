"""The first mistakes of a new user: the message says what to type."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.errors import says


def test_a_file_in_the_place_of_a_log(thinkback: Callable, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n', encoding="utf-8")
    cures = ("`thinkback import auto a.jsonl --out mylog`", "`thinkback report a.jsonl --out report`")
    says(thinkback("replay", "a.jsonl", "--out", "r"), "invalid", *cures)


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
    assert "--set 'traces.sample_index=row order'" in printed
