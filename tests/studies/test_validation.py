"""The study of fact checking beside its main comparison: the validation split, and the verifiers' calibration."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from replay.analyses.budgets.budgets import budgets
from replay.studies.factcheck.runs import FactcheckSetting
from replay.studies.factcheck.study import _scored_traces, _validation_budgets, _ValidationBudgets, calibrations
from replay.studies.kit.cells import interval_cell
from tests.errors import quotes, remarked
from tests.studies.claims import simulated, tables, written
from toolkit.log import Log, open_log
from toolkit.stats import Interval, Settings

QUICK = {"resamples": 20}


def log_of(folder: Path, frames: dict[str, pl.DataFrame], fewer: int = 15) -> Log:
    """Half of its claims are of the validation split, and have `fewer` traces in pools of their own."""
    half = pl.int_range(pl.len()) % 2 == 0
    split = pl.when(half).then(pl.lit("validation")).otherwise(pl.lit("test"))
    examples = frames["examples"].with_columns(split=split)
    own = pl.col("example_id").is_in(examples.filter(split="validation")["example_id"].implode())
    gone = own & (pl.col("sample_index") >= fewer)
    traces = frames["traces"].filter(~gone).with_columns(pool=pl.when(own).then("v" + pl.col("pool")).otherwise("pool"))
    kept = pl.col("trace_id").is_in(traces["trace_id"].implode())
    rest = {name: frame.filter(kept) for name, frame in frames.items() if name not in ("examples", "traces")}
    return open_log(written(folder / "log", {"examples": examples, "traces": traces, **rest}))


def test_the_validation_split_is_replayed_on_its_own_pool(tmp_path: Path) -> None:
    log = log_of(tmp_path, tables(), fewer=4)
    dataset = log.scan("examples", ["dataset"]).collect()["dataset"][0]
    setting = FactcheckSetting("n15", "strong", options={"where": "split = 'test'", **QUICK})
    found = _validation_budgets(log, setting, dataset)
    assert found.missing == ()
    assert found.fixed is not None
    where = "split = 'validation'"
    own = budgets(log, verifier="strong", max_traces=4, pool="vn15", random_seed=20, where=where, **QUICK)
    assert found.fixed.budgets.by_k.equals(own.by_k)
    assert {(at.traces, at.k) for at in found.fixed.keys} == {(4, k) for k in (1, 2, 3, 4)}


def test_without_validation_claims_there_is_nothing_and_reported_ones_are_not_shown_twice(tmp_path: Path) -> None:
    setting = FactcheckSetting("n15", "strong", options=QUICK)
    plain = open_log(written(tmp_path / "plain", tables()))
    dataset = plain.scan("examples", ["dataset"]).collect()["dataset"][0]
    assert _validation_budgets(plain, setting, dataset) == _ValidationBudgets()
    log = log_of(tmp_path / "both", tables())
    missing = _validation_budgets(log, setting, dataset).missing
    remarked(missing, "validation_reported")


def test_several_pools_of_validation_claims_are_no_one(tmp_path: Path) -> None:
    frames = simulated()
    setting = FactcheckSetting("n15", "strong", options={"where": "split = 'test'", **QUICK})
    found = _validation_budgets(log_of(tmp_path, frames), setting, frames["examples"]["dataset"][0])
    assert found.fixed is None
    remarked(found.missing, "validation_pools", "2", "`vn15`", "`vprobe`", "`n15`")


def test_calibration_is_of_the_scored_traces_within_the_cap(tmp_path: Path) -> None:
    frames = tables()
    odd = pl.col("sample_index") == 1  # an answer that is no label: the study never asks about it
    frames["traces"] = frames["traces"].with_columns(answer=pl.when(odd).then(pl.lit("Z")).otherwise("answer"))
    frames["traces"] = frames["traces"].with_columns(correct=pl.col("correct") & ~odd)
    log = open_log(written(tmp_path / "log", frames))
    rows = _scored_traces(log, "n15", "strong", 3)
    traces = log.scan("traces").collect().filter((pl.col("sample_index") < 3) & pl.col("answer").is_in(["A", "B", "C"]))
    scores = log.scan("verifications").collect().filter(verifier="strong").select("trace_id", "score")
    wanted = traces.join(scores, on="trace_id")
    assert len(rows) == len(wanted)
    assert rows["unit"].n_unique() == wanted["example_id"].n_unique()
    (strong, none) = calibrations(log, "n15", ["strong", "nobody"], cap=3, settings=Settings(resamples=20))
    brier = float(((wanted["score"] - wanted["correct"].cast(pl.Float64)) ** 2).mean())
    assert strong.calibration.brier.estimate == pytest.approx(brier)
    assert strong.missing == ""
    quotes(none.missing, "`nobody`")


def test_an_interval_without_an_estimate_is_a_dash() -> None:
    assert interval_cell(None) is None
    assert interval_cell(Interval(None, None, None, 0, None)) is None
    assert interval_cell(Interval(0.25, 0.125, 0.5, 9, "wilson"), 100).low == 12.5
