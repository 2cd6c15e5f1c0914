"""Exact means over all orders of the pool: against every permutation, many seeded orders, and the arithmetic."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import replay
from generate.simulation.grid import simulate
from replay import Oracle, Sample
from replay.runs.passes.logged_order import order_gain_notes
from replay.sampling.over_orders import DrawnTraces, highest_value_probability, most_votes_probability, smallest_of_tied
from tests.errors import refuses
from tests.logs import log
from thinkback.app import app
from toolkit.stopping.ties import TieRanks, answer_ranks

CODES = st.lists(st.integers(-1, 3), min_size=1, max_size=6)


@settings(deadline=None)
@given(codes=CODES, data=st.data())
def test_chances_are_those_of_all_permutations(codes: list[int], data: st.DataObject) -> None:
    drawn = data.draw(st.integers(1, len(codes)))
    scores = data.draw(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=len(codes), max_size=len(codes)))
    by_vote, by_score = np.zeros(len(codes)), np.zeros(len(codes))
    orders = list(permutations(range(len(codes)), drawn))
    for order in orders:
        valid = [at for at in order if codes[at] >= 0]
        if not valid:
            continue
        votes = [codes[at] for at in valid]
        leader = max(votes, key=votes.count)  # of several the one that comes first
        by_vote[valid[votes.index(leader)]] += 1
        by_score[max(valid, key=lambda at: scores[at])] += 1
    code = np.array([codes])
    traces = DrawnTraces(code, code >= 0, np.array([scores]), np.array([len(codes)]), np.array([drawn]))
    assert traces.majority_probability()[0] == pytest.approx(by_vote / len(orders), abs=1e-12)
    assert traces.highest_score_probability()[0] == pytest.approx(by_score / len(orders), abs=1e-12)
    nothing = traces.spread_null_probability(traces.majority_probability())[0]
    assert traces.majority_probability()[0].sum() + nothing.sum() == pytest.approx(1)


ANSWERS = ("10", "9", "b", "a")
"""By value 9 and 10, by text 10, 9, a and b."""


def smallest(tied: list[str | None]) -> str | None:
    """Of answers that tie, written from the page: numbers by value, others by their texts, a null after all."""
    some = [answer for answer in tied if answer is not None]
    key: Any = float if all(answer.isdigit() for answer in some) else str
    return min(some, key=key, default=None)


@pytest.mark.parametrize("tie", ["earliest", "smallest"])
@pytest.mark.parametrize("nulls", [False, True])
@settings(deadline=None, max_examples=30)
@given(answers=st.lists(st.sampled_from([None, *ANSWERS]), min_size=1, max_size=5), data=st.data())
def test_ties_and_nulls_are_those_of_all_permutations(
    tie: str, nulls: bool, answers: list[str | None], data: st.DataObject
) -> None:
    drawn = data.draw(st.integers(1, len(answers)))
    chosen, nothing = np.zeros(len(answers)), np.zeros(len(answers))
    orders = list(permutations(range(len(answers)), drawn))
    for order in orders:
        voting = [answers[at] for at in order if nulls or answers[at] is not None]
        tied = [answer for answer in voting if voting.count(answer) == max(map(voting.count, voting))]
        winner = None if not tied else smallest(tied) if tie == "smallest" else tied[0]
        at = next(at for at in order if winner is None or answers[at] == winner)
        (chosen if winner is not None else nothing)[at] += 1
    code = np.array([[-1 if answer is None else ANSWERS.index(answer) for answer in answers]])
    none, sizes = code < 0, (np.array([len(answers)]), np.array([drawn]))
    null = int(code.max()) + 1
    text, number = answer_ranks(np.array([[*[0, 1, 3, 2][:null], -1]]), pl.Series(["10", "9", "a", "b"]))
    ranks = TieRanks(code, text, number) if tie == "smallest" else None
    traces = DrawnTraces(code, ~none, np.zeros(code.shape), *sizes, none if nulls else None, ranks)
    chance = traces.majority_probability()
    by_answer = [sum(chosen[code[0] == one]) for one in code[0]]
    assert [sum(chance[0, code[0] == one]) for one in code[0]] == pytest.approx(np.array(by_answer) / len(orders))
    assert traces.spread_null_probability(chance)[0] == pytest.approx(nothing / len(orders), abs=1e-12)


@pytest.mark.parametrize("size", [40, 200])
def test_the_smallest_of_large_pools_agree_with_draws(size: int) -> None:
    rng = np.random.default_rng(size)
    words = np.array([[0, 1, 2, 3, -1]])
    text, number = answer_ranks(words, pl.Series(["10", "9", "a", "b"]))
    votes, drawn = rng.multinomial(size, np.ones(5) / 5, 1), size // 5
    wins = smallest_of_tied(votes, text, number, np.array([size]), np.array([drawn]))[0]
    assert wins.sum() == pytest.approx(1)
    code = np.repeat(np.arange(5), votes[0])
    seen = np.array([np.bincount(rng.permutation(code)[:drawn], minlength=5) for _ in range(4000)])
    names = ["10", "9", "a", "b", None]
    winners = [smallest([names[a] for a in np.flatnonzero(one == one.max())]) for one in seen]
    assert wins == pytest.approx([winners.count(name) / 4000 for name in names], abs=5 * np.sqrt(0.25 / 4000))


def test_votes_by_hand() -> None:
    # A A B, two drawn: AA 1/3, AB 2/3 where each leads half of the orders: A 2/3, B 1/3
    assert most_votes_probability(np.array([[2, 1]]), np.array([3]), np.array([2]))[0] == pytest.approx([2 / 3, 1 / 3])
    # all three drawn: A has most votes; A A B B: each shares evenly
    assert most_votes_probability(np.array([[2, 1]]), np.array([3]), np.array([3]))[0].tolist() == [1.0, 0.0]
    assert most_votes_probability(np.array([[2, 2]]), np.array([4]), np.array([4]))[0].tolist() == [0.5, 0.5]


def test_pass_at_k_by_hand() -> None:
    # 2 right of 5, subsets of 2: 1 - C(3, 2) / C(5, 2) = 1 - 3 / 10
    right, five = np.array([[1.0, 1, 0, 0, 0]]), np.array([5])
    chance = highest_value_probability(right, np.ones((1, 5), bool), five, np.array([2]))
    assert (chance * right).sum() == pytest.approx(0.7)


@pytest.mark.parametrize(("size", "drawn"), [(16, 8), (100, 3), (100, 64), (300, 200)])
def test_large_pools_add_up_and_agree_with_draws(size: int, drawn: int) -> None:
    rng = np.random.default_rng(size)
    votes = rng.multinomial(size, rng.dirichlet(np.ones(12)), 3)
    chance = most_votes_probability(votes, np.full(3, size), np.full(3, drawn))
    assert chance.sum(axis=1) == pytest.approx(1)
    codes = [np.repeat(np.arange(12), one) for one in votes]
    seen = np.array([[np.bincount(rng.permutation(code)[:drawn], minlength=12) for _ in range(4000)] for code in codes])
    top = seen == seen.max(axis=2, keepdims=True)
    share = (top / top.sum(axis=2, keepdims=True)).mean(axis=1)
    assert np.abs(chance - share).max() < 5 * np.sqrt(0.25 / 4000)


def drawn_log(tmp_path: Path, traces: int = 7, answers: tuple[str | None, ...] = (None, "A", "A", "B", "C")) -> Any:
    rng = np.random.default_rng(4)
    drawn = (rng.choice(np.array(answers, object), traces).tolist() for _ in range(30))
    rows = {
        f"e{i:02}": [(a, None if a is None else float(rng.integers(0, 5)) / 4) for a in row]
        for i, row in enumerate(drawn)
    }
    return log(tmp_path, {"p": rows}, dict.fromkeys(rows, "A"))


@pytest.mark.slow
def test_many_seeded_orders_come_near(tmp_path: Path) -> None:
    made = drawn_log(tmp_path)
    policies = []
    for select in ("majority", "best"):
        asks = {"verifier": "v"} if select == "best" else {}
        exact = Sample(name=select, max_traces=4, select=select, expected=True, **asks)
        policies += [exact, Sample(name=f"{select} by orders", max_traces=4, select=select, orders=4000, **asks)]
    frame = replay.run(made, policies, resamples=20).outcomes.collect()
    for select in ("majority", "best"):
        pair = [frame.filter(policy=name).sort("example_id") for name in (select, f"{select} by orders")]
        apart = np.abs(pair[0]["correct"].to_numpy() - pair[1]["correct"].to_numpy())
        assert apart.max() < 5 * np.sqrt(0.25 / 4000)
        for cost in ("traces", "valid_traces", "verifications", "total_tokens", "latency_s"):
            one, other = (each[cost].cast(pl.Float64).to_numpy() for each in pair)
            assert one == pytest.approx(other, rel=0.05, nan_ok=True), cost


def test_any_of_k_is_pass_at_k_and_pays_the_mean(tmp_path: Path) -> None:
    rows = {"e": [("A", None), ("A", None), ("B", None), ("C", None), (None, None)]}
    made = log(tmp_path, {"p": rows}, {"e": "A"})
    oracle = Oracle(name="any of 2", of=("p",), max_traces=2, expected=True)
    row = replay.run(made, [oracle], resamples=5).outcomes.collect().row(0, named=True)
    assert row["correct"] == pytest.approx(0.7)
    assert row["traces"] == pytest.approx(2)
    assert row["valid_traces"] == pytest.approx(2 * 4 / 5)
    # not right: C(3, 2) of C(5, 2) = .3, shared by B, C and none
    assert {one["answer"]: round(one["share"], 12) for one in row["answers"]} == {
        "A": 0.7,
        "B": 0.1,
        "C": 0.1,
        None: 0.1,
    }


@pytest.mark.parametrize(
    "keys",
    [
        {"select": "weighted", "verifier": "v", "width": 2},
        {"select": "majority", "width": 2},
        {"select": "majority", "orders": 3},
        {"select": "majority", "stop": replay.Window(size=2)},
    ],
)
def test_what_has_no_exact_mean_is_refused(keys: dict[str, Any]) -> None:
    with refuses("unsuitable", "`expected`"):
        Sample(name="vote", max_traces=4, expected=True, **keys)


@pytest.mark.parametrize("drawn", [1, 2, 3, 6])
@pytest.mark.parametrize("seed", range(4))
def test_weighted_votes_of_up_to_three_and_of_all_are_those_of_all_orders(drawn: int, seed: int) -> None:
    """Beside a loop over every order: nulls, traces without a score, negative scores, ties of a pair with one."""
    rng, traces = np.random.default_rng(seed), 6
    size = rng.integers(0, traces + 1, 40)
    code = np.where(np.arange(traces) < size[:, None], rng.integers(-1, 3, (40, traces)), -1)
    some = [-0.5, 0.1, 0.2, 0.25, 0.3, 0.5] if drawn < traces else [-0.5, 0.125, 0.25, 0.375, 0.5]  # exact in any order
    score = rng.choice(some, code.shape)
    verified = (code >= 0) & (rng.random(code.shape) < 0.85)
    drawn_of = np.minimum(size, drawn)
    chance = DrawnTraces(code, verified, np.where(verified, score, np.nan), size, drawn_of).weighted_vote_probability()
    for example in range(len(code)):
        answers = np.zeros(3)
        orders = list(permutations(range(size[example]), int(drawn_of[example])))
        for order in orders:
            sums: dict[int, float] = {}
            for trace in order:
                if verified[example, trace]:
                    sums[code[example, trace]] = sums.get(code[example, trace], 0.0) + score[example, trace]
            if sums:  # of equal sums the first in the order, as a dict keeps it
                answers[max(sums, key=sums.__getitem__)] += 1 / len(orders)
        shares = [chance[example, code[example] == answer].sum() for answer in range(3)]
        np.testing.assert_allclose(shares, answers, atol=1e-12)


@pytest.mark.parametrize("drawn", [3, 4, 109])
def test_weighted_votes_over_too_many_sets_are_refused(tmp_path: Path, drawn: int) -> None:
    vote = Sample(name="vote", pool="n110", max_traces=drawn, select="weighted", verifier="strong", expected=True)
    made = simulate(tmp_path / "log", examples=2, traces=110, labels=2, seed=1, name="log")
    with refuses("limit", "`expected`", "110", "200,000"):
        replay.run(made, vote, resamples=5)


def test_a_weighted_vote_of_the_whole_pool_is_that_of_many_orders(tmp_path: Path) -> None:
    """Only ties hang on the order: the mean over 400 is within a few hundredths of each example, and costs agree."""
    vote = Sample(name="exact", pool="n8", max_traces=8, select="weighted", verifier="strong", expected=True)
    many = vote.filled(name="many", orders=400, expected=False)
    made = simulate(tmp_path / "log", examples=60, traces=8, labels=3, seed=3, name="log")
    outcomes = replay.run(made, [vote, many], resamples=5).outcomes.collect().sort("example_id")
    one, two = (outcomes.filter(pl.col("policy") == name) for name in ("exact", "many"))
    assert (one["correct"] - two["correct"]).abs().max() <= 0.1
    for cost in ("total_tokens", "verifications", "latency_s"):
        np.testing.assert_allclose(one[cost], two[cost], rtol=1e-9)


def test_an_oracle_of_k_needs_both_keys_and_one_pool() -> None:
    for keys in ({"max_traces": 2}, {"expected": True}):
        with refuses("unsuitable", "`max_traces`"):
            Oracle(name="o", of=("p",), **keys)
    with refuses("unsuitable", "`of`"):
        Oracle(name="o", of=("p", "q"), max_traces=2, expected=True)


def test_a_logged_order_is_told_what_all_orders_would_gain(tmp_path: Path) -> None:
    """By how much: the spread of differences in the logged order over that of their exact means."""
    made = drawn_log(tmp_path)
    votes = [Sample(name=f"maj@{k}", max_traces=k, select="majority") for k in (2, 4)]
    exact = [Sample(name=f"maj@{k}", max_traces=k, select="majority", expected=True) for k in (2, 4)]
    logged, every = (replay.run(made, policies, resamples=20) for policies in (votes, exact))
    (told,) = [one for one in logged.notes if one.code == "logged_order"]
    assert told.policies == ("maj@4",)
    spreads = []
    for result in (logged, every):
        by_policy = result.outcomes.collect().pivot("policy", index="example_id", values="correct")
        spreads.append(float((by_policy["maj@4"] - by_policy["maj@2"]).std(ddof=0)))  # type: ignore[arg-type]
    assert f"{spreads[0] / spreads[1]:.2g} times" in told.text
    assert [(one.code, one.policies) for one in every.notes if "order" in one.code] == [("orders", ("maj@2", "maj@4"))]


@pytest.mark.parametrize("traces", [4, 5, 7])
def test_describe_tells_what_all_orders_gain(tmp_path: Path, traces: int) -> None:
    """Of four and five traces, too, whose half is a vote of two, which is right as often as one."""
    made = drawn_log(tmp_path, traces, ("A", "A", "B", "C"))
    told, detectable = order_gain_notes(made)
    assert (told.code, detectable.code) == ("logged_order", "detectable")
    assert "majority@3 − majority@1" in told.text
    assert "majority@3 − majority@1" in detectable.text
    assert "majority@3" in CliRunner().invoke(app, ["describe", made.address]).output
    unjudged = {"e": [("A", None)] * 5}
    assert not list(order_gain_notes(log(tmp_path / "unjudged", {"p": unjudged}, {"e": None})))


def test_means_that_are_0_or_1_are_so_exactly(tmp_path: Path) -> None:
    """Rates get intervals of their own, and sums of probabilities are not 1 to the last digit."""
    rng = np.random.default_rng(1)
    rows = {f"e{i:02}": [(a, None) for a in rng.choice(["A", "B", "C"], 13).tolist()] for i in range(20)}
    made = log(tmp_path, {"p": rows}, dict.fromkeys(rows, "A"))
    whole = Oracle(name="any", of=("p",), max_traces=13, expected=True)
    certain = Sample(name="all", max_traces=5, select="majority", expected=True)
    same = log(tmp_path / "same", {"p": {name: [("A", None)] * 13 for name in rows}}, dict.fromkeys(rows, "A"))
    for of, policy in ((made, whole), (same, certain)):
        values = set(replay.run(of, [policy], resamples=5).outcomes.collect()["correct"].to_list())
        assert values <= {0.0, 1.0}
