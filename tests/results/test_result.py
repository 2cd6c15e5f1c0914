"""A result is a value: shown, asked, saved, loaded and pickled, it is the same."""

from __future__ import annotations

import copy
import gc
import json
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from generate.simulation.grid import simulate
from replay import Result
from replay.runs.explain.explain import SEVERAL
from replay.runs.saved.saved_folder import write_hashed
from tests.errors import refuses
from tests.logs import drawn
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.log.read.footers import hash_file

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
FRAMES = (
    "summary", "comparisons", "ranks", "seconds", "thresholds", "bands", "by_summary", "by_comparisons", "by_ranks",
    "examples",
)  # fmt: skip


log = drawn(simulate, examples=60, traces=6, labels=3, seed=5)


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
@pytest.mark.slow
def test_another_copy_is_the_same(result: Result, saved: Path, way: Callable[[Result, Path], Result]) -> None:
    """Labels, shares of means over orders, groups, draws and the statistics of some examples alone among it."""
    other = way(result, saved)
    same(result, other)
    some = result.examples["example_id"].sample(30, seed=1)
    assert_frame_equal(result.summariser.summary(some).summary, other.summariser.summary(some).summary)
    assert np.array_equal(
        result.summariser.resampled_values("macro_f1"), other.summariser.resampled_values("macro_f1"), equal_nan=True
    )


@pytest.mark.parametrize("cost", ["tokens", "total_tokens", "operations"])
def test_a_result_of_another_cost_is_loaded_and_ranks_by_it(log: Path, tmp_path: Path, cost: str) -> None:
    one = replay.run(log, POLICIES, cost=cost, resamples=20)
    one.save(tmp_path / "kept")
    assert replay.load(tmp_path / "kept").table().csv() == one.table().csv()


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
    with refuses("unknown", "`bets`", "`best`"):
        result.policy("bets")


def test_sql_over_outcomes_and_the_log(result: Result, saved: Path, log: Path, tmp_path: Path) -> None:
    joined = "outcomes join traces using (example_id)"
    sql = f"select avg(outcomes.correct) from {joined} where policy = 'best' and pool = 'probe'"
    expected = result.policy("best").outcomes.select(pl.col("correct").mean()).collect().item()
    assert result.query(sql).item() == pytest.approx(expected)
    again = replay.load(saved)
    assert again.query(sql).item() == pytest.approx(expected)
    assert again.query("select count(*) from paid_traces").item() > 0
    with refuses("invalid", "DROP"):
        again.query("drop table outcomes")


def test_sql_where_the_log_has_gone(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    replay.run(tmp_path / "log", POLICIES.split("\n\n")[0], resamples=5).save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "log")
    gone = replay.load(tmp_path / "saved")
    assert gone.query("select count(*) from outcomes").item() == 60
    with refuses("unsuitable", "`traces`"):
        gone.query("select count(*) from traces")
    with refuses("unsuitable", "`traces=True`"):
        gone.explain("first", gone.examples["example_id"][0])
    with refuses("unsuitable", "`curves=True`"):
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
            assert second.steps["tokens"][-1] == row["total_tokens"]
            assert ("score" in second.steps.columns) == (row["verifications"] > 0)
    told = again.explain("orders", result.examples["example_id"][0])
    assert told.steps.is_empty()
    assert told.ending.startswith(SEVERAL)


@pytest.mark.parametrize(
    ("damage", "refusal"),
    [
        (lambda folder: shutil.rmtree(folder), ("format", "`thinkback replay … --out DIR`")),
        (lambda folder: (folder / "result.json").unlink(), ("format", "`result.json`")),
        (lambda folder: (folder / "result.json").write_text("[" * 9000), ("limit", "result.json`")),
        (lambda folder: edited(folder, version=5), ("format", "5", "4")),
        (lambda folder: edited(folder, version=3), ("format", "3", "4")),
        (lambda folder: edited(folder, format="x"), ("format", "result.json`")),
        (lambda folder: edited(folder, record=3), ("damaged", "result.json`")),
        (lambda folder: edited(folder, record={"files": {}}), ("damaged", "result.json`")),
        (lambda folder: (folder / "outcomes.parquet").unlink(), ("damaged", "`outcomes.parquet`")),
        (lambda folder: (folder / "summary.parquet").write_bytes(b"PAR1"), ("damaged", "summary.parquet`")),
    ],
)
def test_what_is_no_result_is_one_line(
    saved: Path, tmp_path: Path, damage: Callable[[Path], Any], refusal: tuple[str, ...]
) -> None:
    shutil.copytree(saved, tmp_path / "copy")
    damage(tmp_path / "copy")
    with refuses(*refusal):
        replay.load(tmp_path / "copy")


Edit = Callable[[dict[str, Any]], Any]


@pytest.mark.parametrize(
    ("name", "edit", "refusal"),
    [
        ("result.json", lambda record: record.pop("metric"), ("required", "result.json`", "`metric`")),
        ("result.json", lambda record: record.update(metric="accuraxy"), ("invalid", "accuraxy")),
        ("result.json", lambda record: record.update(baseline="nobody"), ("invalid", "nobody")),
        ("result.json", lambda record: record.update(cost=["tokens"]), ("invalid", "`cost`")),
        ("result.json", lambda record: record.update(more=1), ("unknown", "`more`")),
        ("result.json", lambda record: record.update(by=["no column"]), ("format", "result.json`")),
        ("result.json", lambda record: record.update(strata="no column"), ("format", "result.json`")),
        ("result.json", lambda record: record.update(weights={"a": 0}), ("invalid", "`weights`")),
        ("result.json", lambda record: record["settings"].update(level=2), ("invalid", "`settings.level`")),
        ("result.json", lambda record: record["statistics"].pop("n"), ("required", "`statistics.n`")),
        ("result.json", lambda record: record["columns"][0].update(share={}), ("invalid", "`columns.1.share`")),
        ("result.json", lambda record: record["columns"][0].update(ratio=["a"]), ("invalid", "`columns.1.ratio`")),
        ("result.json", lambda record: record["policies"][0].update(swept=[["a"]]), ("invalid", "`policies.swept`")),
        ("result.json", lambda record: record["policies"].pop(), ("format", "result.json`")),
        ("result.json", lambda record: record["policies"].append(record["policies"][0]), ("invalid", "`policies`")),
        ("result.json", lambda record: record["files"].update({"../x": "0"}), ("format", "`files`")),
        ("result.json", lambda record: record["files"].pop("summary.parquet"), ("invalid", "`summary.parquet`")),
        ("run.json", lambda run: run.pop("log"), ("required", "`run.json.log`")),
        ("run.json", lambda run: run["log"].update(name=3), ("invalid", "`run.json.log.name`")),
        ("run.json", lambda run: run.update(policies=3), ("invalid", "`run.json.policies`")),
    ],
)
def test_a_record_that_was_changed_and_hashed_again_is_one_line(
    saved: Path, tmp_path: Path, name: str, edit: Edit, refusal: tuple[str, ...]
) -> None:
    """Saved results are read by a schema: each of these ended in a KeyError, a TypeError, or later."""
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder)
    record = json.loads((folder / "result.json").read_text())["record"]
    run = json.loads((folder / "run.json").read_text())
    edit(record if name == "result.json" else run)
    (folder / "run.json").write_text(json.dumps(run))
    record["files"]["run.json"] = hash_file(folder / "run.json")
    write_hashed(folder, record)
    with refuses(*refusal):
        replay.load(folder)


def edited(folder: Path, **changed: Any) -> None:
    record = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(record | changed))


def test_a_result_that_cannot_be_written_is_one_line(result: Result, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name, refusal in (("file", ("write", "file`")), ("file/below", ("write", "below`"))):
        with refuses(*refusal):
            result.save(tmp_path / name)


def test_a_folder_of_other_files_is_not_touched(result: Result, tmp_path: Path) -> None:
    (tmp_path / "traces.parquet").write_text("mine")
    with refuses("exists", f"`{tmp_path}`"):
        result.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["traces.parquet"]


def test_an_old_result_stays_whole_where_a_new_one_fails(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "kept")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("replay.runs.result.result.seal_findings", full)
        with refuses("write", "kept`"):
            result.save(tmp_path / "kept")
    same(result, replay.load(tmp_path / "kept"))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    result.save(tmp_path / "kept", curves=True)  # another one takes its place as a whole
    assert replay.load(tmp_path / "kept").curves().height


def test_what_lies_at_its_place_by_now_is_not_read(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "kept")
    held = replay.load(tmp_path / "kept")
    (tmp_path / "kept").rename(tmp_path / "moved")
    with refuses("not-found", "outcomes.parquet`"):
        held.outcomes.collect()
    few = replay.run(result.source.plan.log, POLICIES.split("\n\n")[0], resamples=5)  # type: ignore[union-attr]
    few.save(tmp_path / "kept")
    for ask in (
        lambda: held.outcomes.collect(),
        lambda: held.summariser.summary(),
        lambda: held.query("select * from outcomes"),
    ):
        with refuses("damaged", "outcomes.parquet`"):
            ask()


def test_a_relative_folder_is_found_from_elsewhere(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result.save(tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    held = replay.load("kept")
    monkeypatch.chdir("/")
    assert held.outcomes.select(pl.len()).collect().item() == result.outcomes.select(pl.len()).collect().item()


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_file_gives_one_line_or_the_result(result: Result, saved: Path, tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shutil.copytree(saved, tmp_path / "copy")
    file = sorted((tmp_path / "copy").iterdir())[seed % 16]
    data = bytearray(file.read_bytes())
    for place in rng.integers(0, len(data), 3):
        data[place] ^= 1 << int(rng.integers(0, 8))
    file.write_bytes(bytes(data))
    try:
        held = replay.load(tmp_path / "copy")
        assert held.outcomes.select(pl.col("correct").mean()).collect().item() is not None
        held.explain("best", held.examples["example_id"][0], texts=True)
        same(result, held)
    except ThinkbackError as error:
        said = str(error)
        assert "\n" not in said


def test_groups_keep_their_values(log: Path, tmp_path: Path) -> None:
    tables = {name: pl.read_parquet(log / name / "*.parquet") for name in ("examples", "traces")}
    number = pl.int_range(pl.len())
    day = pl.date(2026, 1, 1) + pl.duration(days=number % 2)
    tables["examples"] = tables["examples"].with_columns(
        flag=number % 3 == 0, day=day, at=day.cast(pl.Datetime("us")), part=pl.when(number % 2 == 0).then(pl.lit("a"))
    )
    for by in ("flag", "day", "at", "part"):
        result = replay.run(tables, POLICIES.split("\n\n")[0], by=by, resamples=5)
        result.save(tmp_path / by)
        again = replay.load(tmp_path / by)
        assert list(again.groups) == list(result.groups)
        for group, statistics in result.groups.items():
            assert statistics.summary.height
            assert_frame_equal(statistics.summary, again.groups[group].summary)


def test_groups_cannot_be_called_as_a_column_of_the_tables(log: Path) -> None:
    tables = {name: pl.read_parquet(log / name / "*.parquet") for name in ("examples", "traces")}
    tables["examples"] = tables["examples"].with_columns(policy=pl.lit("x"))
    with refuses("conflict", "`policy`"):
        replay.run(tables, POLICIES.split("\n\n")[0], by="policy", resamples=5)


def test_records_are_json_to_every_reader(saved: Path) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    for name in ("run.json", "result.json"):
        json.loads((saved / name).read_text(), parse_constant=refuse)
    ends = [dict(policy.swept).get("gate.below") for policy in replay.load(saved).policies]
    assert float("inf") in ends


def test_copies_are_the_result_itself(result: Result) -> None:
    assert copy.copy(result) is result
    assert copy.deepcopy([result])[0] is result


def test_an_interrupted_table_is_not_taken_for_a_whole_one(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = replay.run(log, POLICIES.split("\n\n")[0], resamples=5)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("replay.runs.passes.store.FrameWriter.write_row_group", stop)
        with pytest.raises(KeyboardInterrupt):
            result.query("select count(*) from outcomes")
    assert result.query("select count(*) from outcomes").item() == 60


def test_an_explanation_is_of_an_example_that_is_compared(result: Result, log: Path) -> None:
    name = str(result.examples["example_id"][0])
    part = replay.run(log, POLICIES, where=f"example_id <> '{name}'", resamples=5)
    for policy in ("oracle", "best"):
        with refuses("unknown", f"`{name}`"):
            part.explain(policy, name)
    for example in part.examples["example_id"][:2]:
        for policy in ("oracle", "gated[gate.below=inf]"):
            stored = part.policy(policy).outcomes.filter(pl.col("example_id") == example).collect()
            assert_frame_equal(part.explain(policy, example).outcomes, stored)
        assert re.match(r"it (does not )?intervene", part.explain("oracle", example).ending)


def test_sql_may_name_columns_that_are_called_as_a_table(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    replay.run(tmp_path / "log", POLICIES.split("\n\n")[0], resamples=5).save(tmp_path / "saved")
    shutil.rmtree(tmp_path / "log")
    assert replay.load(tmp_path / "saved").query("select avg(traces) from outcomes").item() == 1.0


@pytest.mark.parametrize(
    ("ask", "refusal"),
    [
        (lambda r: r.table(margin="x"), ("invalid", "`margin`")),
        (lambda r: r.table(limit=0), ("invalid", "`limit`", "0")),
        (lambda r: r.table(cost=3), ("invalid", "`cost`")),
        (lambda r: r.policy(3), ("invalid", "`name`")),
        (lambda r: r.explain("best", 3), ("invalid", "`example`")),
        (lambda r: r.save(3), ("invalid", "`directory`")),
        (lambda r: r.save("x", traces="no"), ("invalid", "`traces`")),
        (lambda r: r.query(3), ("invalid", "`sql`")),
    ],
)
def test_wrong_kinds_are_one_line(result: Result, ask: Callable[[Result], Any], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        ask(result)


def test_a_log_that_is_another_by_now_is_not_read(log: Path, tmp_path: Path) -> None:
    shutil.copytree(log, tmp_path / "log")
    live = replay.run(tmp_path / "log", POLICIES.split("\n\n")[0], resamples=5)
    example = live.examples["example_id"][0]
    shutil.rmtree(tmp_path / "log")
    for again in (False, True):
        if again:
            simulate(tmp_path / "log", examples=60, traces=6, labels=4, seed=9)
        for ask in (
            lambda: live.explain("first", example),
            lambda: live.save(tmp_path / "saved", traces=True),
            lambda: live.curves(),
            lambda: live.query("select count(*) from traces"),
        ):
            with pytest.raises(ThinkbackError) as error:
                ask()
            assert error.value.code in ("not-found", "unsuitable")
        assert not (tmp_path / "saved").exists()
    assert live.query("select count(*) from examples").item() == 60
    assert live.table().rows


def test_dropped_policies_say_so(log: Path) -> None:
    big = replay.Sample(name="big", pool="n6", max_traces=99, select="majority")
    one = replay.Sample(name="one", pool="n6", max_traces=1, select="first")
    kept = replay.run(log, [one, big], resamples=5)
    for ask in (lambda: kept.policy("big"), lambda: kept.explain("big", kept.examples["example_id"][0])):
        with refuses("unsuitable", "`big`"):
            ask()


def test_shown_text_is_harmless_in_short_too(log: Path) -> None:
    named = replay.Sample(name="\x1b[31mred\u202e\nx", pool="n6", max_traces=1, select="first")
    result = replay.run(log, [named], resamples=5)
    for told in (repr(result), repr(result.policy(named.name)), str(result.table())):
        assert "\x1b" not in told
        assert "\u202e" not in told
    assert repr(result).count("\n") == 1


def test_the_table_is_the_commands(result: Result) -> None:
    assert result.table().csv().splitlines()[0].endswith(",simulated")
    assert str(result.table(limit=5)).startswith("Policies on ")


def test_a_member_of_every_threshold_can_be_explained(log: Path, result: Result) -> None:
    example = result.examples["example_id"][0]
    told = replay.explain(log, POLICIES, "gated[gate.below=0.5]", example)
    assert any(stage.title == "the gate" for stage in told.stages)
    assert str(told).startswith(f"example   {example}")
    with refuses("ambiguous", "`gated[gate.below=0.5]`"):
        replay.explain(log, POLICIES, "gated", example)


def test_outcomes_outlive_their_result(log: Path) -> None:
    frame = replay.run(log, POLICIES.split("\n\n")[0], resamples=5).outcomes
    assert frame.select(pl.len()).collect().item() == 60
    assert frame.filter(correct=1.0).select("example_id").head(2).collect().height == 2


def test_outcomes_outlive_a_result_that_was_pickled(result: Result) -> None:
    """What Ray and joblib hand back."""
    data = pickle.dumps(result)
    expected = result.outcomes.select(pl.len()).collect().item()
    frames = [pickle.loads(data).outcomes, pickle.loads(data).policy("best").outcomes]
    part = pickle.loads(data).policy("best")
    gc.collect()
    assert [frame.select(pl.len()).collect().item() for frame in (*frames, part.outcomes)] == [expected, 60, 60]
    folder = pickle.loads(data).folder
    path = folder.path
    gc.collect()
    assert path.is_dir()
    del folder, frames, part
    gc.collect()
    assert not path.exists()


def test_a_log_is_found_after_a_change_of_folder(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a run's own result from anywhere; what is saved and shown names the log as it was named."""
    shutil.copytree(log, tmp_path / "logs" / "small")
    monkeypatch.chdir(tmp_path)
    text = POLICIES.split("\n\n")[0]
    results = [replay.run(address, text, resamples=5) for address in ("logs/small", "logs/sm*l")]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    for number, live in enumerate(results):
        assert live.explain("first", str(live.examples["example_id"][0])).ending
        assert live.query("select count(*) from traces").item() > 60
        assert live.curves().height
        live.save(tmp_path / f"kept{number}", traces=True)
        for file in (tmp_path / f"kept{number}").glob("*.json"):
            assert str(tmp_path) not in file.read_text()
        assert live.provenance["log"]["address"] in ("logs/small", "logs/sm*l")
        assert str(tmp_path) not in live.table().markdown()


def test_a_saved_result_finds_its_log_beside_it(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Named relatively, it is looked for from the working directory and from the folders above the result."""
    (tmp_path / "work" / "logs").mkdir(parents=True)
    shutil.copytree(log, tmp_path / "work" / "logs" / "small")
    monkeypatch.chdir(tmp_path / "work")
    replay.run("logs/small", POLICIES.split("\n\n")[0], resamples=5).save("out/kept")
    monkeypatch.chdir(tmp_path)
    ask = "select count(*) from traces"
    assert replay.load("work/out/kept").query(ask).item() > 60
    shutil.copytree(tmp_path / "work" / "out" / "kept", tmp_path / "kept")
    with refuses("unsuitable", "`logs/small`"):
        replay.load("kept").query(ask)
    monkeypatch.chdir(tmp_path / "work")
    assert replay.load(tmp_path / "kept").query(ask).item() > 60
    simulate(tmp_path / "other" / "logs" / "small", examples=9, traces=2, labels=3, seed=6)
    monkeypatch.chdir(tmp_path / "other")
    assert replay.load(tmp_path / "work" / "out" / "kept").query(ask).item() > 60  # here is another by that name


@pytest.mark.parametrize("view", seeds(2, ["paid_traces", "STOPS", "paid_scores", "orders", "stops"]))
def test_the_part_by_trace_is_asked_for_where_it_is(result: Result, saved: Path, tmp_path: Path, view: str) -> None:
    assert replay.load(saved).query(f"select count(*) from {view}").item()
    with refuses("unsuitable", f"`{view.lower()}`"):
        result.query(f"select * from {view}")
    for bare in (pickle.loads(pickle.dumps(result)), plain(result, tmp_path)):
        with refuses("unsuitable", f"`{view.lower()}`"):
            bare.query(f"select * from {view}")


def plain(result: Result, folder: Path) -> Result:
    result.save(folder / "plain")
    return replay.load(folder / "plain")


def test_a_prompt_shows_a_long_table_in_short(result: Result) -> None:
    table = result.table()
    assert len(table.rows) > 20
    told = repr(table)
    assert told.splitlines()[0] == str(table).splitlines()[0]
    assert f"{len(table.rows) - 10:,} more rows: `print` shows them." in told
    assert len(told) < 4000 < len(str(table))
    few = replace(table, rows=table.rows[:10])
    assert repr(few) == str(few)


def test_the_table_asks_for_a_baseline(log: Path) -> None:
    plain = replay.run(log, POLICIES.split("\n\n")[0], resamples=5)
    with refuses("required", "`margin`"):
        plain.table(margin=0.1)


def test_blocks_of_passes_merge(log: Path) -> None:
    """Two passes over halves of the examples, put together, are one."""
    from replay.runs.passes.covered import _pass_over_log

    whole = replay.run(log, POLICIES, resamples=5)
    assert whole.source is not None
    plan = whole.source.plan
    policies = tuple(policy.resolve(plan.contents) for policy in replay.load_policies(POLICIES).policies)
    ids = plan.examples.frame["example_id"]
    merged, second = (_pass_over_log(plan.with_ids(ids[start::1][:30]), policies) for start in (0, 30))
    merged.append_blocks(second.blocks)
    with refuses("mismatch", "ids"):
        merged.append_blocks(_pass_over_log(plan.with_ids(ids[20:40]), policies).blocks)
    assert merged.example_ids.to_list() == ids.to_list()
    everyone = np.arange(len(merged.versions.every))
    expected = _pass_over_log(plan, policies)
    for name in merged.numbers:
        one = np.concatenate(
            [block.tables.values(name, everyone, 0, len(block.ids)) for block in merged.blocks], axis=1
        )
        two = np.concatenate(
            [block.tables.values(name, everyone, 0, len(block.ids)) for block in expected.blocks], axis=1
        )
        assert np.array_equal(one, two, equal_nan=True)


def test_a_fault_in_a_rule_of_ones_own_has_its_line(log: Path, tmp_path: Path) -> None:
    rules = tmp_path / "mine.py"
    rules.write_text(
        "from dataclasses import dataclass\n\n\n@dataclass(frozen=True)\nclass Mine:\n    def holds(self, seen):\n"
        "        return seen.traces[:, 99] > 1\n"
    )
    text = POLICIES.split("\n\n")[0].replace('max_traces = 1\nselect = "first"', 'max_traces = 4\nselect = "majority"')
    with refuses("rule", "`Mine`", "7"):
        replay.run(log, f'{text}\nstop = "Mine"', rules=rules, resamples=5)
