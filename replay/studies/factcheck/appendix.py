"""Tables B.1 to B.3 of the thesis, and the tables of one order, setting or claim at a time that it does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from replay.studies.factcheck.runs import BEST, METHODS, TITLES, VERIFYING, bucket_keys
from replay.studies.factcheck.study import Method, Study, lacking
from replay.studies.factcheck.tables import euros, missing_labels, price_note
from replay.studies.kit.cells import cell, compared, estimate
from replay.studies.kit.gaps import reasons
from replay.studies.kit.sheet import Row, Sheet, Value, intervals, listed, numbers
from toolkit.show import Number, ShownInterval, TableColumn

PARTS = ("generation", "verification")
K = TableColumn("k", Number(0))


def buckets(study: Study) -> Iterator[Row]:
    """Claims by traces used (table B.1)."""
    for found in study.main.buckets():
        values: dict[str, Value] = {"claims": found.examples, "share_pct": 100 * found.share}
        if found.part is not None:
            own, whole = (cell(found.part, name, "macro_f1", 100) for name in (found.policy, BEST))
            made = compared(found.part.comparisons, found.policy, BEST, "macro_f1")
            gained = None if made is None else ShownInterval.of(made[:3], 100)
            values |= {"method_macro_f1_pct": own, "exhaustive_macro_f1_pct": whole, "gain_pp": gained}
        theirs = study.published("B.1", [study.main], **bucket_keys(found))
        yield Row((TITLES[found.policy], f"{found.first}–{found.last}"), values=values, **theirs)


def _sum(found: Iterable[float | None]) -> float | None:
    """The sum of numbers that are all known."""
    values = list(found)
    return None if None in values else sum(value or 0 for value in values)


def wall(study: Study) -> Iterator[Row]:
    """Hours and euros of generation, verification and the rest of the wall-clock (table B.2)."""
    for name in VERIFYING:
        of = Method(study.main, name, study)
        hours = {part: estimate(of.cell(f"{part}_s", of.cells.n / 3600)) for part in PARTS}
        costs = {part: estimate(euros(of, part)) for part in PARTS}
        other = _other_h(study, **hours) if name == BEST else None
        hours["other"], costs["other"] = other, None if other is None else other * study.eur_per_h
        hours["total"], costs["run"] = _sum(hours.values()), _sum(costs.values())
        values: dict[str, Value] = {f"{part}_h": value for part, value in hours.items()}
        values |= {f"{part}_cost_eur": value for part, value in costs.items()}
        yield Row((TITLES[name],), values=values, **study.published("B.2", [study.main], method=name))


def _other_h(study: Study, generation: float | None, verification: float | None) -> float | None:
    if study.wall.seconds is None or generation is None or verification is None:
        return None
    other = study.wall.seconds / 3600 - generation - verification
    return other if other >= 0 else None


def _told_wall(study: Study) -> list[str]:
    """What the wall-clock of the log's runs is, or why it says nothing of the rest."""
    wall = study.wall
    if wall.pool_s is None or wall.verifier_s is None:
        return ["; ".join(wall.why)]
    runs = "run" if wall.runs == 1 else f"{wall.runs} runs"
    both = f"{wall.pool_s / 3600:.3f} h for pool `{study.setting.pool}` and {wall.verifier_s / 3600:.3f} h for verifier"
    told = f"wall-clock of the log's {runs}: {both} `{study.setting.verifier}`"
    if wall.why:
        return [f"{told}; no rest is told: {'; '.join(wall.why)}"]
    generation, verification = (study.main.total(BEST, metric) for metric in ("generation_s", "verification_s"))
    if generation is not None and verification is not None and (wall.seconds or 0.0) < generation + verification:
        return [f"{told}; calls ran in parallel: that is shorter than their sum, so there is no rest"]
    return [told]


def overhead(study: Study) -> Iterator[Row]:
    """Upper bound on the surrogate's own time (table B.3), and what replay measured."""
    spent = study.surrogate_s
    values: dict[str, Value] = {
        "measured_s_per_claim": spent,
        "measured_h": None if spent is None else spent * study.main.n / 3600,
    }
    yield Row((), values=values, **study.published("B.3", [study.main]))


def of_budgets(name: str, heads: Sequence[str], interval: str = "", key: str = "") -> Callable[[Study], Iterator[Row]]:
    """Rows of one of the frames of all budgets, each with what the table calls its pool first."""

    def found(study: Study) -> Iterator[Mapping[str, Any]]:
        for fixed in study.fixed_budgets:
            frame: pl.DataFrame = getattr(fixed.made, name)
            for row in frame.iter_rows(named=True):
                yield {"pool": fixed.name, **row}

    return lambda study: listed(found(study), ("pool", *heads), interval, key)


def smallest(study: Study) -> Iterator[Row]:
    """The smallest budget at which each order is within half a point of best-of-N."""
    for row in of_budgets("smallest", ("order", "metric"))(study):
        best = row.values["best_of_n"]
        yield replace(row, values={**row.values, "best": 100 * best if isinstance(best, float) else None})


def unresolved(study: Study) -> Iterator[Row]:
    """Claims whose margin rule has not held after k traces, with no cap but the pool."""
    found = study.unresolved.rename({"largest_margin": "largest", "median_margin": "median"})
    return listed(found.iter_rows(named=True), ("k",), "share")


def unserved(study: Study) -> list[str]:
    """Which claims are left out of a table of budgets."""
    return [study.depth.note]


def _too_few(shares: pl.DataFrame) -> str:
    if shares["share"].null_count() < len(shares):
        return ""
    return "; what is left is less than nine tenths of the claims asked about, so its numbers are dashes"


def _gold_notes(study: Study) -> Iterator[str]:
    yield study.depth.note
    if missing := lacking(study.depth, study.gold):
        yield f"{missing:,} claims are left out: no gold label{_too_few(study.gold)}"


def _unresolved_notes(study: Study) -> Iterator[str]:
    yield study.depth.note
    if missing := lacking(study.depth, study.unresolved):
        why = f"{missing:,} claims are left out: `{study.setting.verifier}` did not score every valid trace"
        yield f"{why}{_too_few(study.unresolved)}"


def efficiency(study: Study) -> Iterator[Row]:
    """Calls, tokens, seconds per claim, per trace and per verifier call, hours and euros, with reductions."""
    for name in METHODS:
        of, title = Method(study.main, name, study), TITLES[name]
        claims = of.cells.n
        for metric in SPENT:
            many, words = (1000, "1,000 claims") if metric == "cost_eur" else (1, "claim")
            mean, total, change = of.cell(metric, many), of.cell(metric, claims), of.change(metric, BEST)
            yield Row((title, f"{metric}, per {words}"), values={"mean": mean, "total": total, "change": change})
        yield Row((title, "missing-label traces"), values={"total": missing_labels(of)})
        for over, under, words in PER:
            yield Row((title, f"{over}, {words}"), values={"mean": of.cells.ratio(name, over, under)})
        hours, change = of.cell("latency_s", claims / 3600), of.change("latency_s", BEST)
        yield Row((title, "hours, all claims"), values={"total": hours, "change": change})


SPENT = (
    "traces", "verifications", "operations", "calls", "prompt_tokens", "completion_tokens", "total_tokens",
    "generation_s", "verification_s", "latency_s", "cost_eur",
)  # fmt: skip
PER = (
    ("generation_s", "traces", "per trace"),
    ("prompt_tokens+completion_tokens", "traces", "per trace"),
    ("verification_s", "verifications", "per verifier call"),
    ("operations", "verifications", "per verifier call"),
    ("latency_s", "verifications", "per verifier call"),
)
"""What one mean is divided by another for."""


def _efficiency_notes(study: Study) -> Iterator[str]:
    yield from reasons(study.main.missing)
    yield from study.main.unlogged().values()
    yield "hours: of latency_s, one call after the other"
    yield "per verifier call: a dash where a method makes none"
    yield from (str(note) for note in study.notes if "cost_eur" in note.metrics)
    yield "change: against exhaustive best-of-N; a dash where that has nothing of it to divide by"


def settings(study: Study) -> Iterator[Row]:
    """Macro-F1 and operations for every setting."""
    f1, spent = (study.sensitivity.table.filter(metric=metric) for metric in ("macro_f1", "operations"))
    found = f1.with_columns(operations=spent["estimate"])
    heads = ("margin", "cap", "min_valid", "bootstrap")
    return listed(found.iter_rows(named=True), heads, "estimate", "macro_f1_pct")


def _whole(study: Study) -> list[str]:
    return [price_note(study, study.main), *_told_wall(study)]


def seed(study: Study) -> list[str]:
    """What the random order was drawn from."""
    return [f"random: seed {study.setting.random_seed}"]


NAMED = (("Gen.", "generation"), ("Ver.", "verification"), ("Other", "other"))
APPENDIX = (
    Sheet(
        "table_B_1", "Macro-F1 by traces used", ("Method", "Traces used"), (
            numbers("Claims", "claims", 0), numbers("Share, %", "share_pct", 1),
            intervals("Method Macro-F1", "method_macro_f1_pct"), intervals("Exh. Macro-F1", "exhaustive_macro_f1_pct"),
            intervals("Difference", "gain_pp", signed=True),
        ), buckets, ("percent; exhaustive best-of-N is judged on the claims of each row",), "Dataset", "B.1",
    ),
    Sheet(
        "table_B_2", "Wall-clock runtime and cost", ("Method",), (
            *(numbers(f"{head} h", f"{part}_h") for head, part in (*NAMED, ("Total", "total"))),
            *(
                numbers(f"{head} cost, €", f"{part}_cost_eur", 3, significant=2)
                for head, part in (*NAMED, ("Run", "run"))
            ),
        ), wall, (
            _whole,
            "other: wall-clock less generation and verification; a replayed method that stops early has none",
        ), "Dataset", "B.2",
    ),
    Sheet(
        "table_B_3", "Overhead of the linear surrogate", (), (
            numbers("Upper-bound time, h", "upper_bound_h"),
            numbers("Upper-bound cost, €", "upper_bound_cost_eur", 3, significant=2),
            numbers("Measured, s per claim", "measured_s_per_claim", 6), numbers("Measured, h", "measured_h", 6),
        ), overhead, (
            "measured: wall-clock of replay's surrogate, all claims together; it holds no feature construction",
            "the bound needs the wall-clock of a surrogate-guided run, which replay does not make: a dash",
        ), "Dataset", "B.3",
    ),
)  # fmt: skip
"""Tables B.1 to B.3."""
ORDERS = (
    Sheet(
        "budgets", "Every order at every budget", ("Candidate pool", "Order", K, "Metric"),
        (intervals("Value, %", "value"),), of_budgets("by_k", ("order", "k", "metric"), "estimate", "value"),
        (seed, "score: sees all scores, a diagnostic", unserved), group="B.4",
    ),
    Sheet(
        "budget_pairs", "Orders against each other at the same budget",
        ("Candidate pool", K, "Metric", "Order", "Against"),
        (intervals("Difference, points", "difference_pp", signed=True), numbers("p", "p_value", 4)),
        of_budgets("pairs", ("k", "metric", "order", "against"), "difference", "difference_pp"), (unserved,),
        group="B.4",
    ),
    Sheet(
        "budget_smallest", "Smallest budget within 0.5 points of best-of-N", ("Candidate pool", "Order", "Metric"),
        (numbers("Smallest k", "k", 0), numbers("Best-of-N, %", "best")), smallest,
        ("a dash: at no budget, or not known because it or a lower one cannot be replayed", unserved), group="B.4",
    ),
)  # fmt: skip
"""Tables of fixed budgets, for every order."""
FOUND: tuple[Sheet[Study], ...] = (
    Sheet(
        "gold_within", "Gold label among the first k traces", (K,),
        (intervals("Claims with a gold trace, %", "share", 1), numbers("Claims", "n", 0)),
        lambda study: listed(study.gold.iter_rows(named=True), ("k",), "share"),
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
    Sheet(
        "efficiency", "Efficiency of every method", ("Method", "Number"), (
            intervals("Mean", "mean", 4, significant=2), intervals("Total", "total", 2, significant=2),
            intervals("Change, %", "change", 1, signed=True),
        ), efficiency, (_efficiency_notes,),
    ),
)  # fmt: skip
"""What is found without a policy, and what every method costs."""
SETTINGS = Sheet(
    "sensitivity", "Sensitivity to the settings", ("Margin", "Cap", "Minimum", "Bootstrap"),
    (intervals("Macro-F1, %", "macro_f1_pct"), numbers("Operations/claim", "operations", 2)), settings,
    ("bootstrap: of the surrogate; a dash is Adaptive Stopping, which has none",), group="sensitivity",
)  # fmt: skip
