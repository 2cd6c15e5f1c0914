"""`thinkback study factcheck`."""

from __future__ import annotations

from typing import Annotated

import typer

from thinkback import options
from thinkback.options import option


def factcheck(
    log: options.Log,
    out: options.OutFolder,
    published: Annotated[
        str | None,
        option(
            "--published",
            "Add the published numbers of `quantemp` or `claimdecomp`, or of both, and the differences.",
            "NAME,…",
        ),
    ] = None,
    pool: Annotated[str | None, option("--pool", "Pool of traces; by default the only one.", "NAME")] = None,
    verifier: Annotated[
        str | None, option("--verifier", "Verifier; by default the only one, or `lora`.", "NAME")
    ] = None,
    other_verifier: Annotated[
        str | None, option("--other-verifier", "Verifier of tables 5.8 to 5.10; by default the other.", "NAME")
    ] = None,
    features: Annotated[
        str | None,
        option(
            "--features", "The surrogate's features; by default the thesis's five as far as the log has them.", "NAME,…"
        ),
    ] = None,
    cap: Annotated[int, typer.Option("--cap", min=1, metavar="N", help="Traces per claim.")] = 15,
    caps: Annotated[str, typer.Option("--caps", metavar="N,…", help="Caps of tables 5.11 to 5.13.")] = "15,20,30,40",
    orders: Annotated[
        int, typer.Option("--orders", min=1, metavar="K", help="Random orders that table `orders` averages over.")
    ] = 10,
    random_seed: Annotated[int, typer.Option("--random-seed", help="Seed of the random order.")] = 20,
    dev: Annotated[
        str | None, option("--dev", "Claims to learn from, which are not reported: a condition on examples.", "SQL")
    ] = None,
    where: Annotated[
        str | None,
        option(
            "--where", "Claims to report: a condition on examples; by default the test split where there is one.", "SQL"
        ),
    ] = None,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    kw: options.Kilowatts = 0.25,
    eur_per_kwh: options.EnergyPrice = 0.25,
    width: options.FigureWidth = "6.75in",
    force: options.Force = False,
) -> None:
    """Fact checking under a verifier budget.

    Every table and figure of the thesis, for any log with class labels; several data sets stand in one table, a row
    each. Compares top-1, self-consistency, exhaustive best-of-N, adaptive stopping and surrogate-guided verification on
    the same claims. Writes each table as Markdown, LaTeX and CSV, each figure as PDF, SVG and PNG, and report.md.
    """
    from replay.studies.factcheck.report import study_factcheck
    from thinkback import console
    from toolkit.errors import ThinkbackError
    from toolkit.files import check_replaceable

    check_replaceable(out, force, inputs=(log,))
    if published is not None and not options.names(published):
        raise ThinkbackError("`--published` names no data set: write `quantemp`, `claimdecomp` or both")
    made = study_factcheck(
        log, published=options.names(published), pool=pool, verifier=verifier, other_verifier=other_verifier,
        features=options.names(features), cap=cap, caps=_caps(caps), orders=orders, random_seed=random_seed, dev=dev,
        where=where, seed=seed, resamples=resamples, level=level, kw=kw, eur_per_kwh=eur_per_kwh, width=width,
    )  # fmt: skip
    made.save(out, force)
    for line in made.told:
        console.say(line)
    for table in made.screen:
        console.show(table)
        console.say()
    console.say_report(out)


def _caps(text: str) -> tuple[int, ...]:
    from toolkit.errors import ThinkbackError

    try:
        caps = [int(part) for part in text.split(",")]
    except ValueError:
        caps = []
    if not caps or min(caps) < 1:
        raise ThinkbackError(f"`--caps` is `{text}`; it takes integers of at least 1, such as 15,20,30,40")
    return tuple(caps)
