"""Files that are not in the published form: one line that names the file, the column and the row."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from generate.datasets import load
from tests.errors import refuses
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
}  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dev_share": "fifth"}, "`dev_share` is 'fifth'; it takes a number"),
        ({"dev_share": [0.2]}, "`dev_share` is [0.2]; it takes a number"),
        ({"choose": 1, "choose_by": 3}, "`choose_by` is 3; it takes a string"),
    ],
)
def test_options_of_another_kind(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    (tmp_path / "test.jsonl").write_text(json.dumps(GOOD["gsm8k"]), encoding="utf-8")
    assert said in complaint("gsm8k", tmp_path, options)


@pytest.mark.parametrize("value", [["a", "b", "c"], [[1], [2], [3]], [True, True, True], "abc", 3])
def test_settings_of_a_task_of_another_kind(value: Any) -> None:
    for name in ("shares", "kinds"):
        if name == "shares" or value != ["a", "b", "c"]:
            with refuses("invalid", f"`{name}`"):
                load("numeric_claims", None, ["test"], {name: value})


def complaint(name: str, path: Path, options: dict[str, Any] | None = None) -> str:
    with pytest.raises(ThinkbackError) as caught:
        load(name, path, ["dev" if name == "commonsenseqa" else "test"], options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rows_file(tmp_path: Path, rows: list[Any]) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "column", "value", "said"),
    [
        ("gsm8k", "answer", "it is 5", "does not end in `####` and a number"),
        ("gsm8k", "answer", "#### five", "does not end in `####` and a number"),
        ("gsm8k", "question", " ", "is empty"),
        ("gsm8k", "question", None, "is null"),
        ("gsm8k", "question", 7, "is not a string but an integer"),
        ("gsm-symbolic", "original_id", "x", "is not an integer but a string"),
        ("gsm-symbolic", "id", True, "is not an integer but true or false"),
        ("math", "solution", "no box", "holds no `\\boxed{…}`"),
        ("math", "level", "Level 9", "`Level 9` is not a level"),
        ("commonsenseqa", "answerKey", "F", "`F` is not one of the letters"),
        ("commonsenseqa", "answerKey", "", "is empty"),
        ("commonsenseqa", "question", {"stem": "s", "choices": [{"label": "A", "text": "a"}]}, "has 1 choices"),
        ("commonsenseqa", "question", {"stem": "s", "choices": "a, b"}, "is not a list of choices"),
        ("quantemp", "label", "Half", "`Half` is not a label; there are true, false, conflicting"),
        ("claimdecomp", "label", "half true", "`half true` is not a label"),
        ("claimdecomp", "annotations", [{"answers": []}], "no list `questions`"),
        ("claimdecomp", "annotations", [{"questions": ["a", "b"], "answers": ["yes"]}], "2 questions and 1 answers"),
        ("claimdecomp", "annotations", "none", "is not a list but a string"),
    ],
)
def test_a_bad_value_names_file_column_and_row(tmp_path: Path, name: str, column: str, value: Any, said: str) -> None:
    good = GOOD[name]
    bad = {**good, column: value}
    identity = next((key for key in ("unique_id", "example_id", "instance") if key in good), None)
    if identity is not None and identity != column:
        bad[identity] = 9 if identity == "instance" else "another"
    path = rows_file(tmp_path, [good, bad])
    told = complaint(name, path)
    assert told.startswith(f"`{path}`, column `{column}")
    assert ", row 2: " in told
    assert said in told


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_missing_column_says_what_there_is(tmp_path: Path, name: str) -> None:
    for column in GOOD[name]:
        if column in ("unique_id", "label_original", "taxonomy_label", "level"):
            continue
        path = rows_file(tmp_path, [{key: value for key, value in GOOD[name].items() if key != column} or {"other": 1}])
        if name == "math500" and column == "answer":
            assert "`\\boxed{…}`" in complaint(name, path)
            continue
        assert f"column `{column}" in complaint(name, path)
        assert "row 1" in complaint(name, path)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_another_data_set_s_file_is_refused(tmp_path: Path, name: str) -> None:
    path = rows_file(tmp_path, [{"text": "something else", "id_": 3}])
    assert "there is no such column; this file has `text`, `id_`" in complaint(name, path)


@pytest.mark.parametrize(
    ("content", "suffix", "said"),
    [
        (b"", ".jsonl", "holds no rows"),
        (b"[]", ".json", "holds no rows"),
        (b"question,answer\n", ".csv", "holds no rows"),
        (b'{"question": "q"', ".jsonl", "line 1: is not JSON"),
        (b'{"question": "q", "answer": "#### 1"}\n{"question', ".jsonl", "line 2: is not JSON"),
        (b"[1, 2]", ".json", "row 1: is not an object with columns but an integer"),
        (b"\xff\xfe\x00", ".jsonl", "is not UTF-8 at byte 0"),
        (b"question,answer\na,b,c\n", ".csv", "row 1: does not have the 2 columns"),
        (b"no parquet", ".parquet", "is not a Parquet file"),
        (b"no gzip", ".jsonl.gz", "cannot read"),
        (b"no zip", ".zip", "cannot read"),
        (b"a", ".tsv", "`.tsv` is not a published form"),
    ],
)
def test_a_file_that_is_no_table(tmp_path: Path, content: bytes, suffix: str, said: str) -> None:
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    told = complaint("gsm8k", path)
    assert str(path) in told
    assert said in told


def test_an_archive_of_several_files_is_not_guessed_at(tmp_path: Path) -> None:
    path = tmp_path / "test.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", "[]")
        archive.writestr("b.json", "[]")
    assert "holds 2 data files" in complaint("gsm8k", path)


def test_places_that_hold_nothing(tmp_path: Path) -> None:
    assert "there is no file or folder" in complaint("gsm8k", tmp_path / "gone")
    assert "holds none of the published files: `test.jsonl`" in complaint("gsm8k", tmp_path)


def test_an_id_that_occurs_twice(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [GOOD["claimdecomp"], GOOD["claimdecomp"]])
    assert "the id `claimdecomp-test-1` occurs 2 times" in complaint("claimdecomp", path)


def test_evidence_of_other_claims(tmp_path: Path) -> None:
    path = rows_file(tmp_path, [GOOD["quantemp"]])
    evidence = tmp_path / "bm25_top_100_x.json"
    evidence.write_text('[{"claim": "another", "docs": ["a"]}]')
    assert "no claim has evidence" in complaint("quantemp", path, {"evidence": str(evidence)})
    evidence.write_text('[{"claim": "c", "docs": [1]}]')
    assert "column `docs`, row 1: holds something that is not a string" in complaint(
        "quantemp", path, {"evidence": str(evidence)}
    )


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
