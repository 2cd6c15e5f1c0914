"""Damage in a shard is found before it is sealed, and a sealed log's pages are read when it is validated."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.errors import refuses
from tests.logs import examples, put_all
from toolkit.log import LogWriter, open_log, query_log, seal_log, validate_log

COLUMNS = ["text", "token_logprobs"]


def long_traces() -> pl.DataFrame:
    draw = random.Random(0)
    rows = 500
    return pl.DataFrame({
        "trace_id": [f"t{i}" for i in range(rows)], "example_id": ["q1"] * rows, "pool": ["n"] * rows,
        "action": ["solve"] * rows, "sample_index": list(range(rows)), "model": ["m"] * rows,
        "text": ["".join(draw.choices("abcdefgh ", k=60)) for _ in range(rows)],
        "token_logprobs": [[-draw.random() for _ in range(20)] for _ in range(rows)],
    }, schema_overrides={"sample_index": pl.Int32, "token_logprobs": pl.List(pl.Float32)})  # fmt: skip


def overwrite(path: Path, column: str) -> None:
    """Forty bytes in the middle of the column's chunk."""
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(i) for i in range(group.num_columns)]
    (chunk,) = [c for c in chunks if c.path_in_schema.partition(".")[0] == column]
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    at = start + chunk.total_compressed_size // 2
    data = bytearray(path.read_bytes())
    data[at : at + 40] = random.Random(1).randbytes(40)
    path.write_bytes(data)


@pytest.mark.parametrize("column", COLUMNS)
def test_a_damaged_shard_of_ours_is_not_sealed(tmp_path: Path, column: str) -> None:
    writer = LogWriter(tmp_path / "log")
    writer.append("examples", examples()[:1])
    path = writer.append("traces", long_traces())
    overwrite(path, column)
    before = path.read_bytes()
    with refuses("damaged", "`traces/part-00000.parquet`", f"`{column}`") as caught:
        writer.seal(name="x")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "log" / "manifest.json").exists()
    assert path.read_bytes() == before
    (found,) = validate_log(open_log(tmp_path / "log")).problems
    assert found.column == column


@pytest.mark.parametrize("column", COLUMNS)
def test_a_damaged_shard_of_another_tool_is_not_sealed(tmp_path: Path, column: str) -> None:
    """Snappy, no checksums: damage shows where the pages can't be decoded."""
    folder = put_all(tmp_path / "log", {"examples": examples()[:1], "traces": long_traces().with_columns(more=1)})
    path = folder / "traces" / "part-0.parquet"
    group = pq.read_metadata(path).row_group(0)
    (chunk,) = [c for i in range(group.num_columns) if (c := group.column(i)).path_in_schema.startswith(column)]
    data = bytearray(path.read_bytes())
    at = (chunk.dictionary_page_offset or chunk.data_page_offset) + 8
    data[at : at + 40] = b"\xff" * 40
    path.write_bytes(data)
    with refuses("damaged", "`traces/part-0.parquet`", f"`{column}`"):
        seal_log(folder, name="x")
    assert not (folder / "manifest.json").exists()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_hash_does_not_bless_damage(tmp_path: Path, column: str) -> None:
    """A manifest that another program wrote over a damaged shard, with the hash of its damaged bytes."""
    writer = LogWriter(tmp_path / "log")
    writer.append("examples", examples()[:1])
    path = writer.append("traces", long_traces())
    writer.seal(name="x")
    overwrite(path, column)
    manifest = json.loads((tmp_path / "log" / "manifest.json").read_text())
    manifest["tables"]["traces"][0]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (tmp_path / "log" / "manifest.json").write_text(json.dumps(manifest))
    (found,) = validate_log(open_log(tmp_path / "log")).problems
    assert (found.code, found.file, found.column) == ("damaged", "traces/part-00000.parquet", column)


@pytest.mark.parametrize(("stated", "other"), [(b"least-id", b"lfast-id"), (b"top-id", b"tap-id")])
def test_bounds_that_a_footer_states_wrongly_are_damage(tmp_path: Path, stated: bytes, other: bytes) -> None:
    """Whoever filters rows leaves out what lies beyond them, and no checksum covers them."""
    rows = {"example_id": ["least-id", "top-id"], "dataset": "d", "split": "test", "question": "q"}
    path = tmp_path / "log" / "examples" / "part-00000.parquet"
    path.parent.mkdir(parents=True)
    pl.DataFrame(rows).write_parquet(path)
    assert validate_log(open_log(tmp_path / "log")).ok
    data = path.read_bytes()
    at = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    assert stated in data[at:]
    path.write_bytes(data[:at] + data[at:].replace(stated, other))
    problem = validate_log(open_log(tmp_path / "log")).problems[0]
    assert (problem.code, problem.file, problem.column) == ("damaged", "examples/part-00000.parquet", "example_id")
    with refuses("damaged", "`example_id`", "`examples/part-00000.parquet`"):
        query_log(open_log(tmp_path / "log"), "select * from examples where example_id = 'top-id'")


@pytest.mark.parametrize("sealed", [True, False])
def test_a_footer_whose_sizes_contradict_its_types_is_damage(tmp_path: Path, sealed: bool) -> None:
    """A column that becomes required (field 3 of its schema element: 1 is optional, 0 required) keeps a histogram of
    two levels; pyarrow ends the whole process where it is asked for such a column's statistics.
    """
    writer = LogWriter(tmp_path / "log")
    path = writer.append("examples", examples())
    if sealed:
        writer.seal(name="x")
    data = path.read_bytes()
    optional, required = (b"\x25" + kind + b"\x18\x04gold" for kind in (b"\x02", b"\x00"))
    assert data.count(optional) == 1
    path.write_bytes(data.replace(optional, required))
    (found,) = validate_log(open_log(tmp_path / "log")).problems
    assert str(found).startswith("`examples/part-00000.parquet`, column `gold`: is damaged (")
    with refuses("damaged", "`gold`"):
        query_log(open_log(tmp_path / "log"), "select gold from examples")
