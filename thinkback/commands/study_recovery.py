"""`thinkback study recovery`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thinkback import options
from thinkback.options import file_option, option


def recovery(
    log: options.Log,
    out: options.OutFolder,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="SQL", help="Examples that gates are fitted on.", show_default="split = 'train'"),
    ] = None,
    tune: Annotated[
        str | None,
        typer.Option(
            "--tune", metavar="SQL", help="Examples that thresholds are chosen on.", show_default="split = 'dev'"
        ),
    ] = None,
    where: Annotated[
        str, typer.Option("--where", metavar="SQL", help="Examples that are reported.")
    ] = "split = 'test'",
    action: Annotated[str | None, option("--action", "The action to gate; by default the best one.", "NAME")] = None,
    base: Annotated[str | None, option("--base", "Pool of the base attempts.", "POOL")] = None,
    pool: Annotated[
        str | None, option("--pool", "Pool of the revisions, of each action with several.", "POOL,…")
    ] = None,
    budgets: Annotated[
        str | None, option("--budgets", "Longer pools; by default those with a higher limit.", "POOL,…")
    ] = None,
    gate: Annotated[
        list[Path] | None, file_option("--gate", "A frozen gate, that acts for its action; repeatable.", "GATE.json")
    ] = None,
    pooled: Annotated[
        bool, typer.Option("--pooled", help="Choose the action and fit gates on all data sets together.")
    ] = False,
    margin: Annotated[
        float, typer.Option("--margin", help="Loss of accuracy that the recommendation tolerates (0.01: one point).")
    ] = 0.01,
    prices: Annotated[
        Path | None, file_option("--prices", "Prices per million tokens, by model, in a table [prices].", "FILE.toml")
    ] = None,
    together: Annotated[int, typer.Option("--together", min=1, help="Samples of a vote generated at a time.")] = 1,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    width: options.FigureWidth = "6.75in",
    force: options.Force = False,
) -> None:
    """Think again, or think longer?

    Every table and figure of SeVRA, for a log with revisions of a base attempt. Screens the actions, fits gates,
    compares accepting, revising and longer budgets on the reported examples, and recommends one. Writes each table as
    Markdown, LaTeX and CSV, each figure as PDF, SVG and PNG, and report.md.
    """
    from replay.studies.recovery.report import study_recovery
    from thinkback import console
    from toolkit.files import check_replaceable

    check_replaceable(out, force, inputs=(log, *(gate or ()), prices))
    made = study_recovery(
        log, on=on, tune=tune, where=where, action=action, base=base, pool=options.names(pool),
        budgets=options.names(budgets), gates=gate or (), pooled=pooled, margin=margin, prices=prices,
        together=together, seed=seed, resamples=resamples, level=level, width=width,
    )  # fmt: skip
    made.save(out, force)
    for line in made.told:
        console.say(line)
    console.say_report(out)
