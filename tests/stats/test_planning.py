"""How many questions show a difference: the arithmetic by hand, and what holds of any pilot."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.runs.passes.logged_order import detectable_points_text
from toolkit.stats import Settings, paired_interval
from toolkit.stats.limits.planning import (
    DifferenceVariance,
    NeededQuestions,
    difference_variance,
    questions_in_clusters,
)
from toolkit.stats.metrics.strata import Strata

MOVES, CHANCE = [-1.0, 0.0, 1.0], [0.03, 0.9, 0.07]
SETTLED = DifferenceVariance(value=0.09, error=0.003, questions=1_000, units=1_000, differing=90)


def test_the_questions_of_a_variance() -> None:
    """(1.959964 · √(.09 + .0001) + .841621 · √.09)² / .0001 + 1.920729: (.588300 + .252486)² · 10,000 + 1.92."""
    needed = SETTLED.questions_to_show(0.01)
    assert needed is not None
    assert needed.number == math.ceil((0.588300 + 0.252486) ** 2 * 10_000 + 1.920729) == 7_072
    assert not needed.upper
    assert needed.high is not None
    # V · exp(± 1.281552 · .003 / .09)
    assert needed.low == pytest.approx(7_072 * math.exp(-0.042718), abs=2)
    assert needed.high == pytest.approx(7_072 * math.exp(0.042718), abs=2)


def test_a_small_pilot_goes_by_the_upper_limit() -> None:
    """V · exp(.841621 · .03 / .09) = 1.323845 V below 100 questions, and below 20 that carry the difference."""
    for few in (
        DifferenceVariance(0.09, 0.03, 99, 99, 90),
        DifferenceVariance(0.09, 0.03, 1_000, 1_000, 19),
        DifferenceVariance(0.09, 0.03, 1_000, 40, 90),
    ):
        assert few.planning_variance == pytest.approx(0.09 * 1.323845, rel=1e-5)
        needed, plain = few.questions_to_show(0.01), SETTLED.questions_to_show(0.01)
        assert needed is not None
        assert plain is not None
        assert needed.upper
        assert needed.number > plain.number


def test_a_difference_that_is_an_estimate_widens_the_range() -> None:
    """δ = .03 ± 1.281552 · .01 is .0172 to .0428, and beyond 1.28 standard errors from 0 no number may do."""
    sure, estimate, unsure = (SETTLED.questions_to_show(0.03, error=error) for error in (0.0, 0.01, 0.03))
    assert sure is not None
    assert estimate is not None
    assert unsure is not None
    assert sure.number == estimate.number == unsure.number
    assert sure.low > estimate.low > unsure.low
    assert sure.high is not None
    assert estimate.high is not None
    assert sure.high < estimate.high == pytest.approx(sure.number * (0.03 / 0.017184) ** 2, rel=0.02)
    assert unsure.high is None
    assert unsure.range_text.endswith("to no number")


def test_what_needs_no_number_of_questions() -> None:
    assert SETTLED.questions_to_show(0.0) is None
    assert SETTLED.questions_to_show(-0.01) is None
    assert SETTLED.questions_to_show(1e-5) is None  # more than ten million


def test_policies_that_agree_need_limits_that_leave_the_difference_out() -> None:
    """± z² / (n + z²) is .01 at n = 3.841459 · 99 = 380.3."""
    agreeing = difference_variance(np.zeros(50))
    assert (agreeing.value, agreeing.differing) == (0.0, 0.0)
    needed = agreeing.questions_to_show(0.01)
    assert needed is not None
    assert needed.number == needed.low == needed.high == 381


@pytest.mark.parametrize(("units", "exact"), [(1_000, True), (123.4, False)])
def test_what_a_rule_needs_of_clusters_is_an_estimate_and_rounded(units: float, exact: bool) -> None:
    variance = replace(SETTLED, units=units)
    needed = variance.questions_to_rule_out_loss(-0.001, 0.02, 26_006, 0.95)
    assert needed is not None
    assert needed.number == 26_006
    assert ("26,006" in needed.number_text) == exact
    assert ("27,000" in needed.number_text) != exact


def test_variances_by_hand() -> None:
    assert difference_variance(np.array([0.0, 1, 0, 1])).value == pytest.approx(1 / 3)  # 4 · .25 / 3
    # over clusters (0, 0) and (1, 1) sums are ∓1: (1 + 1) / 4 questions · 2 / 1
    assert difference_variance(np.array([0.0, 0, 1, 1]), cluster=np.array([0, 0, 1, 1])).value == pytest.approx(1.0)
    # .2 between and .1 within; what is not known is left out
    found = difference_variance(
        np.array([0.5, -0.5, np.nan, 0.5, -0.5, 0]), within=np.array([0.1, 0.1, 9, 0.1, 0.1, 0.1])
    )
    assert found.value == pytest.approx(1 / 5 * 5 / 4 + 0.1)
    assert (found.questions, found.units) == (5, 5)
    assert difference_variance(np.array([1.0])).value == 0


def test_variances_of_strata_by_hand() -> None:
    """Data sets (0, 0) and (1, 1) vary by nothing; (0, 1) and (2, 2, 2, 5) by .5 · 2 / 1 and 6.75 · 4 / 3 over 6."""

    def of(name: list[int], weights: dict[str, float] | None = None) -> Strata:
        found = Strata.of("dataset", np.array(name), ("a", "b"), np.arange(len(name)), weights)
        assert found is not None
        return replace(found, number=np.array(name))  # small ones are drawn together elsewhere

    assert difference_variance(np.array([0.0, 0, 1, 1]), strata=of([0, 0, 1, 1])).value == 0
    moves, sets = np.array([0.0, 1, 2, 2, 2, 5]), [0, 0, 1, 1, 1, 1]
    assert difference_variance(moves, strata=of(sets)).value == pytest.approx((0.5 * 2 + 6.75 * 4 / 3) / 6)
    # with equal weights each of the two counts 6 / 2 / 2 = 1.5, each of the four 6 / 2 / 4 = .75
    weighed = difference_variance(moves, strata=of(sets, {"a": 1.0, "b": 1.0}))
    assert weighed.value == pytest.approx((1.5**2 * 0.5 * 2 + 0.75**2 * 6.75 * 4 / 3) / 6)


def test_a_large_difference_is_one_of_other_questions() -> None:
    """One of 100 moves by 1: V is about .01. A difference of .2 by moves of 1 has V of at least .2 − .04 = .16, and
    takes (1.959964 · √.2 + .841621 · √.16)² / .04 + 1.920729 questions.
    """
    rare = difference_variance(np.array([1.0] * 10 + [0.0] * 990))
    assert rare.move == 1
    needed = rare.questions_to_show(0.2)
    assert needed is not None
    assert needed.number == math.ceil((1.959964 * math.sqrt(0.2) + 0.841621 * 0.4) ** 2 / 0.04 + 1.920729) == 39


def test_a_range_of_one_number_is_not_written() -> None:
    """Policies that agree on all questions but one: ± z² / (n + z²) decides, whatever the variance."""
    assert re.findall(r"\d+", NeededQuestions(381, 381, 381).number_text) == ["390"]
    assert re.findall(r"\d+", NeededQuestions(381, 380, 381).number_text) == ["390", "80", "380", "390"]
    for high in (None, 43_000):  # of a wide range no number within it is said
        assert "4,100" not in NeededQuestions(4_100, 400, high).number_text
        assert "400" in NeededQuestions(4_100, 400, high).number_text
    assert "4,100" in NeededQuestions(4_100, 2_000, 9_000).number_text
    agreeing = difference_variance(np.array([1.0] + [0.0] * 999))
    one, several = detectable_points_text(agreeing, 1_000), detectable_points_text(agreeing, 4_000)
    assert one is not None
    assert several is not None
    assert re.findall(r"[\d.]+", one) == ["0.78"]
    assert len(re.findall(r"[\d.]+", several)) == 4


def test_what_carries_a_difference() -> None:
    """Of 0, ±1: as many as differ. Of ±1/2 and 1: (1/2 + 1/2 + 1)² / (1/4 + 1/4 + 1) = 8/3."""
    assert difference_variance(np.array([0.0, 1, -1, 1, 0])).differing == pytest.approx(3)
    assert difference_variance(np.array([0.5, -0.5, 1, 0])).differing == pytest.approx(8 / 3)


VARIANCES = st.builds(
    lambda value, share, n, move: DifferenceVariance(value, value * share, n, n, n / 2, move),
    st.floats(1e-4, 1.0), st.floats(0.0, 0.5), st.integers(10, 5_000), st.floats(0.0, 1.0),
)  # fmt: skip


@given(VARIANCES, st.floats(0.005, 0.5), st.floats(0.5, 0.95), st.floats(0.8, 0.99))
def test_the_detectable_difference_inverts_the_questions(
    variance: DifferenceVariance, difference: float, power: float, level: float
) -> None:
    needed = variance.questions_to_show(difference, level=level, power=power)
    assert needed is not None
    assert needed.high is not None
    assert needed.low <= needed.high
    shown = variance.detectable(needed.number, level=level, power=power)
    assert shown is not None
    assert shown <= difference + 1e-9
    fewer = variance.detectable(needed.number - 1, level=level, power=power)
    assert fewer is None or fewer >= difference - 1e-9


@given(VARIANCES, st.integers(20, 10_000), st.integers(1, 10_000))
def test_more_questions_show_smaller_differences(variance: DifferenceVariance, n: int, more: int) -> None:
    one, other = variance.detectable(n), variance.detectable(n + more)
    assert one is None or (other is not None and other < one)
    low, high = (variance.detectable(n, end=end) for end in (-1, 1))
    assert low is None or high is None or low <= high


@given(st.integers(0, 10_000), st.floats(0.0, 0.3))
def test_what_varies_within_asks_for_more(seed: int, within: float) -> None:
    moves = np.random.default_rng(seed).choice([-1.0, 0.0, 0.0, 0.5], 60)
    over_all, one = (
        difference_variance(moves, within=extra).questions_to_show(0.02) for extra in (None, np.full(60, within))
    )  # fmt: skip
    assert over_all is not None
    assert one is not None
    assert over_all.number <= one.number


@pytest.mark.slow
def test_the_questions_named_reach_the_power() -> None:
    """Few differ, a pilot of 100: the share of experiments of that many whose interval leaves 0 out; three of four."""
    rng, held = np.random.default_rng(0), []
    for run in range(300):
        needed = difference_variance(rng.choice(MOVES, 100, p=CHANCE)).questions_to_show(0.04)
        assert needed is not None
        moves = rng.choice(MOVES, needed.number, p=CHANCE)
        interval = paired_interval(moves == 1, moves == -1, settings=Settings(resamples=300, seed=run))
        assert interval.low is not None
        assert interval.high is not None
        held.append(not interval.low <= 0 <= interval.high)
    assert np.mean(held) > 0.78 - 2 * 0.025


def test_questions_hold_so_many_clusters() -> None:
    """461 clusters of 1,000 / 300 questions each are 1,536.7 questions; 1,536 are one cluster short."""
    assert questions_in_clusters(461, 1_000, 300) == 1_537
    assert questions_in_clusters(461, 900, 300) == 1_383
    assert questions_in_clusters(0, 1_000, 300) == 0
