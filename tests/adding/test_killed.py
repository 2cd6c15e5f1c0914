"""Adding, killed at random moments and resumed: the same rows, and the log as it was until the end."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

from tests.adding.test_passes import LOGPROB, STATES, models  # noqa: F401 (a fixture)
from tests.logs import make_log, write_recipe
from toolkit.log import ADDING, collect, open_log, validate_log

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
KILLS = 8
EXAMPLES, BLOCK = 60, 60
BLOCKS = EXAMPLES * 5 // BLOCK
RECIPE = (
    STATES + LOGPROB + '[[verify]]\nname = "chance"\nkind = "random"\n[[features]]\nkind = "serving"\n'
    '[engine]\nkind = "transformers"\nmodel = "tiny"\n'
    '[[verify]]\nname = "sure"\nkind = "reflection"\nread = "number"\nprompt = "sure.txt"\nmax_tokens = 4\n'
)


def rows(log: Path, table: str) -> pl.DataFrame:
    opened = open_log(log)
    found = collect(opened.scan(table, list(opened.columns(table)))).drop("latency_s", "device_s", strict=False)
    return found.sort([name for name in ("trace_id", "verifier", "layer", "token") if name in found.columns])


def size(log: Path) -> int:
    """Bytes of what is being added; files come and go meanwhile."""
    total = 0
    for folder, _, files in os.walk(log / ADDING):
        for name in files:
            with contextlib.suppress(OSError):
                total += (Path(folder) / name).stat().st_size
    return total


def shards(log: Path) -> list[int]:
    """How many blocks of each table of each step are there."""
    return [len(list(folder.glob("*.parquet"))) for folder in (log / ADDING).glob("*/*/**/") if folder.is_dir()]


def start(recipe: Path, log: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    child = [sys.executable, str(Path(__file__).with_name("child.py")), str(BLOCK)]
    command = [*child, "generate", str(recipe), "--on", str(log)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=environment, **pipes)
    process.stdout.readline()
    process.stdin.write("go\n")
    process.stdin.flush()
    return process


@pytest.mark.slow
def test_killed_at_random_moments_and_resumed(tmp_path: Path, models: Path) -> None:  # noqa: F811
    (tmp_path / "tiny").symlink_to(models / "tiny")
    recipe = write_recipe(tmp_path, RECIPE)
    for name in ("whole", "killed"):
        make_log(tmp_path / name, EXAMPLES)
    first = start(recipe, tmp_path / "whole")
    assert (first.communicate()[1], first.returncode) == ("", 0), "quiet in a pipe"
    rng, kills, between = random.Random(5), 0, 0
    while True:
        process = start(recipe, tmp_path / "killed")
        if kills < KILLS:
            before, changes, wanted = size(tmp_path / "killed"), 0, rng.randrange(1, 8)
            while changes < wanted and process.poll() is None:
                time.sleep(0.001)
                now = size(tmp_path / "killed")
                changes, before = changes + (now != before), now
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                kills += 1
        message = process.communicate()[1]
        between += any(0 < count < BLOCKS for count in shards(tmp_path / "killed"))
        assert validate_log(open_log(tmp_path / "killed")).problems == (), "whatever the moment, it is whole"
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, message
            break
        assert set(open_log(tmp_path / "killed").shards) in (
            {"examples", "traces"}, set(open_log(tmp_path / "whole").shards),
        )  # fmt: skip
    for table in ("verifications", "features", "hidden_states/tiny"):
        assert rows(tmp_path / "killed", table).equals(rows(tmp_path / "whole", table))
    assert kills == KILLS
    assert between, "a step was killed with some of its blocks there and others not"
