"""Frames in memory stand wherever a log does: checked as one, with its rows, and gone when nothing refers to them."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import thinkback as tb
from tests.errors import refuses
from tests.logs import GOLDS, POOL, log, tables
from toolkit.log.entry import IN_MEMORY
from toolkit.work_places import scratch_folder

FRAMES = tables({"pool": POOL}, GOLDS)
VOTE = tb.Sample(name="vote", max_traces=3, select="majority")
BEST = tb.Sample(name="best", max_traces=3, verifier="v")
FEW = tb.Settings(resamples=50)


class OfAnotherLibrary:
    """A frame that is known by Arrow's interface alone, as those of pandas are."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self.table: pa.Table = frame.to_arrow()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


FORMS: dict[str, Callable[[pl.DataFrame], Any]] = {
    "polars": lambda frame: frame,
    "lazy": lambda frame: frame.lazy(),
    "arrow": lambda frame: frame.to_arrow(),
    "another library's": OfAnotherLibrary,
    "shuffled": lambda frame: frame.sample(fraction=1.0, shuffle=True, seed=1).select(reversed(frame.columns)),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_run_on_frames_is_the_run_on_their_log(form: str, tmp_path: Path) -> None:
    given = {table: FORMS[form](frame) for table, frame in FRAMES.items()}
    written = tb.run(log(tmp_path, {"pool": POOL}, GOLDS), [VOTE, BEST], baseline="vote", settings=FEW)
    found = tb.run(given, [VOTE, BEST], baseline="vote", settings=FEW)
    assert found.summary.equals(written.summary)
    assert found.comparisons.equals(written.comparisons)
    assert found.outcomes.collect().equals(written.outcomes.collect())
    assert found.provenance["log"]["sha256"] == tb.open_log(FRAMES).digest()
    assert not found.simulated


def test_a_result_of_frames_tells_what_one_of_their_log_does(tmp_path: Path) -> None:
    policies = [VOTE, BEST, tb.Oracle(name="any", of=["pool"])]
    on_disk = log(tmp_path, {"pool": POOL}, GOLDS)
    found, written = (tb.run(given, policies, baseline="vote", settings=FEW) for given in (FRAMES, on_disk))
    assert str(found.explain("vote", "e1")) == str(written.explain("vote", "e1"))
    assert found.headroom().frame.equals(written.headroom().frame)
    sql = "SELECT policy, count(*) AS n FROM outcomes JOIN traces USING (example_id) GROUP BY policy ORDER BY policy"
    assert found.query(sql).equals(written.query(sql))
    for name, one in (("saved", found), ("written", written)):
        one.save(tmp_path / name, traces=True, texts=True, headroom=True)
    again = tb.load(tmp_path / "saved")
    assert str(again.explain("vote", "e1")) == str(tb.load(tmp_path / "written").explain("vote", "e1"))
    assert again.headroom().frame.equals(written.headroom().frame)
    with refuses("unsuitable", "`traces`", f"`{IN_MEMORY}`"):
        again.query("SELECT * FROM traces")


def test_the_digest_is_of_the_content_alone() -> None:
    digests = {tb.open_log({t: make(f) for t, f in FRAMES.items()}, name=n).digest() for n, make in FORMS.items()}
    assert len(digests) == 1
    other = FRAMES | {"traces": FRAMES["traces"].with_columns(prompt_tokens=11)}
    assert tb.open_log(other).digest() not in digests


def test_a_log_of_frames_has_a_name_and_may_be_simulated() -> None:
    opened = tb.open_log(FRAMES)
    assert (opened.name, opened.address, opened.simulated, opened.sealed) == (IN_MEMORY,) * 2 + (False, True)
    opened = tb.open_log(FRAMES, name="mine", simulated=True)
    assert (opened.name, opened.simulated) == ("mine", True)
    assert tb.run(opened, [VOTE], settings=FEW).simulated
    assert opened is tb.open_log(opened)


def test_everything_takes_frames() -> None:
    assert tb.explain(FRAMES, [VOTE], "vote", "e1").ending.startswith("cap")
    assert set(tb.curves(FRAMES, settings=FEW)["metric"]) == {"avg", "pass", "majority", "best"}
    found = tb.budgets(FRAMES, verifier="v", max_traces=2, orders={"generation": {"order": "generation"}}, settings=FEW)
    assert found.by_k.height > 0
    assert tb.describe_log(tb.open_log(FRAMES)).examples == 3
    dev = FRAMES["examples"].with_columns(
        split=pl.when(pl.col("example_id") == "e1").then(pl.lit("dev")).otherwise("split")
    )
    tuned = tb.tune(
        FRAMES | {"examples": dev}, [VOTE, BEST], on="split = 'dev'", report="split = 'test'", goal="max accuracy",
        settings=FEW,
    )  # fmt: skip
    assert tuned.report.statistics.n == 2


def test_a_log_s_functions_take_frames_and_addresses(tmp_path: Path) -> None:
    written = log(tmp_path, {"pool": POOL}, GOLDS)
    sql = "select count(*) from traces"
    for given in (FRAMES, written.address, written):
        assert tb.query_log(given, sql).item() == 9
        assert tb.describe_log(given).examples == 3
        assert tb.validate_log(given).ok


def test_all_that_is_wrong_with_frames_is_told_by_table_and_row() -> None:
    wrong = FRAMES | {
        "examples": FRAMES["examples"].with_columns(example_id=pl.lit("e1")),
        "traces": FRAMES["traces"].with_columns(trace_id=pl.lit("t")),
    }
    report = tb.validate_log(wrong)
    assert not report.ok
    assert {problem.file for problem in report.problems} == {"examples", "traces", "verifications"}
    with refuses("empty", "`log`"):
        tb.validate_log({})
    lacking = tb.validate_log(FRAMES | {"traces": FRAMES["traces"].drop("trace_id")})
    assert "`traces`, column `trace_id`: is missing" in str(lacking.problems[0])


def test_rows_in_memory_that_are_gone_say_what_they_were() -> None:
    for ask, table in (
        (lambda log: tb.run(log, [VOTE], settings=FEW), "examples"),
        (lambda log: tb.query_log(log, "select count(*) from traces"), "examples"),
        (lambda log: log.scan("traces").collect(), "traces"),
        (tb.describe_log, "verifications"),
    ):
        opened = tb.open_log(FRAMES)
        assert opened.scan("traces").collect().height == 9
        data = pickle.dumps(opened)
        assert pickle.loads(data).digest() == opened.digest()
        del opened
        gc.collect()
        with refuses("not-found", f"`{table}`"):
            ask(pickle.loads(data))


def test_a_log_is_shown_in_a_line(tmp_path: Path) -> None:
    assert repr(tb.open_log(FRAMES)) == f"Log {IN_MEMORY}: examples, traces, verifications"
    written = log(tmp_path, {"pool": POOL}, GOLDS)
    assert repr(written) == f"Log small at {written.address}: examples, traces, verifications"
    mine = tb.open_log(FRAMES, name="mine", simulated=True)
    assert repr(mine).startswith(f"Log mine (simulated) at {IN_MEMORY}: ")


def test_the_folder_goes_when_nothing_refers_to_the_log() -> None:
    opened = tb.open_log(FRAMES)
    (shard,) = opened.shards["traces"]
    folder = Path(shard.place.root).parent
    assert folder.parent == Path(scratch_folder()).parent
    scan = opened.scan("traces").filter(pl.col("sample_index") == 0).select("trace_id")
    assert "SELECTION" in scan.explain()  # no more is read than of a log on disk
    del opened
    gc.collect()
    assert folder.exists()
    del shard
    gc.collect()
    assert not folder.exists()
    assert scan.collect().height == 3
    assert tb.open_log(FRAMES).scan("traces").collect().height == 9


TRACES = FRAMES["traces"]
MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "no table": ({}, ("empty", "`log`", "`examples`", "`traces`")),
    "another table": ({"trace": TRACES}, ("unknown", "`trace`", "`traces`")),
    "no frame": ({"traces": 5}, ("invalid", "`traces`", "5")),
    "a lazy frame of what is not there": (FRAMES | {"traces": TRACES.lazy().select("tokens")}, ("read", "`traces`")),
    "a column": ({"traces": TRACES["pool"]}, ("invalid", "`traces`")),
    "a column that is missing": (FRAMES | {"traces": TRACES.drop("pool")}, ("missing-column", "`traces`", "`pool`")),
    "a wrong type": (
        FRAMES | {"traces": TRACES.with_columns(sample_index=pl.lit("x"))},
        ("type", "`traces`", "`sample_index`", "row 0", "int32"),
    ),
    "a null": (
        FRAMES | {"traces": TRACES.with_columns(pool=pl.when(pl.int_range(pl.len()) != 4).then("pool"))},
        ("null", "`traces`", "`pool`", "row 4"),
    ),
    "a negative index": (
        FRAMES | {"traces": TRACES.with_columns(sample_index=pl.col("sample_index") - 1)},
        ("negative", "`traces`", "`sample_index`", "row 0", "-1"),
    ),
    "an unknown example": (
        FRAMES | {"verifications": FRAMES["verifications"].with_columns(example_id=pl.lit("e9"))},
        ("unknown", "`verifications`", "row 0"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_mistake_is_named_by_table_column_and_row(mistake: str, lazy: bool) -> None:
    given, refusal = MISTAKES[mistake]
    if lazy:
        given = {table: frame.lazy() if isinstance(frame, pl.DataFrame) else frame for table, frame in given.items()}
    with refuses(*refusal) as error:
        tb.run(given, [VOTE])
    assert "\n" not in str(error.value)


def test_the_row_is_that_of_the_frame_that_was_given() -> None:
    """The log is sorted by example; the frame is not."""
    bad = pl.when(pl.col("trace_id") == "e1/pool/1").then(-3).otherwise("prompt_tokens").cast(pl.Int32)
    turned = TRACES.reverse().with_columns(prompt_tokens=bad)
    row = turned["trace_id"].to_list().index("e1/pool/1")
    with refuses("negative", "`traces`", "`prompt_tokens`", f"row {row}", "-3"):
        tb.open_log(FRAMES | {"traces": turned})


@pytest.mark.parametrize("key", [{"name": "x"}, {"simulated": True}])
def test_a_log_at_an_address_says_its_name_itself(key: dict[str, Any], tmp_path: Path) -> None:
    log(tmp_path, {"pool": POOL}, GOLDS)
    with refuses("conflict", f"`{next(iter(key))}`"):
        tb.open_log(tmp_path / "log", **key)
