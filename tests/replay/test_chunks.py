"""Runs of many chunks and blocks: cutting the log up changes nothing."""

import polars as pl
import pytest

import replay
from generate.simulation.grid import simulate_tables
from tests.logs import sealed

POLICIES = """
[[policy]]
name = "margin"
kind = "sample"
pool = "n5"
max_traces = 5
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.3] }
against = "first"

[[policy]]
name = "vote"
kind = "sample"
pool = "n5"
max_traces = 4
select = "majority"
orders = 3
against = "margin[stop.margin=0.1]"

[[policy]]
name = "expected"
kind = "sample"
pool = "n5"
max_traces = 5
verifier = "weak"
order = "random"
expected = true
stop = { rule = "budget", verifications = 2 }

[[policy]]
name = "first"
kind = "sample"
pool = "n5"
max_traces = 1
select = "first"

[[policy]]
name = "too long"
kind = "sample"
pool = "probe"
max_traces = 2
select = "majority"

[[policy]]
name = "any"
kind = "oracle"
of = ["n5"]
"""


def cut_tables():
    tables = simulate_tables(examples=100, traces=5, labels=3, seed=4)
    short = (pl.col("example_id") == tables["examples"]["example_id"][77]) & (pl.col("pool") == "n5")
    lost = tables["traces"].filter(short & (pl.col("sample_index") == 4))["trace_id"]
    for table in ("traces", "verifications", "features"):
        tables[table] = tables[table].filter(~pl.col("trace_id").is_in(lost.implode()))
    tables["examples"] = tables["examples"].with_columns(
        cluster=pl.when(pl.int_range(pl.len()) % 3 == 0).then((pl.int_range(pl.len()) // 30).cast(pl.String))
    )
    return tables


log = sealed(cut_tables, simulated=True)


def run(log, block=None):
    return replay.run(log, POLICIES, baseline="first", by=["split"], resamples=300, block_examples=block)


@pytest.mark.slow
def test_chunks_and_blocks_change_nothing(log, monkeypatch):
    whole = run(log)
    assert list(whole.dropped) == ["too long"]
    assert len(whole.excluded) == 1
    order = ["policy", "example_id"]
    for chunk, block in ((7, 7), (7, 50), (64, 64), (200, None)):
        monkeypatch.setattr("replay.runs.passes.passes.chunk_size", lambda policies, traces, chunk=chunk: chunk)
        monkeypatch.setattr("replay.runs.passes.passes.BLOCK_CELLS", 6 * 30)
        cut = run(log, block)
        assert cut.outcomes.collect().sort(order).equals(whole.outcomes.collect().sort(order))
        assert cut.summary.equals(whole.summary)
        assert cut.comparisons.equals(whole.comparisons)
        assert cut.by_summary.equals(whole.by_summary)
        assert cut.excluded == whole.excluded
        assert cut.notes == whole.notes


def test_the_same_chunks_are_the_same_bytes(log, monkeypatch, tmp_path):
    monkeypatch.setattr("replay.runs.passes.passes.chunk_size", lambda policies, traces: 16)
    for name, block in (("one", 16), ("two", 75)):
        run(log, block).save(tmp_path / name)
    one, two = ((tmp_path / name / "outcomes.parquet").read_bytes() for name in ("one", "two"))
    assert one == two
