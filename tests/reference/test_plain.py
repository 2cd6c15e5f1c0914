"""The slow twin against cases worked by hand; the arithmetic stands beside each."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

import pytest

from tests.reference import plain, rules
from tests.reference.plain import PlainLog, Refused, Row
from tests.reference.random_logs import random_log
from tests.reference.random_policies import random_policies

COSTS = {
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "latency_s": 2.0,
    "device_s": 0.5,
    "finish_reason": "stop",
    "finalizer_used": False,
}
CHECK = {"prompt_tokens": 3, "completion_tokens": 1, "latency_s": 0.25, "device_s": 0.125, "candidates": None}


def example(example_id: str = "e", gold: str | None = "A", labels: list[str] | None = None) -> Row:
    return {"example_id": example_id, "gold": gold, "labels": labels}


def solve(answer: str | None, i: int, pool: str = "p", example_id: str = "e", **more: Any) -> Row:
    row = {
        "trace_id": f"{example_id}/{pool}/{i}",
        "example_id": example_id,
        "pool": pool,
        "action": "solve",
        "parent_id": None,
        "sample_index": i,
        "answer": answer,
        "correct": answer == "A",
        "credit": None,
        **COSTS,
    }
    return {**row, **more}


def check(trace: Row, score: float, verifier: str = "v", **more: Any) -> Row:
    return {"trace_id": trace["trace_id"], "verifier": verifier, "score": score, **CHECK, **more}


def log_of(answers: str, scores: list[float | None] | None = None, **settings: Any) -> PlainLog:
    """One example with gold A and a pool of one-letter answers, `-` an unreadable one."""
    traces = [solve(None if a == "-" else a, i) for i, a in enumerate(answers)]
    found = zip(traces, scores or [], strict=bool(scores))
    checks = [check(trace, score) for trace, score in found if score is not None]
    return PlainLog([example(**settings)], traces, checks)


def one(log: PlainLog, **policy: Any) -> Any:
    """The outcome of one sample policy on the only example."""
    settings = {"name": "x", "kind": "sample", "max_traces": len(log.traces), "verifier": "v", **policy}
    paths = plain.paths_of(log, settings, log.examples[0]["example_id"])
    return plain.outcome(log, settings, paths)


# ------------------------------------------------------------------------------------------ random order


def test_the_mix_hash_is_followed_bit_by_bit() -> None:
    """mix(1): 1, times the first constant C; C ^ C >> 27, times the second; x ^ x >> 31; modulo 2**64."""
    c1, c2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
    x = c1 ^ (c1 >> 27)
    x = (x * c2) & (2**64 - 1)
    assert rules.mix(1) == x ^ (x >> 31)
    assert rules.mix(0) == 0
    # The finalizer is splitmix64's; its first published output for seed 0 mixes the increment 2**64 / phi.
    assert rules.mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF


def test_random_order_starts_from_the_examples_hash() -> None:
    h = int(hashlib.sha256("é".encode()).hexdigest()[:16], 16)
    seed, j, index = 5, 2, 3
    expected = rules.mix((rules.mix((rules.mix((h + seed) % 2**64) + j) % 2**64) + index) % 2**64)
    assert rules.random_key("é", seed, j, index) == expected


# ------------------------------------------------------------------------------------------------- stops


@pytest.mark.parametrize(
    ("v1", "v2", "expected"),
    [
        (1, 0, Fraction(3, 4)),  # P(Bin(2, 1/2) <= 1) = (1 + 2) / 4
        (2, 0, Fraction(7, 8)),  # P(Bin(3) <= 2) = 1 - 1/8
        (2, 1, Fraction(11, 16)),  # P(Bin(4) <= 2) = (1 + 4 + 6) / 16
        (2, 2, Fraction(1, 2)),
        (4, 0, Fraction(31, 32)),  # the first above 0.95
    ],
)
def test_agreement_is_a_binomial_tail(v1: int, v2: int, expected: Fraction) -> None:
    assert rules.agreement(v1, v2) == expected


@pytest.mark.parametrize(
    ("answers", "confidence", "traces", "ending"),
    [
        ("AAAAA", 0.95, 4, "rule"),  # 31/32
        ("ABAAA", 0.75, 1, "rule"),  # 3/4 is met exactly by one vote
        ("-ABAA", 0.75, 2, "rule"),  # one vote is needed, the unreadable one is none
        ("ABABA", 0.8, 5, "cap"),  # 1 vote: 3/4; 3 to 2: P(Bin(6) <= 3) = 42/64
        ("AABBA", 0.875, 2, "rule"),  # two to none: 7/8
        ("-----", 0.5, 5, "cap"),
    ],
)
def test_agreement_stops(answers: str, confidence: float, traces: int, ending: str) -> None:
    stop = {"rule": "agreement", "confidence": confidence}
    out = one(log_of(answers), select="majority", stop=stop)
    assert (out["traces"], out["ending"]) == (traces, ending)
    assert out["verifications"] == 0  # a vote needs no verifier


@pytest.mark.parametrize(
    ("answers", "scores", "stop", "verified", "ending"),
    [
        # A .9, B .8: .1 is less than .15. The third trace makes B .7's best .8, still .1; A stays ahead: cap.
        ("ABB", [0.9, 0.8, 0.7], {"min_valid": 2}, 3, "cap"),
        ("ABB", [0.95, 0.8, 0.7], {"min_valid": 2}, 2, "rule"),  # .95 - .8 = .15 - 1e-16, within 1e-9
        ("ABB", [0.95, 0.8, 0.7], {}, 3, "rule"),  # the same, but min_valid is 3
        ("AAAAAA", [0.5] * 6, {}, 5, "rule"),  # one answer: single_label is 5
        ("AAAAAA", [0.5] * 6, {"single_label": 2}, 3, "rule"),  # min_valid 3 comes first
        ("A-AB", [0.9, None, 0.9, 0.1], {"min_valid": 1, "single_label": 2}, 2, "rule"),
        ("AB", [0.5, 0.5], {"margin": 0.0, "min_valid": 1}, 2, "rule"),  # equal scores, margin 0
        ("----", [None] * 4, {"min_valid": 1, "single_label": 1}, 0, "cap"),
    ],
)
def test_margin_stops(answers: str, scores: list[Any], stop: Row, verified: int, ending: str) -> None:
    out = one(log_of(answers, scores), stop={"rule": "margin", **stop})
    assert (out["verifications"], out["ending"]) == (verified, ending)


@pytest.mark.parametrize(
    ("answers", "size", "traces", "ending"),
    [
        ("ABBAA", 2, 5, "cap"),  # blocks AB, BA; the second A of the third block never comes
        ("ABBBAA", 2, 4, "rule"),  # AB, BB
        ("BAAA", 2, 4, "rule"),  # A at 2 and 3 are in two blocks; the block 3, 4 agrees
        ("--AA", 2, 4, "rule"),  # a block of invalid ones is no agreement
        ("BA", 1, 1, "rule"),
    ],
)
def test_window_stops(answers: str, size: int, traces: int, ending: str) -> None:
    out = one(log_of(answers), select="majority", stop={"rule": "window", "size": size})
    assert (out["traces"], out["ending"]) == (traces, ending)


def test_the_windows_vote_is_over_all_traces_seen() -> None:
    """Blocks of three, B B A and C C C: the second agrees, and C has three votes to two."""
    out = one(log_of("BBACCC"), select="majority", stop={"rule": "window", "size": 3})
    assert (out["answer"], out["traces"], out["ending"]) == ("C", 6, "rule")


def test_budgets() -> None:
    log = log_of("-AB", [None, 0.2, 0.9])
    by_traces = one(log, stop={"rule": "budget", "traces": 2})
    assert (by_traces["traces"], by_traces["verifications"], by_traces["answer"]) == (2, 1, "A")
    by_checks = one(log, stop={"rule": "budget", "verifications": 2})
    assert (by_checks["traces"], by_checks["verifications"], by_checks["answer"]) == (3, 2, "B")
    assert by_checks["ending"] == "rule"  # also where the cap is reached in that step
    assert one(log, stop={"rule": "budget", "verifications": 3})["ending"] == "cap"


# ------------------------------------------------------------------------------------------------ selects


@pytest.mark.parametrize(
    ("answers", "scores", "select", "answer", "correct"),
    [
        ("BAAB", None, "majority", "B", False),  # two to two: the earliest
        ("-BAA", None, "majority", "A", True),
        ("BA", [0.5, 0.5], "best", "B", False),  # equal scores: earliest
        ("-BA", [0.9, 0.2, 0.3], "best", "A", True),  # a score of an invalid trace is never read
        ("ABB", [0.3, 0.1, 0.2], "weighted", "B", False),  # .1 + .2 = .30000000000000004 > .3
        ("BAB", [0.1, 0.3, 0.2], "weighted", "B", False),
        ("AB", [-0.2, -0.1], "weighted", "B", False),
        ("ABB", [0.5, 0.25, 0.25], "weighted", "A", True),  # a tie: the earliest verified
        ("--", None, "majority", None, False),
        ("--", [0.5, 0.5], "best", None, False),
    ],
)
def test_selects(answers: str, scores: Any, select: str, answer: str | None, correct: bool) -> None:
    out = one(log_of(answers, scores), select=select)
    assert (out["answer"], out["correct"]) == (answer, float(correct))


def test_first_is_null_outside_the_label_space() -> None:
    log = PlainLog([example(labels=["A", "B"])], [solve("C", 0, correct=False)])
    assert one(log, select="first")["answer"] is None
    assert one(log, select="first")["valid_traces"] == 0
    empty_space = PlainLog([example(labels=[])], [solve("C", 0)])
    assert one(empty_space, select="first")["answer"] == "C"


def test_the_chosen_traces_credit_is_the_policys() -> None:
    """Of a vote, the earliest trace with the answer; of best, the winner; of a null answer, the first."""
    traces = [solve("B", 0, credit=0.1), solve("A", 1, credit=0.2), solve("A", 2, credit=0.3)]
    log = PlainLog([example()], traces, [check(t, s) for t, s in zip(traces, [0, 0.4, 0.5], strict=True)])
    assert one(log, select="majority")["credit"] == 0.2
    assert one(log, select="weighted")["credit"] == 0.2
    assert one(log, select="best")["credit"] == 0.3
    nothing = PlainLog([example()], [solve(None, 0, credit=0.7), solve(None, 1, credit=0.6)])
    assert one(nothing, select="majority")["credit"] == 0.7


def test_an_unjudged_example_has_no_correctness_even_for_a_null_answer() -> None:
    log = PlainLog([example(gold=None)], [solve(None, 0, correct=None)])
    assert one(log, select="first")["correct"] is None


# ------------------------------------------------------------------------------------------ orders, means


def test_score_order_verifies_from_the_top_and_ties_go_to_the_earliest() -> None:
    """Scores .2, .9, .9: A of trace 1 before B of trace 2; one verification is enough to answer A."""
    log = log_of("CAB", [0.2, 0.9, 0.9])
    out = one(log, order="score", stop={"rule": "budget", "verifications": 1})
    assert (out["answer"], out["traces"], out["verifications"], out["ending"]) == ("A", 3, 1, "rule")
    assert one(log, order="score")["verifications"] == 3


def test_score_order_reads_every_valid_score_random_order_only_those_it_verifies() -> None:
    log = log_of("AB", [0.5, 0.5])
    first = rules.in_random_order(log.traces, 0, 0)[0]
    log = PlainLog(log.examples, log.traces, [check(first, 0.5)])
    stop = {"rule": "budget", "verifications": 1}
    assert one(log, order="random", stop=stop)["answer"] == first["answer"]
    for settings in ({"order": "score"}, {"order": "random", "expected": True}):
        with pytest.raises(plain.Partial):
            one(log, **settings, stop=stop)


def test_expected_is_the_mean_over_all_sets() -> None:
    """Scores A .9, B .8, C .1, two of three verified: {A,B} A, {A,C} A, {B,C} B. Accuracy 2/3, two checks.

    Tokens: 3 traces of 15 and 2 checks of 4 = 53; device: 3 * .5 + 2 * .125 = 1.75."""
    log = log_of("ABC", [0.9, 0.8, 0.1])
    out = one(log, order="random", expected=True, stop={"rule": "budget", "verifications": 2})
    assert out["correct"] == pytest.approx(2 / 3)
    assert out["answer"] is None
    assert out["answers"] == [
        {"answer": "A", "share": pytest.approx(2 / 3)},
        {"answer": "B", "share": pytest.approx(1 / 3)},
    ]
    assert (out["verifications"], out["total_tokens"], out["device_s"]) == (2, 53, 1.75)
    assert out["ending"] == "rule"


def test_expected_with_one_possible_winner_is_a_single_row() -> None:
    out = one(log_of("AB", [0.1, 0.2]), order="random", expected=True, stop={"rule": "budget", "verifications": 2})
    assert (out["answer"], out["answers"]) == ("B", None)


def test_orders_permute_the_whole_logged_pool_and_average() -> None:
    """A pool of A, B, B, B of which one is taken: the mean over the first traces of the K permutations."""
    log = log_of("ABBB")
    out = one(log, max_traces=1, select="first", orders=8)
    firsts = [rules.in_random_order(log.traces, 0, j)[0]["answer"] for j in range(8)]
    assert out["correct"] == firsts.count("A") / 8
    assert out["answer"] is None
    assert {share["answer"]: share["share"] for share in out["answers"]} == {
        a: firsts.count(a) / 8 for a in set(firsts)
    }


def test_one_order_is_a_single_row() -> None:
    out = one(log_of("A"), select="first", orders=1)
    assert (out["answer"], out["answers"]) == ("A", None)


def test_shares_are_sorted_by_share_then_answer_null_last() -> None:
    found = [(row["answer"], row["share"]) for row in plain.shares([None, "b", "a", "c", "c"])]
    assert found == [("c", 0.4), ("a", 0.2), ("b", 0.2), (None, 0.2)]


# -------------------------------------------------------------------------------------------------- costs


def test_costs_of_a_sample() -> None:
    """Three traces (10 + 5 tokens, 2 s, .5 device s), two valid and verified (3 + 1 tokens, .25 s, .125 s).

    total = 30 + 15 + 8 = 53; latency = 6 + .5; device = 1.5 + .25; calls = 3 traces + 1 finalizer."""
    log = log_of("A-B", [0.5, None, 0.4])
    log.traces[1].update(finalizer_used=True, finish_reason="length")
    expected = {
        "traces": 3,
        "valid_traces": 2,
        "finalizers": 1,
        "truncated": 1,
        "verifications": 2,
        "operations": 5,
        "calls": 4,
        "prompt_tokens": 30,
        "completion_tokens": 15,
        "verification_tokens": 8,
        "total_tokens": 53,
        "generation_s": 6.0,
        "verification_s": 0.5,
        "latency_s": 6.5,
        "device_s": 1.75,
    }
    out = one(log)
    assert {key: out[key] for key in expected} == expected


def test_a_cost_is_null_as_soon_as_one_paid_trace_lacks_it() -> None:
    log = log_of("AB", [0.5, 0.4])
    log.traces[1].update(prompt_tokens=None, device_s=None, finalizer_used=None, finish_reason=None)
    out = one(log)
    nulls = {key for key in plain.NUMBERS if out[key] is None}
    assert nulls == {
        *("prompt_tokens", "total_tokens", "device_s", "finalizers", "calls", "truncated"),
        *("credit", "base_correct", "fix", "flip", "action_tokens"),
    }
    assert one(log, max_traces=1)["total_tokens"] == 19  # the second one is not paid


def test_an_unlogged_cost_of_a_verification_is_free() -> None:
    log = log_of("A", [0.5])
    log.verifications[0].update(prompt_tokens=None, completion_tokens=1, latency_s=None, device_s=None)
    out = one(log)
    assert (out["verification_tokens"], out["verification_s"], out["device_s"]) == (1, 0, 0.5)


def test_width_pays_whole_blocks_and_each_costs_its_slowest() -> None:
    """Seconds 1, 5, 2, 3, 7 two at a time: max(1, 5) + max(2, 3) + 7 = 15. A margin that one trace would meet
    stops after two."""
    log = log_of("AAAAA", [0.5] * 5)
    for trace, seconds in zip(log.traces, [1.0, 5.0, 2.0, 3.0, 7.0], strict=True):
        trace["latency_s"] = seconds
    out = one(log, width=2)
    assert (out["latency_s"], out["generation_s"]) == (15 + 5 * 0.25, 18)
    out = one(log, width=2, stop={"rule": "budget", "traces": 1})
    assert (out["traces"], out["latency_s"], out["ending"]) == (2, 5.5, "rule")
    assert one(log, width=2, stop={"rule": "budget", "traces": 5})["ending"] == "rule"  # checked at the cap too


# ------------------------------------------------------------------------------------- what the log lacks


def test_partial_examples() -> None:
    log = log_of("AB", [0.5, None])
    for settings, reason in [
        ({"max_traces": 3, "select": "majority"}, "cap 3, pool 2"),
        ({"max_traces": 3, "stop": {"rule": "budget", "traces": 1}}, "cap 3, pool 2"),
        ({}, "e/p/1 by v"),
        ({"pool": "other"}, "empty pool"),
        ({"pool": "other", "on_missing": "use_available"}, "empty pool"),
    ]:
        with pytest.raises(plain.Partial, match=reason):
            one(log, **settings)
    assert one(log, stop={"rule": "budget", "traces": 1})["answer"] == "A"  # needs no second verification
    assert one(log, max_traces=3, on_missing="use_available", select="majority")["ending"] == "exhausted"
    assert one(log, max_traces=2, on_missing="use_available", select="majority")["ending"] == "cap"


def test_traces_after_a_gap_are_not_replayed() -> None:
    log = PlainLog([example()], [solve("B", 0), solve("A", 2), solve("A", 3)])
    out = one(log, max_traces=3, select="majority", on_missing="use_available")
    assert (out["answer"], out["traces"]) == ("B", 1)


def test_a_pool_without_prefix_is_replayed_whole_or_not_at_all() -> None:
    log = log_of("ABA")
    log.whole = frozenset({"p"})
    assert one(log, select="majority")["answer"] == "A"
    with pytest.raises(plain.Partial, match="whole"):
        one(log, select="majority", max_traces=2)
    base = {"name": "x", "kind": "sample", "max_traces": 3, "select": "majority"}
    for settings in ({"orders": 2}, {"stop": {"rule": "agreement"}}):
        with pytest.raises(Refused, match="whole"):
            plain.replay(log, [{**base, **settings}])


def test_a_listwise_verifier_is_called_once() -> None:
    """Two valid of three, ranked together: one call with the tokens of the first row (3 + 1)."""
    log = log_of("A-B")
    free = {"prompt_tokens": 0, "completion_tokens": 0, "latency_s": 0.0, "device_s": 0.0}
    rows = [check(log.traces[0], 0.2, candidates=2), check(log.traces[2], 0.9, candidates=2, **free)]
    log = PlainLog(log.examples, log.traces, rows)
    out = one(log)
    assert (out["answer"], out["verifications"], out["operations"], out["verification_tokens"]) == ("B", 1, 4, 4)
    for settings in ({"max_traces": 1}, {"order": "random"}, {"stop": {"rule": "margin"}}):
        with pytest.raises(plain.Partial, match="listwise"):
            one(log, **settings)
    rows[0]["candidates"] = 3
    with pytest.raises(plain.Partial, match="traces"):
        one(log)


def test_refusals() -> None:
    log = log_of("AB", [0.5, 0.5])
    base = {"name": "x", "kind": "sample", "max_traces": 2, "verifier": "v"}
    for settings in (
        {"select": "first"},
        {"order": "random", "select": "majority"},
        {"order": "score", "stop": {"rule": "budget", "traces": 1}},
        {"order": "random", "expected": True},
    ):
        with pytest.raises(Refused):
            plain.replay(log, [{**base, **settings}])
    for i in range(2):
        log.traces[i].update(opaque=True, answer=f"e/p/{i}")
    with pytest.raises(Refused, match="opaque"):
        plain.replay(log, [{**base, "select": "majority"}])
    assert plain.replay(log, [base]).results["x"]["e"]["answer"] == "e/p/0"


def test_votes_leave_out_an_example_with_a_contested_or_opaque_trace() -> None:
    """A, A, B, of which the second A is wrong: votes and leads are undefined, scores and oracles are not."""
    scores = [0.1, 0.9, 0.5]
    votes = {"select": "majority"}, {"select": "weighted"}, {"stop": {"rule": "margin"}}, {"order": "surrogate"}
    for mark in ({"contested": True}, {"opaque": True, "answer": "e/p/1"}):
        log = log_of("AAB", scores)
        log.traces[1].update(correct=False, **mark)
        for settings in votes:
            with pytest.raises(plain.Partial, match="compared"):
                one(log, **settings)
        assert one(log)["correct"] == 0  # by its own verdict, though a like answer is right
        assert one(log, max_traces=1, select="first")["correct"] == 1
        oracle = {"name": "any", "kind": "oracle", "rule": "any", "of": ["p"]}
        assert plain.replay(log, [oracle]).results["any"]["e"]["correct"] == 1


@pytest.mark.parametrize(
    ("way", "settings", "answer", "traces", "verified"),
    [
        # B .3, A without a score, A .25, B .2; the lowest score of the pool is .2.
        ("skip", {"max_traces": 3, "select": "weighted"}, "B", 3, 2),  # .3 to .25
        ("lowest", {"max_traces": 3, "select": "weighted"}, "A", 3, 3),  # .3 to .2 + .25 = .45
        ("skip", {"stop": {"rule": "margin", "margin": 0.05, "min_valid": 2}}, "B", 3, 2),  # .3 - .25
        ("lowest", {"stop": {"rule": "margin", "margin": 0.05, "min_valid": 2}}, "B", 2, 2),  # .3 - .2
        ("skip", {"order": "score"}, "B", 4, 3),
        ("lowest", {"order": "score"}, "B", 4, 4),
        ("skip", {"select": "majority", "max_traces": 3}, "A", 3, 0),  # a vote verifies nothing
        ("skip", {"order": "surrogate", "mode": "lazy", "bootstrap": 2, "stop": {"rule": "budget", "verifications": 1}},
         "B", 3, 1),  # two that can be verified: three generated
    ],
)  # fmt: skip
def test_what_becomes_of_missing_scores(way: str, settings: Row, answer: str, traces: int, verified: int) -> None:
    log = log_of("BAAB", [0.3, None, 0.25, 0.2])
    out = one(log, on_unscored=way, **settings)
    assert (out["answer"], out["traces"], out["verifications"]) == (answer, traces, verified)
    paid = verified - (way == "lowest")  # nothing is logged of what the made-up score would have cost
    assert out["total_tokens"] == 15 * traces + 4 * paid
    with pytest.raises(plain.Partial, match="e/p/1"):
        one(log)


# ------------------------------------------------------------------------------------------------ oracles


def test_the_oracle_any_pays_everything_once_and_chooses_the_first_right_one() -> None:
    """Pools p (B, A) and q (A): all three, 45 tokens; its base p/0 is paid with p. Chosen: p/1."""
    traces = [solve("B", 0), solve("A", 1, credit=0.5), solve("A", 0, pool="q", credit=0.9)]
    log = PlainLog([example()], traces)
    policy = {"name": "any", "kind": "oracle", "rule": "any", "of": ["p", "q"], "base": "p"}
    out = plain.replay(log, [policy]).results["any"]["e"]
    assert (out["correct"], out["credit"], out["traces"], out["total_tokens"]) == (1, 0.5, 3, 45)
    assert out["ending"] == "cap"
    out = plain.replay(log, [{**policy, "of": ["q", "p"]}]).results["any"]["e"]
    assert out["credit"] == 0.9
    out = plain.replay(log, [{**policy, "of": ["q"]}]).results["any"]["e"]
    assert (out["credit"], out["traces"]) == (0.9, 2)


def test_the_oracles_actions_are_the_revisions_of_the_bases_sample_0() -> None:
    traces = [solve("B", 0), solve("B", 1)]
    for parent, answers in ((0, "BC"), (1, "A")):
        for i, answer in enumerate(answers):
            more = {"action": "fix", "parent_id": f"e/p/{parent}", "trace_id": f"r{parent}{i}"}
            traces.append(solve(answer, i, pool="r", **more))
    log = PlainLog([example()], traces)
    policy = {"name": "any", "kind": "oracle", "rule": "any", "of": ["fix"], "base": "p"}
    out = plain.replay(log, [policy]).results["any"]["e"]
    assert (out["correct"], out["answer"], out["traces"]) == (0, "B", 3)  # p/0 and its two revisions
    traces[2]["reads"] = 2  # a synthesis of p/0 and p/1 costs those and itself
    assert plain.replay(log, [policy]).results["any"]["e"]["traces"] == 4


# ------------------------------------------------------------------------------------------ against, runs


def test_against_counts_the_calls_that_only_the_intervention_needed() -> None:
    """`first` answers B, wrongly; the best of three A: fix 1; 2 traces of 15 and 3 checks of 4 tokens."""
    log = log_of("BAA", [0.1, 0.9, 0.8])
    first = {"name": "first", "kind": "sample", "max_traces": 1, "select": "first", "against": "best"}
    best = {"name": "best", "kind": "sample", "max_traces": 3, "verifier": "v", "against": "first"}
    run = plain.replay(log, [first, best])
    out = run.results["best"]["e"]
    assert [out[k] for k in ("base_correct", "fix", "flip", "action_tokens", "intervened")] == [0, 1, 0, 42, 1]
    out = run.results["first"]["e"]
    assert [out[k] for k in ("base_correct", "fix", "flip", "action_tokens", "intervened")] == [1, 0, 1, 0, 0]


def test_against_pairs_repetitions_of_the_same_number_of_orders() -> None:
    """One trace of a permuted pool against two of the same permutation: always exactly one more call."""
    log = log_of("ABAB")
    vote = {"kind": "sample", "select": "majority", "orders": 5}
    policies = [
        {"name": "two", **vote, "max_traces": 2, "against": "one"},
        {"name": "one", **vote, "max_traces": 1, "against": "two"},
    ]
    results = plain.replay(log, policies).results
    assert (results["two"]["e"]["action_tokens"], results["two"]["e"]["intervened"]) == (15, 1)
    assert (results["one"]["e"]["action_tokens"], results["one"]["e"]["intervened"]) == (0, 0)
    b, c = results["one"]["e"]["correct"], results["two"]["e"]["correct"]
    assert results["two"]["e"]["fix"] == (1 - b) * c


def served(counts: dict[str, list[int]]) -> plain.Run:
    """A run in which each policy serves the examples numbered so."""
    every = sorted({e for ids in counts.values() for e in ids} | {99})
    return plain.serve(
        {name: {str(e): {} if e in ids else ("partial", "") for e in every} for name, ids in counts.items()}
    )


def test_below_nine_tenths_a_policy_is_dropped_all_such_at_once() -> None:
    """Ten examples can be served by some policy: nine are enough, eight are not; 99 is nobody's."""
    run = served({"a": list(range(10)), "b": list(range(9)), "c": list(range(8)), "d": list(range(2, 10))})
    assert run.dropped == ["c", "d"]
    assert run.excluded == ["9", "99"]


def test_a_run_without_policies_or_examples_is_refused() -> None:
    with pytest.raises(Refused, match="policy"):
        served({"a": [1, 2, 3], "b": [4, 5, 6]})
    with pytest.raises(Refused, match="example"):
        served({f"p{i}": [e for e in range(10) if e != i] for i in range(10)})


def test_sweeps_expand_in_the_order_written() -> None:
    entry = {"name": "s", "kind": "sample", "max_traces": [5, 15], "stop": {"rule": "margin", "margin": [0.1, 0.2]}}
    expanded = plain.expand(entry)
    assert [p["name"] for p in expanded] == [
        "s[max_traces=5, stop.margin=0.1]",
        "s[max_traces=5, stop.margin=0.2]",
        "s[max_traces=15, stop.margin=0.1]",
        "s[max_traces=15, stop.margin=0.2]",
    ]
    assert expanded[3]["stop"] == {"rule": "margin", "margin": 0.2}


# --------------------------------------------------------------------------------------------- generators


def test_random_logs_and_policies_are_seeded() -> None:
    import random

    for seed in range(3):
        first, second = random_log(seed), random_log(seed)
        assert json.dumps(first.plain.traces) == json.dumps(second.plain.traces)
        assert all(first.tables[t].equals(second.tables[t]) for t in first.tables)
        mine = [random_policies(random.Random(seed), log, 5) for log in (first, second)]
        assert mine[0] == mine[1]
