"""The outcomes of a run's policies, example by example: paired differences, and means over some of the examples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from replay.runs.example_set import resampling_units
from replay.runs.gate_sweep import CURVE
from replay.runs.result import Result
from replay.studies.kit.cells import cell
from toolkit.show import ShownInterval
from toolkit.stats import Settings, interval, paired_interval, paired_reduction

VALUES = (*CURVE, "finalizers", "truncated")
"""Columns of outcomes that are read."""


@dataclass(frozen=True, eq=False)
class RunOutcomes:
    """A run, with the values of each of its policies on every example."""

    result: Result

    @property
    def policies(self) -> tuple[str, ...]:
        """Names of the policies that were served."""
        return tuple(policy.name for policy in self.result.policies)

    @property
    def settings(self) -> Settings:
        """How intervals are made."""
        made = self.result.provenance
        return Settings(resamples=made["resamples"], level=made["level"], seed=made["seed"])

    @cached_property
    def cluster(self) -> np.ndarray:
        """Resampling unit of each example (N,), in the order of the outcomes."""
        return resampling_units(self.result.examples).to_numpy()

    def values(self, policy: str) -> dict[str, np.ndarray]:
        """Columns of a policy's outcomes (N,), by example_id; NaN where they are not known."""
        if policy not in self._read:
            frame = self.result.outcomes.filter(pl.col("policy") == policy).select(VALUES).collect()
            self._read[policy] = {c: frame[c].fill_null(np.nan).to_numpy() for c in VALUES}
        return self._read[policy]

    @cached_property
    def _read(self) -> dict[str, dict[str, np.ndarray]]:
        """What was read so far, by policy."""
        return {}

    def mean(self, policy: str, column: str, scale: float = 1.0) -> float | None:
        """Mean of a column; None where some value is not known."""
        return mean(self.values(policy)[column], scale)

    def mean_on(self, policy: str, column: str, on: np.ndarray) -> ShownInterval | None:
        """Mean of a column over some of the examples (N,) bool, with its interval."""
        found = interval(self.values(policy)[column][on], cluster=self.cluster[on], settings=self.settings)
        return ShownInterval.of((found.estimate, found.low, found.high))

    def paired(
        self, first: str, second: str, column: str = "correct", scale: float = 1.0
    ) -> tuple[ShownInterval | None, float | None]:
        """Difference of the means of two policies times `scale`, with its interval, and its p-value."""
        one, two = self.values(first)[column], self.values(second)[column]
        found = paired_interval(one, two, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), scale), found.p_value

    def reduction(self, first: str, second: str, column: str) -> ShownInterval | None:
        """By how many percent the first policy's mean is lower; None where some value is not known."""
        one, two = self.values(first)[column], self.values(second)[column]
        if np.isnan(one).any() or np.isnan(two).any():
            return None
        found = paired_reduction(one, two, column, cluster=self.cluster, settings=self.settings)
        return ShownInterval.of((found.difference, found.low, found.high), 100)

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric of the run, times `scale`."""
        return cell(self.result.statistics, policy, metric, scale)


def mean(values: np.ndarray, scale: float = 1.0) -> float | None:
    """Mean of values times `scale`; None where one is not known."""
    return None if np.isnan(values).any() else scale * float(values.mean())
