"""Other readers of Parquet take a table's shards together, by the glob that the manual shows, without options."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pytest
from typer.testing import CliRunner

from generate.simulation.claims import simulate_claims
from generate.simulation.planted import simulate_planted
from generate.simulation.recovery import simulate_recovery
from tests.logs import make_log, make_rows
from thinkback.app import app
from toolkit.log import collect, extend_log, open_log, validate_log

SHIPPED = Path(__file__).resolve().parents[2] / "data" / "log"
FIT = ("fit-verifier", "--train-on", "split='train'", "--inputs", "trace:completion_tokens", "--name", "short")
LOGS: dict[str, Callable[[Path], object]] = {
    "shipped": lambda path: shutil.copytree(SHIPPED, path),
    "planted": lambda path: simulate_planted(path, examples=60, traces=2, seed=1),
    "recovery": lambda path: simulate_recovery(path, examples=60, seed=1),
    "claims": lambda path: simulate_claims(path, "claimdecomp", traces=3),
}
COMMANDS = {
    "shipped": (FIT, ("generate", "checks", "--on")),
    "planted": (("fit-verifier", "--train-on", "split='train'", "--name", "latent"),),
    "recovery": (("generate", "checks", "--on"),),
    "claims": (("fit-verifier", "--train-on", "example_id like '%1'", *FIT[3:]),),
}


def both_read(path: Path) -> None:
    """Every table by polars and DuckDB: as many rows as the log has, and the same columns."""
    log = open_log(path)
    for table in log.shards:
        glob = f"{path}/{table}/*.parquet"
        frame = pl.read_parquet(glob)
        assert frame.height == log.rows(table), table
        assert set(frame.columns) == set(log.columns(table)), table
        counts = ", ".join(f'count("{name}")' for name in frame.columns)
        (row,) = duckdb.sql(f"select count(*), {counts} from '{glob}'").fetchall()
        assert row == (frame.height, *(frame[name].count() for name in frame.columns)), table


@pytest.mark.parametrize("name", [pytest.param("shipped", marks=pytest.mark.slow), *list(LOGS)[1:]])
def test_polars_and_duckdb_read_each_log_after_each_command_that_adds(name: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    LOGS[name](path)
    both_read(path)
    for command in COMMANDS[name]:
        words = (*command, str(path)) if command[-1] == "--on" else (command[0], str(path), *command[1:])
        done = CliRunner().invoke(app, list(words))
        assert done.exit_code == 0, done.output
        both_read(path)
    assert validate_log(path).problems == ()


def test_older_shards_are_rewritten_with_a_further_column_and_others_stay(tmp_path: Path) -> None:
    """Two shards of scores without folds, then scores with one: only those that lack it are new, and no score is."""
    path, traces = tmp_path / "log", make_rows()["traces"]
    make_log(path)
    scores = traces.select("trace_id", "example_id", verifier=pl.lit("v"), score=pl.lit(0.5))
    extend_log(path, {"verifications": scores})
    extend_log(path, {"verifications": scores.with_columns(verifier=pl.lit("w"), fold=pl.lit(1, pl.Int32))})
    before = {file.name: file.read_bytes() for file in (path / "verifications").iterdir()}
    both_read(path)
    extend_log(path, {"verifications": scores.with_columns(verifier=pl.lit("x"))})  # lacks a column itself
    both_read(path)
    after = {file.name: file.read_bytes() for file in (path / "verifications").iterdir()}
    assert before.items() <= after.items()
    rows = collect(open_log(path).scan("verifications", ["verifier", "fold", "score"]))
    folds = {
        name: part["fold"].unique().to_list() for (name,), part in rows.partition_by("verifier", as_dict=True).items()
    }
    assert folds == {"v": [None], "w": [1], "x": [None]}
    assert rows["score"].unique().to_list() == [0.5]


def test_a_writer_that_is_killed_while_it_rewrites_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    """New shards that no manifest lists are cleared by the next writer, and the old ones stay until it lists theirs."""
    path, traces = tmp_path / "log", make_rows()["traces"]
    make_log(path)
    scores = traces.select("trace_id", "example_id", verifier=pl.lit("v"), score=pl.lit(0.5))
    extend_log(path, {"verifications": scores})
    folded = {"verifications": scores.with_columns(verifier=pl.lit("w"), fold=pl.lit(1, pl.Int32))}
    before = {file.name: file.read_bytes() for file in (path / "verifications").iterdir()}

    def killed(source: object) -> object:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        extend_log(path, folded, killed)
    assert {file.name: file.read_bytes() for file in (path / "verifications").iterdir()} == before
    both_read(path)
    extend_log(path, folded)
    both_read(path)
    assert validate_log(path).problems == ()
