"""The parts of a job on a pool whose workers are lost, slow or out of memory, by a script."""

from __future__ import annotations

import pickle
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.errors import refuses
from tests.workers.pools import ScriptedPool
from toolkit.errors import EmptyError
from toolkit.user_files import load_file
from toolkit.workers import pool as pools
from toolkit.workers import travel
from toolkit.workers.chosen import CHOSEN, on_workers
from toolkit.workers.pool import Part, results_in_order


def square(number: int) -> int:
    return number * number


def inverse(number: int) -> float:
    if not number:
        raise EmptyError("nothing to divide by")
    return 1 / number


def run(pool: ScriptedPool, numbers: range, work: Any = square) -> list[Any]:
    parts = [Part(f"part {number}", pickle.dumps(number)) for number in numbers]
    return list(results_in_order(pool, travel.pack_job(work, "the work"), parts))


def test_results_come_in_order_whoever_is_first() -> None:
    """Of three workers the last begun ends first, so that parts end as 2, 1 or 3 …; results are 0, 1, 4, 9 …"""
    pool = ScriptedPool(3)
    assert run(pool, range(20)) == [number**2 for number in range(20)]
    assert sorted(pool.ended) == list(range(20)) != list(pool.ended)
    assert pool.most == 3
    assert not pool.running


def test_few_parts_are_begun_ahead_of_the_one_awaited() -> None:
    """Part 0 is slow, so two of three workers do what is allowed ahead of it: up to part 3 · 3 − 1 = 8 of 30."""
    pool = ScriptedPool(3, lambda part, attempt: "slow" if part == 0 else "done")
    with pytest.raises(TimeoutError):
        run(pool, range(30))
    assert max(pool.begun) == pools.AHEAD * 3 - 1 == 8
    assert pool.stopped == [0]


@pytest.mark.parametrize("fate", ["lost", "memory"])
def test_a_lost_part_goes_to_another_worker(fate: str) -> None:
    pool = ScriptedPool(2, lambda part, attempt: fate if part in (0, 3) and attempt == 0 else "done")
    assert run(pool, range(6)) == [0, 1, 4, 9, 16, 25]
    assert sorted(pool.begun) == [0, 0, 1, 2, 3, 3, 4, 5]


def test_what_is_lost_twice_ends_the_job_with_its_name() -> None:
    pool = ScriptedPool(2, lambda part, attempt: "lost" if part == 1 else "done")
    with refuses("incomplete", "part 1", "killed"):
        run(pool, range(6))
    assert not pool.running


def test_an_error_is_raised_in_its_turn() -> None:
    """Part 0 of −1, 0, 1 has a result, part 1 raises, and what works on others is stopped."""
    pool, parts = ScriptedPool(3), [Part("", pickle.dumps(number)) for number in (-1, 0, 1)]
    results = results_in_order(pool, travel.pack_job(inverse, "the work"), parts)
    assert next(results) == -1
    with refuses("empty", "nothing to divide by"):
        next(results)
    assert not pool.running


def test_an_end_from_outside_leaves_nothing_running() -> None:
    pool = ScriptedPool(2)
    results = results_in_order(pool, travel.pack_job(square, "the work"), [Part("", bytes([n])) for n in range(9)])
    pool.fate = lambda part, attempt: "slow"
    pool.finished = lambda tasks, wait_s: (_ for _ in ()).throw(KeyboardInterrupt)  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert (pool.running, pool.stopped) == ({}, [0, 1])


def test_a_worker_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Thinkback", "Python"):
        job = travel.pack_job(square, "the work")
        monkeypatch.setattr(travel, "versions", lambda name=name: {name: "0.0"})
        with refuses("mismatch", name, "0.0"):
            travel.open_answer(travel.answer_part(job, pickle.dumps(2)))
        monkeypatch.undo()


def test_classes_of_a_users_file_travel_with_it(tmp_path: Path) -> None:
    """Where the job is opened the file's module is unknown; its class and the constant that it reads go along."""
    path = tmp_path / "mine.py"
    path.write_text(
        "from dataclasses import dataclass\n\nMORE = 3\n\n\n@dataclass(frozen=True)\nclass Adds:\n    step: int\n\n"
        "    def __call__(self, number):\n        return number + self.step + MORE\n"
    )
    module = load_file(path, "rules")
    job = travel.pack_job(module.Adds(4), "the work")
    del sys.modules[module.__name__]
    assert travel.open_answer(travel.answer_part(job, pickle.dumps(10))) == 17


@dataclass(frozen=True)
class _Locked:
    lock: Any


def test_what_cannot_travel_is_named() -> None:
    with refuses("unsuitable", "policy `mine`", "lock"):
        travel.pack(_Locked(threading.Lock()), "policy `mine`")


@pytest.mark.parametrize("name", ["rays", "ray:", "ray:0", "4", "", 4, "dask://x"])
def test_a_name_of_no_workers_is_refused(name: object) -> None:
    with refuses("invalid", "`workers`"), on_workers(name):
        pass


def test_without_ray_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with refuses("package", "thinkback[ray]"), on_workers("ray:2"):
        pass
    assert CHOSEN.get() is None


@pytest.mark.parametrize(("slow", "parts"), [(2, 4), (0, 30)])
def test_a_slow_part_is_begun_beside_itself(slow: int, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first attempt at a part never ends; once it took longer than four others, a second one ends it, also where
    parts wait that may not be begun so far ahead of it.
    """
    monkeypatch.setattr(pools, "SLOW", 0.0)
    pool = ScriptedPool(2, lambda part, attempt: "slow" if (part, attempt) == (slow, 0) else "done")
    start = time.monotonic()
    assert run(pool, range(parts)) == [number**2 for number in range(parts)]
    assert time.monotonic() - start < 60
    assert (list(pool.begun).count(slow), pool.stopped[0]) == (2, slow)
