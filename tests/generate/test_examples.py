"""Examples that a log can't hold are refused before anything is asked, each in one line that names the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from tests.errors import refuses
from tests.generate.toy import RECIPE, write_recipe

GOOD = {"example_id": "a", "question": "1 + 2", "gold": "3"}
SPLIT = RECIPE.replace('path = "examples.jsonl"', 'path = "examples.jsonl"\nsplit = ["7"]')
LABELS = RECIPE.replace('kind = "number"', 'kind = "label"\nlabels = ["A", "B"]')


def planned(folder: Path, row: dict[str, Any], text: str = RECIPE) -> Any:
    recipe = write_recipe(folder, 1, text)
    (folder / "examples.jsonl").write_text(json.dumps(GOOD | row) + "\n", encoding="utf-8")
    return make_plan(load_recipe(recipe)).examples.row(0, named=True)


@pytest.mark.parametrize(
    ("row", "refusal"),
    [
        ({"example_id": ["a"]}, ("invalid", "`example_id`")),
        ({"question": {"x": 1}}, ("invalid", "`question`")),
        ({"gold": [3]}, ("invalid", "`gold`")),
        ({"cluster": ["x"]}, ("invalid", "`cluster`")),
        ({"labels": "x"}, ("format", "`labels`")),
        ({"labels": ["4", "5"]}, ("invalid", "`3`")),
        ({"labels": ["3", "3"]}, ("invalid", "`['3', '3']`", "`labels`")),
        ({"dataset": None}, ("format", "`dataset`", "row 0")),
        ({"length": "x"}, ("format", "`length`")),
        ({"length": -1}, ("invalid", "`-1`", "`length`")),
        ({"question": None}, ("invalid", "`examples.jsonl`")),
    ],
)
def test_examples_that_a_log_cannot_hold(tmp_path: Path, row: dict[str, Any], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal, "`examples.jsonl`"):
        planned(tmp_path, row)


def test_a_reference_outside_the_recipes_labels(tmp_path: Path) -> None:
    with refuses("invalid", "`a`", "`gold`", "`C`"):
        planned(tmp_path, {"gold": "C"}, LABELS)


def test_numbers_stand_for_texts(tmp_path: Path) -> None:
    row = planned(tmp_path, {"example_id": 5, "gold": 3, "cluster": 9, "split": 7}, SPLIT)
    assert (row["example_id"], row["gold"], row["cluster"], row["split"]) == ("5", "3", "9", "7")
