"""Intervals of plain arrays, for users who have numbers rather than runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from toolkit.columns import OutcomeColumn, find
from toolkit.errors import InvalidError, MismatchError
from toolkit.stats.bootstrap.bootstrap import add_products, product_threads
from toolkit.stats.limits.discordant import exact_p_value
from toolkit.stats.limits.intervals import ZERO
from toolkit.stats.many.compare import Summary, summarise
from toolkit.stats.metrics.outcomes import CHUNK, OutcomeBlock, Store
from toolkit.stats.metrics.resamples import MOST_RESAMPLES, Resamples, Settings
from toolkit.stats.metrics.spill import Floats, Ints
from toolkit.stats.metrics.strata import Strata


@dataclass(frozen=True)
class Interval:
    """A mean with its interval; None: no value, or no interval. `method`: percentile, bca, wilson, korn-graubard, t or
    None.
    """

    estimate: float | None
    low: float | None
    high: float | None
    n: int
    method: str | None


@dataclass(frozen=True)
class PairedInterval:
    """A paired difference of means; `method`: percentile, bca, tango, newcombe, t or None.

    `gained`, `lost`: examples, or clusters by their sums, on which the first is more, on which the second is, of values
    from 0 to 1; `exact_p`: how likely a fair coin parts them so unevenly, McNemar's exact p-value of 0 and 1.
    """

    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    n: int
    method: str | None
    gained: int | None = None
    lost: int | None = None
    exact_p: float | None = None


def unit_numbers(cluster: ArrayLike) -> Ints:
    """Numbers the clusters from 0 in the order in which they first appear; gives each example its cluster's number."""
    _, first, number = np.unique(np.asarray(cluster), return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[number]


def interval(
    values: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
    rate: bool = True,
    strata: Strata | None = None,
) -> Interval:
    """The mean of `values` (one an example) with its interval, resampled by example or `cluster`; NaN is left out.

    `rate`: values that are 0 and 1 only with fewer than ten of either get Wilson's interval; without, a quantity's
    limits come from resamples alone. `strata`: of the examples, within which they are drawn, and what each counts.

    `interval([0] * 10)` has the limits 0 and 0.2775.
    """
    named = {"values": values}
    return intervals(named, cluster=cluster, settings=settings, rate=rate, strata=strata)["values"]


def intervals(
    columns: Mapping[str, ArrayLike],
    *,
    cluster: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
    rate: bool = True,
    strata: Strata | None = None,
) -> dict[str, Interval]:
    """The mean of each column (one value an example) with its interval, as `interval` gives it, from one pass over the
    resamples. `rate`, `strata`: as for `interval`.
    """
    read = {name: _value_column(values, name) for name, values in columns.items()}
    rates = {name: rate and bool((np.isnan(one) | (one == 0) | (one == 1)).all()) for name, one in read.items()}
    means: dict[str, Interval] = {}
    for is_rate in (True, False):
        alike = {name: one for name, one in read.items() if rates[name] == is_rate}
        if alike:
            result = _summarise_columns(alike, cluster, settings, OutcomeColumn("value", rate=is_rate), strata)
            rows = result.summary.select("policy", "estimate", "low", "high", "n", "method").iter_rows()
            means |= {name: Interval(*row) for name, *row in rows}
    return {name: means[name] for name in columns}


def paired_interval(
    first: ArrayLike,
    second: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
    strata: Strata | None = None,
    rate: bool = True,
) -> PairedInterval:
    """The mean of `first` minus that of `second` on the same examples, with interval and p-value.

    An example that lacks either value (NaN) is left out of both. `rate`: values from 0 to 1 are shares of what could
    be, whose few differences get score limits; without, a quantity's limits come from resamples alone. `strata`: as for
    `interval`.
    """
    one, two = _value_column(first, "first"), _value_column(second, "second")
    if len(one) != len(two):
        raise MismatchError(f"`first` has {len(one)} values and `second` {len(two)}: give one pair for each example")
    missing = np.isnan(one) | np.isnan(two)
    columns = {"first": np.where(missing, np.nan, one), "second": np.where(missing, np.nan, two)}
    result = _paired_result(
        _summarise_columns(columns, cluster, settings, OutcomeColumn("value", rate=rate), strata), "value"
    )
    if not rate or missing.all() or np.abs(np.stack([one, two])[:, ~missing]).max() > 1:
        return result
    move = np.where(missing, 0.0, one - two)
    if cluster is not None:
        move = np.bincount(unit_numbers(cluster), weights=move)
    gained, lost = int((move > ZERO).sum()), int((move < -ZERO).sum())
    return replace(result, gained=gained, lost=lost, exact_p=float(exact_p_value(gained, lost)))


def paired_reduction(
    first: ArrayLike,
    second: ArrayLike,
    metric: str,
    *,
    cluster: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
) -> PairedInterval:
    """The share of a cost that `first` saves against `second`. `metric`: its outcome column, e.g. `action_tokens`."""
    columns = {"first": _value_column(first, "first"), "second": _value_column(second, "second")}
    column = find(metric)
    return _paired_result(_summarise_columns(columns, cluster, settings, column), f"reduction:{column.metric}")


def simultaneous_level(
    differences: Sequence[ArrayLike],
    *,
    cluster: ArrayLike | None = None,
    settings: Settings = Settings(),  # noqa: B008 -- frozen
    strata: Strata | None = None,
) -> float:
    """The level of single intervals at which those of several column means (N,) all hold at `settings.level`.

    The critical value is the level-quantile of the largest studentised deviation over the columns, from the shared
    resamples (max-t: Romano and Wolf, Econometrica 73, 2005). Columns that are equal count as one; NaN is left out.
    `strata`: as for `interval`.
    """
    from scipy.special import ndtr

    columns = np.stack([_value_column(values, "differences") for values in differences])
    unit = np.arange(columns.shape[1]) if cluster is None else unit_numbers(cluster)
    known, units = ~np.isnan(columns), int(unit.max()) + 1
    if len(columns) == 1 or units < 2:
        return settings.level
    counts = np.ones(len(unit)) if strata is None or strata.weight is None else strata.weight
    parts = [*np.where(known, columns * counts, 0.0), *(known * counts)]
    sums = np.stack([np.bincount(unit, weights=part, minlength=units) for part in parts])
    stratum = None if strata is None else strata.number[np.unique(unit, return_index=True)[1]]
    resamples = Resamples(units, settings.resamples, settings.seed, stratum)
    drawn = np.zeros((len(parts), settings.resamples))
    with product_threads() as pool:
        for chunk, first in enumerate(range(0, units, CHUNK)):
            most_drawn = int(resamples.draws[:, chunk].max())
            add_products(
                drawn, sums[:, first : first + CHUNK].astype(float), resamples.counts_of_chunk(chunk), most_drawn, pool
            )
    with np.errstate(invalid="ignore", divide="ignore"):
        means, centre = (part[: len(columns)] / part[len(columns) :] for part in (drawn, sums.sum(axis=1)[:, None]))
        spread = np.nanstd(means, axis=1)
        moves = spread > 1e-12
        largest = np.nanmax(np.abs(means - centre)[moves] / spread[moves, None], axis=0, initial=0.0)
    raised = 2 * float(ndtr(np.quantile(largest, settings.level))) - 1
    return min(max(raised, settings.level), 1 - 1 / MOST_RESAMPLES)


def _value_column(values: ArrayLike, name: str) -> Floats:
    column = np.asarray(values, np.float64)
    if column.ndim != 1 or not len(column):
        raise MismatchError(f"`{name}` has shape {column.shape}: give one number for each example")
    if np.isinf(column).any():
        place = int(np.isinf(column).argmax())
        raise InvalidError(f"`{name}` is infinite at index {place}: give a number, or NaN where there is none")
    return column


def _summarise_columns(
    columns: dict[str, Floats],
    cluster: ArrayLike | None,
    settings: Settings,
    column: OutcomeColumn,
    strata: Strata | None = None,
) -> Summary:
    """A summary in which each plain column stands as a "policy" with one outcome column; the last is the baseline."""
    size = len(next(iter(columns.values())))
    unit = np.arange(size) if cluster is None else unit_numbers(cluster)
    if len(unit) != size:
        raise MismatchError(f"`cluster` has {len(unit)} entries for {size} examples: give one for each example")
    block = OutcomeBlock(np.array([""] * size, object), unit, {column.name: np.stack(list(columns.values()))})
    names = list(columns)
    ranking = replace(column, quality=True)  # what ranks has a row even where nothing is known
    store = Store.of_blocks(lambda: iter([block]), len(names), None, strata)
    return summarise(
        store, names, baseline=names[-1], leaders=names[-1:], metric=str(column.metric), ranked=False,
        columns=[ranking], settings=settings,
    )  # fmt: skip


def _paired_result(result: Summary, metric: str) -> PairedInterval:
    row = result.comparisons.filter(policy="first", baseline="second", metric=metric).row(0, named=True)
    return PairedInterval(row["difference"], row["low"], row["high"], row["p_value"], row["n"], row["method"])
