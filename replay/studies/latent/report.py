"""The study of latent verifiers: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from replay.runs.saved.provenance import versions
from replay.studies.kit.report import StudyReport, by_dataset, drawn, record_of, told_intervals, told_log
from replay.studies.kit.sheet import Gap, Surroundings, said_of, tables_of
from replay.studies.latent.ablations import ablations_of
from replay.studies.latent.figures import FIGURES
from replay.studies.latent.study import FRONT, SELECTING, TRAIN, LatentSetting, LatentStudy, study_log
from replay.studies.latent.tables import (
    ABLATION_SHEETS,
    COMPARED,
    EVERY_SIGNAL,
    GAIN_SHEETS,
    LOGPROBS,
    MODELS,
    OTHER,
    OWN,
    PAPER_SHEETS,
    REFLECTED,
    REWARDS,
    TESTED,
    VERDICT_SHEETS,
    WITHIN_QUESTIONS,
    rewards,
)
from replay.studies.latent.tables import asked as asked_of
from replay.studies.latent.verdicts import NO_LOGPROBS, Verdict
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, argument
from toolkit.log import TAKES, AnyLog, check_log, open_log
from toolkit.show import SIMULATED, NumberWithInterval, ShownInterval
from toolkit.show.drawing.page import WIDTH, inches
from toolkit.stats import Settings

READERS, TRANSFER = "readers", "transfer"
"""What the ablations call tables 3 and 4 among what is missing."""
NO_REFLECTION = "no verifier of kind `reflection` scored these traces"
NOT_FITTED = "nothing was fitted, as `--without-ablations` asks"


def _surroundings(studies: Sequence[LatentStudy]) -> Surroundings[LatentStudy]:
    """Of the tables of these data sets."""
    made = studies[0].asked.settings
    drawn = (
        f"{100 * made.level:g} % intervals, by question or cluster; those of accuracies from {made.resamples:,} "
        f"resamples, seed {made.seed}."
    )
    return Surroundings(
        simulated=any(study.simulated for study in studies),
        dataset="dataset",
        below=lambda sheet, parts, shown: [drawn],
        gaps=lambda sheet, parts: list(_gaps(parts)),
    )


def _gaps(studies: Sequence[LatentStudy]) -> Iterator[Gap]:
    """Why cells are dashes."""
    yield Gap(f"self-reflection: {NO_REFLECTION} where there is a dash", frozenset({REFLECTED}))
    yield Gap(f"log-probabilities: {NO_LOGPROBS}, where there is a dash", frozenset({LOGPROBS}))
    if own := rewards(studies):
        yield Gap("a verifier has a dash where it did not score the traces", frozenset(own))
    yield Gap(
        "a model or verifier of the paper has a dash where the log has none of this name",
        frozenset({*MODELS, *REWARDS}),
    )
    if models := {f"{name}_auc" for study in studies for name in study.models.values()}:
        yield Gap("a model has a dash where it wrote none of the measured traces", frozenset(models))
    tested = {*TESTED, *(f"tested_{study.dataset}_auc" for study in studies)}
    for what, columns in ((READERS, {OWN, OTHER}), (TRANSFER, tested)):
        for line in said_of(studies, lambda study, what=what: _why(study, what)):  # type: ignore[misc]
            yield Gap(line, frozenset(columns))


def _why(study: LatentStudy, what: str) -> list[str]:
    found = study.ablations.missing.get(what)
    if found is None:
        found = NOT_FITTED if not study.asked.ablations else f"the log has nothing to compare on `{study.dataset}`"
    return [found]


def _missing_told(study: LatentStudy) -> Iterator[str]:
    """What could not be done on a data set, and why."""
    unserved = study.missing.get(FRONT)
    if unserved is not None:
        yield f"strategies: {unserved}"
    if SELECTING in study.missing:
        yield f"{SELECTING}: {study.missing[SELECTING]}"
    for what, why in (study.strategies.left_out or {}).items() if study.strategies is not None else ():
        yield f"{what}: {why}"
    for what, why in study.ablations.missing.items():
        yield f"{what}: {why}"


SHEETS = (*VERDICT_SHEETS, *PAPER_SHEETS, WITHIN_QUESTIONS, EVERY_SIGNAL, *GAIN_SHEETS, *ABLATION_SHEETS)
"""All tables, in the order of the report."""
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
        raise InvalidError(f"{argument('seeds')} is {seeds}; it takes integers, at least 1")
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
    return _report_of(studies, log.name, drawn_at)


def _report_of(studies: Sequence[LatentStudy], name: str, width: float = WIDTH) -> StudyReport:
    """What was found on each data set of a log, laid out."""
    simulated = any(study.simulated for study in studies)
    tables = tables_of(SHEETS, studies, _surroundings(studies))
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was measured"] = said_of(studies, _measured_on)
    for study in studies:
        words[f"Verdicts, {study.dataset}"] = [_sentence(one) for one in study.verdicts]
    words["What could not be done"] = undone = said_of(studies, _missing_told)
    return StudyReport(
        title=f"Latent verifiers, on {name}",
        tables=tables,
        draw=lambda: by_dataset(studies, lambda study: drawn(FIGURES, study, width)),
        words=words,
        record=record_of("latent", studies, record, lambda one: {}),
        left_out_by="dataset",
        told=undone,
        screen_first=True,
        screen=[tables[sheet.name] for sheet in (*VERDICT_SHEETS, COMPARED)],
        simulated=simulated,
        parts=studies,
    )


def _sentence(one: Verdict) -> str:
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


def record(study: LatentStudy) -> dict[str, Any]:
    """The settings, what was chosen, and the verdicts."""
    asked, source = study.asked, None if study.strategies is None else study.strategies.source
    made = asked.settings
    return {
        "log": {"name": study.log.name, "sha256": study.log.digest()},
        "dataset": study.dataset,
        "where": study.where,
        "on": study.on,
        "trained": study.asked.trained,
        "verifiers": {pool.pool: pool.verifier for pool in study.pools},
        "states": study.states or None,
        "strategies": None if source is None else asdict(source),
        "seeds": asked.seeds if asked.ablations else None,
        "verdicts": [
            {
                "question": one.question.name.lower(), "over": one.over or None, "verdict": one.answer.value,
                "against": one.against or None, "difference": one.difference.difference if one.difference else None,
                "low": one.difference.low if one.difference else None,
                "high": one.difference.high if one.difference else None, "why": one.why or None,
            }
            for one in study.verdicts
        ],
        "seed": made.seed, "resamples": made.resamples, "level": made.level,
        "versions": versions(),
    }  # fmt: skip


def _measured_on(study: LatentStudy) -> Iterator[str]:
    """The same in words, for people."""
    made = record(study)
    yield told_log(made, study.simulated)
    yield f"examples: {study.asked.where or 'all but the training rows'}; training rows: {study.asked.on}"
    if study.asked.trained:
        yield f"left out: {study.asked.trained:,} training rows among the examples that were to be reported"
    yield "; ".join(f"pool `{pool.pool}`: verifier `{pool.verifier}`" for pool in study.shown)
    if study.strategies is not None:
        source = study.strategies.source
        probe = "no probe" if source.probe is None else f"the probe from `{source.probe}`"
        yield f"strategies: samples from `{source.pool}`, {probe}, votes over {source.orders} orders"
    yield told_intervals(made)
    yield "`run.json` holds all of this and the versions"
