"""A log with planted states: what is known of it holds, and verifiers that are fitted on it come near."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from generate.simulation.planted import STATES, VERIFIER, PlantedModel, simulate_planted
from replay.latent.fitting import fit_verifier
from replay.latent.models import VerifierSettings
from replay.latent.report import _add_verifier
from tests.errors import refuses
from tests.latent.planted import areas, best_of_n, scores
from toolkit.log import Log, collect, validate_log


def test_the_log_is_valid_and_examples_do_not_depend_on_how_many_there_are(tmp_path: Path) -> None:
    few = simulate_planted(tmp_path / "few", examples=7, traces=3, seed=2)
    many = simulate_planted(tmp_path / "many", examples=40, traces=5, seed=2)
    assert validate_log(few).problems == ()
    assert few.simulated
    states = [
        collect(log.scan(f"hidden_states/{STATES}", ["trace_id", "token", "state"]), log).sort("trace_id", "token")
        for log in (few, many)
    ]
    assert states[0].height == 7 * 3 * 4
    assert states[1].filter(states[1]["trace_id"].is_in(states[0]["trace_id"].implode())).equals(states[0])


def test_the_closed_form_is_that_of_a_plain_simulation() -> None:
    model, rng = PlantedModel(signal=0.8, difficulty=-0.7, shared=0.3, places=3), np.random.default_rng(0)
    u = rng.normal(size=(150_000, 1))
    right = rng.random((150_000, 4)) < model.right_probability(u)
    noise = rng.normal(size=(150_000, 4)) * np.sqrt(model.noise_variance())
    score = 0.8 * right - 0.7 * u + noise
    best = np.take_along_axis(right, score.argmax(axis=1)[:, None], axis=1).mean()
    pairs = right[:, 0] & ~right[:, 1]
    within = (score[pairs, 0] > score[pairs, 1]).mean()
    first, second = rng.permutation(150_000), rng.permutation(150_000)
    mixed = right[first, 0] & ~right[second, 1]
    pooled = (score[first, 0] > score[second, 1])[mixed].mean()
    assert abs(model.random_pick_accuracy() - right.mean()) < 0.003
    assert abs(model.best_of_accuracy(4) - best) < 0.003
    assert abs(model.auc_within() - within) < 0.006
    assert abs(model.auc() - pooled) < 0.006


@pytest.fixture(scope="module")
def eight(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """4,000 questions of 8 traces, half of them to train on, at one place of 8 dimensions."""
    path = tmp_path_factory.mktemp("planted") / "log"
    simulate_planted(path, examples=4_000, traces=8, seed=1, model=PlantedModel(places=1))
    for kind in ("logistic", "xgboost"):
        settings = VerifierSettings(kind, model=kind, folds=0)
        log = _add_verifier(path, fit_verifier(str(path), "split='train'", settings))
    return log


def test_the_true_projection_is_worth_what_is_known(eight: Log) -> None:
    known, found = PlantedModel(places=1), scores(eight, VERIFIER)
    pooled, within = areas(found)
    assert abs(pooled - known.auc()) < 0.01
    assert abs(within - known.auc_within()) < 0.01
    assert abs(best_of_n(found) - known.best_of_accuracy(8)) < 0.01


@pytest.mark.parametrize(("kind", "allowed"), [("logistic", 0.01), ("xgboost", 0.03)])
def test_a_verifier_on_16_000_rows_of_8_dimensions_comes_near(eight: Log, kind: str, allowed: float) -> None:
    known, found = PlantedModel(places=1), scores(eight, kind)
    assert found["split"].unique().to_list() == ["test"]
    pooled, within = areas(found)
    assert abs(pooled - known.auc()) < allowed
    assert abs(within - known.auc_within()) < allowed
    assert abs(best_of_n(found) - known.best_of_accuracy(8)) < allowed + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("dimensions", [16, 128])
def test_a_logistic_probe_comes_near_at_more_dimensions(tmp_path: Path, dimensions: int) -> None:
    model = PlantedModel(dimensions=dimensions)
    simulate_planted(tmp_path / "log", examples=8_000, traces=8, seed=1, model=model)
    settings = VerifierSettings("logistic", model="logistic", folds=0)
    log = _add_verifier(tmp_path / "log", fit_verifier(str(tmp_path / "log"), "split='train'", settings))
    pooled, within = areas(scores(log, "logistic"))
    assert abs(pooled - model.auc()) < 0.01
    assert abs(within - model.auc_within()) < 0.01


def test_settings_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with refuses("invalid", "`dimensions`"):
        PlantedModel(dimensions=0)
    with refuses("invalid", "`examples`"):
        simulate_planted(tmp_path / "log", examples=0, traces=2)
