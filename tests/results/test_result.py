"""A result is a value: shown, asked, saved, loaded and pickled, it is the same."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from generate.simulation.grid import simulate
from replay import Result
from toolkit.errors import ThinkbackError

POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n6"
max_traces = 1
select = "first"

[[policy]]
name = "best"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"

[[policy]]
name = "margin"
kind = "sample"
pool = "n6"
max_traces = 6
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.4] }

[[policy]]
name = "orders"
kind = "sample"
pool = "n6"
max_traces = 3
select = "majority"
orders = 3

[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "probe", max_traces = 1, select = "first" }
gate = { verifier = "strong", below = "all" }
then = { kind = "sample", pool = "n6", max_traces = 6, select = "majority" }
against = "oracle"

[[policy]]
name = "oracle"
kind = "oracle"
rule = "matched_rate"
base = "probe"
rate = 0.3
then = { kind = "sample", pool = "n6", max_traces = 6, select = "majority" }
"""
FRAMES = ("summary", "comparisons", "seconds", "thresholds", "bands", "by_summary", "by_comparisons", "examples")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "log"
    simulate(folder, examples=60, traces=6, labels=3, seed=5)
    return folder


@pytest.fixture(scope="module")
def result(log: Path) -> Result:
    return replay.run(log, POLICIES, baseline="best", by="split", resamples=60)


@pytest.fixture(scope="module")
def saved(result: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "saved"
    result.save(folder, traces=True, texts=True, curves=True)
    return folder


def same(one: Result, other: Result) -> None:
    for name in FRAMES:
        assert_frame_equal(getattr(one, name), getattr(other, name).drop("question", strict=False))
    assert_frame_equal(one.outcomes.collect(), other.outcomes.collect())
    assert one.policies == other.policies
    assert one.notes == other.notes
    assert one.columns == other.columns
    assert dict(one.excluded) == dict(other.excluded)
    assert [policy.settings for policy in one.policies] == [policy.settings for policy in other.policies]
    assert one.table(margin=0.1).markdown() == other.table(margin=0.1).markdown()
    assert one.table(cost="calls").csv() == other.table(cost="calls").csv()
    for group, statistics in one.groups.items():
        assert_frame_equal(statistics.summary, other.groups[group].summary)
        assert statistics.notes == other.groups[group].notes


def loaded(result: Result, folder: Path) -> Result:
    return replay.load(folder)


def pickled(result: Result, folder: Path) -> Result:
    return pickle.loads(pickle.dumps(result))


def pickled_when_loaded(result: Result, folder: Path) -> Result:
    return pickle.loads(pickle.dumps(replay.load(folder)))


@pytest.mark.parametrize("way", [loaded, pickled, pickled_when_loaded])
def test_another_copy_is_the_same(result: Result, saved: Path, way: Callable[[Result, Path], Result]) -> None:
    """Labels, shares of means over orders, groups, draws and the statistics of some examples alone among it."""
    other = way(result, saved)
    same(result, other)
    some = result.examples["example_id"].sample(30, seed=1)
    assert_frame_equal(result.judge.summary(some).summary, other.judge.summary(some).summary)
    assert np.array_equal(result.judge.draws("macro_f1"), other.judge.draws("macro_f1"), equal_nan=True)


def test_a_result_says_in_a_few_lines_what_it_is(result: Result, saved: Path) -> None:
    told = repr(result)
    assert told == repr(replay.load(saved))
    first, second, *rest = told.splitlines()
    assert first == f"Result: {len(result.policies)} policies on 60 examples of {result.log_name} (simulated)"
    assert second.startswith(f"  1. {result.leader}: accuracy % ")
    assert "  baseline: best" in rest
    assert len(told) < 600
    html = result._repr_html_()
    assert html.startswith("<div>")
    assert "<th>policy</th>" in html
    assert repr(result.policy("best")).splitlines()[0] == "Policy best (sample)"


def test_html_of_a_hostile_name_is_text(log: Path) -> None:
    named = POLICIES.split("\n\n")[0].replace('"first"', '"<script>alert(1)</script>"', 1)
    html = replay.run(log, named, resamples=5)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_a_policy_has_its_own_rows(result: Result) -> None:
    one = result.policy("best")
    assert one.outcomes.collect()["policy"].unique().to_list() == ["best"]
    assert one.summary["policy"].unique().to_list() == ["best"]
    assert one.record.settings["verifier"] == "strong"
    with pytest.raises(ThinkbackError, match="no policy is named `bets`; did you mean `best`"):
        result.policy("bets")


def test_sql_over_outcomes_and_the_log(result: Result, saved: Path, log: Path, tmp_path: Path) -> None:
    joined = "outcomes join traces using (example_id)"
    sql = f"select avg(outcomes.correct) from {joined} where policy = 'best' and pool = 'probe'"
    expected = result.policy("best").outcomes.select(pl.col("correct").mean()).collect().item()
    assert result.query(sql).item() == pytest.approx(expected)
    again = replay.load(saved)
    assert again.query(sql).item() == pytest.approx(expected)
    assert again.query("select count(*) from paid_traces").item() > 0
    with pytest.raises(ThinkbackError, match="only SELECT is answered"):
        again.query("drop table outcomes")


def test_sql_where_the_log_has_gone(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    replay.run(tmp_path / "log", POLICIES.split("\n\n")[0], resamples=5).save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "log")
    gone = replay.load(tmp_path / "saved")
    assert gone.query("select count(*) from outcomes").item() == 60
    with pytest.raises(ThinkbackError, match="`traces` is a table of the log .* which is not there"):
        gone.query("select count(*) from traces")
    with pytest.raises(ThinkbackError, match="saved without traces: replay again"):
        gone.explain("first", gone.examples["example_id"][0])
    with pytest.raises(ThinkbackError, match="saved without curves"):
        gone.curves()


def test_what_is_saved_by_trace_is_what_was_paid(result: Result, saved: Path) -> None:
    """As many traces as outcomes count, the answers that they give, each distinct order stored once."""
    outcomes = result.outcomes.collect()
    stops, orders, traces = (pl.read_parquet(saved / f"{name}.parquet") for name in ("stops", "orders", "traces"))
    paid = stops.group_by("policy", "example_id").agg(
        pl.col("generated").sum(), pl.col("chosen_slice", "chosen_sample").last()
    )
    both = outcomes.join(paid, on=["policy", "example_id"], how="left")
    one_path = both.filter(pl.col("answers").is_null())
    assert one_path["generated"].null_count() == 0
    assert (one_path["generated"] == one_path["traces"]).all()
    assert both.filter(pl.col("answers").is_not_null())["generated"].null_count() > 0
    said = one_path.join(
        traces.select("example_id", chosen_slice="slice", chosen_sample="sample", said="answer"),
        on=["example_id", "chosen_slice", "chosen_sample"], how="left",
    )  # fmt: skip
    assert said["said"].equals(said["answer"])
    walked = orders.filter(slice="n6", rule="generation")
    assert walked["order"].n_unique() == 1
    assert walked["samples"].to_list()[0] == list(range(6))
    assert (traces["text"].null_count(), "question" in pl.read_parquet_schema(saved / "examples.parquet")) == (
        len(traces),
        True,
    )  # fmt: skip  (a simulated log has no texts)
    assert_frame_equal(pl.read_parquet(saved / "curves.parquet"), result.curves())


def test_a_loaded_result_explains_as_the_log_does(result: Result, saved: Path) -> None:
    again = replay.load(saved)
    for example in result.examples["example_id"][:3]:
        for name in ("first", "best", "margin[stop.margin=0.1]", "oracle"):
            first, second = result.explain(name, example), again.explain(name, example)
            assert_frame_equal(first.outcomes, second.outcomes)
            row = first.outcomes.row(0, named=True)
            assert second.steps["answer"].filter(second.steps["chosen"]).to_list()[-1:] == (
                [row["answer"]] if second.steps["chosen"].any() else []
            )
            assert second.steps["tokens"][-1] == row["prompt_tokens"] + row["completion_tokens"]
    told = again.explain("orders", result.examples["example_id"][0])
    assert told.steps.is_empty()
    assert told.ending.startswith("no one path was saved, for this is a mean over several")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda folder: shutil.rmtree(folder), "no such folder"),
        (lambda folder: (folder / "result.json").unlink(), "it holds no `result.json`"),
        (lambda folder: (folder / "result.json").write_text("[" * 9000), "nested too deeply"),
        (lambda folder: edited(folder, version=2), "has version 2, this program reads up to 1: upgrade"),
        (lambda folder: edited(folder, format="x"), "no record of a result"),
        (lambda folder: edited(folder, policies=3), "is damaged"),
        (lambda folder: (folder / "outcomes.parquet").unlink(), "is damaged \\(a file of it is missing\\)"),
        (lambda folder: (folder / "summary.parquet").write_bytes(b"PAR1"), "is damaged"),
    ],
)
def test_what_is_no_result_is_one_line(saved: Path, tmp_path: Path, damage: Callable[[Path], Any], said: str) -> None:
    shutil.copytree(saved, tmp_path / "copy")
    damage(tmp_path / "copy")
    with pytest.raises(ThinkbackError, match=said):
        replay.load(tmp_path / "copy")


def edited(folder: Path, **changed: Any) -> None:
    record = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(record | changed))


def test_a_result_that_cannot_be_written_is_one_line(result: Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ThinkbackError, match="cannot write"):
        result.save(tmp_path / "file")


def test_outcomes_outlive_their_result(log: Path) -> None:
    frame = replay.run(log, POLICIES.split("\n\n")[0], resamples=5).outcomes
    assert frame.select(pl.len()).collect().item() == 60
    assert frame.filter(correct=1.0).select("example_id").head(2).collect().height == 2


def test_the_table_asks_for_a_baseline(log: Path) -> None:
    plain = replay.run(log, POLICIES.split("\n\n")[0], resamples=5)
    with pytest.raises(ThinkbackError, match="`margin` needs a baseline"):
        plain.table(margin=0.1)


def test_blocks_of_passes_merge(log: Path) -> None:
    """Two passes over halves of the examples, put together, are one."""
    from replay.runs.served import gather_all

    whole = replay.run(log, POLICIES, resamples=5)
    assert whole.source is not None
    plan = whole.source.plan
    policies = tuple(policy.resolve(plan.contents) for policy in replay.load_policies(POLICIES).policies)
    ids = plan.examples.frame["example_id"]
    parts = [gather_all(plan.among(ids[start::1][:30]), policies) for start in (30, 0)]
    merged = parts[0].merge(parts[1])
    assert merged.ids.to_list() == ids.to_list()
    everyone = np.arange(len(merged.versions.every))
    expected = gather_all(plan, policies)
    for name in merged.numbers:
        one = np.concatenate([block.slabs[name].rows(everyone) for block in merged.blocks], axis=1)
        two = np.concatenate([block.slabs[name].rows(everyone) for block in expected.blocks], axis=1)
        assert np.array_equal(one, two, equal_nan=True)
