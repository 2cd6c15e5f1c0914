"""A user's mistake is one line on stderr and exit code 2, and nothing is written."""

import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from replay.analyses.tune.goals import CHEAPEST
from tests.errors import says
from tests.seeds import seeds
from thinkback.app import _option_of_argument, app
from toolkit.show import SIMULATED


def refused(result: Any, code: str | None, *quoted: str) -> None:
    """Check that a command ended with one line, which has a code unless the parser of the command line wrote it."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1, result.stderr
    says(result, code, *quoted)


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


MISTAKES = {
    "no such command": (("replya",), (None, "replya", "replay")),
    "no such option": (("replay", "LOG", "--polices", "x"), (None, "--polices", "--policies")),
    "no argument": (("validate",), (None, "LOG")),
    "no required option": (("replay", "LOG", "--policies", "POLICIES"), (None, "--out")),
    "no such log": (("validate", "nowhere"), ("not-found", "nowhere")),
    "no such log to replay": (("replay", "nowhere", "--policies", "POLICIES", "--out", "o"), ("not-found", "nowhere")),
    "no such policy file": (("replay", "LOG", "--policies", "none.toml", "--out", "o"), (None, "none.toml")),
    "a folder as policies": (("replay", "LOG", "--policies", ".", "--out", "o"), (None, "--policies")),
    "not a number": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--seed", "x"),
        (None, "--seed", "integer"),
    ),
    "no such method": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--method", "bootstrap"),
        (None, "bootstrap", "percentile", "bca"),
    ),
    "level": (("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--level", "95"), ("invalid", "level", "95")),
    "no resamples": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--resamples", "0"),
        (None, "--resamples"),
    ),
    "margin without baseline": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--margin", "0.01"),
        ("required", "--margin", "--baseline"),
    ),
    "margin in points": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--baseline", "vote", "--margin", "1"),
        ("invalid", "--margin", "0.01"),
    ),
    "no such baseline": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--baseline", "vot"),
        ("unknown", "`vot`", "`vote`"),
    ),
    "no such column": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--by", "slit"),
        ("unknown", "`slit`", "`split`", "`--by`"),
    ),
    "where that does not parse": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--where", "split ="),
        ("invalid",),
    ),
    "where that is empty": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--where", " "),
        ("invalid", "--where", "empty"),
    ),
    "where that matches nothing": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--where", "split = 'x'"),
        ("empty", "where"),
    ),
    "no such measure": (
        ("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--measure", "credt"),
        ("unknown", "`credt`"),
    ),
    "no such rules": (("replay", "LOG", "--policies", "POLICIES", "--out", "o", "--rules", "r.py"), (None, "r.py")),
    "sql that does not parse": (("query", "LOG", "SELEC 1"), ("invalid", "SELEC")),
    "no such table": (("query", "LOG", "SELECT * FROM tracs"), ("invalid", "tracs")),
    "no such format": (("query", "LOG", "SELECT 1", "--format", "xml"), (None, "xml", "csv")),
    "no such pool": (("curves", "LOG", "--pool", "n44"), ("unknown", "`n44`", "`n4`")),
    "no such verifier": (("curves", "LOG", "--verifier", "strng"), ("unknown", "`strng`", "`strong`")),
    "no such policy": (
        ("explain", "LOG", "--policies", "POLICIES", "--policy", "vot", "--example", "sim3-000000001"),
        ("unknown", "`vot`", "`vote`"),
    ),
    "no such example": (
        ("explain", "LOG", "--policies", "POLICIES", "--policy", "vote", "--example", "sim3-1"),
        ("unknown", "`sim3-1`"),
    ),
    "no such repetition": (
        (
            "explain",
            "LOG",
            "--policies",
            "POLICIES",
            "--policy",
            "vote",
            "--example",
            "sim3-000000001",
            "--repetition",
            "4",
        ),
        ("invalid", "`--repetition`", "4"),
    ),
    "sealed already": (("seal", "LOG"), ("exists", "sealed")),
    "simulate nowhere": (("simulate", "claimdecomp"), ("required", "--out")),
    "no such data set": (("simulate", "quantem", "--out", "o"), ("unknown", "`quantem`", "`quantemp`")),
    "a data set of another size": (
        ("simulate", "quantemp", "--examples", "5", "--out", "o"),
        ("conflict", "--examples"),
    ),
    "too many traces of a data set": (
        ("simulate", "claimdecomp", "--traces", "51", "--out", "o"),
        ("invalid", "50", "51"),
    ),
    "too few traces to check": (("simulate", "claimdecomp", "--traces", "5", "--check"), ("invalid", "15", "--traces")),
    "check of the plain model": (("simulate", "--check", "--out", "o"), ("conflict", "--check", "quantemp")),
    "no such published work": (
        ("study", "factcheck", "LOG", "--published", "x", "--out", "o"),
        ("unknown", "quantemp"),
    ),
    "a study without a pool": (("study", "factcheck", "LOG", "--out", "o"), ("ambiguous", "--pool", "`n4`")),
    "tuned on what is reported": (
        (
            "tune",
            "LOG",
            "--policies",
            "POLICIES",
            "--on",
            "true",
            "--report",
            "true",
            "--goal",
            "min traces",
            "--out",
            "o",
        ),
        ("leakage", "120", "reported"),
    ),
    "no such goal": (
        (
            "tune",
            "LOG",
            "--policies",
            "POLICIES",
            "--on",
            "split = 'dev'",
            "--report",
            "split = 'test'",
            "--goal",
            "fewest tokens",
            "--out",
            "o",
        ),
        ("invalid", "`fewest tokens`", "`--goal`", f"`{CHEAPEST}`"),
    ),
    "merge with nowhere": (("merge", "LOG", "nowhere", "--out", "o"), ("not-found", "nowhere")),
    "no examples": (("simulate", "--examples", "0", "--out", "o"), ("invalid", "`--examples`")),
    "one label": (("simulate", "--labels", "1", "--out", "o"), ("invalid", "`--labels`")),
    "no such source": (("import", "table", "none.jsonl", "--map", "POLICIES", "--out", "o"), ("unknown", "`policy`")),
    "no such map": (("import", "table", "POLICIES", "--map", "none.toml", "--out", "o"), ("not-found", "none")),
}


@pytest.mark.parametrize(("arguments", "refusal"), MISTAKES.values(), ids=MISTAKES.keys())
def test_one_line_and_nothing_written(
    thinkback: Callable, tmp_path: Path, log: Path, policies: Path, arguments: tuple[str, ...], refusal: tuple[str, ...]
) -> None:
    before, logged = files(tmp_path), files(log)
    real = {"LOG": log, "POLICIES": policies}
    refused(thinkback(*(real.get(argument, argument) for argument in arguments)), *refusal)
    assert files(tmp_path) == before
    assert files(log) == logged


@pytest.mark.parametrize(
    "arguments",
    [("replay", "LOG", "--policies", "POLICIES"), ("curves", "LOG"), ("merge", "LOG"), ("simulate", "--examples", "5")],
    ids=lambda arguments: arguments[0],
)
@pytest.mark.parametrize("what", ["exists", "working directory"])
def test_out_is_refused(
    thinkback: Callable, tmp_path: Path, log: Path, policies: Path, arguments: tuple[str, ...], what: str
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    real = {"LOG": log, "POLICIES": policies}
    out = ("--out", "out") if what == "exists" else ("--out", ".", "--force")
    refusal = ("exists", "`--force`") if what == "exists" else ("write", "`.`")
    before = files(tmp_path)
    refused(thinkback(*(real.get(argument, argument) for argument in arguments), *out), *refusal)
    assert files(tmp_path) == before


def test_errors_name_arguments_that_some_command_has() -> None:
    """What a library's error calls an argument is an option on the command line, under the name that is shown."""
    root = Path(__file__).parents[2]
    named = {
        name
        for package in ("toolkit", "generate", "replay")
        for path in (root / package).rglob("*.py")
        for name in re.findall(r"argument\(['\"](\w+)['\"]\)", path.read_text())
    }
    options: set[str] = set()
    groups = [typer.main.get_command(app)]
    for command in groups:
        groups += getattr(command, "commands", {}).values()
        options |= {option for parameter in command.params for option in parameter.opts}
    assert len(named) > 20
    assert {name for name in named if _option_of_argument(name) not in options} == set()


def test_an_invalid_log_is_refused_everywhere(thinkback: Callable, tmp_path: Path, log: Path, policies: Path) -> None:
    bad = tmp_path / "bad"
    shutil.copytree(log, bad)
    shard = next((bad / "traces").iterdir())
    shard.write_bytes(shard.read_bytes()[:-100])
    refused(thinkback("validate", bad), "damaged", shard.name)
    refused(thinkback("replay", bad, "--policies", policies, "--out", "o"), "damaged", shard.name)
    assert not (tmp_path / "o").exists()


def test_a_typo_in_the_policies(thinkback: Callable, tmp_path: Path, log: Path) -> None:
    (tmp_path / "p.toml").write_text('[[policy]]\nname = "a"\nkind = "sample"\nmax_trace = 4\n')
    refused(thinkback("replay", log, "--policies", "p.toml", "--out", "o"), "unknown", "`max_trace`", "`max_traces`")


def test_policies_that_are_no_toml(thinkback: Callable, tmp_path: Path, log: Path) -> None:
    (tmp_path / "p.toml").write_text("[[policy\n")
    refused(thinkback("replay", log, "--policies", "p.toml", "--out", "o"), "format", "p.toml")
    (tmp_path / "p.toml").write_bytes(b"\xff\xfe\x00")
    refused(thinkback("replay", log, "--policies", "p.toml", "--out", "o"), "format", "p.toml")


def test_a_fault_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch, log: Path) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr("toolkit.log.validate_log", broken)
    result = CliRunner().invoke(app, ["validate", str(log)])
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (KeyboardInterrupt(), 130, "error: interrupted\n"),
        (FileNotFoundError(2, "none there", "gone.txt"), 2, "error: `gone.txt`: none there\n"),
        (OSError(28, "disk full"), 2, "error: disk full\n"),
    ],
    ids=["ctrl-c", "file", "disk"],
)
def test_interruptions_and_the_system(
    monkeypatch: pytest.MonkeyPatch, log: Path, error: BaseException, code: int, line: str
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr("toolkit.log.validate_log", fails)
    result = CliRunner().invoke(app, ["validate", str(log)])
    assert (result.exit_code, result.stderr) == (code, line)


@pytest.mark.parametrize(("number", "code"), seeds(1, [(signal.SIGINT, 130), (signal.SIGTERM, 143)]))
def test_a_killed_command_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    arguments = ["simulate", "--examples", "3000000", "--traces", "4", "--out", "big"]
    process = subprocess.Popen(
        [sys.executable, "-m", "thinkback", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 30
    while not list(tmp_path.glob(".big-*/traces/*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == code
    assert files(tmp_path) == set()


def test_a_signal_that_comes_in_a_users_rule_is_no_fault_of_the_rule(log: Path, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text(
        "import pathlib, time\nfrom dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Waits:\n"
        "    reads = ('votes',)\n    def chooses(self, seen):\n"
        "        pathlib.Path('began').touch()\n        time.sleep(60)\n"
    )
    (tmp_path / "policies.toml").write_text(
        '[[policy]]\nname = "w"\nkind = "sample"\npool = "n4"\nmax_traces = 2\nselect = { rule = "Waits" }\n'
    )
    arguments = ["replay", str(log), "--policies", "policies.toml", "--rules", "waits.py", "--out", "result"]
    process = subprocess.Popen([sys.executable, "-m", "thinkback", *arguments], cwd=tmp_path, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tmp_path / "began").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, line = process.communicate(timeout=30)
    assert (process.returncode, line.decode()) == (143, "")
    assert not (tmp_path / "result").exists()


@pytest.mark.slow
def test_a_query_hears_ctrl_c(log: Path) -> None:
    """Five hundred traces six times over: hours of work, in DuckDB, which does not listen."""
    names = [f"t{number}" for number in range(6)]
    joined = ", ".join(f"traces {name}" for name in names)
    sql = f"SELECT sum(length({' || '.join(f'{name}.trace_id' for name in names)})) FROM {joined}"
    process = subprocess.Popen([sys.executable, "-m", "thinkback", "query", str(log), sql], stderr=subprocess.PIPE)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.decode().strip().endswith("interrupted")


def test_a_reader_that_stops_early(log: Path) -> None:
    sql = "SELECT a.trace_id FROM traces a, traces b LIMIT 200000"  # more than a pipe holds
    command = [sys.executable, "-m", "thinkback", "query", str(log), sql]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"trace_id\n"
        process.stdout.close()
        assert process.stderr.read() == f"{SIMULATED}\n".encode()
    assert process.returncode in (0, 1)  # 0 where the system took the whole text before the reader left
