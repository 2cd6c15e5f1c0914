"""Statements and claims in their layouts: labels, filters, hops, positions, people, counts, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.datasets import load
from tests.datasets.test_read import claim, decomposed, json_file, lines_file
from tests.errors import refuses
from toolkit.log import check_log, write_log
from toolkit.log.describe.measuring import describe

AVERITEC = [
    {"claim": f"Claim {number} is so.", "label": label, "speaker": None, "claim_date": "31-10-2020", "questions": []}
    for number, label in enumerate(
        ["Supported", "Refuted", "Not Enough Evidence", "Conflicting Evidence/Cherrypicking", "Refuted"]
    )
]
HOVER = [
    {"uid": f"u{hops}", "claim": f"A claim of {hops} hops.", "label": label, "num_hops": hops, "hpqa_id": "x",
     "supporting_facts": [["T", 0]]}
    for hops, label in ((2, "SUPPORTED"), (3, "NOT_SUPPORTED"), (4, "SUPPORTED"), (4, "NOT_SUPPORTED"))
]  # fmt: skip
HOVER[3]["uid"] = "other"
GRADES = ["true", "mostly-true", "half-true", "barely-true", "false", "pants-fire"]
LIAR = "".join(
    f'{number}.json\t{grade}\tSays "{grade} things.\teconomy\tspeaker\tjob\tstate\tparty\t0\t0\t0\t0\t0\ta speech\n'
    for number, grade in enumerate(GRADES)
)
FEVEROUS = [
    {"id": "", "claim": "", "label": ""}, {"id": 7, "claim": "One is two.", "label": "REFUTES"},
    {"id": 8, "claim": "One is one.", "label": "SUPPORTS"},
    {"id": 9, "claim": "Who knows?", "label": "NOT ENOUGH INFO"},
]  # fmt: skip
UM = [
    {"id": "a", "statement": "In the film the hat  is\nred.", "error": "The hat is blue.", "correction": "Blue.",
     "season": 2025, "position": 7, "answers": [{"right": False, "position": 3}, {"right": True, "position": 7}]},
    {"statement": "Right as it is.", "season": "2024"},
    {"statement": "Wrong.", "error": "Wrong.", "position": 1, "season": "2024",
     "answers": [{"right": True, "answer": "no"}, {"right": False, "position": 1}]},
]  # fmt: skip

CHECKS = pl.DataFrame({
    "example_id": ["a"], "pool": ["heard"], "claim": [0], "round": [0], "stage": ["stream"], "position": [7],
    "verdict": ["none"], "queries": [0],
})  # fmt: skip


def columns(frame: Any, *names: str) -> list[tuple[Any, ...]]:
    return frame.select(names).rows()


@pytest.mark.parametrize("two", [False, True])
def test_averitec(two: bool, tmp_path: Path) -> None:
    json_file(tmp_path / "data/dev.json", AVERITEC)
    loaded = load("averitec", tmp_path, ["dev"], {"two_labels": two})
    golds = (
        ["supported", "refuted", "refuted"] if two else ["supported", "refuted", "not_enough", "conflicting", "refuted"]
    )
    assert loaded.examples["gold"].to_list() == golds
    assert loaded.examples["gold_error"].to_list() == [{"supported": False, "refuted": True}.get(one) for one in golds]
    assert set(loaded.examples["length"]) == {4}
    assert loaded.examples["example_id"][-1] == "averitec-dev-00004"
    counts = [(count.counted, count.published) for count in loaded.counts]
    assert counts[:3] == ([(3, 427), (1, 122), (2, 305)] if two else [(5, None), (1, None), (2, None)])


def test_hover_by_hops(tmp_path: Path) -> None:
    json_file(tmp_path / "hover_dev_release_v1.1.json", HOVER)
    loaded = load("hover", tmp_path, ["dev"])
    assert columns(loaded.examples, "example_id", "gold", "hops") == [
        ("hover-dev-u2", "supported", 2), ("hover-dev-u3", "refuted", 3), ("hover-dev-u4", "supported", 4),
        ("hover-dev-other", "refuted", 4),
    ]  # fmt: skip
    assert [(count.counted, count.published) for count in loaded.counts[-3:]] == [(1, 1_126), (1, 1_835), (2, 1_039)]


def test_six_grades_become_two_and_half_true_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "test.tsv").write_text(LIAR, encoding="utf-8")
    whole = load("liar", tmp_path / "test.tsv").examples
    assert whole["gold"].to_list() == GRADES
    assert whole["gold_error"].to_list() == [False, False, None, None, True, True]
    assert whole["question"][0] == 'Says "true things.'
    loaded = load("liar", tmp_path, ["test"], {"two_labels": True})
    assert columns(loaded.examples, "example_id", "gold") == [
        ("liar-test-0", "supported"), ("liar-test-1", "supported"), ("liar-test-4", "refuted"),
        ("liar-test-5", "refuted"),
    ]  # fmt: skip
    assert [count.published for count in loaded.counts] == [790, 449, 341]


def test_feverous_without_its_first_row(tmp_path: Path) -> None:
    lines_file(tmp_path / "feverous_dev_challenges.jsonl", FEVEROUS)
    loaded = load("feverous", tmp_path, ["dev"], {"two_labels": True})
    assert columns(loaded.examples, "example_id", "gold") == [
        ("feverous-dev-7", "refuted"),
        ("feverous-dev-8", "supported"),
    ]
    assert [count.published for count in loaded.counts] == [7_389, 3_908, 3_481]


def test_quantemp_and_claimdecomp_with_two_labels(tmp_path: Path) -> None:
    rows = [claim(f"c{label}", label, "x") for label in ("True", "False", "Conflicting")]
    json_file(tmp_path / "test_claims_quantemp.json", rows)
    two = load("quantemp", tmp_path, ["test"], {"two_labels": True}).examples
    assert columns(two, "gold", "gold_error", "length") == [("supported", False, 1), ("refuted", True, 1)]
    assert two["labels"][0].to_list() == ["supported", "refuted"]
    lines_file(tmp_path / "test.jsonl", [decomposed(grade, grade) for grade in GRADES])
    two = load("claimdecomp", tmp_path / "test.jsonl", ["test"], {"two_labels": True}).examples
    assert two["label_original"].to_list() == ["true", "mostly-true", "false", "pants-fire"]


def test_um_actually(tmp_path: Path) -> None:
    loaded = load("um-actually", lines_file(tmp_path / "um.jsonl", UM))
    assert columns(loaded.examples, "example_id", "gold", "gold_error", "length", "gold_position", "season") == [
        ("a", "refuted", True, 7, 7, "2025"), ("um-actually-test-00001", "supported", False, 4, None, "2024"),
        ("um-actually-test-00002", "refuted", True, 1, 1, "2024"),
    ]  # fmt: skip
    people = ("human_correct", "human_position", "human_positions", "human_corrects")
    assert columns(loaded.examples, *people) == [
        (True, 7, [3, 7], [False, True]), (None, None, None, None), (True, None, None, None),
    ]  # fmt: skip
    assert [(count.counted, count.published) for count in loaded.counts[-4:]] == [(2, 60), (1, 35), (1, 119), (1, 95)]
    log = write_log(tmp_path / "log", name="um", tables={"examples": loaded.examples, "checks": CHECKS})
    check_log(log)
    assert describe(log).labels.rows() == [
        ("um-actually", "test", "refuted", 2),
        ("um-actually", "test", "supported", 1),
    ]


@pytest.mark.parametrize(
    ("change", "place"),
    [({"position": 8}, "position"), ({"position": 0}, "position"), ({"position": "2"}, "position"),
     ({"statement": " "}, "statement"), ({"error": None}, "position"), ({"answers": [3]}, "answers"),
     ({"answers": [{"right": "yes"}]}, "answers"), ({"answers": [{"right": True, "position": 9}]}, "answers")],
)  # fmt: skip
def test_statements_that_are_refused(change: dict[str, Any], place: str, tmp_path: Path) -> None:
    path = lines_file(tmp_path / "um.jsonl", [UM[1], UM[0] | change])
    with refuses("format", f"column `{place}`", "row 2"):
        load("um-actually", path)


@pytest.mark.parametrize(
    ("name", "row", "change", "options", "code", "place"),
    [("averitec", 0, {"label": "Maybe"}, {}, "format", "`label`"),
     ("hover", 0, {"num_hops": None}, {}, "format", "`num_hops`"),
     ("averitec", 0, {}, {"two_labels": "yes"}, "invalid", "`two_labels`"),
     ("averitec", 2, {}, {"two_labels": True}, "empty", "dev.json")],
)  # fmt: skip
def test_claims_that_are_refused(
    name: str, row: int, change: dict[str, Any], options: dict[str, Any], code: str, place: str, tmp_path: Path
) -> None:
    rows = {"averitec": AVERITEC, "hover": HOVER}[name]
    (tmp_path / "dev.json").write_text(json.dumps([rows[row] | change]), encoding="utf-8")
    with refuses(code, place):
        load(name, tmp_path / "dev.json", ["dev"], options)
