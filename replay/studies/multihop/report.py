"""The study of retrieval with an answer frontier: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from replay.runs.saved.provenance import software_versions
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
from replay.studies.multihop.cases import cases_csv, cases_markdown
from replay.studies.multihop.figures import FIGURES
from replay.studies.multihop.published import WORK
from replay.studies.multihop.study import MultihopSetting, MultihopStudy, study_log
from replay.studies.multihop.tables import SHEETS, captions_of
from replay.studies.multihop.verdicts import VERDICTS, sensitivity_sentence
from replay.studies.multihop.verifiers import DECODER, ENCODER, PROMPTED, REASONER
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, argument, listed
from toolkit.log import AnyLog, check_log, open_log
from toolkit.show import SIMULATED, remark
from toolkit.show.drawing.page import WIDTH, width_in_inches
from toolkit.stats import Settings, check_margin
from toolkit.workers.chosen import spread_over_workers


@spread_over_workers
@checks_arguments()
def study_multihop(
    log: AnyLog,
    *,
    where: str | None = None,
    pool: str | None = None,
    encoder: str | None = None,
    decoder: str | None = None,
    prompted: str | None = None,
    reasoner: str | None = None,
    entropy: float = 0.7,
    stable: int = 2,
    margin: float = 0.01,
    published: Sequence[str] | str = (),
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    width: str | float = WIDTH,
    workers: str | None = None,
) -> StudyReport:
    """Computes every table and figure of the thesis on frontier-aware iterative retrieval for a log of rounds, chains,
    or both.

    `where` is a condition on the examples to report (by default the test split where there is one). `pool` of rounds is
    ranked in every way, by default `fair`, or the one with most rounds. `encoder`, `decoder`, `prompted` and
    `reasoner` name the verifiers that questions are asked of, by default those whose record in the manifest says so.
    `entropy` is that below which a round is rewarded beyond the thesis, `stable` the rounds after which a leader that
    stays ends a hop, `margin` the loss of accuracy that verdicts tolerate. `published` names data sets of the thesis
    whose numbers stand beside those of the log, where its own names do not say so. `workers` is as for `run`.

    Raises ThinkbackError where the log has neither rounds nor traces, or for anything wrong with the settings.
    """
    check_margin(margin)
    for name, value, least in (("entropy", entropy, 0), ("stable", stable, 1)):
        if value < least:
            raise InvalidError(f"{argument(name)} is {value}; it takes numbers, at least {least}")
    drawn_at = width_in_inches(width)
    log = open_log(log)
    check_log(log)
    setting = MultihopSetting(
        where=where, pool=pool,
        roles={ENCODER: encoder, DECODER: decoder, PROMPTED: prompted, REASONER: reasoner},
        published=published_datasets(WORK, published), entropy=entropy, stable=stable, margin=margin,
        settings=Settings(resamples=resamples, level=level, seed=seed),
    )  # fmt: skip
    return _report_of(study_log(log, setting), log.name, drawn_at)


def _report_of(studies: Sequence[MultihopStudy], name: str, width: float) -> StudyReport:
    """Assembles the report from the results on each data set."""
    simulated = any(study.simulated for study in studies)
    tables = tables_of(SHEETS, studies, captions_of(studies))
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was measured"] = merge_notes(studies, _measured_on_lines)
    for study in studies:
        sentences = [f"{finding.sentence()}." for finding in study.findings]
        words[f"Verdicts, {study.dataset}"] = [*sentences, *filter(None, [sensitivity_sentence(study.retrieval)])]
    undone = merge_notes(studies, lambda study: (remark(UNSERVED, line) for line in study.missing_lines()))
    undone += [why for study in studies for why in undrawn_reasons(FIGURES, study, drawable_figures(FIGURES, study))]
    words[UNDONE] = undone
    cases = [(study.dataset, study.cases) for study in studies]
    has_lines = any(case.lines for _, each in cases for case in (*each.cases, *each.errors))
    return StudyReport(
        title=f"Retrieval with an answer frontier, on {name}",
        tables=tables,
        draw=lambda: draw_figures(FIGURES, studies, width),
        words=words,
        record=record_of("multihop", studies, study_record, lambda one: {}),
        left_out={f"{study.dataset}: {run}": excluded for study in studies for run, excluded in _left_out(study)},
        files={"cases.csv": cases_csv(cases, simulated)} if has_lines else {},
        after=cases_markdown(cases, simulated) if has_lines else "",
        lead=undone,
        screen_first=True,
        screen=[tables[VERDICTS.name]] if VERDICTS.name in tables else [],
        simulated=simulated,
        parts=studies,
    )


def _left_out(study: MultihopStudy) -> Iterator[tuple[str, dict[str, str]]]:
    for name, run in (("retrieval", study.retrieval.run), ("selection", study.selection.run)):
        if run.result is not None and run.result.excluded:
            yield name, dict(run.result.excluded)


def study_record(study: MultihopStudy) -> dict[str, Any]:
    """Returns the study's entries of run.json: settings, pools, verifiers by role, and verdicts."""
    setting, pools = study.setting, study.retrieval.pools
    return {
        "log": {"name": study.log.name, "sha256": study.log.digest()},
        "dataset": study.dataset,
        "where": study.where,
        "rounds": {"main": pools.main, "self_ask": pools.self_ask, "first_stage": pools.first_stage,
                   "rewarded": pools.rewarded},
        "evidence": {pool.name: [pool.evidence, pool.reader, pool.form] for pool in study.answers.pools},
        "chains": study.selection.n or None,
        "verifiers": dict(study.roles),
        "entropy": setting.entropy,
        "stable": setting.stable,
        "margin": setting.margin,
        "published": study.published,
        "verdicts": [finding.record() for finding in study.findings],
        "seed": setting.settings.seed, "resamples": setting.settings.resamples, "level": setting.settings.level,
        "versions": software_versions(),
    }  # fmt: skip


def _measured_on_lines(study: MultihopStudy) -> Iterator[str]:
    """Says what was measured, in lines for the report."""
    provenance = study_record(study)
    yield log_line(provenance, study.simulated)
    yield f"examples: {study.where}"
    pools = study.retrieval.pools
    if pools.main is not None:
        further = [name for name in (pools.self_ask, pools.first_stage, pools.rewarded) if name is not None]
        yield f"rounds of pool `{pools.main}`; further pools: {listed(further) or 'none'}"
        yield from warnings_of(study.retrieval.run.result, _ROUND_NOTES)
    if study.answers.pools:
        yield f"evidence: {'; '.join(f'`{pool.name}` read {pool.evidence}' for pool in study.answers.pools)}"
    if study.roles:
        yield f"verifiers: {'; '.join(f'{role} `{name}`' for role, name in study.roles.items())}"
    if study.published is not None:
        yield f"shown for comparison: the published numbers of {study.published}"
    yield intervals_line(provenance)
    yield "`run.json` holds all of this and the versions"


_ROUND_NOTES = ("explore_unknown", "later_hops", "plain_ranking", "negative_relevance")
"""Codes of what numbers of rounds rest on."""
