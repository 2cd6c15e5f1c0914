"""Tables B.1 to B.4 of the thesis, and what every method costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from replay.studies.factcheck.budgets.budget_tables import order_sheet
from replay.studies.factcheck.budgets.method_tables import AGAINST, MEANS_OVER_ORDERS
from replay.studies.factcheck.budgets.runtime_table import runtime_sheet
from replay.studies.factcheck.methods.efficiency import EFFICIENCY, efficiency
from replay.studies.factcheck.methods.methods import BEST, METHODS, TITLES
from replay.studies.factcheck.published import bucket_keys
from replay.studies.factcheck.study import Study
from replay.studies.kit.cells import cell, compared
from replay.studies.kit.gaps import reasons
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, numbers
from toolkit.show import ShownInterval


def buckets(study: Study) -> Iterator[Row]:
    """Claims by traces used (table B.1)."""
    for found in study.main.buckets():
        values: dict[str, Value] = {"claims": found.examples, "share_pct": 100 * found.share}
        if found.part is not None:
            own, whole = (cell(found.part, name, "macro_f1", 100) for name in (found.policy, BEST))
            made = compared(found.part.comparisons, found.policy, BEST, "macro_f1")
            gained = None if made is None else ShownInterval.of(made[:3], 100)
            values |= {"method_macro_f1_pct": own, "exhaustive_macro_f1_pct": whole, "gain_pp": gained}
        theirs = study.published("B.1", **bucket_keys(found))
        yield Row((TITLES[found.policy], f"{found.first}–{found.last}"), values=values, **theirs)


def overhead(study: Study) -> Iterator[Row]:
    """Upper bound on the surrogate's own time (table B.3), and what replay measured."""
    spent = study.surrogate_s
    values: dict[str, Value] = {
        "measured_s_per_claim": spent,
        "measured_h": None if spent is None else spent * study.main.n / 3600,
    }
    yield Row((), values=values, **study.published("B.3"))


def _efficiency_notes(study: Study) -> Iterator[str]:
    yield from reasons(study.main.missing)
    yield from study.main.unlogged().values()
    yield "hours: of latency_s, one call after the other"
    yield "per verifier call: a dash where a method makes none"
    yield from (str(note) for note in study.notes if "cost_eur" in note.metrics)
    yield "change: against exhaustive best-of-N; a dash where that has nothing of it to divide by"


APPENDIX = (
    Sheet(
        "table_B_1", "Macro-F1 by traces used", ("Method", "Traces used"), (
            numbers("Claims", "claims", 0), numbers("Share, %", "share_pct", 1),
            intervals("Method Macro-F1", "method_macro_f1_pct"), intervals("Exh. Macro-F1", "exhaustive_macro_f1_pct"),
            intervals("Method − exhaustive, points", "gain_pp", signed=True),
        ), buckets, ("percent; exhaustive best-of-N is judged on the claims of each row",), "Dataset", "B.1",
    ),
    runtime_sheet(
        "table_B_2", "Wall-clock runtime and cost",
        lambda study, name: study.published("B.2", method=name), dataset="Dataset", number="B.2",
    ),
    Sheet(
        "table_B_3", "Overhead of the linear surrogate", (), (
            numbers("Upper-bound time, h", "upper_bound_h"),
            numbers("Upper-bound cost, €", "upper_bound_cost_eur", 3, significant=2),
            numbers("Measured, s per claim", "measured_s_per_claim", 6), numbers("Measured, h", "measured_h", 6),
        ), overhead, (
            "measured: wall-clock of replay's surrogate, all claims together; it holds no feature construction",
            "the bound is a dash: it is the wall-clock of a surrogate-guided run, and replay makes no calls",
        ), "Dataset", "B.3",
    ),
    order_sheet(
        "table_B_4", "Macro-F1 under fixed verifier budgets", Study.published_budget, dataset="Dataset", number="B.4"
    ),
)  # fmt: skip
"""Tables B.1 to B.4."""
COSTS: Sheet[Study] = Sheet(
    "efficiency", "Efficiency of every method", ("Method", "Number"), EFFICIENCY,
    lambda study: efficiency(study.main, {name: TITLES[name] for name in METHODS}, BEST), (_efficiency_notes,),
    printed=False,
)  # fmt: skip
TIES = "exhaustive best-of-N differs a little from table 5.1 where traces of unlike labels tie: the first wins"
MEANS = replace(MEANS_OVER_ORDERS, notes=(AGAINST, TIES))
