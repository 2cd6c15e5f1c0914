"""The study of thinking again: everything that it finds on a log, laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from replay.analyses.recommend.repair_examples import EXAMPLES_NOTE, example_files
from replay.data.prices import Prices, load_prices
from replay.gatefit.data import ON, TUNE, check_example_conditions, refuse_seen_questions
from replay.gatefit.gate_set import gate_texts
from replay.policies.gate_file import GateFile, as_gate_file
from replay.studies.kit.cells import left_out_note, note_line
from replay.studies.kit.published import published_datasets
from replay.studies.kit.report import (
    UNDONE,
    StudyReport,
    draw_figures,
    drawable_figures,
    file_name,
    intervals_line,
    log_line,
    record_of,
)
from replay.studies.kit.sheet import merge_notes
from replay.studies.recovery.figures import FIGURES, missing_figures
from replay.studies.recovery.published import WORK
from replay.studies.recovery.study import DatasetStudy, InterventionSetting, choice_text, study_log
from replay.studies.recovery.tables import tables
from replay.studies.recovery.verdicts import findings
from toolkit.arguments import checks_arguments
from toolkit.errors import listed
from toolkit.log import AnyLog, check_log, open_log
from toolkit.show import SIMULATED, code_of, remark
from toolkit.show.drawing.page import WIDTH, width_in_inches
from toolkit.stats import Settings, check_margin
from toolkit.workers.chosen import spread_over_workers


def _verdict_lines(study: DatasetStudy) -> Iterator[str]:
    yield from (remark(code_of(caveat), f"CAVEAT: {caveat}.") for caveat in study.caveats())
    if meaning := study.recommendation.meaning:
        yield meaning
    yield from study.recommendation.sentences


def _screen_lines(studies: Sequence[DatasetStudy]) -> Iterator[str]:
    """Writes the lines on the screen: each verdict with its sentences, warnings, and how many examples are left out."""
    for study in studies:
        yield f"{study.dataset}: {study.recommendation.verdict}"
        yield from (f"  {sentence}" for sentence in _verdict_lines(study))
    for study in studies:
        alone = len(studies) == 1
        yield from study.warnings(alone)
        of = "" if alone else f"{study.dataset}: "
        yield from (remark(code_of(text), f"{of}{text}") for text in left_out_note(study.result.excluded))


@spread_over_workers
@checks_arguments()
def study_recovery(
    log: AnyLog,
    *,
    on: str | None = None,
    tune: str | None = None,
    where: str = "split = 'test'",
    action: str | None = None,
    base: str | None = None,
    pool: Sequence[str] | str = (),
    budgets: Sequence[str] | str = (),
    gates: Sequence[GateFile | str | Path] | GateFile | str | Path = (),
    pooled: bool = False,
    margin: float = 0.01,
    prices: Prices | str | Path | None = None,
    together: int = 1,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    width: str | float = WIDTH,
    published: Sequence[str] | str = (),
    workers: str | None = None,
) -> StudyReport:
    """Computes every table and figure of SeVRA for a log with revisions of a base attempt.

    `on`, `tune` and `where` are conditions on the examples that gates are fitted on, thresholds are chosen on and that
    are reported. Each data set among these has gates and a primary `action` of its own, unless `pooled`. `gates` are
    frozen ones, the first of each action acting for it. `base` names the pool of the base attempts, `pool` those of
    the revisions where an action has several, `budgets` the longer pools. `margin` is the loss of accuracy that the
    recommendation tolerates, `together` how many samples of a vote are generated at a time. `published` names data sets
    of the paper whose numbers stand beside those of the same name, or beside the only one. Figures are `width` wide
    (`3.3in`, `84mm`, or inches). `workers` is as for `run`.

    Raises ThinkbackError where the log has no revisions of a first attempt, or for anything wrong with the settings.
    """
    check_margin(margin)
    drawn_at = width_in_inches(width)
    log = open_log(log)
    check_log(log)
    setting = InterventionSetting(
        action=action, base=base, budgets=_as_tuple(budgets), on=on or ON, tune=tune or TUNE, where=where,
        gates=tuple(as_gate_file(one) for one in _as_tuple(gates)), margin=margin,
        prices=load_prices(prices) if isinstance(prices, str | Path) else prices,
        settings=Settings(resamples=resamples, level=level, seed=seed), pools=_as_tuple(pool), pooled=pooled,
        together=together, published=published_datasets(WORK, published),
    )  # fmt: skip
    refuse_seen_questions(log, setting.gates, where, frozen=True)
    check_example_conditions(log, on, tune, where)
    return _report_of(*study_log(log, setting), log.name, drawn_at)


def _as_tuple(given: Any) -> tuple[Any, ...]:
    return (given,) if isinstance(given, str | Path | GateFile) else tuple(given)


def _report_of(studies: Sequence[DatasetStudy], notes: Sequence[str], name: str, width: float = WIDTH) -> StudyReport:
    """Assembles the report from the results on each data set."""
    simulated = any(study.result.simulated for study in studies)
    undone = [*notes, *(text for study in studies for text in missing_figures(study, drawable_figures(FIGURES, study)))]
    words: dict[str, Sequence[str]] = {"Simulated": [SIMULATED]} if simulated else {}
    words["What was replayed"] = merge_notes(studies, _replayed_lines)
    for study in studies:
        words[f"Recommendation, {study.dataset}: {study.recommendation.verdict}"] = list(_verdict_lines(study))
        words[f"Learned gates, {study.dataset}"] = [finding.sentence() for finding in findings(study)]
        words[f"Notes, {study.dataset}"] = [*left_out_note(study.result.excluded), *map(note_line, study.notes)]
    cases = {study.dataset: study.cases for study in studies if study.cases}
    words["Examples"] = [EXAMPLES_NOTE] if cases else []
    words[UNDONE] = undone
    return StudyReport(
        title=f"Think again or think longer, on {name}",
        tables=tables(studies),
        draw=lambda: draw_figures(FIGURES, studies, width),
        words=words,
        record=record_of("recovery", studies, study_record, lambda one: one.result.provenance),
        left_out={study.dataset: study.result.excluded for study in studies},
        left_out_by="dataset",
        files=gate_texts({file_name(study.dataset): study.roles.gates for study in studies})
        | (example_files(cases, simulated) if cases else {}),
        lead=[*_screen_lines(studies), *undone],
        simulated=simulated,
        parts=studies,
    )


def study_record(study: DatasetStudy) -> dict[str, Any]:
    """Returns the entries that the study adds to run.json, among them its verdict."""
    setting, roles = study.setting, study.roles
    return {
        "dataset": study.dataset, "on": setting.on, "tune": setting.tune, "where": None, "base": roles.base,
        "action": roles.action, "action_chosen": choice_text(setting, roles), **roles.record(),
        "gates": [gate.record() for gate in study.gates], "pooled": setting.pooled, "margin": setting.margin,
        "together": setting.together, "published": study.published, "verdict": study.recommendation.verdict,
        "candidates": list(study.recommendation.candidates),
        "verdicts": [finding.record() for finding in findings(study)],
    }  # fmt: skip


def _replayed_lines(study: DatasetStudy) -> Iterator[str]:
    setting, roles, provenance = study.setting, study.roles, study.result.provenance
    yield log_line(provenance, study.simulated)
    yield f"examples: {provenance.get('where')}; {study.result.statistics.n:,} are compared"
    yield f"gates are fitted on {setting.on}, and their thresholds chosen on {setting.tune}"
    yield f"base attempts: pool `{roles.base}`; revised by {listed(roles.actions)}"
    chosen = choice_text(setting, roles)
    yield remark("action", f"primary action: `{roles.action}`, {chosen}; its gate is the primary gate")
    yield f"longer budgets: {listed(roles.budgets) or 'none'}"
    votes = (f"`{pool}`, of {', '.join(map(str, sizes))} samples" for pool, sizes in roles.samples.items())
    yield f"votes: {'; '.join(votes) or 'none'}"
    if study.published is not None:
        yield f"shown for comparison: the published numbers of {study.published}"
    yield f"margin of the recommendation: {100 * setting.margin:g} points; {intervals_line(provenance)}"
    yield "`run.json` holds all of this, the gates, the policies and the versions"
