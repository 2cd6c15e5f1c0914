"""The study's tables: rankings, their settings, answers by evidence, ways of selecting, verifiers, cases."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter

import polars as pl

from replay.studies.kit.cells import PolicyCells, interval_cell, unlogged_note
from replay.studies.kit.published import PublishedRow
from replay.studies.kit.sheet import (
    Captions,
    Column,
    DashReason,
    PublishedColumn,
    Row,
    Sheet,
    Value,
    intervals,
    numbers,
    with_published,
    words,
)
from replay.studies.multihop.cases import LESS_GOLD, MORE_GOLD, Case
from replay.studies.multihop.chains import DIRECT, SCORED_BY
from replay.studies.multihop.published import (
    WORK,
    published_answers,
    published_recall,
    published_selection,
    unlike_whole_counts,
)
from replay.studies.multihop.retrieval import (
    BOTH_RANKED,
    ENTROPY,
    EXPLORED,
    FAIR,
    FRONTIER_KEYS,
    MEASURE,
    PLACEBO,
    PLAIN,
    SCORED,
    STABLE,
)
from replay.studies.multihop.selection import BEST, BOUND, IDEAL, LISTWISE, MAJORITY, PARTS, SINGLE_SHOT, Way
from replay.studies.multihop.study import MultihopStudy
from replay.studies.multihop.verdicts import VERDICTS, sensitivity_sentence
from replay.studies.multihop.verifiers import DECODER, ENCODER, PROMPTED, REASONER
from toolkit.show import Number, TableColumn

DATASET = "data set"
_AT = (("recall_1", "recall@1"), ("recall_10", "recall@10"), ("hit_1", "hit@1"), ("hit_10", "hit@10"))
_SAVING = ("calls_saved", "tokens_saved")
_PUBLISHED = {"recall_1": "recall_at_1", "recall_10": "recall_at_10"}


def _recall_columns() -> Iterator[Column]:
    for metric, heading in _AT:
        column = intervals(heading, metric, 3, metric=metric, drop=1 if metric.endswith("_1") else 0)
        key = _PUBLISHED.get(metric)
        yield replace(column, published_column=PublishedColumn(key)) if key else column


_MINUS_PLAIN = intervals(
    f"{MEASURE.replace('_', '@')} minus plain", "minus_plain", 3, signed=True,
    note=f"Paired with {PLAIN}; limits hold for all rows of a data set at once.",
)  # fmt: skip


def _ranking_rows(study: MultihopStudy) -> Iterator[Row]:
    run = study.retrieval.run
    names = [name for name in run.policies if name not in (EXPLORED, BOTH_RANKED)]
    gaps = run.differences(MEASURE, [(name, PLAIN) for name in names if name != PLAIN])
    for name in names:
        if run.result is None:
            continue
        values: dict[str, Value] = {"minus_plain": gaps.get((name, PLAIN))}
        values |= {} if name == STABLE else dict.fromkeys(_SAVING)
        values |= {} if name.startswith(FAIR) else {"rewarded_share": None}
        yield Row((name,), PolicyCells(run.result.statistics, name), values, published_recall(study.published, name))


TABLE_5_1 = Sheet[MultihopStudy](
    "table_5_1", "Retrieval by ranking", ("ranking",),
    (
        *_recall_columns(), _MINUS_PLAIN, numbers("rounds", "rounds", 2, metric="rounds"),
        numbers("rewarded %", "rewarded_share", 1, metric="rewarded_share", factor=100, drop=2),
        numbers("calls", "calls", 1, metric="calls"), numbers("tokens", "total_tokens", 0, metric="total_tokens"),
        intervals("calls saved", "calls_saved", 2, metric="calls_saved", drop=3),
        intervals("tokens saved", "tokens_saved", 0, metric="tokens_saved", drop=3),
    ),
    _ranking_rows,
    ("recall@k is the share of gold documents among the first k, hit@k whether any is. The thesis's words say the "
     "second, its code and numbers the first: these stand beside recall.",
     f"Readings of the frontier: {FAIR} keeps support over a hop; the others count answers at their latest round, "
     f"reward a round whose leader is the frontier's, or take each round alone. {ENTROPY} and {SCORED} go beyond the "
     "thesis.",
     f"The ranking `{PLACEBO}` rewards the first round of each hop, whatever its answers are. A reading that does not "
     "exceed it gains by preferring first rounds, not by agreement."),
    DATASET, "5.1", optional=True,
)  # fmt: skip


def _paired_rows(study: MultihopStudy) -> Iterator[Row]:
    run = study.retrieval.run
    names = [name for name in run.policies if name not in (PLAIN, EXPLORED, BOTH_RANKED)]
    gaps = {metric: run.differences(metric, [(name, PLAIN) for name in names]) for metric, _ in _AT}
    for name in names:
        if any(gaps.values()):
            yield Row((name,), None, {metric: gaps[metric].get((name, PLAIN)) for metric, _ in _AT})


PAIRED = Sheet[MultihopStudy](
    "paired_rankings", f"Rankings minus {PLAIN}", ("ranking",),
    tuple(intervals(heading, metric, 3, signed=True) for metric, heading in _AT), _paired_rows,
    ("Paired; limits hold for all rankings of a column at once.",), DATASET, optional=True,
)  # fmt: skip


def _explored_rows(study: MultihopStudy) -> Iterator[Row]:
    run, pair = study.retrieval.run, (EXPLORED, BOTH_RANKED)
    every = f"recall_{study.retrieval.pools.document_bound}"
    metrics = (*_AT, (every, "recall of all that was read"))
    for metric, heading in metrics if run.has(*pair) else ():
        cells = [run.cell(name, metric) for name in pair]
        gap = run.differences(metric, [pair]).get(pair)
        yield Row((heading,), values={"rewarded": cells[0], "relevance": cells[1], "difference": gap})


EXPLORED_BOTH_WAYS = Sheet[MultihopStudy](
    "explored", "Explored by rewarded scores and by relevance", ("measure",),
    (intervals("by rewarded scores", "rewarded", 3), intervals("by relevance", "relevance", 3),
     intervals("difference", "difference", 3, signed=True)),
    _explored_rows,
    ("Two pools, ranked alike: by the settings with which the first was explored. Each difference is paired, by "
     "itself.",),
    DATASET, optional=True,
)  # fmt: skip


def _sensitivity_rows(study: MultihopStudy) -> Iterator[Row]:
    run, gaps = study.retrieval.sensitivity, study.retrieval.sensitivity_gaps
    for policy in study.retrieval.policies:
        if run.result is not None and run.has(policy.name) and policy.name != PLAIN:
            heads = tuple(str(getattr(policy, key)) for key in FRONTIER_KEYS)
            cells = PolicyCells(run.result.statistics, policy.name)
            yield Row(heads, cells, {"minus_plain": gaps.get(policy.name)})


SENSITIVITY = Sheet[MultihopStudy](
    "sensitivity", "Settings of the frontier", ("K", "multiplier", "frontier of", "support", "reward"),
    (numbers("rewarded %", "rewarded_share", 1, metric="rewarded_share", factor=100),
     intervals("recall@10", "recall_10", 3, metric="recall_10"),
     intervals("minus plain, points", "minus_plain", 2, signed=True)),
    _sensitivity_rows,
    ("Settings that reward every round are left out: they rank as relevance alone does. Limits of differences hold for "
     "all settings at once.", lambda study: [sensitivity_sentence(study.retrieval)]),
    DATASET, optional=True,
)  # fmt: skip

_HEADINGS = {"cover": "cover %", "cover_substring": "substring %", "exact": "exact %", "credit": "F1 %"}
_WHOLE = words(
    "whole count", "published_whole",
    note="Whole count: whether the published number can come from a whole number of the thesis's questions, 1,252 of "
    "MuSiQue or 1,200 of 2WikiMultiHopQA.",
)  # fmt: skip


def _answer_columns(parts: Sequence[MultihopStudy]) -> list[Column]:
    columns = []
    for name in SCORED_BY:
        column = intervals(_HEADINGS[name], name, 1)
        substring = name == "cover_substring"
        columns.append(with_published(column, "cover_em_pct", "published %", "published") if substring else column)
    columns.append(intervals("cover, minus first", "difference", 1, signed=True, value=attrgetter("difference")))
    return columns + [_WHOLE] * any(study.published for study in parts)


def _answer_rows(study: MultihopStudy, direct: bool) -> Iterator[Row]:
    for one in study.measured:
        pool = one.pool
        if (pool.form == DIRECT) is direct:
            published = published_answers(study.published, pool.evidence, pool.reader, pool.form)
            values: dict[str, Value] = {**one.cells, "published_whole": published.get("whole")}
            yield Row((pool.reader, pool.evidence, pool.name), one, values, published)


def _answers_sheet(name: str, title: str, direct: bool, number: str = "") -> Sheet[MultihopStudy]:
    return Sheet[MultihopStudy](
        name, title, ("reader", "evidence", "pool"), _answer_columns, partial(_answer_rows, direct=direct),
        ("cover: gold in whole words; substring: in any characters, as the thesis's code counts; F1: of words. A pool "
         "of several chains is the mean of them. Minus first: paired with the first evidence of the reader; limits "
         "hold for all pools at once.",), DATASET, number, optional=True,
    )  # fmt: skip


COVERS = Sheet[MultihopStudy](
    "covers", "Where the two covers differ", ("pool",),
    (numbers("answers", "answers", 0, value=attrgetter("answers")),
     numbers("differ", "differ", 0, value=attrgetter("differ")),
     intervals("differ %", "differ_share", 2, value=attrgetter("differ_share")),
     numbers("of these, gold yes or no", "yes_no", 0, value=attrgetter("yes_no"))),
    lambda study: (Row((one.pool.name,), one) for one in study.measured),
    ("An answer in which gold stands inside a word, such as `no` in `unknown`, is right by the substring alone.",),
    DATASET, optional=True,
)  # fmt: skip
_KINDS = {SINGLE_SHOT: "single shot", MAJORITY: "majority vote", IDEAL: "upper bound, ideal verifier",
          BOUND: "upper bound, gold evidence"}  # fmt: skip
_SELECTORS = {ENCODER: ("trained verifier", "RoBERTa"), DECODER: ("trained verifier", "LLaMA"),
              PROMPTED: ("prompted verifier", "gpt-4o-mini"), REASONER: ("prompted verifier", "DeepSeek")}  # fmt: skip


def _published_way(study: MultihopStudy, way: Way) -> PublishedRow:
    kind, selector = _KINDS.get(way.selector, ""), "gpt-4o-mini"
    if way.selector in (BEST, LISTWISE):
        role = next((role for role, name in study.roles.items() if name == way.verifier), "")
        kind, selector = _SELECTORS.get(role, ("", ""))
    return published_selection(study.published, way.pool.evidence, way.pool.reader, kind, selector)


def _selection_rows(study: MultihopStudy) -> Iterator[Row]:
    selection = study.selection
    run, singles = selection.run, {}
    for way in selection.replayed:
        single = selection.way(way.pool, SINGLE_SHOT)
        if single is not None and single is not way:
            singles[way.name] = single.name
    gaps = run.differences("accuracy", singles.items(), 100)
    for way in selection.replayed:
        against, published = singles.get(way.name, ""), _published_way(study, way)
        values: dict[str, Value] = {
            "right": run.cell(way.name, "accuracy", 100),
            "substring": selection.substring.cell(way.name, "accuracy", 100),
            "gain": run.relative_gain(way.name, against) if against else None,
            "minus_single": gaps.get((way.name, against)),
            "tokens": run.cell(way.name, "total_tokens"),
            "published_whole": published.get("whole"),
        }
        yield Row((way.pool.reader, way.pool.evidence, way.selector, way.verifier or "–"), None, values, published)


def _selection_columns(parts: Sequence[MultihopStudy]) -> list[Column]:
    columns = [intervals("right %", "right", 1)]
    if any(study.selection.substring.result is not None for study in parts):
        columns.append(intervals("substring %", "substring", 1))
    columns[-1] = with_published(columns[-1], "cover_em_pct", "published %", "published")
    note = "gain: 100 · (m/m₁ − 1), m₁ of the single shot, with the interval of the ratio, by itself."
    gain = intervals("gain over single %", "gain", 1, signed=True, note=note)
    columns += [
        intervals("minus single, points", "minus_single", 1, signed=True),
        with_published(gain, "gain_over_single_shot_pct", "published gain %", "published_gain"),
        numbers("tokens", "tokens", 0, drop=2),
    ]
    return columns + [_WHOLE] * any(study.published for study in parts)


def _selection_notes(parts: Sequence[MultihopStudy]) -> Iterator[str]:
    n = sorted({study.selection.n for study in parts if study.selection.n})
    yield (
        f"Of {', '.join(map(str, n))} chains a question. The single shot is the pool of one chain where there is one, "
        "else the mean of all. Ideal verifier and bound see gold. Differences: limits hold for all ways of a data set "
        "at once."
    )
    if any(study.published for study in parts):
        unlike = unlike_whole_counts({number: WORK.rows(number) for number in ("5.4", "5.5", "fig5.1")})
        yield f"Published cells that are no whole count of questions: {'; '.join(unlike)}."


TABLE_5_5 = Sheet[MultihopStudy](
    "table_5_5", "Selecting among chains", ("reader", "evidence", "selected by", "verifier"), _selection_columns,
    _selection_rows, _selection_notes, DATASET, "5.5", optional=True,
)  # fmt: skip
MORE_CHAINS = Sheet[MultihopStudy](
    "more_chains", "More chains, as figure 5.2 draws them", ("pool", "selected by", TableColumn("chains", Number(0))),
    (intervals("right %", "right", 1),),
    lambda study: (
        Row((study.curve_pool, way, k), values={"right": cell.scaled(100)})
        for way, points in study.curves.items() for k, cell in points
    ),
    ("The mean over all orders of the chains; each interval is by itself. The ideal verifier sees gold.",), DATASET,
    optional=True,
)  # fmt: skip
HEADROOM = Sheet[MultihopStudy](
    "headroom", "What answers lack, in points", ("pool", "selected by"),
    (
        intervals("gap", "gap", 1, value=attrgetter("gap")),
        *(intervals(part, part, 1) for part in PARTS),
        intervals("right with retrieved alone", "negative", 1, value=attrgetter("negative"), drop=1),
    ),
    lambda study: (Row((one.way.pool.name, one.way.label), one, one.parts) for one in study.headroom),
    ("gap = generation + retrieval + selection on every question. Generation: no chain with gold evidence is right; "
     "retrieval: one is, and none with what was retrieved, less the reverse, which the last column shows; selection: "
     "the ideal verifier minus what was selected.",),
    DATASET, optional=True,
)  # fmt: skip


def _training_rows(study: MultihopStudy) -> Iterator[Row]:
    for one in study.training:
        rows = WORK.rows("4.1") if study.published is not None else ()
        row = next((row for row in rows if str(row["split"]).startswith(one.step)), {})
        names = {"chains": "chains", "right": "correct", "wrong": "incorrect"}
        published = {ours: row.get(name) for ours, name in names.items()}
        yield Row((one.verifier, one.step), one, published=published)


TABLE_4_1 = Sheet[MultihopStudy](
    "table_4_1", "Chains that verifiers were trained on", ("verifier", "step"),
    (numbers("chains", "chains", 0, value=lambda one: one.right + one.wrong),
     numbers("right", "right", 0, value=attrgetter("right")), numbers("wrong", "wrong", 0, value=attrgetter("wrong"))),
    _training_rows, ("From the record of `thinkback fit` in the manifest.",), DATASET, "4.1", optional=True,
)  # fmt: skip
VERIFIERS = Sheet[MultihopStudy](
    "verifiers", "Verifiers of chains", ("verifier", "pool"),
    (intervals("AUC %", "auc", 1, value=attrgetter("pooled")),
     intervals("AUC within questions %", "auc_within", 1, value=attrgetter("within")),
     intervals("Brier", "brier", 3, value=lambda one: interval_cell(one.calibration.brier)),
     intervals("calibration error", "ece", 3, value=lambda one: interval_cell(one.calibration.ece)),
     numbers("chains", "chains", 0, value=lambda one: one.calibration.n)),
    lambda study: (Row((verifier.verifier, verifier.pool.name), verifier) for verifier in study.verifiers),
    ("Intervals by question. Brier and calibration are dashes where scores are no probabilities.",), DATASET,
    optional=True,
)  # fmt: skip
_SHARES = {"time order": 60.0, "comparison": 60.0, "family": 100 * 8 / 30}
"""Of the 30 improvements that the thesis examined (5.3.1), 18 compare dates and 8 are of families."""
_SHARE = intervals("share of fixes %", "share", 1, value=attrgetter("share"))


def _change_rows(study: MultihopStudy) -> Iterator[Row]:
    for change in study.changes:
        yield Row(
            (change.way.pool.name, change.way.label, change.type), change, published={"share": _SHARES.get(change.type)}
        )


FIXES = Sheet[MultihopStudy](
    "fixes_and_flips", "Fixes and flips against the single shot", ("pool", "selected by", "type"),
    (numbers("questions", "questions", 0, value=attrgetter("questions")),
     *(intervals(f"{key} %", key, 1, value=attrgetter(key)) for key in ("fixes", "flips")),
     intervals("difference", "difference", 1, signed=True, value=attrgetter("difference")),
     with_published(_SHARE, "share", "published %", "published", 1)),
    _change_rows,
    ("difference = fixes − flips; its limits hold for all types of a verifier and pool at once. Published: 18 of date "
     "comparisons and 8 of family relations among 30 improvements that the thesis looked at; they are no errors.",),
    DATASET, optional=True,
)  # fmt: skip


def _case_rows(cases: Sequence[Case]) -> Iterator[Row]:
    for case in cases:
        values: dict[str, Value] = {
            "count": float(case.count), "of": float(case.of), "share": case.share, "rule": case.rule,
            "example": case.example or None,
        }  # fmt: skip
        yield Row((case.kind,), None, values)


_CASE_COLUMNS = (
    numbers("questions", "count", 0), numbers("of", "of", 0), intervals("share %", "share", 1),
    words("first", "example"), words("rule", "rule", drop=2),
)  # fmt: skip
CASES = Sheet[MultihopStudy](
    "cases", "Cases by rule", ("case",), _CASE_COLUMNS, lambda study: _case_rows(study.cases.cases),
    ("`cases.csv` and the end of `report.md` have the texts of the first question of each.",), DATASET, optional=True,
)  # fmt: skip
ERROR_CASES = Sheet[MultihopStudy](
    "errors", "Errors by rule", ("error",), _CASE_COLUMNS, lambda study: _case_rows(study.cases.errors),
    (lambda study: [f"Of the answers of `{study.cases.way}`; one may be under several rules."],), DATASET,
    optional=True,
)  # fmt: skip


def _document_rows(study: MultihopStudy, kind: str) -> Iterator[Row]:
    for case in (case for case in study.cases.cases if case.kind == kind):
        for line in case.lines:
            ranking, _, place = line.source.partition(", document ")
            values: dict[str, Value] = {
                "document": line.answer, "gold": "yes" if line.right else "", "read": line.text,
            }  # fmt: skip
            yield Row((ranking, int(place)), None, values)


def _question_lines(study: MultihopStudy, kind: str) -> list[str]:
    cases = (case for case in study.cases.cases if case.kind == kind and case.lines)
    return [f"`{case.example}`: {case.question} The rule fits {case.frequency_text()}." for case in cases]


def _documents_sheet(name: str, number: str, kind: str) -> Sheet[MultihopStudy]:
    return Sheet[MultihopStudy](
        name, f"Documents where {kind}", ("ranking", TableColumn("place", Number(0))),
        (words("document", "document"), words("gold", "gold"), words("read in", "read")),
        partial(_document_rows, kind=kind), (partial(_question_lines, kind=kind),), DATASET, number, optional=True,
    )  # fmt: skip


def _type_rows(study: MultihopStudy) -> Iterator[Row]:
    examples = study.answers.examples.sort("example_id")
    for kind in study.types["question_type"].drop_nulls().unique().sort():
        of_type = examples.filter(pl.col("question_type") == kind)
        values: dict[str, Value] = {"count": float(len(of_type))}
        yield Row((kind,), None, values | {name: of_type[name][0] for name in ("question", "gold")})


QUESTION_TYPES = Sheet[MultihopStudy](
    "question_types", "Types of questions, with the first of each (tables A.1 and A.2)", ("type",),
    (numbers("questions", "count", 0), words("question", "question"), words("gold", "gold")), _type_rows, (), DATASET,
    optional=True,
)  # fmt: skip
SHEETS = (
    VERDICTS, TABLE_4_1, TABLE_5_1, PAIRED, EXPLORED_BOTH_WAYS, SENSITIVITY,
    _documents_sheet("table_5_2", "5.2", MORE_GOLD), _documents_sheet("table_5_3", "5.3", LESS_GOLD),
    _answers_sheet("direct_answers", "Answers without reasoning by evidence (figure 5.1)", True),
    _answers_sheet("table_5_4", "Answers of chains by evidence and reader", False, "5.4"), COVERS, TABLE_5_5,
    MORE_CHAINS, HEADROOM, VERIFIERS, FIXES, CASES, ERROR_CASES, QUESTION_TYPES,
)  # fmt: skip
"""Every table, in the order of the report."""


def captions_of(studies: Sequence[MultihopStudy]) -> Captions[MultihopStudy]:
    """Returns what stands above and below all tables."""
    gap = DashReason(unlogged_note("calls or tokens", "row"), frozenset({"calls", "total_tokens", "tokens"}))
    return Captions(simulated=any(study.simulated for study in studies), gaps=lambda sheet, parts: [gap])
