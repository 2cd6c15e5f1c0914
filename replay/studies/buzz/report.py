"""The study of acting on text as it unfolds: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replay.runs.passes.coverage import LEFT_OUT
from replay.runs.saved.provenance import software_versions
from replay.studies.buzz.cases import cases_csv, cases_markdown
from replay.studies.buzz.figures import FIGURES, MOST_PANELS
from replay.studies.buzz.further_tables import SHEETS, captions_of, timed_methods
from replay.studies.buzz.published import WORK
from replay.studies.buzz.study import BuzzSetting, BuzzStudy, study_log
from replay.studies.buzz.verdicts import VERDICTS, findings
from replay.studies.kit.cells import UNSERVED, warnings_of
from replay.studies.kit.published import published_datasets
from replay.studies.kit.report import (
    UNDONE,
    StudyReport,
    draw_figures,
    drawable_figures,
    intervals_line,
    log_line,
    record_of,
    undrawn_reasons,
)
from replay.studies.kit.sheet import merge_notes, tables_of
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, argument
from toolkit.log import AnyLog, check_log, open_log
from toolkit.show import SIMULATED, code_of, remark
from toolkit.show.drawing.page import WIDTH, width_in_inches
from toolkit.stats import Settings, check_margin
from toolkit.workers.chosen import spread_over_workers


@spread_over_workers
@checks_arguments()
def study_buzz(
    log: AnyLog,
    *,
    where: str | None = None,
    dev: str | None = None,
    pool: str | None = None,
    other: str | None = None,
    by: str = "season",
    speed: float = 2.5,
    margin: float = 0.01,
    published: Sequence[str] | str = (),
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    width: str | float = WIDTH,
    workers: str | None = None,
) -> StudyReport:
    """Computes every table and figure of the paper on acting on text as it unfolds (DIVER) for a log of checks.

    `where` is a condition on the texts to report (by default the test split where there is one), `dev` on those that
    baselines, rules and thresholds are chosen on (by default the split `dev`). `pool` of checks is the system's, by
    default `listening`, `diver`, or the one with most rounds; `other` the pool whose errors stand beside. `by` names
    the column of examples whose groups of people are told apart, `speed` the words a second of a text that does not
    wait, `margin` the loss of accuracy that verdicts tolerate. `published` names data sets of the paper whose numbers
    stand beside those of the log, where its own names do not say so. `workers` is as for `run`.

    Raises ThinkbackError where the log has no checks, or for anything wrong with the settings.
    """
    check_margin(margin)
    if not 0 < speed < float("inf"):
        raise InvalidError(f"{argument('speed')} is {speed}; it takes a number above 0")
    drawn_at = width_in_inches(width)
    log = open_log(log)
    check_log(log)
    setting = BuzzSetting(
        where=where, dev=dev, pool=pool, other=other, by=by, speed=speed, margin=margin,
        published=published_datasets(WORK, published), settings=Settings(resamples=resamples, level=level, seed=seed),
    )  # fmt: skip
    return _report_of(study_log(log, setting), log.name, drawn_at)


def _report_of(studies: Sequence[BuzzStudy], name: str, width: float) -> StudyReport:
    """Assembles the report from the results on each data set."""
    simulated = any(study.simulated for study in studies)
    tables = tables_of(SHEETS, studies, captions_of(studies))
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was measured"] = merge_notes(studies, _measured_on_lines)
    for study in studies:
        words[f"Verdicts, {study.dataset}"] = [f"{one.sentence()}." for one in findings(study)]
    undone = merge_notes(studies, lambda study: (remark(UNSERVED, line) for line in _undone_lines(study)))
    undone += [why for study in studies for why in undrawn_reasons(FIGURES, study, drawable_figures(FIGURES, study))]
    words[UNDONE] = undone
    cases = [(study.dataset, study.cases) for study in studies]
    has_cases = any(each.cases for _, each in cases)
    return StudyReport(
        title=f"Acting on text as it unfolds, on {name}",
        tables=tables,
        draw=lambda: draw_figures(FIGURES, studies, width),
        words=words,
        record=record_of("buzz", studies, study_record, lambda one: {}),
        left_out={f"{study.dataset}: {run}": excluded for study in studies for run, excluded in _left_out(study)},
        files={"cases.csv": cases_csv(cases, simulated)} if has_cases else {},
        after=cases_markdown(cases, simulated) if has_cases else "",
        lead=undone,
        screen_first=True,
        screen=[tables[VERDICTS.name]] if VERDICTS.name in tables else [],
        simulated=simulated,
        parts=studies,
    )


def _undone_lines(study: BuzzStudy) -> Iterator[str]:
    """Says what the log lacks, and which methods figures leave out."""
    yield from study.missing_lines()
    timed = len(timed_methods(study)) if study.run.result is not None else 0
    if timed > MOST_PANELS:
        some = f"{MOST_PANELS} of {timed} methods"
        yield f"figures `acts`, `deviation` and `by_deviation` draw {some}; table `timing` has all"


def _left_out(study: BuzzStudy) -> Iterator[tuple[str, dict[str, str]]]:
    for name, run in study.runs.items():
        if run.result is not None and run.result.excluded:
            yield name, dict(run.result.excluded)


def study_record(study: BuzzStudy) -> dict[str, Any]:
    """Returns the study's entries of run.json: settings, systems, what was chosen on dev, and verdicts."""
    setting = study.setting
    return {
        "log": {"name": study.log.name, "sha256": study.log.digest()},
        "dataset": study.dataset,
        "where": study.where,
        "dev": study.dev,
        "systems": {one.pool: [one.method, one.backbone] for one in study.systems.every},
        "main": study.systems.main.pool,
        "baselines": {group: [one.pool for one in study.baselines(group)] for group in study.systems.groups},
        "pair": study.pair_choice.name,
        "dev_texts": study.pair_choice.texts,
        "equal_on_dev": {"pair": study.pair_choice.ties, "threshold": study.threshold_choice.ties},
        "threshold": study.learnt_threshold,
        "by": setting.by, "speed": setting.speed, "margin": setting.margin,
        "published": study.published,
        "verdicts": [one.record() for one in findings(study)],
        "seed": setting.settings.seed, "resamples": setting.settings.resamples, "level": setting.settings.level,
        "versions": software_versions(),
    }  # fmt: skip


def _measured_on_lines(study: BuzzStudy) -> Iterator[str]:
    """Says what was measured, in lines for the report."""
    provenance = study_record(study)
    yield log_line(provenance, study.simulated)
    yield f"texts: {study.where}; chosen on: {study.dev or 'nothing'}"
    yield "; ".join(f"`{one.pool}` is {one.name}" for one in study.systems.every)
    yield from _warning_lines(study)
    if study.published is not None:
        yield f"shown for comparison: the published numbers of {study.published}"
    yield intervals_line(provenance)
    yield "`run.json` holds all of this and the versions"


def _warning_lines(study: BuzzStudy) -> Iterator[str]:
    """The warnings of every run, with its name where they are not those of the methods' too."""
    of_methods = warnings_of(study.run.result, (LEFT_OUT, *_NOTES))
    yield from of_methods
    for name, run in study.runs.items():
        for line in warnings_of(run.result, (LEFT_OUT, *_NOTES)):
            if line not in of_methods:
                yield remark(code_of(line), f"run `{name}`: {line}")


_NOTES = ("later_claims", "short_after_buzz")
"""Codes of what numbers of checks rest on."""
