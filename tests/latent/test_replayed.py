"""What reads a fitted verifier's scores knows what it was fitted on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.recovery import RecoveryModel, _recovery_tables
from replay.gatefit.fit import fit_gate
from replay.policies.gate_models import fit_model
from tests.errors import refuses, remarked
from toolkit.log import Log, write_log
from toolkit.notes import Severity
from toolkit.show import code_of

POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "votes"
max_traces = 1
select = "first"
[[policy]]
name = "best"
kind = "sample"
pool = "votes"
max_traces = 4
verifier = "latent"
"""
TRAIN = "split = 'train'"


def written(path: Path, folds: pl.Expr, more: pl.Expr | None = None) -> Log:
    """200 questions with a verifier on all traces, that has folds, and one more with others."""
    tables = _recovery_tables(200, 3, RecoveryModel(votes=4))
    split = tables["examples"].select("example_id", "split")
    noise = np.random.default_rng(0).normal(size=tables["traces"].height)
    traces = tables["traces"].join(split, on="example_id").with_columns(score=pl.Series(noise) + pl.col("correct"))
    made = [
        traces.select("trace_id", "example_id", verifier=pl.lit(name), score="score", fold=fold.cast(pl.Int32))
        for name, fold in (("latent", folds), ("other", more))
        if fold is not None
    ]
    return write_log(path, name="fitted", tables=tables | {"verifications": pl.concat(made)})


def fold_in(split: str, count: int) -> pl.Expr:
    number = pl.col("example_id").str.tail(6).cast(pl.Int32)
    return pl.when(pl.col("split") == split).then(number % count)


def test_a_replay_warns_of_examples_that_a_verifier_was_fitted_on(tmp_path: Path) -> None:
    log = written(tmp_path / "log", fold_in("train", 3))
    found = [one for one in replay.run(log, POLICIES, resamples=20).notes if one.code == "out_of_fold"]
    assert [one.severity for one in found] == [Severity.WARNING]
    assert found[0].policies == ("best",)
    assert "fitted on 100 of 200 examples (50.0%)" in found[0].text
    notes = replay.run(log, POLICIES, where="split = 'test'", resamples=20).notes
    assert "out_of_fold" not in {one.code for one in notes}


def test_a_gate_takes_the_folds_of_the_verifier_that_it_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fitted: list[int] = []

    def counting(kind: str, values: np.ndarray, repair: np.ndarray, seed: int) -> dict[str, object]:
        fitted.append(len(values))
        return fit_model(kind, values, repair, seed)

    monkeypatch.setattr("replay.gatefit.fit.fit_model", counting)
    for name, folds, models in (("folds", fold_in("train", 2), [100, 50, 50]), ("none", pl.lit(None), 8)):
        log = written(tmp_path / name, folds)
        fitted.clear()
        gate = fit_gate(log, action="active_verify", on=TRAIN, n_folds=7, features=["verifier:latent"])
        if name == "folds":
            remarked(gate.notes, "folds_seen", "`latent`", "tune")
        assert [code_of(one) for one in gate.notes].count("folds_seen") == (name == "folds")
        assert models == (fitted if isinstance(models, list) else len(fitted))


def test_verifiers_of_different_folds_make_no_gate(tmp_path: Path) -> None:
    log = written(tmp_path / "log", fold_in("train", 2), fold_in("train", 3))
    with refuses("mismatch", "`latent`", "`other`"):
        fit_gate(log, action="active_verify", on=TRAIN, n_folds=2, features=["verifier:latent", "verifier:other"])
