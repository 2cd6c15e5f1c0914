"""Files that are not in the published form: one line that names the file, the column and the row."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from generate.datasets import load
from tests.errors import refuses, says
from toolkit.errors import ThinkbackError

GOOD = {
    "gsm8k": {"question": "q", "answer": "#### 1"},
    "gsm-symbolic": {"id": 0, "instance": 0, "question": "q", "answer": "#### 1", "original_id": 3},
    "math": {"problem": "p", "level": "Level 1", "type": "Algebra", "solution": "\\boxed{1}"},
    "math500": {"problem": "p", "solution": "s", "answer": "1", "subject": "A", "level": 1, "unique_id": "u"},
    "commonsenseqa": {"id": "1", "answerKey": "A", "question": {"stem": "s", "question_concept": "c", "choices": [
        {"label": label, "text": label} for label in "ABCDE"]}},
    "quantemp": {"claim": "c", "label": "True", "label_original": "true", "taxonomy_label": "t"},
    "claimdecomp": {"example_id": "1", "claim": "c", "label": "true", "annotations": []},
    "um-actually": {"statement": "s"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"dev_share": "fifth"}, ("invalid", "`dev_share`", "'fifth'")),
        ({"dev_share": [0.2]}, ("invalid", "`dev_share`")),
        ({"choose": 1, "choose_by": 3}, ("invalid", "`choose_by`", "3")),
    ],
)
def test_options_of_another_kind(tmp_path: Path, options: dict[str, Any], refusal: tuple[str, ...]) -> None:
    (tmp_path / "test.jsonl").write_text(json.dumps(GOOD["gsm8k"]), encoding="utf-8")
    says(complaint("gsm8k", tmp_path, options), *refusal)


@pytest.mark.parametrize("value", [["a", "b", "c"], [[1], [2], [3]], [True, True, True], "abc", 3])
def test_settings_of_a_task_of_another_kind(value: Any) -> None:
    for name in ("shares", "kinds"):
        if name == "shares" or value != ["a", "b", "c"]:
            with refuses("invalid", f"`{name}`"):
                load("numeric_claims", None, ["test"], {name: value})


def complaint(name: str, path: Path, options: dict[str, Any] | None = None) -> ThinkbackError:
    with pytest.raises(ThinkbackError) as caught:
        load(name, path, ["dev" if name == "commonsenseqa" else "test"], options)
    return caught.value


def rows_file(tmp_path: Path, rows: list[Any]) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "column", "value", "refusal"),
    [
        ("gsm8k", "answer", "it is 5", ("format", "`####`")),
        ("gsm8k", "answer", "#### five", ("format", "`####`")),
        ("gsm8k", "question", " ", ("format", "rows.jsonl`")),
        ("gsm8k", "question", None, ("format", "`question`")),
        ("gsm8k", "question", 7, ("format", "`question`")),
        ("gsm-symbolic", "original_id", "x", ("format", "`original_id`")),
        ("gsm-symbolic", "id", True, ("format", "`id`")),
        ("math", "solution", "no box", ("format", "`\\boxed{…}`")),
        ("math", "level", "Level 9", ("format", "`Level 9`")),
        ("commonsenseqa", "answerKey", "F", ("format", "`F`")),
        ("commonsenseqa", "answerKey", "", ("format", "rows.jsonl`")),
        ("commonsenseqa", "question", {"stem": "s", "choices": [{"label": "A", "text": "a"}]}, ("format", "1")),
        ("commonsenseqa", "question", {"stem": "s", "choices": "a, b"}, ("format", "`question.choices`", "`label`")),
        ("quantemp", "label", "Half", ("format", "`Half`")),
        ("claimdecomp", "label", "half true", ("format", "`half true`")),
        ("claimdecomp", "annotations", [{"answers": []}], ("format", "`questions`")),
        ("claimdecomp", "annotations", [{"questions": ["a", "b"], "answers": ["yes"]}], ("format", "2", "1")),
        ("claimdecomp", "annotations", "none", ("format", "`annotations`")),
    ],
)
def test_a_bad_value_names_file_column_and_row(
    tmp_path: Path, name: str, column: str, value: Any, refusal: tuple[str, ...]
) -> None:
    good = GOOD[name]
    bad = {**good, column: value}
    identity = next((key for key in ("unique_id", "example_id", "instance") if key in good), None)
    if identity is not None and identity != column:
        bad[identity] = 9 if identity == "instance" else "another"
    path = rows_file(tmp_path, [good, bad])
    says(complaint(name, path), *refusal, f"`{path}`", f"`{column}", "row 2")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_column_says_what_there_is(tmp_path: Path, name: str) -> None:
    for column in GOOD[name]:
        if column in ("unique_id", "label_original", "taxonomy_label", "level"):
            continue
        path = rows_file(tmp_path, [{key: value for key, value in GOOD[name].items() if key != column} or {"other": 1}])
        if name == "math500" and column == "answer":
            assert "`\\boxed{…}`" in str(complaint(name, path))
            continue
        says(complaint(name, path), "format", f"`{column}", "row 1")


@pytest.mark.parametrize("name", sorted(GOOD))
def test_another_data_set_s_file_is_refused(tmp_path: Path, name: str) -> None:
    path = rows_file(tmp_path, [{"text": "something else", "id_": 3}])
    says(complaint(name, path), "format", "`text`", "`id_`")


@pytest.mark.parametrize(
    ("content", "suffix", "refusal"),
    [
        (b"", ".jsonl", ("empty",)),
        (b"[]", ".json", ("empty",)),
        (b"question,answer\n", ".csv", ("empty",)),
        (b'{"question": "q"', ".jsonl", ("format", "line 1")),
        (b'{"question": "q", "answer": "#### 1"}\n{"question', ".jsonl", ("format", "line 2")),
        (b"[1, 2]", ".json", ("format", "row 1")),
        (b"\xff\xfe\x00", ".jsonl", ("format", "0")),
        (b"question,answer\na,b,c\n", ".csv", ("format", "row 1", "2")),
        (b"no parquet", ".parquet", ("format", "file.parquet`")),
        (b"no gzip", ".jsonl.gz", ("format",)),
        (b"no zip", ".zip", ("format",)),
        (b"a", ".xls", ("format", "`.xls`")),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes, suffix: str, refusal: tuple[str, ...]) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    says(complaint("gsm8k", path), *refusal, str(path))


def test_an_archive_of_several_files_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "test.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", "[]")
        archive.writestr("b.json", "[]")
    says(complaint("gsm8k", path), "ambiguous", "2")


def test_places_that_hold_nothing(tmp_path: Path) -> None:
    says(complaint("gsm8k", tmp_path / "gone"), "not-found", "gone`")
    says(complaint("gsm8k", tmp_path), "not-found", "`test.jsonl`")


def test_an_id_that_occurs_twice(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [GOOD["claimdecomp"], GOOD["claimdecomp"]])
    says(complaint("claimdecomp", path), "conflict", "`claimdecomp-test-1`", "2")


def test_evidence_of_other_claims(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [GOOD["quantemp"]])
    evidence = tmp_path / "bm25_top_100_x.json"
    evidence.write_text('[{"claim": "another", "docs": ["a"]}]')
    says(complaint("quantemp", path, {"evidence": str(evidence)}), "mismatch", "`evidence`")
    evidence.write_text('[{"claim": "c", "docs": [1]}]')
    says(complaint("quantemp", path, {"evidence": str(evidence)}), "format", "`docs`", "row 1")


@pytest.mark.parametrize(
    ("name", "splits", "options", "refusal"),
    [
        ("gms8k", [], {}, ("unknown", "`gsm8k`")),
        ("gsm8k", ["dev"], {}, ("unknown", "`dev`")),
        ("gsm8k", ["test", "train"], {}, ("ambiguous", "2")),
        ("gsm8k", ["test", "test"], {}, ("conflict",)),
        ("gsm8k", [], {}, ("required", "`split`", "`test`")),
        ("gsm8k", ["test"], {"evidence": "x"}, ("unknown", "`evidence`")),
        ("gsm8k", ["test"], {"choose": 5}, ("limit", "`choose`", "5", "1")),
        ("gsm8k", ["test"], {"choose": "5"}, ("invalid", "`choose`", "'5'")),
        ("gsm8k", ["test"], {"choose": 1, "choose_by": "golt"}, ("unknown", "`gold`")),
        ("gsm8k", ["test"], {"dev_share": 2}, ("invalid", "`dev_share`", "2.0")),
        ("algebra_linear_1d", ["test"], {}, ("conflict", "`algebra_linear_1d`", "`path`")),
    ],
)
def test_bad_requests(
    tmp_path: Path, name: str, splits: list[str], options: dict[str, Any], refusal: tuple[str, ...]
) -> None:
    path = rows_file(tmp_path, [GOOD["gsm8k"]])
    with refuses(*refusal):
        load(name, path, splits, options)


def test_a_published_data_set_needs_a_path() -> None:
    with refuses("required", "`path`"):
        load("gsm8k")
