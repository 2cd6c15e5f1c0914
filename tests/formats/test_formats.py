"""Each format's samples agree with a plain script in rows, verdicts and means, however the files come."""

from __future__ import annotations

import gzip
import json
import math
import shutil
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import polars as pl
import pytest

from tests.errors import refuses
from tests.formats.bare import READERS, Trace
from tests.formats.published import NAMES, published, samples_of, settings
from tests.seeds import seeds
from thinkback.commands.import_ import FORMATS as COMMANDS
from toolkit.errors import ThinkbackError
from toolkit.imports import FORMATS, ImportReport, detect_format, import_format
from toolkit.log import Log, collect, open_log

REASONS = {"stop": "stop", "max_tokens": "length"}
COLUMNS = ("example_id", "pool", "sample_index", "correct", "prompt_tokens", "completion_tokens")


def rows(log: Log, name: str) -> list[Trace]:
    """The log's traces, as the plain scripts tell them."""
    found = collect(log.scan("traces"), log)
    found = found.with_columns(pl.lit(None).alias(column) for column in COLUMNS if column not in found.columns)
    if name == "verl":  # which has no ids
        examples = collect(log.scan("examples", ["example_id", "question"]), log)
        found = found.join(examples, on="example_id").with_columns(example_id="question")
    return sorted(found.select(COLUMNS).rows(), key=str)


def imported(name: str, sources: list[str], out: Path, **more: Any) -> tuple[Log, ImportReport]:
    report = import_format(more.pop("by", name), sources, out, settings=settings(name), **more)
    return open_log(out), report


def test_the_commands_are_those_of_the_formats() -> None:
    assert tuple(FORMATS) == COMMANDS
    assert set(COMMANDS) == set(NAMES)
    assert all(form.mapping.is_file() for form in FORMATS.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_plain_script_agrees(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    log, report = imported(name, [str(folder)], tmp_path / "log")
    expected = READERS[name](samples_of(name))
    assert rows(log, name) == sorted(expected, key=str)
    right = [trace[3] for trace in expected]
    found = collect(log.scan("traces", ["correct"]), log)["correct"]
    assert math.isclose(found.mean(), sum(map(bool, right)) / len(right))  # type: ignore[arg-type]
    assert report.readings.right == sum(map(bool, right))
    assert [note for note in report.notes if note.startswith(name) and note.endswith(FORMATS[name].lacks)]


@pytest.mark.parametrize("name", NAMES)
def test_the_format_is_told_by_what_the_files_hold(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    log, report = imported(name, [str(folder)], tmp_path / "log", by="auto")
    assert rows(log, name) == sorted(READERS[name](samples_of(name)), key=str)
    assert report.notes[0].startswith(f"taken as {name} (")


@pytest.mark.parametrize("name", seeds(4, NAMES))
def test_so_do_an_archive_packed_files_a_glob_and_another_address(name: str, tmp_path: Path) -> None:
    folder = published(name, tmp_path)
    expected = sorted(READERS[name](samples_of(name)), key=str)
    gold = folder / "gold.csv"
    with zipfile.ZipFile(tmp_path / "runs.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for file in folder.rglob("*"):
            archive.write(file, f"{name}/{file.relative_to(folder)}")
    if gold.is_file():
        shutil.copy(gold, tmp_path)
    log, _ = imported(name, [str(tmp_path / "runs.zip")], tmp_path / "zipped")
    assert rows(log, name) == expected

    memory = fsspec.filesystem("memory")
    memory.put(str(folder), f"/{tmp_path.name}/{name}", recursive=True)
    if name not in settings(name):
        log, _ = imported(name, [f"memory://{tmp_path.name}/{name}"], tmp_path / "far")
        assert rows(log, name) == expected

    for file in [file for file in folder.rglob("*") if file.is_file() and file != gold]:
        file.with_name(f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()
    log, _ = imported(name, [str(folder)], tmp_path / "packed")
    assert rows(log, name) == expected
    log, _ = imported(name, [f"{tmp_path}/{name[:-1]}?"], tmp_path / "globbed")
    assert rows(log, name) == expected


@pytest.mark.parametrize("name", NAMES)
def test_files_of_another_format_are_refused_in_a_line(name: str, tmp_path: Path) -> None:
    other = NAMES[(NAMES.index(name) + 1) % len(NAMES)]
    folder = published(other, tmp_path)
    with pytest.raises(ThinkbackError) as error:
        imported(name, [str(file) for file in sorted(folder.rglob("*.*")) if file.is_file()], tmp_path / "log")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "log").exists()


def test_files_of_no_format_and_of_several(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / "notes.jsonl").write_text('{"a": 1}\n')
    with refuses("not-found", "1"):
        detect_format([str(tmp_path / "some")])
    for name in ("verl", "vllm"):
        published(name, tmp_path / "some")
    with refuses("ambiguous", "1"):
        detect_format([str(tmp_path / "some")])


def test_verdicts_of_a_scorer_without_answers_are_kept_alone(tmp_path: Path) -> None:
    (whole,) = (published("inspect", tmp_path) / "json").iterdir()
    log = json.loads(whole.read_text())
    for sample in log["samples"]:
        sample["scores"]["match"]["answer"] = None
    log["samples"][0]["scores"]["match"]["value"] = float("nan")
    whole.write_text(json.dumps(log))
    report = import_format("inspect", [str(whole)], tmp_path / "log")
    assert (report.opaque_answers, report.readings.judged, report.readings.right) == (6, 4, 1)


def test_samples_that_ended_in_an_error_leave_no_trace(tmp_path: Path) -> None:
    (whole,) = (published("inspect", tmp_path) / "json").iterdir()
    log = json.loads(whole.read_text())
    log["samples"][0] |= {"error": {"message": "out of memory"}, "scores": None}
    whole.write_text(json.dumps(log))
    report = import_format("inspect", [str(whole)], tmp_path / "log")
    assert (report.traces, report.readings.judged, report.readings.right) == (5, 5, 1)
    assert [note for note in report.notes if note.startswith(f"`{whole.name}`: 1 sample") and "error" in note]


def test_texts_that_inspect_keeps_apart_are_put_back(tmp_path: Path) -> None:
    log, _ = imported("inspect", [str(published("inspect", tmp_path))], tmp_path / "log")
    found = collect(log.scan("traces", ["example_id", "sample_index", "text", "answer", "finish_reason"]), log)
    asked = collect(log.scan("examples", ["example_id", "question"]), log)
    expected = json.loads((samples_of("inspect") / "expected.json").read_text())
    rows = [
        (row["id"], row["epoch"] - 1, row["text"], row["answer"] or None, REASONS[row["stop"]], row["question"])
        for form in expected.values()
        for row in form["rows"]
    ]
    assert sorted(found.join(asked, on="example_id").rows(), key=str) == sorted(rows, key=str)
