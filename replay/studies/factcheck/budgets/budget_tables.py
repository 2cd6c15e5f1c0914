"""Tables of verifier budgets: orders at every budget, how early gold appears, the surrogate by its own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import polars as pl

from replay.analyses.budgets.pool_depth import Depth
from replay.analyses.budgets.surrogate_keys import UNSEEN, gaps, signs
from replay.runs.passes.coverage import WARN_EXCLUDED
from replay.studies.factcheck.budgets.fixed_budgets import FixedBudgets
from replay.studies.factcheck.budgets.verifying_study import VerifyingStudy
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, listed, numbers, words
from toolkit.notes import warning
from toolkit.show import Number, ShownInterval, TableColumn

K = TableColumn("k", Number(0))


def of_budgets(
    name: str, heads: Sequence[str], interval: str = "", key: str = ""
) -> Callable[[VerifyingStudy], Iterator[Row]]:
    """Rows of one of the frames of all budgets, each with what the table calls its pool first."""

    def found(study: VerifyingStudy) -> Iterator[Mapping[str, Any]]:
        for fixed in study.budgets.pools:
            frame: pl.DataFrame = getattr(fixed.made, name)
            for row in frame.iter_rows(named=True):
                yield {"pool": fixed.name, **row}

    return lambda study: listed(found(study), ("pool", *heads), interval, key)


def smallest(study: VerifyingStudy) -> Iterator[Row]:
    """The smallest budget at which each order is within half a point of best-of-N."""
    for row in of_budgets("smallest", ("order", "metric"))(study):
        best = row.values["best_of_n"]
        yield replace(row, values={**row.values, "best": 100 * best if isinstance(best, float) else None})


def unresolved(study: VerifyingStudy) -> Iterator[Row]:
    """Claims whose margin rule has not held after k traces, with no cap but the pool."""
    found = study.budgets.unresolved.rename({"largest_margin": "largest", "median_margin": "median"})
    return listed(found.iter_rows(named=True), ("k",), "share")


def unserved(study: VerifyingStudy) -> list[str]:
    """Which claims are left out of a table of budgets."""
    return [study.budgets.depth.note]


def _shares_notes(depth: Depth, shares: pl.DataFrame, why: str) -> Iterator[str]:
    """Which claims are left out of a table of shares: those of smaller pools, and others, with the reason."""
    yield depth.note
    if missing := lacking(depth, shares):
        few = "; what is left is less than nine tenths of the claims asked about, so its numbers are dashes"
        unknown = shares["share"].null_count() == len(shares)
        yield f"{missing:,} claims are left out: {why}{few if unknown else ''}"


def _gold_notes(study: VerifyingStudy) -> Iterator[str]:
    return _shares_notes(study.budgets.depth, study.budgets.gold, "no gold label")


def _unresolved_notes(study: VerifyingStudy) -> Iterator[str]:
    why = f"`{study.setting.verifier}` did not score every valid trace"
    return _shares_notes(study.budgets.depth, study.budgets.unresolved, why)


def many_left_out(depth: Depth, shares: pl.DataFrame) -> Iterator[str]:
    """A warning, where many claims are left out of a table of shares."""
    if (missing := lacking(depth, shares)) > WARN_EXCLUDED * depth.claims:
        yield str(warning("many_left_out", f"{missing:,} of {depth.claims:,} claims are left out"))


def seed(study: VerifyingStudy) -> list[str]:
    """What the random order was drawn from."""
    return [f"random: seed {study.setting.random_seed}"]


def lacking(depth: Depth, shares: pl.DataFrame) -> int:
    """Claims with a pool of the size that shares are of, but not among them."""
    return depth.claims - depth.shorter - max(shares["n"].to_list())


ORDERS: tuple[Sheet[Any], ...] = (
    Sheet(
        "budgets", "Every order at every budget", ("Candidate pool", "Order", K, "Metric"),
        (intervals("Value, %", "value"),), of_budgets("by_k", ("order", "k", "metric"), "estimate", "value"),
        (seed, "score: sees all scores, a diagnostic", unserved), group="budgets", printed=False,
    ),
    Sheet(
        "budget_pairs", "Orders against each other at the same budget",
        ("Candidate pool", K, "Metric", "Order", "Against"),
        (intervals("Difference, points", "difference_pp", signed=True), numbers("p", "p_value", 4)),
        of_budgets("pairs", ("k", "metric", "order", "against"), "difference", "difference_pp"), (unserved,),
        group="budgets", printed=False,
    ),
    Sheet(
        "budget_smallest", "Smallest budget within 0.5 points of best-of-N", ("Candidate pool", "Order", "Metric"),
        (numbers("Smallest k", "k", 0), numbers("Best-of-N, %", "best")), smallest,
        ("a dash: at no budget, or not known because it or a lower one cannot be replayed", unserved), group="budgets",
    ),
)  # fmt: skip
"""Tables of fixed budgets, for every order."""
FOUND: tuple[Sheet[Any], ...] = (
    Sheet(
        "gold_within", "Gold label among the first k traces", (K,),
        (intervals("Claims with a gold trace, %", "share", 1), numbers("Claims", "n", 0)),
        lambda study: listed(study.budgets.gold.iter_rows(named=True), ("k",), "share"),
        ("sees gold: a diagnostic", _gold_notes),
    ),
    Sheet(
        "unresolved", "Adaptive Stopping with no cap but the pool", (K,), (
            intervals("Not stopped, %", "share", 1), numbers("Largest margin reached", "largest", 4),
            numbers("Median of the largest", "median", 4), numbers("Claims", "n", 0),
        ), unresolved,
        ("margins: of the claims that have not stopped, the largest lead each has had by then", _unresolved_notes),
        group="unresolved",
    ),
)  # fmt: skip
"""What is found without a policy."""
SHOWN = {
    "generation": ("Generation order", "generation_order_macro_f1_pct"),
    "random": ("Random", "random_macro_f1_pct"),
    "surrogate": ("Surrogate-guided", "surrogate_macro_f1_pct"),
    "random, expected": ("Random, all orders", "expected_macro_f1_pct"),
    "score": ("Score top-k (diagnostic)", "score_macro_f1_pct"),
}
LESS = {
    "generation": ("Surrogate − generation", "generation_gap_pp"),
    "random, expected": ("Surrogate − random", "random_gap_pp"),
}
VALUES = ", ".join(f"{unseen:g}" for unseen in UNSEEN)
SIGNS = (
    f"depends on `unseen`: whether the sign of the difference is the same for `unseen` {VALUES}, and its sign at each; "
    "in brackets where the interval holds 0"
)
RANDOM = "surrogate − random: against the exact expectation over all orders"
TheirsAt = Callable[[Any, FixedBudgets, int], Mapping[str, Any]]
"""What a row has of the published one, from its study, pool and budget: its keys `published` and `unlike`."""


def orders_at_budgets(study: VerifyingStudy, theirs: TheirsAt) -> Iterator[Row]:
    """Macro-F1 at chosen budgets of verification, for every order, and the surrogate against two of them."""
    for fixed in study.budgets.pools:
        size, by_k = fixed.made.max_traces, fixed.made.by_k.filter(metric="macro_f1")
        cells = {
            (order, k): ShownInterval.of(cell, 100)
            for order, k, *cell in by_k.select("order", "k", "estimate", "low", "high").iter_rows()
        }
        less = {order: gaps(fixed.made, "surrogate", order) for order in LESS}
        for k in study.setting.shown_budgets(size):
            values: dict[str, Value] = {key: cells.get((order, k)) for order, (_, key) in SHOWN.items()}
            for order, (_, key) in LESS.items():
                values[key] = less[order][k].points if k in less[order] else None
                values[f"{key}_depends"] = signs(fixed.keys, size, k, order)
            yield Row((fixed.name, k), values=values, **theirs(study, fixed, k))


def fixed_by_keys(study: VerifyingStudy) -> Iterator[Row]:
    """The surrogate at the shown budgets for each `unseen` and `label_score`, against the same two orders."""
    for fixed in study.budgets.pools:
        for at in fixed.keys:
            values: dict[str, Value] = {"surrogate_macro_f1_pct": at.macro_f1}
            for order, (_, key) in LESS.items():
                if (found := at.gaps[order]) is not None:
                    values |= {key: found.points, f"{key}_p": found.p_value}
            yield Row((fixed.name, at.k, at.label_score, f"{at.unseen:g}"), values=values)


def order_sheet(name: str, title: str, theirs: TheirsAt, **keys: Any) -> Sheet[Any]:
    """The table of the orders at chosen budgets; `keys` are further ones of the sheet."""
    columns = (
        *(intervals(head, key) for head, key in SHOWN.values()),
        *chain.from_iterable(
            (intervals(f"{head}, points", key, signed=True), words(f"{head} depends on unseen", f"{key}_depends"))
            for head, key in LESS.values()
        ),
    )
    notes = ("score: sees all scores, and so takes the best-scored trace at every k", RANDOM, SIGNS)
    told = (lambda one: [f"{line}; all orders: the exact expectation" for line in seed(one)], *notes)
    return Sheet(name, title, ("Candidate pool", K), columns, lambda one: orders_at_budgets(one, theirs), told, **keys)


FIXED_KEYS: Sheet[Any] = Sheet(
    "budget_keys", "Fixed verifier budgets by the surrogate's unseen and label score",
    ("Candidate pool", K, "Label score", "Unseen"), (
        intervals("Surrogate-guided", "surrogate_macro_f1_pct"),
        *chain.from_iterable(
            (intervals(f"{head}, points", key, signed=True), numbers("p", f"{key}_p", 4)) for head, key in LESS.values()
        ),
    ), fixed_by_keys,
    ("paired: every resample draws the same claims for both, with the same traces", RANDOM), group="budgets",
    printed=False,
)  # fmt: skip
