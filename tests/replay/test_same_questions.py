"""What other samples of the same questions would show: by hand, by brute force, and where the log cannot say."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import replay
from replay import Sample
from replay.data.contents import open_with_contents
from replay.data.read import BlockRequest, read_block
from replay.policies.base import Evaluator, needs_of_policies
from replay.runs.compare.same_questions import SCHEMA, SameQuestions, SampleSums, sample_variation_rows
from tests.errors import refuses
from tests.logs import log
from toolkit.log import Log, collect

POOLS = ("AABB", "AAAB", "ABBB", "ABCA", "CABA", "BBAC", "AAAA", "BAAA")
ONE = Sample(name="one", pool="n", max_traces=1, select="first", expected=True)
THREE = Sample(name="three", pool="n", max_traces=3, select="majority", expected=True)
ORDERS = Sample(name="orders", pool="n", max_traces=3, select="majority", orders=400)
FIRST = Sample(name="first", pool="n", max_traces=1, select="first")
ALL = Sample(name="all", pool="n", max_traces=4, select="majority", expected=True)


def made(folder: Path, pools: Sequence[str] = POOLS) -> Log:
    """Questions with gold A and these answers."""
    ids = [f"e{number:04d}" for number in range(len(pools))]
    return log(folder, {"n": dict(zip(ids, ([(one, None) for one in pool] for pool in pools), strict=True))},
               dict.fromkeys(ids, "A"))  # fmt: skip


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> replay.Result:
    policies = [ONE, THREE, ORDERS, FIRST, ALL]
    return replay.run(made(tmp_path_factory.mktemp("same")), policies, baseline="one", resamples=50)


def vote(answers: str, k: int) -> Fraction:
    """The mean of majority@k over all orders: ties to the earliest."""
    total, orders = 0, list(itertools.permutations(answers, k))
    for order in orders:
        votes = {one: order.count(one) for one in order}
        total += max(order, key=lambda one: (votes[one], -order.index(one))) == "A"
    return Fraction(total, len(orders))


def plain(first: int, second: int = 0) -> float:
    """The jackknife's standard error of majority@first, less majority@second where there is one, by brute force."""
    total = Fraction(0)
    for pool in POOLS:
        left = [pool[:i] + pool[i + 1 :] for i in range(len(pool))]
        moved = [vote(one, first) - (vote(one, second) if second else 0) for one in left]
        mean = sum(moved, Fraction(0)) / len(moved)
        total += Fraction(len(pool) - 1, len(pool)) * sum(((one - mean) ** 2 for one in moved), Fraction(0))
    return float(total) ** 0.5 / len(POOLS)


def test_one_sample_by_hand(result: replay.Result) -> None:
    """A mean of N = 4 traces with p right varies by p(1 − p)/(N − 1): of the pools 1/12, six of 1/16, and 0."""
    rows = result.same_questions("one").frame.row(0, named=True)
    assert rows["estimate"] == pytest.approx(np.mean([pool.count("A") / 4 for pool in POOLS]))
    shares = [pool.count("A") / 4 for pool in POOLS]
    assert rows["error"] == pytest.approx(np.sqrt(sum(p * (1 - p) / 3 for p in shares)) / 8)
    assert rows["varied"] == 7


def test_votes_are_the_jackknife_by_brute_force(result: replay.Result) -> None:
    found = {(row["policy"], row["other"]): row for row in result.same_questions().frame.iter_rows(named=True)}
    assert found["three", None]["error"] == pytest.approx(plain(3), abs=1e-12)
    assert found["one", "three"]["error"] == pytest.approx(plain(1, 3), abs=1e-12)
    assert found["one", "three"]["estimate"] == pytest.approx(
        float(sum((vote(pool, 1) - vote(pool, 3) for pool in POOLS), Fraction(0))) / 8
    )


@pytest.mark.slow
def test_random_orders_come_near_to_all(result: replay.Result) -> None:
    """400 orders: their own luck is taken out of the jackknife, and counts once."""
    rows = result.same_questions("orders", "three", "one").frame
    of = {(row["policy"], row["other"]): row["error"] for row in rows.iter_rows(named=True)}
    assert of["orders", None] == pytest.approx(of["three", None], rel=0.15)
    assert of["one", "orders"] == pytest.approx(of["one", "three"], rel=0.25)


def test_limits_and_dashes(result: replay.Result) -> None:
    same = result.same_questions()
    value = same.variation_of("three", "one")
    assert value.low is not None
    assert value.high is not None
    assert value.high - value.low == pytest.approx(2 * 1.959964 * plain(3, 1), abs=1e-6)
    mirrored = same.variation_of("one", "three")
    assert (mirrored.low, mirrored.high) == pytest.approx((-value.high, -value.low))
    assert value.marked  # of eight questions
    for name in ("first", "all"):
        assert same.variation_of(name).low is None
        assert same.variation_of(name).why
        assert same.variation_of(name, "three").why == same.variation_of(name).why
    assert len({same.variation_of(name).why for name in ("first", "all")}) == 2
    assert "–" in str(same.table("one"))


def test_questions_whose_samples_agree_have_a_dash(tmp_path: Path) -> None:
    result = replay.run(made(tmp_path, ["AAAA", "BBBB", "AAAA"]), [ONE], resamples=50)
    value = result.same_questions().variation_of("one")
    assert (value.estimate, value.low) == (pytest.approx(2 / 3), None)
    assert value.why


def test_compare_says_it_and_a_loaded_result_where_it_was_saved(result: replay.Result, tmp_path: Path) -> None:
    named = result.compare("three", "one", questions="fixed")
    assert named.same is not None
    assert "These questions, other samples" in str(named.table())
    pairs = result.compare(questions="fixed").table()
    assert "these questions" in str(pairs)
    for name in ("first", "all"):  # of each dash the reason
        assert any(result.same_questions().variation_of(name).why in str(line) for line in pairs.below)
    assert "these questions" not in str(result.compare().table())
    result.save(tmp_path / "with", questions=True)
    result.save(tmp_path / "without")
    saved, bare = replay.load(tmp_path / "with"), replay.load(tmp_path / "without")
    assert saved.same_questions().frame.equals(result.same_questions().frame)
    assert str(saved.compare("three", "one", questions="fixed").table()) == str(named.table())
    assert bare.same_questions().frame.schema == SCHEMA
    assert bare.same_questions().variation_of("three", "one").why
    with refuses("unsuitable", "`questions=True`"):
        bare.save(tmp_path / "again", questions=True)
    with refuses("unknown", "either"):
        result.compare(questions="either")
    with refuses("unknown", "nobody"):
        result.same_questions("nobody")
    two = result.compare("three", "one", other=saved, questions="fixed")
    assert two.same is None


def test_limits_of_one_other_run_hold_what_other_runs_give(tmp_path: Path) -> None:
    """24 runs of the same 40 questions, six samples each: what one says of another holds 95 % of the others' values
    and more, as errors are on the wide side where half of the samples are taken; the interval of one sample's mean
    holds some 83 %.
    """
    questions, runs, rng = 40, 24, np.random.default_rng(3)
    right = np.tile(rng.beta(1, 1, questions), runs)
    pools = ["".join(row) for row in np.where(rng.random((len(right), 6)) < right[:, None], "A", "B")]
    saved, contents = open_with_contents(made(tmp_path, pools))
    policies = [one.resolve(contents) for one in (ONE, THREE)]
    rows = collect(saved.scan("examples", ["example_id", "labels", "gold", "cluster"]), saved).sort("example_id")
    request = BlockRequest(needs_of_policies(policies, contents))
    said, values = list[SameQuestions](), list[dict[str, float]]()
    for start in range(0, len(right), questions):
        on = Evaluator(read_block(saved, rows[start : start + questions], request), policies)
        sums = SampleSums.sums_over_blocks([on.block], policies, np.ones(questions))
        said.append(SameQuestions(sample_variation_rows(policies, sums), 0.95, "", True, {}))
        values.append({policy.name: on.outcome(policy).correct.mean() for policy in policies})
    for first, other, most in (("one", None, 0.98), ("three", None, 0.99), ("three", "one", 1.0)):
        gives = np.array([one[first] - (one[other] if other else 0.0) for one in values])
        held = {}
        for another in (False, True):
            limits = [one.variation_of(first, other, another_run=another) for one in said]
            low, high = (np.array([getattr(one, end) for one in limits])[:, None] for end in ("low", "high"))
            inside = (low <= gives) & (gives <= high)
            held[another] = (inside.sum() - np.trace(inside)) / (inside.size - runs)
        assert 0.93 <= held[True] <= most
        assert first != "one" or held[False] < 0.9
