"""Outcomes are read once and kept exactly, in little memory."""

import tracemalloc

import numpy as np
import pytest

from tests.errors import refuses
from toolkit.stats import OutcomeBlock, Settings, summarise
from toolkit.stats.metrics.outcomes import Store

VALUES = {
    "bytes": [0, 1, 254, np.nan],
    "no null": [3, 2, 1, 0],
    "over bytes": [255, 0, np.nan, 7],
    "negative": [-1, np.nan, 0, 2],
    "float32": [0.5, 1e6, np.nan, -0.25],
    "float64": [0.1, np.nan, 1 / 3, 7],
    "great": [1e300, 2**53, np.nan, 0],
}


@pytest.mark.parametrize("keep", [0, 40, 2**30])
def test_values_are_kept_exactly(made, factory, monkeypatch, keep):
    monkeypatch.setattr("toolkit.stats.metrics.spill.KEEP_BYTES", keep)
    rng = np.random.default_rng(0)
    values = {k: rng.permuted(np.tile(v, (5, 1500)), axis=1) for k, v in VALUES.items()}
    one = made(values, gold=rng.integers(0, 2, 6000), predicted=rng.random((5, 6000, 2)))
    for cuts in ((), (1, 2, 3, 4095, 4100), range(7, 6000, 500)):
        store = Store.of_blocks(factory(one, cuts), 5, 2)
        assert [len(chunk) for chunk in store.chunks] == [4096, 1904]
        policies = np.array([0, 1, 3])
        for start, chunk in zip((0, 4096), store.chunks, strict=True):
            here = slice(start, start + len(chunk))
            for key, column in values.items():
                assert np.array_equal(chunk.values(key, policies), column[policies, here], equal_nan=True)
            for label in (0, 1):
                assert np.array_equal(chunk.values(label, policies), one.predicted[policies, here, label])
            assert np.array_equal(chunk.gold, one.gold[here])
            assert np.array_equal(chunk.unit, one.unit[here])


def test_blocks_are_read_once_however_many_groups_there_are(random_run, factory, monkeypatch):
    for name, value in (("metrics.spill.KEEP_BYTES", 0), ("bootstrap.series.SUMS_BYTES", 1)):
        monkeypatch.setattr(f"toolkit.stats.{name}", value)
    passes = []
    one = factory(random_run(0, 300, policies=20), range(10, 300, 10))

    def blocks():
        passes.append(1)
        return one()

    summarise(blocks, [f"p{i}" for i in range(20)], labels=["x", "y", "z"], settings=Settings(20, method="bca"))
    assert len(passes) == 1


def test_memory_is_bounded(monkeypatch):
    policies, examples, step, keys = 800, 1000, 20, 10
    monkeypatch.setattr("toolkit.stats.metrics.spill.KEEP_BYTES", 2**20)
    monkeypatch.setattr("toolkit.stats.metrics.outcomes.BLOCK_BYTES", 2**20)

    def blocks():
        for start in range(0, examples, step):
            rng = np.random.default_rng(start)
            values = {f"k{i}": rng.random((policies, step)) for i in range(keys)}
            yield OutcomeBlock(np.array([""] * step, object), np.arange(start, start + step), values)

    tracemalloc.start()
    summarise(blocks, [f"p{i}" for i in range(policies)], settings=Settings(resamples=10))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * 8 * policies * examples * keys  # 64 MB of outcomes


def test_a_full_disk_is_one_line(random_run, factory, monkeypatch):
    def full(**_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("toolkit.stats.metrics.spill.KEEP_BYTES", 0)
    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with refuses("write", "space"):
        Store.of_blocks(factory(random_run(0, 10)), 3, 3)
