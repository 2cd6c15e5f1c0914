"""The README shows what `make demo` prints, number by number, and its two commands exist."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.docs.readme_table import with_table
from thinkback.app import app

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_table_is_what_the_demo_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = subprocess.run(["make", "-n", "demo", "VENV=."], cwd=ROOT, capture_output=True, text=True, check=True)
    commands = re.findall(r"^\./bin/thinkback (.*)$", plan.stdout.replace("\\\n", " "), re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["tune", "replay", "figure"]
    shown = [set(shlex.split(command)) for command in re.findall(r"^\$ thinkback (.*)$", README, re.MULTILINE)]
    assert all(any(words <= set(shlex.split(command)) for words in shown) for command in commands)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").symlink_to(ROOT / "data")
    for command in commands:
        done = CliRunner().invoke(app, shlex.split(command))
        assert done.exit_code == 0, done.output
    table = (tmp_path / ".demo" / "result" / "table.md").read_text(encoding="utf-8")
    assert sum(line.startswith("|") for line in table.splitlines()) > 10
    assert with_table(README, table) == README, "the README's table is not what `make demo` prints: run `make readme`"


@pytest.mark.parametrize(
    "target", ["demo", "test", "test-slow", "fuzz", "docs", "readme", "notebooks", "pictures", "screenshots", "clean"]
)
def test_make_knows_its_targets(target: str) -> None:
    plan = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert plan.returncode == 0, plan.stderr


def test_it_is_short() -> None:
    assert len(README.split()) <= 900


def test_the_numbers_are_those_of_the_table() -> None:
    """Outside code and the table the README states no measured number."""
    prose = re.sub(r"^```.*?^```|<!--.*?-->", "", README, flags=re.DOTALL | re.MULTILINE)
    prose = "\n".join(line for line in prose.splitlines() if not line.startswith("|"))
    prose = re.sub(r"`[^`]*`|Apache-2\.0|Python 3\.11", "", prose)
    assert re.findall(r"\d+(?:[.,]\d+)?", prose) == []
