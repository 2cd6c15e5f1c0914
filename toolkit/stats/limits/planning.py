"""Numbers of questions that show a difference, and differences that so many questions show: variances of a pilot.

    n = (z(1 − α/2) · √(V + δ²) + z(power) · √V)² / δ² + z(1 − α/2)² / 2

questions show a difference of δ with a power, where V / n is the variance of the mean difference over n questions: the
usual (z + z)² V / δ² where δ² is small beside V. Where it is not, few questions do, and their limits go by the variance
that differences without a mean have, V + δ² (as McNemar's test: R. J. Connor, Biometrics 43, 1987, 207); the last term
is for Student's t (W. C. Guenther, The American Statistician 35, 1981, 243). V comes from a pilot, so n has a
range. Moves of the size that the pilot's have, m = Σd² / Σ|d|, that add up to δ have V ≥ m δ − δ², whatever V is there:
where hardly any question tells two policies apart, a large difference is one of other questions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from toolkit.stats.limits.discordant import FEW_PAIRS
from toolkit.stats.limits.intervals import NORMAL
from toolkit.stats.metrics.scan import kish_number
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import Strata

POWER = 0.8
"""Probability that a difference is shown, to plan for."""
FEW_QUESTIONS = 100
"""From fewer, n follows from the upper limit of V: its estimate reaches the power in half of such pilots only."""
UPPER, RANGE = 0.8, 0.8
"""Level of that limit, and share of pilots whose range of n holds the truth."""
WIDE = 10
"""From how many times its lower end on a range is wide: a number within it would say too much."""
MOST_QUESTIONS, LOG_MOST = 10_000_000, 700.0
"""The largest number of questions that is reported, and the largest logarithm of a number."""


@dataclass(frozen=True)
class NeededQuestions:
    """The number of questions that show a difference, and its range; `high` None: perhaps no number suffices.

    `upper`: whether the number allows for a pilot that is too small to go by the estimate; `fewest`: what another rule
    needs in any case, where that is exact.
    """

    number: int
    low: int
    high: int | None
    upper: bool = False
    fewest: int = 0

    @property
    def range_text(self) -> str:
        """The range in words, for a report."""
        high = "no number" if self.high is None else self._rounded_text(self.high, math.ceil)
        return f"{100 * RANGE:g} % range {self._rounded_text(self.low, math.floor)} to {high}"

    @property
    def number_text(self) -> str:
        """The number in words, rounded to two digits, with its range where that is not one number; of a wide range the
        lower end stands for the number.
        """
        if self.high is None or self.high > WIDE * self.low:
            return f"at least {self._rounded_text(self.low, math.floor)} questions ({self.range_text})"
        ends = "" if self.low == self.high else f" ({self.range_text})"
        return f"about {self._rounded_text(self.number, math.ceil)} questions{ends}"

    def _rounded_text(self, number: int, towards: Callable[[float], int]) -> str:
        """The number in words, with two digits rounded by `towards`; `self.fewest`, which is exact, is not rounded."""
        unit = 1 if number == self.fewest else 10 ** max(len(str(number)) - 2, 0)
        return f"{towards(number / unit) * unit:,}"

    def raised_to(self, number: int, is_exact: bool = False) -> NeededQuestions:
        """The same numbers raised to at least `number`, which another rule needs; `is_exact`: not by an estimate."""
        high = None if self.high is None else max(self.high, number)
        most = max(self.fewest, number * is_exact)
        return replace(self, number=max(self.number, number), low=max(self.low, number), high=high, fewest=most)


@dataclass(frozen=True)
class DifferenceVariance:
    """Variance of a mean difference over n questions, V / n, estimated from a pilot.

    `value`: V; `error`: its standard error; `questions`: of the pilot, `units`: the number of independent ones that
    these are worth; `differing`: the number that carry the difference, (Σ|d|)² / Σd²; `move`: how far such a question
    moves, Σd² / Σ|d|.
    """

    value: float
    error: float
    questions: int
    units: float
    differing: float
    move: float = 0.0

    @property
    def is_small_pilot(self) -> bool:
        """Whether the pilot is too small to plan with its estimate of V."""
        return self.units < FEW_QUESTIONS or self.differing < FEW_PAIRS

    @property
    def _is_unclustered(self) -> bool:
        """Whether each question is one of the units, so that as many as a rule needs of these is exact."""
        return self.units >= self.questions

    @property
    def planning_variance(self) -> float:
        """The V to plan with: the estimate, or its upper limit where the pilot is small."""
        return self._variance_at(NORMAL.inv_cdf(UPPER)) if self.is_small_pilot else self.value

    @property
    def mean_error(self) -> float:
        """Standard error of the pilot's own mean difference."""
        return math.sqrt(self.value / max(self.questions, 1))

    def _variance_at(self, z: float) -> float:
        """V moved by `z` standard errors on the scale of its logarithm."""
        return self.value * math.exp(z * self.error / self.value) if self.value > 0 else 0.0

    def questions_to_show(
        self, difference: float, *, level: float = 0.95, power: float = POWER, error: float = 0.0
    ) -> NeededQuestions | None:
        """The number of questions that show a `difference`; None where it is not above 0, or too many are needed.

        `error`: the standard error of a difference that is itself an estimate. At least as many as let the limits of
        policies that agree, ± z² / (n + z²), leave the difference out.
        """
        if difference <= 0:
            return None
        trials = math.floor(_critical_value(level) ** 2 * (1 / difference - 1)) + 1
        agreeing = _whole_questions(trials * self.questions / max(self.units, 1.0))
        if agreeing is None or self.value <= 0:
            return None if agreeing is None else NeededQuestions(agreeing, agreeing, agreeing)
        z = NORMAL.inv_cdf((1 + RANGE) / 2)

        def questions_at_variance(value: float, delta: float) -> float:
            return _question_number(max(value, (self.move - delta) * delta), delta, level, power)

        middle, ends = questions_at_variance(self.value, difference), []
        for sign in (-1, 1):
            moved = difference - sign * z * error
            ratios = [questions_at_variance(self._variance_at(sign * z), difference) / middle]
            ratios += [math.inf if moved <= 0 else questions_at_variance(self.value, moved) / middle]
            ends.append(middle * math.exp(sign * min(math.hypot(*map(math.log, ratios)), LOG_MOST)))
        number = _whole_questions(questions_at_variance(self.planning_variance, difference))
        low, high = map(_whole_questions, ends)
        if number is None or low is None:
            return None
        return NeededQuestions(number, low, high, self.is_small_pilot).raised_to(agreeing, self._is_unclustered)

    def questions_to_rule_out_loss(
        self, gain: float, allowed: float, fewest: int, level: float
    ) -> NeededQuestions | None:
        """The number of questions that show a mean gain of the pilot, or that no loss is as large as is `allowed`: of
        these two the smaller, the latter `fewest` at least. None where no number would.
        """
        within, better = (
            self.questions_to_show(one, level=level, error=self.mean_error) for one in (gain + allowed, gain)
        )
        if within is None or (better is not None and better.number < fewest):
            return None if within is None else better
        return within.raised_to(fewest, self._is_unclustered)

    def detectable(self, questions: float, *, level: float = 0.95, power: float = POWER, end: int = 0) -> float | None:
        """The smallest difference that so many questions show with a power; None above 1.

        `end`: −1 and 1 for the ends of its range.
        """
        critical, other = _critical_value(level), NORMAL.inv_cdf(power)
        v = self._variance_at(end * NORMAL.inv_cdf((1 + RANGE) / 2)) if end else self.planning_variance
        n = questions - critical**2 / 2
        room = n - critical**2
        if room <= 0 or v <= 0:
            return None
        root = math.sqrt(v * (other**2 * n + (critical**2 - other**2) * room))
        trials = questions * max(self.units, 1.0) / self.questions
        agreeing = critical**2 / (trials + critical**2) * (1 + 1e-9)
        difference = max((other * math.sqrt(n * v) + root) / room, self._least_difference(n, critical, other), agreeing)
        return difference if difference <= 1 else None

    def _least_difference(self, n: float, critical: float, other: float) -> float:
        """The difference δ with V = m δ − δ² that n + z(1 − α/2)² / 2 questions show, from a quadratic equation in √δ.
        It is 0 where the share m of moved outcomes is not known.
        """
        m, both = self.move, n + other**2
        inner = m * other**2 * (both - critical**2)
        return ((critical * math.sqrt(m * n) + math.sqrt(inner)) / both) ** 2


def _critical_value(level: float) -> float:
    return NORMAL.inv_cdf((1 + level) / 2)


def _question_number(value: float, difference: float, level: float, power: float) -> float:
    """The number of questions, by the formula at the top of this module, for a variance V."""
    critical = _critical_value(level)
    root = critical * math.sqrt(value + difference**2) + NORMAL.inv_cdf(power) * math.sqrt(value)
    return (root / difference) ** 2 + critical**2 / 2


def _whole_questions(number: float) -> int | None:
    return max(math.ceil(number - 1e-9), 1) if number <= MOST_QUESTIONS else None


def questions_in_clusters(fewest: int, questions: int, clusters: int) -> int:
    """How many questions hold at least so many clusters, of as many questions each as in a pilot."""
    return -(-fewest * questions // clusters)


def difference_variance(
    difference: Floats, *, within: Floats | None = None, cluster: Ints | None = None, strata: Strata | None = None
) -> DifferenceVariance:
    """V of a paired difference (E,) on each question, NaN where the difference is not known.

    `within` (E,): the variance that each difference has beside, as from one order of traces to another, where
    `difference` is the mean over all. `cluster` (E,): questions that are drawn together; n questions are then in
    clusters like these. `strata`: n questions are of these in the shares that they have here, and count as they do.

    V is the mean over questions of the squared sums over clusters of w (d − mean of its stratum), times G / (G − 1)
    with G clusters in the stratum, and of w² times `within`; w is what a question counts.

    `difference_variance([0, 1, 0, 1])` is 1/3, `[0, 0, 1, 1]` in two clusters of two 1, in two strata of two 0.
    """
    d, known = np.asarray(difference, np.float64), ~np.isnan(difference)
    d, extra = d[known], np.zeros(int(known.sum())) if within is None else np.asarray(within, np.float64)[known]
    n = len(d)
    w = np.ones(n) if strata is None or strata.weight is None else strata.weight[known]
    unit = np.arange(n) if cluster is None else np.unique(np.asarray(cluster)[known], return_inverse=True)[1]
    part = np.zeros(n, np.int64) if strata is None else np.unique(strata.number[known], return_inverse=True)[1]
    size = np.bincount(unit)
    if len(size) < 2:
        return DifferenceVariance(0.0, 0.0, n, float(len(size)), 0.0)
    of = np.zeros(len(size), np.int64)
    of[unit] = part  # a unit lies in one stratum
    units = np.bincount(of)
    spread = np.where(units > 1, units / np.maximum(units - 1, 1), 0.0)[of]
    centre = np.bincount(part, weights=d) / np.bincount(part)
    sums = np.bincount(unit, weights=w * (d - centre[part]))
    parts = sums**2 * spread + np.bincount(unit, weights=w**2 * extra)
    value = float(parts.sum()) / n
    if value <= 1e-15:
        return DifferenceVariance(0.0, 0.0, n, float(len(size)), 0.0)
    share = np.bincount(of, weights=parts) / np.bincount(of, weights=size)
    error = math.sqrt(float(((parts - share[of] * size) ** 2 * spread).sum())) / n
    moved = np.sqrt(np.bincount(unit, weights=w * d) ** 2 + np.bincount(unit, weights=w**2 * extra))
    single = np.sqrt((w * d) ** 2 + w**2 * extra)
    differing, move = float(moved.sum() ** 2 / (moved**2).sum()), float((single**2).sum() / single.sum())
    return DifferenceVariance(value, error, n, kish_number(unit), differing, move)
