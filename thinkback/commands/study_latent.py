"""`thinkback study latent`."""

from __future__ import annotations

from typing import Annotated

import typer

from thinkback import options
from thinkback.options import option


def latent(
    log: options.Log,
    out: options.OutFolder,
    verifier: Annotated[
        str | None,
        option("--verifier", "Verifiers: that of a pool is the first that scored it; by default `latent`.", "NAME,…"),
    ] = None,
    pool: Annotated[str | None, option("--pool", "Pool that is sampled from; by default the largest.", "NAME")] = None,
    probe: Annotated[
        str | None,
        option("--probe", "Pool of the probes; by default single attempts that the verifier scored.", "NAME"),
    ] = None,
    action: Annotated[
        str | None, option("--action", "Action that revises the probe; by default `self_correct`.", "NAME")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option("--on", metavar="SQL", help="Training rows: a condition.", show_default="split = 'train'"),
    ] = None,
    where: Annotated[
        str | None,
        option("--where", "Examples to report: a condition; by default the test split where there is one.", "SQL"),
    ] = None,
    published: Annotated[bool, typer.Option("--published", help="Add the paper's numbers.")] = False,
    without_ablations: Annotated[
        bool, typer.Option("--without-ablations", help="Leave out what needs further fits.")
    ] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Seeds of each fit of the ablations.")] = 3,
    orders: Annotated[
        int, typer.Option("--orders", min=1, metavar="N", help="Permutations over which votes are averaged.")
    ] = 100,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    width: options.FigureWidth = "6.75in",
    force: options.Force = False,
) -> None:
    """Is a verifier on hidden states worth it?

    Every table and figure of LiLaVe, for a log that such a verifier scored (`thinkback fit-verifier`). Says from
    intervals whether it beats log-probabilities, whether conditional voting beats plain voting at equal samples, and
    how far the oracle is. Writes each table as Markdown, LaTeX and CSV, each figure as PDF, SVG and PNG, and report.md.
    """
    from replay.studies.latent.report import study_latent
    from thinkback import console
    from toolkit.files import check_replaceable

    check_replaceable(out, force, inputs=(log,))
    made = study_latent(
        log, verifier=options.names(verifier), pool=pool, probe=probe, action=action, on=on, where=where,
        published=published, ablations=not without_ablations, seeds=seeds, orders=orders, seed=seed,
        resamples=resamples, level=level, width=width,
    )  # fmt: skip
    made.save(out, force)
    for table in made.screen:
        console.show(table)
        console.say()
    for line in made.told:
        console.say(line)
    console.say_report(out)
