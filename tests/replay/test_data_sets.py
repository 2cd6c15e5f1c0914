"""Data sets of fixed size in a run: the default, weights, what is saved, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import replay
from replay import Sample
from replay.analyses.recommend.recommend import decide_from_outcomes
from replay.analyses.strategies.frontier import frontier
from replay.runs.compare.curves import curves
from tests.errors import refuses
from tests.logs import tables
from toolkit.log import write_log
from toolkit.printable import printable
from toolkit.show import code_of
from toolkit.stats import Settings
from toolkit.stats.metrics.strata import Strata

ALGEBRA, CLAIMS = "algebra_linear_1d", "numeric_claims"
POLICIES = [
    Sample(name="one", pool="votes", max_traces=1, select="first", expected=True),
    Sample(name="vote", pool="votes", max_traces=8, select="majority", expected=True),
]
SOME = "split = 'test' AND (dataset = 'numeric_claims' OR example_id < 'algebra_linear_1d-test-00100')"
"""A hundred of one data set, and a thousand of the other."""
SHIPPED = Path(__file__).parents[2] / "data" / "log"


@pytest.fixture(scope="module")
def runs() -> dict[str, replay.Result]:
    given = {
        "plain": {},
        "by": {"by": "dataset"},
        "none": {"by": "dataset", "strata": "none"},
        "equal": {"weigh": "equal"},
        "three": {"weigh": {ALGEBRA: 3.0, CLAIMS: 1.0}, "by": "dataset"},
    }
    return {
        name: replay.run(SHIPPED, POLICIES, baseline="one", where=SOME, resamples=300, **more)
        for name, more in given.items()
    }


def values(result: replay.Result, metric: str = "accuracy") -> dict[str, float]:
    return dict(result.summary.filter(metric=metric).select("policy", "estimate").iter_rows())


def test_groups_by_data_set_make_strata(runs: dict[str, replay.Result]) -> None:
    assert_frame_equal(runs["none"].summary, runs["plain"].summary, check_exact=True)
    assert_frame_equal(runs["none"].ranks, runs["plain"].ranks, check_exact=True)
    assert values(runs["by"]) == values(runs["plain"])
    assert not runs["by"].summary.equals(runs["plain"].summary)
    assert [runs[name].provenance["strata"] for name in ("plain", "by", "none", "equal")] == [
        None, "dataset", None, "dataset",
    ]  # fmt: skip
    assert {"strata"} == {one.code for one in runs["by"].notes} - {one.code for one in runs["plain"].notes}
    # within a data set there is one stratum: nothing changes there
    for frame in ("by_summary", "by_comparisons", "by_ranks"):
        assert_frame_equal(getattr(runs["by"], frame), getattr(runs["none"], frame), check_exact=True)
        assert_frame_equal(getattr(runs["three"], frame), getattr(runs["none"], frame), check_exact=True)


@pytest.mark.parametrize("metric", ["accuracy", "total_tokens", "latency_s"])
def test_weights_make_means_of_means(runs: dict[str, replay.Result], metric: str) -> None:
    groups = runs["by"].by_summary
    assert groups is not None
    for policy in ("one", "vote"):
        of = {
            name: groups.filter(metric=metric, policy=policy, dataset=name)["estimate"][0] for name in (ALGEBRA, CLAIMS)
        }
        assert values(runs["equal"], metric)[policy] == pytest.approx((of[ALGEBRA] + of[CLAIMS]) / 2, rel=1e-12)
        assert values(runs["three"], metric)[policy] == pytest.approx((3 * of[ALGEBRA] + of[CLAIMS]) / 4, rel=1e-12)
    row = runs["equal"].comparisons.filter(policy="vote", baseline="one", metric=metric).row(0, named=True)
    assert row["difference"] == pytest.approx(
        values(runs["equal"], metric)["vote"] - values(runs["equal"], metric)["one"]
    )
    assert row["low"] <= row["difference"] <= row["high"]


def test_a_saved_result_tells_the_same(runs: dict[str, replay.Result], tmp_path: Path) -> None:
    result = runs["three"]
    result.save(tmp_path / "saved", questions=True)
    loaded = replay.load(tmp_path / "saved")
    assert loaded.provenance["weights"] == {ALGEBRA: 3.0, CLAIMS: 1.0}
    again, first = (one.summariser.summary() for one in (loaded, result))
    for frame in ("summary", "comparisons", "ranks"):
        assert_frame_equal(getattr(again, frame), getattr(first, frame), check_exact=True)
        assert_frame_equal(getattr(again, frame), getattr(result, frame), check_exact=True)
    pairs, saved = (one.compare("vote", "one", questions="fixed") for one in (result, loaded))
    assert str(pairs.table()) == str(saved.table())
    assert pairs.metrics is not None
    assert pairs.metrics.filter(metric="accuracy")["difference"][0] == pytest.approx(
        values(result)["vote"] - values(result)["one"]
    )
    assert {"strata", "weighed"} <= {one.code for one in pairs.notes}
    assert {"strata", "weighed"} <= {one.code for one in loaded.compare().notes}
    assert str(loaded.table()) == str(result.table())


def test_headroom_and_thresholds_are_weighed() -> None:
    oracle = replay.Oracle(name="any", of=["votes"])
    result = replay.run(SHIPPED, [*POLICIES, oracle], baseline="one", where=SOME, weigh="equal", resamples=300)
    room = result.headroom().frame
    regret = room.filter(policy="vote", measure="regret")["estimate"][0]
    assert regret == pytest.approx(values(result)["any"] - values(result)["vote"])
    parts = room.filter(pl.col("measure").is_in(["generation", "stopping", "selection"]), policy="vote")
    assert parts["estimate"].sum() == pytest.approx(1 - values(result)["vote"])


def test_a_single_stratum_has_a_note(runs: dict[str, replay.Result]) -> None:
    alone = replay.run(SHIPPED, POLICIES, baseline="one", where=SOME, strata="split", resamples=300)
    text = [one.text for one in alone.notes if one.code == "one_stratum"]
    assert len(text) == 1
    assert text[0] == printable(text[0])  # no mark of an argument, which only an error's text may have
    assert_frame_equal(alone.summary, runs["plain"].summary, check_exact=True)
    assert not any("one_stratum" in [one.code for one in result.notes] for result in runs.values())


def test_weighed_tables_are_not_means_per_example(runs: dict[str, replay.Result]) -> None:
    codes = [{code_of(line) for line in runs[name].table().below} for name in ("by", "equal")]
    assert [of & {"means", "weighed_means"} for of in codes] == [{"means"}, {"weighed_means"}]


@pytest.mark.slow
def test_curves_take_strata_and_weights(runs: dict[str, replay.Result]) -> None:
    def lines(where: str = SOME, **given: object) -> pl.DataFrame:
        frame = curves(SHIPPED, pool="votes", max_traces=8, where=where, resamples=300, **given)
        return frame.filter(pl.col("verifier").is_null()).drop("verifier")

    plain, within, equal = lines(), lines(strata="dataset"), lines(weigh="equal")
    assert_frame_equal(plain.drop("low", "high"), within.drop("low", "high"), check_exact=True)
    votes = pl.col("metric") == "majority"
    width = [frame.filter(votes).select(pl.col("high") - pl.col("low"))["high"] for frame in (plain, within)]
    assert (width[1] < width[0]).all()  # the two data sets are of unlike accuracy
    parts = [lines(f"({SOME}) AND dataset = '{name}'")["estimate"] for name in (ALGEBRA, CLAIMS)]
    assert equal["estimate"].to_list() == pytest.approx(((parts[0] + parts[1]) / 2).to_list(), rel=1e-12)
    carried = runs["three"].curves()
    settings = {"where": SOME, "resamples": 300}
    assert_frame_equal(carried, curves(SHIPPED, weigh={ALGEBRA: 3.0, CLAIMS: 1.0}, **settings), check_exact=True)
    with refuses("conflict", "weigh", "strata"):
        lines(strata="none", weigh="equal")


def test_the_front_is_resampled_within_strata() -> None:
    given = {"pool": "votes", "n": [1, 8], "where": SOME, "resamples": 300, "verifiers": []}
    plain, within = frontier(SHIPPED, **given), frontier(SHIPPED, strata="dataset", **given)
    assert ([one.code for one in plain.notes], [one.code for one in within.notes]) == ([], ["strata"])
    limits = ["low", "high", "difference_low", "difference_high", "p_value", "coin_low", "coin_high", "coin_p_value"]
    assert_frame_equal(plain.front.drop(limits), within.front.drop(limits), check_exact=True)
    majority = [one.front.filter(strategy="majority", n=8).row(0, named=True) for one in (plain, within)]
    assert majority[0]["low"] != majority[1]["low"]
    with refuses("unknown", "nothing"):
        frontier(SHIPPED, strata="nothing", **given)


def test_a_recommendation_weighs_data_sets() -> None:
    """Half right in 20 of the one, none in 60 of the other: 12.5 % of all, 25 % where both count alike."""
    right = np.concatenate([np.tile([0.0, 1.0], 10), np.zeros(60)])
    base = dict.fromkeys(("correct", "fix", "flip", "total_tokens"), np.zeros(80))
    number = np.repeat([0, 1], [20, 60])
    both = Strata.of("dataset", number, ("a", "b"), np.arange(80), {"a": 1.0, "b": 1.0})
    longer = {**base, "correct": right, "total_tokens": np.ones(80)}
    tens = [
        decide_from_outcomes(
            ("base", base), {"longer": longer}, {}, {}, strata=strata, settings=Settings(resamples=300)
        ).sentences[1]
        for strata in (None, both)
    ]
    assert ["+12.50" in tens[0], "+25.00" in tens[1]] == [True, True]


def test_what_is_refused() -> None:
    def run(**given: object) -> None:
        replay.run(SHIPPED, POLICIES, where=SOME, resamples=100, **given)

    with refuses("conflict", "weigh", "strata"):
        run(strata="none", weigh="equal")
    with refuses("unknown", "nothing"):
        run(strata="nothing")
    with refuses("unknown", "algebra"):
        run(weigh={"algebra": 1.0, CLAIMS: 1.0})
    with refuses("invalid", CLAIMS):
        run(weigh=f"{ALGEBRA}=1")
    with refuses("invalid", "halves"):
        run(weigh="halves")
    with refuses("invalid", "-1"):
        run(weigh={ALGEBRA: -1.0, CLAIMS: 1.0})


def test_clusters_in_several_data_sets_are_no_strata(tmp_path: Path) -> None:
    ids = [f"e{number:02d}" for number in range(40)]
    pool = {one: [("A" if number % 4 else "B", None)] for number, one in enumerate(ids)}
    made = tables({"n": pool}, dict.fromkeys(ids, "A"))
    clusters = pl.Series([f"c{number // 2}" for number in range(40)])
    made["examples"] = made["examples"].with_columns(cluster=clusters, dataset=pl.Series(["x", "y"] * 20))
    crossed = write_log(tmp_path / "log", name="crossed", tables=made)
    first = Sample(name="first", pool="n", max_traces=1, select="first")
    result = replay.run(crossed, [first], by="dataset", resamples=100)
    assert "no_strata" in {one.code for one in result.notes}
    assert_frame_equal(result.summary, replay.run(crossed, [first], resamples=100).summary, check_exact=True)
    with refuses("conflict", "dataset"):
        replay.run(crossed, [first], strata="dataset", resamples=100)
