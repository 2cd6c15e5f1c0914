"""A study that somebody adds, with one table in one file: a command like those that are there, made of its function."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from replay.studies.kit.report import StudyReport
from tests.studies.claims import rows, tables, written
from tests.toys.majorities import study_majorities
from thinkback.commands.study import study_command
from toolkit.show import table_of

LINE = "from thinkback.commands.study import STUDIES; STUDIES['majorities'] = 'tests.toys.majorities:study_majorities'"
"""The one line elsewhere."""
ROOT = Path(__file__).resolve().parents[2]


def thinkback(*words: str) -> subprocess.CompletedProcess[str]:
    """The program with that line."""
    program = f"{LINE}; from thinkback.app import app; app()"
    return subprocess.run(
        [sys.executable, "-c", program, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


def test_the_command_writes_its_table(tmp_path: Path) -> None:
    log = written(tmp_path / "log", tables())
    asked = ("study", "majorities", str(log), "--sizes", "1,3", "--resamples", "40", "--out", str(tmp_path / "out"))
    done = thinkback(*asked)
    assert done.returncode == 0, done.stderr
    found = rows(tmp_path / "out" / "votes.csv")
    assert [row["Votes"] for row in found] == ["1", "3"]
    (part,) = study_majorities(str(log), sizes=(1, 3), resamples=40).parts
    right = dict(part.result.summary.filter(metric="accuracy").select("policy", "estimate").iter_rows())
    assert [float(row["accuracy_pct"]) for row in found] == [100 * right["1"], 100 * right["3"]]
    assert "| 3 |" in (tmp_path / "out" / "report.md").read_text(encoding="utf-8")
    assert {"votes.md", "votes.tex"} <= {path.name for path in (tmp_path / "out").rglob("*")}
    record = json.loads((tmp_path / "out" / "run.json").read_text(encoding="utf-8"))
    assert (record["study"], record["resamples"]) == ("majorities", 40)


def test_its_help_is_that_of_its_function() -> None:
    done = thinkback("study", "majorities", "--help")
    assert done.returncode == 0, done.stderr
    for words in ("More votes: are they worth their tokens?", "--sizes", "--resamples", "--out", "--force"):
        assert words in done.stdout


@pytest.mark.parametrize("first", [True, False])
def test_what_is_said_stands_before_the_tables_or_after_them(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(pl.DataFrame({"shown": [1]}))
    report = StudyReport("Of a toy", {}, {}, lead=("said",), screen=[table], screen_first=first)
    monkeypatch.setattr("tests.toys.majorities.study_majorities", lambda log: report)
    study_command("tests.toys.majorities:study_majorities")("log", tmp_path / "out")
    printed = capsys.readouterr().out
    assert (printed.index("shown") < printed.index("said")) is first
