"""`thinkback study factcheck`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinkback import options
from thinkback.options import option

if TYPE_CHECKING:
    from replay.studies.factcheck.study import Study


def factcheck(
    log: options.Log,
    out: options.OutFolder,
    published: Annotated[
        str | None,
        option("--published", "Add the published numbers of `quantemp` or `claimdecomp`, and the differences.", "NAME"),
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
    force: options.Force = False,
) -> None:
    """Fact checking under a verifier budget.

    Every table and figure of the thesis, for any log with class labels. Compares top-1, self-consistency, exhaustive
    best-of-N, adaptive stopping and surrogate-guided verification on the same claims. Writes each table as Markdown,
    LaTeX and CSV, each figure as PDF, SVG and PNG, and report.md.
    """
    from replay.data.conditions import matching
    from replay.data.contents import opened
    from replay.studies.factcheck.published import published as numbers
    from replay.studies.factcheck.runs import FactcheckSetting
    from replay.studies.factcheck.splits import pools_of, reported
    from replay.studies.factcheck.study import choose, study_factcheck
    from thinkback import console
    from toolkit.features import CLAIM_FEATURES
    from toolkit.files import check_replaceable

    check_replaceable(out, force, inputs=(log,))
    known = None if published is None else numbers(published)
    made, contents = opened(log)
    if verifier is None and "lora" in contents.verifiers:
        verifier = "lora"
    named = options.names(features)
    if dev is not None:
        matching(made, dev, "dev")  # its own mistakes are told before those of a condition made of it
    by_default = where is None and (where := reported(made, dev)) is not None
    known_pools = contents.pools if pool is not None else pools_of(made, where, contents.pools)
    setting = FactcheckSetting(
        pool=choose(pool, known_pools, "pool"),
        verifier=choose(verifier, contents.verifiers, "verifier"),
        features=named or tuple(n for n in CLAIM_FEATURES if n in contents.features),
        cap=cap,
        random_seed=random_seed,
        asked={
            "where": where, "resamples": resamples, "level": level, "seed": seed, "kw": kw, "eur_per_kwh": eur_per_kwh
        },
        other_verifier=None if other_verifier is None else choose(other_verifier, contents.verifiers, "verifier"),
        caps=_caps(caps),
        orders=orders,
        dev=dev,
        published=known,
    )  # fmt: skip
    _write(study_factcheck(made, setting), out, force)
    if by_default:
        console.say(f"reported are the claims of {where}; `--where` names others")
    console.say(f"{out}/report.md holds every table and figure; each is a file of its own too")


def _caps(text: str) -> tuple[int, ...]:
    from toolkit.errors import ThinkbackError

    try:
        caps = [int(part) for part in text.split(",")]
    except ValueError:
        caps = []
    if not caps or min(caps) < 1:
        raise ThinkbackError(f"`--caps` is `{text}`; it takes integers of at least 1, such as 15,20,30,40")
    return tuple(dict.fromkeys(caps))


def _write(study: Study, out: Path, force: bool) -> None:
    from replay.runs.provenance import write_record
    from replay.studies.factcheck.appendix import appendix_tables
    from replay.studies.factcheck.figures import figures, undone
    from replay.studies.factcheck.record import record, replayed
    from replay.studies.factcheck.tables import main_tables
    from replay.studies.gaps import told_left_out, write_left_out
    from thinkback import console
    from toolkit.files import replacing
    from toolkit.show import write_report

    tables = main_tables(study) | appendix_tables(study)
    told = {
        "What was replayed": tuple(replayed(study)), "Notes": study.notes, "What could not be done": undone(study)
    }  # fmt: skip
    with replacing(out, force) as folder:
        write_report(
            folder,
            title=f"Fact checking under a verifier budget: {study.dataset}",
            tables=tables,
            figures=figures(study),
            words={name: "\n".join(f"- {note}" for note in notes) for name, notes in told.items() if notes},
            simulated=study.simulated,
        )
        write_record(folder, record(study))
        write_left_out(folder, "comparison", study.left_out, study.simulated)
    for line in told_left_out(study.left_out.get("main", {})):
        console.say(line)
    # a terminal has no room for three numbers in place of one
    shown = main_tables(replace(study, setting=replace(study.setting, published=None)))
    for name in ("table_5_2", "table_5_3", "table_5_6"):
        console.show(shown[name])
        console.say()
