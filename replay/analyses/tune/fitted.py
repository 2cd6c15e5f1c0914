"""Replaying policies of which some cannot be fitted or replayed; prediction sets by class; the results of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from replay.data.conditions import examples_where
from replay.data.contents import read_contents
from replay.kinds.sample import Sample, coverage_policy
from replay.runs.passes.learning import fit_policies
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.sampling.learned import Conformal
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect
from toolkit.stats import Summary


@dataclass(frozen=True)
class ClassCoverage:
    """The prediction sets of a policy on the examples of one class; `threshold` None: every set has the class."""

    policy: str
    alpha: float
    label: str
    threshold: float | None
    part: Summary


def run_fitted(log: Log, policies: Sequence[Sample], **options: Any) -> tuple[Result | None, tuple[str, ...]]:
    """Replay policies; those that cannot be fitted on their development rows are left out, with a line on each.

    `options` goes to `replay.run`. Without a result, the first reason is why nothing can be replayed.
    """
    try:
        return run(log, policies, **options), ()
    except ThinkbackError as error:
        failing = _unfittable_policies(log, policies, options.get("where"))
        if not failing:
            return None, (str(error),)
    try:
        others = [policy for policy in policies if policy.name not in failing]
        return run(log, others, **options), tuple(failing.values())
    except ThinkbackError as error:
        return None, (str(error), *failing.values())


def _unfittable_policies(log: Log, policies: Sequence[Sample], where: str | None) -> dict[str, str]:
    """The policies that cannot be fitted on their development rows, each with the reason."""
    contents, reported = read_contents(log), examples_where(log, where)["example_id"]
    failing = {}
    for policy in policies:
        try:
            fit_policies(log, contents, [policy.resolve(contents)], reported)
        except ThinkbackError as error:
            failing[policy.name] = str(error)
    return failing


def class_coverage(log: Log, result: Result) -> Iterator[ClassCoverage]:
    """The prediction sets of a run on the examples of each class that has any."""
    gold = collect(log.scan("examples", ["example_id", "gold"]), log)
    compared = gold.filter(pl.col("example_id").is_in(result.examples["example_id"].implode()))
    parts: dict[str, Summary] = {}
    for policy in result.replayed:
        sets = next((learnt for learnt in policy.learned_settings if isinstance(learnt, Conformal)), None)
        if sets is None or sets.fit is None:
            continue
        for label, threshold in sets.fit.items():
            ids = compared.filter(pl.col("gold") == label)["example_id"]
            if ids.is_empty():
                continue
            if label not in parts:
                parts[label] = result.summariser.summary(ids)
            known = threshold if np.isfinite(threshold) else None
            yield ClassCoverage(policy.name, sets.alpha, label, known, parts[label])


ESTIMATE_COLUMNS = ("estimate", "low", "high")


@dataclass(frozen=True)
class SettingSweep:
    """The results of policies by their settings, as a `table`: the settings, metric, estimate, low, high; the last
    three are null where the log does not cover the policy.

    `missing`: by policy, why its numbers are null. `result`: None where nothing could be replayed.
    """

    table: pl.DataFrame
    result: Result | None
    missing: Mapping[str, str] = field(default_factory=dict)


def sweep(
    log: Log,
    settings: Mapping[str, Any],
    tried: Iterable[tuple[tuple[Any, ...], Sample]],
    metrics: Sequence[str],
    pool: str,
    **options: Any,
) -> SettingSweep:
    """Replay policies, each with the values of its `settings`, whose data types are given.

    Compared on the examples that have any trace of the `pool`; `options` goes to `replay.run`.
    """
    policies, rows = [], []
    for values, policy in tried:
        policies.append(policy)
        rows.append((policy.name, *values))
    columns = (*settings, "metric", *ESTIMATE_COLUMNS)
    table = pl.DataFrame(rows, schema={"policy": pl.String, **settings}, orient="row").join(
        pl.DataFrame({"metric": metrics}), how="cross", maintain_order="left_right"
    )
    try:
        result = run(log, [*policies, coverage_policy(pool)], **options)
    except ThinkbackError as error:
        null = {name: pl.lit(None, pl.Float64) for name in ESTIMATE_COLUMNS}
        missing = dict.fromkeys((policy.name for policy in policies), str(error))
        return SettingSweep(table.with_columns(**null).select(columns), None, missing)
    estimates = table.join(result.summary, on=["policy", "metric"], how="left", maintain_order="left").select(columns)
    return SettingSweep(estimates, result, dict(result.dropped))
