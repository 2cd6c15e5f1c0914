"""The study of latent verifiers: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from replay.studies.kit.figures import Figures, drawn
from replay.studies.kit.layout import Surroundings, tables_of
from replay.studies.kit.report import StudyReport, by_dataset
from replay.studies.latent.ablation_tables import ABLATION_SHEETS
from replay.studies.latent.ablations import ablations_of
from replay.studies.latent.figures import PAPER_FIGURES
from replay.studies.latent.settings import TRAIN, LatentSetting
from replay.studies.latent.study import LatentStudy, study_log
from replay.studies.latent.tables import PAPER_SHEETS
from toolkit.arguments import checks_arguments
from toolkit.log import TAKES, AnyLog, check_log, open_log
from toolkit.show.page import WIDTH, inches
from toolkit.stats import Settings

SHEETS = (*PAPER_SHEETS, *ABLATION_SHEETS)
"""All tables, in the order of the report."""
FIGURES: Figures = {**PAPER_FIGURES}
"""All figures."""


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
    """Every table and figure of LiLaVe, for a log with the scores of a verifier on hidden states."""
    drawn_at = inches(width)
    log = open_log(log)
    check_log(log)
    asked = LatentSetting(
        verifiers=(verifier,) if isinstance(verifier, str) else tuple(verifier), pool=pool, probe=probe, action=action,
        on=on or TRAIN, where=where, published=published, ablations=ablations, seeds=seeds, orders=orders,
        settings=Settings(resamples=resamples, level=level, seed=seed),
    )  # fmt: skip
    studies = study_log(log, asked)
    if ablations:
        studies = tuple(replace(one, ablations=ablations_of(one, studies)) for one in studies)
    return report_of(studies, log.name, drawn_at)


def report_of(studies: Sequence[LatentStudy], name: str, width: float = WIDTH) -> StudyReport:
    """What was found on each data set of a log, laid out."""
    simulated = any(study.simulated for study in studies)
    return StudyReport(
        title=f"Latent verifiers, on {name}",
        tables=tables_of(SHEETS, studies, Surroundings(simulated=simulated, dataset="dataset")),
        draw=lambda: by_dataset(studies, lambda study: drawn(FIGURES, study, width)),
        left_out_by="dataset",
        simulated=simulated,
        parts=studies,
    )
