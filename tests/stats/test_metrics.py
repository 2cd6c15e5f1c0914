"""Metrics by hand: the arithmetic stands in the test."""

import numpy as np
import pytest

from tests.errors import noted, refuses
from toolkit.errors import ThinkbackError
from toolkit.stats import Settings, summarise

QUICK = Settings(resamples=200)


def estimates(summary, policy="a"):
    return dict(summary.summary.filter(policy=policy).select("metric", "estimate").iter_rows())


def counts(summary, policy="a"):
    return dict(summary.summary.filter(policy=policy).select("metric", "n").iter_rows())


def shares(answers, labels):
    """Answers (E,) as indices, -1 for null, to shares (1, E, L)."""
    return np.array([[[float(a == label) for label in range(labels)] for a in answers]])


def test_f1_by_hand(made, factory):
    # gold  x x x y y z, answers  x x y y null z
    # x: TP 2, FP 0, FN 1 -> 4/5;  y: TP 1, FP 1, FN 1 -> 2/4;  z: TP 1 -> 1
    gold, answers = [0, 0, 0, 1, 1, 2], [0, 0, 1, 1, -1, 2]
    one = made({"correct": [[1, 1, 0, 1, 0, 1]]}, gold=gold, predicted=shares(answers, 3))
    got = estimates(summarise(factory(one), ["a"], labels=["x", "y", "z"], settings=QUICK))
    assert got["f1:x"] == pytest.approx(4 / 5)
    assert got["f1:y"] == pytest.approx(2 / 4)
    assert got["f1:z"] == 1.0
    assert got["macro_f1"] == pytest.approx((0.8 + 0.5 + 1) / 3)
    assert got["weighted_f1"] == pytest.approx((3 * 0.8 + 2 * 0.5 + 1 * 1) / 6)
    assert got["accuracy"] == pytest.approx(4 / 6)


def test_f1_of_a_class_without_gold_is_left_out(made, factory):
    # Nothing is gold z: its false alarm still costs x a miss, but z has no F1. x: TP 1, FN 1 -> 2/3; y: TP 1 -> 1.
    one = made({"correct": [[1, 0, 1]]}, gold=[0, 0, 1], predicted=shares([0, 2, 1], 3))
    got = estimates(summarise(factory(one), ["a"], labels=["x", "y", "z"], settings=QUICK))
    assert got["f1:z"] is None
    assert got["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)


def test_f1_of_means_adds_shares(made, factory):
    # Example 1 (gold x) answers x in 3 of 4 orders, y in 1; example 2 (gold y) answers y in 2 of 4, null in 2.
    # x: TP .75, FP 0, FN .25 -> 1.5/1.75;  y: TP .5, FP .25, FN .5 -> 1/1.75
    one = made({"correct": [[0.75, 0.5]]}, gold=[0, 1], predicted=[[[0.75, 0.25], [0, 0.5]]])
    got = estimates(summarise(factory(one), ["a"], labels=["x", "y"], settings=QUICK))
    assert got["f1:x"] == pytest.approx(1.5 / 1.75)
    assert got["f1:y"] == pytest.approx(1 / 1.75)


def test_unjudged_examples_leave_quality_and_stay_in_costs(made, factory):
    one = made(
        {"correct": [[1, 0, np.nan, np.nan]], "traces": [[1, 2, 3, 6]]},
        gold=[0, 1, -1, 0],  # the last has gold, but its outcome is unjudged
        predicted=shares([0, 0, 1, 1], 2),
    )
    result = summarise(factory(one), ["a"], labels=["x", "y"], settings=QUICK)
    got, n = estimates(result), counts(result)
    assert got["accuracy"] == 0.5
    assert n["accuracy"] == 2
    assert got["traces"] == 3.0
    assert n["traces"] == 4
    assert got["f1:x"] == pytest.approx(2 / 3)  # TP 1, FP 1, FN 0
    assert n["macro_f1"] == 2
    assert (result.n, result.judged) == (4, 2)
    noted(result.notes, "unjudged", "2 of 4 ")


def test_a_cost_with_any_null_has_no_value(made, factory):
    one = made({"correct": [[1, 0], [1, 0]], "latency_s": [[1, np.nan], [2, 4]]})
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    row = result.summary.filter(policy="a", metric="latency_s").row(0, named=True)
    assert (row["estimate"], row["low"], row["high"], row["method"]) == (None, None, None, None)
    assert estimates(result, "b")["latency_s"] == 3.0
    pair = result.comparisons.filter(policy="a", baseline="b", metric="reduction:latency_s").row(0, named=True)
    assert pair["difference"] is None
    assert pair["p_value"] is None
    found = [note for note in result.notes if note.code == "not_logged" and "`a`" in note.text]
    assert ("not_logged", ("a",), ("latency_s",)) in [(note.code, note.policies, note.metrics) for note in found]


def test_what_does_not_apply_gives_no_row(made, factory):
    nothing = [np.nan, np.nan]
    one = made(
        {
            "correct": [[1, 0], [1, 0]],
            "fix": [nothing, [0, 1]],
            "action_tokens": [nothing, [5, 7]],
            "device_s": [nothing, nothing],
            "base_correct": [nothing, [1, 0]],
        }
    )
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    assert set(estimates(result, "a")) == {"accuracy"}
    assert set(estimates(result, "b")) == {"accuracy", "fix_rate", "action_tokens"}
    assert set(result.comparisons["metric"]) == {"accuracy"}


def test_euros_come_from_device_seconds_and_else_from_latency(made, factory):
    # 7200 s of mean device time at 0.5 kW and 0.3 EUR: 2 h · 0.5 · 0.3 = 0.3 EUR
    values = {"correct": [[1, 0]], "device_s": [[3600, 10_800]], "latency_s": [[1, 1]]}
    settings = Settings(resamples=50, kw=0.5, eur_per_kwh=0.3)
    result = summarise(factory(made(values)), ["a"], settings=settings)
    assert estimates(result)["cost_eur"] == pytest.approx(0.3)
    assert str(result.notes[0]) == "€/1,000: device_s / 3600 · 0.5 kW · 0.3 € per kWh · 1,000"
    assert (result.notes[0].metrics, result.seconds) == (("cost_eur",), "device_s")
    values["device_s"] = [[np.nan, np.nan]]
    result = summarise(factory(made(values)), ["a"], settings=settings)
    assert estimates(result)["cost_eur"] == pytest.approx(1 / 3600 * 0.15)
    assert any("latency_s" in note.text for note in result.notes)
    assert result.seconds == "latency_s"


def test_cost_per_1000_is_a_thousand_times_the_mean_price(made, factory):
    one = made({"correct": [[1, 0]], "price": [[0.002, 0.004]]})
    assert estimates(summarise(factory(one), ["a"], settings=QUICK))["cost_per_1000"] == pytest.approx(3.0)


def test_order_of_metrics(made, factory):
    ones = [[1, 0]]
    keys = ["zebra", "price", "latency_s", "total_tokens", "traces", "recall_10", "recall_1", "found", "intervened"]
    one = made(
        dict.fromkeys([*keys, "flip", "fix", "credit", "correct"], ones), gold=[0, 0], predicted=shares([0, 0], 1)
    )
    names = list(estimates(summarise(factory(one), ["a"], labels=["x"], settings=QUICK)))
    assert names == [
        "accuracy", "credit", "macro_f1", "weighted_f1", "f1:x", "fix_rate", "flip_rate", "intervention_rate",
        "found", "recall_1", "recall_10", "traces", "total_tokens", "latency_s", "zebra", "cost_eur", "cost_per_1000",
    ]  # fmt: skip


def test_accuracy_difference_is_fixes_less_flips(made, factory):
    rng = np.random.default_rng(3)
    base, policy = rng.integers(0, 2, (2, 400))
    one = made(
        {
            "correct": [base, policy],
            "fix": [np.full(400, np.nan), (1 - base) * policy],
            "flip": [np.full(400, np.nan), base * (1 - policy)],
        }
    )
    result = summarise(factory(one), ["base", "policy"], baseline="base", settings=QUICK)
    got = estimates(result, "policy")
    difference = result.comparisons.filter(policy="policy", metric="accuracy")["difference"][0]
    assert difference == pytest.approx(got["fix_rate"] - got["flip_rate"], abs=1e-15)


def test_reduction_is_one_less_the_ratio_of_means(made, factory):
    one = made({"correct": [[1, 0], [1, 1]], "total_tokens": [[100, 200], [400, 600]]})
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    row = result.comparisons.filter(policy="a", metric="reduction:total_tokens").row(0, named=True)
    assert row["difference"] == pytest.approx(1 - 150 / 500)


def test_reduction_to_nothing_has_no_value(made, factory):
    one = made({"correct": [[1, 0], [1, 1]], "verifications": [[3, 4], [0, 0]]})
    result = summarise(factory(one), ["a", "b"], baseline="b", settings=QUICK)
    row = result.comparisons.filter(metric="reduction:verifications").row(0, named=True)
    assert row["difference"] is None
    assert row["p_value"] is None


def test_leader_is_most_accurate_then_cheapest_then_first(made, factory):
    def leader(correct, tokens, **options):
        one = made({"correct": correct, "total_tokens": tokens})
        return summarise(factory(one), ["a", "b", "c"], settings=QUICK, **options).leader

    same = [[1, 0], [0, 1], [1, 0]]
    assert leader([[1, 1], [0, 1], [0, 1]], [[9, 9], [1, 1], [1, 1]]) == "a"
    assert leader(same, [[9, 9], [2, 2], [2, 3]]) == "b"
    assert leader(same, [[2, 2], [2, 2], [2, 2]]) == "a"
    assert leader(same, [[np.nan, 2], [5, 5], [9, 9]]) == "a"  # tokens unknown for one rank none
    assert leader([[1, 1], [0, 1], [0, 0]], [[1, 1]] * 3, leaders=["b", "c"]) == "b"


def test_where_tokens_are_unknown_the_leader_has_fewer_calls_then_operations(made, factory):
    def leader(**costs):
        one = made({"correct": [[1, 0], [0, 1]], **costs})
        return summarise(factory(one), ["a", "b"], settings=QUICK).leader

    calls, operations = [[5, 5], [3, 3]], [[3, 3], [5, 5]]
    assert leader(calls=calls, operations=operations) == "b"
    assert leader(calls=[[np.nan, 5], [3, 3]], operations=operations) == "a"
    assert leader(operations=calls) == "b"
    assert leader(total_tokens=[[1, 1], [2, 2]], calls=calls) == "a"
    assert leader(total_tokens=[[1, np.nan], [2, 2]], calls=calls) == "b"
    # tokens unknown for a diagnostic alone still rank the others
    three = made({"correct": [[1, 0]] * 3, "total_tokens": [[np.nan] * 2, [2, 2], [1, 1]], "calls": [[1, 1]] * 3})
    assert summarise(factory(three), list("abc"), settings=QUICK, leaders=["b", "c"]).leader == "c"


def test_a_policy_without_a_base_has_no_intervention_rate(made, factory):
    none, some = np.full(100, np.nan), np.tile([0.0, 1.0], 50)
    one = made({"correct": [some, some], "base_correct": [none, some], "intervened": [np.zeros(100), some]})
    result = summarise(factory(one), ["plain", "act"], settings=QUICK)
    assert result.summary.filter(metric="intervention_rate")["policy"].to_list() == ["act"]
    assert not any("intervention_rate" in note.metrics for note in result.notes)


def test_every_policy_meets_baseline_and_leader(made, factory):
    one = made({"correct": [[1, 1, 0], [1, 0, 0], [1, 1, 1]]})
    result = summarise(factory(one), ["a", "b", "c"], baseline="b", settings=QUICK)
    assert result.comparisons.select("policy", "baseline").rows() == [("a", "b"), ("a", "c"), ("b", "c"), ("c", "b")]


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        ({"baseline": "ab"}, ("unknown", "`ab`")),
        ({"leaders": ["z"]}, ("unknown", "`z`")),
        ({"labels": ["x"]}, ("mismatch",)),
    ],
)
def test_errors_name_what_is_wrong(made, factory, options, refusal):
    with refuses(*refusal):
        summarise(factory(made({"correct": [[1, 0], [0, 1]]})), ["a", "b"], settings=QUICK, **options)


def test_bad_blocks_and_settings_are_refused(made, factory):
    one = made({"correct": [[1, 0]], "traces": [[1, np.inf]]})
    with refuses("invalid", "`traces`", "`e000001`"):
        summarise(factory(one), ["a"])
    with refuses("mismatch", "`correct`"):
        summarise(factory(made({"correct": [[1, 0]]})), ["a", "b"])
    with refuses("empty", "`a`"):
        summarise(factory(one), ["a", "a"])
    with refuses("empty", "example"):
        summarise(lambda: iter([]), ["a"])
    with refuses("unknown", "`bca`"):
        Settings(method="bcaa")
    for bad in ({"resamples": 0}, {"level": 1.0}, {"seed": -1}, {"kw": -0.1}):
        with pytest.raises(ThinkbackError):
            Settings(**bad)
