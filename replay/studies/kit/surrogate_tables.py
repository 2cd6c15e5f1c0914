"""The surrogate at chosen budgets of verification: beside the other orders, and by its own keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

from replay.analyses.surrogate_keys import UNSEEN, gaps, signs
from replay.studies.kit.budget_tables import K, seed
from replay.studies.kit.fixed_budgets import FixedBudgets
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, numbers, words
from replay.studies.kit.verifying_study import VerifyingStudy
from toolkit.show import ShownInterval

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
