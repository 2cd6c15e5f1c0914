"""Tables B.1 to B.3 of the thesis, and the tables that it does not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from replay.runs.coverage_notes import WARN_EXCLUDED
from replay.studies.factcheck.buckets import trace_buckets
from replay.studies.factcheck.further import averaged, coverage, paired, variants
from replay.studies.factcheck.runs import BEST, METHODS, TITLES, VERIFYING
from replay.studies.factcheck.sheets import Measure, SheetRow, Value, sheet
from replay.studies.factcheck.study import Study, told
from replay.studies.factcheck.surrogate_tables import fixed, fixed_by_keys, lazy_by_keys
from replay.studies.factcheck.tables import euros, missing_labels, price_note
from toolkit.notes import warning
from toolkit.show import ShownInterval, Table


def appendix_tables(study: Study) -> dict[str, Table]:
    """The tables by the names of their files."""
    tables = {
        "table_B_1": buckets(study),
        "table_B_2": wall(study),
        "table_B_3": overhead(study),
        "table_B_4": fixed(study),
        "budget_keys": fixed_by_keys(study),
        "budgets": every_budget(study),
        "budget_pairs": pairs(study),
        "budget_smallest": smallest(study),
        "gold_within": gold_table(study),
        "unresolved": unresolved_table(study),
        "efficiency": efficiency(study),
        "paired": paired(study),
        "sensitivity": sensitivity_table(study),
        "sensitivity_keys": lazy_by_keys(study),
    }
    if study.beyond is not None:
        tables["orders"] = averaged(study, study.beyond)
        tables["variants"] = variants(study, study.beyond)
        if study.beyond.coverage:
            tables["coverage"] = coverage(study, study.beyond)
    return tables


def buckets(study: Study) -> Table:
    """Macro-F1 by traces used, against exhaustive on the same claims (table B.1)."""
    measures = [
        Measure("Claims", "claims", 0),
        Measure("Share, %", "share_pct", 1),
        Measure("Method Macro-F1", "method_macro_f1_pct", interval=True),
        Measure("Exh. Macro-F1", "exhaustive_macro_f1_pct", interval=True),
        Measure("Difference", "gain_pp", interval=True, signed=True),
    ]
    rows = []
    for found in trace_buckets(study.main):
        values: dict[str, Value] = {
            "claims": found.claims,
            "share_pct": 100 * found.share,
            "method_macro_f1_pct": found.own,
            "exhaustive_macro_f1_pct": found.exhaustive,
            "gain_pp": found.difference,
        }
        keys = {"method": found.method, "traces_from": found.first, "traces_to": found.last}
        rows.append(SheetRow((study.dataset, TITLES[found.method], f"{found.first}–{found.last}"), values, keys))
    notes = ("percent; exhaustive best-of-N is judged on the claims of each row",)
    return sheet(study, "B.1", "Macro-F1 by traces used", ("Dataset", "Method", "Traces used"), measures, rows, notes)


def wall(study: Study) -> Table:
    """Hours and euros of generation, verification and the rest of the wall-clock (table B.2)."""
    parts = ("generation", "verification")
    named = (("Gen.", "generation"), ("Ver.", "verification"), ("Other", "other"))
    measures = [Measure(f"{head} h", f"{part}_h") for head, part in (*named, ("Total", "total"))]
    priced = [(f"{head} cost, €", f"{part}_cost_eur") for head, part in (*named, ("Run", "run"))]
    measures += [Measure(head, key, 3, significant=2) for head, key in priced]
    rows = []
    for name in VERIFYING:
        hours = {part: _estimate(study.main.cell(name, f"{part}_s", study.main.n / 3600)) for part in parts}
        costs = {part: _estimate(euros(study, study.main, name, part)) for part in parts}
        other = _other_h(study, **hours) if name == BEST else None
        hours["other"], costs["other"] = other, None if other is None else other * study.eur_per_h
        hours["total"], costs["run"] = _sum(hours.values()), _sum(costs.values())
        values = {f"{part}_h": value for part, value in hours.items()}
        values |= {f"{part}_cost_eur": value for part, value in costs.items()}
        rows.append(SheetRow((study.dataset, TITLES[name]), values, {"method": name}))
    notes = [price_note(study, study.main), _told_wall(study)]
    notes.append("other: wall-clock less generation and verification; a replayed method that stops early has none")
    return sheet(study, "B.2", "Wall-clock runtime and cost", ("Dataset", "Method"), measures, rows, notes)


def _sum(values: Collection[float | None]) -> float | None:
    """The sum of numbers that are all known."""
    return None if None in values else sum(value or 0 for value in values)


def _estimate(found: ShownInterval | None) -> float | None:
    return None if found is None else found.estimate


def _other_h(study: Study, generation: float | None, verification: float | None) -> float | None:
    if study.wall.seconds is None or generation is None or verification is None:
        return None
    other = study.wall.seconds / 3600 - generation - verification
    return other if other >= 0 else None


def _told_wall(study: Study) -> str:
    """What the wall-clock of the log's runs is, or why it says nothing of the rest."""
    wall = study.wall
    if wall.pool_s is None or wall.verifier_s is None:
        return "; ".join(wall.why)
    runs = "run" if wall.runs == 1 else f"{wall.runs} runs"
    both = f"{wall.pool_s / 3600:.3f} h for pool `{study.setting.pool}` and {wall.verifier_s / 3600:.3f} h for verifier"
    told = f"wall-clock of the log's {runs}: {both} `{study.setting.verifier}`"
    if wall.why:
        return f"{told}; no rest is told: {'; '.join(wall.why)}"
    generation, verification = (study.main.total(BEST, metric) for metric in ("generation_s", "verification_s"))
    if generation is not None and verification is not None and (wall.seconds or 0.0) < generation + verification:
        return f"{told}; calls ran in parallel: that is shorter than their sum, so there is no rest"
    return told


def overhead(study: Study) -> Table:
    """Upper bound on the surrogate's own time (table B.3), and what replay measured."""
    measures = [
        Measure("Upper-bound time, h", "upper_bound_h"),
        Measure("Upper-bound cost, €", "upper_bound_cost_eur", 3, significant=2),
        Measure("Measured, s per claim", "measured_s_per_claim", 6),
        Measure("Measured, h", "measured_h", 6),
    ]
    spent = study.surrogate_s
    values: dict[str, Value] = {
        "measured_s_per_claim": spent,
        "measured_h": None if spent is None else spent * study.main.n / 3600,
    }
    notes = (
        "measured: wall-clock of replay's surrogate, all claims together; it holds no feature construction",
        "the bound needs the wall-clock of a surrogate-guided run, which replay does not make: a dash",
    )
    published = study.setting.published
    rows = [SheetRow((study.dataset,), values, {"dataset": "" if published is None else published.dataset})]
    return sheet(study, "B.3", "Overhead of the linear surrogate", ("Dataset",), measures, rows, notes)


def _percent(row: Mapping[str, Any], estimate: str = "estimate") -> ShownInterval | None:
    return ShownInterval.of((row[estimate], row["low"], row["high"]), 100)


def _listed(
    study: Study, title: str, heads: Mapping[str, str], measures: Sequence[Measure], found: Iterable[Mapping[str, Any]],
    notes: Sequence[str], warnings: Sequence[str] | None = None, interval: str = "estimate",
) -> Table:  # fmt: skip
    """A table with one row for each that was found; `heads` maps its first columns to theirs.

    `interval` names the column of their estimates, which are shown with their intervals, in percent.
    """
    rows = [
        SheetRow(
            tuple(row[column] for column in heads.values()),
            {m.key: _percent(row, interval) if m.interval else row[m.key] for m in measures},
        )
        for row in found
    ]
    return sheet(study, "", title, tuple(heads), measures, rows, notes, warnings)


def _of_budgets(study: Study, name: str) -> Iterator[dict[str, Any]]:
    """Rows of one of the frames of all budgets, with what the table calls their pool."""
    for found in study.budgets:
        frame: pl.DataFrame = getattr(found, name)
        for row in frame.iter_rows(named=True):
            yield {"pool": f"{found.max_traces} traces", **row}


def every_budget(study: Study) -> Table:
    """Macro-F1 and accuracy of every order at every budget."""
    heads = {"Candidate pool": "pool", "Order": "order", "k": "k", "Metric": "metric"}
    measures = [Measure("Value, %", "value", interval=True)]
    notes = (f"random: seed {study.setting.random_seed}", "score: sees all scores, a diagnostic", *_unserved(study))
    found, warnings = _of_budgets(study, "by_k"), study.warnings["B.4"]
    return _listed(study, "Every order at every budget", heads, measures, found, notes, warnings)


def pairs(study: Study) -> Table:
    """Paired differences of every two orders at every k."""
    heads = {"Candidate pool": "pool", "k": "k", "Metric": "metric", "Order": "order", "Against": "against"}
    measures = [Measure("Difference, points", "difference_pp", interval=True, signed=True), Measure("p", "p_value", 4)]
    title, found, warnings = "Orders against each other at the same budget", _of_budgets(study, "pairs"), study.warnings
    return _listed(study, title, heads, measures, found, _unserved(study), warnings["B.4"], interval="difference")


def smallest(study: Study) -> Table:
    """The smallest budget at which each order is within half a point of best-of-N."""
    heads = {"Candidate pool": "pool", "Order": "order", "Metric": "metric"}
    shares = ((row, row["best_of_n"]) for row in _of_budgets(study, "smallest"))
    found = (row | {"best": None if best is None else 100 * best} for row, best in shares)
    measures = [Measure("Smallest k", "k", 0), Measure("Best-of-N, %", "best")]
    title = "Smallest budget within 0.5 points of best-of-N"
    notes = ("a dash: at no budget, or not known because it or a lower one cannot be replayed", *_unserved(study))
    return _listed(study, title, heads, measures, found, notes, study.warnings["B.4"])


def _unserved(study: Study) -> Sequence[str]:
    """Pools and orders that the log cannot serve, with the reason."""
    return (study.depth.note, *study.missing.get("B.4", ()))


def gold_table(study: Study) -> Table:
    """Claims with a trace of the gold label among the first k."""
    measures = [Measure("Claims with a gold trace, %", "share", 1, interval=True), Measure("Claims", "n", 0)]
    lacking = _lacking(study, study.gold)
    notes = ["sees gold: a diagnostic", study.depth.note]
    if lacking:
        notes.append(f"{lacking:,} claims are left out: no gold label{_too_few(study.gold)}")
    title, found = "Gold label among the first k traces", study.gold.iter_rows(named=True)
    return _listed(study, title, {"k": "k"}, measures, found, notes, interval="share")


def unresolved_table(study: Study) -> Table:
    """Claims whose margin rule has not held after k traces, with no cap but the pool."""
    measures = [
        Measure("Not stopped, %", "share", 1, interval=True),
        Measure("Largest margin reached", "largest", 4),
        Measure("Median of the largest", "median", 4),
        Measure("Claims", "n", 0),
    ]
    notes = ["margins: of the claims that have not stopped, the largest lead each has had by then", study.depth.note]
    lacking, warnings = _lacking(study, study.unresolved), study.warnings[""]
    if lacking:
        why = f"{lacking:,} claims are left out: `{study.setting.verifier}` did not score every valid trace"
        notes.append(f"{why}{_too_few(study.unresolved)}")
        if lacking > WARN_EXCLUDED * study.depth.claims:
            told = warning("many_left_out", f"{lacking:,} of {study.depth.claims:,} claims are left out")
            warnings = (*warnings, str(told))
    found = study.unresolved.rename({"largest_margin": "largest", "median_margin": "median"}).iter_rows(named=True)
    title = "Adaptive Stopping with no cap but the pool"
    return _listed(study, title, {"k": "k"}, measures, found, notes, warnings, interval="share")


def _lacking(study: Study, shares: pl.DataFrame) -> int:
    """Claims with a pool of the size that shares are of, but not among them."""
    return study.depth.claims - study.depth.shorter - max(shares["n"].to_list())


def _too_few(shares: pl.DataFrame) -> str:
    if shares["share"].null_count() < len(shares):
        return ""
    return "; what is left is less than nine tenths of the claims asked about, so its numbers are dashes"


def efficiency(study: Study) -> Table:
    """Calls, tokens, seconds per claim, per trace and per verifier call, hours and euros, with reductions."""
    metrics = (
        "traces", "verifications", "operations", "calls", "prompt_tokens", "completion_tokens", "total_tokens",
        "generation_s", "verification_s", "latency_s", "cost_eur",
    )  # fmt: skip
    per = (
        ("generation_s", "traces", "per trace"),
        ("prompt_tokens+completion_tokens", "traces", "per trace"),
        ("verification_s", "verifications", "per verifier call"),
        ("operations", "verifications", "per verifier call"),
        ("latency_s", "verifications", "per verifier call"),
    )
    rows = []
    for name in METHODS:
        for metric in metrics:
            change = study.main.change(name, metric) if name != BEST else None
            total = study.main.cell(name, metric, study.main.n)
            many, claims = (1000, "1,000 claims") if metric == "cost_eur" else (1, "claim")
            mean = study.main.cell(name, metric, many)
            values: dict[str, Value] = {"mean": mean, "total": total, "change": change}
            rows.append(SheetRow((TITLES[name], f"{metric}, per {claims}"), values))
        rows.append(SheetRow((TITLES[name], "missing-label traces"), {"total": missing_labels(study.main, name)}))
        for over, under, words in per:
            rows.append(SheetRow((TITLES[name], f"{over}, {words}"), {"mean": study.main.ratio(name, over, under)}))
        hours: dict[str, Value] = {
            "total": study.main.cell(name, "latency_s", study.main.n / 3600),
            "change": study.main.change(name, "latency_s") if name != BEST else None,
        }
        rows.append(SheetRow((TITLES[name], "hours, all claims"), hours))
    measures = [
        Measure("Mean", "mean", 4, interval=True, significant=2),
        Measure("Total", "total", 2, interval=True, significant=2),
        Measure("Change, %", "change", 1, interval=True, signed=True),
    ]
    notes = (
        *told(study.main),
        *study.main.unlogged().values(),
        "hours: of latency_s, one call after the other",
        "per verifier call: a dash where a method makes none",
        *(str(note) for note in study.notes if "cost_eur" in note.metrics),
        "change: against exhaustive best-of-N; a dash where that has nothing of it to divide by",
    )
    return sheet(study, "", "Efficiency of every method", ("Method", "Number"), measures, rows, notes)


def sensitivity_table(study: Study) -> Table:
    """Macro-F1 and operations for every setting."""
    heads = {"Margin": "margin", "Cap": "cap", "Minimum": "min_valid", "Bootstrap": "bootstrap"}
    f1, spent = (study.sensitivity.table.filter(metric=metric) for metric in ("macro_f1", "operations"))
    found = f1.with_columns(operations=spent["estimate"]).iter_rows(named=True)
    measures = [Measure("Macro-F1, %", "macro_f1_pct", interval=True), Measure("Operations/claim", "operations", 2)]
    notes = ("bootstrap: of the surrogate; a dash is Adaptive Stopping, which has none", *study.sensitivity.missing)
    title, warnings = "Sensitivity to the settings", study.sensitivity.warnings
    return _listed(study, title, heads, measures, found, notes, warnings)
