"""Which claims a study of fact checking reports where none are named, and which pools these have."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from replay.data.conditions import report_condition
from replay.data.contents import read_contents
from replay.studies.factcheck.runs import pools_of
from tests.studies.claims import simulated, written
from toolkit.log import Log, open_log


def log_of(folder: Path, *splits: str) -> Log:
    """A small log whose claims take turns in these splits; those of the first have samples, the others a probe."""
    frames = simulated()
    turn = pl.Series([splits[i % len(splits)] for i in range(len(frames["examples"]))])
    frames["examples"] = frames["examples"].with_columns(split=turn)
    first = frames["examples"].filter(pl.col("split") == splits[0])["example_id"]
    of = pl.col("example_id").is_in(first.implode()) != pl.col("trace_id").str.contains("/probe/")
    return open_log(written(folder / "log", {n: f if n == "examples" else f.filter(of) for n, f in frames.items()}))


DEV = "split = 'dev'"


@pytest.mark.parametrize(
    ("splits", "dev", "where"),
    [
        (("test", "validation"), None, "split = 'test'"),
        (("test", "dev"), DEV, "split = 'test' AND NOT coalesce((split = 'dev'), false)"),
        (("train", "dev"), DEV, "NOT coalesce((split = 'dev'), false)"),
        (("train", "dev"), None, None),
        (("test",), None, None),
    ],
)
def test_the_test_split_is_reported_where_there_is_one(
    tmp_path: Path, splits: tuple[str, ...], dev: str | None, where: str | None
) -> None:
    assert report_condition(log_of(tmp_path, *splits), dev) == where


def test_pools_are_those_of_the_claims_asked_about(tmp_path: Path) -> None:
    log = log_of(tmp_path, "test", "validation")
    known = read_contents(log).pools
    assert pools_of(log, "split = 'test'", known) == ("n15",)
    assert pools_of(log, "split = 'validation'", known) == ("probe",)
    assert pools_of(log, None, known) == ("n15", "probe")
