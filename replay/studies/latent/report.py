"""The study of latent verifiers: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from replay.runs.saved.provenance import software_versions
from replay.studies.kit.cells import UNSERVED
from replay.studies.kit.published import published_datasets
from replay.studies.kit.report import UNDONE, StudyReport, draw_figures, intervals_line, log_line, record_of
from replay.studies.kit.sheet import merge_notes, tables_of
from replay.studies.latent.figures import FIGURES
from replay.studies.latent.study import (
    FRONT,
    MOST_PLACES,
    MOST_TRACES,
    SCORED_SAMPLES,
    SELECTING,
    TRAIN,
    LatentSetting,
    LatentStudy,
    ablations_of,
    study_log,
)
from replay.studies.latent.tables import COMPARED, SHEETS, VERDICT_SHEETS, WORK, latent_captions, question_text
from replay.studies.latent.verdicts import Verdict
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, argument
from toolkit.log import AnyLog, check_log, open_log
from toolkit.show import SIMULATED, IntervalCell, NumberWithInterval, remark
from toolkit.show.drawing.page import WIDTH, width_in_inches
from toolkit.stats import Settings
from toolkit.workers.chosen import spread_over_workers


def _missing_lines(study: LatentStudy) -> Iterator[str]:
    """Lists what could not be done on a data set, each line with its reason."""
    unserved = study.missing.get(FRONT)
    if unserved is not None:
        yield remark("no_strategies", f"strategies: {unserved}")
    if SELECTING in study.missing:
        yield remark(SCORED_SAMPLES, f"{SELECTING}: {study.missing[SELECTING]}")
    left_out = {} if study.strategies is None else study.strategies.left_out or {}
    yield from (remark(UNSERVED, f"{what}: {why}") for what, why in left_out.items())
    yield from (remark("no_ablation", f"{what}: {why}") for what, why in study.ablations.missing.items())


POINTS = NumberWithInterval(1, 100, signed=True)
"""Differences of shares in words."""


@spread_over_workers
@checks_arguments()
def study_latent(
    log: AnyLog,
    *,
    verifier: Sequence[str] | str = (),
    pool: str | None = None,
    probe: str | None = None,
    action: str | None = None,
    on: str | None = None,
    where: str | None = None,
    published: Sequence[str] | str = (),
    answered: bool = False,
    ablations: bool = True,
    most: int = MOST_TRACES,
    positions: int = MOST_PLACES,
    seeds: int = 3,
    orders: int = 20,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    width: str | float = WIDTH,
    workers: str | None = None,
) -> StudyReport:
    """Computes every table and figure of LiLaVe for a log with verdicts and a verifier's scores on hidden states.

    `verifier` names verifiers; that of a pool is the first that scored it. By default it is `latent`, which
    `thinkback fit-verifier` adds. `pool` is sampled from, by default the largest; `probe` holds single attempts, by
    default the coldest such pool that the verifier scored; `action` revises these. `on` and `where` are conditions on
    the training rows (the split `train`) and on the examples that are reported (the test split where there is one).
    `published` names data sets of the paper whose numbers stand beside those of the same name, or beside the only one.
    A judged trace without an answer is a wrong one; `answered`
    leaves them out everywhere. `ablations` fit further verifiers, each with so many `seeds`, on `most` traces of each
    data set, pool and part (0: all) and, where many are fitted, at so many `positions` of layer and token (0: all).
    Votes are means over `orders`. Figures are `width` wide (`3.3in`, `84mm`, or inches). `workers` is as for `run`.

    Raises ThinkbackError where no verifier of these scored the log, or for anything wrong with the settings.
    """
    for name, value, least in (("seeds", seeds, 1), ("most", most, 0), ("positions", positions, 0)):
        if value < least:
            raise InvalidError(f"{argument(name)} is {value}; it takes integers, at least {least}")
    drawn_at = width_in_inches(width)
    log = open_log(log)
    check_log(log)
    setting = LatentSetting(
        verifiers=(verifier,) if isinstance(verifier, str) else tuple(verifier), pool=pool, probe=probe, action=action,
        on=on or TRAIN, where=where, published=published_datasets(WORK, published), answered=answered,
        ablations=ablations, most=most, positions=positions, seeds=seeds, orders=orders,
        settings=Settings(resamples=resamples, level=level, seed=seed),
    )  # fmt: skip
    studies = study_log(log, setting)
    if ablations:
        studies = tuple(replace(study, ablations=ablations_of(study, studies)) for study in studies)
    return _report_of(studies, log.name, drawn_at)


def _report_of(studies: Sequence[LatentStudy], name: str, width: float = WIDTH) -> StudyReport:
    """Assembles the report from the results on each data set."""
    simulated = any(study.simulated for study in studies)
    tables = tables_of(SHEETS, studies, latent_captions(studies))
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was measured"] = merge_notes(studies, _measured_on_lines)
    for study in studies:
        words[f"Verdicts, {study.dataset}"] = [_verdict_sentence(verdict) for verdict in study.verdicts]
    words[UNDONE] = undone = merge_notes(studies, _missing_lines)
    return StudyReport(
        title=f"Latent verifiers, on {name}",
        tables=tables,
        draw=lambda: draw_figures(FIGURES, studies, width),
        words=words,
        record=record_of("latent", studies, study_record, lambda one: {}),
        left_out_by="dataset",
        lead=undone,
        screen_first=True,
        screen=[tables[sheet.name] for sheet in (*VERDICT_SHEETS, COMPARED)],
        simulated=simulated,
        parts=studies,
    )


def _verdict_sentence(one: Verdict) -> str:
    text = f"{question_text(one)} {one.answer.value.capitalize()}"
    if one.difference is None or one.difference.difference is None:
        return f"{text}: {one.why}."
    interval = IntervalCell(one.difference.difference, one.difference.low, one.difference.high)
    text += f": {POINTS.show(interval)} points, against {one.against}"
    for name, samples in (("ahead", one.gained), ("behind", one.lost)):
        if samples:
            text += f"; {name} at {', '.join(f'{mean:.3g}' for mean in samples)} mean samples"
    return f"{text}."


def study_record(study: LatentStudy) -> dict[str, Any]:
    """Returns the study's entries of run.json: settings, chosen thresholds and verdicts."""
    setting, source = study.setting, None if study.strategies is None else study.strategies.source
    settings = setting.settings
    return {
        "log": {"name": study.log.name, "sha256": study.log.digest()},
        "dataset": study.dataset,
        "where": study.where,
        "on": study.on,
        "trained": study.setting.trained,
        "published": study.published,
        "verifiers": {pool.pool: pool.verifier for pool in study.pools},
        "states": study.states or None,
        "strategies": None if source is None else asdict(source),
        "seeds": setting.seeds if setting.ablations else None,
        "verdicts": [
            {
                "question": verdict.question.name.lower(), "over": verdict.over or None,
                "verdict": verdict.answer.value, "against": verdict.against or None,
                "difference": verdict.difference.difference if verdict.difference else None,
                "low": verdict.difference.low if verdict.difference else None,
                "high": verdict.difference.high if verdict.difference else None, "why": verdict.why or None,
            }
            for verdict in study.verdicts
        ],
        "seed": settings.seed, "resamples": settings.resamples, "level": settings.level,
        "versions": software_versions(),
    }  # fmt: skip


def _measured_on_lines(study: LatentStudy) -> Iterator[str]:
    """Says which traces were measured, in lines for the report."""
    provenance = study_record(study)
    yield log_line(provenance, study.simulated)
    yield f"examples: {study.setting.where or 'all but the training rows'}; training rows: {study.setting.on}"
    if study.setting.trained:
        text = f"left out: {study.setting.trained:,} training rows among the examples that were to be reported"
        yield remark("training_rows", text)
    yield "; ".join(f"pool `{pool.pool}`: verifier `{pool.verifier}`" for pool in study.table_pools)
    if study.strategies is not None:
        source = study.strategies.source
        probe = "no first attempts" if source.probe is None else f"first attempts from `{source.probe}`"
        yield f"strategies: samples from `{source.pool}`, {probe}, votes over {source.orders} orders"
    if study.published is not None:
        yield f"shown for comparison: the published numbers of {study.published}"
    yield intervals_line(provenance)
    yield "`run.json` holds all of this and the versions"
