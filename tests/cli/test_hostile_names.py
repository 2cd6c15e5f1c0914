"""Names that would steer a terminal, forge a line or run in a spreadsheet, through the commands."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

from generate.simulation.grid import simulate
from toolkit.printable import printable

NAME = "\x1b[2J\x1b]0;owned\x07\u202e\u200bpool"
FORMULA = "=cmd|' /C calc'!A1"


def harmless(text: str) -> bool:
    return all(line == printable(line) for line in text.split("\n"))


def test_no_command_prints_or_writes_them_raw(thinkback: Callable, tmp_path: Path, policies: Path) -> None:
    simulate(tmp_path / "log", examples=40, traces=4, labels=3, seed=3, name=NAME)
    hostile = json.dumps(NAME)
    text = policies.read_text().replace('"best of 4"', json.dumps(FORMULA)).replace('"vote"', hostile)
    (tmp_path / "p.toml").write_text(text)
    asked = ("--policies", "p.toml", "--resamples", 100)
    commands = (
        ("describe", "log"),
        ("replay", "log", *asked, "--out", "out", "--baseline", FORMULA),
        ("query", "log", f"select '{NAME}' as x", "--format", "table"),
        ("query", "log", f"select '{NAME}' as x", "--format", "markdown"),
        ("compare", "out"),
        ("compare", "out", NAME, FORMULA, "--out", "pair"),
        ("explain", "log", "--policies", "p.toml", "--policy", NAME, "--example", "e0"),
        ("replay", "log", *asked, "--out", "o", "--baseline", NAME + "?"),
        ("query", "log", f"select x from '{NAME}'"),
        ("validate", NAME),
        ("describe", "log", f"--{NAME}"),
    )
    outputs = [thinkback(*command) for command in commands]
    assert [found.exit_code for found in outputs[:6]] == [0] * 6
    for found in outputs:
        assert harmless(found.output), found.output
    for path in [*(tmp_path / "out").glob("table.*"), *(tmp_path / "pair").iterdir()]:
        assert harmless(path.read_text("utf-8"))
    with (tmp_path / "out" / "table.csv").open(newline="", encoding="utf-8") as file:
        names = {row["policy"] for row in csv.DictReader(file)}
    assert names >= {f"'{FORMULA}", printable(NAME), "greedy"}


def test_data_keep_them(thinkback: Callable, log: Path) -> None:
    found = thinkback("query", log, f"select '{FORMULA.replace(chr(39), '')}' as x, '{NAME}' as y", "--format", "csv")
    assert found.stdout == f"x,y\n{FORMULA.replace(chr(39), '')},{NAME}\n"
