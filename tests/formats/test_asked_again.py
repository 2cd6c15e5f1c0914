"""Requests that ask the same are told of, with settings that make samples of one example of them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from tests.errors import quotes
from tests.formats.test_variants import traces, write
from toolkit.imports import ImportReport, import_format


def request(number: int, prompt: str | None, *texts: str) -> dict[str, Any]:
    outputs = [{"index": place, "text": text, "token_ids": [1]} for place, text in enumerate(texts)]
    return {"request_id": str(number), "prompt": prompt, "outputs": outputs}


def told(report: ImportReport) -> list[str]:
    return [note for note in report.notes if "the question of another" in note]


def test_one_prompt_under_several_ids(tmp_path: Path) -> None:
    rows = [
        request(0, "2 + 2?", "4", "5"),
        request(1, "3 * 7?", "21"),
        request(2, "2 + 2?", "6"),
        request(3, None, "7"),
    ]
    gold = "".join(json.dumps({"request_id": row["request_id"], "gold": "4"}) + "\n" for row in rows)
    file = write(tmp_path / "in" / "o.jsonl", rows)
    (tmp_path / "in" / "gold.json").write_text(gold)
    join = ['join={file = "gold.json", on = "request_id"}', "examples.gold=gold"]
    report = import_format("vllm", [file], tmp_path / "log", settings=join)
    (note,) = told(report)
    setting = "--set 'examples.example_id=COALESCE(prompt?, request_id)' --set 'traces.sample_index=row order'"
    quotes(note, "1 example", setting)
    settings = [one for one in shlex.split(note.partition(": ")[2]) if one != "--set"]
    again = import_format("vllm", [file], tmp_path / "again", settings=[*join, *settings])
    assert traces(again).select("example_id", "sample_index", "answer", "correct").rows() == [
        ("2 + 2?", 0, "4", True),
        ("2 + 2?", 1, "5", False),
        ("2 + 2?", 2, "6", False),
        ("3", 0, "7", False),
        ("3 * 7?", 0, "21", False),
    ]
    assert told(again) == []


def test_a_batch_that_asks_twice(tmp_path: Path) -> None:
    asked = [{"custom_id": f"q-{n}", "method": "POST", "body": {"messages": [{"role": "user", "content": "2 + 2?"}]}}
             for n in range(3)]  # fmt: skip
    body = {"model": "m", "choices": [{"index": 0, "message": {"content": "4"}}]}
    given = [{"custom_id": f"q-{n}", "response": {"status_code": 200, "body": body}, "error": None} for n in range(3)]
    files = [write(tmp_path / "in" / "out.jsonl", given), write(tmp_path / "in" / "in.jsonl", asked)]
    (note,) = told(import_format("openai-batch", files, tmp_path / "log"))
    quotes(note, "2 examples")
    assert note.endswith(": --set 'examples.example_id=COALESCE(question, custom_id)'")


def test_distinct_prompts_are_no_matter(tmp_path: Path) -> None:
    file = write(tmp_path / "o.jsonl", [request(0, "2 + 2?", "4"), request(1, "3 * 7?", "21"), request(2, None, "1")])
    assert told(import_format("vllm", [file], tmp_path / "log")) == []
