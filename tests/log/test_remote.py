"""Remote logs are read in ranges: what a footer, a count and a scan may fetch, byte by byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.errors import refuses
from tests.logs import examples, traces, whole
from tests.seeds import seeds
from toolkit.log import Log, LogError, collect, describe_log, open_log, validate_log, write_log

FETCHED: Counter[str] = Counter()
WHOLE_FILES: list[str] = []


class Counting(fsspec.AbstractFileSystem):
    """Files of a local folder, every byte that is fetched counted by path."""

    protocol = "counting"
    cachable = False
    ranges = True
    etags = True

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        home = Path(self._strip_protocol(path))
        if not home.exists():
            raise FileNotFoundError(path)
        entries = [home] if home.is_file() else sorted(home.iterdir())
        kinds = {True: "directory", False: "file"}
        return [
            {"name": str(e), "type": kinds[e.is_dir()], "size": e.stat().st_size}
            | ({"ETag": f'"{e.stat().st_mtime_ns}"'} if type(self).etags else {})
            for e in entries
        ]

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path.removeprefix("counting://")

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        data = Path(path).read_bytes()
        data = data[start:end] if type(self).ranges else data
        FETCHED[path] += len(data)
        return data

    def get_file(self, rpath: str, lpath: str, **_: Any) -> None:
        WHOLE_FILES.append(rpath)
        FETCHED[rpath] += Path(rpath).stat().st_size
        Path(lpath).write_bytes(Path(rpath).read_bytes())


@pytest.fixture(autouse=True)
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    fsspec.register_implementation("counting", Counting, clobber=True)
    Counting.ranges = Counting.etags = True
    FETCHED.clear()
    WHOLE_FILES.clear()
    yield
    Counting.ranges = Counting.etags = True


def known(folder: Path) -> Log:
    """A remote log whose every shard was hashed by an earlier command."""
    log = open_log(f"counting://{folder}")
    for table in log.shards:
        assert list(log.damages(table)) == []
    FETCHED.clear()
    WHOLE_FILES.clear()
    return open_log(f"counting://{folder}")


def test_a_sealed_shard_is_fetched_whole_once_and_never_again_while_its_etag_stays(tmp_path: Path) -> None:
    local = big_log(tmp_path / "log")
    shard = local.shards["traces"][0].path
    described = describe_log(local)
    for tries, etags in ((1, True), (0, True), (1, False), (1, False)):
        Counting.etags = etags
        WHOLE_FILES.clear()
        log = open_log(f"counting://{tmp_path}/log")
        assert describe_log(log).pools.equals(described.pools)
        assert collect(log.scan("traces"), log).height == 4_000
        assert WHOLE_FILES.count(shard) == tries
        assert not any("hidden_states" in path for path in WHOLE_FILES)  # which nobody asked for
    Counting.etags = True
    pq.write_table(pq.read_table(shard).slice(1), shard)
    with refuses("altered", "`traces/part-00000.parquet`"):
        open_log(f"counting://{tmp_path}/log").scan("traces")


def big_log(folder: Path) -> Log:
    """2 examples, 4,000 traces with long texts, and a megabyte of hidden states."""
    rows, draw = 2_000, np.random.default_rng(0)
    parts = [
        pl.DataFrame({"example_id": [e] * rows, "sample_index": range(rows)}).with_columns(
            trace_id=pl.lit(e) + pl.col("sample_index").cast(pl.String), pool=pl.lit("n"), action=pl.lit("solve"),
            model=pl.lit("m"), answer=pl.lit("yes"), text=pl.Series([draw.bytes(200).hex() for _ in range(rows)]),
        )
        for e in ("q1", "q2")
    ]  # fmt: skip
    states = draw.normal(size=(rows, 256)).astype(np.float32)
    hidden = pl.DataFrame({"trace_id": parts[0]["trace_id"], "example_id": ["q1"] * rows}).with_columns(
        layer=pl.lit(0, pl.Int16), token=pl.lit(-1, pl.Int32), state=pl.Series(states, dtype=pl.Array(pl.Float32, 256))
    )
    tables = {"examples": examples(), "traces": pl.concat(parts), "hidden_states/m": hidden}
    return write_log(folder, name="big", tables=tables)


def fetched(table: str) -> int:
    return sum(count for path, count in FETCHED.items() if f"/{table}/" in path)


@pytest.mark.parametrize("sealed", [True, False])
def test_counts_and_footers_do_not_fetch_shards(tmp_path: Path, sealed: bool) -> None:
    local = big_log(tmp_path / "log")
    if not sealed:
        (tmp_path / "log" / "manifest.json").unlink()
    log = open_log(f"counting://{tmp_path}/log")
    assert log.rows("hidden_states/m") == 2_000
    if sealed:
        assert fetched("hidden_states") == fetched("traces") == 0
    assert log.columns("hidden_states/m") == local.columns("hidden_states/m")
    assert fetched("hidden_states") <= 70_000  # the 64 KiB in which a reader looks for the footer
    assert WHOLE_FILES == []


def test_describing_leaves_states_and_texts_where_they_are(tmp_path: Path) -> None:
    local = big_log(tmp_path / "log")
    found = describe_log(known(tmp_path / "log"))
    assert found.tables.equals(describe_log(local).tables)
    assert fetched("hidden_states") == 0
    size = Path(local.shards["traces"][0].path).stat().st_size
    assert size > 250_000
    assert fetched("traces") < size / 2
    assert WHOLE_FILES == []


@pytest.mark.parametrize("sealed", [True, False])
def test_a_scan_fetches_its_columns_and_the_row_groups_that_it_keeps(tmp_path: Path, sealed: bool) -> None:
    local = big_log(tmp_path / "log")
    if not sealed:
        (tmp_path / "log" / "manifest.json").unlink()
    log = known(tmp_path / "log")
    size = Path(local.shards["traces"][0].path).stat().st_size
    assert collect(log.scan("traces", ["trace_id"]), log).height == 4_000
    assert fetched("traces") < size / 3
    FETCHED.clear()
    none = log.scan("traces").filter(pl.col("example_id") == "q3")
    assert collect(none, log).height == 0
    assert fetched("traces") < size / 3
    FETCHED.clear()
    whole_table = collect(log.scan("traces", rows=True), log)
    assert whole_table.sort("__row").equals(collect(local.scan("traces", rows=True)).sort("__row"))
    assert fetched("traces") > size / 2
    assert WHOLE_FILES == []


QUERIES = {
    "all": lambda frame: frame,
    "no columns": lambda frame: frame.select(pl.len()),
    "head": lambda frame: frame.sort("trace_id").head(2),
    "filter": lambda frame: frame.filter(pl.col("answer").is_null() | (pl.col("sample_index") > 0)).select("trace_id"),
    "rows": lambda frame: frame.filter(pl.col("__row") == 3).select("trace_id", "__row"),
    "range": lambda frame: frame.filter(pl.col("example_id").is_between(pl.lit("q2"), pl.lit("q2"))),
    "absent": lambda frame: frame.select("latency_s", "text"),
}


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("rows_per_shard", seeds(1, [1, 100]))
@pytest.mark.parametrize("ranges", [True, False])
def test_remote_scans_give_what_local_ones_give(tmp_path: Path, name: str, rows_per_shard: int, ranges: bool) -> None:
    more = traces(tags=[["a"], [], None, ["b", "c"], []], inner=[{"x": i, "y": str(i)} for i in range(5)])
    local = write_log(tmp_path / "log", name="x", tables=whole(traces=more), rows_per_shard=rows_per_shard)
    Counting.ranges = ranges
    log = known(tmp_path / "log")
    frames = [collect(QUERIES[name](one.scan("traces", rows=True)), one) for one in (log, local)]
    by = [c for c in frames[0].columns if c in ("__row", "trace_id")]
    assert frames[0].sort(by).equals(frames[1].sort(by)) if by else frames[0].equals(frames[1])
    assert bool(WHOLE_FILES) is not ranges
    assert validate_log(log).ok


def test_a_damaged_remote_shard_is_one_line(tmp_path: Path) -> None:
    local = big_log(tmp_path / "log")
    path = Path(local.shards["traces"][0].path)
    data = bytearray(path.read_bytes())
    data[200:5_000] = b"\xff" * 4_800
    path.write_bytes(data)
    log = open_log(f"counting://{tmp_path}/log")
    with pytest.raises(LogError) as caught:
        collect(log.scan("traces"), log)
    assert str(caught.value).startswith("`traces/part-00000.parquet`, column `trace_id`: is damaged (")
    assert "\n" not in str(caught.value)
    path.write_bytes(data[:-50])
    with refuses("damaged", "`traces/part-00000.parquet`"):
        open_log(f"counting://{tmp_path}/log").scan("traces")
