"""Policies shown to keep to a limit, by a fixed sequence of one-sided tests from the most expensive to the cheapest.

The cheapest policy whose estimate keeps to a limit is often one that chance lifted: with several to choose from the
promise is broken by a fifth to a half of such choices. Within a family each test is made at the full error only if all
before it passed, so that the family's first wrong claim is made with that probability at most (Maurer, Hothorn and
Lehmacher 1995); families share the error equally.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import polars as pl

from replay.runs.passes.example_set import resampling_units
from replay.runs.saved.findings import Findings
from toolkit.columns import OutcomeColumn, metric_column
from toolkit.errors import EmptyError
from toolkit.show.ranking.ranking import WithinMargin
from toolkit.stats import summarise
from toolkit.stats.limits.planning import NeededQuestions, difference_variance, questions_in_clusters
from toolkit.stats.metrics.outcomes import join_stores
from toolkit.stats.metrics.resamples import fewest_examples

ERROR = 0.05
"""The highest probability that some policy passes and yet breaks a limit."""
POINT = 0.01
"""The margin if none is named."""
CLOSE = 1e-12


@dataclass(frozen=True)
class MetricLimit:
    """A limit on a metric: at least (`>=`) or at most (`<=`) a number, or the baseline's plus or times one."""

    metric: str
    sign: str
    number: float
    relative: str = ""  # "", "+" or "*" of the baseline

    def bound_for_baseline(self, baseline: float | None) -> float:
        """The number that the limit stands for; `baseline` is the baseline's value, for a limit relative to it."""
        if not self.relative:
            return self.number
        if baseline is None:
            raise EmptyError(f"`{self.metric}` of the baseline has no value on the development rows")
        return baseline + self.number if self.relative == "+" else baseline * self.number

    def keeps_to_limit(self, value: float | None, bound: float) -> bool:
        """Whether a value keeps to the limit; an unknown value does not."""
        if value is None:
            return False
        return value >= bound - CLOSE if self.sign == ">=" else value <= bound + CLOSE

    @property
    def allowed_loss(self) -> float:
        """The loss that the limit allows, if it is the baseline plus a number."""
        return self.number * (-1 if self.sign == ">=" else 1)


@dataclass(frozen=True)
class PassingPolicies:
    """The policies that pass, by family, from the most expensive to the cheapest.

    With them: the lower limit, by the first limit, of each difference that was tested and keeps to the limits; and how
    many families have a policy to test.
    """

    by_family: Mapping[str, Sequence[str]]
    low: Mapping[str, float]
    families: int


@dataclass(frozen=True, eq=False)
class PromiseTests:
    """The tests of a promise: each policy's difference to the baseline, against every limit relative to that."""

    limits: tuple[MetricLimit, ...]
    result: Findings

    @classmethod
    def tests_of_limits(cls, limits: Sequence[MetricLimit], result: Findings) -> PromiseTests | None:
        """The promise on those limits that are relative to the baseline, on a mean over examples; None without any."""
        able = tuple(limit for limit in limits if limit.relative == "+" and is_mean(_limited_column(result, limit)))
        return cls(able, result) if able and result.baseline is not None else None

    @property
    def baseline(self) -> str:
        return str(self.result.baseline)

    def policies_that_pass(self, families: Mapping[str, Sequence[str]], cost: Mapping[str, float]) -> PassingPolicies:
        """The policies that pass their tests. The baseline passes, and a policy that costs more is not tested."""
        tested, shares = affordable_dearest_first(families, cost, self.baseline)
        able = policies_before_failure(
            tested, {self.baseline, *self.policies_likely_to_pass()}
        )  # a limit is no farther than the estimate
        names = [name for members in able.values() for name in members if name != self.baseline]
        low = self._lower_limits(names, shares) if names else {}
        return PassingPolicies(policies_before_failure(tested, {self.baseline, *low}), low, shares)

    def policies_likely_to_pass(self) -> set[str]:
        """The policies whose estimates keep to the limits."""
        value = {(p, m): e for p, m, e in self.result.summary.select("policy", "metric", "estimate").iter_rows()}
        bounds = [(limit, limit.bound_for_baseline(value.get((self.baseline, limit.metric)))) for limit in self.limits]
        names = self.result.summariser.names
        return {
            name
            for name in names
            if all(limit.keeps_to_limit(value.get((name, limit.metric)), b) for limit, b in bounds)
        }

    def _lower_limits(self, names: Sequence[str], families: int) -> dict[str, float]:
        """Lower limits, by the first limit, of the differences of those policies that keep to every limit; differences
        are turned so that more is better. With too few questions for a loss only gains keep to a limit.
        """
        summariser, names = self.result.summariser, [self.baseline, *names]
        settings = replace(summariser.settings, level=1 - 2 * ERROR / families)
        places = [summariser.names.index(name) for name in names]
        columns = [_limited_column(self.result, limit) for limit in self.limits]
        keys = dict.fromkeys(column.name for column in columns)
        store = join_stores([(summariser.outcomes.statistics(), places)], list(keys), 0)
        tables = summarise(
            store, names, baseline=self.baseline, leaders=(), columns=summariser.columns, ranked=False,
            settings=settings,
        ).comparisons  # fmt: skip
        sure: list[dict[str, float]] = []
        units = resampling_units(self.result.examples).n_unique()
        for limit, fewest in zip(self.limits, self._fewest_questions(), strict=True):
            ends = tables.filter(metric=limit.metric, baseline=self.baseline).drop_nulls("low")
            end = pl.col("low") if limit.sign == ">=" else -pl.col("high")
            enough = (pl.col("end") > 0) | (units >= fewest)
            rows = ends.select("policy", end=end).filter(pl.col("end") >= -limit.allowed_loss, enough)
            sure.append(dict(rows.iter_rows()))
        return {name: low for name, low in sure[0].items() if all(name in one for one in sure)}

    def _fewest_questions(self) -> list[int]:
        """The fewest questions that rule out so large a loss of a share, by limit; 0 where none is allowed, or of no
        share.
        """
        able = [limit.allowed_loss if _limited_column(self.result, limit).share else 0.0 for limit in self.limits]
        return [(fewest_examples(min(allowed, 0.999)) or 0) if allowed > 0 else 0 for allowed in able]

    def questions_to_keep_limits(self, name: str, families: int) -> NeededQuestions | None:
        """How many questions would show that a policy keeps to the limits; None where no number would."""
        examples = self.result.examples.sort("example_id")
        units, strata = self.result.summariser.outcomes.examples.resampling_units(examples)
        weight = None if strata is None else strata.weight
        columns = [_limited_column(self.result, limit).name for limit in self.limits]
        one, base = (
            self.result.outcomes_of(policy).select("example_id", *dict.fromkeys(columns)).collect().sort("example_id")
            for policy in (name, self.baseline)
        )
        clusters, numbers = int(units.max()) + 1, []
        for fewest, limit, column in zip(self._fewest_questions(), self.limits, columns, strict=True):
            difference = (one[column].cast(pl.Float64) - base[column].cast(pl.Float64)).to_numpy()
            gain = difference * (1 if limit.sign == ">=" else -1)
            variance = difference_variance(gain, cluster=units, strata=strata)
            mean = float(np.nanmean(gain if weight is None else gain * weight))
            fewest = questions_in_clusters(fewest, len(units), clusters)
            needed = variance.questions_to_rule_out_loss(mean, limit.allowed_loss, fewest, 1 - 2 * ERROR / families)
            if needed is None:
                return None
            numbers.append(needed)
        return max(numbers, key=lambda one: one.number)


def affordable_dearest_first(
    families: Mapping[str, Sequence[str]], cost: Mapping[str, float], baseline: str
) -> tuple[dict[str, list[str]], int]:
    """The policies of each family that cost at most as much as the baseline, in the order of their tests; and how many
    families, which share the error, have a policy to test.
    """
    most = cost.get(baseline, np.inf)
    tested = {
        family: sorted((member for member in members if cost.get(member, np.inf) <= most), key=lambda one: -cost[one])
        for family, members in families.items()
    }
    return tested, max(1, sum(any(one != baseline for one in members) for members in tested.values()))


def policies_before_failure(sequences: Mapping[str, Sequence[str]], passing: Collection[str]) -> dict[str, list[str]]:
    """The policies of each sequence up to the first that is not in `passing`."""
    return {family: [*takewhile(passing.__contains__, members)] for family, members in sequences.items()}


def _limited_column(result: Findings, limit: MetricLimit) -> OutcomeColumn:
    return metric_column(limit.metric, result.columns)


def is_mean(column: OutcomeColumn) -> bool:
    """Whether a metric is the mean of a column of outcomes."""
    return not (column.computed or column.family)


NAMES = frozenset({"name", "label", "sweep", "sweep_size", "swept"})
"""Settings that only name a policy."""


def policy_families(result: Findings) -> dict[str, list[str]]:
    """The policies of a result in families: sweeps, and policies that differ in numbers alone; without diagnostics."""
    families: dict[tuple[str, str], list[str]] = {}
    for policy in result.policies:
        if not policy.diagnostic:
            swept = policy.sweep != policy.name
            key = (policy.sweep, "") if swept else ("", repr(_setting_without_numbers(policy.settings)))
            families.setdefault(key, []).append(policy.name)
    return {sweep or " … ".join(dict.fromkeys((names[0], names[-1]))): names for (sweep, _), names in families.items()}


def _setting_without_numbers(setting: Any) -> Any:
    if isinstance(setting, Mapping):
        return {key: _setting_without_numbers(value) for key, value in setting.items() if key not in NAMES}
    if isinstance(setting, list | tuple):
        return [_setting_without_numbers(value) for value in setting]
    return 0 if isinstance(setting, int | float) and not isinstance(setting, bool) else setting


_WITHIN: WeakKeyDictionary[Findings, dict[tuple[float, str], WithinMargin | None]] = WeakKeyDictionary()


def within_margin(result: Findings, margin: float | None, cost: str) -> WithinMargin | None:
    """The policies that cost less than the baseline, and which of them are shown to be within a margin of it in the
    ranking metric; None without a baseline, if that metric is no share, or if none costs less. `cost`: a metric.
    """
    known, key = _WITHIN.setdefault(result, {}), (POINT if margin is None else margin, cost)
    if key not in known:
        known[key] = _policies_within(result, *key)
    return known[key]


def _policies_within(result: Findings, margin: float, metric: str) -> WithinMargin | None:
    quality, baseline = metric_column(result.summariser.metric, result.columns), str(result.baseline)
    promise = PromiseTests.tests_of_limits([MetricLimit(str(quality.metric), ">=", -margin, "+")], result)
    paid = dict(result.summary.filter(metric=metric).drop_nulls("estimate").select("policy", "estimate").iter_rows())
    if promise is None or not quality.share or quality.cost or baseline not in paid:
        return None
    families = policy_families(result)
    names = [name for members in families.values() for name in members]
    cost = {name: paid[name] for name in names if name == baseline or paid.get(name, np.inf) < paid[baseline]}
    if len(cost) < 2:
        return None
    passed = promise.policies_that_pass(families, cost)
    sure = [name for members in passed.by_family.values() for name in members if name != baseline]
    policy = min(sure, key=lambda name: cost[name], default=None)
    likely = min((name for name in cost if name in promise.policies_likely_to_pass()), key=lambda name: cost[name])
    estimated = None if likely in (policy, baseline) else likely
    needed = None if estimated is None else promise.questions_to_keep_limits(estimated, passed.families)
    return WithinMargin(margin, policy, None if policy is None else passed.low[policy], estimated, needed)
