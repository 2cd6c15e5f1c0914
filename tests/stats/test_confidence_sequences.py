"""Confidence sequences: their definition, and that they hold at every look on simulated logs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import replay
from generate.simulation.grid import simulate
from toolkit.log import collect
from toolkit.stats.limits.confidence_sequences import mean_confidence_sequence

EVERY = 20
"""Questions between two looks."""


def plain_sequence(values: list[float], level: float) -> tuple[float, float]:
    """The definition, mean by mean: those at which neither gambler has 2 / (1 - level)."""
    alpha, total, spread, bets = 1 - level, 0.0, 0.25, []
    for number, value in enumerate(values, 1):
        before = spread / number
        bets.append(np.sqrt(2 * np.log(2 / alpha) / (before * number * np.log(number + 1))))
        total += value
        spread += (value - (0.5 + total) / (number + 1)) ** 2
    held = []
    for mean in np.linspace(0.0005, 0.9995, 1000):
        rising = falling = 1.0
        for value, bet in zip(values, bets, strict=True):
            rising *= 1 + min(bet, 0.5 / mean) * (value - mean)
            falling *= 1 - min(bet, 0.5 / (1 - mean)) * (value - mean)
        if max(rising, falling) < 2 / alpha:
            held.append(mean)
    return min(held), max(held)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_limits_are_those_of_the_definition(level: float) -> None:
    draw = np.random.default_rng(1)
    rows = np.stack([draw.random(60) < 0.7, draw.random(60) < 0.1, draw.beta(4, 2, 60)]).astype(float)
    low, high = mean_confidence_sequence(rows, level)
    for number, row in enumerate(rows):
        assert (low[number], high[number]) == pytest.approx(plain_sequence(row.tolist(), level), abs=0.0011)


def test_few_numbers_say_little_and_ends_are_no_fault() -> None:
    assert [limit.tolist() for limit in mean_confidence_sequence(np.empty((2, 0)))] == [[0, 0], [1, 1]]
    low, high = mean_confidence_sequence(np.ones(3))
    assert low[0] < 0.6
    assert high[0] == 1
    low, high = mean_confidence_sequence(np.stack([np.zeros(500), np.ones(500)]))
    assert low[0] == 0
    assert high[0] < 0.02
    assert low[1] == pytest.approx(1 - high[0])
    for number in (1.2, -0.1, np.nan):
        with pytest.raises(ValueError, match="confidence"):
            mean_confidence_sequence(np.array([0.2, number]))


def ever_excluded(rows: np.ndarray, truth: float) -> float:
    """The share of rows whose limits exclude the truth at some look."""
    missed = np.zeros(len(rows), bool)
    for count in range(EVERY, rows.shape[1] + 1, EVERY):
        low, high = mean_confidence_sequence(rows[:, :count])
        missed |= (low > truth) | (high < truth)
    return float(missed.mean())


@pytest.mark.parametrize("rate", [0.5, 0.95])
def test_two_hundred_sequences_hold_at_every_look(rate: float) -> None:
    draw = np.random.default_rng(1)
    assert ever_excluded((draw.random((200, 100)) < rate).astype(float), rate) <= 0.08  # of 5 % by chance: 3 in 100


POLICIES = """
[[policy]]
name = "first"
kind = "sample"
pool = "n4"
max_traces = 1
select = "first"

[[policy]]
name = "vote"
kind = "sample"
pool = "n4"
max_traces = 4
select = "majority"
expected = true

[[policy]]
name = "stops"
kind = "sample"
pool = "n4"
max_traces = 4
verifier = "strong"
stop = { rule = "margin", margin = 0.3 }
"""
LOGS, QUESTIONS = 1_000, 120


@pytest.mark.slow
def test_of_a_thousand_simulated_logs_few_ever_exclude_the_truth(tmp_path: Path) -> None:
    """A log of 120,000 questions is cut into a thousand, each looked at every 20 questions. The truth is the mean of
    all, whose own error is a tenth of a point.
    """
    simulate(tmp_path / "log", examples=LOGS * QUESTIONS, traces=4, labels=3, seed=1)
    result = replay.run(tmp_path / "log", POLICIES, resamples=2)
    outcomes = collect(result.outcomes.select("policy", "example_id", "correct")).sort("example_id")
    shuffled = np.random.default_rng(0).permutation(LOGS * QUESTIONS)
    shares = {}
    for (name,), rows in outcomes.partition_by("policy", as_dict=True).items():
        values = np.clip(rows["correct"].cast(pl.Float64).to_numpy(), 0, 1)[shuffled]
        shares[name] = ever_excluded(values.reshape(LOGS, QUESTIONS), values.mean())
    print(shares)
    assert len(shares) == 3
    assert max(shares.values()) <= 0.05
