"""Boosted gates: XGBoost's own JSON in the gate file, the same bytes everywhere; older files keep their numbers."""

from __future__ import annotations

import json
import sys
from math import exp
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import replay
from generate.simulation.recovery import simulate_recovery
from replay.gatefit.fit import _FittedGate, fit_gate
from replay.gatefit.report import gate_decisions
from replay.policies import gate_models
from replay.policies.gate_file import content_hash, gate_file_text, load_gate
from replay.policies.gate_models import MODELS, fit_model
from tests.errors import refuses
from tests.logs import drawn

xgboost = pytest.importorskip("xgboost", reason="the extra `xgboost-cpu` is not installed")

TRAIN = "split = 'train'"
WHEN = """
[[policy]]
name = "gated"
kind = "when"
base = { kind = "sample", pool = "short", max_traces = 1, select = "first" }
gate = { file = "PATH" }
then = { kind = "act", action = "active_verify", base = "short" }
"""


log = drawn(simulate_recovery, examples=400, seed=11)


def fit(log: Path) -> _FittedGate:
    return fit_gate(str(log), action="active_verify", on=TRAIN, tune=None, n_folds=2, kind="trees", seed=4)


@pytest.fixture(scope="module")
def fitted(log: Path) -> _FittedGate:
    return fit(log)


@pytest.fixture
def gate(fitted: _FittedGate, tmp_path: Path) -> Path:
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(fitted.document))
    return path


@pytest.fixture
def without_xgboost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)


def drawn(rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (rows, 4), one tiny, one past single precision's integers; labels in fifths."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(rows, 4)).round(2) * [1, 1, 1e-6, 1e20]
    chance = 1 / (1 + np.exp(1 - values[:, 0] - values[:, 1] * values[:, 2] * 1e6 + values[:, 3] * 1e-20))
    return values, rng.binomial(5, chance) / 5


def signed(document: dict[str, Any]) -> str:
    return json.dumps(document | {"sha256": content_hash(document)})


def test_the_file_holds_a_model_that_xgboost_reads_and_says_what_it_says(gate: Path) -> None:
    found = load_gate(gate)
    values = np.column_stack([drawn(50)[0]] * 3)[:, : len(found.features)]
    own = xgboost.Booster()
    own.load_model(bytearray(json.dumps(json.loads(gate.read_text())["model"]), "utf-8"))
    expected = own.predict(xgboost.DMatrix(values.astype(np.float32)))
    assert len(np.unique(expected)) > 5
    assert found.probabilities(values).tolist() == expected.tolist()
    assert [found.probabilities(row[None])[0] for row in values] == expected.tolist()
    assert found.probabilities(values[:0]).tolist() == []


def test_a_missing_input_is_a_missing_score_and_an_infinite_one_the_largest() -> None:
    values, repair = drawn()
    model = fit_model("trees", values, repair, seed=0)
    rows = np.array([[0.0, np.nan, 0.0, 0.0], [0.0, 0.0, 0.0, 1e300], [0.0, 0.0, 0.0, np.inf], [0.0, 0.0, 0.0, 9e20]])
    scores = MODELS["trees"].scores(model, rows)
    assert np.isnan(scores).tolist() == [True, False, False, False]
    assert scores[1] == scores[2] == scores[3]
    values[0, 3] = np.inf
    assert np.isfinite(MODELS["trees"].scores(fit_model("trees", values, repair, seed=0), values)).all()


def test_a_repair_of_a_fifth_is_a_fifth_of_an_example_of_each_class() -> None:
    """XGBoost takes fractions for labels too: the same gradients, without a row twice."""
    values, repair = drawn()
    share = repair.mean()
    settings = {
        "objective": "binary:logistic", "base_score": share, "max_depth": 3, "eta": 0.1, "tree_method": "exact",
        "min_child_weight": 10 * share * (1 - share), "nthread": 1,
    }  # fmt: skip
    rows = xgboost.DMatrix(values.astype(np.float32), repair)
    expected = xgboost.train(settings, rows, 50).predict(rows)
    assert MODELS["trees"].scores(fit_model("trees", values, repair, 0), values) == pytest.approx(expected, abs=1e-5)


def test_one_split_by_hand() -> None:
    """Of 20 rows with x = 0 four are repaired, of 20 with x = 1 sixteen: each side takes 50 Newton steps of its own."""
    values = np.repeat([0.0, 1.0], 20)[:, None]
    repair = np.repeat([1.0, 0.0, 1.0, 0.0], [4, 16, 16, 4])
    margin = 0.0
    for _ in range(50):
        chance = 1 / (1 + exp(-margin))
        margin += 0.1 * (16 - 20 * chance) / (20 * chance * (1 - chance) + 1)
    model = fit_model("trees", values, repair, seed=0)
    expected = 1 / (1 + exp(-margin))
    scores = MODELS["trees"].scores(model, np.array([[0.0], [0.4999], [0.5], [1.0]]))
    assert scores == pytest.approx([1 - expected, 1 - expected, expected, expected], abs=1e-6)


@pytest.mark.parametrize(("left", "splits"), [(9, False), (10, True)])
def test_a_leaf_holds_ten_examples(left: int, splits: bool) -> None:
    """Half of 20 rows are repaired; the only split there is parts most of them, or all, from the others."""
    values = (np.arange(20) >= left).astype(float)[:, None]
    model = fit_model("trees", values, (np.arange(20) >= 10).astype(float), seed=0)
    trees = model["learner"]["gradient_booster"]["model"]["trees"]
    assert any(len(tree["split_conditions"]) > 1 for tree in trees) == splits


def test_threads_and_repetition_change_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    values, repair = drawn(100)
    monkeypatch.setattr(gate_models, "TREES", 4)
    models = []
    for threads in (1, 1, 2, 3):
        monkeypatch.setattr(gate_models, "THREADS", threads)
        models.append(json.dumps(fit_model("trees", values, repair, seed=4)))
    assert len(set(models)) == 1


def test_the_same_log_gives_the_same_file(log: Path, fitted: _FittedGate) -> None:
    assert gate_file_text(fit(log).document) == gate_file_text(fitted.document)
    assert fitted.document["version"] == 2


def test_a_tree_edited_by_hand_is_refused(gate: Path) -> None:
    document = json.loads(gate.read_text())
    document["model"]["learner"]["gradient_booster"]["model"]["trees"][0]["split_conditions"][0] += 0.5
    gate.write_text(json.dumps(document))
    with refuses("damaged", "`at_least`"):
        load_gate(gate)


def test_a_policy_fires_where_the_fitted_gate_does(log: Path, gate: Path, fitted: _FittedGate) -> None:
    result = replay.run(log, WHEN.replace('PATH"', f'{gate}", reuse = true'), where=TRAIN, resamples=20)
    rows = gate_decisions(str(log), fitted.gate, TRAIN)
    assert 0 < sum(row["choose_verify"] for row in rows) < len(rows)
    fired = dict(result.outcomes.collect().select("example_id", "intervened").iter_rows())
    assert fired == {row["example_id"]: row["choose_verify"] for row in rows}


def test_without_xgboost_one_line_says_what_to_install(log: Path, gate: Path, without_xgboost: None) -> None:
    with refuses("package", "`trees`", "xgboost", "'thinkback[xgboost-cpu]'"):
        fit(log)
    with refuses("package", f"`{gate}`"):
        load_gate(gate)
    with refuses("package", "'thinkback[xgboost-cpu]'"):
        replay.run(log, WHEN.replace("PATH", str(gate)), where="split = 'test'", resamples=20)


def test_a_model_of_a_later_xgboost_is_refused(gate: Path) -> None:
    """An earlier XGBoost reads it without an error, and predicts something else."""
    document = json.loads(gate.read_text())
    document["model"]["version"] = [99, 1, 0]
    gate.write_text(signed(document))
    with refuses("package", f"`{gate}`", "99.1.0", xgboost.__version__):
        load_gate(gate)


@pytest.mark.parametrize(
    "change", [{"version": 3}, {"version": 1}, {"version": None}, {"kind": "forest"}, {"kind": ["trees"]}]
)
def test_a_gate_of_another_version_is_refused(change: dict[str, Any], gate: Path) -> None:
    gate.write_text(signed(json.loads(gate.read_text()) | change))
    with refuses("format", "gate.json`"):
        load_gate(gate)
