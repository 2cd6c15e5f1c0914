"""A minute of `make fuzz`, and that its oracles see what they are for."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fuzz.campaign import Campaign, Case, table
from tests.fuzz.commands import ROOT, Commands, Ran, ended
from tests.fuzz.damage import damaged, damaged_json
from tests.fuzz.damaged_toml import damaged_toml
from tests.fuzz.documents import documents
from tests.fuzz.endings import changes, faults, state
from tests.fuzz.hostile_words import hostile
from tests.fuzz.shown_forms import csv_faults, latex_faults, markdown_faults, svg_faults
from tests.fuzz.signals import ending


@pytest.mark.slow
def test_a_minute_of_fuzzing_finds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", "60", "--keep", str(tmp_path / "kept")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def ran(code: int, err: str = "", hung: bool = False) -> Ran:
    return Ran(("replay", "log"), code, "", err, 0.1, hung)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (ran(-11), "ended by signal 11"),
        (ran(-9, hung=True), "hangs"),
        (replace(ran(2, "error: x\n"), memory=3 * 2**30), "took 3.0 GiB"),
        (ran(2, "usage\n"), "no error"),
        (ran(1, "Traceback (most recent call last):\n  x\nTypeError: y\n"), "traceback, 'TypeError: y'"),
        (ran(1, "error: full\n"), "exit code 1"),
        (ran(2), "0 lines on stderr"),
        (ran(2, "error: a\nerror: b\n"), "2 lines on stderr"),
        (ran(2, f"error: {'x' * 700}\n"), "a line of 707 characters"),
        (ran(2, "error: \x1b[2J\n"), "raw control"),
        (ran(0, "UserWarning: z\n"), "exit code 0 and on stderr"),
    ],
)
def test_endings_that_are_faults(one: Ran, said: str) -> None:
    assert said in "; ".join(faults(one))


@pytest.mark.parametrize(
    ("program", "hung"), [("while True: pass", True), ("import time; time.sleep(60)", True), ("print(1)", False)]
)
def test_what_uses_the_processor_or_waits_for_ever_hangs(program: str, hung: bool) -> None:
    """At most 0.2 s of a processor, and ten times as much where it gets none."""
    limit, begun = 0.2, time.monotonic()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-I", "-c", program], **pipes) as running:  # type: ignore[call-overload]
        done = ended(running, ("x",), begun, limit)
    assert (done.hung, done.code == 0) == (hung, not hung)


def test_endings_that_are_none() -> None:
    assert list(faults(ran(0))) == list(faults(ran(2, "error: `x` is missing\n"))) == []


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (csv_faults, "a\n=1+2\n"),
        (csv_faults, "a,b\nc\n"),
        (markdown_faults, "| a | b |\n| --- | --- |\n| c | d | e |\n"),
        (markdown_faults, "| a |\n| --- |\n| <script>x</script> |\n"),
        (markdown_faults, "| a |\n| --- |\n| [x](http://y) |\n"),
        (latex_faults, "\\begin{tabular}{@{}l@{}}\n\\input{x} \\\\\n\\end{tabular}"),
        (latex_faults, "\\begin{tabular}{@{}l@{}}\n\\end{tabular}\n\\begin{tabular}{@{}l@{}}\n\\end{tabular}"),
        (latex_faults, "\\begin{tabular}{@{}l@{}}\na & b \\\\\n\\end{tabular}"),
        (latex_faults, "\\input{x}\n\\begin{document}\n\\begin{tabular}{@{}l@{}}\na \\\\\n\\end{tabular}"),
        (svg_faults, '<svg xmlns="http://www.w3.org/2000/svg"><script>x</script></svg>'),
    ],
)
def test_forms_that_are_not_harmless(check: object, text: str) -> None:
    assert list(check(text)) != []  # type: ignore[operator]


def test_parts_of_a_float_stand_apart_and_python_itself_is_no_fault_of_ours() -> None:
    part = "\\begin{tabular}{@{}l@{}}\n\\end{tabular}"
    assert list(latex_faults(f"{part}\\par\n\\medskip\n{part}")) == []
    before, within = (
        ran(1, f'Traceback (most recent call last):\n  File "{path}", line 7, in <module>\nKeyboardInterrupt\n')
        for path in (f"{ROOT}/.venv/site-packages/__editable___thinkback_finder.py", f"{ROOT}/thinkback/app.py")
    )
    assert list(ending(before, signal.SIGINT)) == []
    assert [fault[:11] for fault in ending(within, signal.SIGINT)] == ["exit code 1"]


def test_what_is_changed_or_left_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1")
    before = state(tmp_path)
    (tmp_path / "a").write_text("2")
    assert list(changes(before, state(tmp_path))) == ["`a` was changed"]
    (tmp_path / "a").write_text("1")
    (tmp_path / ".a.part").write_text("")
    assert list(changes(before, state(tmp_path))) == ["`.a.part` was left behind"]


def test_the_same_seed_draws_the_same() -> None:
    def drawn() -> list[object]:
        rng = random.Random("1 logs 7")
        text = json.dumps({"a": [1, {"b": 2}], "c": "d"})
        mutated = [damaged_toml(rng, documents(kind)[0]) for kind in ("policies", "mapping", "recipe")]
        return [damaged(rng, bytes(200)), damaged_json(rng, text), mutated, hostile(rng)]

    assert drawn() == drawn()


class Broken:
    """A part of which every third case fails."""

    name, about, share = "broken", "a broken part", 1.0

    def prepare(self, folder: Path, commands: Commands) -> None:
        (folder / "read").touch()

    def run(self, case: Case) -> None:
        case.count("run")
        if case.rng.random() < 0.3:
            (case.folder / "input").write_text("kept")
            case.failures.append("it failed")


def test_failures_are_counted_kept_and_said(tmp_path: Path) -> None:
    campaign = Campaign([Broken()], seed=1, keep=tmp_path)
    campaign.run(0.3, jobs=2)
    tally = campaign.tallies["broken"]
    assert 0 < tally.failed == len(campaign.failures) < tally.cases == tally.runs
    assert f"| a broken part | {tally.cases:,} |" in table(campaign.tallies.values())
    failure = campaign.failures[0]
    assert (failure.kept / "input").read_text() == "kept"
    again = Campaign([Broken()], seed=1, keep=tmp_path)
    again.run(0, only=int(failure.again.rpartition(" ")[2]))
    assert [one.fault for one in again.failures] == ["it failed"]
