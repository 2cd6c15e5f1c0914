"""Ranges of examples on a scripted pool, through the bytes that workers get: their borders, and what is refused."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import replay
from generate.simulation.grid import simulate
from replay.runs.passes import passes
from replay.runs.passes.passes import BlockSizes
from replay.runs.passes.ranges import range_borders
from tests.errors import refuses
from tests.workers.pools import ScriptedPool, on_pool
from tests.workers.worlds import RULES, SAMPLES
from toolkit.log import open_log


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "log"
    simulate(folder, examples=60, traces=6, seed=3)
    return folder


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "chunk_size", lambda policies, traces: 7)


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rules") / "mine.py"
    path.write_text(RULES)
    return path


def test_ranges_begin_and_end_at_chunks() -> None:
    """Of 100 examples in chunks of 7 for 2 workers: 100 / (4 · 2 · 7) is at most 2 chunks, so ranges of 14."""
    borders = range_borders(100, 3, BlockSizes(7, 700), 2)
    assert borders == [(start, min(start + 14, 100)) for start in range(0, 100, 14)]
    assert range_borders(100, 3, BlockSizes(7, 7), 2)[0] == (0, 7)  # no range is larger than what is read at once
    assert range_borders(100, 2**20, BlockSizes(7, 700), 2)[0] == (0, 7)  # nor than 2**22 outcomes: 4 examples
    assert range_borders(5, 3, BlockSizes(7, 700), 2) == [(0, 5)]


def test_a_worker_opens_the_shards_of_its_range_alone(tmp_path: Path) -> None:
    """Two logs side by side in one glob, ids 0… and 1…: a range within the first has the shards of the first."""
    log = open_log(simulate(tmp_path / "log", examples=40, traces=2, seed=1))
    ids = sorted(replay.run(log, SAMPLES.split("\n\n")[0].replace("n6", "n2"), resamples=2).examples["example_id"])
    part = log.within(ids[0], ids[3])
    assert sum(map(len, part.shards.values())) == sum(map(len, log.shards.values()))
    assert part.columns("traces") == log.columns("traces")
    assert log.within("~", "~~").shards["traces"] == ()
    assert log.within("~", "~~").scan("traces", ["example_id", "correct"]).collect().is_empty()


def test_a_log_that_workers_cannot_read_is_named(
    log: Path, rules: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is gone before the first part begins, and the process is another one than the driver's."""
    copy = tmp_path / "copy"
    shutil.copytree(log, copy)
    pool, begin, number = ScriptedPool(2), ScriptedPool.begin, os.getpid()

    def gone(self: ScriptedPool, *part: bytes) -> object:
        shutil.rmtree(copy, ignore_errors=True)
        monkeypatch.setattr("os.getpid", lambda: number + 1)
        return begin(self, *part)

    monkeypatch.setattr(ScriptedPool, "begin", gone)
    with on_pool(pool), refuses("not-found", "worker", f"`{copy}`"):
        replay.run(copy, SAMPLES, rules=rules, resamples=5)


def test_a_rule_that_cannot_travel_is_named_with_its_policy(log: Path, tmp_path: Path) -> None:
    rules = tmp_path / "locked.py"
    rules.write_text(
        "import threading\n" + RULES.replace("    most: int", "    most: int\n    lock = threading.Lock()")
    )
    with on_pool(ScriptedPool(2)), refuses("unsuitable", "policy `mine`", "lock"):
        replay.run(log, SAMPLES, rules=rules, resamples=5)


def test_progress_counts_the_examples_of_all_workers(log: Path, rules: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[float] = []

    @contextmanager
    def count(title: str, total: float, unit: str = "") -> Iterator[Callable[..., None]]:
        done.append(-total)
        yield done.append

    monkeypatch.setattr("replay.runs.passes.ranges.progress", count)
    with on_pool(ScriptedPool(3)):
        replay.run(log, SAMPLES, rules=rules, resamples=5)
    assert done[0] == -60
    assert sum(done) == 0
