"""What rules are shown of every answer, against plain loops on random walks, and of columns by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from replay import Sample
from tests.logs import log, tables
from tests.reference.random_logs import random_log
from tests.seeds import seeds
from toolkit.log import write_log
from toolkit.stopping.prefix import LazyArrays, Prefix, RevealedTraces

Steps = list[tuple[int, int, float, int, dict[int, int]]]
"""Step, code (-1: none), score (NaN: none), place in the order of generation, where each code was first generated."""

NAN = float("nan")


def prefix(code: np.ndarray, score: np.ndarray, at: np.ndarray) -> Prefix:
    """The statistics of a walk that verifies; `first_place` is told from the places, counts are left out."""
    first = np.full((len(code), max(int(code.max()) + 1, 1)), 99, dtype=np.int32)
    for row, step in zip(*np.nonzero(code >= 0), strict=True):
        first[row, code[row, step]] = min(first[row, code[row, step]], at[row, step])
    revealed = RevealedTraces(code, score, at, first, first.shape[1], True)
    nothing = dict.fromkeys(("traces", "valid", "tokens"), np.zeros(code.shape))
    votes, best = revealed.vote_counts, revealed.best_scores
    told = {name: getattr(votes, name) for name in ("answers", "votes", "second_votes", "run")}
    told |= {name: getattr(best, name) for name in ("verified", "verified_answers", "best_score", "best_step", "lead")}
    told |= nothing | {"last_score": score}
    return Prefix(LazyArrays(told, told.__getitem__), revealed=revealed)


def random_walk(seed: int) -> Prefix:
    """Ties, steps without an answer, and verifications in another order than that of generation."""
    rng = np.random.default_rng(seed)
    examples, steps = int(rng.integers(1, 6)), int(rng.integers(1, 8))
    code = rng.integers(-1, rng.integers(1, 5), (examples, steps)).astype(np.int32)
    score = np.where(code >= 0, rng.integers(-2, 4, code.shape) / 4, np.nan)
    at = np.stack([rng.permutation(steps) for _ in range(examples)]).astype(np.int32)
    return prefix(code, score, at)


def rows_of(seen: Prefix, example: int) -> Steps:
    walk = seen.revealed_walk
    first = dict(enumerate(walk.first_place[example].tolist()))
    return [(s, int(walk.code[example, s]), float(walk.score[example, s]), int(walk.at[example, s]), first)
            for s in range(walk.code.shape[1])]  # fmt: skip


def numbers(rows: Steps) -> dict[int, int]:
    """Answers numbered as they come."""
    found: dict[int, int] = {}
    for _, code, _, _, _ in rows:
        if code >= 0:
            found.setdefault(code, len(found))
    return found


def scores_of(rows: Steps, code: int) -> list[float]:
    return [score for _, one, score, _, _ in rows if one == code]


def first_best(rows: Steps, value: Callable[[int], Any], tie: Callable[[int], int]) -> int:
    """The number of the answer with the highest value, the smallest `tie` of several."""
    order = numbers(rows)
    return order[min(order, key=lambda code: (-value(code), tie(code)))] if order else -1


def places_of(rows: Steps, code: int) -> list[int]:
    return [at for _, one, _, at, _ in rows if one == code]


def best_trace(rows: Steps) -> int:
    order = numbers(rows)
    valid = [(-score, at, code) for _, code, score, at, _ in rows if code >= 0]
    return order[min(valid)[2]] if valid else -1


def best_step(rows: Steps) -> int:
    return min(((-score, at, step + 1) for step, code, score, at, _ in rows if code >= 0), default=(0, 0, 0))[2]


PER_STEP: dict[str, Callable[[Steps], float]] = {
    "step": len,
    "answer": lambda rows: numbers(rows).get(rows[-1][1], -1),
    "leader": lambda rows: first_best(rows, lambda c: len(places_of(rows, c)), rows[0][4].__getitem__),
    "best_answer": best_trace,
    "best_step": best_step,
    "sum_leader": lambda rows: first_best(rows, lambda c: sum(scores_of(rows, c)), lambda c: min(places_of(rows, c))),
}
PER_ANSWER: dict[str, Callable[[list[float]], float]] = {
    "answer_votes": len,
    "score_sums": lambda scores: sum(scores) if scores else NAN,
    "best_scores": lambda scores: max(scores, default=NAN),
}


@pytest.mark.parametrize("name", [*PER_STEP, *PER_ANSWER])
def test_statistics_are_those_of_a_plain_loop(name: str) -> None:
    for seed in range(60):
        seen = random_walk(seed)
        found = getattr(seen, name)
        for example in range(len(found)):
            every = rows_of(seen, example)
            order = {number: code for code, number in numbers(every).items()}
            for step in range(1, len(every) + 1):
                rows = every[:step]
                if name in PER_STEP:
                    assert found[example, step - 1] == PER_STEP[name](rows), (seed, example, step)
                    continue
                for number in range(found.shape[2]):
                    scores = scores_of(rows, order[number]) if number in order else []
                    expected = PER_ANSWER[name](scores)
                    np.testing.assert_equal(found[example, step - 1, number], expected)


@pytest.mark.parametrize("name", [*PER_STEP, *PER_ANSWER])
def test_cutting_off_changes_nothing_before(name: str) -> None:
    """The axis of answers is as long as what is left has answers, so that it tells nothing of the rest."""
    for seed in range(30):
        seen = random_walk(seed)
        whole = getattr(seen, name)
        for steps in range(1, whole.shape[1]):
            cut = getattr(seen.first(steps), name)
            np.testing.assert_equal(
                cut, whole[:, :steps, ...][..., : cut.shape[2]] if cut.ndim == 3 else whole[:, :steps]
            )
        one = getattr(seen.rows(slice(0, 1)), name)
        np.testing.assert_equal(one, whole[:1, :, : one.shape[2]] if one.ndim == 3 else whole[:1])
        if whole.ndim == 3:
            assert getattr(seen.first(1), name).shape[2] == 1


def test_answers_by_hand() -> None:
    """Revealed: B .5, A .2, none, B .1, A .6, so B is answer 0 and A is 1, though A has code 0."""
    seen = prefix(
        np.array([[1, 0, -1, 1, 0]], np.int32), np.array([[0.5, 0.2, NAN, 0.1, 0.6]]), np.array([[1, 0, 2, 3, 4]])
    )
    assert seen.answer.tolist() == [[0, 1, -1, 0, 1]]
    assert seen.answer_votes[0].tolist() == [[1, 0], [1, 1], [1, 1], [2, 1], [2, 2]]
    np.testing.assert_allclose(seen.score_sums[0, :, 1], [NAN, 0.2, 0.2, 0.2, 0.8])
    np.testing.assert_allclose(seen.best_scores[0, :, 0], [0.5] * 5)
    assert seen.leader.tolist() == [[0, 1, 1, 0, 1]]  # one each, then two each: A was generated first
    assert seen.best_answer.tolist() == [[0, 0, 0, 0, 1]]
    assert seen.sum_leader.tolist() == [[0, 0, 0, 0, 1]]  # .6 to .2, then .6 to .8


@dataclass(frozen=True)
class MostVotes:
    """The built-in majority, from the votes of every answer: the first of several has the smaller number."""

    reads: ClassVar = ("votes",)

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return seen.answer_votes.argmax(axis=2)


@dataclass(frozen=True)
class HighestSum:
    reads: ClassVar = ("votes", "scores")

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        return np.where(np.isnan(seen.score_sums), -np.inf, seen.score_sums).argmax(axis=2)


@dataclass(frozen=True)
class HighestScore:
    """The built-in best-of-N, step by step: a strictly higher score takes over."""

    reads: ClassVar = ("scores",)

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        before = np.concatenate([np.full((len(seen.step), 1), -np.inf), seen.best_score[:, :-1]], axis=1)
        higher = seen.last_score > np.nan_to_num(before, nan=-np.inf)
        return np.maximum.accumulate(np.where(higher, seen.step, 0), axis=1)


@dataclass(frozen=True)
class Ahead:
    """The built-in margin, from the best score of every answer."""

    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        known = np.sort(np.where(np.isnan(seen.best_scores), -99.0, seen.best_scores), axis=2)
        if known.shape[2] < 2:
            return np.zeros(seen.step.shape, dtype=bool)
        return (known[..., -2] > -99) & (known[..., -1] - known[..., -2] >= 0.25 - 1e-9)


@pytest.mark.parametrize("seed", seeds(1, [1, 5, 11]))
@pytest.mark.parametrize(
    ("own", "built"),
    [
        ({"select": MostVotes()}, {"select": "majority"}),
        ({"select": HighestSum()}, {"select": "weighted"}),
        ({"select": HighestScore()}, {"select": "best"}),
        ({"stop": Ahead()}, {"stop": replay.Margin(0.25, min_valid=1, single_label=99)}),
    ],
)
def test_toys_made_of_the_statistics_agree_with_the_built_in_rules(
    seed: int, own: dict[str, Any], built: dict[str, Any], tmp_path: Path
) -> None:
    made = random_log(seed, examples=12, tidy=True)
    made.write(tmp_path / "log")
    told = {"pool": "main", "verifier": "lora", "max_traces": made.pools["main"], "on_missing": "use_available"}
    for more in ({}, {"orders": 3, "seed": 2}):
        first, second = (
            replay.run(tmp_path / "log", Sample(name="p", **(told | more | which)), resamples=5)  # type: ignore[arg-type]
            for which in (own, built)
        )
        assert_frame_equal(first.outcomes.collect(), second.outcomes.collect())


@dataclass(frozen=True)
class AtLeast:
    """A toy stop: once a statistic of the steps, or that of some answer, reaches a value."""

    statistic: str
    value: float
    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        reached = getattr(seen, self.statistic) >= self.value
        return reached if reached.ndim == 2 else reached.any(axis=2)


@dataclass(frozen=True)
class By:
    """A toy select: the answer that a statistic names, or that has most of it; the first of several."""

    statistic: str
    reads: ClassVar = ("votes", "scores")

    def chooses(self, seen: replay.Prefix) -> np.ndarray:
        found = getattr(seen, self.statistic)
        return found if found.ndim == 2 else np.where(np.isnan(found), -np.inf, found).argmax(axis=2)


def logged_rows(made: Any, example_id: str) -> tuple[Steps, list[str | None]]:
    """A pool in order of generation, each valid trace verified, and the answers of its codes."""
    words: list[str | None] = []
    rows: Steps = []
    first: dict[int, int] = {}
    for place, trace in enumerate(made.plain.solves(example_id, "main")):
        valid = made.plain.valid(trace)
        if valid and trace["answer"] not in words:
            words.append(trace["answer"])
        code = words.index(trace["answer"]) if valid else -1
        score = made.plain.scores[trace["trace_id"], "lora"]["score"] if valid else NAN
        first.setdefault(code, place)
        rows.append((place, code, score, place, first))
    return rows, words


def reached(name: str, rows: Steps, value: float) -> bool:
    if name in PER_STEP:
        return PER_STEP[name](rows) >= value
    return any(PER_ANSWER[name](scores_of(rows, code)) >= value for code in numbers(rows))


def chosen(name: str, rows: Steps) -> int:
    """The code that the toy select names; answers are revealed in the order of their codes."""
    if name in PER_STEP:
        return int(PER_STEP[name](rows))
    return first_best(rows, lambda code: PER_ANSWER[name](scores_of(rows, code)), lambda code: code)


@pytest.mark.parametrize("name", [*PER_STEP, *PER_ANSWER])
@pytest.mark.slow
def test_toys_over_each_statistic_follow_a_plain_loop(name: str, tmp_path: Path) -> None:
    for seed in (2, 9):
        made = random_log(seed, examples=10, tidy=True)
        made.write(tmp_path / f"log {seed}")
        told = {"pool": "main", "verifier": "lora", "max_traces": 99, "on_missing": "use_available"}
        values = {
            "step": 3,
            "best_step": 2,
            "answer": 1,
            "leader": 1,
            "best_answer": 1,
            "sum_leader": 1,
            "answer_votes": 2,
        }
        value = values.get(name, 0.6)
        policies = [Sample(name="stops", select="majority", stop=AtLeast(name, value), **told)]  # type: ignore[arg-type]
        if name not in ("step", "best_step"):
            policies.append(Sample(name="selects", select=By(name), **told))  # type: ignore[arg-type]
        found = {(r["policy"], r["example_id"]): r for r in replay.run(
            tmp_path / f"log {seed}", policies, resamples=5).outcomes.collect().iter_rows(named=True)}  # fmt: skip
        assert found
        for (policy, example_id), outcome in found.items():
            rows, words = logged_rows(made, example_id)
            if policy == "stops":
                stops = (s for s in range(1, len(rows) + 1) if reached(name, rows[:s], value))
                assert outcome["traces"] == next(stops, len(rows)), (seed, example_id)
            else:
                code = chosen(name, rows)
                assert outcome["answer"] == (words[code] if code >= 0 else None), (seed, example_id)


POOL = {
    "e1": [("A", 0.1), ("B", 0.2), ("A", 0.3)],
    "e2": [("A", 0.1), ("B", 0.2), ("B", 0.3)],
    "e3": [("A", 0.1), (None, None), ("B", 0.3)],
}
GOLDS = {"e1": "B", "e2": "B", "e3": "B"}
LENGTHS: dict[str, list[float | None]] = {"e1": [5.0, 2.0, 9.0], "e2": [5.0, None, 4.0], "e3": [5.0, 1.0, 6.0]}


@dataclass(frozen=True)
class Shortest:
    """The trace with the smallest value of a column of `features`, the first of several."""

    column: str = "length"

    @property
    def reads(self) -> tuple[str, ...]:
        return (f"features:{self.column}",)

    def takes(self, seen: replay.Prefix) -> np.ndarray:
        size = np.where(np.isnan(seen.features[self.column]) | (np.diff(seen.valid, prepend=0) == 0), np.inf,
                        seen.features[self.column])  # fmt: skip
        best = np.minimum.accumulate(size, axis=1)
        before = np.concatenate([np.full((len(size), 1), np.inf), best[:, :-1]], axis=1)
        return np.maximum.accumulate(np.where(size < before, seen.step, 0), axis=1)


@dataclass(frozen=True)
class Hard:
    """As many traces as an example is hard, but one of a certain kind."""

    reads: ClassVar = ("examples:hard", "examples:kind", "features:length")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        special = np.array([kind == "odd" for kind in seen.examples["kind"]])
        return (seen.traces >= seen.examples["hard"][:, None]) | (special[:, None] & (seen.features["length"] < 3))


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = tables({"n3": POOL}, GOLDS)
    ids = made["traces"]["trace_id"].to_list()
    lengths = [LENGTHS[name[:2]][int(name[-1])] for name in ids]
    made["features"] = made["traces"].select("trace_id", "example_id", length=pl.Series(lengths))
    made["examples"] = made["examples"].with_columns(
        hard=pl.Series([3, 2, None]), kind=pl.Series(["odd", None, "even"]), tags=pl.Series([["x"]] * 3)
    )
    return write_log(tmp_path_factory.mktemp("columns") / "log", name="c", tables=made)


def test_columns_by_name(columns: Any) -> None:
    """Shortest valid traces: 2 (B), 4 (B), 5 (A). Hard: 3, 2, never; e1 is odd and its second trace is short: 2."""
    shortest = Sample(name="shortest", max_traces=3, select=Shortest())
    hard = Sample(name="hard", max_traces=3, select="majority", stop=Hard())
    found = replay.run(columns, [shortest, hard], resamples=5).outcomes.collect().sort("policy", "example_id")
    assert found.filter(policy="shortest")["answer"].to_list() == ["B", "B", "A"]
    assert found.filter(policy="hard")["traces"].to_list() == [2.0, 2.0, 3.0]
    told = replay.explain(columns, [shortest, hard], "shortest", "e1")
    assert "select `Shortest`" in told.stages[0].title


def test_a_rule_reads_columns_of_the_examples_that_its_policy_learns_on(tmp_path: Path) -> None:
    """`conformal` replays its policy on other examples, with the columns that its stop reads."""

    @dataclass(frozen=True)
    class Enough:
        reads: ClassVar = ("examples:enough",)

        def holds(self, seen: replay.Prefix) -> np.ndarray:
            return seen.traces >= seen.examples["enough"][:, None]

    pool = {f"e{i}": [("A", 0.5), ("B", 0.25 + i / 100)] for i in range(20)}
    made = tables({"n2": pool}, {name: "AB"[i // 2 % 2] for i, name in enumerate(pool)}, ["A", "B"])
    half = pl.Series(["dev" if i % 2 else "test" for i in range(20)])
    made["examples"] = made["examples"].with_columns(split=half, enough=pl.lit(2.0))
    written = write_log(tmp_path / "log", name="l", tables=made)
    sets = replay.Conformal(alpha=0.2, on="split = 'dev'")
    policy = Sample(name="p", max_traces=2, verifier="v", stop=Enough(), conformal=sets)
    found = replay.run(written, policy, where="split = 'test'", resamples=5).outcomes.collect()
    assert found["traces"].to_list() == [2.0] * 10


def test_a_prefix_made_by_hand_says_what_it_lacks(tmp_path: Path) -> None:
    seen = random_walk(3)
    bare = Prefix(seen.statistics)
    with pytest.raises(ValueError, match="Prefix"):
        _ = bare.answer_votes
    assert bare.first(1).rows(slice(0, 1)).votes.shape == (1, 1)


def test_nothing_of_it_is_made_unless_a_rule_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise AssertionError("made for nobody")

    monkeypatch.setattr("toolkit.stopping.prefix._AnswerNumbers.reveals_each_answer", property(refuses))
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    replay.run(made, Sample(name="p", max_traces=3, verifier="v", select="weighted", stop="margin"), resamples=5)
