"""One simulated log and one policy file for all command tests, and a way to run the command in this process."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from generate.simulation.grid import simulate
from tests.logs import drawn
from thinkback.app import app

POLICIES = """
[[policy]]
name = "best of 4"
kind = "sample"
pool = "n4"
max_traces = 4
verifier = "strong"

[[policy]]
name = "vote"
kind = "sample"
pool = "n4"
max_traces = 4
select = "majority"

[[policy]]
name = "greedy"
kind = "sample"
pool = "probe"
max_traces = 1
select = "first"

[[policy]]
name = "stop early"
kind = "sample"
pool = "n4"
max_traces = 4
verifier = "strong"
stop = { rule = "margin", margin = [0.1, 0.2], min_valid = 2 }

[[policy]]
name = "any of 4"
kind = "oracle"
rule = "any"
of = ["n4"]
"""

Run = Callable[..., Result]


log = drawn(simulate, examples=120, traces=4, labels=3, seed=3, name="small")


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    path = tmp_path / "policies.toml"
    path.write_text(POLICIES)
    return path


@pytest.fixture
def thinkback(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs one command line in `tmp_path`; a traceback fails the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="thinkback")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


@pytest.fixture
def spawn(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same in a process of its own."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "thinkback", *map(str, arguments)],
            cwd=tmp_path,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run
