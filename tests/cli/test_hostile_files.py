"""Whatever a file holds, a command ends with one line and exit code 2, and nothing is written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from replay import load_policies
from tests.errors import refuses, says
from tests.logs import log
from thinkback.app import app
from toolkit.errors import ThinkbackError
from toolkit.files import check_replaceable, replacing
from toolkit.imports.map.mapping import read_mapping
from toolkit.log import open_log, query_log

POOL = {"e1": [("A", 0.4), ("A", 0.9)], "e2": [("B", 0.2), ("A", 0.3)]}
DEEP = "x = " + "[" * 5000
LONG = f"x = {'9' * 5000}"


def told(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert len(done.stderr.splitlines()) == 1
    assert len(done.stderr) < 400
    return done.stderr


@pytest.mark.parametrize("text", [DEEP, LONG, "x = [" + "1," * 50_000 + "]", "\0", "[[policy]]\nname = 'a'\nof = 1"])
def test_any_toml_is_one_line(tmp_path: Path, text: str) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    file = tmp_path / "f.toml"
    file.write_text(text, encoding="utf-8")
    told("replay", tmp_path / "log", "--policies", file, "--out", tmp_path / "o")
    told("generate", file, "--out", tmp_path / "o")
    told("import", "table", file, "--map", file, "--out", tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("text", ["[" * 200_000, "9" * 5000, '{"format": ' + '"x' * 9 + '"}', "null"])
def test_any_json_is_one_line(tmp_path: Path, text: str) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    (tmp_path / "log" / "manifest.json").write_text(text, encoding="utf-8")
    for command in ("validate", "describe"):
        told(command, tmp_path / "log")


def test_a_gate_with_half_a_sign_is_one_line(tmp_path: Path) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    (tmp_path / "gate.json").write_text('{"name": "\\ud800"}')
    says(told("transfer", tmp_path / "log", "--gate", tmp_path / "gate.json"), "format", "gate.json`")


def test_a_number_of_rows_that_no_file_has(tmp_path: Path) -> None:
    made = log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    path = tmp_path / "log" / "manifest.json"
    content = json.loads(path.read_text())
    content["tables"]["traces"][0]["rows"] = 2**70
    path.write_text(json.dumps(content))
    assert made is not None
    says(told("describe", tmp_path / "log"), "format", "`rows`")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    lines = ("\ufeff[[policy]]", 'name = "a"', 'kind = "sample"', "max_traces = 1", 'select = "first"')
    file.write_bytes("\r\n".join(lines).encode())
    assert [policy.name for policy in load_policies(file).policies] == ["a"]
    (tmp_path / "m.toml").write_text("\ufeffunknown = 1\n", encoding="utf-8")
    with refuses("unknown", "`unknown`"):
        read_mapping(tmp_path / "m.toml")


def test_a_pipe_among_the_shards_is_refused_at_once(tmp_path: Path) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    os.mkfifo(tmp_path / "log" / "traces" / "part-00009.parquet")
    with refuses("format", "`traces/part-00009.parquet`"):
        open_log(tmp_path / "log")
    (tmp_path / "log" / "traces" / "part-00009.parquet").unlink()
    (tmp_path / "log" / "manifest.json").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "log" / "manifest.json")
    with refuses("format", "`manifest.json`"):
        open_log(tmp_path / "log")


@pytest.mark.parametrize("when", ["", "    def __init__(self):\n        raise SystemExit(3)\n"])
def test_rules_that_end_the_program_are_one_line(tmp_path: Path, when: str) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    (tmp_path / "p.toml").write_text('[[policy]]\nname = "a"\nkind = "sample"\nmax_traces = 2\nstop = "Ends"\n')
    head = "from dataclasses import dataclass\n\n@dataclass(frozen=True)\nclass Ends:\n"
    body = when + "    def holds(self, seen):\n        raise SystemExit(3)\n"
    (tmp_path / "r.py").write_text(head + body if when else "raise SystemExit(3)\n" + head + body)
    words = ("replay", tmp_path / "log", "--policies", tmp_path / "p.toml", "--rules", tmp_path / "r.py")
    assert "SystemExit: 3" in told(*words, "--out", tmp_path / "o")


def test_a_full_disk_is_one_line_whoever_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = type("Usage", (), {"free": 4096})()
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)

    def write(error: BaseException) -> None:
        with replacing(tmp_path / "out"):
            raise error

    with refuses("write", "out`"):
        write(RuntimeError("some library's own words"))
    with pytest.raises(KeyboardInterrupt):
        write(KeyboardInterrupt())
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_file_system_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with refuses("write", f"`{tmp_path}`"):
        check_replaceable(tmp_path / "out", False)
    monkeypatch.setattr(os, "statvfs", lambda _: type("Status", (), {"f_flag": os.ST_RDONLY})())
    with refuses("write", f"`{tmp_path}`"):
        check_replaceable(tmp_path / "out", False)


def test_a_query_has_a_limit_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    monkeypatch.setattr("toolkit.log.read.query._available_memory", lambda: 2**26)
    with refuses("limit", "32"):
        query_log(made, "SELECT count(DISTINCT range) FROM range(5000000)")
    says(told("query", tmp_path / "log", "SELECT repeat('x', 3000000)"), "limit", "2")


def wait_for(condition: Callable[[], bool]) -> None:
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


@pytest.mark.parametrize(("sent", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_query_ends_on_any_signal(tmp_path: Path, sent: signal.Signals, code: int) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    sql = "select count(*) from range(100000000000) a, range(1000) b"
    running = subprocess.Popen([sys.executable, "-m", "thinkback", "query", "log", sql], cwd=tmp_path)
    busy = Path(f"/proc/{running.pid}/task")
    wait_for(lambda: len(list(busy.iterdir())) > 3)
    time.sleep(0.3)
    running.send_signal(sent)
    assert running.wait(timeout=30) == code


def test_an_interrupt_while_modules_are_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(9)\n")
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "thinkback", "--help"], env=where, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "error: interrupted\n")


@pytest.mark.parametrize(("sent", "code", "said"), [("SIGTERM", 143, ""), ("SIGINT", 130, "error: interrupted\n")])
def test_a_signal_within_a_callback_is_not_lost(tmp_path: Path, sent: str, code: int, said: str) -> None:
    """Python only complains of what is raised there, and goes on."""
    dropped = f"class Dropped:\n    def __del__(self):\n        signal.raise_signal(signal.{sent})\n"
    (tmp_path / "typer.py").write_text(f"import signal, time\n{dropped}Dropped()\ntime.sleep(9)\n")
    where = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([sys.executable, "-m", "thinkback", "--help"], env=where, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (code, said)


@pytest.mark.parametrize(
    "line",
    [
        f"max_traces = 0x{'f' * 5000}",
        f"kind = 0x{'f' * 5000}",
        "max_traces = 9223372036854775807",
        "orders = 9223372036854775807",
    ],
)
def test_integers_that_count_nothing_are_refused(tmp_path: Path, line: str) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    keys = {"name": '"a"', "kind": '"sample"', "max_traces": "2", "select": '"first"'}
    keys |= dict([line.split(" = ")])
    (tmp_path / "p.toml").write_text("[[policy]]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items()))
    said = told("replay", tmp_path / "log", "--policies", tmp_path / "p.toml", "--out", tmp_path / "o")
    says(said, "invalid" if "922" in line else "format")


def test_a_folder_among_the_shards_is_not_left_out_silently(tmp_path: Path) -> None:
    log(tmp_path, {"n2": POOL}, {"e1": "A", "e2": "B"})
    (tmp_path / "log" / "manifest.json").unlink()
    (tmp_path / "log" / "traces" / "part-00009.parquet").mkdir()
    with refuses("format", "`traces/part-00009.parquet`"):
        open_log(tmp_path / "log")


@pytest.mark.parametrize("text", ["x" * 50_000, "`x " * 20_000, "x " * 20_000, "a" * 5000 + "/b"])
def test_messages_are_short_whatever_they_quote(text: str) -> None:
    for error in (ThinkbackError(f"`{text}` is wrong; do this"), ThinkbackError(f"{text}: do this")):
        line = str(error)
        assert len(line) <= 600
        assert line.endswith("do this")
        assert str(ThinkbackError(line)) == line


def test_a_value_is_cut_and_a_path_keeps_its_end() -> None:
    assert len(str(ThinkbackError(f"`{'x' * 300}`"))) == 102
    path = f"/data/{'y' * 80}/logs/{'z' * 80}/part-00000.parquet"
    assert path in str(ThinkbackError(f"`{path}` is missing"))


@pytest.mark.parametrize("error", ["RuntimeError", "type('Panic', (BaseException,), {})"])
@pytest.mark.parametrize(("sent", "code", "said"), [("SIGTERM", 143, ""), ("SIGINT", 130, "error: interrupted\n")])
def test_a_signal_that_a_library_makes_an_error_of_is_still_a_signal(
    sent: str, code: int, said: str, error: str
) -> None:
    """As in DuckDB, within which a signal becomes a RuntimeError, and in polars, which panics."""
    program = f"""
import os, signal, time
import thinkback.app
from thinkback.__main__ import main

def interrupted():
    try:
        os.kill(os.getpid(), signal.{sent})
        time.sleep(9)
    except BaseException:
        raise {error}("Query interrupted") from None

thinkback.app.main = interrupted
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", said)
