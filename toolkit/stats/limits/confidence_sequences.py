"""Confidence sequences: intervals of a mean that hold at every look while data come in."""

from __future__ import annotations

import numpy as np

STEPS = 20
"""Halvings that find a limit: to a millionth of the range."""
SHARE = 0.5
"""The most of the capital that a bet may lose, the `c` of the source."""


def mean_confidence_sequence(values: np.ndarray, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper limits of means of numbers from 0 to 1 that hold at every look at once.

    `values` (p, n) has a row for each of p means, its numbers in the order in which they came. Whoever looks after each
    new one, as often as he likes, ever sees limits (p,) and (p,) that exclude the true mean in at most 1 - `level` of
    cases, for each row by itself. They hold for independent draws, or whenever the mean of each number, given those
    before it, is the same; not for numbers in an order, such as easy questions first.

    The hedged capital process with predictable plug-in bets of Waudby-Smith and Ramdas, "Estimating means of bounded
    random variables by betting", Journal of the Royal Statistical Society B 86 (2024), theorem 3: a mean is excluded
    while a gambler who bets against it has multiplied a capital by 2 / (1 - level), one on larger and one on smaller
    means. ValueError for numbers outside of 0 to 1.
    """
    rows = np.atleast_2d(np.asarray(values, dtype=float))
    if not ((rows >= 0) & (rows <= 1)).all():
        raise ValueError("a confidence sequence takes numbers from 0 to 1")
    if rows.shape[1] == 0:
        return np.zeros(len(rows)), np.ones(len(rows))
    capital = 2 / (1 - level)
    bets = _predictable_bets(rows, capital)
    return _lower_limits(rows, bets, capital), 1 - _lower_limits(1 - rows, bets, capital)


def _predictable_bets(values: np.ndarray, capital: float) -> np.ndarray:
    """The bet on each number (p, n), from those before it: larger where their variance is small, smaller with time."""
    time = np.arange(1, values.shape[1] + 1)
    means = (0.5 + np.cumsum(values, axis=1)) / (time + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2, axis=1)) / (time + 1)
    before = np.hstack([np.full((len(values), 1), 0.25), variances[:, :-1]])
    return np.asarray(np.sqrt(2 * np.log(capital) / (before * time * np.log(time + 1))))


def _lower_limits(values: np.ndarray, bets: np.ndarray, capital: float) -> np.ndarray:
    """The largest means (p,) that bets on larger ones exclude; the capital falls as the mean rises."""
    excluded, open_ = np.zeros(len(values)), np.ones(len(values))
    for _ in range(STEPS):
        mean = (excluded + open_) / 2
        growth = np.log1p(np.minimum(bets, SHARE / mean[:, None]) * (values - mean[:, None]))
        over = growth.sum(axis=1) >= np.log(capital)
        excluded, open_ = np.where(over, mean, excluded), np.where(over, open_, mean)
    return excluded
