"""Simulated QuanTemp and ClaimDecomp: valid logs that lie near the published numbers, and the same from run to run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from generate.simulation.claims import load_model, simulate_claims, simulations
from replay.studies.factcheck.check import KNOWN, check_simulation
from replay.studies.factcheck.fixed_budgets import BUDGETS
from replay.studies.factcheck.heldout import SPLITS, TRACES, held_out
from replay.studies.factcheck.runs import SURROGATE
from replay.studies.kit.fidelity import HeldOut, HeldOutNumber
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


def test_the_validation_split_is_the_published_one_and_leaves_the_test_claims_as_they_were(tmp_path: Path) -> None:
    """500 claims in the proportions of table 4.1, 50 traces each; the digest is of before there were any."""
    log = simulate_claims(tmp_path / "log", "quantemp", traces=3)
    assert validate_log(log).problems == ()
    claims = collect(log.scan("examples", ["example_id", "split", "gold"]), log)
    validation = claims.filter(pl.col("split") == "validation")
    counts = dict(validation.group_by("gold").len().iter_rows())
    # 500 * 617 / 3084 = 100.03, 500 * 1795 / 3084 = 291.02, 500 * 672 / 3084 = 108.95
    assert counts == {"Supports": 100, "Refutes": 291, "Conflicting": 109}
    traces = collect(log.scan("traces", ["trace_id", "example_id", "pool"]), log)
    assert traces.group_by("pool").len().sort("pool").rows() == [("n3", 3 * 2495), ("n50", 50 * 500)]
    scores = collect(log.scan("verifications", ["trace_id", "verifier"]), log).join(traces, on="trace_id")
    assert set(scores.filter(pl.col("pool") == "n50")["verifier"]) == {"lora"}
    whole = hashlib.sha256()
    for table in ("examples", "traces", "verifications", "features"):
        rows = collect(log.scan(table), log).filter(pl.col("example_id").str.contains("-test-"))
        for row in rows.rows():
            whole.update(json.dumps(row, default=str).encode())
    assert whole.hexdigest() == "2a661dbda84f8350ef8235e17abfe3bdbf01b985f3df1bde28e4a58cbcf1c064"


def test_wall_clock_is_told_by_pool(tmp_path: Path) -> None:
    """Test: the calls and 0.35 h; validation: its calls and 0.35 h * (500 * 50) / (2,495 * 15), as many as traces."""
    log = simulate_claims(tmp_path / "log", "quantemp", traces=15)
    source = log.manifest.source
    traces = collect(log.scan("traces", ["pool", "latency_s"]).with_columns(pl.col("latency_s").cast(pl.Float64)), log)
    spent = dict(traces.group_by("pool").agg(pl.col("latency_s").sum()).iter_rows())
    rest = {name: pool["wall_clock_s"] - spent[name] for name, pool in source["pools"].items()}
    assert rest == pytest.approx({"n15": 1260.0, "n50": 1260.0 * 25_000 / 37_425}, abs=1e-2)
    lora = source["verifiers"]["lora"]
    assert lora["wall_clock_s"] == pytest.approx(sum(one["wall_clock_s"] for one in lora["pools"].values()), abs=1e-2)
    assert set(source["verifiers"]["deepseek"]["pools"]) == {"n15"}


@pytest.mark.parametrize("name", simulations())
def test_replay_lies_within_the_distances(name: str, tmp_path: Path) -> None:
    log = simulate_claims(tmp_path / "log", name, traces=16)
    lines = check_simulation(log, name, "n16")
    far = {(name, line.table, line.method, line.what) for line in lines if line.within is False}
    assert far == {key for key in KNOWN if key[0] == name}
    assert all(line.error is not None for line in lines)
    assert all(line.distance <= 2 * line.error + 1e-9 for line in lines if line.distance is not None)
    held = {line.table for line in lines if line.distance is not None}
    assert held >= {"5.1", "5.3", "5.6", "B.1"} | ({"5.8", "5.9"} if name == "quantemp" else set())


def test_distances_are_twice_as_far_for_the_small_data_set_but_within_two_sampling_errors(small: Log) -> None:
    lines = check_simulation(small, "claimdecomp", "n15")
    allowed = {(line.table, line.what): line.distance for line in lines if line.method != SURROGATE}
    assert allowed["5.1", "accuracy, %"] == 3.0
    assert allowed["5.1", "f1:Refutes, %"] == 8.0
    assert allowed["5.3", "traces per claim"] == pytest.approx(0.75, abs=0.1)
    share = 6 / 200
    few = "claims with 6 to 10 traces, %"
    assert allowed["B.1", few] == pytest.approx(2 * 100 * (share * (1 - share) / 200) ** 0.5)
    assert next(line.published for line in lines if line.what == few) == pytest.approx(3.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "above"), [("quantemp", set()), ("claimdecomp", {("generation", 20), ("generation", 25)})]
)
def test_signs_that_nothing_was_fitted_to(name: str, above: set[tuple[str, int]], tmp_path: Path) -> None:
    """Where the surrogate is ahead in table B.4, seed 0: a change of sign is to be seen."""
    log = simulate_claims(tmp_path / "log", name, traces=TRACES[name])
    found = {x.first.what: x for x in held_out([log], name, f"n{TRACES[name]}") if x.first.table == "B.4"}
    assert len(found) == 2 * len(BUDGETS[SPLITS[name][1]])
    assert {what for what, x in found.items() if x.mean > 0.1} == {f"k = {k}: less {o}, points" for o, k in above}


def test_a_held_out_number_fails_beyond_its_error_or_with_another_sign() -> None:
    def of(values: tuple[float, ...], published: float = 1.0, signed: bool = True) -> HeldOut:
        return HeldOut(HeldOutNumber("B.4", SURROGATE, "k = 3", published, values[0], 1.0, signed), values)

    assert (of((2.0, 3.0)).held, of((2.0, 3.0)).errors, of((2.0, 3.0)).same_sign) == (True, 1.5, 2)
    assert (of((4.0, 3.0)).held, of((-1.0, 0.5)).held, of((-1.0, 0.5)).same_sign) == (False, False, 1)
    assert (of((-1.0, 0.5), signed=False).held, of((0.3,), published=0.0).same_sign) == (True, None)


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
