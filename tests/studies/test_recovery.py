"""The study of thinking again on made logs: one example set for all of it, and whose calls its tables count."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from generate.simulate_recovery import RecoveryModel, recovery_tables
from replay.studies.recovery import Asked, DatasetStudy, cast_of, study_dataset
from replay.studies.recovery_costs import COST_TABLES
from replay.studies.recovery_tables import TABLES
from toolkit.log import open_log, write_log
from toolkit.stats import Settings

Tables = dict[str, pl.DataFrame]


def asked(**changes: Any) -> Asked:
    settings = Settings(resamples=20)
    given: dict[str, Any] = {"action": "active_verify", "base": "short", "budgets": (), "gate": None, "margin": 0.01}
    given |= {"on": "split='train'", "tune": "split='dev'", "where": "split='test'", "prices": None}
    return Asked(**(given | {"settings": settings} | changes))


def study(tables: Tables, path: Path, **changes: Any) -> DatasetStudy:
    write_log(path, name="made", tables=tables, simulated=True)
    log = open_log(path)
    cast, screening, _ = cast_of(log, asked(**changes))
    dataset = tables["examples"].filter(pl.col("split") == "test")["dataset"][0]
    return study_dataset(log, cast, screening, asked(**changes), dataset)


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> DatasetStudy:
    """600 examples, 120 of them reported; one of these lacks a sample of the vote, another a revision of `long`."""
    tables = recovery_tables(600, 11, RecoveryModel(votes=3))
    test = tables["examples"].filter(pl.col("split") == "test")["example_id"]
    hole = (pl.col("example_id") == test[0]) & (pl.col("pool") == "votes") & (pl.col("sample_index") == 2)
    tables["traces"] = tables["traces"].filter(~hole)
    return study(tables, tmp_path_factory.mktemp("holed") / "log")


def test_all_of_the_study_is_over_the_examples_that_its_run_compares(holed: DatasetStudy) -> None:
    compared = holed.result.statistics.n
    assert len(holed.result.excluded) == 1
    assert holed.cluster is not None
    assert len(holed.cluster) == compared
    assert {report.examples for report in holed.reports.values()} == {compared}
    frozen = holed.reports["active_verify"].rows.filter(rule="the gate, frozen").row(0, named=True)
    assert frozen["accuracy"] == pytest.approx(float(np.mean(holed.values("selective active_verify")["correct"])))
    assert holed.curve is not None
    ends = holed.curve["accuracy"][0], holed.curve["accuracy"][-1]
    assert ends == pytest.approx(
        [float(np.mean(holed.values(n)["correct"])) for n in ("base: short", "always active_verify")]
    )
    rate = float(np.mean(holed.values("selective active_verify")["intervened"]))
    assert f"matched random at rate {rate:.3f}" in holed.policies


def test_every_table_of_a_log_with_a_hole_can_be_made(holed: DatasetStudy) -> None:
    for name, layout in {**TABLES, **COST_TABLES}.items():
        assert layout([holed]).rows, name


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> DatasetStudy:
    """Every revision of `short` again as one of `long`, always with a finalizer of 1,000 tokens and cut off."""
    tables = recovery_tables(600, 11, RecoveryModel(votes=3))
    traces = tables["traces"].with_columns(
        finalizer_used=pl.lit(True), finalizer_tokens=pl.when(pl.col("action") == "solve").then(10).otherwise(20)
    )
    long = traces.filter((pl.col("pool") == "long") & (pl.col("sample_index") == 0)).select("example_id", up="trace_id")
    again = traces.filter(pl.col("action") == "active_verify").join(long, on="example_id").with_columns(
        trace_id=pl.col("trace_id") + " of long", parent_id="up", pool=pl.lit("long revised"),
        finish_reason=pl.lit("length"),
        finalizer_tokens=pl.lit(1_000),
    )  # fmt: skip
    lost = (pl.col("action") == "continue") & (pl.col("sample_index") == 0)  # a finalizer without its tokens
    traces = pl.concat([traces, again.drop("up").cast(traces.schema)])
    tables["traces"] = traces.with_columns(finalizer_tokens=pl.when(~lost).then("finalizer_tokens"))
    return study(tables, tmp_path_factory.mktemp("crowded") / "log")


def test_calls_are_counted_of_revisions_of_the_base_alone(crowded: DatasetStudy) -> None:
    row = crowded.screening.filter(action="active_verify").row(0, named=True)
    assert row["truncation_rate"] < 0.5
    assert set(crowded.finalizers["active_verify"]) == {20.0}
    assert set(crowded.finalizers["short"]) == {10.0}


def test_unlogged_tokens_of_finalizers_are_unknown(crowded: DatasetStudy) -> None:
    assert np.isnan(crowded.finalizers["continue"]).all()
    tokens = COST_TABLES["tokens"]([crowded])
    place = [column.key or column.name for column in tokens.columns].index("finalizer_tokens")
    shown = {row[1]: row[place] for row in tokens.rows}
    assert shown["always continue"] is None
    assert shown["always active_verify"] == pytest.approx(30.0)
