"""Files that are parts of one run are one pool, and runs of their own are not."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.errors import numbers, refuses, remarked
from tests.formats.bare import SAMPLES
from tests.formats.test_named_files import pools_of
from tests.formats.test_variants import batch, traces, write
from toolkit.imports import import_format, import_table
from toolkit.imports.formats.format import MAPS
from toolkit.log import collect, open_log


def answered(name: str, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"content": "4"}, "finish_reason": "stop"}
    return {**batch(choices=[choice], usage={}, **more), "custom_id": name}


@pytest.mark.parametrize(
    ("second", "pools"),
    [
        (answered("b"), ["m"]),
        (answered("a", model="n"), ["m", "n"]),
        (answered("a"), ["m (one.jsonl)", "m (two.jsonl)"]),
        ({**answered("a"), "response": {"status_code": 500, "body": None}}, ["m"]),
    ],
)
def test_batches_in_parts(second: dict[str, Any], pools: list[str], tmp_path: Path) -> None:
    one = answered("a", model="m")
    sources = [write(tmp_path / "one.jsonl", [one]), write(tmp_path / "two.jsonl", [second])]
    report = import_format("openai-batch", sources, tmp_path / "log")
    assert pools_of(report.log) == pools
    code = "own_pools" if "m (one.jsonl)" in pools else "parts_of_a_run"
    assert numbers(remarked(report.notes, code)) == ["2"]


def results(path: Path, task: str) -> None:
    entry = {"solution": "x", "base_status": "pass", "plus_status": "fail"}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"hash": "h", "eval": {task: [entry]}}))


@pytest.mark.parametrize(
    ("files", "pools"),
    [
        ({"m/eval_results.json": "HumanEval/0"}, ["m"]),
        ({"a/m.eval_results.json": "HumanEval/0", "b/m.eval_results.json": "Mbpp/1"}, ["m"]),
        ({"m/humaneval/eval_results.json": "HumanEval/0", "m/mbpp+/eval_results.json": "Mbpp/1"}, ["m"]),
        ({"m/HumanEvalPlus/samples_eval_results.json": "HumanEval/0"}, ["m"]),
        ({"m/humaneval_eval_results.json": "HumanEval/0", "m/mbpp_plus_eval_results.json": "Mbpp/1"}, ["m"]),
        ({"m/1/m_eval_results.json": "Mbpp/1", "m/2/m_eval_results.json": "Mbpp/1"}, ["m (1)", "m (2)"]),
        ({"a/m.eval_results.json": "Mbpp/1", "b/m.eval_results.json": "Mbpp/1"}, ["m (a)", "m (b)"]),
    ],
)
def test_a_pool_of_evalplus_is_a_model(files: dict[str, str], pools: list[str], tmp_path: Path) -> None:
    for name, task in files.items():
        results(tmp_path / "runs" / name, task)
    report = import_format("evalplus", [str(tmp_path / "runs")], tmp_path / "log")
    assert pools_of(report.log) == pools
    assert set(traces(report)["model"]) == {"m"}
    if len(files) == 1:
        (name,) = files
        report = import_format("evalplus", [str(tmp_path / "runs" / name)], tmp_path / "named")
        assert pools_of(report.log) == pools


def problem(path: Path, index: int, **more: Any) -> str:
    costs = [{"cost": 0.5, "input_tokens": 3, "output_tokens": 5, "time": 2.0}] * 2
    messages = [[{"role": "user", "content": "?"}, {"role": "assistant", "content": "So 4."}]] * 2
    made = {"answers": ["4", "5"], "correct": [True, False], "messages": messages, "detailed_costs": costs}
    row = {"idx": index, "problem": f"{index}?", "gold_answer": "4", "N": 2, **made}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**row, **more}))
    return str(path)


@pytest.mark.parametrize("name", ["matharena", "auto"])
def test_matharenas_own_files(name: str, tmp_path: Path) -> None:
    for index in (1, 2):
        problem(tmp_path / "runs" / "aime" / "o3" / f"{index}.json", index)
    problem(tmp_path / "runs" / "hmmt" / "o3" / "1.json", 7, detailed_costs=[], messages=[])
    problem(tmp_path / "runs" / "aime" / "r1" / "1.json", 1)
    report = import_format(name, [str(tmp_path / "runs")], tmp_path / "log")
    assert (report.examples, report.traces, report.readings.right) == (3, 8, 4)
    found = traces(report)
    assert sorted(set(found["pool"])) == ["o3", "r1"]
    columns = ("answer", "text", "correct", "prompt_tokens", "completion_tokens", "latency_s", "cost_usd")
    assert found.select(columns).row(0) == ("4", "So 4.", True, 3, 5, 2.0, 0.5)
    again = problem(tmp_path / "again" / "o3" / "1.json", 1)
    report = import_format(name, [again, str(tmp_path / "runs" / "aime" / "o3" / "1.json")], tmp_path / "two")
    assert pools_of(report.log) == ["o3 (again)", "o3 (runs/aime)"]


def test_a_file_of_matharena_whose_lists_differ(tmp_path: Path) -> None:
    source = problem(tmp_path / "o3" / "1.json", 1, correct=[True])
    with refuses("format", "1.json`", "`answers`", "`correct`", "2", "1"):
        import_format("matharena", [source], tmp_path / "log")


def test_matharenas_rows_without_problems_have_the_users_message(tmp_path: Path) -> None:
    row = {
        "problem_idx": 1,
        "model_name": "m",
        "idx_answer": 0,
        "gold_answer": "4",
        "parsed_answer": "4",
        "correct": True,
    }
    rows = [{**row, "user_message": "2 + 2?"}, {**row, "problem_idx": 2}]
    report = import_format("matharena", [write(tmp_path / "rows.jsonl", rows)], tmp_path / "log")
    log = open_log(report.log)
    asked = collect(log.scan("examples", ["question"]), log)["question"]
    assert sorted(asked) == ["2 + 2?", "problem 2"]


@pytest.mark.parametrize(
    "names", [("a.jsonl", "b.jsonl"), ("a/o.jsonl", "b/o.jsonl"), ("a.jsonl", "a.ndjson"), ("a.jsonl", "b.ndjson")]
)
def test_the_options_that_tell_two_runs_apart_are_named(names: tuple[str, str], tmp_path: Path) -> None:
    mapping = tmp_path / "v.toml"
    mapping.write_text((MAPS / "vllm.toml").read_text().replace("COALESCE(NULLIF(source_run, ''), 'vllm')", "'vllm'"))
    for name in names:
        (tmp_path / "runs" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SAMPLES / "vllm" / "outputs.jsonl", tmp_path / "runs" / name)
    with refuses("invalid", "`vllm`", "`path`") as error:
        import_table([str(tmp_path / "runs")], mapping, tmp_path / "log")
    (told,) = re.findall(r"\(`(--set 'path.*?)`\)", str(error.value))
    settings = [word for word in shlex.split(told) if word != "--set"]
    report = import_table([str(tmp_path / "runs")], mapping, tmp_path / "log", settings=settings)
    assert pools_of(report.log) == (["a", "b"] if "ndjson" not in names[1] else [*names])
    for setting, traces_ in (("duplicates=number", 8), ("duplicates=first", 4)):
        report = import_table([str(tmp_path / "runs")], mapping, tmp_path / setting, settings=[setting])
        assert report.traces == traces_
