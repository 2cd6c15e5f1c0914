"""Settings that are shown to keep to a limit: a fixed sequence of one-sided limits, from the dearest to the cheapest.

The cheapest setting whose estimate keeps to a limit is often one that chance lifted: with several to choose from the
promise is broken by a fifth to a half of such choices. Within a family each test is made at the full error only if all
before it passed, so that the family's first wrong claim is made with that probability at most (Maurer, Hothorn and
Lehmacher 1995); families share the error equally.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl

from replay.analyses.tune.goals import Goal, Limit
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from toolkit.columns import metric_column
from toolkit.stats import paired_interval, unit_numbers
from toolkit.stats.limits.planning import NeededQuestions, difference_variance
from toolkit.stats.metrics.resamples import fewest_examples

ERROR = 0.05
"""Probability at most of a setting that breaks the goal among those that pass."""


@dataclass(frozen=True, eq=False)
class Promise:
    """The test of each policy on the development rows: its difference to the baseline, for every limit.

    `values`: correctness, or the column of another limit, by policy (E,), for each limit.
    """

    limits: tuple[Limit, ...]
    values: tuple[Mapping[str, np.ndarray], ...]
    cluster: pl.Series
    baseline: str
    result: Result

    @classmethod
    def of(cls, goal: Goal, result: Result) -> Promise | None:
        """Promise of a goal; None where it has no limit relative to the baseline on a mean over examples."""
        limits = tuple(limit for limit in goal.limits if limit.relative == "+" and _column(result, limit) is not None)
        if not (limits and goal.smallest and result.baseline is not None):
            return None
        columns = [str(_column(result, limit)) for limit in limits]
        rows = result.outcomes.select("policy", "example_id", *dict.fromkeys(columns)).collect().sort("example_id")
        by_policy = {str(name): part for (name,), part in rows.group_by("policy", maintain_order=True)}
        weight = _weights(result)
        values = tuple(
            {name: weight * part[column].cast(pl.Float64).to_numpy() for name, part in by_policy.items()}
            for column in columns
        )
        return cls(limits, values, resampling_units(result.examples.sort("example_id")), result.baseline, result)

    def passing(self, families: Mapping[str, Sequence[str]], cost: Mapping[str, float]) -> dict[str, list[str]]:
        """The settings of each family that pass, from the dearest to the cheapest; the baseline does, and none that
        costs more is tested.
        """
        most = cost.get(self.baseline, np.inf)
        tested = {
            family: sorted(
                (member for member in members if cost.get(member, np.inf) <= most), key=lambda one: -cost[one]
            )
            for family, members in families.items()
        }
        shares = self.families(tested)
        passed: dict[str, list[str]] = {}
        for family, members in tested.items():
            passed[family] = []
            for name in members:
                if name != self.baseline and not self._keeps(name, shares):
                    break
                passed[family].append(name)
        return passed

    def families(self, tested: Mapping[str, Sequence[str]]) -> int:
        """Number of families that have a setting to test, which share the error."""
        return max(1, sum(any(name != self.baseline for name in members) for members in tested.values()))

    def _within(self, name: str) -> list[tuple[np.ndarray, np.ndarray, float]]:
        """Values of a policy and of the baseline at each limit, with a sign so that more is better, and the loss
        that is allowed.
        """
        signs = [1 if limit.sign == ">=" else -1 for limit in self.limits]
        return [
            (sign * values[name], sign * values[self.baseline], -sign * limit.number)
            for sign, limit, values in zip(signs, self.limits, self.values, strict=True)
        ]

    def _keeps(self, name: str, families: int) -> bool:
        """Whether a policy is shown to keep to every limit."""
        settings = replace(self.result.summariser.settings, level=1 - 2 * ERROR / families)
        for one, base, allowed in self._within(name):
            low = paired_interval(one, base, cluster=self.cluster, settings=settings).low
            if low is None or low < -allowed or self.cluster.n_unique() < _fewest(base, allowed):
                return False
        return True

    def questions(self, name: str, families: int) -> NeededQuestions | None:
        """Questions that would show that a policy keeps to the limits; None where none would."""
        units, numbers = unit_numbers(self.cluster), []
        for one, base, allowed in self._within(name):
            variance, distance = difference_variance(one - base, cluster=units), float(np.nanmean(one - base)) + allowed
            needed = variance.needed(distance, level=1 - 2 * ERROR / families, error=variance.mean_error)
            if needed is None:
                return None
            numbers.append(needed.at_least(_fewest(base, allowed)))
        return max(numbers, key=lambda one: one.number)


def _fewest(base: np.ndarray, allowed: float) -> int:
    """Questions below which no sample rules out a loss of as much of a share: it may have met none (0: no share)."""
    share = bool((np.abs(base[~np.isnan(base)]) <= 1).all())
    return (fewest_examples(min(allowed, 0.999)) or 0) if share and allowed > 0 else 0


def _weights(result: Result) -> np.ndarray:
    """What each example's value is multiplied with, (N,), so that plain means are those that the run weighs."""
    examples = result.summariser.outcomes.examples
    if examples.weights is None:
        return np.ones(result.examples.height)
    weights, total = examples.weights, sum(examples.weights.values())
    part = result.examples.sort("example_id")[str(examples.strata)].cast(pl.String).to_list()
    sizes = Counter(part)
    return np.array([weights[one] / total * len(part) / sizes[one] for one in part])


def _column(result: Result, limit: Limit) -> str | None:
    """The column of outcomes whose mean a limit is on; None of any other metric."""
    column = metric_column(limit.metric, result.columns)
    return None if column.computed or column.family else column.name
