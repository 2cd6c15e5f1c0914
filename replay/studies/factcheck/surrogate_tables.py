"""Table B.4 of the thesis, and what its finding on the surrogate and the surrogate itself owe to their settings."""

from __future__ import annotations

import polars as pl

from replay.studies.factcheck.sheets import Measure, SheetRow, Value, sheet
from replay.studies.factcheck.study import Study
from replay.studies.factcheck.surrogate_keys import SETTINGS, UNSEEN, gap, shown_budgets
from toolkit.show import ShownInterval, Table

SPLITS = {("QuanTemp", 15): "QuanTemp test", ("ClaimDecomp", 50): "ClaimDecomp test"}
"""Pools of table B.4 by data set and size."""
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


def fixed(study: Study) -> Table:
    """Macro-F1 at chosen budgets of verification, for every order, and the surrogate against two of them (B.4)."""
    measures = [Measure(head, key, interval=True) for head, key in SHOWN.values()]
    for head, key in LESS.values():
        measures += [Measure(f"{head}, points", key, interval=True, signed=True)]
        measures += [Measure(f"{head} depends on unseen", f"{key}_depends", words=True)]
    rows = []
    for found in study.budgets:
        size, by_k = found.max_traces, found.by_k.filter(pl.col("metric") == "macro_f1")
        cells = {
            (order, k): ShownInterval.of(cell, 100)
            for order, k, *cell in by_k.select("order", "k", "estimate", "low", "high").iter_rows()
        }
        pool = None if study.setting.published is None else SPLITS.get((study.setting.published.dataset, size))
        for k in shown_budgets(size):
            values: dict[str, Value] = {key: cells.get((order, k)) for order, (_, key) in SHOWN.items()}
            for order, (_, key) in LESS.items():
                own = gap(found, k, order)
                values[key] = None if own is None else own.points
                values[f"{key}_depends"] = study.surrogate_keys.signs(size, k, order)
            rows.append(SheetRow((study.dataset, f"{size} traces", k), values, {"pool": pool, "k": k} if pool else {}))
    random = f"random: seed {study.setting.random_seed}; all orders: the exact expectation"
    heads = ("Setting", "Candidate pool", "k")
    title = "Macro-F1 under fixed verifier budgets"
    return sheet(study, "B.4", title, heads, measures, rows, (random, "score: sees all scores", RANDOM, SIGNS))


def fixed_by_keys(study: Study) -> Table:
    """The surrogate at the budgets of table B.4 for each `unseen` and `label_score`, against the same two orders."""
    measures = [Measure("Surrogate-guided", "surrogate_macro_f1_pct", interval=True)]
    for head, key in LESS.values():
        measures += [Measure(f"{head}, points", key, interval=True, signed=True), Measure("p", f"{key}_p", 4)]
    rows = []
    for at in study.surrogate_keys.fixed:
        values: dict[str, Value] = {"surrogate_macro_f1_pct": at.macro_f1}
        for order, (_, key) in LESS.items():
            if (found := at.gaps[order]) is not None:
                values |= {key: found.points, f"{key}_p": found.p_value}
        rows.append(SheetRow((f"{at.traces} traces", at.k, at.label_score, f"{at.unseen:g}"), values))
    heads = ("Candidate pool", "k", "Label score", "Unseen")
    notes = ("paired: every resample draws the same claims for both, with the same traces", RANDOM)
    title = "Fixed verifier budgets by the surrogate's unseen and label score"
    warnings = study.warnings["B.4"]
    return sheet(study, "", title, heads, measures, rows, (*notes, *study.missing.get("B.4", ())), warnings)


def lazy_by_keys(study: Study) -> Table:
    """Macro-F1 and operations of surrogate-guided verification for every combination of the surrogate's own keys."""
    made = study.surrogate_keys
    f1, spent = (made.lazy.filter(metric=metric) for metric in ("macro_f1", "operations"))
    rows = []
    for one, operations in zip(f1.iter_rows(named=True), spent.iter_rows(named=True), strict=True):
        values: dict[str, Value] = {
            "macro_f1_pct": ShownInterval.of((one["estimate"], one["low"], one["high"]), 100),
            "operations": operations["estimate"],
        }
        rows.append(SheetRow(tuple(f"{one[key]:g}" if key != "label_score" else one[key] for key in SETTINGS), values))
    measures = [Measure("Macro-F1, %", "macro_f1_pct", interval=True), Measure("Operations/claim", "operations", 2)]
    heads = tuple(key.replace("_", " ").capitalize() for key in SETTINGS)
    title = f"Sensitivity to the surrogate's own keys, N = {study.setting.cap}"
    return sheet(study, "", title, heads, measures, rows, made.missing, made.warnings)
