import json
from dataclasses import replace

import polars as pl
import pytest

import replay
from replay import Budget, Margin, Oracle, Sample
from tests.errors import noted, quotes, refuses
from tests.logs import BEST, FIRST, GOLDS, POOL, log, tables
from toolkit.log import write_log

MAJORITY = Sample(name="majority", max_traces=3, select="majority")


def rows(result: replay.Result, policy: str) -> list[dict]:
    return result.outcomes.filter(pl.col("policy") == policy).collect().to_dicts()


def test_a_small_log_by_hand(tmp_path):
    result = replay.run(log(tmp_path, {"n3": POOL}, GOLDS, ["A", "B"]), [FIRST, MAJORITY, BEST], resamples=100)
    # first A B B: 1 1 0. majority A, B, B: 1 1 0. best: B(.6) wrong, B(.9) right, A(.9) right.
    assert [r["correct"] for r in rows(result, "first")] == [1, 1, 0]
    assert [r["answer"] for r in rows(result, "majority")] == ["A", "B", "B"]
    assert [r["answer"] for r in rows(result, "best")] == ["B", "B", "A"]
    best = rows(result, "best")[1]
    assert (best["traces"], best["valid_traces"], best["verifications"], best["operations"]) == (3, 2, 2, 5)
    # 3 traces x (10 + 5) tokens + 2 verifications x (3 + 1) = 53
    assert (best["prompt_tokens"], best["completion_tokens"], best["verification_tokens"]) == (30, 15, 8)
    assert best["total_tokens"] == 53
    # latencies 1 + 2 + 3 and 2 x 0.25; device 3 x 0.5 + 2 x 0.125
    assert (best["generation_s"], best["verification_s"], best["latency_s"]) == (6, 0.5, 6.5)
    assert best["device_s"] == 1.75
    assert (best["calls"], best["finalizers"], best["truncated"], best["ending"]) == (3, 0, 0, "cap")
    assert best["intervened"] == 0
    assert best["fix"] is None
    accuracy = result.summary.filter(pl.col("metric") == "accuracy")
    assert dict(zip(accuracy["policy"], accuracy["estimate"], strict=True)) == pytest.approx(
        {"first": 2 / 3, "majority": 2 / 3, "best": 2 / 3}
    )


def test_width_pays_whole_blocks_and_waits_for_the_slowest(tmp_path):
    two = Sample(name="two", max_traces=3, select="majority", stop=Budget(traces=1), width=2)
    (row,) = rows(replay.run(log(tmp_path, {"n3": {"e1": POOL["e1"]}}, {"e1": "A"}), [two]), "two")
    assert (row["traces"], row["generation_s"], row["latency_s"], row["ending"]) == (2, 3.0, 2.0, "rule")


def test_orders_average_over_permutations_of_the_whole_pool(tmp_path):
    pool = {"e1": [("A", None), ("B", None), ("B", None)], "e2": [("A", None)] * 3}
    many = Sample(name="many", max_traces=1, select="first", orders=200)
    result = replay.run(log(tmp_path, {"n3": pool}, {"e1": "A", "e2": "A"}), [many], resamples=50)
    first, second = rows(result, "many")
    assert first["correct"] == pytest.approx(1 / 3, abs=0.1)
    assert first["answer"] is None
    assert [a["answer"] for a in first["answers"]] == ["B", "A"]
    assert sum(a["share"] for a in first["answers"]) == pytest.approx(1)
    assert second["answers"] == [{"answer": "A", "share": pytest.approx(1)}]


def test_expected_is_exact_over_all_orders(tmp_path):
    pool = {"e1": [("A", 0.9), ("B", 0.5), ("B", 0.1)]}
    exact = Sample(
        name="exact", max_traces=3, verifier="v", order="random", expected=True, stop=Budget(verifications=2)
    )
    (row,) = rows(replay.run(log(tmp_path, {"n3": pool}, {"e1": "A"}), [exact]), "exact")
    # Two of three are verified; A wins whenever it is among them: 2 in 3.
    assert row["correct"] == pytest.approx(2 / 3)
    assert row["verifications"] == 2
    assert row["verification_tokens"] == pytest.approx(8)
    assert row["ending"] == "rule"
    assert {a["answer"]: a["share"] for a in row["answers"]} == pytest.approx({"A": 2 / 3, "B": 1 / 3})


def test_the_mean_of_one_sample_is_over_all_traces_of_the_pool(tmp_path):
    pool = {"e1": [("A", 0.9), ("B", 0.5), (None, None), ("A", None)], "e2": [("B", None)]}
    one = Sample(name="one", max_traces=1, select="first", expected=True)
    of = log(tmp_path, {"n4": pool}, {"e1": "A", "e2": "A"})
    first, second = rows(replay.run(of, [one]), "one")
    # Two of four traces are right and three are valid; they took 1, 2, 3 and 4 seconds, 15 tokens each.
    assert (first["correct"], first["traces"], first["valid_traces"], first["latency_s"]) == (0.5, 1, 0.75, 2.5)
    assert (first["total_tokens"], first["generation_s"], first["verifications"]) == (15, 2.5, 0)
    shares = {answer["answer"]: answer["share"] for answer in first["answers"]}
    assert shares == {"A": 0.5, "B": 0.25, None: 0.25}
    assert (second["answer"], second["correct"], second["latency_s"]) == ("B", 0, 1)
    told = replay.explain(of, one, "one", "e1")
    assert told.stages[0].rows["correct"].to_list() == [1, 0, 0, 1]
    quotes(told.ending, "3 possible answers", "right 50.0%", "A 50.0%, B 25.0%, none 25.0%")
    assert told.ending.endswith("1 trace, 0 verifications, 15 tokens")


@pytest.mark.parametrize("more", [{"stop": Budget(traces=1)}, {"orders": 2}, {"order": "score"}])
def test_the_mean_of_one_sample_takes_neither_order_nor_stop(more):
    settings = {"max_traces": 1, "select": "first", "verifier": "v", "expected": True, **more}
    with refuses("unsuitable", "`one`"):
        Sample(name="one", **settings)


def test_against_counts_fixes_flips_and_the_calls_of_ones_own(tmp_path):
    best = Sample(name="best", max_traces=3, verifier="v", against="first")
    result = replay.run(log(tmp_path, {"n3": POOL}, GOLDS), [FIRST, best], resamples=50)
    found = rows(result, "best")
    # first 1 1 0, best 0 1 1: a flip, nothing, a fix.
    assert [(r["base_correct"], r["fix"], r["flip"]) for r in found] == [(1, 0, 1), (1, 0, 0), (0, 1, 0)]
    # Two more traces of 15 tokens, and verifications of 4 tokens: 3, 2 and 3 of them.
    assert [r["action_tokens"] for r in found] == [42, 38, 42]
    assert [r["intervened"] for r in found] == [1, 1, 1]


def test_oracle_is_right_when_any_trace_is(tmp_path):
    pools = {"a": POOL, "b": {e: [("A", None)] for e in GOLDS}}
    oracle = Oracle(name="any", of=("a", "b"))
    result = replay.run(log(tmp_path, pools, {**GOLDS, "e2": "A"}), [oracle], resamples=50)
    found = rows(result, "any")
    assert [r["correct"] for r in found] == [1, 1, 1]
    assert [r["traces"] for r in found] == [4, 4, 4]
    assert found[1]["answer"] == "A"  # only pool b has it


def test_examples_that_some_policy_lacks_are_left_out_and_named(tmp_path):
    pool = {f"e{i:02}": [("A", None)] * (2 if i == 7 else 3) for i in range(20)}
    made = log(tmp_path, {"n3": pool}, dict.fromkeys(pool, "A"))
    result = replay.run(made, [FIRST, MAJORITY], resamples=50)
    assert list(result.excluded) == ["e07"]
    quotes(result.excluded["e07"], "majority: ", "`n3`", "3 traces")
    assert result.outcomes.collect()["example_id"].n_unique() == 19
    assert (result.notes[0].code, result.notes[0].severity) == ("many_left_out", "warning")
    quotes(result.notes[0], "1 of 20 examples (5.0%)")
    available = Sample(name="shrinks", max_traces=3, select="majority", on_missing="use_available")
    result = replay.run(made, [FIRST, available], resamples=50)
    assert not result.excluded
    assert rows(result, "shrinks")[7]["ending"] == "exhausted"


def test_policies_that_serve_less_than_nine_tenths_are_dropped_together(tmp_path):
    pool = {f"e{i:02}": [("A", None)] * (3 if i < 17 else 2) for i in range(20)}
    made = log(tmp_path, {"n3": pool}, dict.fromkeys(pool, "A"))
    result = replay.run(made, [FIRST, MAJORITY], resamples=50)
    assert list(result.dropped) == ["majority"]
    assert "17 of the 20" in result.dropped["majority"]
    assert result.outcomes.collect()["example_id"].n_unique() == 20
    with refuses("unsuitable", "`majority`"):
        replay.run(made, [FIRST, MAJORITY], strict=True)
    with refuses("unsuitable", "`majority`"):
        replay.run(made, [FIRST, MAJORITY], baseline="majority")


def test_a_missing_score_matters_only_where_the_policy_asks_for_it(tmp_path):
    pool = {"e1": [("A", 0.9), ("B", 0.1), ("A", None)]}
    early = Sample(name="early", max_traces=3, verifier="v", stop=Margin(0.5, min_valid=2))
    made = log(tmp_path, {"n3": pool}, {"e1": "A"})
    assert rows(replay.run(made, [early]), "early")[0]["verifications"] == 2
    with refuses("empty", "`v`", "`all`"):
        replay.run(made, [Sample(name="all", max_traces=3, verifier="v")])


def test_a_gap_ends_the_pool(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].filter(~((pl.col("example_id") == "e1") & (pl.col("sample_index") == 1)))
    made["verifications"] = made["verifications"].join(made["traces"], on="trace_id", how="semi")
    folder = write_log(tmp_path / "log", name="gap", tables=made)
    shrinks = Sample(name="m", max_traces=3, select="majority", on_missing="use_available")
    assert rows(replay.run(folder, [shrinks]), "m")[0]["traces"] == 1


def test_where_and_by(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["examples"] = made["examples"].with_columns(level=pl.Series([1, 1, 2]))
    folder = write_log(tmp_path / "log", name="by", tables=made)
    result = replay.run(folder, [FIRST, BEST], by=["level"], resamples=50)
    accuracy = result.by_summary.filter(pl.col("metric") == "accuracy")
    assert accuracy.select("level", "policy", "estimate", "n").rows() == [
        ("1", "first", 1.0, 2), ("1", "best", 0.5, 2), ("2", "first", 0.0, 1), ("2", "best", 1.0, 1),
    ]  # fmt: skip
    assert replay.run(folder, [FIRST], where="level = 2").outcomes.collect()["example_id"].to_list() == ["e3"]
    with refuses("empty", "`where`", "`test`"):
        replay.run(folder, [FIRST], where="level = 3")
    with refuses("invalid", "`where`"):
        replay.run(folder, [FIRST], where="levle = 3")
    with refuses("unknown", "`levels`", "`level`"):
        replay.run(folder, [FIRST], by=["levels"])


def test_another_column_can_be_measured(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(half=pl.lit(0.5), big=pl.lit(7.0))
    folder = write_log(tmp_path / "log", name="measure", tables=made)
    assert rows(replay.run(folder, [FIRST], measure="half"), "first")[0]["correct"] == 0.5
    with refuses("invalid", "0", "1"):
        replay.run(folder, [FIRST], measure="big")
    with refuses("unknown", "`halve`", "`half`"):
        replay.run(folder, [FIRST], measure="halve")


def test_a_null_answer_is_wrong_whatever_is_measured(tmp_path):
    made = tables({"n3": {"e1": [(None, None)], "e2": [("A", None)]}}, {"e1": "A", "e2": "A"})
    made["traces"] = made["traces"].with_columns(long=pl.lit(True))
    folder = write_log(tmp_path / "log", name="null", tables=made)
    both = [FIRST, Oracle(name="any", of=("n3",))]
    result = replay.run(folder, both, measure="long")
    assert [r["correct"] for r in rows(result, "first")] == [0, 1]
    assert [r["correct"] for r in rows(result, "any")] == [0, 1]


def test_a_measure_must_fit_and_be_whole(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].with_columns(
        some=pl.when(pl.col("sample_index") > 0).then(pl.lit(1.0)), word=pl.lit("x")
    )
    folder = write_log(tmp_path / "log", name="measure", tables=made)
    with refuses("mismatch", "`e1`"):
        replay.run(folder, [FIRST], measure="some")
    with refuses("unsuitable", "0", "1"):
        replay.run(folder, [FIRST], measure="word")


def test_groups_need_single_values_and_are_bounded(tmp_path):
    names = {f"e{i:03}": [("A", None)] for i in range(501)}
    made = log(tmp_path, {"n1": names}, dict.fromkeys(names, "A"), ["A", "B"])
    with refuses("unsuitable", "`labels`"):
        replay.run(made, [FIRST], by=["labels"])
    with refuses("limit", "501", "500"):
        replay.run(made, [FIRST], by=["example_id", "example_id"])


def test_an_opaque_pool_that_is_not_read_takes_no_f1_away(tmp_path):
    made = tables({"n3": POOL, "verdicts": {e: [("A", None)] for e in GOLDS}}, GOLDS, ["A", "B"])
    opaque = pl.col("pool") == "verdicts"
    made["traces"] = made["traces"].with_columns(
        answer=pl.when(opaque).then("trace_id").otherwise("answer"), opaque=opaque
    )
    folder = write_log(tmp_path / "log", name="opaque", tables=made)
    one = Sample(name="one", pool="n3", max_traces=1, select="first")
    assert "macro_f1" in replay.run(folder, [one], resamples=50).summary["metric"].to_list()
    both = [one, Sample(name="two", pool="verdicts", max_traces=1, select="first")]
    assert "macro_f1" not in replay.run(folder, both, resamples=50).summary["metric"].to_list()


def test_prices_make_a_cost_and_must_be_complete(tmp_path):
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    text = '[[policy]]\nname = "best"\nkind = "sample"\nmax_traces = 3\nverifier = "v"\n'
    priced = text + "[prices.m]\nprompt = 1\ncompletion = 2\n[prices.v]\nprompt = 10\ncompletion = 0\n"
    result = replay.run(made, priced, resamples=50)
    # 3 x (10 x 1 + 5 x 2) + 3 verifications x 3 x 10 = 150 millionths on e1
    assert rows(result, "best")[0]["price"] == pytest.approx(150e-6)
    assert "cost_per_1000" in result.summary["metric"].to_list()
    with refuses("required", "`v`"):
        replay.run(made, text + "[prices.m]\nprompt = 1\ncompletion = 2\n")


@pytest.mark.parametrize(
    ("policy", "refusal"),
    [
        (Sample(name="p", pool="n4", max_traces=1, select="first"), ("unknown", "`n4`", "`n3`")),
        (Sample(name="p", max_traces=3, verifier="w"), ("unknown", "`w`", "`v`")),
        (Oracle(name="p", of=("n5",)), ("unknown", "`n5`")),
        (Sample(name="p", max_traces=9, select="majority"), ("empty", "9")),
    ],
)
def test_names_that_the_log_lacks_are_named_with_what_it_has(tmp_path, policy, refusal):
    with refuses(*refusal):
        replay.run(log(tmp_path, {"n3": POOL}, GOLDS), [policy])


def test_two_pools_make_the_pool_ambiguous(tmp_path):
    made = log(tmp_path, {"n3": POOL, "m3": POOL}, GOLDS)
    with refuses("unsuitable", "`pool`", "2"):
        replay.run(made, [MAJORITY])


def test_a_log_without_gold_cannot_be_ranked(tmp_path):
    made = log(tmp_path, {"n3": POOL}, dict.fromkeys(GOLDS))
    with refuses("unknown", "`measure`", "`replay`"):
        replay.run(made, [FIRST])


def test_a_metric_without_any_value_ranks_nothing(tmp_path):
    made = log(tmp_path, {"n3": POOL}, GOLDS, ["A", "B"])
    with refuses("unknown", "`credit`", "`accuracy`", "`macro_f1`", "`weighted_f1`", "`f1:A`", "`f1:B`"):
        replay.run(made, [FIRST], metric="credit", resamples=20)


def test_a_pool_without_prefixes_is_replayed_whole_or_not_at_all(tmp_path):
    made = log(tmp_path, {"n3": POOL}, GOLDS, pools={"n3": {"prefix": False}})
    assert rows(replay.run(made, [MAJORITY]), "majority")[0]["traces"] == 3
    with refuses("empty", "`n3`", "`first`"):
        replay.run(made, [FIRST])
    with refuses("unsuitable", "`orders`"):
        replay.run(made, [Sample(name="p", max_traces=3, select="majority", orders=2)])
    guided = Sample(name="p", max_traces=3, verifier="v", order="surrogate", mode="pool", stop=Margin())
    assert rows(replay.run(made, [guided]), "p")[0]["traces"] == 3
    with refuses("unsuitable", "`stop`", "`orders`"):  # it generates as it goes
        replay.run(made, [replace(guided, mode="lazy")])


def test_thresholds_are_set_on_examples_that_a_whole_pool_serves(tmp_path):
    """Two of the three development claims have three traces: with a cap of two they are served by no row at all.

    So the one threshold comes from the third claim, whose two traces give A at most 0.5; alpha 0.5 of one: k = 1.
    """
    pool = {"d1": [("A", 0.1), ("A", 0.2), ("A", 0.9)], "d2": [("A", 0.1), ("A", 0.3), ("A", 0.9)]}
    pool |= {"d3": [("A", 0.5), ("B", 0.4)], "t1": [("A", 0.4), ("B", 0.6)]}
    made = tables({"n": pool}, dict.fromkeys(pool, "A"), ["A"])
    where = pl.when(pl.col("example_id").str.starts_with("d")).then(pl.lit("dev")).otherwise(pl.lit("test"))
    made["examples"] = made["examples"].with_columns(split=where)
    folder = write_log(tmp_path / "log", name="w", tables=made, pools={"n": {"prefix": False}})
    conformal = replay.Conformal(0.5, "split = 'dev'")
    policy = Sample(name="p", max_traces=2, verifier="v", conformal=conformal)
    row = rows(replay.run(folder, [policy], where="split = 'test'", resamples=5), "p")[0]
    assert row["covered"] == 0  # 0.4 is below 0.5; with the claims that are not served the threshold would be 0.3


def test_verdicts_without_answers_have_no_votes(tmp_path):
    made = tables({"n3": {"e1": [("A", 0.2), ("B", 0.3)]}}, {"e1": "A"})
    made["traces"] = made["traces"].with_columns(answer=pl.col("trace_id"), opaque=pl.lit(True))
    folder = write_log(tmp_path / "log", name="opaque", tables=made)
    two = {"max_traces": 2, "name": "p"}
    assert rows(replay.run(folder, [Sample(**two, verifier="v")]), "p")[0]["correct"] == 0
    for policy in (Sample(**two, select="majority"), Sample(**two, verifier="v", stop=Margin())):
        with refuses("unsuitable", "`n3`", "`p`"):
            replay.run(folder, [policy])


def test_what_a_run_saves(tmp_path):
    result = replay.run(log(tmp_path, {"n3": POOL}, GOLDS), [FIRST, BEST], baseline="first", seed=7, resamples=60)
    result.save(tmp_path / "out")
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    found = ("comparisons", "examples", "outcomes", "ranks", "seconds", "summary")
    tables = [f"{name}.parquet" for name in found]
    assert names == sorted([*tables, "result.json", "run.json"])
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert (record["seed"], record["resamples"], record["baseline"]) == (7, 60, "first")
    assert [p["name"] for p in record["policies"]] == ["first", "best"]
    assert record["log"]["sha256"]
    assert pl.read_parquet(tmp_path / "out" / "outcomes.parquet").equals(result.outcomes.collect())


def test_what_a_reader_must_know_is_noted(tmp_path):
    made = tables({"n3": POOL}, GOLDS)
    made["traces"] = made["traces"].filter(~((pl.col("example_id") == "e1") & (pl.col("sample_index") == 1)))
    kept = made["verifications"].join(made["traces"], on="trace_id", how="semi")
    score = pl.when(pl.col("score") == 0.2).then(-0.2).otherwise(pl.col("score"))
    made["verifications"] = kept.with_columns(score=score, latency_s=pl.lit(None, dtype=pl.Float32))
    folder = write_log(tmp_path / "log", name="notes", tables=made)
    vote = Sample(name="vote", max_traces=3, verifier="v", select="weighted", on_missing="use_available")
    notes = replay.run(folder, [vote], resamples=50).notes
    assert noted(notes, "negative_weights", "`v`").severity == "warning"
    noted(notes, "free_verifications", "`v`")
    noted(notes, "behind_gaps", "1 ")


def listwise(tmp_path, rows: dict[str, list[int]], candidates: int, members=POOL):
    """A log whose verifier ranked, in one call, the traces of each example at these sample indices."""
    made = tables({"n3": members}, GOLDS)
    names = [f"{example}/n3/{index}" for example, indices in rows.items() for index in indices]
    first = {f"{example}/n3/{indices[0]}" for example, indices in rows.items()}
    made["verifications"] = pl.DataFrame(
        {
            "trace_id": names,
            "example_id": [name[:2] for name in names],
            "verifier": "judge",
            "score": [place / 10 for place in range(len(names))],
            "candidates": candidates,
            "prompt_tokens": [40 if name in first else 0 for name in names],
            "completion_tokens": 0,
        }
    )
    return write_log(tmp_path / "log", name="listwise", tables=made)


def test_a_listwise_verifier_is_one_call_for_exactly_what_it_saw(tmp_path):
    judged = Sample(name="judged", max_traces=3, verifier="judge")
    made = listwise(tmp_path, {e: [0, 1, 2] for e in GOLDS}, 3)
    found = rows(replay.run(made, [judged]), "judged")
    assert [(r["verifications"], r["verification_tokens"], r["total_tokens"]) for r in found] == [(1, 40, 85)] * 3
    for other in (
        Sample(name="cut", max_traces=2, verifier="judge"),
        Sample(name="stops", max_traces=3, verifier="judge", stop=Budget(traces=3)),
        Sample(name="random", max_traces=3, verifier="judge", order="random"),
    ):
        with refuses("empty", "`judge`"):
            replay.run(made, [other])


def test_a_listwise_verifier_may_have_seen_the_valid_traces_alone(tmp_path):
    valid = {"e2": [0, 2]}
    members = {"e2": POOL["e2"]}
    judged = Sample(name="judged", max_traces=3, verifier="judge")
    made = listwise(tmp_path, valid, 2, members)
    assert rows(replay.run(made, [judged], where="example_id = 'e2'"), "judged")[0]["verifications"] == 1


def test_a_listwise_call_of_which_rows_are_lost_serves_nobody(tmp_path):
    judged = Sample(name="judged", max_traces=3, verifier="judge")
    made = listwise(tmp_path, {e: [0, 1, 2] for e in GOLDS}, 4)
    with refuses("empty", "`judge`", "`judged`"):
        replay.run(made, [judged])


def test_a_sealed_log_that_was_changed_is_not_replayed(tmp_path):
    made = log(tmp_path, {"n3": POOL}, GOLDS)
    shard = next((tmp_path / "log" / "verifications").glob("*.parquet"))
    pl.read_parquet(shard).with_columns(score=pl.lit(0.5)).write_parquet(shard)
    with refuses("altered", "`verifications/part-00000.parquet`"):
        replay.run(made.address, [BEST])


CALLS = {
    "paid": ("e1/n3/1", BEST, True),
    "beyond the cap": ("e1/n3/2", replace(BEST, max_traces=2), False),
    "beyond the cap, in orders of the whole pool": ("e1/n3/2", replace(BEST, max_traces=2, orders=2), True),
    "of an example that is left out": ("e3/n3/0", BEST, False),
    "without a valid answer": ("e1/n3/0", BEST, False),
}


@pytest.mark.parametrize(("call", "policy", "paid"), CALLS.values(), ids=CALLS.keys())
def test_only_calls_that_may_be_paid_count_as_free(tmp_path, call: str, policy: Sample, paid: bool):
    """One verification has no seconds. The last example lacks a score; the first trace of e1 gives no answer."""
    pool = POOL | {"e1": [(None, 0.4), *POOL["e1"][1:]], "e3": [("B", 0.7), ("B", None), ("A", 0.9)]}
    made = tables({"n3": pool}, GOLDS)
    seconds = pl.when(pl.col("trace_id") != call).then("latency_s")
    made["verifications"] = made["verifications"].with_columns(latency_s=seconds)
    assert made["verifications"]["latency_s"].null_count() == 1
    folder = write_log(tmp_path / "log", name="free", tables=made)
    result = replay.run(folder, [policy], resamples=50)
    assert list(result.excluded) == ["e3"]
    assert result.provenance["verifications_free"] == ({"v": ["latency_s"]} if paid else {})
    assert ("free_verifications" in {note.code for note in result.notes}) == paid
