"""A frame of samples of any library: what is missing is told as an argument of Python, never as an option."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import thinkback as tb
from tests.errors import refuses
from tests.imports.somebody import EACH, RIGHT, TRUTH
from toolkit.errors import ThinkbackError

COLUMNS: dict[str, list[Any]] = {
    "prompt": [TRUTH.question(i) for i, _ in EACH],
    "truth": [TRUTH.gold[i] for i, _ in EACH],
    "pred": [TRUTH.said[i][k] for i, k in EACH],
    "reward": [TRUTH.score(i, k) for i, k in EACH],
}


@pytest.mark.parametrize(
    ("columns", "argument"),
    [
        ({"prompt": ["a", "b"], "gold": ["1", "2"]}, 'text="COLUMN"'),
        ({"prompt": ["a", "b"], "pred": ["1", "2"], "gold": ["1", "2"], "target": ["1", "3"]}, 'gold="target"'),
        ({"prompt": ["a", "a"], "pred": ["1", "2"], "gold": ["1", "3"]}, "settings=["),
    ],
    ids=["no output", "two golds", "one question"],
)
def test_what_a_frame_lacks_is_told_as_an_argument(columns: dict[str, list[str]], argument: str) -> None:
    for take in (tb.log, tb.report):
        with pytest.raises(ThinkbackError) as error:
            take(pl.DataFrame(columns))
        assert argument in str(error.value)
        assert "--set" not in str(error.value)


def test_a_report_on_a_frame_without_gold_says_which_argument_names_it() -> None:
    with refuses("unsuitable", 'gold="COLUMN"', "`tb.log`"):
        tb.report({"prompt": ["a", "b"], "pred": ["1", "2"]})


def test_a_data_set_of_hugging_face_is_a_log() -> None:
    datasets = pytest.importorskip("datasets")
    rows = datasets.Dataset.from_dict(COLUMNS)
    names = {"question": "prompt", "gold": "truth", "answer": "pred"}
    whole = tb.log(rows, scores=["reward"], **names)
    assert whole.scan("traces").collect()["correct"].sum() == RIGHT
    assert whole.scan("verifications").collect().height == len(EACH)
    some = tb.log(rows.shuffle(seed=1).select(range(100)), **names)
    assert some.scan("traces").collect().height == 100
    with refuses("invalid", "`test`"):
        tb.log(datasets.DatasetDict(test=rows), **names)
    assert tb.report(rows.rename_column("truth", "gold"), resamples=50).result.statistics.n == len(TRUTH.gold)
