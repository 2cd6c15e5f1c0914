"""Reading logs that other tools wrote: where they lie, what types they have, what is refused."""

from __future__ import annotations

import decimal
import itertools
import json
import shutil
import sys
import time
from pathlib import Path

import fsspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.errors import quotes, refuses
from tests.logs import examples, make_rows, put, put_all, traces, verifications, whole
from toolkit.log import SCHEMAS, Log, LogError, collect, open_log, write_log

IDS = pa.array(["b", "a"])


def verification_table(**columns: pa.Array) -> pa.Table:
    plain = {
        "trace_id": pa.array(["t1", "t0"]),
        "verifier": pa.array(["v", "v"]),
        "example_id": IDS,
        "score": pa.array([0.5, 1.0]),
    }
    return pa.table(plain | columns)


def read(tmp_path: Path, **columns: pa.Array) -> pl.DataFrame:
    put(tmp_path, "verifications", verification_table(**columns))
    return open_log(tmp_path).scan("verifications").collect().sort("trace_id", descending=True)


STRINGS = [
    pa.array(["x", None]),
    pa.array(["x", None], pa.large_string()),
    pa.array(["x", None], pa.string_view()),
    pa.array(["x", None]).dictionary_encode(),
    pa.array(["x", None], pa.large_string()).dictionary_encode(),
]


@pytest.mark.parametrize("array", STRINGS, ids=lambda a: str(a.type))
def test_any_string_is_read(tmp_path: Path, array: pa.Array) -> None:
    put(tmp_path, "examples", pa.table({"example_id": IDS, "cluster": array} | _texts(2)))
    frame = open_log(tmp_path).scan("examples").collect()
    assert frame.schema["cluster"] == pl.String
    assert frame["cluster"].to_list() == ["x", None]


def _texts(count: int) -> dict[str, pa.Array]:
    return {name: pa.array(["t"] * count) for name in ("dataset", "split", "question")}


LISTS = [
    pa.array([["x"], []], pa.list_(pa.string())),
    pa.array([["x"], []], pa.large_list(pa.large_string())),
    pa.array([["x"], []], pa.list_view(pa.string())),
    pa.array([["x"], []], pa.large_list_view(pa.string_view())),
    pa.array([["x"], []], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
]


@pytest.mark.parametrize("array", LISTS, ids=lambda a: str(a.type))
def test_any_list_is_read(tmp_path: Path, array: pa.Array) -> None:
    put(tmp_path, "examples", pa.table({"example_id": IDS, "labels": array} | _texts(2)))
    frame = open_log(tmp_path).scan("examples").collect()
    assert frame.schema["labels"] == pl.List(pl.String)
    assert frame["labels"].to_list() == [["x"], []]


def test_fixed_size_list_is_read_as_list(tmp_path: Path) -> None:
    array = pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    put(tmp_path, "traces", traces()[:2].to_arrow().append_column("token_logprobs", array))
    frame = open_log(tmp_path).scan("traces", ["token_logprobs"]).collect()
    assert frame.schema["token_logprobs"] == pl.List(pl.Float32)
    assert frame["token_logprobs"].to_list() == [[1.0, 2.0], None]


NUMBERS = [
    pa.array([3, None], kind)
    for kind in (
        pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64(),
        pa.float16(), pa.float32(), pa.float64(),
    )
] + [
    pa.array([decimal.Decimal("3.00"), None], kind)
    for kind in (pa.decimal32(5, 2), pa.decimal64(12, 2), pa.decimal128(20, 2), pa.decimal256(38, 2),
                 pa.decimal256(60, 2))
]  # fmt: skip


@pytest.mark.parametrize("array", NUMBERS, ids=lambda a: str(a.type))
@pytest.mark.parametrize(("column", "dtype"), [("prompt_tokens", pl.Int32), ("latency_s", pl.Float32)])
def test_any_number_is_read(tmp_path: Path, array: pa.Array, column: str, dtype: type[pl.DataType]) -> None:
    frame = read(tmp_path, **{column: array})
    assert frame.schema[column] == dtype
    assert frame[column].to_list() == [3, None]


def test_decimals_and_doubles_are_rounded_to_the_contract(tmp_path: Path) -> None:
    frame = read(
        tmp_path,
        score=pa.array([decimal.Decimal("0.1"), decimal.Decimal("0.25")], pa.decimal128(5, 2)),
        latency_s=pa.array([0.1, 0.25]),
    )
    assert frame["score"].to_list() == [0.1, 0.25]
    assert frame["latency_s"].to_list() == pl.Series([0.1, 0.25], dtype=pl.Float32).to_list()


def test_all_null_column_serves_a_nullable_one(tmp_path: Path) -> None:
    frame = read(tmp_path, candidates=pa.nulls(2))
    assert frame.schema["candidates"] == pl.Int32
    assert frame["candidates"].to_list() == [None, None]


def test_features_are_float64_and_others_travel_along(tmp_path: Path) -> None:
    table = pa.table(
        {
            "trace_id": pa.array(["t"]),
            "example_id": pa.array(["e"]),
            "length": pa.array([7], pa.int16()),
            "share": pa.array([0.5], pa.float32()),
            "never": pa.nulls(1),
            "comment": pa.array(["kept"]),
        }
    )
    put(tmp_path, "features", table)
    log = open_log(tmp_path)
    assert log.columns("features") == {
        "trace_id": pl.String,
        "example_id": pl.String,
        "length": pl.Float64,
        "share": pl.Float64,
        "never": pl.Float64,
        "comment": pl.String,
    }
    assert log.scan("features", ["length", "comment"]).collect().row(0) == (7.0, "kept")


LOSSES = [
    ("prompt_tokens", pa.array([1.0, 1.5]), ("lossy", "`1.5`")),
    ("prompt_tokens", pa.array([1.0, float("nan")]), ("lossy", "`nan`")),
    ("prompt_tokens", pa.array([1, 2**31]), ("lossy", "`2147483648`")),
    ("prompt_tokens", pa.array([1, -(2**31) - 1]), ("lossy", "`-2147483649`")),
    ("prompt_tokens", pa.array([1, 2**63], pa.uint64()), ("lossy", "`9223372036854775808`")),
    ("prompt_tokens", pa.array([1, 2**32 - 1], pa.uint32()), ("lossy", "`4294967295`")),
    ("prompt_tokens", pa.array([1.0, 3e9]), ("lossy", "`3000000000.0`")),
    ("prompt_tokens", pa.array([decimal.Decimal("1.0"), decimal.Decimal("2.5")]), ("lossy", "`Decimal('2.5')`")),
    ("latency_s", pa.array([1.0, 1e39]), ("lossy", "`1e+39`")),
    ("latency_s", pa.array([1, 2**25 + 1]), ("lossy", "`33554433`")),
    ("score", pa.array([1, 2**53 + 1]), ("lossy", "`9007199254740993`")),
]


@pytest.mark.parametrize(("column", "array", "refusal"), LOSSES, ids=lambda x: str(x)[:20])
def test_a_value_that_would_be_lost_is_named(
    tmp_path: Path, column: str, array: pa.Array, refusal: tuple[str, ...]
) -> None:
    put(tmp_path, "verifications", verification_table(**{column: array}))
    with refuses(*refusal, "`verifications/part-0.parquet`", f"`{column}`", "row 1"):
        open_log(tmp_path).scan("verifications", [column])


WRONG = [
    ("score", pa.array(["0.5", "1"]), ("string", "float64")),
    ("prompt_tokens", pa.array([True, False]), ("bool", "int32")),
    ("verifier", pa.array([1, 2]), ("int64", "string")),
    ("verifier", pa.array([b"v", b"v"]), ("binary", "string")),
    ("latency_s", pa.array([[1.0], []]), ("list<float64>", "float32")),
]


@pytest.mark.parametrize(("column", "array", "types"), WRONG, ids=lambda x: str(x)[:20])
def test_a_wrong_type_is_named(tmp_path: Path, column: str, array: pa.Array, types: tuple[str, str]) -> None:
    put(tmp_path, "verifications", verification_table(**{column: array}))
    with refuses("type", "`verifications/part-0.parquet`", f"`{column}`", "row 0", *types):
        open_log(tmp_path).scan("verifications")


def test_a_loss_in_a_list_is_named(tmp_path: Path) -> None:
    clusters = pa.array([[1, 2], [2**40]])
    put(tmp_path, "rounds", pa.table({"clusters": clusters}))
    with refuses("lossy", "rounds/part-0.parquet`", "`clusters`", "`[1099511627776]`", "row 1"):
        open_log(tmp_path).scan("rounds", ["clusters"])


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    put(tmp_path, "traces", traces().drop("pool"))
    with refuses("missing-column", "`traces/part-0.parquet`", "`pool`", "string"):
        open_log(tmp_path).scan("traces")


def test_an_all_null_required_column_is_named(tmp_path: Path) -> None:
    put(tmp_path, "traces", traces().with_columns(pool=pl.lit(None)))
    with refuses("null", "`traces/part-0.parquet`", "`pool`", "row 0"):
        open_log(tmp_path).scan("traces")


def test_shards_of_different_types_and_columns_are_read_together(tmp_path: Path) -> None:
    put(tmp_path, "traces", traces()[:2].with_columns(extra=pl.lit(1)), "a.parquet")
    narrow = traces()[2:].with_columns(pl.col("sample_index").cast(pl.Int8), extra=pl.lit(1.5)).drop("prompt_tokens")
    put(tmp_path, "traces", narrow.select(reversed(narrow.columns)), "b.parquet")
    put(tmp_path, "traces", traces()[:0], "c.parquet")
    log = open_log(tmp_path)
    frame = log.scan("traces", rows=True).collect().sort("__row")
    assert frame["trace_id"].to_list() == traces()["trace_id"].to_list()
    assert frame["__row"].to_list() == [0, 1, 2, 3, 4]
    assert frame["prompt_tokens"].to_list() == [10, 10, None, None, None]
    assert frame["extra"].to_list() == [1.0, 1.0, 1.5, 1.5, 1.5]
    assert log.locate("traces", 3) == ("traces/b.parquet", 1)
    assert log.rows("traces") == 5


def test_shards_that_disagree_on_a_further_column_are_named(tmp_path: Path) -> None:
    put(tmp_path, "traces", traces().with_columns(extra=pl.lit(1)), "a.parquet")
    put(tmp_path, "traces", traces().with_columns(extra=pl.lit("x")), "b.parquet")
    log = open_log(tmp_path)
    assert log.scan("traces", ["trace_id"]).collect().height == 10
    with refuses("type", "`traces/b.parquet`", "`extra`", "row 0", "string", "`traces/a.parquet`", "int32"):
        log.scan("traces")


def test_a_missing_table_is_empty_and_has_the_contracts_columns(tmp_path: Path) -> None:
    put(tmp_path, "examples", examples())
    log = open_log(tmp_path)
    for table in ("traces", "verifications", "features", "rounds", "checks"):
        frame = log.scan(table).collect()
        assert frame.height == 0
        assert dict(frame.schema) == {column.name: column.dtype for column in SCHEMAS[table]}
        assert not log.has(table)
    assert log.has("examples")


def test_optional_columns_that_are_absent_are_null(tmp_path: Path) -> None:
    put(tmp_path, "traces", traces())
    frame = open_log(tmp_path).scan("traces", ["text", "latency_s"]).collect()
    assert frame.schema == {"text": pl.String, "latency_s": pl.Float32}
    assert frame.null_count().row(0) == (5, 5)


def test_a_range_of_examples_is_pushed_down(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole())
    ranged = log.scan("traces").filter(pl.col("example_id").is_between(pl.lit("q1"), pl.lit("q1")))
    assert "SELECTION" in ranged.explain()
    assert set(ranged.collect()["trace_id"]) == {"a0", "a1", "r0"}


@pytest.mark.parametrize("sealed", [True, False])
def test_shards_without_the_examples_wanted_are_not_read(tmp_path: Path, sealed: bool) -> None:
    rows = make_rows()["traces"].sample(fraction=1, shuffle=True, seed=1)
    log = write_log(tmp_path / "log", name="x", tables=make_rows(), rows_per_shard=8)
    if not sealed:
        (tmp_path / "log" / "manifest.json").unlink()
        log = open_log(tmp_path / "log")
    ids = sorted(set(rows["example_id"]))
    for low, high in itertools.product(["", *ids], [*ids, "~"]):
        wanted = rows.filter(pl.col("example_id") >= low, pl.col("example_id") <= high)["trace_id"]
        read = log.scan("traces", ["trace_id", "example_id"], within=(low, high)).collect()
        assert sorted(read["trace_id"]) == sorted(wanted)
    shards = sum(len(run) for _, run in log._runs_of_shards("traces", (ids[0], ids[0])))
    assert shards == (1 if sealed else len(log.shards["traces"]))
    assert len(log.shards["traces"]) > 2


def test_unknown_tables_and_columns_name_the_nearest(tmp_path: Path) -> None:
    log = open_log(put_all(tmp_path, whole()))
    with refuses("unknown", "`trace`", "`traces`"):
        log.scan("trace")
    with refuses("unknown", "`traces`", "`anser`", "`answer`"):
        log.scan("traces", ["anser"])
    with refuses("required", "`hidden_states/MODEL`"):
        log.scan("hidden_states")


def test_hidden_and_foreign_names_are_skipped(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    for name in (".hidden.parquet", "_SUCCESS.parquet", "notes.txt", "part.parquet.tmp"):
        (tmp_path / "traces" / name).write_text("not Parquet")
    put(tmp_path, "_delta/traces", traces())
    log = open_log(tmp_path)
    assert [shard.file for shard in log.shards["traces"]] == ["traces/part-0.parquet"]
    assert log.warnings == ()


def test_a_folder_with_a_misspelt_name_is_warned_of(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    put(tmp_path, "trace", traces())
    put(tmp_path, "hidden_states", traces())
    first, second = open_log(tmp_path).warnings
    quotes(first, "`trace/`", "`traces`?")
    quotes(second, "`hidden_states/`", "folder")


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    with refuses("not-found", "nowhere`"):
        open_log(tmp_path / "nowhere")
    with refuses("not-found", "nowhere*`"):
        open_log(tmp_path / "nowhere*")
    with refuses("read", "`nosuch://place/log`"):
        open_log("nosuch://place/log")
    with refuses("not-found", "`memory://nowhere/log`"):
        open_log("memory://nowhere/log")
    (tmp_path / "file").write_text("x")
    with refuses("invalid", "file`"):
        open_log(tmp_path / "file")
    with refuses("format", "`manifest.json`"):
        open_log(tmp_path)


@pytest.mark.parametrize("kept", [0, 3, 20, 0.5, -10, -1])
def test_a_truncated_shard_is_one_line(tmp_path: Path, kept: float) -> None:
    put_all(tmp_path, whole())
    path = tmp_path / "traces" / "part-0.parquet"
    data = path.read_bytes()
    path.write_bytes(data[: int(kept * len(data)) if isinstance(kept, float) else kept])
    with pytest.raises(LogError) as caught:
        open_log(tmp_path).scan("traces")
    message = str(caught.value)
    quotes(message, "`traces/part-0.parquet`", "truncated")
    assert caught.value.code in ("unreadable", "damaged", "log")
    assert "\n" not in message


def test_a_damaged_page_is_one_line_when_it_is_read(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole())
    path = tmp_path / "log" / "traces" / "part-00000.parquet"
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    data = bytearray(path.read_bytes())
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    data[at : at + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    path.write_bytes(data)
    with pytest.raises(LogError) as caught:
        collect(log.scan("traces"), log)
    assert str(caught.value).startswith("`traces/part-00000.parquet`, column `trace_id`: is damaged (")
    assert "\n" not in str(caught.value)


def test_fsspec_address(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole(), rows_per_shard=2)
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "log"), "/bucket/log", recursive=True)
    try:
        remote = open_log("memory://bucket/log")
        assert remote.name == "x"
        assert remote.sealed
        assert remote.digest() == log.digest()
        for table in log.shards:
            assert remote.scan(table).collect().equals(log.scan(table).collect())
        assert open_log("memory://bucket/l*").scan("traces").collect().height == 5
        memory.rm("/bucket/log/manifest.json")
        unsealed = open_log("memory://bucket/log")
        assert not unsealed.sealed
        assert unsealed.digest() == log.digest()
    finally:
        memory.rm("/bucket", recursive=True)


@pytest.mark.parametrize("folder", ["examples", "run[1]", "is it?"])
def test_globs_below_folders_of_any_name(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder above may be called as a table is, or hold the signs of patterns."""
    write_log(tmp_path / folder / "logs" / "one", name="one", tables=whole())
    monkeypatch.chdir(tmp_path / folder)
    found = [open_log(address) for address in ("logs/*", "logs/one/*", "logs/one", "l*/one/traces/*.parquet")]
    monkeypatch.chdir(tmp_path / folder / "logs")
    found += [open_log(address) for address in ("*", "one", "../logs/o*")]
    monkeypatch.chdir("/")
    for log in found:
        assert log.scan("traces").collect().height == 5
        assert open_log(log.located).digest() == log.digest()


def test_a_local_scheme_is_located_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_log(tmp_path / "one", name="one", tables=whole())
    monkeypatch.chdir(tmp_path)
    log = open_log("file://one")
    monkeypatch.chdir("/")
    assert (log.address, open_log(log.located).digest()) == ("file://one", made.digest())


def test_a_pattern_that_is_none_is_one_line() -> None:
    if sys.version_info < (3, 13):  # from then on two stars beside other signs stand for one
        with refuses("format", "a**/no`"):
            open_log("a**/no")


def test_globs_of_shards_folders_and_logs(tmp_path: Path) -> None:
    first = write_log(tmp_path / "logs" / "one", name="one", tables=whole(), rows_per_shard=2, simulated=True)
    others = {name: frame.with_columns(pl.col("example_id") + "x") for name, frame in whole().items()}
    ids = {name: pl.col(name) + "x" for name in ("trace_id", "parent_id")}
    for table in ("traces", "verifications"):
        others[table] = others[table].with_columns(ids[n] for n in ids if n in others[table].columns)
    write_log(tmp_path / "logs" / "two", name="two", tables=others, pools={"n": {"prefix": False}})
    shards = open_log(tmp_path / "logs" / "one" / "traces" / "*-00000.parquet")
    assert shards.scan("traces").collect().height < 5
    assert shards.simulated
    assert not shards.has("examples")
    folders = open_log(tmp_path / "logs" / "one" / "*")
    assert folders.digest() == first.digest()
    both = open_log(tmp_path / "logs" / "*")
    assert both.scan("traces").collect()["trace_id"].n_unique() == 10
    assert both.sealed
    assert both.simulated
    assert both.pools_without_prefix() == {"n"}
    assert {shard.file.partition("/")[0] for shard in both.shards["traces"]} == {"one", "two"}


def test_order_of_shards_and_rows_means_nothing(tmp_path: Path) -> None:
    frames = {"examples": examples(), "traces": traces(), "verifications": verifications()}
    for name, step in (("forward", 1), ("backward", -1)):
        for table, frame in frames.items():
            for i in range(frame.height)[::step]:
                put(tmp_path / name, table, frame[i : i + 1], f"p{i if step == 1 else 9 - i}.parquet")
    forward, backward = open_log(tmp_path / "forward"), open_log(tmp_path / "backward")
    for table in frames:
        key = [column.name for column in SCHEMAS[table] if column.key]
        assert forward.scan(table).collect().sort(key).equals(backward.scan(table).collect().sort(key))


def _edit(path: Path, **changes: object) -> None:
    manifest = json.loads(path.read_text())
    manifest.update(changes)
    path.write_text(json.dumps(manifest))


def _entry(**changes: object) -> dict[str, object]:
    return {"file": "a", "rows": 1, "sha256": "ab" * 32} | changes


def test_manifest_faults_are_one_line(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    path = tmp_path / "log" / "manifest.json"
    text = path.read_text()
    for changes, refusal in [
        ({"version": 2}, ("limit", "2", "1")),
        ({"version": "1"}, ("format", "`version`", "1", "'1'")),
        ({"format": "other"}, ("format", "`format`", "`thinkback-log`", "'other'")),
        ({"tables": []}, ("format", "`tables`")),
        ({"tables": {"trace": []}}, ("unknown", "`tables`", "`trace`")),
        ({"tables": {"traces": [{"file": "a.parquet"}]}}, ("required", "`file`", "`rows`", "`sha256`")),
        ({"tables": {"traces": [{"file": "../a", "rows": 1, "sha256": ""}]}}, ("mismatch", "`traces`")),
        ({"pools": []}, ("format", "`pools`")),
        ({"pools": {"n": 3}}, ("format", "`pools.n`", "3")),
        ({"pools": {"n": {"prefix": "no"}}}, ("format", "`pools.n.prefix`", "'no'")),
        ({"pools": {"n": {"explore": "score"}}}, ("format", "`pools.n.explore`", "'score'", "`relevance`")),
        ({"pools": {"n": {"explore": {"reward": "single", "at": [1]}}}}, ("format", "`pools.n.explore`", "`at`")),
        ({"pools": {"n": {"sees": True}}}, ("format", "`pools.n.sees`", "`claims`", "`verdicts`")),
        ({"simulated": "false"}, ("format", "`simulated`", "'false'")),
        ({"created": "yesterday"}, ("format", "`created`", "8601", "'yesterday'")),
        ({"created": "2026-01-01T00:00:00+02:00"}, ("format", "`created`")),
        ({"created": 3}, ("format", "`created`", "3")),
        ({"name": 3}, ("format", "`name`", "3")),
        ({"license": ["MIT"]}, ("format", "`license`", "'MIT'")),
        ({"tables": {"traces": [_entry(rows="5")]}}, ("format", "`tables.traces.rows`", "'5'")),
        ({"tables": {"traces": [_entry(rows=-1)]}}, ("format", "`rows`", "`traces/a`", "0", "2", "63", "-1")),
        ({"tables": {"traces": [_entry(sha256="ab")]}}, ("format", "`sha256`", "`traces/a`", "64")),
        ({"tables": {"traces": [_entry()] * 2}}, ("conflict", "`tables.traces`", "`traces/a`")),
    ]:
        path.write_text(text)
        _edit(path, **changes)
        with refuses(*refusal):
            open_log(tmp_path / "log")
    path.write_text("{")
    with refuses("format", "`manifest.json`"):
        open_log(tmp_path / "log")


def test_a_sealed_log_is_what_its_manifest_lists(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole())
    put(tmp_path / "log", "traces", traces(), "zz.parquet")
    again = open_log(tmp_path / "log")
    assert again.digest() == log.digest()
    (warning,) = again.warnings
    quotes(warning, "`traces/zz.parquet`", "manifest")
    shutil.rmtree(tmp_path / "log" / "verifications")
    with refuses("not-found", "`verifications/part-00000.parquet`"):
        open_log(tmp_path / "log")


def test_other_file_systems_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zip archive, whose root has no name; a folder whose name looks like a pattern; relative addresses."""
    log = write_log(tmp_path / "log[1]", name="x", tables=whole())
    shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "log[1]")
    for address in (f"zip://::file://{tmp_path}/packed.zip", f"file://{tmp_path}/log[1]", str(tmp_path / "log[1]")):
        found = open_log(address)
        assert found.digest() == log.digest()
        assert found.scan("traces").collect().height == 5
    assert open_log(f"zip://*::file://{tmp_path}/packed.zip").digest() == log.digest()
    monkeypatch.chdir(tmp_path)
    for address in ("log[1]", "log[1]/", "./log*", "log*/traces", "log*/traces/*.parquet"):
        assert open_log(address).rows("traces") == 5


def test_addresses_that_fail_are_one_line() -> None:
    class Broken(fsspec.AbstractFileSystem):
        protocol = "broken"

        def ls(self, path: str, detail: bool = True, **_: object) -> list[object]:
            raise RuntimeError("access denied:\n  no credentials")

    fsspec.register_implementation("broken", Broken, clobber=True)
    with refuses("read", "`bucket/log`"):
        open_log("broken://bucket/log")


def test_wide_decimals_in_structs_are_read_as_they_are(tmp_path: Path) -> None:
    value = decimal.Decimal("123456789.25")
    wide = pa.decimal256(40, 2)
    kinds = {
        "one": (pa.struct([("x", wide), ("y", pa.string())]), {"x": value, "y": "a"}),
        "many": (pa.list_(pa.struct([("x", pa.decimal256(20, 2))])), [{"x": value}]),
        "pair": (pa.list_(wide, 2), [value, value]),
    }
    columns = {name: pa.array([content, content], kind) for name, (kind, content) in kinds.items()}
    frame = read(tmp_path, **columns)
    assert frame["one"].to_list() == [{"x": 123456789.25, "y": "a"}] * 2
    assert frame["many"].to_list() == [[{"x": value}]] * 2
    assert frame["pair"].to_list() == [[123456789.25] * 2] * 2


def test_many_shards_are_grouped_in_one_run(tmp_path: Path) -> None:
    put_all(tmp_path, whole())
    shard = open_log(tmp_path).shards["traces"][0]
    log = open_log(tmp_path)
    many = Log(log.address, None, {"traces": (shard,) * 100_000}, ())
    began = time.process_time()
    ((start, run),) = many._runs_of_shards("traces")
    assert (start, len(run)) == (0, 100_000)
    assert time.process_time() - began < 3  # quadratic: 14 seconds
