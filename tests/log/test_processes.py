"""Two processes on one log: what the manual promises, with processes that begin at the same moment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import pytest

from tests.errors import quotes
from tests.generate.toy import Server
from tests.generate.toy import write_recipe as write_toy_recipe
from tests.logs import make_log, put, put_all, traces, whole, write_recipe
from toolkit.log import collect, open_log, validate_log

ROOT = Path(__file__).resolve().parents[2]
COMMAND = """
import sys
import thinkback.app, toolkit.log, generate.annotating.annotation_run
print("ready", flush=True)
sys.stdin.readline()
thinkback.app.main()
"""
APPEND = """
import sys
import polars as pl
from toolkit.log import LogWriter
writer = LogWriter(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for i in range(40):
    name = f"{sys.argv[2]}{i}"
    writer.append("examples", pl.DataFrame({"example_id": [name], "dataset": "d", "split": "s", "question": "q"}))
"""


def together(commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Each command's exit code and what it said on stderr; all begin at once, when all are ready."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", "POLARS_MAX_THREADS": "1"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    processes = [
        subprocess.Popen([sys.executable, *command], text=True, env=environment, cwd=ROOT, **pipes)
        for command in commands
    ]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[1] for process in processes]
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def thinkback(*words: object) -> list[str]:
    return ["-c", COMMAND, *map(str, words)]


def one_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, text
    assert "Traceback" not in text
    return lines[0]


@pytest.mark.slow
def test_of_two_that_seal_one_log_one_does_and_the_other_finds_it_sealed(tmp_path: Path) -> None:
    for number in range(3):
        log = put_all(tmp_path / str(number), whole())
        for i in range(20):  # not sorted, so that sealing rewrites them
            ids = [f"{number}-{i}-{j}" for j in range(5)]
            rows = traces(trace_id=ids, sample_index=[2 + 2 * i, 3 + 2 * i, 1 + i, 2 + 2 * i, 3 + 2 * i])
            put(log, "traces", rows.with_columns(parent_id=pl.when(pl.col("action") != "solve").then(pl.lit("a0")))
                .sort("example_id", descending=True), f"part-{i + 1}.parquet")  # fmt: skip
        (code, said), (other, also) = sorted(together([thinkback("seal", log)] * 2))
        assert (code, other) == (0, 2), said + also
        quotes(one_line(also), "sealed already")
        assert validate_log(open_log(log)).ok


@pytest.mark.slow
def test_of_two_that_write_one_result_one_does_and_the_other_finds_it_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    simulate = thinkback("simulate", "--examples", 200, "--traces", 4, "--out", out)
    (code, said), (other, also) = sorted(together([simulate] * 2))
    assert (code, other) == (0, 2), said + also
    assert "exists" in one_line(also)
    assert validate_log(open_log(out)).ok
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.slow
def test_two_that_append_lose_no_row(tmp_path: Path) -> None:
    assert [code for code, _ in together([["-c", APPEND, str(tmp_path), name] for name in "ab"])] == [0, 0]
    found = collect(open_log(tmp_path).scan("examples", ["example_id"]))["example_id"]
    assert sorted(found) == sorted(f"{name}{i}" for name in "ab" for i in range(40))


@pytest.mark.slow
def test_of_two_that_generate_one_log_one_does_and_the_other_is_told(tmp_path: Path) -> None:
    recipe, out = write_toy_recipe(tmp_path, 20), tmp_path / "out"
    toy = str(ROOT / "tests" / "generate" / "toy_run.py")
    with Server(delay_s=0.02) as server:
        (code, said), (other, also) = sorted(together([[toy, str(recipe), str(out), server.url]] * 2))
    assert (code, other) == (0, 2), said + also
    quotes(also, f"`{out}`", "another run")
    assert also.count("\n") == 1
    assert validate_log(open_log(out)).ok


@pytest.mark.slow
def test_two_that_add_to_one_log_add_each_row_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    before = make_log(log, count=400).rows("traces")
    chance = '[[verify]]\nname = "{name}"\nkind = "random"\n'
    recipes = [write_recipe(tmp_path, chance.format(name=name), f"{name}.toml") for name in ("one", "other")]
    both = together([thinkback("generate", recipe, "--on", log) for recipe in recipes])
    assert [code for code, _ in both] == [0, 0], both
    third = write_recipe(tmp_path, chance.format(name="third"), "third.toml")
    ended = sorted(together([thinkback("generate", third, "--on", log)] * 2))
    assert ended[0][0] == 0, ended  # the other finds it done, or is told that it is being done
    assert ended[1][0] == 0 or "another run" in one_line(ended[1][1])
    assert validate_log(open_log(log)).ok
    rows = collect(open_log(log).scan("verifications", ["trace_id", "verifier"]))
    assert set(rows["verifier"]) >= {"one", "other", "third"}
    for name in ("one", "other", "third"):
        own = rows.filter(pl.col("verifier") == name)["trace_id"]
        assert len(own) == own.n_unique() <= before
