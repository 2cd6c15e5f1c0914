"""Ray's own workers: results equal to those of one process, also where a worker is killed or slow.

Runs in the environment of `make test-cluster`; elsewhere it is left out, and says why.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.annotating.annotation_plan import make_add_plan
from generate.annotating.annotation_run import add_signals
from generate.signals.additions import load_additions
from generate.simulation.grid import simulate
from replay.runs.compare.curves import curves
from replay.runs.passes import passes
from tests.errors import refuses
from tests.logs import make_log, write_recipe
from tests.workers.worlds import RULES, WORLDS
from toolkit.log import collect
from toolkit.workers import travel
from toolkit.workers.chosen import on_workers
from toolkit.workers.ray_pool import ray_pool

if find_spec("ray") is None:
    assert os.environ.get("THINKBACK_RAY") != "required", "Ray is not installed, and this run is there to test it"
    pytest.skip("Ray is not installed; `make test-cluster` builds an environment for it", allow_module_level=True)

WORKERS = 3
RAY = f"ray:{WORKERS}"
ROOT = Path(__file__).resolve().parents[2]
STARTS_S = 600
"""Seconds that Ray may take to start on a machine with few cores."""


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """One cluster for all tests of this file: what runs inside finds it, and leaves it."""
    with ray_pool(None, WORKERS):
        yield


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "chunk_size", lambda policies, traces: 5)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs") / "log"
    simulate(folder, examples=60, traces=6, seed=3)
    return folder


def rule_that(folder: Path, does: str) -> Path:
    """A file with the rule of `RULES` that does something on a worker, the first time that it is asked: `first`."""
    path = folder / "mine.py"
    lines = f"""
import os
import signal
import time

def first():
    try:
        os.open({str(folder / "mark")!r}, os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return False
    return True
"""
    body = f"        if os.getpid() != {os.getpid()}:\n            {does}\n"
    path.write_text(lines + RULES.replace("        return seen", f"{body}        return seen"))
    return path


@pytest.mark.parametrize("name", WORLDS)
def test_results_are_equal(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, rules, log = WORLDS[name], tmp_path / "mine.py", tmp_path / "log"
    rules.write_text(RULES)
    world.make(log)
    monkeypatch.setattr(passes, "chunk_size", lambda policies, traces: world.chunk)
    plain = world.save(log, tmp_path / "none", rules)
    here = world.save(log, tmp_path / "ray", rules, RAY)
    assert sorted(plain) == sorted(here)
    assert [file for file in plain if plain[file] != here[file]] == []


@pytest.mark.parametrize(
    "does", ["first() and os.kill(os.getpid(), signal.SIGKILL)", "first() and time.sleep(1000)"], ids=["killed", "slow"]
)
def test_a_lost_range_goes_to_another_worker(does: str, log: Path, tmp_path: Path) -> None:
    world = WORLDS["samples"]
    rules = rule_that(tmp_path, does)
    here = world.save(log, tmp_path / "ray", rules, RAY)
    assert (tmp_path / "mark").exists()
    plain = world.save(log, tmp_path / "none", rules)
    assert [file for file in plain if plain[file] != here[file]] == []


def test_a_range_that_is_lost_twice_ends_the_run_with_its_examples(log: Path, tmp_path: Path) -> None:
    rules = rule_that(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")
    with refuses("incomplete", "examples ", "(`sim3-", "lost 2 times"):
        replay.run(log, WORLDS["samples"].policies, rules=rules, resamples=5, workers=RAY)


def test_workers_of_another_version_are_named(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("Thinkback", "Python"):
        known = dict(travel.versions()) | {name: "0.0"}
        with monkeypatch.context() as patch, refuses("mismatch", "worker", name, "0.0"):
            patch.setattr(travel, "versions", lambda known=known: known)
            replay.run(log, WORLDS["asking"].policies, resamples=5, workers=RAY)


def test_curves_are_equal(log: Path) -> None:
    assert curves(log, resamples=20, workers=RAY).equals(curves(log, resamples=20))


def test_signals_are_equal(tmp_path: Path) -> None:
    recipe = (
        '[[verify]]\nname = "chance"\nkind = "random"\n[[features]]\nkind = "serving"\n[[features]]\nkind = "checks"\n'
    )
    tables: list[dict[str, pl.DataFrame]] = []
    for place, workers in ((tmp_path / "here", None), (tmp_path / "there", RAY)):
        place.mkdir()
        make_log(place / "log")
        with on_workers(workers):
            done = add_signals(make_add_plan(load_additions(write_recipe(place, recipe)), place / "log"))
        tables.append({name: collect(done.log.scan(name)) for name in ("features", "verifications")})
    assert all(tables[0][name].equals(tables[1][name]) for name in tables[0])


def processes_marked(mark: str) -> list[str]:
    """The command lines of the processes that have a variable of this value."""
    marked = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdecimal() and mark.encode() in (folder / "environ").read_bytes():
                marked.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return marked


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are listed in /proc")
def test_an_interrupted_command_leaves_no_process_and_no_file(log: Path, tmp_path: Path) -> None:
    """Its rule sleeps on the workers, where it is interrupted."""
    mark, policies = uuid.uuid4().hex, tmp_path / "policies.toml"
    policies.write_text(WORLDS["samples"].policies)
    rules = rule_that(tmp_path, "first(), time.sleep(1000)")
    command = [
        sys.executable,
        "-m",
        "thinkback",
        "replay",
        str(log),
        "--policies",
        str(policies),
        "--rules",
        str(rules),
    ]
    process = subprocess.Popen(
        [*command, "--workers", "ray:2", "--out", str(tmp_path / "out")], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | {"MARK": mark, "PYTHONPATH": str(ROOT)}, text=True,
    )  # fmt: skip
    end = time.monotonic() + STARTS_S
    while not (tmp_path / "mark").exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err.strip().splitlines()[-1]) == (130, "error: interrupted"), err
    while (left := processes_marked(mark)) and time.monotonic() < end:
        time.sleep(0.5)
    assert left == []
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_no_cluster_at_an_address_is_one_line(log: Path, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "thinkback",
        "replay",
        str(log),
        "--workers",
        "ray:127.0.0.1:1",
        "--out",
        str(tmp_path / "out"),
    ]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert ended.returncode == 2
    assert len(ended.stderr.strip().splitlines()) == 1
    assert "`127.0.0.1:1`" in ended.stderr
