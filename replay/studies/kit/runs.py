"""Runs of a study: policies that a log can serve, replayed together, with what others lack; differences at once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from replay.data.contents import Contents
from replay.policies.base import Policy
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit import cells
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect
from toolkit.show import IntervalCell
from toolkit.stats import Settings, interval, intervals, paired_interval, simultaneous_level, unit_numbers
from toolkit.stats.limits.intervals import ResampledValues

_MOST_RESAMPLES = 10_000
"""Resamples that joint limits take where fewer could not tell a difference from 0."""
Pair = tuple[str, str]
"""A policy and the one that it is compared with."""


@dataclass(frozen=True, eq=False)
class StudyRun:
    """A run of policies on one data set. `missing`: those that the log cannot serve, each with the reason."""

    result: Result | None = None
    missing: Mapping[str, str] = field(default_factory=dict)
    _joint: dict[tuple[str, float, tuple[Pair, ...]], dict[Pair, IntervalCell]] = field(
        default_factory=dict, init=False
    )

    @property
    def policies(self) -> list[str]:
        return [] if self.result is None else [policy.name for policy in self.result.policies]

    def has(self, *names: str) -> bool:
        """Whether all of these policies were replayed."""
        return set(names) <= set(self.policies)

    def cell(self, policy: str, metric: str, scale: float = 1.0) -> IntervalCell | None:
        """Returns estimate and interval of a policy's metric, times `scale`; None where it is unknown."""
        return None if self.result is None else cells.cell(self.result.statistics, policy, metric, scale)

    def differences(
        self, metric: str, pairs: Iterable[Pair], scale: float = 1.0, *, share: float = 1.0
    ) -> dict[Pair, IntervalCell]:
        """Returns the difference of each pair that was replayed; their limits hold for all of them at once, but for the
        `share` of the error that the level allows.
        """
        known = [pair for pair in dict.fromkeys(pairs) if self.has(*pair)]
        if self.result is None or not known or metric not in set(self.result.summary["metric"]):
            return {}
        key = metric, share, tuple(known)
        if key not in self._joint:
            summariser = self.result.summariser
            settings = replace(summariser.settings, level=1 - share * (1 - summariser.settings.level))
            at_level = replace(summariser, settings=settings)
            rows = at_level.joint_differences(metric, known).drop_nulls("difference").iter_rows()
            self._joint[key] = {(one, other): IntervalCell(*ends) for one, other, *ends, _ in rows}
        return {pair: cell.scaled(scale) for pair, cell in self._joint[key].items()}

    def relative_gain(self, policy: str, against: str) -> IntervalCell | None:
        """Returns by how many percent of the other's a policy's accuracy is higher, 100 · (m/m₁ − 1), with the interval
        of the ratio from the same resamples.
        """
        means = [self.cell(name, "accuracy") for name in (policy, against)]
        if self.result is None or None in means or not means[1] or not means[1].estimate or not means[0]:
            return None
        at = [self.policies.index(name) for name in (policy, against)]
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = 100 * (self._resampled[at[0]] / self._resampled[at[1]] - 1)
        ordered = ResampledValues.of(np.where(np.isfinite(drawn), drawn, np.nan)[None])
        estimate = 100 * (means[0].estimate / means[1].estimate - 1)
        if not ordered.has_enough[0]:
            return IntervalCell(estimate)
        low, high = ordered.percentile_limits(self.result.provenance["level"])
        return IntervalCell(estimate, float(low[0]), float(high[0]))

    @cached_property
    def _resampled(self) -> np.ndarray:
        return np.zeros((0, 0)) if self.result is None else self.result.summariser.resampled_values("accuracy")

    @cached_property
    def _outcomes(self) -> pl.DataFrame:
        return pl.DataFrame() if self.result is None else collect(self.result.outcomes).sort("policy", "example_id")

    @property
    def ids(self) -> pl.Series:
        """The ids of the examples compared (E,), sorted."""
        return pl.Series(dtype=pl.String) if self.result is None else self.result.examples["example_id"].sort()

    @cached_property
    def unit(self) -> np.ndarray:
        """The number of what each example is resampled with (E,)."""
        return np.zeros(0, int) if self.result is None else example_units(self.result.examples.sort("example_id"))

    def values(self, policy: str, column: str = "correct", on: pl.Series | None = None) -> np.ndarray:
        """Returns an outcome column of a policy (E,), in the order of `ids`, or of the ids `on`; NaN on examples that
        are not compared, and all NaN where no policy has it.
        """
        return self._column(policy, column, on).cast(pl.Float64).fill_null(np.nan).to_numpy()

    def texts(self, policy: str, column: str, on: pl.Series | None = None) -> pl.Series:
        """Returns an outcome column of a policy (E,) as texts, such as its answers, in the order of `ids`, or of the
        ids `on`; null on examples that are not compared.
        """
        return self._column(policy, column, on).cast(pl.String)

    def _column(self, policy: str, column: str, on: pl.Series | None) -> pl.Series:
        rows = self._outcomes.filter(pl.col("policy") == policy)
        values = rows[column] if column in rows.columns else pl.Series([None] * len(rows), dtype=pl.Float64)
        if on is None:
            return values
        known = pl.DataFrame({"example_id": rows["example_id"], "value": values})
        return on.to_frame("example_id").join(known, on="example_id", how="left", maintain_order="left")["value"]


def differences_of_runs(metric: str, pairs: Mapping[Pair, StudyRun], scale: float = 1.0) -> dict[Pair, IntervalCell]:
    """Returns the difference of each pair within the run that it stands in; their limits hold for all of them at once:
    the runs, which may be of unlike examples, share the error that the level allows by their numbers of pairs.
    """
    known = {pair: one for pair, one in pairs.items() if one.has(*pair)}
    cells: dict[Pair, IntervalCell] = {}
    for each in dict.fromkeys(known.values()):
        of_run = [pair for pair, one in known.items() if one is each]
        cells |= each.differences(metric, of_run, scale, share=len(of_run) / len(known))
    return cells


def example_units(examples: pl.DataFrame) -> np.ndarray:
    """The number of what each example is resampled with (E,): its cluster, else itself."""
    return unit_numbers(resampling_units(examples))


def replay_covered_policies(log: Log, contents: Contents, policies: Sequence[Policy], **options: Any) -> StudyRun:
    """Replays the policies that the log can serve; the others are missing, each with the reason."""
    missing: dict[str, str] = {}
    resolved = []
    for policy in policies:
        try:
            policy.resolve(contents)
            resolved.append(policy)
        except ThinkbackError as error:
            missing[policy.name] = error.reason or str(error)
    if not resolved:
        return StudyRun(missing=missing)
    try:
        result = run(log, resolved, **options)
    except ThinkbackError as error:
        return StudyRun(missing=missing | {one.name: str(error) for one in resolved})
    return StudyRun(result, missing | dict(result.dropped))


def mean_cell(values: np.ndarray, unit: np.ndarray, settings: Settings, scale: float = 100.0) -> IntervalCell | None:
    """Returns the mean of one value an example (E,) with its interval, times `scale`; None where none is known."""
    if not len(values) or np.isnan(values).all():
        return None
    return cells.interval_cell(interval(values, cluster=unit, settings=settings), scale)


def mean_cells(
    columns: Mapping[str, np.ndarray], unit: np.ndarray, settings: Settings, scale: float = 100.0, *, rate: bool = True
) -> dict[str, IntervalCell | None]:
    """Returns the mean of each column (E,) with its interval, times `scale`; None where it has no value. `rate`:
    whether values are of yes and no, else of a quantity, as a count or Δ, even if that is 0 or 1 everywhere.
    """
    known = {name: values for name, values in columns.items() if len(values) and not np.isnan(values).all()}
    means = intervals(known, cluster=unit, settings=settings, rate=rate) if known else {}
    return {name: cells.interval_cell(means.get(name), scale) for name in columns}


def joint_cells(
    pairs: Mapping[Any, tuple[np.ndarray, np.ndarray]],
    unit: np.ndarray,
    settings: Settings,
    scale: float = 100.0,
    *,
    rate: bool = True,
) -> dict[Any, IntervalCell]:
    """Returns the paired difference of each pair of columns (E,), times `scale`; their limits hold for all at once.
    `rate`: as for `mean_cells`.

    The p-value of a single difference is at least 2 / (B + 1) of B resamples, and limits leave 0 out where it is below
    1 − level: so there are as many resamples as the level of all together takes.
    """
    known = {key: pair for key, pair in pairs.items() if len(unit) and not np.isnan(pair[0] - pair[1]).all()}
    if not known:
        return {}
    level = simultaneous_level([one - other for one, other in known.values()], cluster=unit, settings=settings)
    enough = min(math.ceil(2 / (1 - level)), _MOST_RESAMPLES)
    at_level = replace(settings, level=level, resamples=max(settings.resamples, enough))
    intervals = {key: paired_interval(*pair, cluster=unit, settings=at_level, rate=rate) for key, pair in known.items()}
    return {key: one for key, each in intervals.items() if (one := cells.interval_cell(each, scale)) is not None}
