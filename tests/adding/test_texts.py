"""A text that the log does not have is not an empty one."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from generate.traces.block import NO_TEXT, NO_TEXT_OF_ANOTHER
from tests.adding.test_adding import CHANCE, ENGINE, JUDGE, SERVING, run, scores
from tests.errors import refuses
from tests.logs import make_log, make_rows
from toolkit.log import collect

BEST = ENGINE + '[[verify]]\nname = "best"\nkind = "listwise"\nprompt = "best.txt"\npools = ["votes"]\n'
PEERS = '[embedding]\nmodel = "none"\n[[features]]\nkind = "peers"\npools = ["votes"]\n'


def silent(path: Path, text: pl.Expr | str = "text") -> None:
    """A log in which `s001/votes/2` has no text."""
    gone = pl.col("trace_id") == "s001/votes/2"
    make_log(path, traces=make_rows()["traces"].with_columns(text=pl.when(~gone).then(text)))


def test_a_trace_without_a_text_is_named_and_not_judged(tmp_path: Path) -> None:
    silent(tmp_path / "log")
    done = run(tmp_path, JUDGE + CHANCE, lambda _: '{"score": 0.5}')
    assert scores(tmp_path, "judge").height == 29
    assert scores(tmp_path, "chance").height == 30
    said = done.log.manifest.source["verifiers"]["judge"]["skipped"]
    assert said == [{"trace_id": "s001/votes/2", "reason": NO_TEXT}]
    assert run(tmp_path, JUDGE + CHANCE).steps == ()


def test_a_choice_among_traces_of_which_one_has_no_text_is_not_made(tmp_path: Path) -> None:
    silent(tmp_path / "log")
    done = run(tmp_path, BEST, lambda _: '{"best": 1}')
    assert "s001" not in scores(tmp_path, "best")["example_id"]
    said = {one["trace_id"]: one["reason"] for one in done.log.manifest.source["verifiers"]["best"]["skipped"]}
    assert sorted(said) == [f"s001/votes/{index}" for index in range(4)]
    assert said["s001/votes/2"] == NO_TEXT
    assert said["s001/votes/0"] == NO_TEXT_OF_ANOTHER


def test_features_of_a_text_that_is_not_there_are_null(tmp_path: Path) -> None:
    silent(tmp_path / "log", pl.lit("up and right"))
    done = run(tmp_path, SERVING + PEERS)
    rows = collect(done.log.scan("features", list(done.log.columns("features")))).sort("trace_id")
    one = rows.row(by_predicate=pl.col("trace_id") == "s001/votes/2", named=True)
    for name in ("response_words", "response_numbers", "response_lines", "peer_similarity"):
        assert one[name] is None
        assert rows[name].drop_nulls().len() >= 23
    assert one["prompt_words"] == 3
    assert one["answer_length"] == 1


def test_a_log_without_texts_is_refused(tmp_path: Path) -> None:
    make_log(tmp_path / "log", traces=make_rows()["traces"].drop("text"))
    for text in (JUDGE, BEST, PEERS):
        with refuses("unsuitable", "`traces`", "`text`") as error:
            run(tmp_path, text)
        assert "\n" not in str(error.value)
    made = collect(run(tmp_path, SERVING).log.scan("features", ["prompt_words", "response_words"]))
    assert (made["prompt_words"].null_count(), made["response_words"].null_count()) == (0, 30)
