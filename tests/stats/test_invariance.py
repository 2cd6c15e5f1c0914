"""The same bits, however the blocks are cut and however many threads there are."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.seeds import seeds
from toolkit.stats import Settings, resampled_metric, summarise

LABELS = ["x", "y", "z"]
NAMES = ["a", "b", "c"]


@pytest.mark.parametrize("method", seeds(1, ["percentile", "bca"]))
@pytest.mark.parametrize("clustered", [False, True])
def test_blocks_do_not_matter(random_run, factory, made, monkeypatch, method, clustered):
    one = random_run(1, 9000)
    if clustered:
        unit = np.random.default_rng(0).integers(0, 5000, 9000)
        one = made(one.values, unit, one.gold, one.predicted)
    settings = Settings(resamples=60, method=method)
    results = []
    for keep, cuts in ((2**40, ()), (0, (1, 2, 4095, 4096, 5000)), (0, (4097, 8500)), (2**40, range(900, 9000, 900))):
        monkeypatch.setattr("toolkit.stats.metrics.spill.KEEP_BYTES", keep)
        results.append(summarise(factory(one, cuts), NAMES, labels=LABELS, baseline="b", settings=settings))
    for other in results[1:]:
        assert other.summary.equals(results[0].summary)
        assert other.comparisons.equals(results[0].comparisons)


def test_groups_and_batches_do_not_matter(random_run, factory, monkeypatch):
    one = random_run(2, 300, policies=6)
    names = list("abcdef")
    settings = Settings(resamples=100, method="bca")
    first = summarise(factory(one), names, labels=LABELS, baseline="b", settings=settings)
    monkeypatch.setattr("toolkit.stats.bootstrap.series.SUMS_BYTES", 1)
    monkeypatch.setattr("toolkit.stats.bootstrap.series.BATCH_BYTES", 1)
    monkeypatch.setattr("toolkit.stats.bootstrap.bootstrap.PRODUCT_ROWS", 3)
    monkeypatch.setattr("toolkit.stats.metrics.resamples.KEEP_COUNTS", 0)
    monkeypatch.setattr("toolkit.stats.metrics.scan.SCAN_ROWS", 2)
    monkeypatch.setattr("toolkit.stats.metrics.scan.ADDED_BYTES", 1)
    second = summarise(factory(one), names, labels=LABELS, baseline="b", settings=settings)
    assert second.summary.equals(first.summary)
    assert second.comparisons.equals(first.comparisons)


def test_other_policies_do_not_matter(random_run, factory, made):
    one = random_run(3, 200)
    alone = made({k: v[1:2] for k, v in one.values.items()}, gold=one.gold, predicted=one.predicted[1:2])
    settings = Settings(resamples=100)
    whole = resampled_metric(factory(one), NAMES, "macro_f1", labels=LABELS, settings=settings)
    assert np.array_equal(
        resampled_metric(factory(alone), ["b"], "macro_f1", labels=LABELS, settings=settings)[0], whole[1]
    )


def test_sums_have_the_same_bits_whatever_else_is_summed(random_run, factory, made):
    one = random_run(4, 5000, policies=41)
    settings = Settings(resamples=300)
    names = [f"p{i}" for i in range(41)]

    def drawn(some):
        part = made({"latency_s": one.values["latency_s"][some]})
        return resampled_metric(factory(part), [names[i] for i in some], "latency_s", settings=settings)

    whole = drawn(range(41))
    for some in ([7], [40, 7], range(5), range(8, 25)):
        assert np.array_equal(drawn(some), whole[list(some)])


def test_another_shape_of_the_product_changes_nothing(random_run, factory, monkeypatch):
    one = random_run(5, 5000)
    settings = Settings(resamples=500)

    def tables():
        return summarise(factory(one), NAMES, labels=LABELS, baseline="b", settings=settings)

    first = tables()
    monkeypatch.setattr("toolkit.stats.bootstrap.bootstrap.PRODUCT_ROWS", 1)
    second = tables()
    for name in ("summary", "comparisons"):
        assert getattr(first, name).equals(getattr(second, name))


PROGRAM = """
import hashlib, json, sys
import numpy as np
import toolkit.stats.bootstrap.bootstrap as bootstrap
import toolkit.stats.metrics.resamples as resamples
import toolkit.stats.bootstrap.series as series
from toolkit.stats import OutcomeBlock, Settings, summarise
bootstrap.THREADS = resamples.THREADS = series.THREADS = int(sys.argv[1])
rng = np.random.default_rng(0)
n = 6000
correct = (rng.random((8, n)) < 0.7).astype(float)
values = {"correct": correct, "total_tokens": rng.integers(0, 90_000, (8, n)) * 1.0, "latency_s": rng.random((8, n))}
block = OutcomeBlock(np.empty(n, object), np.arange(n), values)
settings = Settings(resamples=400, method="bca")
result = summarise(lambda: iter([block]), list("abcdefgh"), baseline="a", settings=settings)
loaded = [m for m in ("scipy.stats", "sklearn", "matplotlib") if m in sys.modules]
print(json.dumps([str(result.summary.rows() + result.comparisons.rows()), loaded]))
"""


def test_threads_do_not_matter_and_nothing_heavy_is_loaded():
    outputs = []
    for threads in ("1", "2"):
        env = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, threads], env=env, capture_output=True, text=True, check=True
        )
        rows, loaded = json.loads(done.stdout)
        assert loaded == []
        outputs.append(rows)
    assert outputs[0] == outputs[1]
