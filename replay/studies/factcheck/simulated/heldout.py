"""Published numbers that no simulation was fitted to, which test it: what logs of several seeds say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any

import polars as pl

from replay.analyses.budgets.budgets import ORDERS, budgets
from replay.analyses.budgets.surrogate_keys import gaps
from replay.studies.factcheck.methods.methods import ADAPTIVE, BEST, SURROGATE, replay_methods
from replay.studies.factcheck.published import (
    BUDGETS,
    ORDER_COLUMNS,
    WORK,
    FactcheckSetting,
    PublishedPool,
    bucket_keys,
    published,
    published_pools,
)
from replay.studies.factcheck.simulated.check import FIT, RESAMPLES, simulated_setting
from replay.studies.factcheck.simulated.fidelity import HeldOut, HeldOutNumber, held_out_line, over_seeds
from replay.studies.kit.cells import cell
from replay.studies.kit.published import PublishedDataset
from toolkit.log import Log

TRACES = {"quantemp": 40, "claimdecomp": 50}
"""Traces per claim that these tables take."""


POOLS = {name: published_pools(dataset) for name, dataset in WORK.datasets.items()}
"""Of each data set, those of table B.4."""
ORDERS_DRAWN = 30
"""Random orders that tell how much one of them varies."""
ONE_ORDER = (
    f"the published random order is one order: the sampling error of differences to it holds the variance of one, "
    f"from {ORDERS_DRAWN} orders; the simulated number is exact over all orders"
)
REASONS = FIT["failing_because"]
"""What is known of the numbers of each table that fail."""


def held_out(logs: Iterable[Log], name: str, pool: str) -> list[HeldOut]:
    """Every number that the simulation of a data set was not fitted to, in its logs of several seeds."""
    return over_seeds(_found(log, name, pool, 1 if i else RESAMPLES) for i, log in enumerate(logs))


def _found(log: Log, name: str, pool: str, resamples: int) -> Iterator[HeldOutNumber]:
    numbers, setting = published(name), simulated_setting(pool, resamples=resamples)
    for bucket in replay_methods(log, setting).buckets():
        for what, name_of, column in (
            ("method macro-F1, %", bucket.policy, "method_macro_f1_pct"),
            ("exhaustive macro-F1, %", BEST, "exhaustive_macro_f1_pct"),
        ):
            found = None if bucket.part is None else cell(bucket.part, name_of, "macro_f1", 100)
            wanted, which = numbers.value("B.1", column, **bucket_keys(bucket)), f"{bucket.first} to {bucket.last}"
            yield from held_out_line("B.1", bucket.policy, f"{which} traces: {what}", wanted, found)
    if name == "quantemp":
        yield from _larger_caps(log, setting, numbers)
    for published_pool in POOLS[name]:
        yield from _signs(log, published_pool, setting)


def _larger_caps(log: Log, setting: FactcheckSetting, numbers: PublishedDataset) -> Iterator[HeldOutNumber]:
    for cap in (20, 30, 40):
        made = replay_methods(log, replace(setting, cap=cap), (BEST, ADAPTIVE))
        of_caps = (("5.11", "macro_f1_pct", "macro_f1", 100), ("5.12", "operations", "operations", made.n))
        for method, (table, column, metric, scale) in product((BEST, ADAPTIVE), of_caps):
            wanted = numbers.value(table, column, max_traces=cap, method=method)
            yield from held_out_line(table, method, f"{metric}, cap {cap}", wanted, made.cell(method, metric, scale))


def signs(log: Log, name: str, pool: str) -> list[HeldOutNumber]:
    """The differences of table B.4 alone, of one log."""
    return [one for of in POOLS[name] for one in _signs(log, of, simulated_setting(pool, resamples=1))]


def _signs(log: Log, of: PublishedPool, setting: FactcheckSetting) -> Iterator[HeldOutNumber]:
    rows = {row["k"]: row for row in WORK.rows("B.4") if row["pool"] == of.name}
    columns = {"generation": ORDER_COLUMNS["generation"], "random, expected": ORDER_COLUMNS["random"]}
    asked: dict[str, Any] = {
        "verifier": setting.verifier, "max_traces": of.size, "pool": of.pool or setting.pool,
        "features": setting.features, "budget": BUDGETS[of.size],
        **setting.asked, "where": f"split = '{of.split}'",
    }  # fmt: skip
    made = budgets(log, orders={order: ORDERS[order] for order in (*columns, "surrogate")}, **asked)
    told = "" if of.split == "test" else f"{of.split}, "
    tells_errors = asked["resamples"] > 1
    luck = {"random, expected": _one_order(log, asked)} if tells_errors else {}
    for order, column in columns.items():
        found = gaps(made, "surrogate", order)
        for k in BUDGETS[of.size]:
            wanted = round(rows[k][ORDER_COLUMNS["surrogate"]] - rows[k][column], 2)
            less, what = found[k].points if k in found else None, f"{told}k = {k}: less {order}, points"
            yield from held_out_line("B.4", SURROGATE, what, wanted, less, True, luck.get(order, {}).get(k, 0.0))


def _one_order(log: Log, asked: Mapping[str, Any]) -> dict[int, float]:
    """By budget, the standard deviation of macro-F1 over one random order, in points."""
    orders = {f"order {seed}": {"order": "random", "seed": seed} for seed in range(ORDERS_DRAWN)}
    made = budgets(log, orders=orders, **{**asked, "resamples": 1})
    of_orders = made.by_k.filter(pl.col("metric") == "macro_f1", pl.col("order").is_in(list(orders)))
    spread = of_orders.group_by("k").agg(100 * pl.col("estimate").std())
    return dict(spread.iter_rows())
