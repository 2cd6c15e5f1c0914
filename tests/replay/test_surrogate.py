"""The surrogate against a plain loop of algorithm 3, and worked by hand."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import replay
from replay.sampling.learned import Prior
from replay.sampling.surrogate import SurrogateOrder, surrogate_walk_steps
from tests.errors import refuses
from tests.reference import plain
from tests.reference.compare import differing, keyed
from tests.reference.random_logs import random_log
from tests.reference.random_policies import random_surrogate, to_toml
from tests.reference.rules import PlainLog
from tests.reference.surrogate import Surrogate as TwinSurrogate
from tests.seeds import seeds
from toolkit.errors import ThinkbackError


def rows_of(seed: int, folder: Path, count: int, examples: int | None = None) -> tuple[int, list[str]]:
    """Rows compared on one random log, and where they differ."""
    log = random_log(seed, examples)
    log.write(folder / "log")
    rng = random.Random(f"surrogate {seed}")
    policies = [{"name": f"p{i}", **random_surrogate(rng, log.pools["main"])} for i in range(count)]
    if count > 2:
        policies[1]["against"] = "p0"
        policies[2]["against"] = "p1"
    try:
        expected = plain.replay(log.plain, policies)
    except plain.Refused:
        with pytest.raises(ThinkbackError):
            replay.run(folder / "log", to_toml(policies), resamples=20)
        return 0, []
    found = replay.run(folder / "log", to_toml(policies), resamples=20)
    assert set(found.dropped) == set(expected.dropped)
    assert set(found.excluded) == set(expected.excluded)
    mine, theirs = expected.outcomes(), keyed(found.outcomes.collect())
    assert mine.keys() == theirs.keys()
    return len(mine), [f"{seed} {key} {d}" for key in mine if (d := differing(mine[key], theirs[key]))]


@pytest.mark.parametrize(("logs", "least"), seeds(1, [(8, 30), (40, 800)]))
def test_agrees_with_a_plain_loop_on_random_logs_with_ties(logs: int, least: int, tmp_path: Path) -> None:
    rows, differ = 0, []
    for seed in range(logs):
        (tmp_path / str(seed)).mkdir()
        compared, differing_rows = rows_of(seed, tmp_path / str(seed), 3 + seed % 3)
        rows += compared
        differ += differing_rows
    assert rows > least
    assert len(differ) <= 0.005 * rows, differ[:10]


@pytest.mark.parametrize("bonus", [0.0, 0.5])
def test_a_prior_agrees_with_the_plain_loop(bonus: float) -> None:
    """Whatever foretells the score: the recursive update learns what it leaves, one claim at a time."""
    rng = np.random.default_rng(11)
    code = rng.integers(-1, 3, (60, 10)).astype(np.int32)
    score, features = rng.random((60, 10)), rng.random((2, 60, 10))
    prior = Prior("linear", "true", fit=lambda rows: 0.8 * rows[:, 0] - 0.3 * rows[:, 1] ** 2)
    settings = SurrogateOrder(("a", "b"), mode="pool", bonus=bonus, prior=prior)
    found = surrogate_walk_steps(code, score, features, np.full(60, 10), settings)
    rule = {"features": ["a", "b"], "bonus": bonus, "prior": lambda v: 0.8 * v[0] - 0.3 * v[1] ** 2}
    for e in range(60):
        seen = [
            {"trace_id": str(t), "example_id": "e", "answer": None if c < 0 else str(c)} for t, c in enumerate(code[e])
        ]
        known = {str(t): {"a": features[0, e, t], "b": features[1, e, t]} for t in range(10)}
        model = TwinSurrogate(PlainLog([{"example_id": "e"}], seen, features=known), rule)
        left, scored = [trace for trace in seen if trace["answer"] is not None], []
        while left:
            trace = model.pick(seen, left, scored)
            model.learn(trace, seen, scored, score[e, int(trace["trace_id"])])
            scored.append((trace, score[e, int(trace["trace_id"])]))
            left.remove(trace)
        assert found.at[e, : found.count[e]].tolist() == [int(trace["trace_id"]) for trace, _ in scored]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("bonus", [0.0, 0.5])
def test_a_tiny_forgetting_warns_of_nothing_and_verifies_all(bonus: float) -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 3, (5, 50)).astype(np.int32)
    score, features = rng.random((5, 50)), rng.random((2, 5, 50))
    settings = SurrogateOrder(("a", "b"), mode="pool", forgetting=1e-20, bonus=bonus)
    for row in surrogate_walk_steps(code, score, features, np.full(5, 50), settings).at[:, :50]:
        assert sorted(row.tolist()) == list(range(50))


def picked(code: list[int], score: list[float], features: list[list[float]] | None = None, **settings: object) -> list:
    """Places that one example's surrogate verifies."""
    static = np.array(features or np.zeros((0, len(code))), dtype=float).reshape(-1, 1, len(code))
    names = tuple(f"f{i}" for i in range(len(static)))
    done = surrogate_walk_steps(
        np.array([code], dtype=np.int32), np.array([score]), static, np.array([len(code)]),
        SurrogateOrder(names, **settings),  # type: ignore[arg-type]
    )  # fmt: skip
    return done.at[0, : done.count[0]].tolist()


def test_first_update_by_hand() -> None:
    """No features, answers A B A, pool mode. The votes are 2/3, 1/3, 2/3 and every label score is 0.5.

    All predictions are 0, so the earliest (A) is verified: phi = (2/3, 1/2, 1), phi'phi = 4/9 + 1/4 + 1 = 61/36, so
    k = phi / (1 + 61/36) = 36/97 phi, and with score 0.97 w = 0.97 * 36/97 phi = 0.36 phi = (0.24, 0.18, 0.36).
    Now A's label score is 0.97: B is foretold 0.24/3 + 0.09 + 0.36 = 0.53, A 0.16 + 0.1746 + 0.36 = 0.6946.
    """
    state = surrogate_walk_steps(
        np.array([[0, 1, 0]], dtype=np.int32), np.array([[0.97, 0.1, 0.2]]), np.zeros((0, 1, 3)), np.array([3]),
        SurrogateOrder(mode="pool"), keep_weights=True,
    )  # fmt: skip
    assert state.weights is not None
    np.testing.assert_allclose(state.weights[0, 0], [0.24, 0.18, 0.36], rtol=1e-12)
    assert state.at[0, :3].tolist() == [0, 2, 1]


def test_the_label_score_of_an_answer_not_yet_verified() -> None:
    """Answers A A B, pool mode, scores 0.95 for A: with `unseen` 0.5 the next is A's, with 1 it is B's.

    Of the first trace phi = (2/3, u, 1) and w = c phi, c > 0. So A is foretold c (4/9 + 0.95 u + 1) and B
    c (2/9 + u u + 1): B is ahead where u u - 0.95 u > 2/9, as at u = 1.2; at u = 0.5 and u = 1 it is not.
    """
    assert picked([0, 0, 1], [0.95, 0.9, 0.1], mode="pool") == [0, 1, 2]
    assert picked([0, 0, 1], [0.95, 0.9, 0.1], mode="pool", unseen=1.0) == [0, 1, 2]
    assert picked([0, 0, 1], [0.95, 0.9, 0.1], mode="pool", unseen=1.2) == [0, 2, 1]


def test_the_label_score_is_a_mean_or_a_maximum() -> None:
    """The weights of the third trace of one answer, scores 0.2 and 0.8: its label score is 0.5 or 0.8.

    With P = I / ridge and a huge ridge, k is nearly phi / ridge, and each w nearly the sum of score times phi / ridge.
    """
    ridge, found = 1e9, {}
    for kind in ("mean", "max"):
        steps = surrogate_walk_steps(
            np.zeros((1, 3), dtype=np.int32), np.array([[0.2, 0.8, 1.0]]), np.zeros((0, 1, 3)), np.array([3]),
            SurrogateOrder(mode="pool", ridge=ridge, unseen=0.0, label_score=kind), keep_weights=True,
        )  # fmt: skip
        assert steps.weights is not None
        found[kind] = ridge * steps.weights[0, :3, 1]
    np.testing.assert_allclose(found["mean"], [0, 0.8 * 0.2, 0.8 * 0.2 + 0.5], rtol=1e-6)
    np.testing.assert_allclose(found["max"], [0, 0.8 * 0.2, 0.8 * 0.2 + 0.8], rtol=1e-6)


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ({"unseen": float("inf")}, ("invalid", "`unseen`")),
        ({"unseen": "1"}, ("invalid", "`unseen`", "`p`")),
        ({"label_score": "median"}, ("unknown", "`label_score`", "`mean`", "'median'")),
    ],
)
def test_keys_of_the_label_score_are_checked(key: dict, refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        replay.Sample(name="p", max_traces=3, verifier="v", order="surrogate", **key)


def test_ridge_and_forgetting_enter_the_gain() -> None:
    """With P = I/ridge, k = phi / (ridge * forgetting + phi'phi): one trace, phi = (1, 1/2, 1), phi'phi = 9/4."""
    state = surrogate_walk_steps(
        np.array([[0]], dtype=np.int32), np.array([[1.0]]), np.zeros((0, 1, 1)), np.array([1]),
        SurrogateOrder(mode="pool", ridge=2.0, forgetting=0.5), keep_weights=True,
    )  # fmt: skip
    assert state.weights is not None
    np.testing.assert_allclose(state.weights[0, 0], np.array([1, 0.5, 1]) / (1 + 2.25), rtol=1e-12)


def test_lazy_generation() -> None:
    """Cap 6, three bootstrapped. Two verifications at three traces, then a trace before each one that follows.

    The fourth is verified at five traces; then the sixth is generated and the cap is used up: 4 verifications.
    """
    done = surrogate_walk_steps(
        np.zeros((1, 6), dtype=np.int32), np.full((1, 6), 0.5), np.zeros((0, 1, 6)), np.array([6]), SurrogateOrder()
    )
    assert done.count.tolist() == [4]
    assert done.generated[0, 1:5].tolist() == [3, 3, 4, 5]
    assert done.final.tolist() == [6]


def test_one_bootstrapped_trace_leaves_nothing_to_verify() -> None:
    assert picked([0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5], bootstrap=1) == [0]


def test_ties_go_to_the_earliest() -> None:
    assert picked([0, 0, 0, 0], [0.5] * 4, mode="pool")[0] == 0
    assert picked([-1, 0, 0, 0], [0.5] * 4, mode="pool")[0] == 1


def test_a_useful_feature_is_learnt() -> None:
    """Scores equal the feature: after two verifications the highest feature left is taken each time."""
    feature = [0.1, 0.2, 0.9, 0.4, 0.8, 0.3]
    order = picked([0] * 6, feature, [feature], mode="pool", ridge=1e-6)
    assert order[0] == 0
    assert [feature[i] for i in order[1:]] == sorted(feature[1:], reverse=True)


def test_the_future_is_not_seen() -> None:
    """Cut the pool off after k traces: as long as no more are generated, the same traces are picked."""
    rng = np.random.default_rng(5)
    code = rng.integers(-1, 3, (50, 12)).astype(np.int32)
    score, features = rng.random((50, 12)), rng.random((2, 50, 12))
    whole = surrogate_walk_steps(code, score, features, np.full(50, 12), SurrogateOrder(("a", "b")))
    for cut in range(1, 12):
        part = surrogate_walk_steps(
            code[:, :cut], score[:, :cut], features[:, :, :cut], np.full(50, cut), SurrogateOrder(("a", "b"))
        )
        for e in range(50):
            steps = [s for s in range(whole.count[e]) if whole.generated[e, s + 1] < cut]
            assert part.at[e, steps].tolist() == whole.at[e, steps].tolist()


def test_results_do_not_depend_on_the_number_of_examples() -> None:
    rng = np.random.default_rng(6)
    code = rng.integers(-1, 3, (40, 9)).astype(np.int32)
    score, features = rng.random((40, 9)), rng.random((3, 40, 9))
    settings = SurrogateOrder(("a", "b", "c"), mode="pool")
    whole = surrogate_walk_steps(code, score, features, np.full(40, 9), settings, keep_weights=True)
    for e in range(40):
        one = surrogate_walk_steps(
            code[e : e + 1], score[e : e + 1], features[:, e : e + 1], np.full(1, 9), settings, keep_weights=True
        )
        assert one.at.tolist() == whole.at[e : e + 1].tolist()
        assert one.weights is not None
        assert whole.weights is not None
        assert one.weights[0].tobytes() == np.ascontiguousarray(whole.weights[e]).tobytes()
