"""Table B.2's wall-clock: of the runs that made the pool and the verifier's scores, also in a merged log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from generate.simulation.claims import simulate_claims
from replay.analyses.budgets.pool_depth import pool_depth
from replay.analyses.budgets.wall_clock import WallClock, wall_clock
from tests.errors import numbers, remarked
from tests.studies.claims import simulated, tables
from toolkit.log import collect, merge_logs, open_log, write_log

SHIPPED = Path(__file__).parents[2] / "data" / "log"


def run(pool: float | None, verifier: float | None, dataset: str | None = None, **more: Any) -> dict[str, Any]:
    """What one run says of itself."""
    told: dict[str, Any] = {"pools": {"n15": {"wall_clock_s": pool} if pool is not None else {}}}
    told["verifiers"] = {"strong": {"wall_clock_s": verifier} if verifier is not None else {}}
    return told | ({"settings": {"data.dataset": dataset}} if dataset is not None else {}) | more


def merged(*runs: dict[str, Any]) -> dict[str, Any]:
    return {"merged": [{"name": "part", "source": one} for one in runs]}


def clock(
    folder: Path, source: object, where: str | None = None, frames: dict[str, pl.DataFrame] | None = None, cap: int = 15
) -> WallClock:
    """Of a log whose claims are half of the data set `a`, half of `b`."""
    frames = dict(tables() if frames is None else frames)
    half = pl.int_range(pl.len()) < pl.len() // 2
    frames["examples"] = frames["examples"].with_columns(dataset=pl.when(half).then(pl.lit("a")).otherwise(pl.lit("b")))
    log = write_log(folder / "log", name="small", tables=frames, source=source)  # type: ignore[arg-type]
    return wall_clock(log, "n15", "strong", traces=cap, depth=pool_depth(log, "n15", where), where=where)


def test_of_a_log_that_was_not_merged(tmp_path: Path) -> None:
    assert clock(tmp_path, run(100.0, 20.0)) == WallClock(100.0, 20.0, 1)


def test_runs_of_the_same_claims_add_up_and_copies_count_once(tmp_path: Path) -> None:
    """100 + 40 and 20 + 8; the third log was a copy of the first with a pool more."""
    again = run(100.0, 20.0, seed=1) | {"features": {}}
    found = clock(
        tmp_path, {"merged": [{"source": merged(run(100.0, 20.0, seed=1), run(40.0, 8.0, seed=2))}, {"source": again}]}
    )
    assert found == WallClock(140.0, 28.0, 2)
    assert found.seconds == 168.0


def test_of_several_data_sets_only_the_runs_of_those_reported(tmp_path: Path) -> None:
    source = merged(run(100.0, 20.0, "a"), run(40.0, 8.0, "b"))
    found = clock(tmp_path, source, "dataset = 'b'")
    assert (found, found.seconds) == (WallClock(40.0, 8.0, 1), 48.0)


def test_runs_that_name_no_data_set_are_not_added_up_where_there_are_two(tmp_path: Path) -> None:
    """Either may be of the other data set, so the sum would be of both."""
    source = merged(run(100.0, 20.0, seed=1), run(40.0, 8.0, seed=2))
    found = clock(tmp_path, source, "dataset = 'b'")
    assert found == WallClock(None, None, 2, found.why)
    assert [numbers(line) for line in found.why] == [["2"]]


def few_claims(folder: Path, name: str) -> Path:
    """Six claims of a simulated data set, with what its manifest says of all."""
    log = simulate_claims(folder / f"whole-{name}", name, traces=15)
    of_test = collect(log.scan("examples").filter(split="test").select("example_id").head(6), log)["example_id"]
    tables = {
        table: collect(log.scan(table).filter(pl.col("example_id").is_in(of_test.implode())), log)
        for table in log.shards
    }
    assert log.manifest is not None
    write_log(folder / name, name=name, tables=tables, simulated=True, source=log.manifest.source)
    return folder / name


def test_merged_simulated_logs_tell_each_data_set_its_own(tmp_path: Path) -> None:
    """As `thinkback simulate quantemp`, `thinkback simulate claimdecomp` and `thinkback merge` make them: both data
    sets have the same pool and verifier, and each the wall-clock that it has alone.
    """
    names = ("quantemp", "claimdecomp")
    parts = [few_claims(tmp_path, name) for name in names]
    merge_logs([str(part) for part in parts], tmp_path / "both")
    both = open_log(tmp_path / "both")
    for name, part in zip(names, parts, strict=True):
        alone, where = open_log(part), f"dataset = '{name}'"
        wanted = wall_clock(alone, "n15", "lora", traces=15, depth=pool_depth(alone, "n15"))
        found = wall_clock(both, "n15", "lora", traces=15, depth=pool_depth(both, "n15", where), where=where)
        assert found == wanted
        assert (found.runs, found.why) == (1, ())
        assert found.seconds is not None


def test_a_run_that_names_no_data_set_may_be_of_other_claims_too(tmp_path: Path) -> None:
    found = clock(tmp_path, run(100.0, 20.0), "dataset = 'b'")
    assert found.seconds is None
    assert len(found.why) == 1
    remarked(found.why, "other_claims", "40", "20")


def test_a_verifier_that_scored_other_pools_says_so_unless_its_seconds_are_told_apart(tmp_path: Path) -> None:
    source = run(100.0, 20.0)
    found = clock(tmp_path / "one", source, frames=simulated())
    assert len(found.why) == 1
    remarked(found.why, "other_pools", "`strong`", "`probe`")
    assert (found.pool_s, found.verifier_s, found.seconds) == (100.0, 20.0, None)
    source["verifiers"]["strong"]["pools"] = {"n15": {"wall_clock_s": 15.0}, "probe": {"wall_clock_s": 5.0}}
    assert clock(tmp_path / "two", source, frames=simulated()).seconds == 115.0


def test_fewer_traces_than_the_pool_has(tmp_path: Path) -> None:
    (line,) = clock(tmp_path, run(1.0, 1.0), cap=10).why
    remarked([line], "other_traces", "15", "10")


@pytest.mark.parametrize(
    ("source", "values"),
    [
        (None, ("`wall_clock_s`",)),
        ({"merged": "?"}, ("`wall_clock_s`",)),
        (run(None, None), ("`wall_clock_s`",)),
        (run(5.0, None), ("verifier `strong`",)),
        (merged(run(5.0, 1.0), run(None, 1.0, seed=2)), ("1 of its 2 ", "pool `n15`")),
    ],
)
def test_what_is_not_logged_is_said(tmp_path: Path, source: object, values: tuple[str, ...]) -> None:
    found = clock(tmp_path, source)
    assert found.seconds is None
    remarked(found.why[:1], "no_wall_clock", *values)


def test_the_shipped_log_has_its_wall_clock() -> None:
    """It was merged of two runs, and its manifest has 34 times; those of `votes` and `trained` on claims are these."""
    log = open_log(SHIPPED)
    where = "dataset = 'numeric_claims' and split = 'test'"
    found = wall_clock(log, "votes", "trained", traces=16, depth=pool_depth(log, "votes", where), where=where)
    assert (found.pool_s, found.verifier_s, found.runs, found.seconds) == (336.225, 461.333, 1, None)
    remarked(found.why, "other_claims", "2,500", "1,000")
    remarked(found.why, "other_pools", "`trained`", "`active-verify`, `continue`, `long`, `probe`, …")
