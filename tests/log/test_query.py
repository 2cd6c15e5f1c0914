"""SQL over a log."""

from __future__ import annotations

import datetime as dt
import os
import resource
import threading
from pathlib import Path

import fsspec
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.errors import refuses
from tests.logs import examples, put, put_all, rounds, traces, whole
from toolkit.log import limited_memory, open_log, query_log, write_log
from toolkit.log.read.places import Place
from toolkit.log.read.query import _views_of


def test_tables_are_views_in_the_contracts_types(tmp_path: Path) -> None:
    put_all(tmp_path, whole(rounds=rounds()))
    put(tmp_path, "traces", traces()[:2].with_columns(pl.col("answer").cast(pl.Categorical)), "a.parquet")
    put(tmp_path, "traces", traces()[2:].with_columns(pl.col("sample_index").cast(pl.Float64)), "part-0.parquet")
    log = open_log(tmp_path)
    frame = query_log(log, "SELECT * FROM traces ORDER BY trace_id")
    expected = log.scan("traces").collect().sort("trace_id")
    assert frame.equals(expected.select(frame.columns))
    assert frame.schema == expected.select(frame.columns).schema
    joined = "traces JOIN verifications USING (trace_id)"
    both = f"SELECT pool, count(*) AS n, sum(score) AS s FROM {joined} GROUP BY 1 ORDER BY 1"
    assert query_log(log, both).rows() == [("n", 3, pytest.approx(1.7)), ("rev", 1, 0.8)]
    assert query_log(log, "SELECT sum(prompt_tokens) AS t FROM traces").schema == {"t": pl.Int64}
    lists = query_log(log, "SELECT documents, {'n': len(relevance)} AS s FROM rounds ORDER BY round")
    assert lists.rows() == [(["d1", "d2"], {"n": 2}), (["d3"], {"n": 1})]


def test_missing_tables_are_empty_views(tmp_path: Path) -> None:
    log = open_log(put_all(tmp_path, {"examples": examples()}))
    assert query_log(log, "SELECT trace_id, correct, token_logprobs FROM traces").schema == {
        "trace_id": pl.String,
        "correct": pl.Boolean,
        "token_logprobs": pl.List(pl.Float32),
    }
    assert query_log(log, "SELECT count(*) FROM checks").item() == 0


def test_hidden_states_have_a_view_per_model(tmp_path: Path) -> None:
    states = pl.DataFrame(
        {"trace_id": ["a0"], "layer": [-1], "token": [-1], "example_id": ["q1"], "state": [[1.0, 2.0]]},
        schema_overrides={"state": pl.Array(pl.Float16, 2)},
    )
    log = write_log(tmp_path / "log", name="x", tables=whole(**{"hidden_states/big-model.v1": states}))
    frame = query_log(log, "SELECT layer, list_sum(state) AS s FROM hidden_states_big_model_v1")
    assert frame.rows() == [(-1, 3.0)]


@pytest.mark.parametrize(
    ("sql", "refusal"),
    [
        ("SELEC 1", ("invalid",)),
        ("SELECT nope FROM traces", ("invalid",)),
        ("SELECT * FROM trace", ("invalid",)),
        ("SELECT 1; SELECT 2", ("invalid", "2")),
        ("", ("invalid", "0")),
        ("DROP VIEW traces", ("invalid",)),
        ("SELECT CAST(answer AS INT) FROM traces", ("invalid",)),
        ("SELECT * FROM read_csv('/etc/hostname')", ("invalid",)),
        ("SELECT 99999999999999999999::HUGEINT x", ("limit", "`x`", "99999999999999999999", "64")),
        ("SELECT INTERVAL 1 DAY x", ("unsuitable", "`x`")),
        ("SELECT {'a': [INTERVAL 1 DAY]} x", ("unsuitable", "`x`")),
        ("SELECT union_value(n := 1) x", ("unsuitable", "`x`")),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, sql: str, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        query_log(open_log(put_all(tmp_path, whole())), sql)


def test_a_query_writes_nothing(tmp_path: Path) -> None:
    folder = put_all(tmp_path / "log", whole())
    with refuses("invalid", "COPY"):
        query_log(open_log(folder), f"COPY traces TO '{tmp_path}/out.csv'")
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_no_thread_outlives_a_query(tmp_path: Path) -> None:
    """Python ends a thread that is within DuckDB by force, and with it the whole process."""
    log = open_log(put_all(tmp_path, {"examples": examples()}))
    before = threading.active_count()
    for _ in range(20):
        query_log(log, "select question from examples")
        assert threading.active_count() == before


def test_a_value_that_would_be_lost_is_named(tmp_path: Path) -> None:
    folder = put_all(tmp_path, whole(traces=traces(sample_index=[0.0, 1.0, 0.0, 0.5, 1.0])))
    with refuses("lossy", "`sample_index`", "row 3"):
        query_log(open_log(folder), "SELECT 1")


def test_remote_logs_are_queried(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "log"), "/queried", recursive=True)
    try:
        assert query_log(open_log("memory://queried"), "SELECT count(*) FROM traces").item() == 5
    finally:
        memory.rm("/queried", recursive=True)


@pytest.mark.parametrize("folder", ["pool=x", "run[1]", "a*b", "q?", "back\\[1]", "it's"])
def test_a_query_reads_the_shards_and_nothing_into_their_paths(tmp_path: Path, folder: str) -> None:
    """`pool=x/` is no column, and `run[1]/` no pattern that means `run1/`."""
    log = open_log(put_all(tmp_path / folder / "LOG", whole()))
    for other in ("run1", "axb", "qq"):
        put_all(tmp_path / other / "LOG", whole(traces=traces()[:1]))
    found = query_log(log, "SELECT pool, count(*) AS n FROM traces GROUP BY pool ORDER BY pool")
    assert found.rows() == [("n", 4), ("rev", 1)]
    with refuses("invalid", "traces/part-0.parquet"):
        query_log(log, f"SELECT * FROM '{tmp_path}/run1/LOG/traces/part-0.parquet'")


def test_a_further_column_may_be_missing_anywhere(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    day = dt.date(2026, 1, 2)
    put(tmp_path, "examples", examples(example_id=["q3", "q4"]), "part-1.parquet")
    put(tmp_path, "examples", examples(example_id=["q5", "q6"]).with_columns(day=pl.lit(day)), "part-2.parquet")
    nulls = examples(example_id=["q7", "q8"]).with_columns(day=pl.lit(None), never=pl.lit(None))
    put(tmp_path, "examples", nulls, "part-3.parquet")
    frame = query_log(open_log(tmp_path), "SELECT * FROM examples ORDER BY example_id")
    assert frame["day"].to_list() == [None] * 4 + [day] * 2 + [None] * 2
    assert frame["never"].to_list() == [None] * 8
    assert frame["question"].to_list() == examples()["question"].to_list() * 4


def test_columns_that_differ_in_case_alone_are_numbered(tmp_path: Path) -> None:
    put_all(tmp_path, {"examples": examples(), "traces": traces()[:2].with_columns(Answer=pl.lit("raw"))})
    put(tmp_path, "traces", traces()[2:4].with_columns(Answer=pl.lit("late")), "part-1.parquet")
    put(tmp_path, "traces", traces()[4:].drop("answer", "correct").with_columns(Answer=pl.lit("one")), "part-2.parquet")
    log = open_log(tmp_path)
    assert log.scan("traces").collect().sort("trace_id")["Answer"].to_list() == ["raw", "raw", "late", "one", "late"]
    frame = query_log(log, "SELECT answer, Answer_2 FROM traces ORDER BY trace_id")
    assert frame.rows() == [("4", "raw"), (None, "raw"), ("yes", "late"), (None, "one"), ("4", "late")]


def test_models_whose_views_would_share_a_name_are_numbered(tmp_path: Path) -> None:
    tables = whole()
    for token, model in enumerate(["a-b", "a_b", "A_b", "a_b_2"]):
        tables[f"hidden_states/{model}"] = pl.DataFrame(
            {"trace_id": ["a0"], "layer": [-1], "token": [token], "example_id": ["q1"], "state": [[1.0]]},
            schema_overrides={"state": pl.Array(pl.Float32, 1)},
        )
    log = open_log(put_all(tmp_path, tables))
    found = {view: query_log(log, f"SELECT token FROM {view}").item() for view in _views_of(log) if "hidden" in view}
    assert found == {
        "hidden_states_A_b": 2,
        "hidden_states_a_b_3": 1,  # A_b comes first, and the name a_b_2 belongs to a model
        "hidden_states_a_b_2": 3,
        "hidden_states_a_b_4": 0,
    }


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    path = tmp_path / "traces" / "part-0.parquet"
    group = pq.read_metadata(path).row_group(0)
    column = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == "answer")
    data = bytearray(path.read_bytes())
    start = column.dictionary_page_offset
    data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)
    with refuses("damaged", "`traces/part-0.parquet`", "`answer`"):
        query_log(open_log(tmp_path), "SELECT string_agg(answer) FROM traces")


def test_only_the_tables_that_the_sql_names_are_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    fsspec.filesystem("memory").put(str(tmp_path / "log"), "/named", recursive=True)
    fetched: list[str] = []
    plain = Place.local_copy
    monkeypatch.setattr(Place, "local_copy", lambda place, path: fetched.append(path) or plain(place, path))
    log = open_log("memory://named")
    assert query_log(log, "SELECT count(*) AS n FROM Traces").rows() == [(5,)]
    assert {path.split("/")[-2] for path in fetched} == {"traces"}
    with refuses("invalid", "examples"):
        query_log(log, "SELECT count(*) FROM query_table('exam' || 'ples')")


def test_a_querys_memory_is_limited_for_as_long_as_it_runs() -> None:
    """DuckDB's own limit does not hold for lists that its functions make: `list(range(300000000))`."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with limited_memory():
        soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
        assert 0 < soft <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
