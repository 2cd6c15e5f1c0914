"""How votes are counted: what breaks their ties, votes for no answer, and blocks of as many traces as are needed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import replay
from replay import Agreement, Budget, Margin, Sample, When, Window
from tests.errors import quotes, refuses
from tests.logs import log
from tests.reference.rules import random_key


def rows_of(tmp_path: Path, answers: Sequence[str | None], *policies: Any) -> list[dict[str, Any]]:
    """The outcomes of policies on one example with these traces."""
    rows: dict[str, Sequence[tuple[str | None, float | None]]] = {
        "e": [(answer, None if answer is None else 0.5) for answer in answers]
    }
    run = replay.run(log(tmp_path, {"p": rows}, {"e": "A"}), policies, resamples=5)
    return run.outcomes.collect().sort("policy").to_dicts()


def shares(row: dict[str, Any]) -> dict[str | None, float]:
    return {one["answer"]: one["share"] for one in row["answers"]}


def vote(**keys: Any) -> Sample:
    return Sample(**{"name": "vote", "max_traces": 4, "select": "majority", **keys})


@pytest.mark.parametrize(
    ("answers", "tie", "answer"),
    [
        ("10 9 10 9", "earliest", "10"),
        ("10 9 10 9", "smallest", "9"),  # by value
        ("10 9 b -", "smallest", "10"),  # `b` is no number, so by text
        ("b a a b", "smallest", "a"),
        ("10 9 9 b", "smallest", "9"),  # no tie
        ("1,000 9/2 - -", "smallest", "9/2"),
        ("- - - -", "smallest", None),
    ],
)
def test_ties(tmp_path: Path, answers: str, tie: str, answer: str | None) -> None:
    traces = [None if one == "-" else one for one in answers.split()]
    (row,) = rows_of(tmp_path, traces, vote(tie=tie))
    assert row["answer"] == answer


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_random_ties_follow_the_random_order_of_the_traces_seen(tmp_path: Path, seed: int) -> None:
    answers = ["A", "B", "C", "B", "A"]
    (row,) = rows_of(tmp_path, answers, vote(max_traces=3, tie="random", seed=seed))
    first = min(range(3), key=lambda index: random_key("e", seed, 0, index))  # not traces 3 and 4, which were not seen
    assert row["answer"] == answers[first]


def test_a_weighted_vote_breaks_its_ties_likewise(tmp_path: Path) -> None:
    weighted = vote(select="weighted", verifier="v", tie="smallest", max_traces=2)
    (row,) = rows_of(tmp_path, ["10", "9"], weighted)
    assert row["answer"] == "9"


def test_no_answer_wins_votes(tmp_path: Path) -> None:
    # -, -, A, B: no answer has two of four votes; without them A and B tie
    policies = [vote(name=nulls, nulls=nulls) for nulls in ("skip", "vote")]
    skip, counted = rows_of(tmp_path, [None, None, "A", "B"], *policies)
    assert (skip["answer"], skip["correct"]) == ("A", 1)
    assert (counted["answer"], counted["correct"]) == (None, 0)


def test_stops_count_no_answer_as_one_more(tmp_path: Path) -> None:
    # four of one kind: 31/32 for no answer, so agreement holds; a window of two holds at once
    stops = {"agreement": Agreement(), "window": Window(size=2)}
    policies = [vote(name=name, max_traces=5, stop=stop, nulls="vote") for name, stop in stops.items()]
    agreement, window = rows_of(tmp_path, [None, None, None, None, "A"], *policies)
    assert (agreement["traces"], agreement["ending"], agreement["answer"]) == (4, "rule", None)
    assert (window["traces"], window["ending"]) == (2, "rule")


def test_the_share_of_votes_is_of_all_votes(tmp_path: Path) -> None:
    # A, A, -, -, B: A has 2 of 3 votes, and with nulls it ties with none: 2 of 5
    then = Sample(name="then", max_traces=5, select="majority")
    gates = {"gate": {"signal": "vote_share", "below": 0.5}, "then": then}
    policies = [When(name=nulls, base=vote(max_traces=5, nulls=nulls), **gates) for nulls in ("skip", "vote")]
    skip, counted = rows_of(tmp_path, ["A", "A", None, None, "B"], *policies)
    assert (skip["intervened"], counted["intervened"]) == (0, 1)


def test_means_over_orders_count_no_answer(tmp_path: Path) -> None:
    # -, A, B, two drawn: each pair ties and each of a pair wins half of the time: a third each
    (row,) = rows_of(tmp_path, [None, "A", "B"], vote(max_traces=2, nulls="vote", expected=True))
    assert {one["answer"]: pytest.approx(one["share"]) for one in row["answers"]} == dict.fromkeys(
        ["A", "B", None], 1 / 3
    )
    # with `smallest` A beats B, and both beat none: A in 2 of 3 pairs, B in 1
    ranked = vote(max_traces=2, nulls="vote", tie="smallest", expected=True)
    (row,) = rows_of(tmp_path / "ranked", [None, "A", "B"], ranked)
    assert shares(row) == pytest.approx({"A": 2 / 3, "B": 1 / 3})


def test_blocks_of_as_many_as_are_needed(tmp_path: Path) -> None:
    # confidence .95: four agreeing traces would do (31/32). A A B A: 3 to 1; 5 : 1 is .9375, 6 : 1 .965: three more.
    # Then 5 to 2: 7 : 2 is .945, 8 : 2 is .967: three more. One at a time it would stop after 6 : 1.
    answers = ["A", "A", "B", "A", "A", "B", "A", "A", "A", "A", "A", "A"]
    policies = [vote(name=str(width), max_traces=12, stop=Agreement(), width=width) for width in (1, "needed")]
    single, needed = rows_of(tmp_path, answers, *policies)
    assert (single["traces"], needed["traces"]) == (10, 10)
    # seconds are 1 to 10 in this order, and each block takes as long as its slowest: 4 + 7 + 10
    assert (single["latency_s"], needed["latency_s"]) == (55, 21)
    explained = replay.explain(log(tmp_path / "more", {"p": {"e": [(a, None) for a in answers]}}, {"e": "A"}),
                               [policies[1]], "needed", "e")  # fmt: skip
    steps = explained.stages[0].rows
    assert steps.filter(steps["needed"].is_not_null())["step"].to_list() == [4, 7, 10]
    assert steps["needed"].drop_nulls().to_list()[:2] == [3, 3]


def test_a_block_ends_at_the_cap(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, ["A", "A", "B"], vote(max_traces=3, stop=Agreement(), width="needed"))
    assert (row["traces"], row["ending"], row["latency_s"]) == (3, "cap", 3)
    budget = vote(max_traces=3, stop=Budget(traces=2), width="needed")
    (row,) = rows_of(tmp_path / "budget", ["A", "A", "B"], budget)
    assert (row["traces"], row["ending"], row["latency_s"]) == (2, "rule", 2)


@pytest.mark.parametrize(
    "keys",
    [
        {"width": "needed"},
        {"width": "needed", "stop": Window(size=2)},
        {"width": "needed", "stop": Margin(), "verifier": "v"},
        {"width": "needed", "expected": True},
        {"tie": "smallest", "select": "best", "verifier": "v"},
        {"nulls": "vote", "select": "weighted", "verifier": "v"},
        {"nulls": "vote", "select": "best", "stop": Margin(), "verifier": "v"},
    ],
)
def test_what_does_not_count_votes_or_traces_is_refused(keys: dict[str, Any]) -> None:
    with refuses("unsuitable", "vote"):
        vote(**keys)


def test_values_that_there_are_not_are_refused() -> None:
    for keys, code in (({"tie": "last"}, "unknown"), ({"nulls": "count"}, "unknown"), ({"width": "most"}, "invalid")):
        with refuses(code, next(iter(keys))):
            vote(**keys)


def test_an_explanation_tells_how_votes_are_counted(tmp_path: Path) -> None:
    made = log(tmp_path, {"p": {"e": [("A", None), (None, None), ("B", None)]}}, {"e": "A"})
    for keys in ({}, {"expected": True}):
        policy = vote(max_traces=3, tie="smallest", nulls="vote", **keys)
        (stage, *_) = replay.explain(made, [policy], "vote", "e").stages
        quotes(stage.title, "smallest answer", "answer votes")
