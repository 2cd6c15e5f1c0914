"""Tables beyond the thesis's own: verifier budgets, settings, paired differences, further policies, calibration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import isnan
from operator import attrgetter
from typing import Any

import polars as pl

from replay.analyses.budgets.surrogate_keys import UNSEEN, difference_sign_at_each_value, macro_f1_gaps
from replay.analyses.tune.fitted import SettingSweep
from replay.kinds.sample import EVERY
from replay.runs.passes.coverage import LEFT_OUT
from replay.studies.factcheck.runs import ADAPTIVE, BEST, METHODS, SURROGATE, TITLES, TOP, VOTE, Methods
from replay.studies.factcheck.study import KEYS, MEASURED, SWEPT, Study
from replay.studies.factcheck.tables import COSTS, MethodOfRun, percent_column
from replay.studies.kit.cells import PolicyCells, group_by_reason, read_interval
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, numbers, rows_of_records, words
from toolkit.show import IntervalCell, Number, TableColumn, remark
from toolkit.stats.curves.calibration import LEAST, LEAST_CLUSTERS

SETS = (
    intervals("Coverage, %", "coverage", metric="coverage", scale=100),
    intervals("Set size", "set_size", metric="set_size"),
    intervals("Answered, %", "answer_rate", metric="answer_rate", scale=100),
    intervals("Accuracy among answered, %", "accuracy_answered", metric="accuracy_answered", scale=100),
)  # fmt: skip
PAIRS = ((TOP, BEST), (VOTE, BEST), (ADAPTIVE, BEST), (SURROGATE, BEST), (SURROGATE, ADAPTIVE))
DIFFERENCES = (("macro_f1", "Macro-F1"), ("accuracy", "Accuracy"))
DIFFERENCE_COLUMNS = tuple(
    column
    for metric, head in DIFFERENCES
    for column in (
        intervals(f"{head} difference, points", f"{metric}_difference_pp", signed=True),
        numbers(f"p, {head}", f"{metric}_p", 4),
    )
)
QUALITY = (
    percent_column("Macro-F1, %", "macro_f1_pct", "macro_f1"),
    percent_column("Accuracy, %", "accuracy_pct", "accuracy"),
)


def _difference_cells(methods: Methods, method: str, against: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for metric, _ in DIFFERENCES:
        values[f"{metric}_difference_pp"], values[f"{metric}_p"] = methods.difference(method, metric, against, 100)
    return values


def _orders_text(number: int) -> str:
    return "1 order" if number == 1 else f"{number} orders"


def _runs_with_pairs(study: Study) -> dict[str, Methods]:
    """Returns the runs whose methods are compared, by their names in the table of pairs."""
    verifier, other = study.setting.verifier, study.setting.other_verifier
    runs = {f"{verifier}, N = {study.main.cap}": study.main}
    if other is not None:
        runs[f"{other}, N = {study.other.cap}"] = study.other
    return runs | {f"{verifier}, means over orders": study.averaged}


def _pair_rows(study: Study) -> Iterator[Row]:
    """Yields the paired differences in quality between two methods on the same claims and traces."""
    for name, methods in _runs_with_pairs(study).items():
        for method, against in PAIRS:
            yield Row((name, TITLES[method], TITLES[against]), values=_difference_cells(methods, method, against))


def _reasons_for_missing_pairs(study: Study) -> Iterator[str]:
    for name, methods in _runs_with_pairs(study).items():
        yield from (f"{name}: {reason}" for reason in group_by_reason(methods.missing))


def _order_mean_rows(study: Study) -> Iterator[Row]:
    """Yields each method's mean over orders of the pool; its interval is free of the luck of one order."""
    for name in METHODS:
        of = MethodOfRun(study.averaged, name)
        values = {} if name == BEST else _difference_cells(of.cells, name, BEST)
        over = _orders_text(study.setting.orders) if name in (ADAPTIVE, SURROGATE) else "all orders"
        yield Row((TITLES[name], over), of, values | {"change": of.change("operations", BEST)})


CALLS = (
    intervals("Traces/claim", "traces", metric="traces"),
    intervals("Verifier calls/claim", "verifications", metric="verifications"),
)


def _further_policy_rows(study: Study) -> Iterator[Row]:
    """Yields the further policies beside adaptive stopping and the surrogate."""
    result = study.variants.result
    if result is not None:
        methods = Methods(result, study.setting.verifier, study.setting.cap)
        for name in (*(policy.name for policy in result.policies if policy.name != EVERY), *result.dropped):
            of = MethodOfRun(methods, name)
            abstains = of.cell("answer_rate") is not None
            yield Row((name,), of, {} if abstains or name == SURROGATE else _difference_cells(methods, name, SURROGATE))


def _coverage_rows(study: Study) -> Iterator[Row]:
    """Yields the coverage of prediction sets by class, since their promise holds for each class."""
    for one in study.variants.coverage:
        values: dict[str, Value] = {"claims": one.part.n, "promised": 100 * (1 - one.alpha), "threshold": one.threshold}
        yield Row((one.policy, one.label), PolicyCells(one.part, one.policy), values)


def _dropped_variant_notes(study: Study) -> Iterator[str]:
    if study.variants.coverage:
        yield "conformal sets are of the whole pool, so that every label which a trace gives has a score"
    yield from study.variants.missing
    if study.variants.result is not None:
        yield from (f"{name}: {why}" for name, why in study.variants.result.dropped.items())


AGAINST_SURROGATE = (
    f"differences: paired, against {TITLES[SURROGATE]} with its linear surrogate; a dash for policies that abstain, "
    "which counts as wrong"
)
PAIRED = Sheet[Study](
    "paired", "Paired differences in quality", ("Run", "Method", "Against"), DIFFERENCE_COLUMNS, _pair_rows,
    ("paired: every resample draws the same claims for both, with the same traces", _reasons_for_missing_pairs),
)  # fmt: skip
MEANS = Sheet[Study](
    "orders", "Means over orders in which the traces of a pool could have come",
    ("Method", "Over"), (
        *QUALITY, *DIFFERENCE_COLUMNS, *CALLS, intervals("Operations change, %", "change", 1, signed=True),
    ), _order_mean_rows, (
        "differences: paired, against exhaustive best-of-N",
        "without a stop: exact, over all orders; with one: over orders drawn at random",
        "other tables have the methods in the order in which traces were generated, as the thesis has",
    ), group="orders",
)  # fmt: skip
VARIANTS = Sheet[Study](
    "variants", "Further policies", ("Policy",), (
        percent_column("Macro-F1, %", "macro_f1", "macro_f1"), percent_column("Accuracy, %", "accuracy", "accuracy"),
        *DIFFERENCE_COLUMNS, *CALLS, *SETS,
    ), _further_policy_rows, (AGAINST_SURROGATE, _dropped_variant_notes), group="variants",
)  # fmt: skip
PREDICTION_SETS = Sheet[Study](
    "coverage", "Prediction sets by class", ("Policy", "Class"), (
        numbers("Claims", "claims", 0), numbers("Promised, %", "promised", 1), numbers("Threshold", "threshold", 4),
        *SETS,
    ), _coverage_rows, (
        "coverage: claims of the class whose set holds it; promised on average over development splits, not for each",
        "a dash for a threshold: the class is in every set, because too few claims to learn from have it, or a share "
        "alpha of them has no verified trace of their label",
    ), group="variants", optional=True,
)  # fmt: skip


K = TableColumn("k", Number(0))


def _budget_rows(
    name: str, heads: Sequence[str], interval: str = "", key: str = ""
) -> Callable[[Study], Iterator[Row]]:
    """Returns a function that yields the rows of the frame `name` of all budgets; each begins with the name of its
    pool.
    """

    def rows_of_study(study: Study) -> Iterator[Mapping[str, Any]]:
        for fixed in study.budgets.pools:
            frame: pl.DataFrame = getattr(fixed.budgets, name)
            for row in frame.iter_rows(named=True):
                yield {"pool": fixed.name, **row}

    return lambda study: rows_of_records(rows_of_study(study), ("pool", *heads), interval, key)


def _smallest_budget_rows(study: Study) -> Iterator[Row]:
    """Yields the smallest budget at which each order is within half a point of best-of-N."""
    for row in _budget_rows("smallest", ("order", "metric"))(study):
        best = row.values["best_of_n"]
        yield replace(row, values={**row.values, "best": 100 * best if isinstance(best, float) else None})


def _margin_unmet_rows(study: Study) -> Iterator[Row]:
    """Yields the share of claims on which the margin rule does not yet hold after k traces, with no cap
    but the pool.
    """
    frame = study.budgets.unresolved.rename({"largest_margin": "largest", "median_margin": "median"})
    return rows_of_records(frame.iter_rows(named=True), ("k",), "share")


def _uncovered_claims_notes(study: Study, shares: pl.DataFrame, why: str) -> Iterator[str]:
    """Yields notes on the claims that a table of shares leaves out: claims with too few traces, and others with the
    reason `why`.
    """
    yield study.budgets.depth.uncovered_claims_note
    if missing := study.budgets.count_uncovered(shares):
        few = "; fewer than nine tenths of the claims remain, so the numbers are dashes"
        unknown = shares["share"].null_count() == len(shares)
        yield remark(LEFT_OUT, f"{missing:,} claims are left out: {why}{few if unknown else ''}")


def _pool_depth_note(study: Study) -> list[str]:
    return [study.budgets.depth.uncovered_claims_note]


def _seed_note(study: Study) -> list[str]:
    return [f"random: seed {study.setting.random_seed}"]


ORDERS = (
    Sheet[Study](
        "budgets", "Every order at every budget", ("Candidate pool", "Order", K, "Metric"),
        (intervals("Value, %", "value"),), _budget_rows("by_k", ("order", "k", "metric"), "estimate", "value"),
        (_seed_note, "score: sees all scores, a diagnostic", _pool_depth_note), group="budgets", printed=False,
    ),
    Sheet[Study](
        "budget_pairs", "Orders against each other at the same budget",
        ("Candidate pool", K, "Metric", "Order", "Against"),
        (intervals("Difference, points", "difference_pp", signed=True), numbers("p", "p_value", 4)),
        _budget_rows("pairs", ("k", "metric", "order", "against"), "difference", "difference_pp"), (_pool_depth_note,),
        group="budgets", printed=False,
    ),
    Sheet[Study](
        "budget_smallest", "Smallest budget within 0.5 points of best-of-N", ("Candidate pool", "Order", "Metric"),
        (numbers("Smallest k", "k", 0), numbers("Best-of-N, %", "best")), _smallest_budget_rows,
        ("by estimates alone; differences with limits are in `budget_pairs`",
         "a dash: no budget reaches it, or it or a lower one cannot be replayed", _pool_depth_note), group="budgets",
    ),
)  # fmt: skip
"""Tables of fixed budgets, for every order."""
WITHOUT_POLICY = (
    Sheet[Study](
        "gold_within", "Gold label among the first k traces", (K,),
        (intervals("Claims with a gold trace, %", "share", 1), numbers("Claims", "n", 0)),
        lambda study: rows_of_records(study.budgets.gold.iter_rows(named=True), ("k",), "share"),
        ("sees gold: a diagnostic", lambda study: _uncovered_claims_notes(study, study.budgets.gold, "no gold label")),
    ),
    Sheet[Study](
        "unresolved", "Adaptive Stopping with no cap but the pool", (K,), (
            intervals("Not stopped, %", "share", 1), numbers("Largest margin reached", "largest", 4),
            numbers("Median of the largest", "median", 4), numbers("Claims", "n", 0),
        ), _margin_unmet_rows,
        (
            "margins: the largest lead so far of each claim that has not stopped",
            lambda study: _uncovered_claims_notes(
                study, study.budgets.unresolved, f"`{study.setting.verifier}` did not score every valid trace"
            ),
        ),
        group="unresolved",
    ),
)  # fmt: skip
"""Tables that need no policy."""
BUDGET_ORDERS = {
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


def _order_rows_at_budgets(study: Study) -> Iterator[Row]:
    """Yields macro-F1 of every order at chosen verifier budgets, with the surrogate's difference to two orders."""
    for fixed in study.budgets.pools:
        size, by_k = fixed.budgets.max_traces, fixed.budgets.by_k.filter(metric="macro_f1")
        cells = {
            (order, k): IntervalCell.of(cell, 100)
            for order, k, *cell in by_k.select("order", "k", "estimate", "low", "high").iter_rows()
        }
        less = {order: macro_f1_gaps(fixed.budgets, "surrogate", order) for order in LESS}
        for k in study.setting.table_budgets(size):
            values: dict[str, Value] = {key: cells.get((order, k)) for order, (_, key) in BUDGET_ORDERS.items()}
            for order, (_, key) in LESS.items():
                values[key] = less[order][k].points if k in less[order] else None
                values[f"{key}_depends"] = difference_sign_at_each_value(fixed.keys, size, k, order)
            yield Row((fixed.name, k), values=values, **study.published_budget(fixed, k))


def _fixed_budget_rows_by_key(study: Study) -> Iterator[Row]:
    """Yields the surrogate's macro-F1 at the shown budgets for each `unseen` and `label_score`, with its difference to
    the same two orders.
    """
    for fixed in study.budgets.pools:
        for at in fixed.keys:
            values: dict[str, Value] = {"surrogate_macro_f1_pct": at.macro_f1}
            for order, (_, key) in LESS.items():
                if (gap := at.gaps[order]) is not None:
                    values |= {key: gap.points, f"{key}_p": gap.p_value}
            yield Row((fixed.name, at.k, at.label_score, f"{at.unseen:g}"), values=values)


THESIS_BUDGETS = Sheet[Study](
    "table_B_4", "Macro-F1 under fixed verifier budgets", ("Candidate pool", K), (
        *(intervals(head, key) for head, key in BUDGET_ORDERS.values()),
        *chain.from_iterable(
            (intervals(f"{head}, points", key, signed=True), words(f"{head} depends on unseen", f"{key}_depends"))
            for head, key in LESS.values()
        ),
    ), _order_rows_at_budgets, (
        lambda study: [f"{line}; all orders: the exact expectation" for line in _seed_note(study)],
        "score: sees all scores, and so takes the best-scored trace at every k", RANDOM, SIGNS,
    ), "Dataset", "B.4",
)  # fmt: skip
FIXED_KEYS = Sheet[Study](
    "budget_keys", "Fixed verifier budgets by the surrogate's unseen and label score",
    ("Candidate pool", K, "Label score", "Unseen"), (
        intervals("Surrogate-guided", "surrogate_macro_f1_pct"),
        *chain.from_iterable(
            (intervals(f"{head}, points", key, signed=True), numbers("p", f"{key}_p", 4)) for head, key in LESS.values()
        ),
    ), _fixed_budget_rows_by_key,
    ("paired: every resample draws the same claims for both, with the same traces", RANDOM), group="budgets",
    printed=False,
)  # fmt: skip


def _swept_setting_rows(swept: SettingSweep, heads: Iterable[str]) -> Iterator[Row]:
    """Yields macro-F1 and operations of every setting of a sweep."""
    f1, operations = (swept.table.filter(metric=metric) for metric in MEASURED)
    frame = f1.with_columns(operations=operations["estimate"])
    return rows_of_records(frame.iter_rows(named=True), tuple(heads), "estimate", "macro_f1_pct")


def _surrogate_rows(study: Study) -> Iterator[Row]:
    for row in _swept_setting_rows(study.surrogate_keys, KEYS):
        yield replace(row, heads=tuple(f"{head:g}" if isinstance(head, float) else head for head in row.heads))


COLUMNS = (intervals("Macro-F1, %", "macro_f1_pct"), numbers("Operations/claim", "operations", 2))
SETTINGS = Sheet[Study](
    "sensitivity", "Sensitivity to the settings", ("Margin", "Cap", "Minimum", "Bootstrap"), COLUMNS,
    lambda study: _swept_setting_rows(study.sensitivity, SWEPT),
    ("bootstrap: of the surrogate; a dash is Adaptive Stopping, which has none",), group="sensitivity", printed=False,
)  # fmt: skip
SETTINGS_OF_KEYS = Sheet[Study](
    "sensitivity_keys", lambda studies: f"Sensitivity to the surrogate's own keys, N = {studies[0].setting.cap}",
    tuple(key.replace("_", " ").capitalize() for key in KEYS), COLUMNS, _surrogate_rows, group="keys", printed=False,
)  # fmt: skip


def _reliability_rows(study: Study) -> Iterator[Row]:
    """Yields the bins of a reliability table: the share of right traces beside the mean score."""
    for one in study.calibration:
        for part in one.calibration.bins if one.calibration is not None else ():
            yield Row((one.verifier, f"{part.low:.1f}–{part.high:.1f}"), part)


def _missing_calibrations(study: Study) -> Iterator[str]:
    yield from (one.missing for one in study.calibration if one.missing)


COUNTED = (numbers("Traces", "traces", 0, attrgetter("n")), numbers("Claims", "claims", 0, attrgetter("clusters")))
CALIBRATION = (
    Sheet[Study](
        "calibration",
        lambda studies: f"Calibration of the verifiers, first {studies[0].calibration[0].cap} traces", ("Verifier",), (
            *COUNTED, numbers("Right, %", "right", 1, lambda one: 100 * one.rate),
            numbers("Mean score", "score", 3, attrgetter("score")),
            intervals("Brier", "brier", 4, read_interval("brier")), intervals("ECE", "ece", 4, read_interval("ece")),
            numbers("ECE by chance", "chance", 4, attrgetter("chance")),
            numbers("AUROC", "auroc", 3, lambda one: None if isnan(one.auroc) else one.auroc),
        ), lambda study: (Row((one.verifier,), one.calibration) for one in study.calibration), (
            "ECE: of ten bins of equal width, less its bias; by chance: what calibrated scores would have on average",
            "intervals: by claim; that of an ECE holds what the data do not rule out, 0 where it begins at 0",
            _missing_calibrations,
        ),
    ),
    Sheet[Study](
        "reliability", "Right traces by the verifier's score", ("Verifier", "Score"),
        (
            *COUNTED,
            numbers("Mean score, %", "score", 1, lambda one: None if one.label.estimate is None else 100 * one.score),
            intervals("Right, %", "right", 1, read_interval("label", 100)),
        ), _reliability_rows, (
            "intervals: Wilson's, with the effective number of traces, since the traces of a claim are alike",
            f"a dash: fewer than {LEAST} traces, or of fewer than {LEAST_CLUSTERS} claims",
        ), optional=True,
    ),
)  # fmt: skip
"""Both tables."""
FURTHER_TABLES = (
    FIXED_KEYS, *ORDERS, *WITHOUT_POLICY, COSTS, PAIRED, SETTINGS, SETTINGS_OF_KEYS, MEANS, VARIANTS, PREDICTION_SETS,
    *CALIBRATION,
)  # fmt: skip
"""All further tables, in the order of the report."""
