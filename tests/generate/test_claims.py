"""Simulated QuanTemp and ClaimDecomp: valid logs that lie near the published numbers, and the same from run to run."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from generate.simulation.claims import load_model, simulate_claims, simulations
from replay.studies.factcheck.check import check_simulation
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect, validate_log


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return simulate_claims(tmp_path_factory.mktemp("claims") / "log", "claimdecomp", dev=20)


def test_the_log_is_valid_and_simulated(small: Log) -> None:
    assert validate_log(small).problems == ()
    assert small.simulated
    assert small.rows("traces") == (200 + 20) * 15
    assert small.rows("features") == small.rows("traces")


def test_claims_are_the_published_ones(small: Log) -> None:
    frame = collect(small.scan("examples", ["split", "gold"]), small)
    counts = dict(frame.filter(pl.col("split") == "test").group_by("gold").len().iter_rows())
    assert counts == {"Supports": 60, "Refutes": 91, "Conflicting": 49}
    assert sum(load_model("quantemp").counts.values()) == 2495
    assert frame.filter(pl.col("split") == "dev").height == 20


def test_the_first_traces_do_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    def answers(name: str, traces: int, dev: int) -> pl.DataFrame:
        log = simulate_claims(tmp_path / name, "claimdecomp", traces=traces, dev=dev)
        frame = collect(log.scan("traces", ["trace_id", "answer", "sample_index", "latency_s"]), log)
        return frame.filter((pl.col("sample_index") < 3) & pl.col("trace_id").str.contains("-test-")).sort("trace_id")

    few, many = answers("few", 3, 0), answers("many", 12, 30)
    assert few.equals(many)


@pytest.mark.parametrize("name", simulations())
def test_replay_lies_within_the_distances(name: str, tmp_path: Path) -> None:
    log = simulate_claims(tmp_path / "log", name, traces=16)
    lines = check_simulation(log, name, "n16")
    far = [line for line in lines if line.within is False]
    assert far == []
    held = {line.table for line in lines if line.distance is not None}
    assert held >= {"5.1", "5.3", "5.6", "B.1"} | ({"5.8", "5.9"} if name == "quantemp" else set())


def test_distances_are_twice_as_far_for_the_small_data_set(small: Log) -> None:
    lines = check_simulation(small, "claimdecomp", "n15")
    allowed = {(line.table, line.what): line.distance for line in lines}
    assert allowed["5.1", "accuracy, %"] == 3.0
    assert allowed["5.1", "f1:Refutes, %"] == 8.0
    assert allowed["5.3", "traces per claim"] == 1.2
    assert allowed["B.1", "claims with 1 to 5 traces, %"] == 16.0
    assert allowed["5.6", "verifier calls"] == pytest.approx(0.12 * 1383)


@pytest.mark.parametrize(
    ("settings", "word"),
    [({"traces": 51}, "traces"), ({"traces": 0}, "traces"), ({"dev": -1}, "dev"), ({"seed": -1}, "seed")],
)
def test_bad_sizes_are_refused(tmp_path: Path, settings: dict, word: str) -> None:
    with pytest.raises(ThinkbackError, match=word):
        simulate_claims(tmp_path / "log", "claimdecomp", **settings)
    assert not (tmp_path / "log").exists()


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ThinkbackError, match="quantemp"):
        simulate_claims(tmp_path / "log", "quantem")
