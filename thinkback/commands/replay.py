"""`thinkback replay`."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinkback import options
from thinkback.options import option

if TYPE_CHECKING:
    from replay import Result
    from toolkit.show import RankedInput

GROUPS = 8  # of `--by`, whose tables are printed too
ROWS = 40  # that the printed table shows where sweeps are long; the files have all


class Method(StrEnum):
    """How intervals are made from the resamples."""

    percentile = "percentile"
    bca = "bca"


def replay(
    log: options.Log,
    policies: options.Policies,
    out: options.OutFolder,
    baseline: Annotated[str | None, option("--baseline", "Policy that all are compared with.", "NAME")] = None,
    margin: Annotated[
        float | None,
        option("--margin", "Say which policies are not worse than the baseline by more than this (0.01: one point)."),
    ] = None,
    by: Annotated[
        str | None, option("--by", "Columns of examples whose groups are summarised too.", "COLUMN,…")
    ] = None,
    where: options.Where = None,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    method: Annotated[Method, typer.Option("--method", help="Kind of interval.")] = Method.percentile,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Fail where a policy would be dropped because the log covers too few examples."),
    ] = False,
    metric: Annotated[
        str, typer.Option("--metric", metavar="NAME", help="Quality that ranks: accuracy, macro_f1, recall_5 …")
    ] = "accuracy",
    cost: Annotated[
        str | None,
        option("--cost", "Cost of table and figure: tokens, completion tokens, calls, operations, seconds, €.", "NAME"),
    ] = None,
    measure: Annotated[
        str | None, option("--measure", "Column of traces (0 to 1) in place of `correct`.", "NAME")
    ] = None,
    rules: options.Rules = None,
    kw: options.Kilowatts = 0.25,
    eur_per_kwh: options.EnergyPrice = 0.25,
    force: options.Force = False,
) -> None:
    """Replay policies on a log and rank them.

    Writes outcomes, summary and comparisons (Parquet), run.json, the table (Markdown and CSV) and the cost-accuracy
    figure (PDF and PNG) to the folder of --out, and prints the table.
    """
    from replay import run
    from toolkit.errors import ThinkbackError
    from toolkit.files import check_replaceable
    from toolkit.stats import check_margin

    if margin is not None and baseline is None:
        raise ThinkbackError("`--margin` needs `--baseline`: name the policy that the others are compared with")
    if margin is not None:
        check_margin(margin)
    check_replaceable(out, force, inputs=(log, policies, rules))
    result = run(
        log,
        policies,
        baseline=baseline,
        where=where,
        by=options.names(by),
        seed=seed,
        resamples=resamples,
        level=level,
        method=method.value,
        strict=strict,
        metric=metric,
        cost=cost,
        measure=measure,
        rules=rules,
        kw=kw,
        eur_per_kwh=eur_per_kwh,
    )
    _write_and_show(result, _ranked(result, margin), out, force)


def _write_and_show(result: Result, ranked: RankedInput, out: Path, force: bool) -> None:
    """Write everything to the folder, as a whole, then print the tables and the names of the files."""
    from thinkback import console
    from toolkit.files import replacing
    from toolkit.show import ranked_table

    groups = [ranked_table(group, ROWS) for group in _groups(result, ranked)]
    with replacing(out, force) as folder:
        result.save(folder)
        _save_pictures(ranked, result.provenance["log"]["name"], folder)
        if groups:
            text = "\n".join(table.markdown() for table in groups)
            (folder / "table_by.md").write_text(text, encoding="utf-8")
        files = sorted(path.name for path in folder.iterdir())
    console.show(ranked_table(ranked, ROWS))
    for table in groups if len(groups) <= GROUPS else ():
        console.say()
        console.show(table)
    if len(groups) > GROUPS:
        console.say(f"{len(groups)} groups: table_by.md ranks the policies in each.")
    console.say()
    console.say(f"{out}/: {', '.join(files)}")


def _ranked(result: Result, margin: float | None) -> RankedInput:
    """What the ranked table and the figure need of a run."""
    from toolkit.columns import metric_column
    from toolkit.show import PolicyRow, RankedInput

    made, columns = result.provenance, result.columns
    return RankedInput(
        summary=result.summary,
        comparisons=result.comparisons,
        policies=tuple(
            PolicyRow(p.name, p.sweep, p.sweep_size, p.diagnostic, p.base, p.swept) for p in result.policies
        ),
        n=result.statistics.n,
        title=f"Policies on {made['log']['name']}, ranked by {metric_column(made['metric'], columns).label}",
        metric=made["metric"],
        by_cost=made["cost"],
        baseline=result.baseline,
        leader=result.leader,
        margin=margin,
        simulated=result.simulated,
        seed=made["seed"],
        resamples=made["resamples"],
        level=made["level"],
        method=made["method"],
        notes=result.notes,
        columns=columns,
    )


def _groups(result: Result, whole: RankedInput) -> list[RankedInput]:
    """The same for each group of `by`."""
    return [
        replace(
            whole,
            summary=statistics.summary,
            comparisons=statistics.comparisons,
            n=statistics.n,
            leader=statistics.leader,
            notes=statistics.notes,
            title=", ".join(f"{column} = {value}" for column, value in zip(result.by, group, strict=True)),
        )
        for group, statistics in result.groups.items()
    ]


def _save_pictures(ranked: RankedInput, log: str, folder: Path) -> None:
    """table.md, table.csv and, where accuracy and a cost are known, frontier.pdf and frontier.png."""
    from toolkit.show import frontier_figure, ranked_table, save_figure

    marks = {"simulated": "true"} if ranked.simulated else {}
    (folder / "table.md").write_text(ranked_table(ranked, ROWS).markdown(), encoding="utf-8")
    (folder / "table.csv").write_text(ranked_table(ranked).csv(marks), encoding="utf-8")
    figure = frontier_figure(ranked, f"Policies on {log}")
    if figure is None:
        return
    for suffix in ("pdf", "png"):
        save_figure(figure, folder / f"frontier.{suffix}")
