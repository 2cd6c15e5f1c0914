"""What a stopping rule declares that it reads: it verifies for scores, needs comparable answers for votes, and is shown
nothing else."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import replay
from replay import Budget, Sample, Window
from tests.replay.small import tables
from toolkit.errors import ThinkbackError
from toolkit.log import Log, write_log

POOL = {f"e{i}": [("A", 0.1), ("B", 0.95), ("A", 0.3)] for i in range(3)}
GOLDS = dict.fromkeys(POOL, "A")


@dataclass(frozen=True)
class Undeclared:
    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces >= 2


@dataclass(frozen=True)
class Counts:
    reads: ClassVar = ()

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces >= 2


@dataclass(frozen=True)
class Scores:
    reads: ClassVar = ("scores",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score >= 0.9


@dataclass(frozen=True)
class Older:
    needs_scores = True

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return (seen.best_score >= 0.9) & (seen.votes > 0)


@dataclass(frozen=True)
class Hides:
    reads: ClassVar = ("scores",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.lead > 0


def vote(stop: object, **more: object) -> Sample:
    return Sample(name="p", max_traces=3, stop=stop, **({"select": "majority"} | more))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Log:
    return write_log(tmp_path_factory.mktemp("plain") / "log", name="p", tables=tables({"n3": POOL}, GOLDS))


@pytest.fixture(scope="module")
def opaque(tmp_path_factory: pytest.TempPathFactory) -> Log:
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(opaque=pl.lit(True), answer=pl.col("trace_id"))
    return write_log(tmp_path_factory.mktemp("opaque") / "log", name="o", tables=made)


def test_scores_are_verified_for_their_sake(plain: Log) -> None:
    for rule in (Scores(), Older()):
        with pytest.raises(ThinkbackError, match="needs a `verifier`"):
            vote(rule)
        spent = replay.run(plain, vote(rule, verifier="v"), resamples=5).outcomes
        assert spent["verifications"].to_list() == [2.0] * 3
    for rule in (Undeclared(), Counts()):
        assert replay.run(plain, vote(rule), resamples=5).outcomes["verifications"].to_list() == [0.0] * 3


def test_rules_that_may_read_votes_are_refused_where_answers_cannot_be_compared(opaque: Log) -> None:
    best = {"select": "best", "verifier": "v"}
    for rule in (Undeclared(), Older(), Window(2)):
        with pytest.raises(ThinkbackError, match="verdicts but no answers"):
            replay.run(opaque, vote(rule, **best), resamples=5)
    for rule in (Counts(), Scores(), Budget(traces=2)):
        spent = replay.run(opaque, vote(rule, **best), resamples=5).outcomes
        assert spent["traces"].to_list() == [2.0] * 3


def test_what_is_not_declared_cannot_be_read(plain: Log) -> None:
    with pytest.raises(ThinkbackError) as refused:
        replay.run(plain, vote(Hides(), verifier="v"), resamples=5)
    assert "`Hides` reads `lead`, which it does not declare" in str(refused.value)
    assert "add `reads: ClassVar = ('scores', 'votes')`" in str(refused.value)
