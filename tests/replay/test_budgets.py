"""Fixed verifier budgets against policies replayed one at a time, and against hand-made pools."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import polars as pl
import pytest

import replay
from generate.simulation.claims import simulate_claims
from replay.analyses.budgets.budgets import BEST, ORDERS, Budgets, budgets
from tests.errors import quotes, refuses
from tests.logs import drawn
from toolkit.log import Log, collect, open_log, write_log

FEATURES = ("claim_similarity", "length")


log = drawn(simulate_claims, "claimdecomp", traces=6, opened=True)


@pytest.fixture(scope="module")
def found(log: Log) -> Budgets:
    return budgets(log, verifier="lora", max_traces=6, features=FEATURES, random_seed=20, resamples=200)


def test_every_budget_is_the_policy_replayed_alone(found: Budgets, log: Log) -> None:
    for name, keys in ORDERS.items():
        for k in (1, 4):
            own = {"features": FEATURES} if name == "surrogate" else {}
            alone = replay.Sample(
                name="alone", max_traces=6, verifier="lora", seed=20, stop=replay.Budget(verifications=k),
                **{**own, **keys},  # type: ignore[arg-type]
            )  # fmt: skip
            summary = replay.run(log, alone, resamples=200).summary
            for metric in ("macro_f1", "accuracy"):
                one = summary.filter(pl.col("metric") == metric)
                same = found.by_k.filter((pl.col("order") == name) & (pl.col("k") == k) & (pl.col("metric") == metric))
                assert same["estimate"][0] == pytest.approx(one["estimate"][0], abs=1e-12)
                assert same["low"][0] == pytest.approx(one["low"][0], abs=1e-9)


def test_what_an_order_sees_does_not_depend_on_what_it_is_called(log: Log) -> None:
    orders = {"falling": {"order": "score"}, "score": {"order": "surrogate", "mode": "pool"}}
    found = budgets(log, verifier="lora", max_traces=2, features=FEATURES, orders=orders, budget=[1], resamples=20)
    assert set(found.by_k.select("order", "diagnostic").iter_rows()) == {("falling", True), ("score", False)}
    assert [list(policy.settings["features"]) for policy in found.result.policies[:2]] == [[], list(FEATURES)]


def test_pairs_are_differences_with_intervals(found: Budgets) -> None:
    value = {(r["order"], r["k"], r["metric"]): r["estimate"] for r in found.by_k.iter_rows(named=True)}
    assert found.pairs.height == 2 * 6 * len(list(combinations([*ORDERS, BEST], 2)))
    best = dict(found.result.summary.filter(policy=BEST).select("metric", "estimate").iter_rows())
    for r in found.pairs.iter_rows(named=True):
        other = best[r["metric"]] if r["against"] == BEST else value[r["against"], r["k"], r["metric"]]
        assert r["difference"] == pytest.approx(value[r["order"], r["k"], r["metric"]] - other, abs=1e-12)
        if r["low"] is not None:  # of F1s that fewer than 30 examples tell apart there are none
            assert r["low"] <= r["difference"] <= r["high"]
            assert 0 < r["p_value"] <= 1
    known = found.pairs.filter(metric="accuracy").drop_nulls("low")
    assert known.height > 40


def test_limits_of_pairs_hold_for_all_pairs_and_budgets_at_once(log: Log) -> None:
    """Those of a single pair at a single budget are narrower: it is one of 36 and 216."""
    asked = {"verifier": "lora", "max_traces": 6, "features": FEATURES, "resamples": 400}
    orders = {name: ORDERS[name] for name in ("generation", "random")}
    every = budgets(log, **asked).pairs
    one = budgets(log, **asked, orders=orders, budget=[2]).pairs
    at = {"metric": "accuracy", "order": "generation", "against": "random", "k": 2}
    wide, narrow = (frame.filter(**at).row(0, named=True) for frame in (every, one))
    assert wide["difference"] == pytest.approx(narrow["difference"])
    assert wide["high"] - wide["low"] > 1.2 * (narrow["high"] - narrow["low"])
    assert wide["p_value"] >= narrow["p_value"]


def test_at_the_whole_pool_all_orders_are_best_of_n(log: Log) -> None:
    found = budgets(log, verifier="lora", max_traces=6, features=FEATURES, budget=[6], resamples=20)
    f1 = found.by_k.filter(pl.col("metric") == "macro_f1")["estimate"]
    assert f1.max() == pytest.approx(f1.min(), abs=1e-12)
    assert found.smallest["k"].to_list() == [6] * len(found.smallest)


def test_the_smallest_budget_is_the_first_within_half_a_point(found: Budgets) -> None:
    for r in found.smallest.iter_rows(named=True):
        line = found.by_k.filter((pl.col("order") == r["order"]) & (pl.col("metric") == r["metric"])).sort("k")
        near = [k for k, e in line.select("k", "estimate").iter_rows() if e >= r["best_of_n"] - 0.005 - 1e-12]
        assert r["k"] == near[0]


def test_bad_budgets_are_refused(log: Log) -> None:
    with refuses("invalid", "1"):
        budgets(log, verifier="lora", max_traces=6, budget=[0, 7])
    with refuses("unknown", "`generation, k = 1`", "`lore`"):
        budgets(log, verifier="lore", max_traces=6)


def test_budgets_that_the_log_cannot_serve_are_null(log: Log, tmp_path: Path) -> None:
    """More traces than there are: nothing. The first trace of each claim verified: generation order's k = 1 alone."""
    none = budgets(log, verifier="lora", max_traces=7, features=FEATURES, resamples=10)
    assert set(none.missing) == {*ORDERS, BEST}
    assert all("fewer than 7" in why for why in none.missing.values())
    for frame, column in ((none.by_k, "estimate"), (none.pairs, "difference"), (none.smallest, "k")):
        assert len(frame) > 0
        assert frame[column].null_count() == len(frame)
    frames = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications", "features")}
    valid = frames["traces"].filter(pl.col("answer").is_not_null()).sort("sample_index")
    first = valid.unique("example_id", keep="first")["trace_id"]
    frames["verifications"] = frames["verifications"].filter(pl.col("trace_id").is_in(first.implode()))
    write_log(tmp_path / "first", name="first", tables=frames)
    found = budgets(open_log(tmp_path / "first"), verifier="lora", max_traces=6, features=FEATURES, resamples=20)
    known = found.by_k.filter(pl.col("estimate").is_not_null())
    assert ("generation", 1) in known.select("order", "k").rows()
    assert ("generation", 2) not in known.select("order", "k").rows()
    quotes(found.missing["generation"], "5 of 6 ", "k = 2: ")
    assert found.smallest["best_of_n"].null_count() == len(found.smallest)
    assert found.pairs["difference"].null_count() >= len(found.pairs) - 2
    # nine tenths are of all 200 claims, though no policy of the comparison can serve most of them
    assert "of the 200 examples" in found.missing[BEST]


@pytest.mark.slow
def test_f1s_that_few_examples_tell_apart_have_limits_of_one_pair_at_the_level_of_all(log: Log) -> None:
    found = budgets(log, verifier="lora", max_traces=6, features=FEATURES, resamples=400)
    known = found.pairs.filter(metric="macro_f1").drop_nulls("difference")
    assert known["low"].null_count() == 0
    plain = {
        (first, second): high - low
        for first, second, low, high in found.result.summariser.group_differences(
            "macro_f1", [["generation, k = 2", "random, k = 2"]]
        ).select("policy", "baseline", "low", "high").iter_rows()
    }  # fmt: skip
    row = known.filter(order="generation", against="random", k=2).row(0, named=True)
    assert row["high"] - row["low"] > plain["generation, k = 2", "random, k = 2"]
