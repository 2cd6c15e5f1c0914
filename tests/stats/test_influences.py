"""Areas with the influence of each question: against the bootstrap, and against a known truth."""

from __future__ import annotations

import numpy as np
import pytest

from toolkit.stats import Settings, auc
from toolkit.stats.curves.roc import auc_intervals, auc_within, aucs_by_group, mean_with_influences, pooled_auc

Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def drawn(seed: int, questions: int = 200, traces: int = 6) -> Rows:
    """Two scores that share some noise, verdicts and questions."""
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(questions), traces)
    ease = rng.normal(size=questions)[unit]
    right = rng.random(len(unit)) < 1 / (1 + np.exp(-ease))
    shared = rng.normal(size=len(unit))
    first, second = (0.9 * right + 0.5 * ease + shared + own * rng.normal(size=len(unit)) for own in (0.5, 0.8))
    return first, second, right, unit


def within(score: np.ndarray, right: np.ndarray, unit: np.ndarray) -> tuple[float, float, float]:
    found = mean_with_influences(
        aucs_by_group(score, right, unit), np.arange(int(unit.max()) + 1), int(unit.max()) + 1
    ).interval()
    return found.estimate, found.low, found.high


def test_the_estimates_are_those_of_the_bootstrap_and_the_intervals_come_near() -> None:
    score, _, right, unit = drawn(1)
    plain = auc_intervals(score, right, unit, settings=Settings(resamples=4_000))
    found = pooled_auc(score, right, unit, 200).interval()
    assert found.estimate == pytest.approx(auc(score, right))
    assert found.low == pytest.approx(plain.auc.low, abs=0.006)
    assert found.high == pytest.approx(plain.auc.high, abs=0.006)
    inside = within(score, right, unit)
    assert inside[0] == pytest.approx(auc_within(score, right, unit))
    assert inside[1:] == pytest.approx((plain.auc_within.low, plain.auc_within.high), abs=0.006)


def test_differences_are_paired() -> None:
    first, second, right, unit = drawn(2)
    one, other = (pooled_auc(score, right, unit, 200) for score in (first, second))
    found = one.difference_to(other)
    rng, draws = np.random.default_rng(0), []
    for _ in range(400):
        taken = rng.integers(200, size=200)
        rows = (taken[:, None] * 6 + np.arange(6)).ravel()
        draws.append(auc(first[rows], right[rows]) - auc(second[rows], right[rows]))
    assert found.high - found.low == pytest.approx(2 * 1.97 * np.std(draws), rel=0.12)
    alone = [area.interval() for area in (one, other)]
    unpaired = np.hypot(*(area.high - area.low for area in alone))
    assert found.high - found.low < 0.7 * unpaired
    same = one.difference_to(one)
    assert (same.difference, same.low, same.high) == (0, None, None)


@pytest.mark.parametrize("questions", [30, 200])
def test_the_intervals_hold_the_truth(questions: int) -> None:
    first, second, right, _ = drawn(99, questions=40_000)
    truth = auc(first, right)
    apart = truth - auc(second, right)
    held = np.zeros(2)
    for seed in range(400):
        one, other, right, unit = drawn(seed, questions)
        areas = [pooled_auc(score, right, unit, questions) for score in (one, other)]
        alone, both = areas[0].interval(), areas[0].difference_to(areas[1])
        held += (alone.low <= truth <= alone.high), (both.low <= apart <= both.high)
    assert (held / 400 > 0.92).all()
    assert (held / 400 < 0.985).all()


def test_ties_count_one_half_and_one_class_has_no_area() -> None:
    right, unit = np.array([True, False, True, False]), np.arange(4)
    assert pooled_auc(np.zeros(4), right, unit, 4).estimate == 0.5
    assert np.isnan(pooled_auc(np.arange(4.0), np.ones(4, bool), unit, 4).estimate)
    perfect = pooled_auc(right.astype(float), right, unit, 4).interval()
    assert (perfect.estimate, perfect.low) == (1.0, None)
    assert mean_with_influences(np.full(3, np.nan), np.arange(3), 3).interval().estimate is None
