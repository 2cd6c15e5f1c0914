"""Every command that reads a sealed log refuses one whose bytes are not those that were sealed, in one line."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from generate.simulation.recovery import RecoveryModel, _recovery_tables
from tests.cli.conftest import Run
from thinkback.app import app
from toolkit.log import write_log

POLICIES = '[[policy]]\nname = "base"\nkind = "sample"\npool = "short"\nmax_traces = 1\nselect = "first"\n'
RECIPE = '[[verify]]\nname = "chance"\nkind = "random"\n'
GOAL = ("--on", "split='dev'", "--report", "split='test'", "--goal", "min traces")
COMMANDS = {
    "replay": ("replay", "LOG", "--policies", "p.toml", "--out", "o"),
    "curves": ("curves", "LOG", "--out", "o"),
    "frontier": ("frontier", "LOG", "--out", "o"),
    "explain": ("explain", "LOG", "--policies", "p.toml", "--policy", "base", "--example", "x"),
    "tune": ("tune", "LOG", "--policies", "p.toml", *GOAL, "--out", "o"),
    "plan": ("plan", "LOG", "one sample (mean)", "majority@2"),
    "describe": ("describe", "LOG"),
    "query": ("query", "LOG", "select count(*) from traces"),
    "merge": ("merge", "LOG", "--out", "o"),
    "validate": ("validate", "LOG"),
    "fit-gate": (
        "fit-gate", "LOG", "--action", "active_verify", "--on", "split='train'", "--tune", "split='dev'", "--out", "o"
    ),
    "transfer": ("transfer", "LOG", "--gate", "gate.json", "--where", "split='test'"),
    "export predictions": ("export", "predictions", "LOG", "--gate", "gate.json", "--out", "o"),
    "export recovery": ("export", "recovery", "LOG", "--out", "o"),
    "export replay": ("export", "replay", "LOG", "--action", "active_verify", "--verifier", "gate", "--out", "o"),
    "study recovery": ("study", "recovery", "LOG", "--out", "o"),
    "study factcheck": ("study", "factcheck", "LOG", "--out", "o"),
    "generate --on": ("generate", "add.toml", "--on", "LOG"),
}  # fmt: skip


@pytest.fixture(scope="module")
def altered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of which one count of tokens was altered, and what the commands need besides."""
    folder = tmp_path_factory.mktemp("altered")
    write_log(folder / "log", name="made", tables=_recovery_tables(600, 11, RecoveryModel(votes=3)))
    (folder / "p.toml").write_text(POLICIES)
    (folder / "add.toml").write_text(RECIPE)
    shutil.copytree(folder / "log", folder / "good")
    path = folder / "log" / "traces" / "part-00000.parquet"
    table = pq.read_table(path)
    counts = pl.col("completion_tokens")
    frame = pl.DataFrame(pl.from_arrow(table)).with_columns(counts + (pl.int_range(pl.len()) == 7))
    pq.write_table(frame.to_arrow().cast(table.schema), path)
    return folder


@pytest.fixture(scope="module")
def gate(altered: Path) -> Path:
    """A gate that was fitted on the log before it was altered."""
    words = [str(altered / "good") if word == "LOG" else word for word in COMMANDS["fit-gate"]]
    fitted = CliRunner().invoke(app, [*words[:-1], str(altered / "gate.json")])
    assert fitted.exit_code == 0, fitted.output
    return altered / "gate.json"


NEED_A_GATE = ("transfer", "export predictions")


@pytest.mark.slow
@pytest.mark.parametrize("name", NEED_A_GATE)
def test_an_altered_log_is_refused_to_a_gate(
    altered: Path, gate: Path, thinkback: Run, tmp_path: Path, name: str
) -> None:
    shutil.copy(gate, tmp_path)
    test_an_altered_log_is_refused(altered, thinkback, tmp_path, name)


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NEED_A_GATE))
def test_an_altered_log_is_refused(altered: Path, thinkback: Run, tmp_path: Path, name: str) -> None:
    for file in ("p.toml", "add.toml"):
        shutil.copy(altered / file, tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    ended = thinkback(*(altered / "log" if word == "LOG" else word for word in COMMANDS[name]))
    said = ended.stderr
    assert ended.exit_code == 2, ended.output
    assert re.search(r"traces/part-00000\.parquet`[^\n]*\[altered\]\n", said), said
    assert said.count("\n") <= 2, said
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - NEED_A_GATE))
def test_a_shard_that_the_manifest_does_not_list_is_named(
    altered: Path, thinkback: Run, tmp_path: Path, name: str
) -> None:
    """Once, whatever comes of the command; rows that were put beside a sealed log are not read."""
    for file in ("p.toml", "add.toml"):
        shutil.copy(altered / file, tmp_path)
    shutil.copytree(altered / ("good" if name in ("describe", "query", "explain") else "log"), tmp_path / "more")
    shutil.copy(tmp_path / "more" / "traces" / "part-00000.parquet", tmp_path / "more" / "traces" / "extra.parquet")
    ended = thinkback(*(tmp_path / "more" if word == "LOG" else word for word in COMMANDS[name]))
    notes = [line for line in ended.stderr.splitlines() if line.startswith("note: ")]
    assert [line.startswith("note: `traces/extra.parquet`: ") for line in notes] == [True]
