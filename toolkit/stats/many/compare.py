"""The two result tables, `summary` and `comparisons`, from blocks of outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from toolkit.columns import COLUMNS, OutcomeColumn
from toolkit.errors import UnknownError, argument, suggest
from toolkit.notes import Note
from toolkit.stats.bootstrap.fallback_intervals import choose_intervals
from toolkit.stats.bootstrap.pairs import PairCounts, count_pairs, is_identical
from toolkit.stats.bootstrap.sample import WholeSample, read_sample
from toolkit.stats.bootstrap.series import METHOD_NAMES, SeriesKind, SeriesPlan, SeriesResults, resampled_values
from toolkit.stats.many.ranks import NO_RANKS, RankedPolicies, ranks_of
from toolkit.stats.many.shared_differences import SharedDifferences
from toolkit.stats.many.simultaneous import RankRoles
from toolkit.stats.many.summary_notes import notes_of
from toolkit.stats.metrics.outcomes import Blocks, Store
from toolkit.stats.metrics.resamples import Settings
from toolkit.stats.metrics.spill import Floats, Ints

SUMMARY_SCHEMA = {
    "policy": pl.String, "metric": pl.String, "estimate": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "n": pl.Int64, "method": pl.String,
}  # fmt: skip
COMPARISONS_SCHEMA = {
    "policy": pl.String, "baseline": pl.String, "metric": pl.String, "difference": pl.Float64, "low": pl.Float64,
    "high": pl.Float64, "p_value": pl.Float64, "n": pl.Int64, "method": pl.String, "exact_p": pl.Float64,
    "identical": pl.Boolean,
}  # fmt: skip

ACCURACY = "accuracy"
"""The metric that ranks by default."""


@dataclass(frozen=True, eq=False)
class Summary:
    """The result tables of a run and the facts printed beside them.

    `summary`: policy, metric, estimate, low, high, n, method (of METHOD_NAMES; null without interval).
    `comparisons`: policy, baseline, metric, difference, low, high, p_value, n, method, exact_p (McNemar's,
    where fewer than ten examples differ, else null), identical (whether both made the same calls on every example).
    `metric`: what the policies are ranked by; `leader`: the best by it; `n`, `judged`: examples; `seconds`: the column
    that euros come from; `notes`: what must be said beside the tables; `ranks`: what is told of all policies at once
    (`toolkit.stats.many.ranks`), without rows where nothing is ranked.
    """

    summary: pl.DataFrame
    comparisons: pl.DataFrame
    metric: str
    leader: str | None
    n: int
    judged: int
    seconds: str | None
    notes: tuple[Note, ...]
    ranks: pl.DataFrame = field(default_factory=NO_RANKS.clone)


def summarise(
    outcomes: Blocks | Store,
    policies: Sequence[str],
    *,
    labels: Sequence[str] | None = None,
    baseline: str | None = None,
    leaders: Sequence[str] | None = None,
    also: Sequence[str] = (),
    metric: str = ACCURACY,
    cost: str | None = None,
    sweeps: Sequence[str] | None = None,
    ranked: bool = True,
    columns: Sequence[OutcomeColumn] = COLUMNS,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> Summary:
    """Computes the summary and the comparisons of policies on the same examples.

    `outcomes` are a store, or start the one pass over blocks of them. Every policy is compared with `baseline` (if any)
    and with the leader: the best by `metric`, then the lower cost, then the order given (`stats.metrics.order`), among
    `leaders` (default: all; leave out oracles, which see gold). The cost is the one that `cost` names, by default the
    first that is known. `sweeps`: the sweep of each policy, of which one is chosen; by default each is its own.
    `also`: others that every policy is compared with. `ranked`: whether the policies are ranked. `columns` says what
    the columns of outcomes mean.
    Raises ThinkbackError for unknown names, a metric that does not rank, blocks of the wrong shape, or no example.
    """
    base = [] if baseline is None else _policy_places(policies, [baseline])
    among = range(len(policies)) if leaders is None else _policy_places(policies, leaders)
    sample = read_sample(outcomes, policies, labels, settings, columns, metric)
    ranking = [one.name for one in sample.metrics if one.column.quality]
    if metric not in ranking and metric != ACCURACY:
        valued = [one.name for one, row in zip(sample.metrics, sample.estimates, strict=True) if np.isfinite(row).any()]
        ranking = [name for name in ranking if name in valued]
        raise UnknownError(f"policies cannot be ranked by `{metric}`: {suggest(metric, ranking)}")
    names = [one.name for one in sample.metrics]
    number, paid = names.index(metric) if metric in names else None, sample.cost_metric(among, columns, cost)
    leader = None if number is None else sample.best_policy(number, paid, among)
    references = list(dict.fromkeys([*base, *([] if leader is None else [leader]), *_policy_places(policies, also)]))
    pairs, same = count_pairs(sample, references), is_identical(sample, references)
    shared = SharedDifferences.of(sample, references)
    sample = shared.sample
    results = choose_intervals(sample, references, pairs, settings, shared.pair_sums(settings))
    shared.put_differences(results, settings)
    ranks = NO_RANKS
    if ranked and number is not None and leader is not None:
        standing = RankRoles(among, leader, base[0] if base else None)
        request = RankedPolicies(number, paid, standing, references.index(leader), sweeps or policies)
        ranks = ranks_of(sample, request, results, pairs, settings)
    return Summary(
        _summary_table(sample, results),
        _comparison_rows(sample, references, results, pairs, same, shared.counts),
        metric,
        None if leader is None else policies[leader],
        sample.units.examples,
        sample.judged,
        sample.seconds,
        tuple(notes_of(sample, results, references, settings)),
        ranks,
    )


def differences(
    outcomes: Blocks | Store,
    policies: Sequence[str],
    metric: str,
    groups: Sequence[Sequence[str]],
    *,
    labels: Sequence[str] | None = None,
    columns: Sequence[OutcomeColumn] = COLUMNS,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> pl.DataFrame:
    """Compares every two policies of each group by one metric, in rows like those of `Summary.comparisons`."""
    sample = read_sample(outcomes, policies, labels, settings, columns, metric)
    m, frames = _metric_number(sample, metric), [pl.DataFrame(schema=COMPARISONS_SCHEMA)]
    for group in groups:
        some = _policy_places(policies, group)
        rows = np.zeros((1, len(policies)), bool)
        rows[0, some] = sample.rows[m, some]
        of_group = replace(
            sample, metrics=(sample.metrics[m],), rows=rows, estimates=sample.estimates[[m]], counts=sample.counts[[m]]
        )
        pairs = count_pairs(of_group, some)
        shared = SharedDifferences.of(of_group, some)
        results = choose_intervals(shared.sample, some, pairs, settings, shared.pair_sums(settings))
        shared.put_differences(results, settings)
        same = is_identical(sample, some, some)
        frames.append(_comparison_rows(shared.sample, some, results, pairs, same, shared.counts))
    return pl.concat(frames)


def _metric_number(sample: WholeSample, metric: str) -> int:
    names = [one.name for one in sample.metrics]
    if metric not in names:
        raise UnknownError(f"unknown {argument('metric')} {metric!r}: {suggest(metric, names)}")
    return names.index(metric)


def resampled_metric(
    outcomes: Blocks | Store,
    policies: Sequence[str],
    metric: str,
    *,
    labels: Sequence[str] | None = None,
    columns: Sequence[OutcomeColumn] = COLUMNS,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> Floats:
    """The resampled values of one metric, (policies, resamples), NaN where a resample has none.

    The resamples are those of `summarise` with the same settings: columns belong together across policies and metrics.
    """
    sample = read_sample(outcomes, policies, labels, settings, columns, metric)
    number = _metric_number(sample, metric)
    only = SeriesPlan([sample.metrics[number]], sample.series_plan([]).valued[[number]], [], sample.scan)
    out = np.full((len(policies), settings.resamples), np.nan)
    if sample.units.count > 1:
        for owners, values in resampled_values(sample.units, only, settings):
            out[list(owners)] = values
    return out


def _policy_places(policies: Sequence[str], names: Sequence[str]) -> list[int]:
    for name in names:
        if name not in policies:
            raise UnknownError(f"no policy is called `{name}`: {suggest(name, policies)}")
    return [list(policies).index(name) for name in names]


def _name_column(names: Sequence[str], index: np.ndarray) -> pl.Series:
    return pl.Series(list(names), dtype=pl.String).gather(index)


def _numbers_or_null(values: Floats) -> pl.Series:
    return pl.Series(values, dtype=pl.Float64, nan_to_null=True)


def _method_column(numbers: np.ndarray) -> pl.Series:
    return pl.Series(METHOD_NAMES, dtype=pl.String).gather(numbers.astype(np.int64))


def _summary_table(sample: WholeSample, results: SeriesResults) -> pl.DataFrame:
    """The table `summary`: a row for each metric of each policy, policy after policy."""
    p, m = np.nonzero(sample.rows.T)
    columns = {
        "policy": _name_column(sample.policies, p),
        "metric": _name_column([metric.name for metric in sample.metrics], m),
        "estimate": _numbers_or_null(sample.estimates[m, p]),
        "low": _numbers_or_null(results.low[SeriesKind.VALUE, 0, m, p]),
        "high": _numbers_or_null(results.high[SeriesKind.VALUE, 0, m, p]),
        "n": pl.Series(sample.counts[m, p]),
        "method": _method_column(results.method[SeriesKind.VALUE, 0, m, p]),
    }
    return pl.DataFrame(columns, schema=SUMMARY_SCHEMA)


def _comparison_rows(
    sample: WholeSample, references: Sequence[int], results: SeriesResults, pairs: PairCounts, same: NDArray[np.bool_],
    numbers: Ints,
) -> pl.DataFrame:  # fmt: skip
    """Policy after policy, reference after reference; differences, then reductions, metric after metric. `numbers`: of
    how many examples each is, (references, metrics, policies).
    """
    size = len(sample.policies)
    against = np.array(references, np.int64)
    both = sample.rows.T[:, None, :] & sample.rows.T[against][None]  # (policies, references, metrics)
    both &= (np.arange(size)[:, None] != against)[:, :, None]
    reducible = np.array([metric.column.cost for metric in sample.metrics], bool)
    p, r, reduced, m = np.nonzero(np.stack([both, both & reducible], axis=2))
    series = (np.array([SeriesKind.DIFFERENCE, SeriesKind.REDUCTION])[reduced], r, m, p)
    value = results.value[series]
    missing = np.isnan(value)

    def column(values: Floats) -> pl.Series:
        return _numbers_or_null(np.where(missing, np.nan, values[series]))

    names = [metric.name for metric in sample.metrics]
    columns = {
        "policy": _name_column(sample.policies, p),
        "baseline": _name_column(sample.policies, against[r]),
        "metric": _name_column([*names, *(f"reduction:{name}" for name in names)], m + len(names) * reduced),
        "difference": _numbers_or_null(value),
        "low": column(results.low),
        "high": column(results.high),
        "p_value": column(results.p_value),
        "n": pl.Series(numbers[r, m, p]),
        "method": _method_column(np.where(missing, 0, results.method[series])),
        "exact_p": _numbers_or_null(
            np.where(reduced | np.isnan(results.p_value[series]), np.nan, pairs.exact_p[r, m, p])
        ),
        "identical": pl.Series(same[r, p]),
    }
    return pl.DataFrame(columns, schema=COMPARISONS_SCHEMA)
