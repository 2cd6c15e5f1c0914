"""Simulated QuanTemp and ClaimDecomp: valid logs that lie near the published numbers, and the same from run to run."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from statistics import fmean

import polars as pl
import pytest

from generate.simulation.claims import _simulation_names, load_model, simulate_claims
from replay.studies.factcheck import fidelity
from replay.studies.factcheck.fidelity import (
    KNOWN,
    POOLS,
    KnownMisfit,
    _CheckedValue,
    _HeldOutNumber,
    _SeedMean,
    check_simulation,
    fitted_numbers_table,
)
from replay.studies.factcheck.published import PublishedPool
from replay.studies.factcheck.runs import SURROGATE, FactcheckSetting
from tests.errors import refuses
from tests.logs import drawn
from tests.seeds import seeds
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log, collect, validate_log

small = drawn(simulate_claims, "claimdecomp", dev=20, opened=True)


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
        of_tokens = ["token_entropies", "token_ranks"]
        of_replies = ["reasoning", "reasoning_tokens", "cached_tokens", "tool_calls", "cost", "request"]
        of_replies += ["started_s", "arrived_s"]
        later = {
            "examples": ["golds", "human_positions", "human_corrects"],
            "traces": ["completion_ids", "documents", "answer_cluster", *of_tokens, *of_replies],
            "verifications": ["fold", "token_logprobs", *of_tokens],
        }.get(table, [])
        rows = rows.drop(later)  # columns that logs did not have then
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


@pytest.mark.parametrize("name", seeds(1, sorted(_simulation_names())))
def test_replay_lies_within_the_distances(name: str, tmp_path: Path) -> None:
    log = simulate_claims(tmp_path / "log", name, traces=16)
    lines = check_simulation(log, name, "n16")
    far = {(name, line.table, line.method, line.what) for line in lines if not line.is_within}
    assert far == {key for key in KNOWN if key[0] == name}
    assert all(line.is_expected for line in lines)
    assert all(line.error is not None for line in lines)
    assert all(line.distance <= 2 * line.error + 1e-9 for line in lines)
    tables = {line.table for line in lines}
    assert tables == {"5.1", "5.2", "5.3", "5.6", "B.1", "gold"} | ({"5.8", "5.9"} if name == "quantemp" else set())
    gold = next(line for line in lines if line.table == "gold")
    assert gold.published == {"quantemp": 72.5, "claimdecomp": 71.5}[name]
    assert len(lines) == {"quantemp": 50, "claimdecomp": 31}[name]
    if name == "quantemp":  # the thesis finds the surrogate ahead of both at each of these budgets but one
        setting = FactcheckSetting("n16", "lora", CLAIM_FEATURES, options={"where": "split = 'test'", "resamples": 1})
        found = list(fidelity._order_gap_numbers(log, POOLS[name][0], setting))
        assert "".join("+" if one.simulated > 0 else "-" for one in found) == "-----" + "---+-"


def test_a_known_failure_may_not_grow_or_turn() -> None:
    """Known to be 3 too high, with a sampling error of 0.5: up to 3.5 is known, and nothing below the published one."""

    high = KnownMisfit(3.0, "why")

    def of(simulated: float, known: KnownMisfit | None = high) -> _CheckedValue:
        return _CheckedValue("5.3", SURROGATE, "traces", 10.0, simulated, 1.0, 0.5, known)

    told = [(of(x).is_within, of(x).is_expected) for x in (10.9, 13.4, 13.6, 8.0)]
    assert told == [(True, True), (False, True), (False, False), (False, False)]
    assert (of(13.0, None).is_within, of(13.0, None).is_expected) == (False, False)
    below = [of(x, KnownMisfit(-3.0, "why")).is_expected for x in (6.6, 6.4, 12.0)]
    assert below == [True, False, False]
    verdicts = [row[-1] for row in fitted_numbers_table([of(10.9), of(13.4), of(13.6)], "fitted").rows]
    assert verdicts == [True, "known", False]


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


SIGNS = {
    "claimdecomp: less generation, points": ("---++++-", "------00"),
    "claimdecomp: less random, expected, points": ("-----+--", "----+++-"),
    "quantemp: less generation, points": ("-----", "-----"),
    "quantemp: less random, expected, points": ("-----", "-----"),
    "quantemp: validation, less generation, points": ("------+-", "------++"),
    "quantemp: validation, less random, expected, points": ("--------", "-------+"),
}
"""Of the differences of table B.4, the signs of their means, in the order of their budgets: over two and ten seeds; 0:
less than 0.02 points. What the manual's tables say of them rests on these.
"""


def signs_of(name: str, seeds: int, folder: Path) -> dict[str, str]:
    """By data set, split and order, the signs of the mean differences."""
    numbers: dict[str, list[float]] = {}
    for seed in range(seeds):
        log = simulate_claims(folder / f"{name}-{seed}", name, traces=SIZES[name], seed=seed)
        setting = fidelity._simulated_setting(f"n{SIZES[name]}", resamples=1)
        for one in (one for pool in POOLS[name] for one in fidelity._order_gap_numbers(log, pool, setting)):
            numbers.setdefault(one.what, []).append(one.simulated)
    found: dict[str, str] = {}
    for what, values in numbers.items():
        key = f"{name}: {re.sub('k = [0-9]+: ', '', what)}"
        mean = fmean(values)
        found[key] = found.get(key, "") + ("0" if abs(mean) < 0.02 else "+" if mean > 0 else "-")
    return found


SIZES = {name: next(pool.size for pool in POOLS[name] if pool.split == "test") for name in POOLS}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["claimdecomp", "quantemp"])
def test_signs_that_nothing_was_fitted_to_over_two_seeds(name: str, tmp_path: Path) -> None:
    assert signs_of(name, 2, tmp_path) == {key: two for key, (two, _) in SIGNS.items() if key.startswith(name)}


@pytest.mark.slow
@pytest.mark.parametrize("name", _simulation_names())
def test_signs_that_nothing_was_fitted_to_over_ten_seeds(name: str, tmp_path: Path) -> None:
    assert signs_of(name, 10, tmp_path) == {key: ten for key, (_, ten) in SIGNS.items() if key.startswith(name)}


def test_every_pool_of_the_published_table_is_held_out() -> None:
    pools = {(pool.name, pool.size) for of in POOLS.values() for pool in of}
    assert pools == {("QuanTemp test", 15), ("QuanTemp validation", 50), ("ClaimDecomp test", 50)}
    assert [pool.pool for pool in POOLS["quantemp"]] == [None, "n50"]


@pytest.mark.slow
def test_one_random_order_is_part_of_the_error(small: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences to generation order keep the error of their claims; those to the random one have more."""
    pool = PublishedPool("QuanTemp test", 15)  # whose published budgets the log's 15 traces have, too
    setting = FactcheckSetting("n15", "lora", options={"where": "split = 'test'", "resamples": 20})
    monkeypatch.setattr(fidelity, "ORDERS_DRAWN", 2)
    both = {one.what: one.error for one in fidelity._order_gap_numbers(small, pool, setting)}
    monkeypatch.setattr(fidelity, "_spread_over_orders", lambda log, asked: {})
    alone = {one.what: one.error for one in fidelity._order_gap_numbers(small, pool, setting)}
    for what, error in alone.items():
        assert (both[what] > error + 0.01) if "random" in what else (both[what] == error), what


def test_a_held_out_number_fails_beyond_its_error_or_with_another_sign() -> None:
    def of(values: tuple[float, ...], published: float = 1.0, signed: bool = True) -> _SeedMean:
        return _SeedMean(_HeldOutNumber("B.4", SURROGATE, "k = 3", published, values[0], 1.0, signed), values)

    assert (of((2.0, 3.0)).is_reproduced, of((2.0, 3.0)).sampling_errors, of((2.0, 3.0)).equal_sign_count) == (
        True,
        1.5,
        2,
    )
    assert (of((4.0, 3.0)).is_reproduced, of((-1.0, 0.5)).is_reproduced, of((-1.0, 0.5)).equal_sign_count) == (
        False,
        False,
        1,
    )
    assert (of((-1.0, 0.5), signed=False).is_reproduced, of((0.3,), published=0.0).equal_sign_count) == (True, None)


@pytest.mark.parametrize(
    ("settings", "refusal"),
    [
        ({"traces": 51}, ("invalid", "`traces`")),
        ({"traces": 0}, ("invalid", "`traces`")),
        ({"dev": -1}, ("invalid", "`dev`")),
        ({"seed": -1}, ("invalid", "`seed`")),
    ],
)
def test_bad_sizes_are_refused(tmp_path: Path, settings: dict, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        simulate_claims(tmp_path / "log", "claimdecomp", **settings)
    assert not (tmp_path / "log").exists()


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    with refuses("unknown", "`quantemp`"):
        simulate_claims(tmp_path / "log", "quantem")
