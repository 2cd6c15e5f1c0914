"""Policies shown to be within a margin of the baseline: a fixed sequence of lower limits in each family, by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from replay.runs.result.result import Result
from replay.runs.saved.display import ranked_input
from replay.runs.saved.promise import MetricLimit, PromiseTests, policies_before_failure, policy_families, within_margin
from tests.logs import log as small_log
from tests.logs import sealed, tables
from toolkit.log import Log, collect, write_log
from toolkit.notes import warning
from toolkit.show.ranking.ranking import UNLIKE_CALLS
from toolkit.stats import paired_interval

TOKENS, N, WORSE = "total_tokens", 600, 60


def best(k: int) -> replay.Sample:
    return replay.Sample(name=f"best of {k}", pool="three", max_traces=k, verifier="v")


FIRST = replay.Sample(name="other", pool="other", max_traces=1, select="first")


def three_tables() -> dict[str, pl.DataFrame]:
    """Of 600 questions the best of two is wrong on 60, the first and the best of three on none; another pool on 3."""
    ids = [f"e{number:03d}" for number in range(N)]
    three = {
        one: [("A", 0.5), ("B" if at < WORSE else "A", 0.9 if at < WORSE else 0.4), ("A", 1.0)]
        for at, one in enumerate(ids)
    }
    other = {one: [("B" if at % 200 == 7 else "A", None)] for at, one in enumerate(ids)}
    return tables({"three": three, "other": other}, dict.fromkeys(ids, "A"))  # type: ignore[arg-type]


log = sealed(three_tables)


def run(log: Log, *policies: replay.Sample, **options: object) -> Result:
    return replay.run(log, policies, baseline="best of 3", resamples=400, **options)  # type: ignore[arg-type]


def limits(result: Result, name: str, level: float) -> tuple[float | None, float | None]:
    """An independent twin: the interval of two columns."""
    one, base = (
        result.outcomes_of(policy).collect().sort("example_id")["correct"].to_numpy() for policy in (name, "best of 3")
    )
    found = paired_interval(one, base, settings=replace(result.summariser.settings, level=level))
    return found.low, found.high


def test_a_sequence_ends_at_the_first_that_is_not_sure() -> None:
    tested = {"one": ["a", "b", "c"], "two": ["d"], "three": ["e"]}
    assert policies_before_failure(tested, {"a", "c", "d"}) == {"one": ["a"], "two": ["d"], "three": []}


def test_what_follows_a_failure_is_not_shown_however_good_it_is(log: Log) -> None:
    """The first trace answers as the baseline does on all questions, and is cheapest: by estimates alone."""
    result = run(log, best(1), best(2), best(3))
    (family,) = policy_families(result).values()
    assert family == ["best of 1", "best of 2", "best of 3"]
    within = within_margin(result, 0.02, TOKENS)
    assert within is not None
    assert (within.policy, within.low, within.estimated) == (None, None, "best of 1")
    assert within.needed is not None
    assert within.needed.number == 231  # -ln(.01) / .02, since 600 agree on all
    without = within_margin(run(log, best(1), best(3)), 0.02, TOKENS)
    assert without is not None
    assert (without.policy, without.estimated) == ("best of 1", None)
    assert without.low == pytest.approx(limits(run(log, best(1), best(3)), "best of 1", 0.90)[0])
    assert -0.01 < float(without.low or 0.0) < 0


def test_families_share_the_error(log: Log) -> None:
    """Each of two is tested at 5 % / 2 on its side: three losses among 600."""
    result = run(log, best(1), best(3), FIRST)
    promise = PromiseTests.tests_of_limits([MetricLimit("accuracy", ">=", -0.02, "+")], result)
    assert promise is not None
    cost = dict(result.summary.filter(metric=TOKENS).select("policy", "estimate").iter_rows())
    passed = promise.policies_that_pass(policy_families(result), cost)
    assert passed.families == 2
    assert [*passed.by_family.values()] == [["best of 3", "best of 1"], ["other"]]
    assert passed.low["other"] == pytest.approx(limits(result, "other", 0.95)[0])


def test_fewer_questions_than_a_rare_loss_takes_show_nothing(log: Log) -> None:
    """461 questions for a point, 921 for half of one; the baseline itself always keeps to it."""
    result = run(log, best(1), best(3))
    point, half = within_margin(result, None, TOKENS), within_margin(result, 0.005, TOKENS)
    assert point is not None
    assert half is not None
    assert (point.margin, point.policy) == (0.01, "best of 1")
    assert (half.policy, half.estimated) == (None, "best of 1")
    assert half.needed is not None
    assert half.needed.number >= 922


def test_a_gain_that_is_shown_is_within_any_margin(log: Log) -> None:
    """The first is right on 60 questions more than the best of two, of 300 as of 600; too few for a loss of a point."""
    result = replay.run(log, [best(1), best(2)], baseline="best of 2", where="example_id < 'e300'", resamples=400)
    within = within_margin(result, None, TOKENS)
    assert within is not None
    assert (within.policy, within.estimated) == ("best of 1", None)
    assert 0.1 < float(within.low or 0.0) < 0.2
    (row,) = (one for one in ranked_input(result, 0.01).ranked_policies if one.policy.name == "best of 1")
    assert row.not_worse


def test_what_a_loss_of_a_point_takes_is_named_to_the_digit(log: Log) -> None:
    within = within_margin(run(log, best(1), best(3), where="example_id < 'e300'"), None, TOKENS)
    assert within is not None
    assert within.needed is not None
    assert (within.policy, within.needed.number, within.needed.number_text) == (None, 461, "about 461 questions")


def test_questions_that_decide_are_drawn_within_data_sets(tmp_path: Path) -> None:
    """All of one data set lose and none of the other: within data sets of fixed size nothing is left to vary."""
    ids = [f"e{number:03d}" for number in range(100)]
    pool = {one: [("B" if at < 30 else "A", 0.5), ("A", 1.0)] for at, one in enumerate(ids)}
    log = small_log(tmp_path, {"two": pool}, dict.fromkeys(ids, "A"))
    parts = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications")}
    dataset = ["lost" if number < 30 else "won" for number in range(100)]
    parts["examples"] = parts["examples"].sort("example_id").with_columns(dataset=np.array(dataset))
    joined = write_log(tmp_path / "joined", name="joined", tables=parts)
    policies = [replace(best(k), pool="two") for k in (1, 2)]
    needed = []
    for strata in (None, "dataset"):
        result = replay.run(joined, policies, baseline="best of 2", resamples=50, strata=strata)
        promise = PromiseTests.tests_of_limits([MetricLimit("accuracy", ">=", -0.5, "+")], result)
        assert promise is not None
        needed.append(promise.questions_to_keep_limits("best of 1", 1))
    assert needed[0] is not None
    assert needed[1] is not None
    assert needed[1].number < needed[0].number


def test_what_costs_as_much_or_is_worse_by_estimate_is_no_candidate(log: Log) -> None:
    result = run(log, best(2), best(3))
    within = within_margin(result, 0.02, TOKENS)
    assert within is not None
    assert (within.policy, within.estimated, within.needed) == (None, None, None)
    alone = replay.run(log, [best(1), best(3)], resamples=50)
    assert within_margin(alone, 0.02, TOKENS) is None  # no baseline


def test_a_limit_from_above_is_turned_around(log: Log) -> None:
    """Traces at most those of three by one: one trace is two fewer, always."""
    result = run(log, best(1), best(3))
    promise = PromiseTests.tests_of_limits(
        [MetricLimit("traces", "<=", 0.0, "+"), MetricLimit("accuracy", ">=", -0.02, "+")], result
    )
    assert promise is not None
    assert promise.policies_that_pass({"f": ["best of 1"]}, {"best of 1": 1.0, "best of 3": 3.0}).low == {
        "best of 1": pytest.approx(2.0)
    }
    assert PromiseTests.tests_of_limits([MetricLimit("traces", "<=", 2.0)], result) is None
    assert (
        PromiseTests.tests_of_limits([MetricLimit("macro_f1", ">=", -0.1, "+")], result) is None
    )  # no mean over examples


def test_clusters_are_the_questions_that_count(log: Log, tmp_path: Path) -> None:
    """600 questions in 150 clusters rule out no loss of two points: that takes 231 clusters, of 924 questions."""
    parts = {name: collect(log.scan(name), log) for name in ("examples", "traces", "verifications")}
    clusters = [f"c{number // 4}" for number in range(N)]
    parts["examples"] = parts["examples"].sort("example_id").with_columns(cluster=np.array(clusters))
    clustered = write_log(tmp_path / "log", name="clustered", tables=parts)
    few, many = (within_margin(run(clustered, best(1), best(3)), margin, TOKENS) for margin in (0.02, 0.04))
    assert few is not None
    assert many is not None
    assert (few.policy, many.policy) == (None, "best of 1")
    assert few.needed is not None
    assert few.needed.number == 924


def test_a_loaded_result_says_the_same_and_costs_that_differ_say_nothing(log: Log, tmp_path: Path) -> None:
    result = run(log, best(1), best(2), best(3), FIRST)
    result.save(tmp_path / "saved")
    loaded = replay.load(tmp_path / "saved")
    assert within_margin(loaded, 0.02, TOKENS) == within_margin(result, 0.02, TOKENS)
    ranked = ranked_input(result, 0.02)
    assert ranked.within_margin is not None
    assert ranked.within_margin.policy == "other"
    unlike = replace(ranked, notes=(warning(UNLIKE_CALLS, "calls of two pools"),))
    assert unlike.within_margin is None
