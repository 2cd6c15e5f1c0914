"""`thinkback study recovery`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from thinkback import options
from thinkback.options import file_option, option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from replay.studies.recovery.study import DatasetStudy


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
    gate: Annotated[Path | None, file_option("--gate", "A frozen gate in place of a fitted one.", "GATE.json")] = None,
    margin: Annotated[
        float, typer.Option("--margin", help="Loss of accuracy that the recommendation tolerates (0.01: one point).")
    ] = 0.01,
    prices: Annotated[
        Path | None, file_option("--prices", "Prices per million tokens, by model, in a table [prices].", "FILE.toml")
    ] = None,
    width: Annotated[int, typer.Option("--width", min=1, help="Samples of a vote generated at a time.")] = 1,
    seed: options.Seed = 0,
    resamples: options.Resamples = 10_000,
    level: options.Level = 0.95,
    force: options.Force = False,
) -> None:
    """Think again, or think longer?

    Every table and figure of SeVRA, for a log with revisions of a base attempt. Screens the actions, fits gates,
    compares accepting, revising and longer budgets on the reported examples, and recommends one. Writes each table as
    Markdown, LaTeX and CSV, each figure as PDF, SVG and PNG, and report.md.
    """
    from dataclasses import replace

    from replay.data.prices import load_prices
    from replay.policies.gate_file import load_gate, write_text
    from replay.studies.recovery.checks import ON, TUNE, check_rows, refuse_seen
    from replay.studies.recovery.gaps import told_aside
    from replay.studies.recovery.study import RecoverySetting, datasets, roles_of, study_dataset
    from thinkback import console
    from toolkit.files import check_replaceable, replacing
    from toolkit.log import check_log, open_log
    from toolkit.stats import Settings, check_margin

    check_margin(margin)
    check_replaceable(out, force, inputs=(log, gate, prices))
    opened = open_log(log)
    check_log(opened)
    asked = RecoverySetting(
        action=action,
        base=base,
        budgets=options.names(budgets),
        on=on or ON,
        tune=tune or TUNE,
        where=where,
        gate=load_gate(gate) if gate is not None else None,
        margin=margin,
        prices=load_prices(prices) if prices is not None else None,
        settings=Settings(resamples=resamples, level=level, seed=seed),
        pools=options.names(pool),
    )
    names = datasets(opened, where)
    if asked.gate is not None:
        refuse_seen(opened, [asked.gate], where, frozen=True)
    check_rows(opened, on, tune, where)
    roles, screening, notes = roles_of(opened, asked)
    roles = replace(roles, width=width)
    studies = [study_dataset(opened, roles, screening, asked, name) for name in names]
    with replacing(out, force) as folder:
        notes = _write(studies, notes, opened.name, folder)
        for name, fitted in roles.gates.items():
            (folder / f"gate-{name}.json").write_text(write_text(fitted.content), encoding="utf-8")
    for study in studies:
        console.say(f"{study.dataset}: {study.recommendation.verdict}")
        for sentence in (*_caveats(study), *study.recommendation.sentences):
            console.say(f"  {sentence}")
    aside = [told for study in studies for told in told_aside(study, len(studies) == 1)]
    for told in (*aside, *notes):
        console.say(told)
    console.say(f"{out}/report.md holds every table and figure; each is a file of its own too")


def _write(studies: Sequence[DatasetStudy], notes: tuple[str, ...], name: str, folder: Path) -> tuple[str, ...]:
    """Write the report; returns the notes, with what could not be drawn."""
    from replay.studies.kit.gaps import told_left_out, write_left_out
    from replay.studies.recovery.costs import COST_TABLES
    from replay.studies.recovery.figures import FIGURES
    from replay.studies.recovery.gaps import missing_figures
    from replay.studies.recovery.tables import TABLES
    from toolkit.show import SIMULATED, write_report

    tables = {key: layout(studies) for key, layout in (TABLES | COST_TABLES).items()}
    figures: dict[str, Figure] = {}
    drawn: dict[str, list[str]] = {study.dataset: [] for study in studies}
    for key, draw in FIGURES.items():
        for study in studies:
            figure = draw(study)
            if figure is not None:
                named = "".join(sign if sign.isalnum() else "-" for sign in study.dataset)
                figures[key if len(studies) == 1 else f"{key}-{named}"] = figure
                drawn[study.dataset].append(key)
    notes += tuple(told for study in studies for told in missing_figures(study, drawn[study.dataset]))
    simulated = any(study.result.simulated for study in studies)
    words = {"Simulated": SIMULATED} if simulated else {}
    for study in studies:
        told = "\n".join(f"- {sentence}" for sentence in (*_caveats(study), *study.recommendation.sentences))
        words[f"Recommendation, {study.dataset}: {study.recommendation.verdict}"] = told
        told_notes = (*told_left_out(study.result.excluded), *study.notes)
        words[f"Notes, {study.dataset}"] = "\n".join(f"- {note}" for note in told_notes)
    if notes:
        words["What could not be done"] = "\n".join(f"- {note}" for note in notes)
    write_report(
        folder, title=f"Think again or think longer, on {name}", tables=tables, figures=figures, words=words,
        simulated=simulated,
    )  # fmt: skip
    write_left_out(folder, "dataset", {study.dataset: study.result.excluded for study in studies}, simulated)
    return notes


def _caveats(study: DatasetStudy) -> list[str]:
    """What stands beside the verdict, before its sentences."""
    from replay.studies.recovery.checks import caveats

    compared = any(rule in study.policies for rule in study.named.unfitted)
    return [f"CAVEAT: {one}." for one in caveats(study.roles, compared)]
