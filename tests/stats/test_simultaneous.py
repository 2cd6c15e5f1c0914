"""Claims about many policies at once: critical values, steps, sets of ranks, p-values."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binomtest, norm, studentized_range, t

from toolkit.stats import Settings
from toolkit.stats.limits.student import student_to_normal
from toolkit.stats.many.simultaneous import (
    JointEstimates,
    _claims_to_one,
    _p_values_of_being_best,
    _rank_sets,
    bonferroni_p_values,
    claims_of_all_pairs,
    covariance_of,
    normal_draws,
)


def _made(rows):
    rows = np.asarray(rows, float)
    value = rows.mean(axis=1)
    units = rows.shape[1]
    return JointEstimates(value, covariance_of([(rows - value[:, None]) / units]), units, units)


def _equal(policies, units, seed=0):
    return (np.random.default_rng(seed).random((policies, units)) < 0.7).astype(float)


def test_one_pair_has_the_critical_value_of_a_single_interval():
    found = claims_of_all_pairs(_made(_equal(2, 100_000)), Settings())
    assert found.critical == pytest.approx(norm.ppf(0.975), abs=0.03)


def test_all_pairs_of_independent_policies_have_tukeys_critical_value():
    found = claims_of_all_pairs(_made(_equal(10, 20_000)), Settings(resamples=20_000))
    assert found.critical == pytest.approx(studentized_range.ppf(0.95, 10, np.inf) / np.sqrt(2), rel=0.01)


def test_one_against_many_has_dunnetts_critical_value():
    found = _claims_to_one(_made(_equal(10, 20_000)), 3, Settings(resamples=20_000))
    assert found.critical == pytest.approx(2.687, rel=0.015)  # Dunnett (1964), two-sided, 9 treatments, ρ = ½
    assert list(found.first) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert set(found.second) == {3}


def test_policies_that_agree_are_never_told_apart():
    rows = _equal(3, 50)
    found = claims_of_all_pairs(_made([rows[0], rows[0], rows[1]]), Settings(resamples=200))
    pair = (found.first == 0) & (found.second == 1)
    assert found.error[pair] == found.difference[pair] == 0
    assert found.p_value[pair] == 1
    assert not found.differs[pair].any()
    alone = claims_of_all_pairs(_made([rows[0], rows[0]]), Settings(resamples=200))
    assert not alone.differs.any()
    assert list(alone.low) == list(alone.high) == [0]


def test_a_difference_that_is_the_same_everywhere_is_told_once_there_are_enough_units():
    few, many = (claims_of_all_pairs(_made([np.ones(n), np.zeros(n)]), Settings(resamples=2000)) for n in (4, 40))
    assert not few.differs.any()
    assert many.differs.all()


def test_sets_of_ranks_follow_from_the_pairs():
    rng = np.random.default_rng(1)
    rows = [rng.random(2_000) < rate for rate in (0.9, 0.6, 0.605, 0.3)]
    low, high = _rank_sets(claims_of_all_pairs(_made(rows), Settings(resamples=1_000)))
    assert list(zip(low, high, strict=True)) == [(1, 1), (2, 3), (2, 3), (4, 4)]


def test_steps_find_what_one_step_does_not():
    rng = np.random.default_rng(3)
    noise = rng.normal(size=(8, 400))
    noise -= noise.mean(axis=1, keepdims=True)
    rows = noise + np.array([0, 0.205, *range(3, 9)])[:, None]
    found = claims_of_all_pairs(_made(rows), Settings())
    pair = np.flatnonzero((found.first == 0) & (found.second == 1))[0]
    assert found.low[pair] < 0 < found.high[pair]
    assert found.differs[pair]
    assert found.p_value[pair] < 0.05


def test_p_values_decide_as_the_claims_do():
    rng = np.random.default_rng(5)
    rows = [rng.random(300) < rate for rate in np.linspace(0.5, 0.8, 12)]
    found = claims_of_all_pairs(_made(rows), Settings(resamples=999))
    assert 0 < found.differs.sum() < len(found.differs)
    assert ((found.p_value <= 0.05) == found.differs).all()


def test_claims_do_not_depend_on_the_order_of_the_policies():
    rows = _equal(6, 200, seed=8)
    there = _rank_sets(claims_of_all_pairs(_made(rows), Settings(resamples=500)))
    back = _rank_sets(claims_of_all_pairs(_made(rows[::-1]), Settings(resamples=500)))
    assert all((a == b[::-1]).all() for a, b in zip(there, back, strict=True))


def _pairs(fixes, flips, units=500):
    """Two policies of which one alone is right on `fixes` examples, the other on `flips`."""
    one, other = np.zeros(units), np.zeros(units)
    one[:fixes], other[fixes : fixes + flips] = 1, 1
    return replace(_made([one, other]), trials=units)


@pytest.mark.parametrize(("fixes", "flips"), [(5, 0), (6, 0), (9, 0), (7, 1), (8, 1), (3, 3), (0, 7)])
def test_a_handful_of_examples_must_tell_apart_exactly(fixes, flips):
    estimates = _pairs(fixes, flips)
    exact = binomtest(fixes, fixes + flips).pvalue
    assert estimates.exact_p_values(np.array([0]), np.array([1])) == pytest.approx(exact)
    found = claims_of_all_pairs(estimates, Settings(resamples=999))
    assert found.p_value[0] >= exact
    assert found.differs[0] == (exact <= 0.05)


def test_ten_examples_and_more_need_no_exact_test():
    assert _pairs(10, 0).exact_p_values(np.array([0]), np.array([1])) == 0
    assert _made(_equal(2, 50)).exact_p_values(np.array([0]), np.array([1])) == 0  # no shares of the same examples


@pytest.mark.parametrize("freedom", [4, 9, 29, 499])
def test_few_units_count_as_students(freedom):
    size = np.array([0.5, 1, 2, 3, 4])
    assert student_to_normal(size, freedom) == pytest.approx(norm.isf(t.sf(size, freedom)), rel=0.01)


def test_draws_have_the_covariance_asked_for():
    covariance = _made(_equal(3, 50)).covariance * 50
    drawn = np.concatenate(list(normal_draws(covariance, Settings(resamples=20_000))), axis=1)
    assert drawn.shape == (3, 20_000)
    assert np.cov(drawn) == pytest.approx(covariance, abs=0.01)


def test_beyond_all_pairs_the_hopeless_go():
    gap, error = np.array([0, 0.01, 0.4, 0.02]), np.array([0, 0.01, 0.01, 0.01])
    assert [p < 0.05 for p in _p_values_of_being_best(gap, error, 500)] == [False, False, True, False]
    assert [p < 0.05 for p in bonferroni_p_values(-gap, error, 500)] == [False, False, True, False]


@pytest.mark.parametrize("units", [4, 10, 30])
def test_few_units_tell_equal_policies_apart_no_more_often_than_promised(units):
    """The covariance of few units has a low rank; draws from it would tell some of twenty apart in up to half."""
    told, runs = 0, 300
    for run in range(runs):
        rows = np.random.default_rng([units, run]).standard_normal((20, units))
        told += claims_of_all_pairs(_made(rows), Settings(resamples=100)).differs.any()
    assert told / runs <= 0.05 + 2.5 * (0.05 * 0.95 / runs) ** 0.5


def test_few_units_have_holms_p_values_of_students_t():
    rows = np.random.default_rng(3).standard_normal((3, 12)) + np.array([[0.0], [1.0], [2.5]])
    found = claims_of_all_pairs(_made(rows), Settings())
    apart = [rows[i] - rows[j] for i, j in ((0, 1), (0, 2), (1, 2))]
    alone = np.array([2 * t.sf(abs(one.mean()) / (one.std(ddof=1) / np.sqrt(12)), 11) for one in apart])
    order = np.argsort(alone)
    expected = np.maximum.accumulate(alone[order] * [3, 2, 1])
    assert found.p_value[order] == pytest.approx(np.minimum(expected, 1))
    assert found.critical == pytest.approx(t.ppf(1 - 0.05 / 6, 11))


def test_a_handful_of_clusters_must_tell_apart_exactly():
    """Five clusters of 200 lose one example each: the exact p-value is .0625."""
    rows = np.full((2, 200), 5.0)
    rows[1, :5] -= 1
    alone = _made(rows / 5)
    assert claims_of_all_pairs(alone, Settings(resamples=200)).p_value[0] < 0.0625
    found = claims_of_all_pairs(replace(alone, sums=rows), Settings(resamples=200))
    assert found.p_value[0] == pytest.approx(0.0625)
    assert not found.differs[0]
