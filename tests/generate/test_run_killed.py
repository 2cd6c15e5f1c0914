"""Killed at fifty random moments and resumed: the same log, and no acknowledged call asked again."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl
import pytest

from generate.journal.database import FOLDER, JOURNAL
from generate.recipes.recipe import load_recipe
from generate.sampling.sampling_plan import make_plan
from generate.sampling.sampling_run import generate
from tests.generate.toy import CHAINED, HttpEngine, Server, write_recipe
from toolkit.log import collect, open_log

KILLS = 50
SECONDS = ("latency_s", "device_s", "started_s", "arrived_s")
EXAMPLES = 60
CHILD = Path(__file__).with_name("toy_run.py")
ROOT = CHILD.parents[2]


def start(recipe: Path, out: Path, url: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "POLARS_MAX_THREADS": "1"}
    command = [sys.executable, str(CHILD), str(recipe), str(out), url]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, env=environment, **pipes)


def acknowledged(out: Path) -> set[str]:
    """The keys of the calls that the journal holds, read from a copy: to open it is to mend it."""
    with tempfile.TemporaryDirectory() as folder:
        for path in (out / FOLDER).glob(f"{JOURNAL}*"):
            shutil.copy(path, folder)
        if not (Path(folder) / JOURNAL).exists():
            return set()
        with contextlib.closing(sqlite3.connect(Path(folder) / JOURNAL)) as journal:
            tables = journal.execute("SELECT name FROM sqlite_master WHERE name = 'Answered'").fetchall()
            found = journal.execute("SELECT about, pool, sample FROM Answered").fetchall() if tables else []
    parts = ((about, *pool.partition("/"), sample) for about, pool, sample in found)
    return {f"{about}/{pool}/{sample}{slash}{rest}" for about, pool, slash, rest, sample in parts}


def rows(out: Path, table: str) -> pl.DataFrame:
    log = open_log(out)
    return collect(log.scan(table, list(log.columns(table)))).drop(SECONDS, strict=False)


@pytest.mark.slow
def test_killed_fifty_times_and_resumed(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, EXAMPLES, CHAINED)
    out, rng, kills = tmp_path / "killed", random.Random(50), 0
    with Server(delay_s=0.004, refused="s007") as server:
        waiting = start(recipe, out, server.url)
        known: set[str] = set()
        while True:
            process, begun = waiting, len(server.asked)
            waiting = start(recipe, out, server.url)
            process.stdout.readline()
            process.stdin.write("go\n")
            process.stdin.flush()
            wanted = begun + rng.randrange(12) if kills < KILLS else 10**9
            while len(server.asked) < wanted and process.poll() is None:
                time.sleep(0.0005)
            if kills < KILLS and process.poll() is None:
                time.sleep(rng.random() * 0.02)
                process.send_signal(signal.SIGKILL)
                kills += 1
            message = process.communicate()[1]
            asked = [key for asker, key in zip(server.askers, server.asked, strict=False) if asker == process.pid]
            assert known.isdisjoint(asked), "an acknowledged call was asked again"
            assert len(asked) == len(set(asked))
            if process.returncode != -signal.SIGKILL:
                assert process.returncode == 0, message
                break
            if out.exists():
                open_log(out)  # whatever the moment, it opens
            known = acknowledged(out)
        waiting.kill()
        waiting.communicate()
        assert kills == KILLS
        whole = tmp_path / "whole"
        before = len(server.asked)
        generate(make_plan(load_recipe(recipe)), whole, lambda _: HttpEngine(server.url))
        calls = server.asked[before:]
    for table in ("examples", "traces"):
        killed = rows(out, table).sort(pl.all())
        assert killed.equals(rows(whole, table).sort(pl.all()))
    assert rows(whole, "traces").height == (EXAMPLES - 1) * 7  # one example's calls fail for good
    assert set(server.asked[:before]) == set(calls)
    assert before - len(calls) <= KILLS * 4, "only what was in flight at a kill is asked again"
