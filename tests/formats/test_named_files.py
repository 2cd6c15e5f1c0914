"""What is named is what is read: files by chained addresses, beside each other, and in folders whose names mislead."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.formats.bare import READERS
from tests.formats.published import published, samples_of
from tests.formats.test_formats import rows
from toolkit.errors import ThinkbackError
from toolkit.imports import FORMATS, import_format
from toolkit.log import collect, open_log

SEARCHED: dict[str, Any] = {
    "problem": "2 + 2?", "answer": "4", "unique_id": "u", "completions": ["4", "5"], "scores": [[0.5], [0.25]],
}  # fmt: skip


def pools_of(log: Path) -> list[str]:
    opened = open_log(log)
    return sorted(collect(opened.scan("traces", ["pool"]), opened)["pool"].unique())


@pytest.mark.parametrize(
    ("folder", "file", "named", "pool"),
    [
        ("beam_search_vs_bon", "best_of_n_completions.jsonl", "beam_search_vs_bon", "best_of_n"),
        ("beam_search_vs_bon", "train.jsonl", "beam_search_vs_bon", "search-and-learn"),
        ("dvts", "train.jsonl", "dvts", "dvts"),
        ("beam_search_vs_bon/dvts/chunks", "0.jsonl", "beam_search_vs_bon", "dvts"),
    ],
)
def test_an_approach_is_named_by_the_file_or_the_nearest_folder(
    folder: str, file: str, named: str, pool: str, tmp_path: Path
) -> None:
    place = tmp_path / "beam_search" / folder
    place.mkdir(parents=True)
    (place / file).write_text(json.dumps(SEARCHED) + "\n")
    report = import_format("search-and-learn", [str(tmp_path / "beam_search" / named)], tmp_path / "log")
    assert pools_of(report.log) == [pool]
    manifest = open_log(report.log).manifest
    assert manifest is not None
    assert bool(manifest.pools) == (pool == "dvts")


@pytest.mark.parametrize("name", ["lm-eval", "nemo-skills", "evalplus"])
def test_a_file_in_an_archive_by_a_chained_address(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    packed = tmp_path / "runs.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.rglob("*"):
            archive.write(file, f"{name}/{file.relative_to(folder)}")
    files = [file for file in folder.rglob("*.*") if FORMATS[name].takes(str(file))]
    sources = [f"zip://{name}/{file.relative_to(folder)}::{packed}" for file in files]
    log = import_format(name, sources, tmp_path / "log").log
    assert rows(open_log(log), name) == sorted(READERS[name](samples_of(name)), key=str)


def test_an_address_that_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(b"no archive")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    with pytest.raises(ThinkbackError, match=r"source `zip://a.jsonl::.*` can't be opened"):
        import_format("lm-eval", [f"zip://a.jsonl::{tmp_path}/runs.zip"], tmp_path / "log")
    with pytest.raises(ThinkbackError, match=r"bad.jsonl.gz` is damaged: Not a gzipped file"):
        import_format("auto", [str(tmp_path / "bad.jsonl.gz")], tmp_path / "log")


STATE = "scenario_state.json"


def helm_run(folder: Path, text: str, gold: str, right: float) -> Path:
    """A run of HELM that one completion was made in."""
    folder.mkdir(parents=True)
    references = [{"output": {"text": gold}, "tags": ["correct"]}]
    request = {
        "instance": {"input": {"text": "2 + 2?"}, "id": "id0", "references": references},
        "train_trial_index": 0,
        "result": {"completions": [{"text": text, "logprob": -1.0, "tokens": []}]},
    }  # fmt: skip
    stat = {"name": {"name": "final_number_exact_match"}, "mean": right}
    stats = [{"instance_id": "id0", "train_trial_index": 0, "stats": [stat]}]
    (folder / STATE).write_text(json.dumps({"adapter_spec": {"model": folder.name}, "request_states": [request]}))
    (folder / "per_instance_stats.json").write_text(json.dumps(stats))
    (folder / "run_spec.json").write_text(json.dumps({"name": f"gsm:model={folder.name}"}))
    return folder


def read(log: Path) -> list[tuple[Any, ...]]:
    opened = open_log(log)
    gold = collect(opened.scan("examples", ["example_id", "gold"]), opened)
    made = collect(opened.scan("traces", ["example_id", "pool", "answer", "correct"]), opened)
    return made.join(gold, on="example_id").sort("pool").select("answer", "gold", "correct").rows()


def test_helms_answers_are_read_from_its_solutions_and_its_verdicts_stay(tmp_path: Path) -> None:
    gold = "Two and two is 4. The answer is 4."
    for name, text, right in (
        ("a", "It is 4. The answer is 4.", 1.0),
        ("b", "So: The answer is 5.", 0.0),
        ("c", "four", 1.0),
    ):
        helm_run(tmp_path / "runs" / name, text, gold, right)
    report = import_format("helm", [str(tmp_path / "runs")], tmp_path / "log")
    assert read(report.log) == [("4", "4", True), ("5", "4", False), ("four", "4", True)]


def test_a_run_of_helm_that_is_named_by_its_state_has_the_files_beside_it(tmp_path: Path) -> None:
    folder = helm_run(tmp_path / "run", "The answer is 4.", "5", 1.0)
    named = [str(folder / STATE)]
    report = import_format("helm", named, tmp_path / "log")
    assert read(report.log) == [("4", "5", True)]
    assert "HELM's verdicts are by `final_number_exact_match`" in report.notes
    (folder / "per_instance_stats.json").unlink()
    report = import_format("auto", named, tmp_path / "alone")
    assert read(report.log) == [("4", "5", False)]
    assert f"`{STATE}`: no per_instance_stats.json beside it, so HELM's verdicts and counts of tokens are missing" in (
        report.notes
    )
