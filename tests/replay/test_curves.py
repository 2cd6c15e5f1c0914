from collections import Counter
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import replay
from replay import Sample
from replay.runs.compare.curves import curve_pairs, curves, measure_pool_curves
from tests.errors import refuses
from tests.logs import log
from toolkit.stats import Settings, paired_interval

RNG = np.random.default_rng(5)


def drawn() -> tuple[str | None, float | None]:
    answer = (None, "A", "B", "C")[RNG.integers(0, 4)]
    return answer, None if answer is None else int(RNG.integers(0, 9)) / 8


POOL = {f"e{i}": [drawn() for _ in range(5)] for i in range(12)}
GOLDS = dict.fromkeys(POOL, "A")


def subsets(metric: str, k: int) -> float:
    """The curve's definition: the mean over all subsets of size k, in the log's order."""
    means = []
    for rows in POOL.values():
        values = []
        for chosen in combinations(rows, k):
            right = [answer == "A" for answer, _ in chosen]
            if metric == "avg":
                values.append(np.mean(right))
            elif metric == "pass":
                values.append(any(right))
            elif metric == "majority":
                votes = Counter(answer for answer, _ in chosen if answer is not None)
                most = [answer for answer in votes if votes[answer] == max(votes.values())]
                values.append(most.count("A") / max(len(most), 1))
            else:
                valid = [row for row in chosen if row[0] is not None]
                top = [answer for answer, score in valid if score == max(score for _, score in valid)]
                values.append(top.count("A") / max(len(top), 1))
        means.append(np.mean(values))
    return float(np.mean(means))


def test_closed_forms_equal_the_mean_over_all_subsets(tmp_path):
    frame = curves(log(tmp_path, {"n5": POOL}, GOLDS), resamples=100)
    for row in frame.to_dicts():
        assert row["estimate"] == pytest.approx(subsets(row["metric"], row["k"])), row
    assert frame["k"].unique().sort().to_list() == [1, 2, 4, 5]


def test_the_ends_meet_the_policies(tmp_path):
    made = log(tmp_path, {"n5": POOL}, GOLDS)
    frame = curves(made, resamples=100)
    policies = [
        Sample(name="majority", max_traces=5, select="majority", expected=True),
        Sample(name="best", max_traces=5, verifier="v", expected=True),
    ]
    summary = replay.run(made, policies, resamples=100).summary.filter(pl.col("metric") == "accuracy")
    for name, estimate in summary.select("policy", "estimate").rows():
        at_end = frame.filter((pl.col("metric") == name) & (pl.col("k") == 5))["estimate"].item()
        assert at_end == pytest.approx(estimate)


def test_ties_of_many_answers_share_evenly(tmp_path):
    """Large pools with many ties: the vote over the whole pool is the replayed one."""
    rng = np.random.default_rng(11)
    members = {f"e{i:02}": [("ABCDEFGHIJ"[a], None) for a in rng.integers(0, 10, 40)] for i in range(60)}
    made = log(tmp_path, {"n40": members}, dict.fromkeys(members, "A"))
    vote = Sample(name="vote", max_traces=40, select="majority", expected=True)
    summary = replay.run(made, [vote], resamples=20).summary.filter(pl.col("metric") == "accuracy")
    curve = curves(made, resamples=20).filter((pl.col("metric") == "majority") & (pl.col("k") == 40))
    assert curve["estimate"].item() == pytest.approx(summary["estimate"].item())
    assert curves(made, resamples=50).equals(curves(made, resamples=50))


def test_what_cannot_be_drawn_is_said(tmp_path):
    made = log(tmp_path, {"n5": POOL}, GOLDS)
    with refuses("unknown", "`n4`"):
        curves(made, pool="n4")
    with refuses("unknown", "`w`"):
        curves(made, verifier="w")
    with refuses("empty", "9"):
        curves(made, pool="n5", max_traces=9)
    with refuses("unsuitable", f"{tmp_path / 'unjudged'}"):
        curves(log(tmp_path / "unjudged", {"n5": POOL}, dict.fromkeys(GOLDS)))


def test_lines_are_compared_by_example(tmp_path):
    """The same difference and interval as the two lines' values give as plain arrays."""
    settings = Settings(resamples=300)
    found = measure_pool_curves(log(tmp_path, {"n5": POOL}, GOLDS), settings)
    pairs = curve_pairs(found, settings)
    assert set(pairs["k"]) == {2, 4, 5}
    assert pairs.select("first_metric", "second_metric").unique().sort("first_metric", "second_metric").rows() == [
        ("best", "avg"),
        ("best", "majority"),
        ("majority", "avg"),
    ]
    places = {(curve.metric, curve.k): i for i, curve in enumerate(found[0].plan)}
    for row in pairs.filter(first_metric="best").iter_rows(named=True):
        one, other = (found[0].values[places[row[f"{side}_metric"], row["k"]]] for side in ("first", "second"))
        told = paired_interval(one, other, settings=settings)
        assert (row["difference"], row["low"], row["high"]) == pytest.approx((told.difference, told.low, told.high))


def test_a_line_is_compared_between_pools_on_the_examples_of_both(tmp_path):
    half = dict(list(POOL.items())[:8])
    settings = Settings(resamples=100)
    found = measure_pool_curves(log(tmp_path, {"a": POOL, "b": half}, GOLDS), settings)
    between = curve_pairs(found, settings).filter(pl.col("first_pool") != pl.col("second_pool"))
    assert set(between["n"]) == {8}
    assert set(between["first_metric"]) == {"avg", "majority", "best"}
    exact = between.filter(pl.col("first_metric") != "majority")
    assert exact["difference"].to_list() == pytest.approx([0.0] * exact.height)  # the same traces
    assert (between["first_metric"] == between["second_metric"]).all()
