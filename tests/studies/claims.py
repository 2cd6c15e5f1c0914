"""Small logs of claims with two verifiers, and the files of a study."""

from __future__ import annotations

import csv
from pathlib import Path

import polars as pl

from generate.simulation.grid import simulate_tables
from toolkit.log import write_log


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def simulated() -> dict[str, pl.DataFrame]:
    """A small log with two verifiers and two pools; all its claims are of the test split, so that all are reported."""
    made = simulate_tables(examples=40, traces=15, labels=3, seed=2)
    return made | {"examples": made["examples"].with_columns(split=pl.lit("test"))}


def tables() -> dict[str, pl.DataFrame]:
    """The same with its pool of samples alone."""
    probe = pl.col("trace_id").str.contains("/probe/")
    return {name: frame if name == "examples" else frame.filter(~probe) for name, frame in simulated().items()}


def written(folder: Path, frames: dict[str, pl.DataFrame]) -> Path:
    write_log(folder, name="small", tables=frames)
    return folder
