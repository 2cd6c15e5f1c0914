"""Writing: what is written is read back, sorted and sealed; a killed writer leaves what it acknowledged."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.errors import refuses
from tests.logs import examples, put, put_all, traces, verifications, whole
from tests.seeds import seeds
from toolkit.log import LogError, LogWriter, check_log, collect, merge_logs, open_log, seal_log, validate_log, write_log

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ANSWER = st.none() | TEXT | st.sampled_from(["", "4", "None", "nan", "\x00", "ﬁ", "é", "é"])
NUMBER = st.none() | st.integers(0, 2**31 - 1)
SCORE = st.floats(allow_nan=False, allow_infinity=False)
SHORT = st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32)


@st.composite
def logs(draw: st.DrawFn) -> dict[str, pl.DataFrame]:
    """Any ids and answers, nulls anywhere they may be; one pool of solves."""
    ids = draw(st.lists(TEXT, min_size=1, max_size=4, unique=True))
    rows = []
    for i, example in enumerate(ids):
        for k in range(draw(st.integers(0, 3))):
            logprobs = draw(st.none() | st.lists(st.floats(-50, 0, width=32), max_size=3))
            answer, tokens, seconds = draw(ANSWER), draw(NUMBER), draw(SHORT.filter(lambda x: x is None or x >= 0))
            rows.append((f"{example}/{i}/{k}", example, k, answer, tokens, seconds, logprobs))
    names = ("trace_id", "example_id", "sample_index", "answer", "prompt_tokens", "latency_s", "token_logprobs")
    types = (pl.String, pl.String, pl.Int32, pl.String, pl.Int32, pl.Float32, pl.List(pl.Float32))
    made = pl.DataFrame(rows, schema=dict(zip(names, types, strict=True)), orient="row")
    constant = {"pool": "n", "action": "solve", "model": "m"}
    scores = draw(st.lists(SCORE, min_size=made.height, max_size=made.height))
    return {
        "examples": pl.DataFrame({"example_id": ids}).with_columns(
            dataset=pl.lit("d"), split=pl.lit("s"), question=pl.lit("q"), extra=pl.lit(draw(TEXT))
        ),
        "traces": made.with_columns(pl.lit(value).alias(name) for name, value in constant.items()),
        "verifications": made.select("trace_id", "example_id").with_columns(
            verifier=pl.lit(draw(TEXT)), score=pl.Series(scores, dtype=pl.Float64)
        ),
    }


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables=logs(), rows=st.integers(1, 5), lazy=st.booleans(), seed=st.integers(0, 9))
def test_what_is_written_is_read_back(
    tables: dict[str, pl.DataFrame], rows: int, lazy: bool, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "log"
    shuffled = {name: frame.sample(fraction=1, shuffle=True, seed=seed) for name, frame in tables.items()}
    given_frames = {name: frame.lazy() if lazy else frame for name, frame in shuffled.items()}
    log = write_log(path, name="x", tables=given_frames, rows_per_shard=rows)
    for table, frame in tables.items():
        found = log.scan(table, frame.columns).collect()
        key = ["trace_id"] if "trace_id" in frame.columns else ["example_id"]
        assert found.sort(key).equals(frame.sort(key))
        for shard in log.shards[table]:
            ids = pq.read_table(shard.path)["example_id"].to_pylist()
            assert [x.encode() for x in ids] == sorted(x.encode() for x in ids)
    assert validate_log(log).ok


def test_shards_have_the_contracts_types_and_zstd(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log", name="x", tables=whole(traces=traces(text=["t"] * 5, latency_s=[0.5] * 5)))
    file = pq.ParquetFile(log.shards["traces"][0].path)
    types = {field.name: str(field.type) for field in file.schema_arrow}
    assert types["trace_id"] == "string"
    assert types["text"] == "large_string"
    assert types["sample_index"] == "int32"
    assert types["latency_s"] == "float"
    assert types["correct"] == "bool"
    column = file.metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.is_stats_set
    assert str(pq.read_schema(log.shards["examples"][0].path).field("labels").type) == "list<element: string>"


def test_each_column_is_encoded_as_suits_it_and_other_readers_take_it(tmp_path: Path) -> None:
    """Lists byte by byte; states and seconds plain; a score with a dictionary where one value stands for four rows."""
    n = 400
    ids = [f"t{i:03d}" for i in range(n)]
    own = {"trace_id": ids, "example_id": ["q1"] * n}
    lists = [[-0.25 * i, float(i)] if i % 3 else [] if i % 2 else None for i in range(n)]
    many = pl.DataFrame(
        {
            **own,
            "sample_index": range(n),
            "latency_s": [0.5] * n,
            "token_logprobs": pl.Series(lists, dtype=pl.List(pl.Float32)),
        }
    )
    many = many.with_columns(pool=pl.lit("n"), action=pl.lit("solve"), model=pl.lit("m"))
    scored = pl.DataFrame({**own, "verifier": ["v"] * n, "score": [i % 100 / 100 for i in range(n)]})
    states = pl.DataFrame({**own, "layer": [0] * n, "token": [0] * n, "state": [[float(i), 0.5] for i in range(n)]})
    states = states.with_columns(pl.col("state").cast(pl.Array(pl.Float16, 2)))
    tables = {"examples": examples()[:1], "traces": many, "verifications": scored, "hidden_states/m": states}
    log = write_log(tmp_path / "log", name="x", tables=tables)
    encodings = {}
    for table in ("traces", "verifications", "hidden_states/m"):
        group = pq.read_metadata(log.shards[table][0].path).row_group(0)
        columns = map(group.column, range(group.num_columns))
        encodings |= {f"{table}: {column.path_in_schema}": set(column.encodings) for column in columns}
    assert "BYTE_STREAM_SPLIT" in encodings["traces: token_logprobs.list.element"]
    for plain in ("traces: latency_s", "traces: trace_id", "hidden_states/m: state.list.element"):
        assert encodings[plain] <= {"PLAIN", "RLE"}, plain
    assert "RLE_DICTIONARY" in encodings["verifications: score"]
    finer = scored.with_columns(score=pl.int_range(pl.len()) // 2 / 1_000)
    file = write_log(tmp_path / "finer", name="x", tables=tables | {"verifications": finer}).shards["verifications"][0]
    names = pq.read_schema(file.path).names
    assert "RLE_DICTIONARY" not in pq.read_metadata(file.path).row_group(0).column(names.index("score")).encodings
    path = log.shards["traces"][0].path
    assert pq.read_table(path)["token_logprobs"].to_pylist() == lists
    rows = duckdb.sql(f"select token_logprobs from '{path}' order by trace_id").fetchall()
    assert [row[0] for row in rows] == lists
    half = duckdb.sql(f"select state from '{log.shards['hidden_states/m'][0].path}' order by trace_id").fetchall()
    assert [list(row[0]) for row in half] == [[i, 0.5] for i in range(n)]


def test_further_columns_may_have_any_name_and_type(tmp_path: Path) -> None:
    """Columns of other tables that are called as ours are, or as the leaf of a list."""
    asked = examples()[:1].with_columns(
        **{"trace_id": pl.lit(7, pl.Int64), "x": pl.lit([0.5]), "x.list.element": pl.lit("a")}
    )
    log = write_log(tmp_path / "log", name="x", tables={"examples": asked, "traces": traces()[:1]})
    back = merge_logs([log.address], tmp_path / "merged").log
    row = collect(back.scan("examples", ["trace_id", "x", "x.list.element"])).row(0)
    assert row == (7, [0.5], "a")


def test_row_groups_stay_below_64_mb(tmp_path: Path) -> None:
    words = ["x" * 1_000_000] * 150  # 150 MB of text
    frame = pl.DataFrame({"example_id": ["q1"] * 150, "trace_id": [f"t{i}" for i in range(150)], "text": words})
    frame = frame.with_columns(
        pool=pl.lit("n"), action=pl.lit("solve"), model=pl.lit("m"), sample_index=pl.int_range(pl.len())
    )
    log = write_log(tmp_path / "log", name="x", tables={"examples": examples()[:1], "traces": frame})
    metadata = pq.read_metadata(log.shards["traces"][0].path)
    sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert sum(sizes) == 150
    assert max(sizes) * 1_000_000 <= 64 * 2**20


def test_the_manifest_says_what_there_is(tmp_path: Path) -> None:
    pools = {"beam": {"prefix": False}, "n": {}}
    source = {"imported_from": "somewhere", "ids": [1, 2]}
    log = write_log(
        tmp_path / "log", name="my log", tables=whole(), source=source, license="MIT", simulated=True, pools=pools
    )
    manifest = json.loads((tmp_path / "log" / "manifest.json").read_text())
    assert manifest["format"] == "thinkback-log"
    assert manifest["version"] == 1
    assert manifest["source"] == source
    assert manifest["created"].endswith("Z")
    for table, shards in manifest["tables"].items():
        for shard in shards:
            data = (tmp_path / "log" / shard["file"]).read_bytes()
            assert hashlib.sha256(data).hexdigest() == shard["sha256"]
        assert sum(shard["rows"] for shard in shards) == log.rows(table)
    assert (log.name, log.simulated, log.sealed) == ("my log", True, True)
    assert log.manifest is not None
    assert log.manifest.license == "MIT"
    assert log.pools_without_prefix() == {"beam"}


def test_unknown_keys_of_a_manifest_are_kept(tmp_path: Path) -> None:
    put_all(tmp_path / "log", whole())
    log = seal_log(tmp_path / "log", name="x", funding="none")
    assert log.manifest is not None
    assert log.manifest.extra == {"funding": "none"}
    assert json.loads(log.manifest.to_json())["funding"] == "none"


def test_sealing_sorts_and_converts_what_other_tools_wrote(tmp_path: Path) -> None:
    folder = put_all(tmp_path / "log", whole())
    put(folder, "traces", traces().reverse().with_columns(pl.col("answer").cast(pl.Categorical), more=pl.lit("m")))
    before = open_log(folder).scan("traces").collect().sort("trace_id")
    log = seal_log(folder, name="x")
    assert log.scan("traces").collect().sort("trace_id").equals(before)
    table = pq.read_table(folder / "traces" / "part-0.parquet")
    assert table["example_id"].to_pylist() == ["q1", "q1", "q1", "q2", "q2"]
    assert str(table.schema.field("sample_index").type) == "int32"
    assert "text" not in table.schema.names
    assert validate_log(log).ok
    with refuses("exists", "`manifest.json`"):
        seal_log(folder, name="x")


def test_a_faulty_log_is_not_sealed_and_not_changed(tmp_path: Path) -> None:
    folder = put_all(tmp_path / "log", whole(verifications=verifications(trace_id=["a0", "r0", "b0", "zz"])))
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    with refuses("unknown", "`trace_id`", "`zz`", "row 3"):
        seal_log(folder, name="x")
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_faulty_log_is_not_written(tmp_path: Path) -> None:
    bad = {
        "wrong type": (whole(traces=traces(sample_index=["a"] * 5)), "`traces`, column `sample_index`, row 0: holds"),
        "loss": (
            whole(traces=traces(prompt_tokens=[1.0, 2.0, 2.5, 3.0, 4.0])),
            "`traces`, column `prompt_tokens`, row 2",
        ),
        "null": (whole(traces=traces(pool=["n", None, "rev", "n", "n"])), "`traces`, column `pool`, row 1: `None` is"),
        "nan": (
            whole(verifications=verifications(score=[1.0, 2.0, float("inf"), 4.0])),
            "column `score`, row 2: `inf` is no",
        ),
        "missing": (whole(traces=traces().drop("model")), "`traces`, column `model`: is missing (string)"),
        "table": ({"trace": traces()}, "`trace`: did"),
        "relation": (whole(examples=examples()[:1]), "column `example_id`, row 3: `q2` is unknown"),
    }
    for name, (tables, words) in bad.items():
        with pytest.raises(LogError) as caught:
            write_log(tmp_path / name, name="x", tables=tables)
        assert words in str(caught.value), name
        assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_place_is_refused(tmp_path: Path) -> None:
    write_log(tmp_path / "log", name="x", tables=whole())
    with refuses("exists", "`force`"):
        write_log(tmp_path / "log", name="x", tables=whole())
    with refuses("invalid", "`memory://log`"):
        write_log("memory://log", name="x", tables=whole())
    with refuses("exists", "log`"):
        LogWriter(tmp_path / "log")


def test_a_writer_resumes(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log") as writer:
        assert writer.log().shards == {}
        writer.append("examples", examples())
        writer.append("traces", traces()[:2])
    log = open_log(tmp_path / "log")
    assert not log.sealed
    again = LogWriter(tmp_path / "log")
    there = again.log().scan("traces", ["trace_id"]).collect()["trace_id"].to_list()
    assert there == ["a0", "a1"]
    again.append("traces", traces().filter(~pl.col("trace_id").is_in(there)).lazy())
    sealed = again.seal(name="x", source="a test")
    assert [shard.file for shard in sealed.shards["traces"]] == [
        "traces/part-00000.parquet",
        "traces/part-00001.parquet",
    ]
    assert (
        sealed.scan("traces", traces().columns)
        .collect()
        .sort("trace_id")
        .equals(
            traces()
            .with_columns(pl.col("sample_index", "prompt_tokens", "completion_tokens").cast(pl.Int32))
            .sort("trace_id")
        )
    )
    check_log(sealed)


WRITER = """
import sys
import polars as pl
from toolkit.log import LogWriter
writer = LogWriter(sys.argv[1])
done = writer.log().rows("traces")
print("ready", flush=True)
for i in range(done, 10_000):
    example = f"q{i:05d}"
    traces = {"trace_id": [f"{example}-0"], "example_id": [example], "pool": ["n"], "action": ["solve"]}
    writer.append("examples", pl.DataFrame({"example_id": [example], "dataset": "d", "split": "s", "question": "q"}))
    writer.append("traces", pl.DataFrame(traces | {"sample_index": [0], "model": ["m"], "answer": [str(i)]}))
    print(example, flush=True)
"""


@pytest.mark.parametrize("times", seeds(1, [2, 8]))
def test_a_writer_killed_at_any_moment_loses_no_acknowledged_row(times: int, tmp_path: Path) -> None:
    draw = random.Random(0)
    acknowledged: set[str] = set()
    for _ in range(times):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "log")]
        root = str(Path(__file__).resolve().parents[2])
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        acknowledged |= {process.stdout.readline().strip() for _ in range(draw.randrange(9))}
        time.sleep(draw.uniform(0.0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
        acknowledged |= {line for line in out.split("\n")[:-1] if line}
        rows = open_log(tmp_path / "log").scan("traces").collect()["example_id"].to_list()
        assert acknowledged <= set(rows)
        assert len(rows) == len(set(rows))
    # The rows of `examples` come first, so a kill in between leaves one that the resumed writer repeats.
    log = open_log(tmp_path / "log")
    assert log.rows("examples") >= log.rows("traces") > 0
    put(tmp_path / "clean", "examples", log.scan("examples").collect().unique("example_id"))
    put(tmp_path / "clean", "traces", log.scan("traces").collect())
    sealed = seal_log(tmp_path / "clean", name="survived")
    assert validate_log(sealed).ok


def test_parts_of_killed_writers_are_skipped_and_removed_by_sealing(tmp_path: Path) -> None:
    folder = put_all(tmp_path / "log", whole())
    left = folder / "traces" / ".part-00001-abc.part"
    left.write_bytes(b"half")
    assert open_log(folder).rows("traces") == 5
    seal_log(folder, name="x")
    assert not left.exists()


def test_a_lazy_frame_is_refused_as_an_eager_one_is(tmp_path: Path) -> None:
    for changes in ({"example_id": [1, 2]}, {"example_id": [True, False]}, {"gold": [4, 5]}, {"question": [1.0, 2.0]}):
        frame = examples(**changes)
        messages = []
        for given_frame in (frame, frame.lazy()):
            with pytest.raises(LogError) as caught:
                write_log(tmp_path / "log", name="x", tables={"examples": given_frame})
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert "expected string" in messages[0]
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_of_wrong_kinds_is_not_written(tmp_path: Path) -> None:
    folder = put_all(tmp_path / "log", {name: frame.reverse() for name, frame in whole().items()})
    before = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    for details, refusal in [
        ({"simulated": "false"}, ("format", "`simulated`")),
        ({"pools": {"n": {"prefix": "no"}}}, ("format", "`pools.n.prefix`")),
        ({"created": "yesterday"}, ("format", "`created`")),
    ]:
        with refuses(*refusal):
            seal_log(folder, name="x", **details)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_our_own_hidden_states_are_not_written_again(tmp_path: Path) -> None:
    states = pl.DataFrame(
        {"trace_id": ["a0"], "layer": [0], "token": [-1], "example_id": ["q1"], "state": [[0.5, 1.5, 2.5]]},
        schema_overrides={"layer": pl.Int16, "token": pl.Int32, "state": pl.Array(pl.Float16, 3)},
    )
    writer = LogWriter(tmp_path / "log")
    for table, frame in whole().items():
        writer.append(table, frame)
    path = writer.append("hidden_states/m", states)
    before = path.stat().st_ino
    log = writer.seal(name="x")
    assert path.stat().st_ino == before
    assert log.scan("hidden_states/m").collect()["state"].to_list() == [[0.5, 1.5, 2.5]]
    assert validate_log(log).ok
