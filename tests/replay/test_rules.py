import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

import replay
from replay import Sample
from tests.errors import refuses
from tests.logs import log

POLICY_OF_NONE = """
[[policy]]
name = "own"
kind = "sample"
pool = "n3"
max_traces = 3
select = "first"
"""
POOL = {f"e{i}": [("A", 0.1), ("A", 0.95), ("B", 0.3), ("A", 0.2)] for i in range(3)}
GOLDS = dict.fromkeys(POOL, "A")


@dataclass(frozen=True)
class Confident:
    level: float = 0.9
    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score >= self.level


@dataclass(frozen=True)
class WaitsForTheBest:
    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score == np.nanmax(seen.best_score, axis=1, keepdims=True)


@dataclass(frozen=True)
class KnowsHowMany:
    reads: ClassVar = ("votes",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces == seen.traces.shape[1] - 1


@dataclass(frozen=True)
class WrongShape:
    reads: ClassVar = ("votes",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.traces


@dataclass(frozen=True)
class Breaks:
    reads: ClassVar = ("votes",)

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        raise ValueError("on purpose")


@dataclass(frozen=True)
class LooksAside:
    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        return seen.best_score >= np.quantile(np.nan_to_num(seen.best_score), 0.6, axis=0, keepdims=True)


@dataclass(frozen=True)
class WritesOver:
    reads: ClassVar = ("votes", "scores")

    def holds(self, seen: replay.Prefix) -> np.ndarray:
        np.nan_to_num(seen.lead, copy=False, nan=1.0)
        return seen.lead >= 0.9


def policy(rule) -> Sample:
    return Sample(name="own", max_traces=4, verifier="v", stop=rule)


def test_a_rule_of_ones_own_stops_where_it_holds(tmp_path):
    result = replay.run(log(tmp_path, {"n4": POOL}, GOLDS), [policy(Confident(0.9))])
    assert result.outcomes.collect()["traces"].to_list() == [2, 2, 2]
    assert result.outcomes.collect()["ending"].to_list() == ["rule"] * 3


@pytest.mark.parametrize("rule", [WaitsForTheBest(), KnowsHowMany()])
def test_a_rule_that_looks_ahead_is_refused(tmp_path, rule):
    with refuses("leakage", "`own`"):
        replay.run(log(tmp_path, {"n4": POOL}, GOLDS), [policy(rule)])


def test_a_rule_that_gives_something_else_or_fails_is_one_line(tmp_path):
    made = log(tmp_path, {"n4": POOL}, GOLDS)
    with refuses("rule", "`holds`"):
        replay.run(made, [policy(WrongShape())])
    with refuses("rule", "`Breaks`"):
        replay.run(made, [policy(Breaks())])


def test_a_rule_that_looks_at_other_examples_is_refused(tmp_path):
    scores = iter(np.random.default_rng(0).random(40).tolist())
    members = {f"e{i}": [("A", next(scores)) for _ in range(4)] for i in range(10)}
    with refuses("leakage", "`own`", "`LooksAside`"):
        replay.run(log(tmp_path, {"n4": members}, dict.fromkeys(members, "A")), [policy(LooksAside())])


def test_a_rule_cannot_change_what_others_see(tmp_path):
    with refuses("rule", "`WritesOver`"):
        replay.run(log(tmp_path, {"n4": POOL}, GOLDS), [policy(WritesOver())])


def test_rules_given_as_classes_are_checked_too():
    text = '[[policy]]\nname = "own"\nkind = "sample"\nmax_traces = 4\nselect = "majority"\n'
    with refuses("invalid", "`holds(self, seen)`", "`chooses(self, seen)`"):
        replay.load_policies(text, rules=[int])


def test_a_file_of_rules_leaves_nothing_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (tmp_path / "none.py").write_text("value = 1\n")
    with refuses("rule", "none.py"):
        replay.load_policies(POLICY_OF_NONE, tmp_path / "none.py")
    assert [path.name for path in tmp_path.iterdir()] == ["none.py"]
    assert not sys.dont_write_bytecode


def test_rules_come_from_a_file_by_name(tmp_path):
    source = tmp_path / "mine.py"
    source.write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from replay import Prefix\n"
        "@dataclass(frozen=True)\n"
        "class Enough:\n"
        "    votes: int = 2\n"
        "    def holds(self, seen: Prefix):\n"
        "        return seen.votes >= self.votes\n"
    )
    text = (
        '[[policy]]\nname = "own"\nkind = "sample"\nmax_traces = 4\nselect = "majority"\n'
        'stop = { rule = "Enough", votes = 3 }\n'
    )
    result = replay.run(log(tmp_path, {"n4": POOL}, GOLDS), text, rules=source)
    assert result.outcomes.collect()["traces"].to_list() == [4, 4, 4]
    with refuses("unknown", "`Enough`"):
        replay.load_policies(text)
    with refuses("not-found", f"{tmp_path / 'none.py'}"):
        replay.load_policies(text, tmp_path / "none.py")
    (tmp_path / "broken.py").write_text("def (")
    with refuses("rule", f"{tmp_path / 'broken.py'}", "line 1"):
        replay.load_policies(text, tmp_path / "broken.py")
