"""The study of fact checking under a verifier budget: everything that it computes on a log, laid out."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from replay.data.conditions import ids_where, report_condition
from replay.data.contents import open_with_contents
from replay.studies.factcheck.cases import cases_csv, cases_in_words, cases_markdown
from replay.studies.factcheck.figures import figures, missing_figure_notes
from replay.studies.factcheck.further_tables import FURTHER_TABLES, THESIS_BUDGETS
from replay.studies.factcheck.published import CAP, TOTALS, WORK, published_claims
from replay.studies.factcheck.runs import (
    FactcheckSetting,
    datasets_without,
    name_or_only,
    only_pools,
    pools_of,
    refuse_no_reported_claims,
)
from replay.studies.factcheck.study import LARGER, OTHER, Study, study_log
from replay.studies.factcheck.tables import APPENDIX, MAIN_TABLES
from replay.studies.factcheck.verdicts import VERDICTS, findings
from replay.studies.kit.cells import left_out_note, note_line
from replay.studies.kit.published import published_datasets
from replay.studies.kit.report import UNDONE, StudyReport, intervals_line, log_line, record_of
from replay.studies.kit.sheet import Captions, DashReason, Sheet, merge_notes, tables_of
from toolkit.arguments import checks_arguments
from toolkit.errors import ConflictError, InvalidError, argument, listed, quote
from toolkit.features import CLAIM_FEATURES
from toolkit.log import AnyLog
from toolkit.show import WIDTH, remark, width_in_inches
from toolkit.stats import check_margin
from toolkit.workers.chosen import spread_over_workers

SETTING_KEYS = ("dev", "pool", "verifier", "other_verifier", "features", "cap", "caps", "orders", "random_seed")


def _run_record(study: Study) -> Mapping[str, Any]:
    """Returns the record of the main run with the study's notes."""
    provenance = {"log": {"name": study.name}} if study.main.result is None else study.main.result.provenance
    return {**provenance, "notes": [note.record() for note in study.notes]}


def study_record(study: Study) -> dict[str, Any]:
    """Returns the entries that the study adds to run.json."""
    setting = study.setting
    added = {
        "features": list(setting.features), "caps": list(setting.caps),  # lists are written a line an entry
        "published": None if setting.published is None else setting.published.dataset,
        "margin": setting.tolerated, "verdicts": [finding.record() for finding in findings(study)],
    }  # fmt: skip
    return {"where": None} | {name: getattr(setting, name) for name in SETTING_KEYS} | added


def _replayed_lines(study: Study) -> Iterator[str]:
    run_record, setting = _run_record(study), study.setting
    yield log_line(run_record, study.simulated)
    yield f"data sets: `{study.dataset}`"
    where = run_record.get("where")
    yield f"claims: {'all' if where is None else where}; {study.main.n:,} are compared"
    caps = ", ".join(str(cap) for cap in study.caps)
    yield f"pool: `{setting.pool}`, of which up to {setting.cap} traces a claim (tables 5.11 to 5.13: {caps})"
    if (fixed := study.budgets.validation.fixed) is not None:
        n, pool = fixed.budgets.result.statistics.n, study.budgets.validation.pool
        yield f"for fixed budgets alone: {n:,} claims of the split `{fixed.split}`, pool `{pool}`"
    others = "none" if setting.other_verifier is None else f"`{setting.other_verifier}`"
    if setting.published is not None:
        yield f"shown for comparison: the published numbers of {setting.published.dataset}"
    yield f"verifier: `{setting.verifier}`; the other one: {others}"
    yield study.features_note or f"features of the surrogate: {listed(setting.features)}"
    random = f"random order: seed {setting.random_seed}; `orders`: means over {setting.orders}"
    yield f"{intervals_line(run_record)}; {random}"
    yield "`run.json` holds all of this, the policies and the versions"


WITH_CAPS = (*LARGER, "B.3", "B.4")
"""Tables whose rows say their cap themselves, or that have none."""


def _table_captions(studies: Sequence[Study], name: str) -> Captions[Study]:
    """Makes the captions of the tables; `name` is the log's."""
    simulated = studies[0].simulated
    return Captions(
        simulated=simulated,
        suffix=f", {name} (simulated)" if simulated else f", {name}",
        above=lambda sheet, parts: merge_notes(
            parts, lambda one: one.warnings.get(sheet.run_of_numbers, one.warnings[""])
        ),
        below=_table_mismatch_notes,
        gaps=lambda sheet, parts: map(
            DashReason, merge_notes(parts, lambda one: one.missing.get(sheet.run_of_numbers, ()))
        ),
    )


def _table_mismatch_notes(sheet: Sheet[Study], parts: Sequence[Study], columns: Collection[str]) -> list[str]:
    """Yields notes where the published numbers of a table are of something else than the log's."""
    return merge_notes(parts, lambda study: mismatch_notes(study, sheet.number, columns)) if columns else []


def mismatch_notes(study: Study, number: str, columns: Collection[str]) -> Iterator[str]:
    """Yields notes where the published numbers in some columns of a table are of something else than the data set."""
    numbers = study.setting.published
    if numbers is None or not number:
        return
    if not any(numbers.dataset.lower() in name.lower() for name in (study.name, study.dataset)):
        of = f"`{study.name}` ({study.dataset})"
        text = f"published: of {numbers.dataset}; here: of {of}, so differences may be between data sets"
        yield remark("published_dataset", text)
        if number in OTHER:
            text = f"published: of a prompted verifier of 7B parameters; here: of `{study.setting.other_verifier}`"
            yield remark("published_verifier", text)
    if not TOTALS.isdisjoint(columns) and study.has_other_claims(number):
        ours = " or ".join(f"{n:,}" for n in sorted({methods.n for methods in study.table_runs(number)} - {0}))
        text = f"published totals cover {published_claims(numbers):,} claims, this table {ours}: no differences"
        yield remark("published_totals", text)
    if number not in WITH_CAPS and study.setting.cap != CAP:
        text = f"published: with {CAP} traces a claim at most, here with {study.setting.cap}"
        yield remark("published_cap", text)


SHEETS = (VERDICTS, *MAIN_TABLES, *APPENDIX, THESIS_BUDGETS, *FURTHER_TABLES)
"""All tables, in the order of the report."""
SCREEN = ("table_5_2", "table_5_3", "table_5_6")
"""Tables on the terminal."""
USUAL_VERIFIER = "lora"
CAPS_FORM = "integers of at least 1, such as 15,20,30,40"


@spread_over_workers
@checks_arguments(caps="a list of integers", features="a list of columns of features")
def study_factcheck(
    log: AnyLog,
    *,
    published: Sequence[str] | str = (),
    pool: str | None = None,
    verifier: str | None = None,
    other_verifier: str | None = None,
    features: Sequence[str] = (),
    cap: int = 15,
    caps: Sequence[int] = (15, 20, 30, 40),
    orders: int = 20,
    random_seed: int = 20,
    dev: str | None = None,
    margin: float = 0.01,
    where: str | None = None,
    seed: int = 0,
    resamples: int = 10_000,
    level: float = 0.95,
    kw: float = 0.25,
    eur_per_kwh: float = 0.25,
    width: str | float = WIDTH,
    workers: str | None = None,
) -> StudyReport:
    """Computes every table and figure of the thesis on fact checking under a verifier budget, for a log with class
    labels.

    Rows are of a data set each. `published` names data sets whose published numbers stand beside theirs: `quantemp`,
    `claimdecomp`. `pool` is by default the only one of each data set, `verifier` the only one, or `lora` where there
    is one; `other_verifier` is that of tables 5.8 to 5.10. `cap` is the number of traces a claim, `caps` those of
    tables 5.11 to 5.13; the table `orders` averages stops over `orders` random orders. `where` chooses the claims
    that are reported, by default those of the test split where there is one, and `dev` those to learn from. `margin`
    is the loss of macro-F1 that verdicts tolerate. Figures are `width` wide. `workers` is as for `run`.

    Raises ThinkbackError where the log has no claims with labels, no verifier that scores each trace alone, or for
    anything wrong with the settings.
    """
    check_margin(margin)
    width_inches = width_in_inches(width)
    known = published_datasets(WORK, published)
    opened_log, contents = open_with_contents(log)
    if not caps or min(caps) < 1:
        raise InvalidError(f"{argument('caps')} is {quote(list(caps))}; it takes {CAPS_FORM}")
    if orders < 1:
        raise InvalidError(f"{argument('orders')} is {orders}; it takes an integer of at least 1")
    if verifier is None and USUAL_VERIFIER in contents.verifiers:
        verifier = USUAL_VERIFIER
    if dev is not None:
        ids_where(opened_log, dev, "dev")  # its own mistakes are told before those of a condition made of it
    by_default = report_condition(opened_log, dev) if where is None else None
    if dev is not None and by_default is not None:
        refuse_no_reported_claims(opened_log, by_default, dev)
    where = by_default if where is None else where
    if other_verifier is not None and other_verifier == verifier:
        raise ConflictError(
            f"{argument('other_verifier')} is `{verifier}`, the main verifier: name another one, or leave it out"
        )
    pools = {} if pool is not None else only_pools(opened_log, where, contents.pools)
    candidates = pools_of(opened_log, where, contents.pools) if pool is None else contents.pools
    setting = FactcheckSetting(
        pool=next(iter(pools.values())) if pools else name_or_only(pool, candidates, "pool"),
        verifier=name_or_only(verifier, contents.verifiers, "verifier"),
        features=tuple(features) or tuple(name for name in CLAIM_FEATURES if name in contents.features),
        cap=cap,
        random_seed=random_seed,
        options={
            "where": where, "resamples": resamples, "level": level, "seed": seed, "kw": kw, "eur_per_kwh": eur_per_kwh
        },
        other_verifier=None if other_verifier is None else name_or_only(other_verifier, contents.verifiers, "verifier"),
        caps=tuple(dict.fromkeys(caps)),
        orders=orders,
        tolerated=margin,
        dev=dev,
    )  # fmt: skip
    without = datasets_without(opened_log, where, setting.pool) if pool is not None else ()
    lacking = [
        remark("dataset_left_out", f"data set `{name}` has no traces in pool `{pool}`, so it is left out")
        for name in without
    ]
    study_report = report_of(
        study_log(opened_log, setting, known, pools, without), opened_log.name, width_inches, lacking
    )
    default_note = (
        [] if by_default is None else [f"reported are the claims of {by_default}, because no condition names others"]
    )
    return replace(study_report, lead=[*default_note, *lacking, *study_report.lead])


def report_of(studies: Sequence[Study], name: str, width: float = WIDTH, lacking: Sequence[str] = ()) -> StudyReport:
    """Assembles the report from the results on each data set; `lacking` has lines on data sets that are left out."""
    simulated = studies[0].simulated
    tables = tables_of(SHEETS, studies, _table_captions(studies, name))
    unpublished = [replace(study, setting=replace(study.setting, published=None)) for study in studies]
    screen = tables_of(
        (sheet for sheet in SHEETS if sheet.name in SCREEN), unpublished, _table_captions(unpublished, name)
    )

    cases = [(study.dataset, study.cases) for study in studies]

    def dataset_suffix(study: Study) -> str:
        return f", {study.dataset}" if len(studies) > 1 else ""

    return StudyReport(
        title=f"Fact checking under a verifier budget: {name}{' (simulated)' if simulated else ''}",
        tables=tables,
        draw=lambda: figures(studies, width),
        words={
            "What was replayed": merge_notes(studies, _replayed_lines),
            **{f"Verdicts{dataset_suffix(one)}": [finding.sentence() for finding in findings(one)] for one in studies},
            **{f"Notes{dataset_suffix(one)}": [*map(note_line, one.notes)] for one in studies},
            UNDONE: [*lacking, *merge_notes(studies, missing_figure_notes)],
        },
        record=record_of("factcheck", studies, study_record, _run_record),
        left_out={f"{run}{dataset_suffix(one)}": why for one in studies for run, why in one.left_out.items()},
        left_out_by="comparison",
        files={"cases.csv": cases_csv(cases, simulated)},
        after=cases_markdown(cases, simulated),
        paper={"Example cases": list(cases_in_words(cases))},
        lead=merge_notes(studies, lambda study: left_out_note(study.left_out.get("main", {}))),
        screen=[screen[sheet] for sheet in SCREEN],  # a terminal has no room for three numbers in place of one
        simulated=simulated,
        parts=studies,
    )
