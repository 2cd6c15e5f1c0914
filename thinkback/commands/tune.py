"""`thinkback tune`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

ROWS = 12
"""Families that the printed table shows; `table.csv` has all."""

if TYPE_CHECKING:
    import polars as pl

    from replay.analyses.tune.tuned import TuningResult
    from toolkit.show import IntervalCell, Table


def tune(
    log: str,
    goal: str,
    policies: Path | None = None,
    on: str | None = None,
    report: str | None = None,
    baseline: str | None = None,
    out: Path | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    rules: Path | None = None,
    strata: str | None = None,
    weigh: str | None = None,
    metric: str | None = None,
    measure: str | None = None,
    cost: str | None = None,
    prices: Path | None = None,
    workers: str | None = None,
    force: bool = False,
) -> None:
    """Choose settings on development rows; report them on others.

    One setting of every sweep is chosen by the goal.

    The two sets of rows must not overlap. What is chosen is frozen before the reported rows are looked at.
    """
    from replay.analyses.tune.goals import read_goal
    from replay.analyses.tune.tuned import tuning_answer
    from replay.analyses.tune.tuning import tune as compute
    from replay.data.prices import load_prices, priced_columns
    from replay.policies.suite import suite
    from replay.policies.toml import load_policies
    from thinkback import console
    from toolkit.files import check_replaceable, replacing
    from toolkit.show import table_of

    if out is not None:
        check_replaceable(out, force, inputs=(log, policies, rules, prices))
    file = load_policies(suite(log, prices=prices, cost=cost).text if policies is None else policies, rules)
    wanted = read_goal(goal, priced_columns(file.prices if prices is None else load_prices(prices)))
    if baseline is None and wanted.baseline is None and any(limit.relative for limit in wanted.limits):
        baseline = next((p.name for p in file.policies if p.sweep_size == 1 and not p.diagnostic), None)
    tuned = compute(
        log, file, on=on, report=report, goal=wanted, baseline=baseline, strata=strata, weigh=weigh, metric=metric,
        measure=measure, cost=cost, prices=prices, seed=seed, resamples=resamples, level=level,
        workers=workers,
    )  # fmt: skip
    table = _table(tuned, goal)
    if out is not None:
        with replacing(out, force) as folder:
            (folder / "chosen.csv").write_text(table_of(tuned.chosen).csv(), encoding="utf-8")
            (folder / "table.md").write_text(table.markdown(), encoding="utf-8")
            marks = {"simulated": "true"} if tuned.report.simulated else {}
            (folder / "table.csv").write_text(table.csv(marks), encoding="utf-8")
            for name, result in (("development", tuned.development), ("report", tuned.report)):
                result.save(folder / name)
    more = len(table.rows) - ROWS
    below = (f"{more} more families; with `--out`, table.csv has all", *table.below) if more > 0 else table.below
    console.show(replace(table, rows=table.rows[:ROWS], below=below))
    console.say()
    console.say_folded(tuning_answer(tuned))
    if out is not None:
        console.say()
        console.say(f"{out}/: chosen.csv, development, report, table.csv, table.md")


def _table(tuned: TuningResult, goal: str) -> Table:
    """A table with a row for each family, the best first: what was chosen, and the goal's metrics on both sets."""
    from replay.analyses.tune.tuned import metric_word, ranking_metric
    from toolkit.columns import metric_column
    from toolkit.notes import Severity
    from toolkit.show import SIMULATED, Number, NumberWithInterval, Table, TableColumn

    metrics = [
        str(tuned.goal.metric),
        *(limit.metric for limit in tuned.goal.limits),
        ranking_metric(tuned.development),
    ]
    known = tuned.development.columns
    columns = [
        TableColumn("family"),
        TableColumn("tried", Number(0), drop=3),
        TableColumn("feasible", Number(0), drop=4),
        TableColumn("chosen"),
    ]
    metrics = list(dict.fromkeys(metrics))
    for metric in metrics:
        one = metric_column(metric, known)
        form, heading = NumberWithInterval(one.precision), metric_word(metric, known)
        if tuned.goal.in_words:
            form, heading = NumberWithInterval.of(one), one.heading
        columns += [
            TableColumn(f"{heading}, {rows}", form, f"{metric}_{rows}", drop=drop, core=rows == "report")
            for rows, drop in (("dev", 2), ("report", 1))
        ]
    rows = []
    ordered = tuned.chosen.sort(
        "value", descending=not tuned.goal.smallest, nulls_last=True, maintain_order=True
    )  # a setting that keeps to no limit comes last
    for family, tried, feasible, policy, _ in ordered.iter_rows():
        cells = [
            _summary_cell(result.summary, policy, metric)
            for metric in metrics
            for result in (tuned.development, tuned.report)
        ]
        rows.append((family, tried, feasible, policy, *cells))
    rows_on, others = tuned.choice.chosen, tuned.choice.reported
    notes = [
        f"goal: {goal}",
        f"{tuned.tried:,} settings tried on {rows_on.examples:,} examples ({rows_on.where}); "
        f"reported on {others.examples:,} others ({others.where})",
        "the development numbers are of the best of many settings, so they look better than new rows would",
    ]
    if tuned.report.baseline is not None:
        notes.append(f"baseline: {tuned.report.baseline}")
    run_notes = [
        replace(note, text=f"{rows_of}: {note.text}")
        for rows_of, result in (("development", tuned.development), ("reported", tuned.report))
        for note in result.notes
        if not note.metrics or set(note.metrics) & set(metrics)
    ]
    above = [SIMULATED] if tuned.report.simulated else []
    above += [str(note) for note in run_notes if note.severity is Severity.WARNING]
    notes += [str(note) for note in run_notes if note.severity is not Severity.WARNING]
    title = "Settings chosen on development rows"
    return Table(title, tuple(columns), tuple(rows), above=tuple(above), below=tuple(notes))


def _summary_cell(summary: pl.DataFrame, policy: str | None, metric: str) -> IntervalCell | None:
    from toolkit.show import IntervalCell

    rows = summary.filter(policy=policy or "", metric=metric).select("estimate", "low", "high").rows()
    return IntervalCell.of(rows[0]) if rows else None
