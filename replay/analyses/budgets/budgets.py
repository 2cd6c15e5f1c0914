"""Fixed verifier budgets: what an order of verification reaches with k calls, for every k at once.

The pool is held fixed and every order is walked once; a budget is a place at which the walk is cut (thesis on fact
checking, sections 3.6 and 5.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations, takewhile
from typing import Any

import numpy as np
import polars as pl

from replay.kinds.sample import Sample, coverage_policy
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.sampling.known import ORDERS as KNOWN
from replay.sampling.orders import Order
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, quote
from toolkit.log import AnyLog
from toolkit.settings import from_table
from toolkit.stopping.stops import Budget

METRICS = ("macro_f1", "accuracy")
BEST = "best of N"
WITHIN = 0.005
"""An order counts as equal to best-of-N when it lies at most this far below it: half a point."""
ORDERS: Mapping[str, Mapping[str, Any]] = {
    "generation": {"order": "generation"},
    "random": {"order": "random"},
    "random, expected": {"order": "random", "expected": True},
    "surrogate": {"order": "surrogate", "mode": "pool"},
    "score": {"order": "score"},
}
"""The orders compared, as settings of a policy. `score` sees all scores and is a diagnostic."""

ORDERS_FORM = 'orders by name, each a table of keys of a policy, such as {"random": {"order": "random"}}'


@dataclass(frozen=True)
class Budgets:
    """The results of all orders at every budget k.

    `by_k`: order, k, metric, estimate, low, high, n, diagnostic. `pairs`: k, metric, order, against (another order, or
    best-of-N), difference, low, high, p_value; limits and p-values hold for all pairs and budgets at once. `smallest`:
    order, metric, k (null: never) at which the order lies within half a point of best-of-N. `missing`: orders of which
    the log cannot serve every budget, and `best of N` where it cannot serve that, with the reason; the numbers that it
    cannot give are null. A budget is served where at least nine tenths of the examples asked about have what it needs.
    """

    by_k: pl.DataFrame
    pairs: pl.DataFrame
    smallest: pl.DataFrame
    max_traces: int
    result: Result
    missing: Mapping[str, str] = field(default_factory=dict)


@checks_arguments(
    features="a list of columns of features",
    budget="a list of integers",
    orders=ORDERS_FORM,
    surrogate="a table of keys of the surrogate",
)
def budgets(
    log: AnyLog,
    *,
    verifier: str,
    max_traces: int,
    pool: str | None = None,
    features: str | Sequence[str] = (),
    orders: Mapping[str, Mapping[str, Any]] = ORDERS,
    budget: Sequence[int] | None = None,
    random_seed: int = 0,
    surrogate: Mapping[str, Any] | None = None,
    **options: Any,
) -> Budgets:
    """Replay every order of one pool at every budget k of verifications (default: 1 to `max_traces`).

    `random_seed` is that of the random order; `surrogate` holds further keys of the surrogate (ridge, forgetting,
    bonus, unseen, label_score, prior …). Other `options` (where, settings, resamples …) go to `replay.run`; its `seed`
    is the resamples'. Raises ThinkbackError for a budget that the pool cannot hold and for anything wrong with the log
    or the settings.
    """
    ks = list(budget if budget is not None else range(1, max_traces + 1))
    if not ks or min(ks) < 1 or max(ks) > max_traces:
        raise InvalidError(f"budgets lie between 1 and the pool's {max_traces} traces (`max_traces`), not {ks}")
    if not orders or not all(isinstance(keys, Mapping) for keys in orders.values()):
        raise InvalidError(f"`orders` is {quote(orders)}; it takes {ORDERS_FORM}")
    policies: dict[str, list[Sample]] = {}
    shared: dict[str, Any] = {"pool": pool, "max_traces": max_traces, "verifier": verifier}
    for name, keys in orders.items():
        values = {**shared, "seed": random_seed, **keys}
        if KNOWN.get(values.get("order", ""), Order).predicts:
            values = {"features": features, **(surrogate or {}), **values}
        policies[name] = [
            from_table(Sample, {"name": f"{name}, k = {k}", "stop": Budget(verifications=k), **values}) for k in ks
        ]
    best = Sample(name=BEST, **shared)
    result = run(log, [*chain(*policies.values()), best, coverage_policy(pool)], **options)
    names = list(orders)
    return Budgets(
        by_k=_summary_rows_by_budget(result, policies, ks),
        pairs=_pairwise_difference_rows(result, names, ks),
        smallest=_smallest_sufficient_budgets(result, names, ks),
        max_traces=max_traces,
        result=result,
        missing=_orders_without_result(result, orders, ks),
    )


def _orders_without_result(result: Result, orders: Iterable[str], ks: Sequence[int]) -> dict[str, str]:
    """The orders that lack a budget, each with the first reason; and best-of-N, where the log does not cover it."""
    missing = {}
    for name in orders:
        dropped = [(k, why) for k in ks if (why := result.dropped.get(f"{name}, k = {k}"))]
        if dropped:
            of = "" if len(dropped) == len(ks) else f"{len(dropped)} of {len(ks)} budgets, "
            missing[name] = f"{of}k = {dropped[0][0]}: {dropped[0][1]}"
    return missing | ({BEST: result.dropped[BEST]} if BEST in result.dropped else {})


def reported_metrics(result: Result) -> list[str]:
    """The metrics that are reported: accuracy, and macro-F1 if the examples have one label space."""
    known = set(result.summary["metric"])
    return [metric for metric in METRICS if metric in known]


def _summary_rows_by_budget(result: Result, orders: Mapping[str, Sequence[Sample]], ks: list[int]) -> pl.DataFrame:
    keys = pl.DataFrame(
        [(f"{name}, k = {k}", name, k, metric) for name in orders for k in ks for metric in reported_metrics(result)],
        schema={"policy": pl.String, "order": pl.String, "k": pl.Int64, "metric": pl.String},
        orient="row",
    )
    diagnostic = [name for name, policies in orders.items() if policies[0].diagnostic]
    return keys.join(result.summary, on=["policy", "metric"], how="left", maintain_order="left").select(
        "order", "k", "metric", "estimate", "low", "high", "n", diagnostic=pl.col("order").is_in(diagnostic)
    )


def _pairwise_difference_rows(result: Result, orders: list[str], ks: list[int]) -> pl.DataFrame:
    """Paired differences of every two orders at the same k, and of each to best-of-N, with limits that hold for all."""
    known = {policy.name for policy in result.policies}
    family = [
        (k, first, second, (f"{first}, k = {k}", second if second == BEST else f"{second}, k = {k}"))
        for first, second in combinations([*orders, BEST], 2)
        for k in ks
    ]
    rows: list[tuple[Any, ...]] = []
    for metric in reported_metrics(result):
        joint = result.summariser.joint_differences(metric, [pair for *_, pair in family if known.issuperset(pair)])
        limits = {(policy, reference): ends for policy, reference, *ends in joint.iter_rows()}
        rows += [(k, metric, first, second, *limits.get(pair, [None] * 4)) for k, first, second, pair in family]
    schema = {"k": pl.Int64, "metric": pl.String, "order": pl.String, "against": pl.String}
    schema |= dict.fromkeys(("difference", "low", "high", "p_value"), pl.Float64)
    return pl.DataFrame(rows, schema=schema, orient="row")


def _smallest_sufficient_budgets(result: Result, orders: list[str], ks: list[int]) -> pl.DataFrame:
    """The first k at which each order lies within half a point of best-of-N; null where a lower k is unknown."""
    value = {(p, m): e for p, m, e in result.summary.select("policy", "metric", "estimate").iter_rows()}
    rows = []
    for metric in reported_metrics(result):
        goal = value.get((BEST, metric))
        for name in orders:
            estimates = [(k, value.get((f"{name}, k = {k}", metric))) for k in sorted(ks)]
            known = takewhile(lambda at: at[1] is not None, estimates)
            least = np.inf if goal is None else goal - WITHIN - 1e-12
            rows.append((name, metric, next((k for k, estimate in known if (estimate or 0.0) >= least), None), goal))
    schema = {"order": pl.String, "metric": pl.String, "k": pl.Int64, "best_of_n": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")
