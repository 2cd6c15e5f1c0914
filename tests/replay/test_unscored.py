"""`on_unscored`: what becomes of a valid trace without a score, worked by hand, and what always holds."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import replay
from replay import Budget, Margin, Sample, When
from replay.policies.gates import Threshold
from replay.runs.explain.explain import explain
from tests.errors import noted, quotes, refuses
from tests.logs import FIRST, log, tables
from tests.reference.compare import Keyed, assert_same, keyed
from tests.reference.random_logs import RandomLog, random_log
from tests.reference.random_policies import random_policies, to_toml
from tests.reference.rules import Row
from tests.seeds import seeds
from toolkit.errors import ThinkbackError
from toolkit.log import Log, write_log

POOL = {
    "e1": [("B", 0.3), ("A", None), ("A", 0.25), ("B", 0.2)],
    "e2": [("A", 0.1), ("A", 0.5), ("B", 0.4), ("B", 0.5)],
}
"""The verifier's lowest score in pool `n4` is .1, in example e2; that in pool `n1` is .01."""
GOLDS: dict[str, str | None] = {"e1": "A", "e2": "A"}
WAYS = ("skip", "lowest")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Log:
    pools = {"n4": POOL, "n1": {"e1": [("A", 0.01)], "e2": [("A", 0.01)]}}
    return log(tmp_path_factory.mktemp("small"), pools, GOLDS)


def sample(on_unscored: str, **settings: Any) -> Sample:
    return Sample(**{"name": "p", "pool": "n4", "max_traces": 3, "verifier": "v"} | settings, on_unscored=on_unscored)


def outcome(of: Log, policy: Sample, example_id: str = "e1") -> dict[str, Any]:
    rows = replay.run(of, policy, resamples=5).outcomes.collect()
    return rows.filter(pl.col("example_id") == example_id).row(0, named=True)


def test_by_default_the_example_is_left_out(small: Log) -> None:
    result = replay.run(small, sample("partial"), resamples=5)
    assert list(result.excluded) == ["e1"]
    quotes(result.excluded["e1"], "p: ", "verifier `v`")
    assert not [note for note in result.notes if note.code == "unscored"]


@pytest.mark.parametrize(
    ("on_unscored", "settings", "expected"),
    [
        # The first three: B .3, A unscored, A .25. A trace costs 10 + 5 tokens, a verification 3 + 1.
        ("skip", {}, ("B", 3, 2, 3 * 15 + 2 * 4)),
        ("lowest", {}, ("B", 3, 3, 3 * 15 + 2 * 4)),  # the third verification has no logged cost: free
        ("skip", {"select": "weighted"}, ("B", 3, 2, 53)),  # B .3, A .25
        ("lowest", {"select": "weighted"}, ("A", 3, 3, 53)),  # B .3, A .1 + .25 = .35
        # The vote of a trace that is skipped stays: A has two of three. The stop comes with the second score, at a lead
        # of .3 - .25 = .05.
        ("skip", {"select": "majority", "stop": Margin(0.05, min_valid=2)}, ("A", 3, 2, 53)),
        # .3 - .1 = .2 after two traces: the made-up score counts for `min_valid` and for the lead. B is the earliest.
        ("lowest", {"select": "majority", "stop": Margin(0.05, min_valid=2)}, ("B", 2, 2, 2 * 15 + 4)),
        ("skip", {"stop": Budget(verifications=2)}, ("B", 3, 2, 53)),
        ("lowest", {"stop": Budget(verifications=2)}, ("B", 2, 2, 34)),
        # All four: the score order has three verifications or four, of which .1 is the last.
        ("skip", {"max_traces": 4, "order": "score"}, ("B", 4, 3, 4 * 15 + 3 * 4)),
        ("lowest", {"max_traces": 4, "order": "score"}, ("B", 4, 4, 4 * 15 + 3 * 4)),
        ("skip", {"max_traces": 4, "order": "random"}, ("B", 4, 3, 72)),
        # A lazy surrogate waits for two traces that it can verify: three generated, or two. Its weights are 0 at
        # first, so of equal predictions the earliest trace is verified.
        ("skip", {"order": "surrogate", "bootstrap": 2, "stop": Budget(verifications=1)}, ("B", 3, 1, 3 * 15 + 4)),
        ("lowest", {"order": "surrogate", "bootstrap": 2, "stop": Budget(verifications=1)}, ("B", 2, 1, 34)),
    ],
)
def test_what_becomes_of_it(
    small: Log, on_unscored: str, settings: dict[str, Any], expected: tuple[str, int, int, int]
) -> None:
    row = outcome(small, sample(on_unscored, **settings))
    assert (row["answer"], row["traces"], row["verifications"], row["total_tokens"]) == expected


def test_the_mean_over_all_orders_is_over_what_is_verified(small: Log) -> None:
    """One of B .3, A .25, B .2 is right in 1 of 3; with A at .1 too, in 2 of 4, and 3 of 4 verifications are paid."""
    one = {"max_traces": 4, "order": "random", "expected": True, "stop": Budget(verifications=1)}
    row = outcome(small, sample("skip", **one))
    assert (row["correct"], row["verifications"], row["total_tokens"]) == pytest.approx((1 / 3, 1, 4 * 15 + 4))
    row = outcome(small, sample("lowest", **one))
    assert (row["correct"], row["verifications"], row["total_tokens"]) == pytest.approx((2 / 4, 1, 4 * 15 + 3 / 4 * 4))


def test_where_every_trace_is_skipped_there_is_no_answer_by_score(tmp_path: Path) -> None:
    made = log(tmp_path, {"n2": {"e1": [("A", None), ("A", None)], "e2": [("A", 0.5), ("A", 0.5)]}}, GOLDS)
    row = outcome(made, sample("skip", pool="n2", max_traces=2))
    assert (row["answer"], row["correct"], row["valid_traces"], row["verifications"]) == (None, 0.0, 2, 0)
    row = outcome(made, sample("lowest", pool="n2", max_traces=2))
    assert (row["answer"], row["correct"], row["verifications"]) == ("A", 1.0, 2)


def test_the_lowest_is_of_the_pool_in_the_whole_log(small: Log, tmp_path: Path) -> None:
    """.1 of e2, which is not replayed; neither the .01 of another pool nor the .2 of e1."""
    result = replay.run(small, sample("lowest"), where="example_id = 'e1'", resamples=5)
    noted(result.notes, "unscored", "`v`", "1 valid trace", "`n4`", "`p`", "(0.1)")
    other = log(tmp_path, {"n4": {"e1": [("A", 0.5)]}, "bare": {"e1": [("A", None)]}}, {"e1": "A"})
    with refuses("unsuitable", "`v`", "`bare`"):
        replay.run(other, sample("lowest", pool="bare", max_traces=1), resamples=5)


def test_such_traces_are_counted_in_a_note_and_in_what_is_free(small: Log) -> None:
    policies = [dataclasses.replace(sample(way), name=way) for way in WAYS]
    result = replay.run(small, [*policies, sample("skip", name="all", max_traces=4)], resamples=5)
    told = [str(note).partition(" that ")[2].partition(" may ")[0] for note in result.notes if note.code == "unscored"]
    assert told == ["`lowest`", "`all`, `skip`"]
    assert result.provenance["verifications_free"] == {"v": ["device_s", "latency_s", "verification_tokens"]}
    alone = replay.run(small, policies[:1], resamples=5)
    assert alone.provenance["verifications_free"] == {}


def test_a_policy_that_does_not_verify_reads_no_scores(small: Log) -> None:
    result = replay.run(small, sample("lowest", select="majority"), resamples=5)
    assert result.outcomes.collect()["verifications"].to_list() == [0.0, 0.0]
    assert not [note for note in result.notes if note.code == "unscored"]


def test_explained(small: Log) -> None:
    for way, verified, marks in (
        ("skip", [1, 1, 2], [None, "skipped", None]),
        ("lowest", [1, 2, 3], [None, "lowest score", None]),
    ):
        steps = explain(small, sample(way), "p", "e1").steps
        assert steps["unscored"].to_list() == marks
        assert steps["score"].to_list() == [0.3, None if way == "skip" else 0.1, 0.25]
        assert steps["verifications"].to_list() == verified
    assert "unscored" not in explain(small, sample("partial"), "p", "e2").steps.columns


def test_inside_a_gate_as_well(small: Log) -> None:
    """Of the weighted vote's two ways: B by .3 to .25, and A by .35 to .3; its lead is .3 - .25 either way."""
    for way, answer in (("skip", "B"), ("lowest", "A")):
        gate = Threshold(signal="margin", below=0.04)
        when = When(
            name="w", base=sample(way, select="weighted"), gate=gate, then=dataclasses.replace(FIRST, pool="n1")
        )
        assert outcome(small, when)["answer"] == answer


def test_what_the_examples_left_out_do_to_the_baseline_is_said(tmp_path: Path) -> None:
    """Twenty examples: e00 is wrong at first and lacks a score. 19 of 20 are right, and 19 of 19."""
    pool = {f"e{i:02}": [("B" if i == 0 else "A", None if i == 0 else 0.5), ("A", 0.5)] for i in range(20)}
    made = log(tmp_path, {"n2": pool}, dict.fromkeys(pool, "A"))
    best = sample("partial", name="best", pool="n2", max_traces=2)
    result = replay.run(made, [FIRST, best], baseline="first", resamples=5)
    noted(result.notes, "baseline_set", "20 examples", "`first`", " 19", "(`best`: 1)", "95.0%", "100.0%")
    skipping = dataclasses.replace(best, on_unscored="skip")
    result = replay.run(made, [FIRST, skipping], baseline="first", resamples=5)
    assert result.excluded == {}
    assert not [note for note in result.notes if note.code == "baseline_set"]


def test_an_unknown_way_is_refused() -> None:
    with refuses("unknown", "`on_unscored`"):
        sample("highest")


# --------------------------------------------------------------------------------------- what always holds


def policies_of(seed: int, made: RandomLog, **changed: Any) -> list[Row]:
    """Policies that verify by `lora`, which scores traces alone."""
    drawn = (p for p in random_policies(random.Random(f"unscored {seed}"), made, 24) if p["kind"] == "sample")
    kept = [p for p in drawn if p.get("verifier") == "lora" and "calibration" not in p and "prior" not in p]
    return [{**{k: v for k, v in p.items() if k not in ("against", "on_unscored")}, **changed} for p in kept]


def served(address: Path, policies: list[Row]) -> Keyed:
    """Outcomes of each policy alone; none of one that the log cannot serve."""
    found: Keyed = {}
    for policy in policies:
        try:
            found |= keyed(replay.run(address, to_toml([policy]), resamples=5).outcomes.collect())
        except ThinkbackError:
            continue
    return found


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_where_no_score_is_missing_nothing_changes(seed: int, tmp_path: Path) -> None:
    made = random_log(seed, examples=6, tidy=True)
    made.write(tmp_path / "log")
    plain = served(tmp_path / "log", policies_of(seed, made))
    assert len(plain) > 20
    for way in WAYS:
        assert_same(plain, served(tmp_path / "log", policies_of(seed, made, on_unscored=way)), way)


def with_holes(seed: int) -> RandomLog:
    """A log that lacks nothing but a third of one verifier's scores."""
    made = random_log(seed, examples=6, tidy=True)
    rows = made.tables["verifications"]
    keep = pl.Series(np.random.default_rng(seed).random(rows.height) > 0.3)
    left = rows.filter((pl.col("verifier") != "lora") | keep)
    return dataclasses.replace(made, tables={**made.tables, "verifications": left})


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_lowest_is_what_a_log_with_these_scores_for_free_would_give(seed: int, tmp_path: Path) -> None:
    made = with_holes(seed)
    traces, scores = made.tables["traces"], made.tables["verifications"]
    mine = scores.filter(pl.col("verifier") == "lora")
    solves = traces.filter(pl.col("action") == "solve")
    lowest = solves.join(mine, on="trace_id").group_by("pool").agg(score=pl.col("score").min())
    lacking = (
        solves.filter(pl.col("answer").is_not_null()).join(mine, on="trace_id", how="anti").join(lowest, on="pool")
    )
    filled = lacking.select("trace_id", "example_id", "score", verifier=pl.lit("lora"))
    assert filled.height > 3
    full = pl.concat([scores, filled.with_columns(prompt_tokens=0, completion_tokens=0)], how="diagonal_relaxed")
    made.write(tmp_path / "holes")
    tables_ = {**made.tables, "verifications": full.cast(dict(scores.schema))}
    made.write(tmp_path / "full", tables_)
    found = served(tmp_path / "holes", policies_of(seed, made, on_unscored="lowest"))
    expected = served(tmp_path / "full", policies_of(seed, made))
    assert len(found) > 20
    assert_same(expected, found, made.name)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_skipped_traces_are_as_good_as_invalid_ones_to_rules_without_votes(seed: int, tmp_path: Path) -> None:
    """So `best` answers the same where their answers are null, but for the count of valid traces."""
    made = with_holes(seed)
    traces, scores = made.tables["traces"], made.tables["verifications"]
    known = scores.filter(pl.col("verifier") == "lora")["trace_id"].implode()
    null = ~pl.col("trace_id").is_in(known) & (pl.col("action") == "solve")
    judged = pl.when(null & pl.col("correct").is_not_null()).then(False).otherwise(pl.col("correct"))
    unread = traces.with_columns(answer=pl.when(~null).then("answer"), correct=judged)
    if "opaque" in traces.columns:
        unread = unread.with_columns(opaque=pl.when(~null).then("opaque"))
    made.write(tmp_path / "holes")
    made.write(tmp_path / "unread", {**made.tables, "traces": unread})
    plain = [p for p in policies_of(seed, made) if p.get("select", "best") == "best" and p.get("order") != "surrogate"]
    rules = ("margin", "budget", None)
    plain = [p for p in plain if (p.get("stop") or {}).get("rule") in rules and "conformal" not in p]
    found = served(tmp_path / "holes", [{**p, "on_unscored": "skip"} for p in plain])
    expected = served(tmp_path / "unread", plain)
    shared = found.keys() & expected.keys()
    assert len(shared) > 8
    same = {key: {**found[key], "valid_traces": expected[key]["valid_traces"]} for key in shared}
    assert_same({key: expected[key] for key in shared}, same, made.name)


def test_a_ranking_in_one_call_is_not_made_up(tmp_path: Path) -> None:
    """A listwise verifier that did not see a trace: the example stays partial, whatever `on_unscored` says."""
    made = tables({"n4": POOL}, GOLDS)
    made["verifications"] = made["verifications"].with_columns(
        candidates=pl.when(pl.col("example_id") == "e1").then(3).otherwise(4).cast(pl.Int32),
        **{name: pl.lit(0, pl.Int32) for name in ("prompt_tokens", "completion_tokens")},
        latency_s=pl.lit(0.0), device_s=pl.lit(0.0),
    )  # fmt: skip
    address = write_log(tmp_path / "log", name="listwise", tables=made)
    for way in WAYS:
        result = replay.run(address, sample(way, max_traces=4), resamples=5)
        assert list(result.excluded) == ["e1"]
        quotes(result.excluded["e1"], "p: listwise verifier `v`")


def test_a_call_that_failed_is_paid_as_it_is_logged_where_it_counts(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    failed = {"trace_id": "e1/n4/1", "example_id": "e1", "verifier": "v", "score": None, "completion_tokens": 100}
    scores = pl.concat([made["verifications"], pl.DataFrame([failed])], how="diagonal_relaxed")
    paid = write_log(tmp_path / "log", name="paid", tables={**made, "verifications": scores})
    for way, answer, verifications, tokens in (("skip", "B", 2, 53), ("lowest", "B", 3, 153)):
        row = outcome(paid, sample(way))
        assert (row["answer"], row["verifications"], row["total_tokens"]) == (answer, verifications, tokens)
    assert replay.run(paid, sample("partial"), resamples=5).excluded.keys() == {"e1"}


def test_a_row_without_a_score_and_without_costs_is_no_call(tmp_path: Path) -> None:
    made = tables({"n4": POOL}, GOLDS)
    nothing = pl.DataFrame({"trace_id": ["e1/n4/1"], "example_id": ["e1"], "verifier": ["v"], "score": [None]})
    scores = pl.concat([made["verifications"], nothing], how="diagonal_relaxed")
    with refuses("no-call", "`score`", "`verifications/part-00000.parquet`"):
        write_log(tmp_path / "log", name="none", tables={**made, "verifications": scores})
