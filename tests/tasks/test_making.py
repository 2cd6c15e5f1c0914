"""Splits without a common question, determinism, and the frame of examples."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from pathlib import Path

import polars as pl
import pytest

from generate.tasks import (
    SPLITS,
    TASKS,
    Algebra,
    Claims,
    answer_of,
    endless_questions,
    examples,
    first_questions,
    make_task,
    split_of_question,
    task_examples,
)
from tests.errors import refuses
from tests.seeds import seeds
from toolkit.log import check_log, write_log

BOTH = [Algebra(), Claims()]


@pytest.mark.parametrize("task", seeds(1, BOTH), ids=lambda task: task.name)
def test_splits_share_no_canonical_form_whatever_the_seed(task: Algebra | Claims) -> None:
    forms = {
        split: {item.canonical for seed in (0, 1) for item in first_questions(task, split, 150, seed)}
        for split in SPLITS
    }
    for split, own in forms.items():
        assert all(split_of_question(form) == split for form in own)
        assert all(not own & other for name, other in forms.items() if name != split)
    once = [item.canonical for item in first_questions(task, "test", 300, 0)]
    assert len(set(once)) == 300


def test_small_spaces_do_not_leak_either() -> None:
    """Where there are few questions chance would repeat them across splits at once."""
    small = Algebra(answer=4, factor=3, constant=6, terms=1, bracket=0.0)
    forms = [item.canonical for split in ("train", "dev", "test") for item in first_questions(small, split, 20, 0)]
    assert len(set(forms)) == 60


@pytest.mark.parametrize("task", BOTH, ids=lambda task: task.name)
def test_draws_depend_on_the_seed_and_the_place_alone(task: Algebra | Claims) -> None:
    ten = first_questions(task, "dev", 10, 5)
    assert first_questions(task, "dev", 4, 5) == ten[:4]
    assert list(islice(endless_questions(task, "dev", 5), 10)) == ten
    assert first_questions(task, "dev", 10, 6) != ten


def test_draws_are_the_same_in_another_process() -> None:
    code = (
        "from generate.tasks import *; "
        "print([i.question for t in (Algebra(), Claims()) for i in first_questions(t, 'test', 3, 7)])"
    )
    root = Path(__file__).resolve().parents[2]
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert told.stdout.strip() == str([item.question for task in BOTH for item in first_questions(task, "test", 3, 7)])


@pytest.mark.parametrize("task", BOTH, ids=lambda task: task.name)
def test_the_frame_is_a_log_s_examples(task: Algebra | Claims, tmp_path: Path) -> None:
    made = examples(task, {"train": 30, "dev": 10, "test": 20}, seed=3)
    assert made["split"].value_counts().sort("split")["count"].to_list() == [10, 20, 30]
    assert made["example_id"].is_unique().all()
    assert made["canonical"].is_unique().all()
    assert made.filter(pl.col("gold") != pl.col("solution").map_elements(answer_of, pl.String)).is_empty()
    labels = made["labels"].to_list()
    assert all(one == (list(task.labels) if task.labels else None) for one in labels)
    check_log(write_log(tmp_path / "log", name="tasks", tables={"examples": made, "traces": _traces(made)}))


def _traces(made: pl.DataFrame) -> pl.DataFrame:
    return made.select(
        trace_id=pl.col("example_id") + "-0", example_id="example_id", pool=pl.lit("one"), action=pl.lit("solve"),
        sample_index=pl.lit(0, pl.Int32), model=pl.lit("none"), answer="gold", correct=pl.lit(True),
    )  # fmt: skip


def test_tasks_by_name_with_settings() -> None:
    assert set(TASKS) == {"algebra_linear_1d", "numeric_claims", "invented_world", "invented_texts"}
    assert make_task("algebra_linear_1d", {"answer": 9}) == Algebra(answer=9)
    frame = task_examples("numeric_claims", ["dev", "test"], {"n": {"dev": 3, "test": 4}, "largest": 30})
    assert frame["split"].to_list() == ["dev"] * 3 + ["test"] * 4
    assert task_examples("algebra_linear_1d", ["train"], {"n": 2, "seed": 1}).height == 2


@pytest.mark.parametrize(
    ("name", "options", "refusal"),
    [
        ("algebra", {}, ("unknown", "`algebra_linear_1d`")),
        ("algebra_linear_1d", {"anwser": 3}, ("unknown", "`answer`")),
        ("algebra_linear_1d", {"answer": "3"}, ("invalid", "`answer`", "'3'", "1")),
        ("numeric_claims", {"n": {"dev": 3}}, ("required", "`n`", "`test`")),
        ("numeric_claims", {"n": 0}, ("invalid", "`n`", "0", "1")),
        ("numeric_claims", {"n": {"test": 2**62}}, ("invalid", "10,000,000")),
        ("numeric_claims", {"seed": "a"}, ("invalid", "`seed`", "'a'")),
    ],
)
def test_bad_settings_are_one_line(name: str, options: dict, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal) as caught:
        task_examples(name, ["test"], options)
    assert "\n" not in str(caught.value)


def test_an_unknown_split_is_named() -> None:
    with refuses("unknown", "`tset`", "`test`"):
        first_questions(Algebra(), "tset", 1, 0)


@pytest.mark.parametrize(
    ("text", "answer"),
    [("a=3\n#### 3", "3"), ("#### 3\n#### -4", "-4"), ("a=3", None), ("a=3\n####", None), ("#### ", None), ("", None)],
)
def test_an_answer_is_what_the_last_mark_says(text: str, answer: str | None) -> None:
    assert answer_of(text) == answer
