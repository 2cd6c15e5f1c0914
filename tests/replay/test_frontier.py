"""Strategies of a log are its replayed policies, and a front is chosen on one half and reported on the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.recovery import RecoveryModel, simulate_recovery
from replay import Act, Graded, Sample, Threshold, When
from replay.analyses.strategies.frontier import (
    Frontier,
    fit_score_ensemble,
    front_policies,
    frontier,
    random_half_of_examples,
)
from replay.analyses.strategies.strategies import BEST, CONDITIONAL, WEIGHTED, Strategies, Strategy, strategies
from replay.analyses.strategies.strategy_grids import VotesByScore
from tests.errors import quotes, refuses
from tests.logs import log_tables, tables
from toolkit.log import Log, write_log
from toolkit.stats.curves import roc

ORDERS, N = 7, (1, 2, 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """150 questions with a probe and eight samples; `v` knows something of them, `w` nothing. Some have no answer."""
    rng = np.random.default_rng(2)
    pools: dict[str, dict[str, list[tuple[str | None, float | None]]]] = {"probe": {}, "votes": {}}
    golds: dict[str, str | None] = {}
    for number in range(150):
        name, skill = f"e{number:03}", rng.beta(2, 1)
        golds[name] = "A"
        for pool, size in (("probe", 1), ("votes", 8)):
            answers = [None if rng.random() < 0.05 else "ABCD"[rng.choice(4, p=_odds(skill))] for _ in range(size)]
            scores = [None if a is None else float(np.round(rng.normal(a == "A", 0.7), 1)) for a in answers]
            pools[pool][name] = list(zip(answers, scores, strict=True))
    frames = tables(pools, golds)
    noise = frames["verifications"].with_columns(
        verifier=pl.lit("w"), score=pl.Series(rng.random(len(frames["verifications"])))
    )
    frames["verifications"] = pl.concat([frames["verifications"], noise])
    return write_log(tmp_path_factory.mktemp("front") / "log", name="small", tables=frames)


def _odds(skill: float) -> list[float]:
    return [skill, *[(1 - skill) / 3] * 3]


@pytest.fixture(scope="module")
def found(made: Log) -> Strategies:
    return strategies(made, n=N, orders=ORDERS, seed=3)


def test_strategies_are_the_policies_of_a_replay(made: Log, found: Strategies) -> None:
    first = Sample(name="probe", pool="probe", max_traces=1, select="first")
    policies = [first]
    for n in N:
        vote = Sample(name=f"majority {n}", pool="votes", max_traces=n, expected=True, select="majority")
        sums = Sample(
            name=f"weighted {n}", pool="votes", max_traces=n, orders=ORDERS, seed=3, select="weighted", verifier="w"
        )
        gate = Threshold(verifier="v", below=0.6)
        policies += [vote, sums, When(name=f"conditional {n}", base=first, gate=gate, then=vote)]
    summary = replay.run(made, policies, resamples=20).summary
    value = {(p, m): e for p, m, e in summary.select("policy", "metric", "estimate").iter_rows()}
    of = found.conditional("v")
    assert value["probe", "accuracy"] == pytest.approx(of.probe.mean())
    for column, n in enumerate(N):
        assert value[f"majority {n}", "accuracy"] == pytest.approx(found.plain[Strategy("majority")][:, column].mean())
        by_sum = found.plain[Strategy("weighted majority", "w")][:, column]
        if n > 3:  # of up to three over all orders
            assert value[f"weighted {n}", "accuracy"] == pytest.approx(by_sum.mean())
        right, paid = of.correctness_and_samples(0.6, column)
        assert value[f"conditional {n}", "accuracy"] == pytest.approx(right.mean())
        assert value[f"conditional {n}", "traces"] == pytest.approx(paid.mean())


def test_weighted_votes_of_two_are_the_best_of_two_over_all_orders(found: Strategies) -> None:
    """By positive scores the heavier of two answers is that of the higher score: no order is drawn."""
    names = {one.verifier for one in found.plain if one.name == WEIGHTED}
    assert names
    for name in names:
        weighted, best = (found.plain[Strategy(what, name)] for what in (WEIGHTED, BEST))
        few = found.n <= 2
        np.testing.assert_allclose(weighted[:, few], best[:, few], atol=1e-12)


@pytest.mark.slow
def test_plain_voting_is_known_at_every_number_of_samples(made: Log, found: Strategies) -> None:
    """Between two powers of two it is worth more than a mixture of them: what costs 3 samples is compared with 3."""
    every = strategies(made, n=(1, 2, 3, 4), orders=ORDERS, seed=3)
    assert np.array_equal(found.vote_correctness(3.0), every.plain[Strategy("majority")][:, 2])
    assert np.array_equal(found.vote_correctness(1.0), found.plain[Strategy("majority")][:, 0])
    half = (every.plain[Strategy("majority")][:, 2] + every.plain[Strategy("majority")][:, 3]) / 2
    assert np.allclose(found.vote_correctness(3.5), half)
    points = frontier(made, n=N, orders=ORDERS, seed=3, resamples=20).front
    chosen = random_half_of_examples(found.examples, 3)
    for row in points.iter_rows(named=True):
        assert row["plain"] == pytest.approx(found.for_examples(~chosen).vote_correctness(row["samples"]).mean())


def test_the_first_samples_alone_are_those_of_a_log_without_the_others(made: Log, tmp_path: Path) -> None:
    frames = log_tables(made)
    frames["traces"] = frames["traces"].filter((pl.col("pool") == "probe") | (pl.col("sample_index") < 4))
    kept = frames["traces"]["trace_id"].implode()
    frames["verifications"] = frames["verifications"].filter(pl.col("trace_id").is_in(kept))
    fewer = strategies(write_log(tmp_path / "log", name="few", tables=frames), orders=ORDERS)
    first = strategies(made, samples=4, orders=ORDERS)
    assert set(first.plain) == set(fewer.plain)
    for one, values in fewer.plain.items():
        assert np.array_equal(first.plain[one], values), one


def test_every_threshold_is_that_of_a_sweep_over_all(made: Log, found: Strategies) -> None:
    first = Sample(name="probe", pool="probe", max_traces=1, select="first")
    vote = Sample(name="vote", pool="votes", max_traces=4, expected=True, select="majority")
    policy = When(name="all", base=first, gate=Threshold(verifier="v", below="all"), then=vote)
    curve = replay.run(made, [policy], resamples=20).thresholds
    assert curve is not None
    of = found.conditional("v")
    assert curve["threshold"].to_list() == of.thresholds().tolist()
    for threshold, accuracy, rate in curve.select("threshold", "accuracy", "intervention_rate").iter_rows():
        right, paid = of.correctness_and_samples(threshold, 2)
        assert accuracy == pytest.approx(right.mean())
        assert rate == pytest.approx((paid > 1).mean())


def test_votes_by_score_are_a_graded_policy(made: Log, found: Strategies) -> None:
    first = Sample(name="probe", pool="probe", max_traces=1, select="first")
    vote = Sample(name="vote", pool="votes", max_traces=4, expected=True, select="majority")
    graded = Graded(name="graded", base=first, then=vote, verifier="v", thresholds=(0.2, 0.5, 0.9), votes=(4, 2, 1))
    result = replay.run(made, [graded, first], resamples=20)
    value = {m: e for p, m, e in result.summary.select("policy", "metric", "estimate").iter_rows() if p == "graded"}
    right, paid = VotesByScore(graded.thresholds, graded.votes).correctness_and_samples(found.conditional("v"))
    assert value["accuracy"] == pytest.approx(right.mean())
    assert value["traces"] == pytest.approx(paid.mean())
    assert value["verifications"] == pytest.approx((~np.isnan(found.conditional("v").score)).mean())
    assert value["intervention_rate"] == pytest.approx((paid > 1).mean())
    assert found.probe is not None
    assert value["fix_rate"] - value["flip_rate"] == pytest.approx((right - found.probe).mean())


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"votes": (4,)}, ("unsuitable", "`votes`", "`thresholds`", "1", "2")),
        ({"thresholds": (0.5, 0.2)}, ("unsuitable", "`thresholds`", "`graded`")),
        ({"votes": (4, 4)}, ("unsuitable", "`votes`", "`graded`")),
        ({"votes": (3, 1)}, ("unsuitable", "`then`", "`max_traces = 3`")),
        ({"then": Act(name="act", action="self_correct", base="probe")}, ("unsuitable", "`then`", "`max_traces = 4`")),
    ],
)
def test_a_graded_policy_is_monotone(keys: dict[str, object], refusal: tuple[str, ...]) -> None:
    first = Sample(name="probe", pool="probe", max_traces=1, select="first")
    vote = Sample(name="vote", pool="votes", max_traces=4, select="majority")
    right = {"base": first, "then": vote, "verifier": "v", "thresholds": (0.2, 0.5), "votes": (4, 1)}
    with refuses(*refusal):
        Graded(name="graded", **right | keys)  # type: ignore[arg-type]


def test_conditional_self_correction_is_its_policy(tmp_path: Path) -> None:
    log = simulate_recovery(tmp_path / "log", examples=60, seed=0, model=RecoveryModel(votes=4))
    first = Sample(name="first", pool="short", max_traces=1, select="first")
    act = Act(name="act", action="self_correct", base="short")
    gate = Threshold(feature="constraint_density", below=0.4)
    policies = [act, When(name="when", base=first, gate=gate, then=act)]
    summary = replay.run(log, policies, resamples=20).summary
    value = {(p, m): e for p, m, e in summary.select("policy", "metric", "estimate").iter_rows()}
    found = strategies(log, probe="short", pool="votes", orders=2)
    bases = log.scan("traces", ["trace_id", "example_id", "pool", "action"]).filter(pool="short", action="solve")
    density = bases.join(log.scan("features", ["trace_id", "constraint_density"]), on="trace_id").collect()
    score = found.examples.join(density, on="example_id", how="left", maintain_order="left")["constraint_density"]
    right, paid = found.self_correction_strategy(score.to_numpy()).correctness_and_samples(0.4, 0)
    assert found.corrected is not None
    assert value["act", "accuracy"] == pytest.approx(found.corrected.mean())
    assert value["when", "accuracy"] == pytest.approx(right.mean())
    assert value["when", "traces"] == pytest.approx(paid.mean())
    assert 1 < paid.mean() < 2


@pytest.fixture(scope="module")
def drawn(made: Log) -> Frontier:
    return frontier(made, orders=10, resamples=200, seed=1)


def test_a_front_is_chosen_on_one_half_and_reported_on_the_other(made: Log, drawn: Frontier) -> None:
    assert (drawn.n_chosen_on, drawn.n_reported_on) == (75, 75)
    assert set(drawn.front["examples"]) == {75}
    whole = strategies(made, orders=10, seed=1)
    chosen = random_half_of_examples(whole.examples, 1)
    early, late = whole.for_examples(chosen), whole.for_examples(~chosen)
    rows = drawn.front.filter(strategy=CONDITIONAL, verifier="v").to_dicts()
    assert rows
    for row in rows:
        rungs = VotesByScore(tuple(row["below"]), tuple(row["votes"]))
        for part, names in ((early, ("chosen_accuracy", "chosen_samples")), (late, ("accuracy", "samples"))):
            right, paid = rungs.correctness_and_samples(part.conditional("v"))
            assert [row[name] for name in names] == pytest.approx([right.mean(), paid.mean()])
        assert row["difference"] == pytest.approx(row["accuracy"] - row["plain"])
        assert row["difference_low"] <= row["difference"] <= row["difference_high"]


def test_a_front_is_written_as_policies(made: Log, drawn: Frontier) -> None:
    whole = strategies(made, orders=10, seed=1)
    reported = whole.examples.filter(~pl.Series(random_half_of_examples(whole.examples, 1)))["example_id"]
    where = f"example_id in ({', '.join(repr(name) for name in reported)})"
    summary = replay.run(made, front_policies(drawn), where=where, resamples=20).summary
    value = {(p, m): e for p, m, e in summary.select("policy", "metric", "estimate").iter_rows()}
    for row in drawn.front.filter(pl.col("verifier").ne_missing("ensemble") & ~pl.col("sees_gold")).to_dicts():
        numbers = row["n"] or ", ".join(f"{n} below {s!r}" for s, n in zip(row["below"], row["votes"], strict=True))
        name = ", ".join(part for part in (row["strategy"], row["verifier"], str(numbers)) if part)
        assert value[name, "accuracy"] == pytest.approx(row["accuracy"], abs=1e-9), name
        assert value[name, "traces"] == pytest.approx(row["samples"])


def test_no_strategy_beats_the_front_where_it_was_chosen(drawn: Frontier) -> None:
    points = drawn.front.filter(pl.col("strategy") != "oracle")
    cost, worth = points["chosen_samples"].to_numpy(), points["chosen_accuracy"].to_numpy()
    for row in points.to_dicts():
        better = (cost <= row["chosen_samples"] + 1e-9) & (worth > row["chosen_accuracy"] + 1e-9)
        assert row["on_front"] <= (not better.any())
    assert not drawn.front.filter(strategy="oracle")["on_front"].any()


def test_a_coin_does_as_well_as_a_score_that_knows_nothing(drawn: Frontier) -> None:
    knows, does_not = (drawn.front.filter(strategy=CONDITIONAL, verifier=name) for name in "vw")
    assert knows["coin_difference"].mean() > 0.02
    assert abs(does_not["coin_difference"].mean()) < 0.04  # type: ignore[arg-type,operator]


def test_an_ensemble_learns_on_its_half_alone() -> None:
    rng = np.random.default_rng(0)
    right = (rng.random(400) < 0.5).astype(float)
    scores = {"a": right + rng.normal(0, 1, 400), "b": right + rng.normal(0, 1, 400)}
    fit_on = np.arange(400) < 200
    both = fit_score_ensemble(scores, right, fit_on)
    flipped = fit_score_ensemble(scores, np.where(fit_on, right, 1 - right), fit_on)
    np.testing.assert_array_equal(both, flipped)
    areas = [roc.auc(values[200:], right[200:]) for values in (*scores.values(), both)]
    assert areas[2] > max(areas[:2])
    scores["a"][3] = np.nan
    assert np.flatnonzero(np.isnan(fit_score_ensemble(scores, right, fit_on))).tolist() == [3]
    assert np.isfinite(fit_score_ensemble(scores, np.ones(400), fit_on)[4:]).all()


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"pool": "vote"}, ("unknown", "`votes`")),
        ({"probe": "votes"}, ("conflict", "`votes`")),
        ({"verifiers": ["x"]}, ("unknown", "`x`")),
        ({"n": [9]}, ("limit", "8")),
        ({"n": [0]}, ("invalid", "1")),
        ({"on": "true"}, ("empty", "`on`")),
        ({"action": "self_correct"}, ("unknown", "`self_correct`")),
    ],
)
def test_what_cannot_be_is_said(made: Log, asked: dict[str, object], refusal: tuple[str, ...]) -> None:
    with refuses(*refusal):
        frontier(made, resamples=20, **asked)  # type: ignore[arg-type]


def test_a_log_without_a_probe_has_the_plain_strategies(made: Log, tmp_path: Path) -> None:
    alone = {"votes": {"e1": [("A", 0.5)] * 4, "e2": [("B", 0.5)] * 4, "e3": [("A", 0.1)] * 4}}
    log = write_log(tmp_path / "log", name="s", tables=tables(alone, {"e1": "A", "e2": "B", "e3": "A"}))
    found = frontier(log, resamples=20)
    quotes(found.left_out["conditional strategies"], "first attempts")
    assert found.front["below"].null_count() == len(found.front)
