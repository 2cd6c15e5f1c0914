"""Each data set, read from a few made rows in the form in which it is published."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.datasets import DATASETS, load, names
from tests.errors import numbers, quotes
from toolkit.log import check_log, write_log


def lines_file(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def json_file(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


GSM8K = [
    {"question": "Ann has 2 pens and buys 3. How many has she?", "answer": "2+3=<<2+3=5>>5 pens.\n#### 5"},
    {"question": "A farm sells 1200 eggs. How many dozen?", "answer": "1200/12=<<1200/12=100>>100\n#### 1,200"},
]


def symbolic(template: int, instance: int, original: int) -> dict[str, Any]:
    return {
        "id": template, "instance": instance, "question": f"{instance} and 1?", "answer": f"So.\n#### {instance + 1}",
        "original_id": original, "original_question": "?", "original_answer": "#### 1", "canary": "canary",
    }  # fmt: skip


def problem(text: str, box: str, /, **more: Any) -> dict[str, Any]:
    return {"problem": text, "solution": f"First $\\boxed{{0}}$, then $\\boxed{{{box}}}$.", **more}


def claim(text: str, label: str, original: str) -> dict[str, Any]:
    return {
        "country_of_origin": "usa", "label": label, "url": "u", "lang": "en", "claim": text,
        "doc": "THE VERDICT", "taxonomy_label": "statistical ", "label_original": original,
    }  # fmt: skip


def decomposed(name: str, label: str) -> dict[str, Any]:
    annotations = [
        {"questions": ["Is it so?", "Was it so?"], "answers": ["yes", "no"]},
        {"questions": ["Is it so?", "Will it be?"], "answers": ["yes", "unknown"]},
    ]
    return {
        "example_id": name, "claim": f"claim {name}", "label": label, "person": "P", "venue": "V", "url": "u",
        "justification": "it is false", "annotations": annotations,
    }  # fmt: skip


def test_gsm8k(tmp_path: Path) -> None:
    lines_file(tmp_path / "test.jsonl", GSM8K)
    loaded = load("gsm8k", tmp_path, ["test"])
    assert loaded.examples["gold"].to_list() == ["5", "1200"]
    assert loaded.examples["example_id"].to_list() == ["gsm8k-test-00000", "gsm8k-test-00001"]
    assert loaded.examples["labels"].to_list() == [None, None]
    (count,) = loaded.counts
    assert (count.counted, count.published, count.agrees) == (2, 1_319, False)
    quotes(count, "gsm8k test")
    assert numbers(count) == ["2", "1,319", "1,317", "2021"]


@pytest.mark.parametrize("form", ["parquet", "csv", "json", "jsonl.gz", "zip", "lines in .json"])
def test_any_published_form_gives_the_same_examples(tmp_path: Path, form: str) -> None:
    frame, path = pl.DataFrame(GSM8K), tmp_path / f"gsm_test.{form}"
    if form == "parquet":
        frame.write_parquet(path)
    elif form == "csv":
        frame.write_csv(path)
    elif form == "json":
        json_file(path, GSM8K)
    elif form == "jsonl.gz":
        path.write_bytes(gzip.compress("\n".join(map(json.dumps, GSM8K)).encode()))
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("in/data.json", json.dumps(GSM8K))
            archive.writestr("__MACOSX/._data.json", "junk")
    else:
        path = lines_file(tmp_path / "gsm_test.json", GSM8K)
    plain = load("gsm8k", lines_file(tmp_path / "plain_test.jsonl", GSM8K)).examples
    assert load("gsm8k", path, ["test"]).examples.equals(plain)


def test_hub_folders_are_found(tmp_path: Path) -> None:
    (tmp_path / "main").mkdir()
    for part, rows in enumerate((GSM8K[:1], GSM8K[1:])):
        pl.DataFrame(rows).write_parquet(tmp_path / "main" / f"train-{part:05d}-of-00002.parquet")
    assert load("gsm8k", tmp_path, ["train"]).examples["gold"].to_list() == ["5", "1200"]


@pytest.mark.parametrize(
    ("name", "file"), [("gsm-symbolic", "GSM_symbolic"), ("gsm-symbolic-p1", "GSM_p1"), ("gsm-symbolic-p2", "GSM_p2")]
)
def test_gsm_symbolic(tmp_path: Path, name: str, file: str) -> None:
    lines_file(tmp_path / f"{file}.jsonl", [symbolic(0, 0, 48), symbolic(0, 1, 48), symbolic(1, 0, 7)])
    loaded = load(name, tmp_path)
    assert loaded.examples["cluster"].to_list() == ["gsm8k-test-00048"] * 2 + ["gsm8k-test-00007"]
    assert loaded.examples["example_id"].to_list() == [f"{name}-0000-00", f"{name}-0000-01", f"{name}-0001-00"]
    assert loaded.examples["gold"].to_list() == ["1", "2", "1"]
    expected = {"gsm-symbolic": [5_000, 100], "gsm-symbolic-p1": [5_000, 100], "gsm-symbolic-p2": [2_500, 50]}
    assert [count.published for count in loaded.counts] == expected[name]
    assert [count.counted for count in loaded.counts] == [3, 2]


def test_math_as_folders_of_problems(tmp_path: Path) -> None:
    folder = tmp_path / "MATH"
    json_file(folder / "train/algebra/1.json", problem("a?", "\\frac{1}{2}", level="Level 5", type="Algebra"))
    json_file(folder / "train/algebra/2.json", problem("b?", "x^2+1", level="Level ?", type="Algebra"))
    json_file(folder / "train/geometry/1.json", problem("c?", "1{,}000", level="Level 1", type="Geometry"))
    for place in (folder, tmp_path):
        made = load("math", place, ["train"]).examples
        assert made["example_id"].to_list() == ["math/train/algebra/1.json", "math/train/algebra/2.json",
                                                "math/train/geometry/1.json"]  # fmt: skip
        assert made["gold"].to_list() == ["0.5", "x^2+1", "1000"]
        assert made["level"].to_list() == [5, None, 1]
        assert made["subject"].to_list() == ["Algebra", "Algebra", "Geometry"]


def test_math500_and_its_exclusion_from_math(tmp_path: Path) -> None:
    five = [
        problem("a?", "1", answer="\\left( 3, \\frac{\\pi}{2} \\right)", subject="Precalculus", level=2,
                unique_id="test/precalculus/807.json"),
        problem("b  and\nc?", "2", answer="\\frac{14}{4}", subject="Algebra", level=3, unique_id="test/algebra/1.json"),
    ]  # fmt: skip
    path = lines_file(tmp_path / "five" / "test.jsonl", five)
    loaded = load("math500", path)
    assert loaded.examples["gold"].to_list() == ["\\left( 3, \\frac{\\pi}{2} \\right)", "3.5"]
    assert loaded.examples["example_id"].to_list()[0] == "math500/test/precalculus/807.json"
    assert loaded.examples["level"].to_list() == [2, 3]
    assert loaded.examples["split"].to_list() == ["test"] * 2
    rows = [problem(text, "7", level="Level 1", type="Algebra") for text in ("b and c?", "d?")]
    math = load("math", lines_file(tmp_path / "test.jsonl", rows), ["test"], {"exclude": str(path)})
    assert math.examples["question"].to_list() == ["d?"]
    assert [count.counted for count in math.counts] == [2, 1]


CHOICES = {"A": "a river", "B": "a bank", "C": "a hat", "D": "a cup", "E": "a dog"}


def test_commonsenseqa_as_lines(tmp_path: Path) -> None:
    choices = [{"label": label, "text": text} for label, text in reversed(CHOICES.items())]
    asked = {"question_concept": "water", "choices": choices, "stem": "Where is water?"}
    lines_file(tmp_path / "dev_rand_split.jsonl", [{"answerKey": "A", "id": "q1", "question": asked}])
    lines_file(tmp_path / "test_rand_split_no_answers.jsonl", [{"id": "q2", "question": asked}])
    loaded = load("commonsenseqa", tmp_path, ["dev", "test"])
    assert loaded.examples["gold"].to_list() == ["A", None]
    assert loaded.examples["labels"].to_list() == [["A", "B", "C", "D", "E"]] * 2
    assert loaded.examples["question"][0].startswith("Where is water?\n(A) a river\n(B) a bank\n")
    assert loaded.examples["choices"].to_list()[0] == list(CHOICES.values())
    assert [count.published for count in loaded.counts] == [1_221, 1_140]


def test_commonsenseqa_as_parquet(tmp_path: Path) -> None:
    row = {"id": "q1", "question": "Where is water?", "question_concept": "water", "answerKey": "C",
           "choices": {"label": list(CHOICES), "text": list(CHOICES.values())}}  # fmt: skip
    pl.DataFrame([row]).write_parquet(tmp_path / "validation-00000-of-00001.parquet")
    made = load("commonsenseqa", tmp_path, ["dev"]).examples
    assert (made["gold"][0], made["stem"][0], made["concept"][0]) == ("C", "Where is water?", "water")


def test_quantemp_with_its_evidence(tmp_path: Path) -> None:
    rows = [claim("One in ten.", "True", "mostly-true"), claim("Two.", "False", "pants-fire"),
            claim("Three.", "Conflicting", "half-true")]  # fmt: skip
    json_file(tmp_path / "raw_data" / "test_claims_quantemp.json", rows)
    archive = tmp_path / "bm25_scored_evidence" / "bm25_top_100_claimdecomp.json.zip"
    archive.parent.mkdir()
    with zipfile.ZipFile(archive, "w") as zipped:
        passages = [
            {"claim": "One  in ten. ", "docs": ["first", "second", "first", " "]},
            {"claim": "Two.", "docs": ["x"]},
        ]
        zipped.writestr("bm25_top_100_claimdecomp.json", json.dumps(passages))
    loaded = load("quantemp", tmp_path, ["test"], {"evidence": str(tmp_path)})
    made = loaded.examples
    assert made["gold"].to_list() == ["Supports", "Refutes", "Conflicting"]
    assert made["labels"].to_list()[0] == ["Supports", "Refutes", "Conflicting"]
    assert made["evidence"].to_list() == [["first", "second"], ["x"], []]
    assert made["taxonomy"].to_list() == ["statistical"] * 3
    assert "THE VERDICT" not in str(made.to_dicts())
    assert [(count.counted, count.published) for count in loaded.counts] == [
        (3, 2_495), (1, 474), (1, 1_423), (1, 598), (1, None),
    ]  # fmt: skip
    assert load("quantemp", tmp_path, ["test"]).examples["evidence"].to_list() == [[], [], []]


def test_claimdecomp_maps_six_grades_to_three_labels(tmp_path: Path) -> None:
    grades = ["true", "mostly-true", "half-true", "barely-true", "false", "pants-fire"]
    lines_file(tmp_path / "test.jsonl", [decomposed(str(-number), grade) for number, grade in enumerate(grades)])
    loaded = load("claimdecomp", tmp_path, ["test"])
    assert loaded.examples["gold"].to_list() == ["Supports", "Supports", "Conflicting", "Refutes", "Refutes", "Refutes"]
    assert loaded.examples["label_original"].to_list() == grades
    assert loaded.examples["evidence"].to_list()[0] == ["Is it so? yes", "Was it so? no", "Will it be? unknown"]
    assert "it is false" not in str(loaded.examples.to_dicts())
    assert [(count.counted, count.published) for count in loaded.counts] == [(6, 200), (2, 60), (3, 91), (1, 49)]


def test_published_shares_add_up_to_the_published_totals(tmp_path: Path) -> None:
    totals = {"train": 9_935, "dev": 3_084, "test": 2_495}
    for split, file in (("train", "train"), ("dev", "val"), ("test", "test")):
        json_file(tmp_path / f"{file}_claims_quantemp.json", [claim("x", "True", "true")])
        counts = load("quantemp", tmp_path, [split]).counts
        assert counts[0].published == totals[split] == sum(count.published or 0 for count in counts[1:4])


def test_examples_are_a_valid_table_of_a_log(tmp_path: Path) -> None:
    lines_file(tmp_path / "test.jsonl", [decomposed("1", "true"), decomposed("2", "false")])
    made = load("claimdecomp", tmp_path).examples
    traces = made.select(trace_id="example_id", example_id="example_id", pool=pl.lit("p"), action=pl.lit("solve"),
                         sample_index=pl.lit(0, pl.Int32), model=pl.lit("m"), answer="gold",
                         correct=pl.lit(True))  # fmt: skip
    check_log(write_log(tmp_path / "log", name="claims", tables={"examples": made, "traces": traces}))


def test_generated_tasks_load_by_the_same_function() -> None:
    made = load("algebra_linear_1d", None, ["dev"], {"n": 3}).examples
    assert made["example_id"].to_list() == [f"algebra_linear_1d-dev-{number:05d}" for number in range(3)]
    assert set(names()) == {*DATASETS, "algebra_linear_1d", "numeric_claims", "invented_world", "invented_texts"}
