"""What is named is what is read: files by chained addresses, beside each other, and in folders whose names mislead."""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses
from tests.formats.bare import READERS
from tests.formats.published import published, samples_of
from tests.formats.test_formats import rows
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
    files = [file for file in folder.rglob("*.*") if FORMATS[name].accepts_path(str(file))]
    sources = [f"zip://{name}/{file.relative_to(folder)}::{packed}" for file in files]
    log = import_format(name, sources, tmp_path / "log").log
    assert rows(open_log(log), name) == sorted(READERS[name](samples_of(name)), key=str)


def test_an_address_that_cannot_be_read_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "runs.zip").write_bytes(b"no archive")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"no gzip")
    with refuses("format", "runs.zip`"):
        import_format("lm-eval", [f"zip://a.jsonl::{tmp_path}/runs.zip"], tmp_path / "log")
    with refuses("format", "bad.jsonl.gz`"):
        import_format("auto", [str(tmp_path / "bad.jsonl.gz")], tmp_path / "log")


def test_what_is_no_single_file_is_told(tmp_path: Path) -> None:
    rows = published("verl", tmp_path) / "40.jsonl"
    packed = rows.with_name("40.jsonl.gz")
    packed.write_bytes(gzip.compress(rows.read_bytes()))
    with refuses("conflict", "40.jsonl`"):
        import_format("verl", [str(rows.parent)], tmp_path / "log")
    for name in ("runs.tar.gz", "runs.tgz", "runs.7z"):
        (tmp_path / name).write_bytes(packed.read_bytes())
        with refuses("format", f"{name}`", "`.zip`"):
            import_format("auto", [str(tmp_path / name)], tmp_path / "log")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("inner.zip", b"PK")
    with refuses("format", "outer.zip`", "`inner.zip`"):
        import_format("verl", [str(tmp_path / "outer.zip")], tmp_path / "log")


def test_the_format_that_it_looks_like(tmp_path: Path) -> None:
    rows = published("verl", tmp_path) / "40.jsonl"
    with refuses("format", "`thinkback import verl`"):
        import_format("openai-batch", [str(rows)], tmp_path / "log")
    with refuses("format", "`thinkback import verl`"):
        import_format("lm-eval", [str(rows.parent)], tmp_path / "log")


def test_ids_that_are_meant_to_be_hashes_are_not_told_of(tmp_path: Path) -> None:
    report = import_format("verl", [str(published("verl", tmp_path))], tmp_path / "log")
    assert report.ids_split
    assert not [note for note in report.notes if "different questions" in note]


def test_errors_name_the_file_that_was_named(tmp_path: Path) -> None:
    named = helm_run(tmp_path / "run", "4", "4", 1.0) / STATE
    settings = ["examples.split=NULLIF('a', 'a')"]
    with refuses("invalid", "`examples.split`", "`scenario_state.json`", "1"):
        import_format("helm", [str(named)], tmp_path / "log", settings=settings)


@pytest.mark.parametrize(
    ("first", "second", "pools"),
    [
        ("m/t1/details_x_t1", "m/t2/details_x_t2", ["m (t1)", "m (t2)"]),
        ("m/t/details_x|0_2025-01-01T00-00-00", "m/t/details_x|0_2025-01-02T00-00-00",
         ["m (details_x|0_2025-01-01T00-00-00.parquet)", "m (details_x|0_2025-01-02T00-00-00.parquet)"]),
    ],
)  # fmt: skip
def test_runs_of_lighteval_are_told_apart_by_their_time(
    first: str, second: str, pools: list[str], tmp_path: Path
) -> None:
    source = next(published("lighteval", tmp_path).rglob("details_single*.parquet"))
    for name in (first, second):
        path = tmp_path / "details" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source.read_bytes())
        if "|" not in name:
            path.rename(path.with_name(f"details_x|0_2025-01-0{name[-1]}T00-00-00.parquet"))
    report = import_format("lighteval", [str(tmp_path / "details")], tmp_path / "log")
    assert pools_of(report.log) == pools


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
    assert [note for note in report.notes if "`final_number_exact_match`" in note]
    (folder / "per_instance_stats.json").unlink()
    report = import_format("auto", named, tmp_path / "alone")
    assert read(report.log) == [("4", "5", False)]
    assert [note for note in report.notes if note.startswith(f"`{STATE}`: ") and "per_instance_stats.json" in note]
