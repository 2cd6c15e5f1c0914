"""Files of older versions, and of runs that used less, or more, of a format."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.errors import refuses
from tests.formats.bare import lines
from tests.formats.published import published
from tests.seeds import seeds
from toolkit.imports import ImportReport, import_format
from toolkit.log import collect, open_log

Change = Callable[[dict[str, Any]], None]


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def traces(report: ImportReport) -> pl.DataFrame:
    log = open_log(report.log)
    return collect(log.scan("traces"), log).sort("example_id", "pool", "sample_index")


def batch(**body: Any) -> dict[str, Any]:
    return {"custom_id": "q", "response": {"status_code": 200, "body": {"model": "m", **body}}, "error": None}


def test_openais_responses_have_texts_beside_reasoning(tmp_path: Path) -> None:
    output = [
        {"type": "reasoning", "summary": []},
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "It is "}, {"type": "output_text", "text": "4"}],
        },
    ]
    usage = {"input_tokens": 7, "output_tokens": 9}
    row = batch(output=output, usage=usage, status="incomplete", incomplete_details={"reason": "max_output_tokens"})
    asked = {"custom_id": "q", "method": "POST", "body": {"input": [{"role": "user", "content": [{"text": "2 + 2?"}]}]}}
    sources = [write(tmp_path / "out.jsonl", [row]), write(tmp_path / "in.jsonl", [asked])]
    report = import_format("openai-batch", sources, tmp_path / "log")
    (found,) = traces(report).rows(named=True)
    assert (found["text"], found["answer"], found["finish_reason"]) == ("It is 4", "4", "length")
    assert (found["prompt_tokens"], found["completion_tokens"]) == (7, 9)
    log = open_log(report.log)
    assert collect(log.scan("examples", ["question"]), log)["question"].to_list() == ["2 + 2?"]


def test_legacy_completions_and_requests_alone(tmp_path: Path) -> None:
    row = batch(choices=[{"text": "4", "index": 0, "finish_reason": "length", "logprobs": None}], usage={})
    report = import_format("openai-batch", [write(tmp_path / "out.jsonl", [row])], tmp_path / "log")
    assert traces(report)["text"].to_list() == ["4"]
    asked = write(tmp_path / "in.jsonl", [{"custom_id": "q", "method": "POST", "body": {}}])
    with refuses("empty", "results"):
        import_format("openai-batch", [asked], tmp_path / "none")


def test_a_batch_whose_requests_all_failed(tmp_path: Path) -> None:
    rows = [{"custom_id": "q", "response": {"status_code": 400, "body": {}}, "error": {"code": "x"}}] * 2
    file = write(tmp_path / "out.jsonl", rows)
    with refuses("format", f"`{file}`", "`out.jsonl`", "2"):
        import_format("openai-batch", [file], tmp_path / "log")


def test_helm_with_several_completions_has_no_verdicts_of_its_own(tmp_path: Path) -> None:
    folder = published("helm", tmp_path) / "run"
    state = json.loads((folder / "scenario_state.json").read_text())
    first, second, third = state["request_states"]
    first["result"]["completions"] *= 2
    second["train_trial_index"] = 1
    third["instance"]["perturbation"] = {"name": "typos"}
    (folder / "scenario_state.json").write_text(json.dumps(state))
    found = traces(import_format("helm", [str(folder)], tmp_path / "log"))
    assert found.select("example_id", "pool", "sample_index", "correct").rows() == [
        ("colours:subject=nature/id1", "openai/gpt2", 0, True),
        ("colours:subject=nature/id1", "openai/gpt2", 1, True),
        ("colours:subject=nature/id2", "openai/gpt2 trial 1", 0, False),
        ("colours:subject=nature/id3~typos", "openai/gpt2", 0, True),
    ]


def test_helm_that_asks_about_each_choice_apart_is_refused(tmp_path: Path) -> None:
    folder = published("helm", tmp_path) / "run"
    state = json.loads((folder / "scenario_state.json").read_text())
    state["request_states"][0]["reference_index"] = 1
    (folder / "scenario_state.json").write_text(json.dumps(state))
    with refuses("unsuitable", "scenario_state.json`"):
        import_format("helm", [str(folder)], tmp_path / "log")


def samples(**more: Any) -> dict[str, Any]:
    return {"doc_id": 0, "target": "4", "resps": [["It is 4"]], "filtered_resps": ["4"], "exact_match": 1.0, **more}


@pytest.mark.parametrize(
    ("row", "expected"),
    seeds(
        3,
        [
            (samples(), [("4", True)]),
            (samples(arguments=[["2 + 2?", {"until": []}]]), [("4", True)]),
            (samples(target="words\n#### 4", filtered_resps=["[invalid]"], exact_match=0.0), [(None, False)]),
            (samples(resps=[["4", "5"]], filtered_resps=[["4", "5"]]), [("4", True), ("5", False)]),
            (samples(resps=[["so 4", "so 5"]], filtered_resps=["4"]), [("4", True), ("5", False)]),
            (samples(metrics=["f1", "acc"], f1=0.5, acc=0.0), [("4", False)]),
            (
                samples(resps=[["Paris, I think"]], target="Paris", filtered_resps=["Paris"], metrics=[]),
                [("Paris", True)],
            ),
        ],
    ),
)
def test_lm_evals_samples_of_other_versions(
    row: dict[str, Any], expected: list[tuple[str | None, bool]], tmp_path: Path
) -> None:
    report = import_format("lm-eval", [write(tmp_path / "m" / "samples_t.jsonl", [row])], tmp_path / "log")
    assert traces(report).select("answer", "correct").rows() == expected


def test_a_metric_is_the_verdict_of_all_documents_or_of_none(tmp_path: Path) -> None:
    rows = [samples(metrics=["f1", "em"], f1=1.0, em=0.0), samples(doc_id=1, metrics=["f1", "em"], f1=0.5, em=1.0)]
    report = import_format("lm-eval", [write(tmp_path / "m" / "samples_t.jsonl", rows)], tmp_path / "log")
    assert traces(report)["correct"].to_list() == [False, True]
    assert [note for note in report.notes if note.startswith("t: the verdicts") and note.endswith("`em`")]


def test_a_run_that_lm_eval_appended_to_its_file_counts_once(tmp_path: Path) -> None:
    rows = [samples(), samples(doc_id=1)] * 2
    report = import_format("lm-eval", [write(tmp_path / "m" / "samples_t.jsonl", rows)], tmp_path / "log")
    assert (report.traces, report.duplicates_dropped) == (2, 2)


def changed(name: str, file: str, tmp_path: Path, change: Change) -> ImportReport:
    path = published(name, tmp_path) / file
    rows = lines(path)
    for row in rows:
        change(row)
    return import_format(name, [write(path, rows)], tmp_path / "log")


def test_nemo_skills_with_a_judge_alone_and_without_tokens(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        del row["symbolic_correct"], row["num_generated_tokens"], row["id"]

    report = changed("nemo-skills", "aime24/output-rs1.jsonl", tmp_path, change)
    assert traces(report).sort("answer").select("answer", "correct").rows() == [("21", True), ("5", False)]


def test_verl_of_older_versions_has_a_score_alone(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        del row["gts"], row["acc"], row["pred"]

    report = changed("verl", "40.jsonl", tmp_path, change)
    assert (report.readings.right, report.readings.judged) == (2, 4)
    assert sorted(traces(report)["reward"].to_list()) == [0.0, 0.0, 1.0, 1.0]


def test_vllm_without_the_prompts_tokens(tmp_path: Path) -> None:
    def change(row: dict[str, Any]) -> None:
        del row["prompt_token_ids"], row["prompt"]

    found = traces(changed("vllm", "outputs.jsonl", tmp_path, change))
    assert "prompt_tokens" not in found.columns or found["prompt_tokens"].null_count() == 4
    assert found["completion_tokens"].to_list() == [3, 1, 4, 2]


def test_search_and_learns_data_sets_are_parquet(tmp_path: Path) -> None:
    rows = lines(published("search-and-learn", tmp_path) / "best_of_n_completions.jsonl")
    path = tmp_path / "train-00000-of-00001.parquet"
    pl.DataFrame(rows).write_parquet(path)
    report = import_format("search-and-learn", [str(path)], tmp_path / "log")
    assert report.readings.right == 2
    log = open_log(report.log)
    scores = collect(log.scan("verifications", ["verifier", "score"]), log).sort("verifier", "score")
    assert scores.filter(pl.col("verifier") == "prm prod")["score"].round(5).to_list() == [0.03125, 0.1, 0.45, 0.75]
    assert scores.filter(pl.col("verifier") == "prm last")["score"].to_list() == [0.125, 0.25, 0.75, 0.9]


def test_evalplus_without_added_tests_and_with_its_old_name(tmp_path: Path) -> None:
    folder = published("evalplus", tmp_path)
    (path,) = folder.iterdir()
    results = json.loads(path.read_text())
    for runs in results["eval"].values():
        for run in runs:
            del run["plus_status"]
    old = folder / "m_eval_results.json"
    old.write_text(json.dumps(results))
    report = import_format("evalplus", [str(old)], tmp_path / "log")
    assert report.readings.right == 4
    assert traces(report)["pool"].unique().to_list() == ["m"]


def test_another_scorer_of_inspect(tmp_path: Path) -> None:
    (whole,) = (published("inspect", tmp_path) / "json").iterdir()
    settings = ["traces.correct=scores.includes >= 1", "traces.answer=text", "traces.credit=scores.includes"]
    report = import_format("inspect", [str(whole)], tmp_path / "log", settings=settings)
    assert (report.readings.right, report.readings.judged) == (1, 6)


def test_lighteval_that_could_only_write_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "details_t_2025-01-01T00-00-00.parquet"
    pl.DataFrame({"doc": ["{'query': 'x'}"], "model_response": ["{}"], "metric": ["{}"]}).write_parquet(path)
    with refuses("format", "`doc`"):
        import_format("lighteval", [str(path)], tmp_path / "log")


def test_verdicts_that_disagree_are_kept(tmp_path: Path) -> None:
    rows = [samples(filtered_resps=["4."], exact_match=0.0)]
    sources = [write(tmp_path / "m" / "samples_t.jsonl", [samples()]), write(tmp_path / "n" / "samples_t.jsonl", rows)]
    found = traces(import_format("lm-eval", sources, tmp_path / "log"))
    assert found.select("pool", "answer", "correct", "contested").rows() == [
        ("m", "4", True, True),
        ("n", "4", False, True),
    ]


def test_searches_have_no_prefix_and_their_chunks_are_one_run(tmp_path: Path) -> None:
    first, second = lines(published("search-and-learn", tmp_path) / "dvts_completions.jsonl")
    for run in ("a", "b"):
        write(tmp_path / run / "dvts" / "chunk-0.jsonl", [first])
        write(tmp_path / run / "dvts" / "chunk-1.jsonl", [second])
    report = import_format("search-and-learn", [str(tmp_path / "a"), str(tmp_path / "b")], tmp_path / "log")
    assert report.traces == 8
    manifest = open_log(report.log).manifest
    assert manifest is not None
    pools = traces(report)["pool"].unique().sort().to_list()
    assert pools == ["dvts (a)", "dvts (b)"]
    assert manifest.pools == {pool: {"prefix": False} for pool in pools}


def test_gold_is_what_is_boxed_in_a_solution(tmp_path: Path) -> None:
    folder = published("helm", tmp_path) / "run"
    state = json.loads((folder / "scenario_state.json").read_text())
    for request in state["request_states"]:
        for reference in request["instance"]["references"]:
            reference["output"]["text"] = f"We add them up, so \\boxed{{{reference['output']['text']}}}."
    (folder / "scenario_state.json").write_text(json.dumps(state))
    report = import_format("helm", [str(folder)], tmp_path / "log")
    log = open_log(report.log)
    assert not any("boxed" in gold for gold in collect(log.scan("examples", ["gold"]), log)["gold"].to_list())
    row = samples(target="2 + 2 makes\n\\boxed{4}", resps=[["So \\boxed{4}", "5"]], filtered_resps=["4"], metrics=[])
    report = import_format("lm-eval", [write(tmp_path / "m" / "samples_t.jsonl", [row])], tmp_path / "other")
    assert traces(report).select("answer", "correct").rows() == [("4", True), ("5", False)]
