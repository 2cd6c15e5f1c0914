"""Published against simulated: the numbers that a simulation was fitted to, and how near they should lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import copysign, hypot, sqrt
from statistics import fmean
from typing import Any

import polars as pl

from replay.analyses.budgets.budgets import ORDERS, budgets
from replay.analyses.budgets.pool_depth import shares_with_gold_trace
from replay.analyses.budgets.surrogate_keys import macro_f1_gaps
from replay.data.conditions import TEST
from replay.studies.factcheck.published import (
    BUDGETS,
    CAP,
    ORDER_COLUMNS,
    WORK,
    PublishedPool,
    bucket_keys,
    published,
    published_pools,
)
from replay.studies.factcheck.runs import ADAPTIVE, BEST, SURROGATE, FactcheckSetting, Methods, replay_methods
from replay.studies.kit.cells import cell
from replay.studies.kit.published import PublishedDataset, read_published
from toolkit.errors import InvalidError, argument
from toolkit.features import CLAIM_FEATURES
from toolkit.log import Log
from toolkit.show import SIMULATED, IntervalCell, Number, Table, TableColumn, Tick, Words

ERRORS = 2.0
"""No number may lie further off than so many sampling errors of the published one."""


@dataclass(frozen=True)
class KnownMisfit:
    """A fitted number that is known to be too far off: simulated minus published, with the reason."""

    difference: float
    why: str


FIT = read_published(f"{WORK.name}_simulated")
"""The numbers that the simulations were fitted to: the file of the work's `data` that ends with `_simulated`.

Rows of published tables by the run that they are of, and their columns by name, with distances: points, or `percent` of
the published number; `relaxed`: data sets for which all are so many times as far.
"""
KNOWN = {tuple(key): KnownMisfit(off, FIT["known_because"][why]) for *key, off, why in FIT["known"]}
"""Numbers that lie further off in the log of seed 0: by data set, table, method and what they are."""


@dataclass(frozen=True)
class _CheckedValue:
    """One number, published and simulated; `distance` is the largest difference allowed, in its own unit.

    `error`: the published number's sampling error, at its number of claims. `known`: that it lies further off.
    """

    table: str
    method: str
    what: str
    published: float
    simulated: float
    distance: float
    error: float | None = None
    known: KnownMisfit | None = None

    @property
    def difference(self) -> float:
        return self.simulated - self.published

    @property
    def is_within(self) -> bool:
        return abs(self.difference) <= self.distance + 1e-9

    @property
    def known_bound(self) -> float | None:
        """The largest difference allowed for a number that is known to be off: one sampling error beyond the known
        difference.
        """
        if self.known is None:
            return None
        return self.known.difference + copysign(self.error or 0.0, self.known.difference)

    @property
    def is_expected(self) -> bool:
        """Whether the number is close enough, or is off as known: on the same side and within its bound."""
        if self.is_within or self.known_bound is None:
            return self.is_within
        return self.difference * self.known_bound > 0 and abs(self.difference) <= abs(self.known_bound) + 1e-9


def _fitted_numbers(run: str, cells: Methods, numbers: PublishedDataset) -> Iterator[_CheckedValue]:
    """Yields the numbers of a run that the simulation was fitted to, where they are published and the log has them."""
    for row in FIT[run]:
        for method, of in product(row["methods"], FIT["columns"][row["columns"]]):
            published_value = numbers.number_in_row(row["table"], of["column"], method=method)
            value = cells.cell(method, of["metric"], cells.n if of.get("total") else of.get("scale", 1))
            if published_value is not None and value is not None:
                distance = of["percent"] / 100 * published_value if "percent" in of else of["distance"]
                error = _sampling_error(value)
                yield _CheckedValue(row["table"], method, of["what"], published_value, value.estimate, distance, error)


def with_allowed_distance(line: _CheckedValue, factor: float, known: KnownMisfit | None) -> _CheckedValue:
    """Returns a line with `factor` times its distance, but at most `ERRORS` sampling errors. `known` says that the
    number is known to fail.
    """
    distance = factor * line.distance
    if line.error is not None:
        distance = min(distance, ERRORS * line.error)
    return replace(line, distance=distance, known=known)


def _sampling_error(cell: IntervalCell | None) -> float | None:
    """The sampling error of a number, from its 95 % interval; None where it has no interval or does not vary."""
    if cell is None or cell.low is None or cell.high is None or cell.high <= cell.low:
        return None
    return (cell.high - cell.low) / (2 * 1.959964)


def _share_error(share: float, n: int) -> float:
    """The sampling error of a share of n examples, in percent."""
    return 100 * sqrt(share * (1 - share) / n)


WHICH = tuple(TableColumn(name) for name in ("table", "method", "number"))
"""Columns that name the number of a row."""


def fitted_numbers_table(lines: list[_CheckedValue], title: str) -> Table:
    """Tabulates the published and simulated numbers, their difference, and the distance allowed."""
    columns = (
        *WHICH, *(TableColumn(name, Number(2)) for name in ("published", "simulated")),
        TableColumn("difference", Number(2, signed=True)), TableColumn("sampling error", Number(2)),
        TableColumn("allowed", Number(2)), TableColumn("within", Tick("yes", "no")),
    )  # fmt: skip
    rows = tuple(
        (x.table, x.method, x.what, x.published, x.simulated, x.difference, x.error, x.distance, _check_verdict(x))
        for x in lines
    )
    known = tuple(
        f"{x.table}, {x.method}, {x.what}: known to be off, by {x.known_bound:+.2f} at most: {x.known.why}"
        for x in lines
        if x.known is not None and not x.is_within
    )
    return Table(title, columns, rows, above=(SIMULATED,), below=known)


def _check_verdict(line: _CheckedValue) -> bool | str:
    return "known" if line.is_expected and not line.is_within else line.is_within


@dataclass(frozen=True)
class _HeldOutNumber:
    """A number in one simulated log with its sampling error; where `signed`, it is a difference whose sign counts."""

    table: str
    method: str
    what: str
    published: float
    simulated: float
    error: float | None
    signed: bool = False

    @property
    def row_key(self) -> tuple[str, str, str]:
        return self.table, self.method, self.what


@dataclass(frozen=True)
class _SeedMean:
    """A number in logs of several seeds: mean and spread over them, and the published number's sampling error."""

    first: _HeldOutNumber
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return fmean(self.values)

    @property
    def sampling_errors(self) -> float | None:
        """The distance of the mean from the published number, in sampling errors."""
        return (self.mean - self.first.published) / self.first.error if self.first.error else None

    @property
    def equal_sign_count(self) -> int | None:
        """How many seeds have the published sign; None for a number whose sign does not count, or that is 0."""
        if not self.first.signed or self.first.published == 0:
            return None
        return sum(value * self.first.published > 0 for value in self.values)

    @property
    def is_reproduced(self) -> bool | None:
        """Whether the mean lies within `ERRORS` sampling errors, and a difference has the published sign; None where
        unknown.
        """
        if self.sampling_errors is None:
            return None
        turned = self.equal_sign_count is not None and self.mean * self.first.published <= 0
        return abs(self.sampling_errors) <= ERRORS and not turned


def _join_seeds(logs: Iterable[Iterable[_HeldOutNumber]]) -> list[_SeedMean]:
    """Joins the numbers of several logs, so that each has its values under all seeds.

    Sampling errors are those of the first log, which has the published number of claims.
    """
    by_key: dict[tuple[str, str, str], list[_HeldOutNumber]] = {}
    for numbers in logs:
        for one in numbers:
            by_key.setdefault(one.row_key, []).append(one)
    return [_SeedMean(every[0], tuple(one.simulated for one in every)) for every in by_key.values()]


def held_out_table(lines: list[_SeedMean], title: str, reasons: Mapping[str, str], notes: Sequence[str] = ()) -> Table:
    """Tabulates numbers that the simulation was not fitted to: published, mean and spread over seeds, and the
    difference in sampling errors of the published number.

    `reasons`: what is known of the numbers of each table that fail; `notes`: of all numbers.
    """
    columns = (
        *WHICH, *(TableColumn(name, Number(2)) for name in ("published", "mean", "lowest", "highest")),
        TableColumn("sampling error", Number(2)), TableColumn("errors off", Number(1, signed=True)),
        TableColumn("seeds with its sign", Words()), TableColumn("held", Tick("yes", "no")),
    )  # fmt: skip
    rows = tuple(
        (
            *x.first.row_key, x.first.published, x.mean, min(x.values), max(x.values), x.first.error, x.sampling_errors,
            None if x.equal_sign_count is None else f"{x.equal_sign_count} of {len(x.values)}", x.is_reproduced,
        )
        for x in lines
    )  # fmt: skip
    failed = dict.fromkeys(x.first.table for x in lines if x.is_reproduced is False)
    below = (*notes, *(f"{table}: {reasons[table]}" for table in failed))
    return Table(title, columns, rows, above=(SIMULATED,), below=below)


def _held_out_number(
    table: str, method: str, what: str, published_value: float | None, cell: IntervalCell | None, signed: bool = False,
    luck: float = 0.0,
) -> Iterator[_HeldOutNumber]:  # fmt: skip
    """Yields a number that was not fitted to, where it is published and the log has it.

    `luck`: the standard deviation of what the published number has beside its claims' sampling, such as one order.
    """
    if published_value is not None and cell is not None:
        error = _sampling_error(cell)
        error = None if error is None else hypot(error, luck)
        yield _HeldOutNumber(table, method, what, published_value, cell.estimate, error, signed)


RESAMPLES = 200
GOLD = FIT["gold"]
"""Numbers of the thesis's text (section 1.1.5), in per cent."""
FIRST_FIVE = "first 5 traces"


def _simulated_setting(pool: str, resamples: int = RESAMPLES) -> FactcheckSetting:
    """Returns the study's settings for a simulated log."""
    return FactcheckSetting(pool, "lora", CLAIM_FEATURES, CAP, options={"where": TEST, "resamples": resamples})


def check_simulation(log: Log, name: str, pool: str) -> list[_CheckedValue]:
    """Replays a simulated data set with a cap of 15 traces and compares it with the published numbers.

    Raises ThinkbackError where the pool is smaller than that.
    """
    numbers, setting = published(name), _simulated_setting(pool)
    main = replay_methods(log, setting)
    if main.missing:
        raise InvalidError(
            f"the published runs have {CAP} traces per claim: simulate at least as many {argument('traces')}"
        )
    lines = [
        *_fitted_numbers("main", main, numbers),
        *_bucket_shares(main, numbers),
        *_gold_share(log, name, setting, main.n),
    ]
    if name == "quantemp":
        lines += _fitted_numbers("other", replay_methods(log, replace(setting, verifier="deepseek")), numbers)
    return [
        with_allowed_distance(x, FIT["relaxed"].get(name, 1.0), KNOWN.get((name, x.table, x.method, x.what)))
        for x in lines
    ]


def _gold_share(log: Log, name: str, setting: FactcheckSetting, claims: int) -> Iterator[_CheckedValue]:
    within = shares_with_gold_trace(log, setting.pool, 5, where=setting.where, settings=setting.settings).filter(k=5)
    published_value = WORK.number_in_text(GOLD[name])
    share, error = 100 * within["share"].item(), _share_error(published_value / 100, claims)
    yield _CheckedValue("gold", FIRST_FIVE, "claims with a gold trace, %", published_value, share, FIT["shares"], error)


def _bucket_shares(main: Methods, numbers: PublishedDataset) -> Iterator[_CheckedValue]:
    for bucket in main.used_trace_buckets():
        published_value = numbers.number_in_row("B.1", "claims", **bucket_keys(bucket))
        if published_value is not None:
            what, share = f"claims with {bucket.first} to {bucket.last} traces, %", published_value / main.n
            error = _share_error(share, main.n)
            yield _CheckedValue("B.1", bucket.policy, what, 100 * share, 100 * bucket.share, FIT["shares"], error)


TRACES = {"quantemp": 40, "claimdecomp": 50}
"""Traces per claim that these tables take."""


POOLS = {name: published_pools(dataset) for name, dataset in WORK.datasets.items()}
"""Published pools of table B.4 by data set."""
ORDERS_DRAWN = 30
"""Random orders that tell how much one of them varies."""
ONE_ORDER = (
    f"the published random order is one order: the sampling error of differences to it holds the variance of one, "
    f"from {ORDERS_DRAWN} orders; the simulated number is exact over all orders"
)
REASONS = FIT["failing_because"]
"""Known reasons for the numbers of each table that fail."""


def held_out_summaries(logs: Iterable[Log], name: str, pool: str) -> list[_SeedMean]:
    """Computes every number that the simulation of a data set was not fitted to, in logs of several seeds."""
    return _join_seeds(_held_out_numbers(log, name, pool, 1 if i else RESAMPLES) for i, log in enumerate(logs))


def _held_out_numbers(log: Log, name: str, pool: str, resamples: int) -> Iterator[_HeldOutNumber]:
    numbers, setting = published(name), _simulated_setting(pool, resamples)
    for bucket in replay_methods(log, setting).used_trace_buckets():
        for what, name_of, column in (
            ("method macro-F1, %", bucket.policy, "method_macro_f1_pct"),
            ("exhaustive macro-F1, %", BEST, "exhaustive_macro_f1_pct"),
        ):
            value = None if bucket.part is None else cell(bucket.part, name_of, "macro_f1", 100)
            published_value, which = (
                numbers.number_in_row("B.1", column, **bucket_keys(bucket)),
                f"{bucket.first} to {bucket.last}",
            )
            yield from _held_out_number("B.1", bucket.policy, f"{which} traces: {what}", published_value, value)
    if name == "quantemp":
        yield from _larger_cap_numbers(log, setting, numbers)
    for published_pool in POOLS[name]:
        yield from _order_gap_numbers(log, published_pool, setting)


def _larger_cap_numbers(log: Log, setting: FactcheckSetting, numbers: PublishedDataset) -> Iterator[_HeldOutNumber]:
    for cap in (20, 30, 40):
        run = replay_methods(log, replace(setting, cap=cap), (BEST, ADAPTIVE))
        of_caps = (("5.11", "macro_f1_pct", "macro_f1", 100), ("5.12", "operations", "operations", run.n))
        for method, (table, column, metric, scale) in product((BEST, ADAPTIVE), of_caps):
            published_value = numbers.number_in_row(table, column, max_traces=cap, method=method)
            yield from _held_out_number(
                table, method, f"{metric}, cap {cap}", published_value, run.cell(method, metric, scale)
            )


def _order_gap_numbers(log: Log, of: PublishedPool, setting: FactcheckSetting) -> Iterator[_HeldOutNumber]:
    rows = {row["k"]: row for row in WORK.rows("B.4") if row["pool"] == of.name}
    columns = {"generation": ORDER_COLUMNS["generation"], "random, expected": ORDER_COLUMNS["random"]}
    options: dict[str, Any] = {
        "verifier": setting.verifier, "max_traces": of.size, "pool": of.pool or setting.pool,
        "features": setting.features, "budget": BUDGETS[of.size],
        **setting.options, "where": f"split = '{of.split}'",
    }  # fmt: skip
    pool_budgets = budgets(log, orders={order: ORDERS[order] for order in (*columns, "surrogate")}, **options)
    prefix = "" if of.split == "test" else f"{of.split}, "
    tells_errors = options["resamples"] > 1
    luck = {"random, expected": _spread_over_orders(log, options)} if tells_errors else {}
    for order, column in columns.items():
        order_gaps = macro_f1_gaps(pool_budgets, "surrogate", order)
        for k in BUDGETS[of.size]:
            published_value = round(rows[k][ORDER_COLUMNS["surrogate"]] - rows[k][column], 2)
            less, what = order_gaps[k].points if k in order_gaps else None, f"{prefix}k = {k}: less {order}, points"
            yield from _held_out_number(
                "B.4", SURROGATE, what, published_value, less, True, luck.get(order, {}).get(k, 0.0)
            )


def _spread_over_orders(log: Log, options: Mapping[str, Any]) -> dict[int, float]:
    """The standard deviation of macro-F1 between single random orders of the traces, in points, by budget."""
    orders = {f"order {seed}": {"order": "random", "seed": seed} for seed in range(ORDERS_DRAWN)}
    pool_budgets = budgets(log, orders=orders, **{**options, "resamples": 1})
    of_orders = pool_budgets.by_k.filter(pl.col("metric") == "macro_f1", pl.col("order").is_in(list(orders)))
    spread = of_orders.group_by("k").agg(100 * pl.col("estimate").std())
    return dict(spread.iter_rows())
