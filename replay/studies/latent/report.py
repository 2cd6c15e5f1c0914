"""The study of latent verifiers: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.studies.kit.figures import Figures, drawn
from replay.studies.kit.gaps import said_of
from replay.studies.kit.layout import tables_of
from replay.studies.kit.report import StudyReport, by_dataset, record_of
from replay.studies.latent.ablation_tables import ABLATION_SHEETS
from replay.studies.latent.ablations import ablations_of
from replay.studies.latent.around import missing_told, surroundings
from replay.studies.latent.figures import PAPER_FIGURES
from replay.studies.latent.figures_worth import WORTH_FIGURES
from replay.studies.latent.questions import Verdict
from replay.studies.latent.record import measured_on, record
from replay.studies.latent.settings import TRAIN, LatentSetting
from replay.studies.latent.study import LatentStudy, study_log
from replay.studies.latent.tables import COMPARED, EVERY_SIGNAL, PAPER_SHEETS, WITHIN_QUESTIONS
from replay.studies.latent.verdict_tables import GAIN_SHEETS, VERDICT_SHEETS
from replay.studies.latent.verdict_tables import asked as asked_of
from replay.studies.latent.verdicts import verdicts_of
from toolkit.arguments import checks_arguments
from toolkit.errors import ThinkbackError, argument
from toolkit.log import TAKES, AnyLog, check_log, open_log
from toolkit.show import SIMULATED, NumberWithInterval, ShownInterval
from toolkit.show.drawing.page import WIDTH, inches
from toolkit.stats import Settings

SHEETS = (*VERDICT_SHEETS, *PAPER_SHEETS, WITHIN_QUESTIONS, EVERY_SIGNAL, *GAIN_SHEETS, *ABLATION_SHEETS)
"""All tables, in the order of the report."""
FIGURES: Figures = {**WORTH_FIGURES, **PAPER_FIGURES}
"""All figures."""
POINTS = NumberWithInterval(1, 100, signed=True)
"""Differences of shares in words."""


@checks_arguments(log=TAKES)
def study_latent(
    log: AnyLog,
    *,
    verifier: Sequence[str] | str = (),
    pool: str | None = None,
    probe: str | None = None,
    action: str | None = None,
    on: str | None = None,
    where: str | None = None,
    published: bool = False,
    ablations: bool = True,
    seeds: int = 3,
    orders: int = 100,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    width: str | float = WIDTH,
) -> StudyReport:
    """Every table and figure of LiLaVe, for a log with the scores of a verifier on hidden states, and its verdicts.

    `verifier` names verifiers; that of a pool is the first that scored it. By default it is `latent`, which
    `thinkback fit-verifier` adds. `pool` is sampled from, by default the largest; `probe` holds single attempts, by
    default the coldest such pool that the verifier scored; `action` revises these. `on` and `where` are conditions on
    the training rows (the split `train`) and on the examples that are reported (the test split where there is one).
    With `published` the paper's numbers stand beside. `ablations` fit further verifiers, each with so many `seeds`;
    votes are means over `orders`. Figures are `width` wide (`3.3in`, `84mm`, or inches).

    Raises ThinkbackError where no verifier of these scored the log, or for anything wrong with the settings.
    """
    if seeds < 1:
        raise ThinkbackError(f"{argument('seeds')} is {seeds}; it takes integers, at least 1")
    drawn_at = inches(width)
    log = open_log(log)
    check_log(log)
    asked = LatentSetting(
        verifiers=(verifier,) if isinstance(verifier, str) else tuple(verifier), pool=pool, probe=probe, action=action,
        on=on or TRAIN, where=where, published=published, ablations=ablations, seeds=seeds, orders=orders,
        settings=Settings(resamples=resamples, level=level, seed=seed),
    )  # fmt: skip
    studies = tuple(replace(one, verdicts=verdicts_of(one)) for one in study_log(log, asked))
    if ablations:
        studies = tuple(replace(one, ablations=ablations_of(one, studies)) for one in studies)
    return report_of(studies, log.name, drawn_at)


def report_of(studies: Sequence[LatentStudy], name: str, width: float = WIDTH) -> StudyReport:
    """What was found on each data set of a log, laid out."""
    simulated = any(study.simulated for study in studies)
    tables = tables_of(SHEETS, studies, surroundings(studies))
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was measured"] = said_of(studies, measured_on)
    for study in studies:
        words[f"Verdicts, {study.dataset}"] = [sentence(one) for one in study.verdicts]
    words["What could not be done"] = undone = said_of(studies, missing_told)
    return StudyReport(
        title=f"Latent verifiers, on {name}",
        tables=tables,
        draw=lambda: by_dataset(studies, lambda study: drawn(FIGURES, study, width)),
        words=words,
        record=record_of("latent", studies, record),
        left_out_by="dataset",
        told=undone,
        screen=[tables[sheet.name] for sheet in (*VERDICT_SHEETS, COMPARED)],
        simulated=simulated,
        parts=studies,
    )


def sentence(one: Verdict) -> str:
    """A verdict in words."""
    told = f"{asked_of(one)} {one.answer.value.capitalize()}"
    if one.difference is None or one.difference.difference is None:
        return f"{told}: {one.why}."
    found = ShownInterval(one.difference.difference, one.difference.low, one.difference.high)
    told += f": {POINTS.show(found)} points, against {one.against}"
    for name, samples in (("ahead", one.gained), ("behind", one.lost)):
        if samples:
            told += f"; {name} at {', '.join(f'{mean:.3g}' for mean in samples)} mean samples"
    return f"{told}."
