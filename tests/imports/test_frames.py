"""A data frame of a notebook becomes a log, and a report, by what its columns are called."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import thinkback as tb
from tests.errors import refuses
from tests.imports.somebody import EACH, RIGHT, TRUTH, Expected, K, N, tokens
from tests.imports.test_guessing import check

COLUMNS: dict[str, list[Any]] = {
    "nr": [i for i, _ in EACH],
    "prompt": [TRUTH.question(i) for i, _ in EACH],
    "truth": [TRUTH.gold[i] for i, _ in EACH],
    "pred": [TRUTH.said[i][k] for i, k in EACH],
    "n_tokens": [TRUTH.tokens(i, k) for i, k in EACH],
    "rm": [TRUTH.score(i, k) for i, k in EACH],
    "mood": [TRUTH.score(i, k) / 2 for i, k in EACH],
}


class DataSet:
    """What a data set of Hugging Face is asked: its names, and its columns."""

    column_names = tuple(COLUMNS)

    def to_dict(self) -> dict[str, list[Any]]:
        return COLUMNS


def frames() -> dict[str, Any]:
    frame = pl.DataFrame(COLUMNS)
    return {
        "polars": frame, "lazy": frame.lazy(), "arrow": frame.to_arrow(), "dict": COLUMNS, "data set": DataSet(),
        "pandas": pytest.importorskip("pandas").DataFrame(COLUMNS),
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["polars", "lazy", "arrow", "dict", "data set", "pandas"])
def test_a_frame_of_any_kind_is_a_log(kind: str) -> None:
    log = tb.log(frames()[kind], id="nr", question="prompt", answer="pred", gold="truth", scores=["mood"])
    traces = log.scan("traces").collect()
    assert (log.rows("examples"), traces.height, log.rows("verifications")) == (N, N * K, N * K)
    assert (traces["correct"].sum(), traces["completion_tokens"].sum()) == (RIGHT, tokens())
    assert traces["answer"].dtype == pl.String
    assert log.scan("verifications").collect()["verifier"].unique().to_list() == ["mood"]


def test_what_is_not_named_is_guessed() -> None:
    log = tb.log(COLUMNS, id="nr", gold="truth")
    assert log.scan("traces").collect()["correct"].sum() == RIGHT
    assert log.scan("verifications").collect()["verifier"].unique().to_list() == ["rm"]


def test_all_missing_columns_are_named_at_once() -> None:
    with refuses("not-found", "`question`", "`answr`", "`score`", "`prompt`, `truth`"):
        tb.log(COLUMNS, question="question", answer="answr", scores="score")
    with refuses("unknown", "`anwser`"):
        tb.log(COLUMNS, anwser="pred")


def test_a_report_of_a_frame_shows_findings_table_and_figure() -> None:
    frame = pl.DataFrame(COLUMNS).rename({"nr": "question_id", "truth": "gold"}).drop("mood")
    page = tb.report(frame, resamples=60)
    html = page._repr_html_()
    assert page.result.statistics.n == N
    assert [part for part in ("<ul", "<table", "<svg") if part not in html] == []
    check(tb.log(frame), Expected(verifications=N * K, tokens=tokens()))
    with refuses("invalid", "`log`"):
        tb.report(3)
