"""Settings that are shown to keep to a limit: a fixed sequence of one-sided limits, from the dearest to the cheapest.

The cheapest setting whose estimate keeps to a limit is often one that chance lifted: with several to choose from the
promise is broken by a fifth to a half of such choices. Within a family each test is made at the full error only if all
before it passed, so that the family's first wrong claim is made with that probability at most (Maurer, Hothorn and
Lehmacher 1995); families share the error equally.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, log10
from statistics import NormalDist

import numpy as np
import polars as pl

from replay.analyses.tune.goals import Goal, Limit
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from toolkit.columns import metric_column
from toolkit.stats import paired_interval

NORMAL = NormalDist()
ERROR, POWER = 0.05, 0.8
"""Probability at most of a setting that breaks the goal among those that pass; that of passing, to plan for."""
MOST_QUESTIONS = 10_000_000


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
        values = tuple(
            {name: part[column].cast(pl.Float64).to_numpy() for name, part in by_policy.items()} for column in columns
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
                if name != self.baseline and any(low < 0 for low, _ in self._beyond(name, shares)):
                    break
                passed[family].append(name)
        return passed

    def families(self, tested: Mapping[str, Sequence[str]]) -> int:
        """Number of families that have a setting to test, which share the error."""
        return max(1, sum(any(name != self.baseline for name in members) for members in tested.values()))

    def _beyond(self, name: str, families: int) -> list[tuple[float, float]]:
        """Slack of a policy at each limit: the lower limit of the slack, and its estimate."""
        settings = replace(self.result.summariser.settings, level=1 - 2 * ERROR / families)
        pairs = []
        for limit, values in zip(self.limits, self.values, strict=True):
            sign = 1 if limit.sign == ">=" else -1
            one, base = (sign * values[who] for who in (name, self.baseline))
            interval = paired_interval(one, base, cluster=self.cluster, settings=settings)
            low = -np.inf if interval.low is None else interval.low
            pairs.append((low - sign * limit.number, (interval.difference or 0.0) - sign * limit.number))
        return pairs

    def questions(self, name: str, families: int) -> int | None:
        """The approximate number of questions that would show that a policy keeps to the limits; None where none would.

        (z_(1 - error) + z_(power))² V / δ² for a difference that is δ within its limit.
        """
        needed, level = 0.0, NORMAL.inv_cdf(1 - ERROR / families)
        for low, estimate in self._beyond(name, families):
            if estimate <= 0 or not np.isfinite(low):
                return None
            error = (estimate - low) / level
            needed = max(needed, len(self.cluster) * (error * (level + NORMAL.inv_cdf(POWER)) / estimate) ** 2)
        digits = 10 ** (int(log10(max(needed, 1))) - 1)
        return None if needed > MOST_QUESTIONS else ceil(needed / max(digits, 1)) * max(int(digits), 1)


def _column(result: Result, limit: Limit) -> str | None:
    """The column of outcomes whose mean a limit is on; None of any other metric."""
    column = metric_column(limit.metric, result.columns)
    return None if column.computed or column.family else column.name
