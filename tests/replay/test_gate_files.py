"""Gate files that were changed and given their new hash: refused in one line before a library reads them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.policies.gate_file import gate_file_text, load_gate
from replay.policies.gate_models import fit_model
from tests.errors import refuses
from toolkit.errors import ThinkbackError

SIGNALS = ["truncated", "finalizer_used", "completion_tokens"]
SEEN = {"where": "split = 'dev'", "examples": 2, "repairs": 1.0, "ids": ["a"], "questions": ["b"]}
GIANT = 10**9


def document(kind: str) -> dict[str, Any]:
    """A gate on three signals; one of kind `score` reads the first."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 9, (200, 3)).astype(float)
    repair = (values[:, 0] + values[:, 1] > 8).astype(float)
    if kind == "trees":
        pytest.importorskip("xgboost", reason="the extra `xgboost-cpu` is not installed")
    names = SIGNALS[:1] if kind == "score" else SIGNALS
    return {
        "format": "thinkback-gate", "version": 2 if kind == "trees" else 1, "kind": kind, "action": "again",
        "base": "short", "pool": "repairs", "label": "", "features": [{"source": "signal", "name": n} for n in names],
        "model": fit_model(kind, values, repair, 0), "direction": "at_least", "threshold": 0.5,
        "fitted_on": dict(SEEN), "tuned_on": {**SEEN, "folds": None}, "development": {},
    }  # fmt: skip


def load(tmp_path: Path, changed: dict[str, Any]) -> Any:
    path = tmp_path / "gate.json"
    path.write_text(gate_file_text(changed))
    return load_gate(path)


@pytest.mark.parametrize("kind", ["logistic", "trees", "score"])
def test_a_file_of_each_kind_is_read(kind: str, tmp_path: Path) -> None:
    gate = load(tmp_path, document(kind))
    rows = np.array([[1.0, 2.0, 3.0], [8.0, 8.0, 8.0]])[:, : len(gate.features)]
    scores = gate.probabilities(rows)
    assert gate.seen_question_hashes() == {"b"}
    assert scores[0] < scores[1]


ENSEMBLE = "model.learner.gradient_booster.model"
TREE = f"{ENSEMBLE}.trees.0"
WRONG: list[tuple[str, str, Any]] = [
    ("trees", f"{TREE}.left_children.0", 10**6), ("trees", f"{TREE}.left_children.0", GIANT),
    ("trees", f"{TREE}.right_children.0", -2), ("trees", f"{TREE}.left_children.0", 0),
    ("trees", f"{TREE}.left_children.1", 1), ("trees", f"{TREE}.left_children.0", 2),
    ("trees", f"{TREE}.split_indices.0", 10**6), ("trees", f"{TREE}.split_indices.0", 2**31 - 1),
    ("trees", f"{TREE}.split_indices.0", 3), ("trees", f"{TREE}.split_indices.0", 0.5),
    ("trees", f"{TREE}.split_conditions.0", float("nan")), ("trees", f"{TREE}.split_conditions.0", 1e39),
    ("trees", f"{TREE}.split_conditions", []), ("trees", f"{TREE}.default_left", [1]),
    ("trees", f"{TREE}.split_type.0", 1), ("trees", TREE, []), ("trees", f"{TREE}.left_children", {}),
    ("trees", f"{ENSEMBLE}.tree_info", [5] * 50), ("trees", f"{ENSEMBLE}.tree_info", []),
    ("trees", f"{ENSEMBLE}.trees", 5), ("trees", "model.learner", {}), ("trees", "model", {}), ("trees", "model", []),
    ("trees", "model.learner.learner_model_param.num_class", str(GIANT)),
    ("trees", "model.learner.learner_model_param.num_feature", str(GIANT)),
    ("trees", "model.learner.learner_model_param.num_target", "2"),
    ("trees", "model.learner.learner_model_param.base_score", "x"),
    ("trees", "model.learner.learner_model_param.base_score", "[1.5E0]"),
    ("trees", "model.learner.objective.name", "multi:softmax"), ("trees", "model.learner.gradient_booster.name", "x"),
    ("trees", "model.version", "x"), ("trees", "model.version", [3]), ("trees", "model.version", [3, "x", 0]),
    ("logistic", "model", {}), ("logistic", "model", 5), ("logistic", "model.intercept", None),
    ("logistic", "model.coefficients", [1.0]), ("logistic", "model.coefficients.0", "x"),
    ("logistic", "model.centre.1", float("inf")), ("logistic", "model.scale.0", 0.0), ("score", "model", {"a": 1}),
    *(
        ("logistic", place, value)
        for place, values in {
            "action": ([], None), "base": ({}, None), "pool": ([], 5), "direction": (None, [], 5, "up"),
            "threshold": (None, float("inf"), "often", [0.5]), "fitted_on": (None, [], {"ids": 5}, {"examples": "x"}),
            "tuned_on": ({"questions": [1]}, {"repairs": float("nan")}, "x"), "development": ([],),
            "features": ([], None, {}, [5], [{"source": "signal"}], [{"source": "signal", "name": "margin"}],
                         [{"source": "x", "name": "truncated"}], [{"source": "signal", "name": ["truncated"]}]),
            "features.0.name": ("near_limit", ""), "other": (1,),
        }.items()
        for value in values
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "value"), WRONG)
def test_a_changed_file_with_its_hash_is_refused(kind: str, place: str, value: Any, tmp_path: Path) -> None:
    changed = document(kind)
    *keys, last = (int(key) if key.isdigit() else key for key in place.split("."))
    holder: Any = changed
    for key in keys:
        holder = holder[key]
    holder[last] = value
    with pytest.raises(ThinkbackError) as error:
        load(tmp_path, changed)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("gate file `")


@pytest.mark.parametrize("key", ["action", "base", "features", "model", "threshold", "fitted_on", "tuned_on"])
def test_a_key_that_every_gate_has_is_required(key: str, tmp_path: Path) -> None:
    changed = document("logistic")
    del changed[key]
    with refuses("required", f"`{key}`"):
        load(tmp_path, changed)


def path_of(nodes: int) -> Callable[[dict[str, Any]], None]:
    """A tree of so many levels: each right child is split again."""

    def change(tree: dict[str, Any]) -> None:
        inner = [
            2 * (number // 2) + 1 if number % 2 == 0 and number < 2 * nodes else -1 for number in range(2 * nodes + 1)
        ]
        tree["left_children"] = inner
        tree["right_children"] = [-1 if left == -1 else left + 1 for left in inner]
        for key, value in (("split_indices", 0), ("split_conditions", 0.5), ("default_left", 0), ("split_type", 0)):
            tree[key] = [value] * len(inner)

    return change


def test_a_tree_has_64_levels_at_most(tmp_path: Path) -> None:
    changed = document("trees")
    tree = changed["model"]["learner"]["gradient_booster"]["model"]["trees"][0]
    path_of(64)(tree)
    assert np.isfinite(load(tmp_path, changed).probabilities(np.zeros((1, 3)))).all()
    path_of(65)(tree)
    with refuses("limit", "64"):
        load(tmp_path, changed)


def test_xgboost_reads_nothing_that_was_not_checked(tmp_path: Path) -> None:
    """What a file has besides is not in the document that XGBoost gets."""
    changed = document("trees")
    expected = load(tmp_path, changed).probabilities(np.eye(3) * 9)
    learner = changed["model"]["learner"]
    learner["attributes"] = {"best_iteration": "-7"}
    learner["gradient_booster"]["model"]["iteration_indptr"] = [0, GIANT]
    learner["gradient_booster"]["model"]["gbtree_model_param"] = {"num_trees": str(GIANT)}
    tree = learner["gradient_booster"]["model"]["trees"][0]
    tree |= {"tree_param": {"num_nodes": str(GIANT)}, "categories_nodes": [GIANT], "parents": [], "base_weights": "x"}
    gate = load(tmp_path, changed)
    assert gate.probabilities(np.eye(3) * 9).tolist() == expected.tolist()
    assert not re.search(str(GIANT), json.dumps(gate.model))
