"""Files of latent verifiers and their records, changed by hand: refused in one line before a library reads them."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import thinkback as tb
from generate.simulation.planted import PlantedModel, simulate_planted
from replay.data.fitted_scores import fitted_verifiers
from tests.errors import refuses
from tests.latent.planted import scores
from toolkit.errors import ThinkbackError
from toolkit.log import collect, open_log

TRAIN = "split = 'train'"
KINDS = {"xgboost": "one", "logistic": "mean", "mlp": "each", "swiglu": "one"}
GIANT = 10**9


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with a verifier of each kind."""
    where = tmp_path_factory.mktemp("files") / "log"
    simulate_planted(where, examples=40, traces=4, seed=3, model=PlantedModel(places=2))
    for kind, places in KINDS.items():
        if kind == "swiglu":
            pytest.importorskip("torch", reason="the extra `generate` is not installed")
        tb.fit_verifier(where, TRAIN, name=kind, model=kind, places=places, folds=2, rounds=3)
    return where


@cache
def text(path: Path, kind: str) -> str:
    return (path / "models" / f"{kind}.json").read_text()


def load(tmp_path: Path, changed: Any) -> Any:
    file = tmp_path / "verifier.json"
    file.write_text(json.dumps(changed))
    return tb.load_verifier(file)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_gives_the_scores_that_are_in_the_log(kind: str, path: Path) -> None:
    log, saved = open_log(path), tb.load_verifier(path / "models" / f"{kind}.json")
    states = collect(log.scan("hidden_states/planted"), log).sort("trace_id", "layer", "token")
    rows = states["state"].to_numpy().astype(np.float32)
    named = states.select("layer", "token").to_numpy()
    joined = states.select("trace_id", "layer", "token")
    if KINDS[kind] == "one":
        values = saved.probabilities(np.column_stack([rows, named]))
    else:
        values = np.zeros(len(rows))
        for place in saved.places:
            here = (named == place).all(axis=1)
            values[here] = saved.probabilities(rows[here], place)
    own = joined.with_columns(probability=pl.Series(values))
    names = [kind] if KINDS[kind] != "each" else [f"{kind}:{layer}:{token}" for layer, token in saved.places]
    for number, name in enumerate(names):
        at = own if len(names) == 1 else own.filter(layer=saved.places[number][0], token=saved.places[number][1])
        means = at.group_by("trace_id").agg(pl.col("probability").mean())
        both = scores(log, name).filter(pl.col("fold").is_null()).join(means, on="trace_id")
        assert both.height == 80
        assert (both["score"] - both["probability"]).abs().max() < 1e-6


ENSEMBLE = "models.0.learner.gradient_booster.model"
TREE = f"{ENSEMBLE}.trees.0"
WRONG: list[tuple[str, str, Any]] = [
    *(
        ("xgboost", place, value)
        for place, values in {
            f"{TREE}.left_children.0": (GIANT, -2, 0), f"{TREE}.split_indices.0": (GIANT, 99),
            f"{TREE}.split_conditions.0": (float("nan"), 1e39), f"{TREE}.default_left": ([1],),
            f"{ENSEMBLE}.tree_info": ([5, 5, 5], []), f"{ENSEMBLE}.trees": (5, []), "models.0": ({}, 5, []),
            "models.0.learner.learner_model_param.num_class": (str(GIANT),),
            "models.0.learner.learner_model_param.num_feature": ("1", "-1"),
            "models.0.learner.learner_model_param.base_score": ("0", "[1.5E0]", "1e-300", "1e99", "0.99999999999"),
            "models.0.learner.objective.name": ("multi:softmax",), "models": ([], 5, {}), "version": (2, "1"),
            "states": (5, None), "columns": (5, [5]), "places": (5, [5], [[1]], [["a", 1]], []), "other": (1,),
            "joined": ("some", None), "aggregate": ("most", []), "kind": ("forest", "mlp", []), "format": (5, "x"),
        }.items()
        for value in values
    ),
    *(
        (kind, place, value)
        for kind in ("logistic", "mlp")
        for place, values in {
            "models.0.centre": ([], [1.0], 5), "models.0.centre.0": (None, "x", float("nan"), 10**400),
            "models.0.scale.0": (0.0, -1.0), "models.0.layers": ([], {}, [5]), "models.0.layers.0": ([], {}),
            "models.0.layers.0.bias": ([1.0, 2.0], []), "models.0.layers.0.bias.0": (float("inf"), True),
            "models.0.layers.0.weights": ([], [[1.0]], [5]), "models.0.layers.0.weights.0": ([], [1.0, 2.0]),
            "models.0.layers.0.relu": (1, "yes"), "models": ([],), "joined": ("one",),
        }.items()
        for value in values
    ),
    ("mlp", "models.0.layers.1.weights.0", [1.0, 2.0]), ("swiglu", "models.0.layers.1.gate", {}),
    ("swiglu", "models.0.layers.1.down", {"weights": [[1.0]], "bias": [1.0]}),
    ("swiglu", "models.0.layers.1", {"gate": 1}),
]  # fmt: skip


def changed(document: Any, place: str, value: Any) -> Any:
    """A document with another value at a place."""
    document = copy.deepcopy(document)
    *keys, last = (int(key) if key.isdigit() else key for key in place.split("."))
    holder = document
    for key in keys:
        holder = holder[key]
    holder[last] = value
    return document


@pytest.mark.parametrize(("kind", "place", "value"), WRONG)
def test_a_changed_file_is_refused(kind: str, place: str, value: Any, path: Path, tmp_path: Path) -> None:
    with pytest.raises(ThinkbackError) as error:
        load(tmp_path, changed(json.loads(text(path, kind)), place, value))
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("verifier `")


@pytest.mark.parametrize("key", ["format", "kind", "states", "columns", "places", "joined", "aggregate", "models"])
def test_every_key_is_required(key: str, path: Path, tmp_path: Path) -> None:
    document = json.loads(text(path, "xgboost"))
    del document[key]
    with pytest.raises(ThinkbackError):
        load(tmp_path, document)


@pytest.mark.parametrize("document", [5, [], {}, {"format": "thinkback-gate"}])
def test_a_file_of_something_else_is_refused(document: Any, tmp_path: Path) -> None:
    with refuses("format", "verifier `"):
        load(tmp_path, document)


@pytest.mark.parametrize("rows", [np.zeros((2, 3)), np.zeros(34), np.zeros((0, 1))])
def test_rows_of_another_length_are_refused(rows: np.ndarray, path: Path) -> None:
    with refuses("invalid", str(rows.shape)):
        tb.load_verifier(path / "models" / "xgboost.json").probabilities(rows)


def test_a_verifier_of_each_place_needs_its_name(path: Path) -> None:
    saved = tb.load_verifier(path / "models" / "mlp.json")
    with refuses("invalid", "`place`"):
        saved.probabilities(np.zeros((1, 32)))


def test_what_was_not_checked_is_not_kept(path: Path, tmp_path: Path) -> None:
    document = json.loads(text(path, "xgboost"))
    document["models"][0]["learner"]["attributes"] = {"best_iteration": "-7"}
    tree = document["models"][0]["learner"]["gradient_booster"]["model"]["trees"][0]
    tree |= {"tree_param": {"num_nodes": str(GIANT)}, "categories_nodes": [GIANT]}
    saved = load(tmp_path, document)
    rows = np.ones((3, saved.scorers[0][1]))
    expected = tb.load_verifier(path / "models" / "xgboost.json").probabilities(rows)
    assert saved.probabilities(rows).tolist() == expected.tolist()


RECORDS: list[tuple[str, Any]] = [
    ("settings", 5), ("settings.name", None), ("settings.inputs", [5]), ("places", 5), ("places", [[1]]),
    ("trained_on", []), ("trained_on.where", 5), ("trained_on.log", None), ("trained_on.questions", [5]),
    ("trained_on.states", 5), ("trained_on.states.model", {}),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), RECORDS)
def test_a_changed_record_of_the_manifest_is_refused(place: str, value: Any, path: Path, tmp_path: Path) -> None:
    log = open_log(path)
    assert log.manifest is not None
    source = json.loads(json.dumps(log.manifest.source))
    record = changed(source, f"verifiers.xgboost.{place}", value)
    (tmp_path / "log").mkdir()
    for one in path.iterdir():
        if one.name != "manifest.json":
            (tmp_path / "log" / one.name).symlink_to(one)
    manifest = json.loads((path / "manifest.json").read_text()) | {"source": record}
    (tmp_path / "log" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(ThinkbackError) as error:
        fitted_verifiers(open_log(tmp_path / "log"))
    assert f"source.verifiers.xgboost.{place.split('.')[0]}" in str(error.value)
