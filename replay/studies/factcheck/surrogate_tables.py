"""Table B.4 of the thesis, and what its finding on the surrogate and the surrogate itself owe to their settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from replay.analyses.surrogate_keys import UNSEEN, gaps, signs
from replay.studies.factcheck.fixed_budgets import shown_budgets
from replay.studies.factcheck.sensitivity import KEYS
from replay.studies.factcheck.study import Study
from replay.studies.kit.budget_tables import K
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, listed, numbers, words
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


def every_budget(study: Study) -> Iterator[Row]:
    """Macro-F1 at chosen budgets of verification, for every order, and the surrogate against two of them (B.4)."""
    for fixed in study.fixed_budgets:
        size, by_k = fixed.made.max_traces, fixed.made.by_k.filter(metric="macro_f1")
        cells = {
            (order, k): ShownInterval.of(cell, 100)
            for order, k, *cell in by_k.select("order", "k", "estimate", "low", "high").iter_rows()
        }
        less = {order: gaps(fixed.made, "surrogate", order) for order in LESS}
        for k in shown_budgets(size):
            values: dict[str, Value] = {key: cells.get((order, k)) for order, (_, key) in SHOWN.items()}
            for order, (_, key) in LESS.items():
                values[key] = less[order][k].points if k in less[order] else None
                values[f"{key}_depends"] = signs(fixed.keys, size, k, order)
            theirs = study.published("B.4", [study.main], pool=fixed.published(study.setting.published), k=k)
            yield Row((fixed.name, k), values=values, **theirs)


def fixed_by_keys(study: Study) -> Iterator[Row]:
    """The surrogate at the budgets of table B.4 for each `unseen` and `label_score`, against the same two orders."""
    for fixed in study.fixed_budgets:
        for at in fixed.keys:
            values: dict[str, Value] = {"surrogate_macro_f1_pct": at.macro_f1}
            for order, (_, key) in LESS.items():
                if (found := at.gaps[order]) is not None:
                    values |= {key: found.points, f"{key}_p": found.p_value}
            yield Row((fixed.name, at.k, at.label_score, f"{at.unseen:g}"), values=values)


def lazy_by_keys(study: Study) -> Iterator[Row]:
    """Macro-F1 and operations of surrogate-guided verification for every combination of the surrogate's own keys."""
    made = study.surrogate_keys.table
    f1, spent = (made.filter(metric=metric) for metric in ("macro_f1", "operations"))
    found = f1.with_columns(operations=spent["estimate"])
    for row in listed(found.iter_rows(named=True), tuple(KEYS), "estimate", "macro_f1_pct"):
        yield replace(row, heads=tuple(f"{head:g}" if isinstance(head, float) else head for head in row.heads))


FIXED = Sheet(
    "table_B_4", "Macro-F1 under fixed verifier budgets", ("Candidate pool", K), (
        *(intervals(head, key) for head, key in SHOWN.values()),
        *chain.from_iterable(
            (intervals(f"{head}, points", key, signed=True), words(f"{head} depends on unseen", f"{key}_depends"))
            for head, key in LESS.values()
        ),
    ), every_budget, (
        lambda one: [f"random: seed {one.setting.random_seed}; all orders: the exact expectation"],
        "score: sees all scores", RANDOM, SIGNS,
    ), "Setting", "B.4",
)  # fmt: skip
FIXED_KEYS = Sheet(
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
LAZY_KEYS = Sheet(
    "sensitivity_keys", lambda studies: f"Sensitivity to the surrogate's own keys, N = {studies[0].setting.cap}",
    tuple(key.replace("_", " ").capitalize() for key in KEYS),
    (intervals("Macro-F1, %", "macro_f1_pct"), numbers("Operations/claim", "operations", 2)), lazy_by_keys,
    group="keys", printed=False,
)  # fmt: skip
