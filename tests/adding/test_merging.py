"""Logs that were added to and then merged know what was added to their parts."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.adding.test_adding import CHANCE, SERVING, run, scores
from tests.errors import refuses
from tests.logs import make_log, make_rows
from toolkit.log import collect, merge_logs


def test_shards_of_copies_are_merged(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        make_log(folder / "log")
        run(folder, CHANCE + SERVING, shard=(number, 2))
    report = merge_logs([tmp_path / "1" / "log", tmp_path / "2" / "log"], tmp_path / "log")
    assert report.log.rows("verifications") == 30
    assert scores(tmp_path, "chance")["trace_id"].n_unique() == 30
    assert run(tmp_path, CHANCE + SERVING).steps == (), "what the parts have is not added again"
    with refuses("conflict", "`seed`", "0", "1"):
        run(tmp_path, CHANCE + SERVING, settings=["seed=1"])


def test_new_columns_of_copies_are_put_together(tmp_path: Path) -> None:
    """Both copies have the column `own`, with another value in one; each got the served features of half the traces."""
    for number in (1, 2):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        own = make_rows()["traces"].select("trace_id", "example_id", own=pl.lit(float(number)))
        make_log(folder / "log", features=own)
        run(folder, SERVING, shard=(number, 2))
    report = merge_logs([tmp_path / "1" / "log", tmp_path / "2" / "log"], tmp_path / "log")
    made = collect(report.log.scan("features", ["trace_id", "own", "response_words"]))
    assert made.height == 30
    assert made["response_words"].null_count() == 0
    assert made["own"].unique().to_list() == [1.0], "the first log's value wins"
    assert report.dropped["features"] == 15, "the second copy's rows of the other half give nothing"
    assert run(tmp_path, SERVING).steps == ()


def test_two_logs_with_verifiers_of_one_name_are_merged_and_added_to(tmp_path: Path) -> None:
    for number, name in enumerate(("sums", "others")):
        (tmp_path / name).mkdir()
        rows = make_rows(3)
        rows["examples"] = rows["examples"].with_columns(dataset=pl.lit(name))
        named = {
            table: frame.with_columns(pl.col("^(example_id|trace_id|parent_id)$").str.replace("s", f"{name}-"))
            for table, frame in rows.items()
        }
        make_log(tmp_path / name / "log", **named)
        run(tmp_path / name, f"seed = {number}\n{CHANCE}", limit=2)
    merge_logs([tmp_path / "sums" / "log", tmp_path / "others" / "log"], tmp_path / "log")
    for number, name in enumerate(("sums", "others")):
        done = run(tmp_path, f'seed = {number}\n{CHANCE}dataset = ["{name}"]\n')
        assert done.steps[0][1].rows == 5, "the last example of this data set, under the settings of its part"
    assert scores(tmp_path, "chance").height == 30
    with refuses("unknown", "`dataset`", "`sum`", "`sums`"):
        run(tmp_path, CHANCE + 'dataset = ["sum"]\n')
