"""Cases, chosen by rule: where the evidence of two rankings differs, what a verifier fixes, wrong majorities, errors.

A case is the first example, by its id, on which a rule holds; rules and verdicts see gold.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.runs.explain.explain import explain
from replay.studies.kit.runs import mean_cell
from replay.studies.multihop.chains import CHAINS, FAIR_LIKE, SINGLE, AnswerPool, Answers, is_contained
from replay.studies.multihop.retrieval import FAIR, MEASURE, SUNAR, Retrieval
from replay.studies.multihop.selection import BEST, LISTWISE, MAJORITY, SINGLE_SHOT, Selection, Way
from toolkit.answers.forms import text_forms
from toolkit.log import Log, collect
from toolkit.printable import printable
from toolkit.show import SIMULATED, IntervalCell, NumberWithInterval, remark, table_of
from toolkit.show.tables.table import markdown_cell
from toolkit.stats import Settings

MORE_GOLD, LESS_GOLD = "FAIR has all gold, SUNAR lacks some", "SUNAR has all gold, FAIR lacks some"
WRONG_MAJORITY, NO_CHAIN = "the majority is wrong, some chain is right", "no chain is right"
CONTAINED, GRANULARITY = "gold is contained, not equal", "date of another granularity"
LEVEL, TWO_RIGHT = "answer of another level", "two right answers"
ERRORS = (CONTAINED, GRANULARITY, LEVEL, TWO_RIGHT, NO_CHAIN)
RULES = {
    MORE_GOLD: "all gold documents are among the first 10 of FAIR, not of SUNAR",
    LESS_GOLD: "all gold documents are among the first 10 of SUNAR, not of FAIR",
    WRONG_MAJORITY: "the vote is wrong and some chain is right",
    CONTAINED: "the answer has gold in whole words and more beside it, by any verdict",
    GRANULARITY: "the answer is wrong; of it and gold one is a year, the other names a month or a day",
    LEVEL: "the answer is wrong; gold contains it in whole words, or an earlier hop gave it",
    TWO_RIGHT: "the answer is wrong, and the question has several right ones",
    NO_CHAIN: "the answer is wrong, as every chain is",
}
"""What each rule means, of the answers of one way of selecting."""
FIX = "a fix of the verifier"
LONGEST = 2_000
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_YEAR = re.compile(r"^\W*(in )?\d{3,4}\W*$")
_DAY = re.compile(rf"\b({_MONTHS})\b|\b\d{{4}}-\d{{2}}", re.IGNORECASE)
_NO_CASE = "no_case"


@dataclass(frozen=True)
class _CaseLine:
    """A line of a case: who answered or ranked (`source`), what, whether it is right, and its text. A document's tells
    where it was read, for what, and what was answered then: logs hold no texts of documents.
    """

    source: str
    answer: str | None
    right: bool | None
    text: str | None


@dataclass(frozen=True)
class Case:
    """The first example on which a rule holds, with its lines. `count` examples of `of` meet the rule, `share` in
    percent.
    """

    kind: str
    rule: str
    count: int
    of: int
    share: IntervalCell | None
    example: str = ""
    question: str = ""
    gold: str | None = None
    lines: tuple[_CaseLine, ...] = ()

    def frequency_text(self) -> str:
        """Says on how many examples the rule holds, with the interval of the share."""
        share = "" if self.share is None else f", {NumberWithInterval(1).show(self.share)} %"
        return f"{self.count:,} of {self.of:,} questions{share}"


@dataclass(frozen=True)
class IllustrativeCases:
    """The cases of a data set, those of errors apart, and why kinds of cases are missing. `way`: whose errors."""

    cases: tuple[Case, ...] = ()
    errors: tuple[Case, ...] = ()
    missing: tuple[str, ...] = ()
    way: str = ""


@dataclass(frozen=True, eq=False)
class _Source:
    """What cases are chosen from."""

    log: Log
    answers: Answers
    retrieval: Retrieval
    selection: Selection
    settings: Settings

    def case(self, kind: str, rule: str, ids: pl.Series, mask: np.ndarray, lines: Sequence[Way | str]) -> Case:
        """Returns the case of a rule that holds on `ids` where `mask` is true; `lines`: what answers or ranks."""
        unit = self._units(ids)
        share = mean_cell(mask.astype(float), unit, self.settings)
        case = Case(kind, rule, int(mask.sum()), len(mask), share)
        if not mask.any():
            return case
        example = str(ids[int(mask.argmax())])
        row = self.answers.examples.filter(pl.col("example_id") == example)
        if not len(row):
            scan = self.log.scan("examples", ["example_id", "question", "gold"])
            row = collect(scan.filter(pl.col("example_id") == example), self.log)
        lines_of_case = tuple(line for one in lines for line in self._lines(one, example))
        return Case(kind, rule, case.count, case.of, share, example, row["question"][0], row["gold"][0], lines_of_case)

    def _units(self, ids: pl.Series) -> np.ndarray:
        for run in (self.selection.run, self.retrieval.run):
            if run.ids.equals(ids):
                return run.unit
        return np.arange(len(ids))

    def _lines(self, of: Way | str, example: str) -> Iterator[_CaseLine]:
        if isinstance(of, str):
            yield from self._document_lines(of, example)
            return
        single = self.answers.pool(of.pool.evidence, of.pool.reader, SINGLE)
        if of.selector == SINGLE_SHOT and single is None:
            return  # the chains themselves, which follow
        pool = single.name if of.selector == SINGLE_SHOT and single is not None else of.pool.name
        rows = self.answers.traces.filter(pl.col("pool") == pool, pl.col("example_id") == example)
        for row in rows.sort("sample_index").iter_rows(named=True):
            yield _CaseLine(f"{pool}, chain {row['sample_index'] + 1}", row["answer"], row["correct"], row["text"])
        if of.selector != SINGLE_SHOT:
            yield from self._selected_line(of, example)

    def _selected_line(self, way: Way, example: str) -> Iterator[_CaseLine]:
        result = self.selection.run.result
        if result is not None:
            outcomes = result.outcomes_of(way.name).filter(pl.col("example_id") == example)
            rows = collect(outcomes.select(pl.col("answer").cast(pl.String), pl.col("correct") == 1))
            for answer, right in rows.iter_rows():
                yield _CaseLine(f"selected by {way.label}", answer, right, None)

    def _document_lines(self, policy: str, example: str) -> Iterator[_CaseLine]:
        """Yields the first documents of a ranking, those that are gold marked right."""
        result = self.retrieval.run.result
        if result is None or result.source is None:
            return
        chosen = [one for one in result.source.policies if one.name == policy]
        stages = explain(self.log, chosen, policy, example).stages
        rounds = self.log.scan("rounds", ["example_id", "pool", "hop", "round", "sub_question", "answers"]).filter(
            pl.col("example_id") == example, pl.col("pool") == self.retrieval.pools.main
        )
        read = {(h, r): (q, a) for h, r, q, a in collect(rounds, self.log).select(pl.nth(2, 3, 4, 5)).iter_rows()}
        for row in stages[-1].rows.sort("rank").head(10).iter_rows(named=True):
            question, answers = read.get((row["hop"], row["round"]), (None, ()))
            counts = ", ".join(f"{answer} ({n})" for answer, n in Counter(answers).most_common())
            purpose = "" if question is None else f" ({question})"
            place = f"hop {row['hop']}, round {row['round']}{purpose}: {counts}"
            yield _CaseLine(f"{policy}, document {row['rank']}", row["document"], row["gold"], place)


def main_chains(answers: Answers) -> AnswerPool | None:
    """Returns the chains that cases are of: those with the evidence of rewarded rounds, else the last evidence that
    is no gold.
    """
    pools = [pool for pool in answers.of_form(CHAINS) if not pool.is_gold]
    return next((pool for name in FAIR_LIKE for pool in pools if pool.evidence == name), next(iter(pools[::-1]), None))


def choose_cases(
    log: Log, answers: Answers, retrieval: Retrieval, selection: Selection, settings: Settings, verifier: str
) -> IllustrativeCases:
    """Chooses every case that the log has. `verifier`: whose fixes and errors, empty for the first."""
    source = _Source(log, answers, retrieval, selection, settings)
    cases, missing = [*_evidence_cases(source)], []
    for case, table in zip(cases, ("5.2", "5.3"), strict=False):
        if not case.count:
            missing.append(remark(_NO_CASE, f"table {table}: no question where {case.kind}: {case.frequency_text()}"))
    if not cases:
        missing.append(remark(_NO_CASE, f"{FAIR} and {SUNAR} are not replayed together with gold documents"))
    pool = main_chains(answers)
    single = None if pool is None else selection.way(pool, SINGLE_SHOT)
    if pool is None or single is None:
        why = remark(_NO_CASE, "fixes, majorities and errors: no chains of retrieved evidence are replayed")
        return IllustrativeCases(tuple(cases), (), (*missing, why))
    ways = [way for way in selection.replayed if way.pool == pool]
    chosen = [way for way in ways if way.selector in (BEST, LISTWISE)]
    best = next((way for way in chosen if way.verifier == verifier), next(iter(chosen), None))
    if best is None:
        missing.append(remark(_NO_CASE, f"fixes: no verifier scored the chains of `{pool.name}`"))
    else:
        cases += _fix_cases(source, single, best)
    majority = selection.way(pool, MAJORITY)
    if majority is not None:
        wrong = (selection.run.values(majority.name) == 0) & _has_right_chain(source, pool)
        cases.append(source.case(WRONG_MAJORITY, RULES[WRONG_MAJORITY], selection.run.ids, wrong, [majority]))
    blamed = best or majority
    errors = [] if blamed is None else list(_error_cases(source, blamed))
    if answers.traces["text"].null_count() == len(answers.traces):
        missing.append(remark(_NO_CASE, "the log has no texts of traces, so cases are without them"))
    return IllustrativeCases(tuple(cases), tuple(errors), tuple(missing), "" if blamed is None else blamed.name)


def _evidence_cases(source: _Source) -> Iterator[Case]:
    run = source.retrieval.run
    if run.has(FAIR, SUNAR) and run.cell(FAIR, MEASURE) is not None:
        fair, sunar = (run.values(name, MEASURE) for name in (FAIR, SUNAR))
        for kind, mask in ((MORE_GOLD, (fair == 1) & (sunar < 1)), (LESS_GOLD, (sunar == 1) & (fair < 1))):
            yield source.case(kind, RULES[kind], run.ids, mask, [FAIR, SUNAR])


def _fix_cases(source: _Source, single: Way, best: Way) -> Iterator[Case]:
    """Yields a fix of each type of question: the single shot is wrong, or mostly, and what the verifier chose right."""
    run = source.selection.run
    fixed = (run.values(single.name) < 0.5) & (run.values(best.name) == 1)
    rule = f"the single shot is right less than half of the time, and {best.label} is right"
    columns = source.answers.examples.columns
    if "question_type" not in columns:
        yield source.case(FIX, rule, run.ids, fixed, [single, best])
        return
    types = run.ids.to_frame("example_id").join(
        source.answers.examples, on="example_id", maintain_order="left", how="left"
    )
    for kind in types["question_type"].drop_nulls().unique().sort():
        of_type = (types["question_type"] == kind).fill_null(False).to_numpy()
        yield source.case(f"{FIX}, {kind}", rule, run.ids, fixed & of_type, [single, best])


def _has_right_chain(source: _Source, pool: AnswerPool) -> np.ndarray:
    """Whether some chain of a pool is right, on each example of the run (E,)."""
    rows = source.answers.traces.filter(pl.col("pool") == pool.name)
    right = rows.filter(pl.col("correct").fill_null(False))["example_id"].unique()
    return source.selection.run.ids.is_in(right.implode()).to_numpy()


def _error_cases(source: _Source, way: Way) -> Iterator[Case]:
    """Yields a case for each rule of errors, of the answers of one way of selecting."""
    run = source.selection.run
    if run.result is None:
        return
    outcomes = collect(run.result.outcomes_of(way.name).select("example_id", "answer"))
    golds = source.answers.examples.select("example_id", "gold", "golds")
    rows = run.ids.to_frame("example_id")
    for more in (outcomes, golds):
        rows = rows.join(more, on="example_id", how="left", maintain_order="left")
    answer, gold = rows["answer"].cast(pl.String).to_list(), rows["gold"].cast(pl.String).to_list()
    wrong = run.values(way.name) == 0
    several = (rows["golds"].list.n_unique().fill_null(0) > 1).to_numpy()
    masks: Mapping[str, np.ndarray] = {
        CONTAINED: is_contained(answer, gold),
        GRANULARITY: wrong & np.array([is_other_granularity(*pair) for pair in zip(answer, gold, strict=True)], bool),
        LEVEL: wrong & (is_contained(gold, answer) | _is_earlier_answer(source, rows)),
        TWO_RIGHT: wrong & several,
        NO_CHAIN: wrong & ~_has_right_chain(source, way.pool),
    }
    for kind, mask in masks.items():
        yield source.case(kind, RULES[kind], run.ids, mask, [way])


def is_other_granularity(answer: str | None, gold: str | None) -> bool:
    """Whether one of two texts is a year alone, and the other a date that names a month or a day."""
    if answer is None or gold is None:
        return False
    return any(_YEAR.search(one) and _DAY.search(other) and not _YEAR.search(other) for one, other in
               ((answer, gold), (gold, answer)))  # fmt: skip


def _is_earlier_answer(source: _Source, rows: pl.DataFrame) -> np.ndarray:
    """Whether each answer (E,) is one that the rounds of a hop before the example's last one gave."""
    main = source.retrieval.pools.main
    if main is None:
        return np.zeros(len(rows), bool)
    scan = source.log.scan("rounds", ["example_id", "pool", "hop", "answers"]).filter(pl.col("pool") == main)
    rounds = collect(scan.filter(pl.col("example_id").is_in(rows["example_id"].implode())), source.log)
    before = rounds.filter(pl.col("hop") < pl.col("hop").max().over("example_id")).explode("answers").drop_nulls()
    before = before.select("example_id", form=text_forms(before["answers"].cast(pl.String))).unique()
    formed = rows.select("example_id", form=text_forms(rows["answer"].cast(pl.String)))
    there = formed.join(before.with_columns(there=True), on=["example_id", "form"], how="left", maintain_order="left")
    return there["there"].fill_null(False).to_numpy()


COLUMNS = (
    "dataset", "case", "examples", "of", "example_id", "question", "gold", "source", "answer", "right", "text",
)  # fmt: skip


def cases_csv(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the lines of all cases as CSV; `cases` pairs each data set with its cases."""
    rows = [
        (dataset, c.kind, c.count, c.of, c.example, c.question, c.gold, line.source, line.answer, line.right, line.text)
        for dataset, of_dataset in cases for c in (*of_dataset.cases, *of_dataset.errors) for line in c.lines
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row", infer_schema_length=None)
    return table_of(frame).csv({"simulated": "true"} if simulated else {})


def cases_markdown(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the cases as Markdown, with the texts of questions and chains."""
    lines = ["## Cases", "", *[f"> **{SIMULATED}**", ""] * simulated]
    lines += ["The first question, by its id, on which each rule holds. Rules and verdicts see gold.", ""]
    for dataset, of_dataset in cases:
        for case in (*of_dataset.cases, *of_dataset.errors):
            if case.lines:
                lines += _case_markdown(dataset, case)
    return "\n".join(lines).rstrip() + "\n"


def _case_markdown(dataset: str, case: Case) -> Iterator[str]:
    yield f"### {case.kind[0].upper()}{case.kind[1:]}: `{printable(case.example)}`, {markdown_cell(dataset)}"
    yield ""
    yield from (f"    {printable(line)}".rstrip() for line in case.question.split("\n"))
    yield ""
    yield f"- gold: {markdown_cell(case.gold or '–')}; the rule fits {case.frequency_text()}"
    yield ""
    ranked = any(", document " in line.source for line in case.lines)
    yield "| source | document |  | read in |" if ranked else "| source | answer |  |"
    yield "| :-- | :-- | :-- | :-- |" if ranked else "| :-- | :-- | :-- |"
    words = {None: "", True: "right", False: "wrong"}
    for line in case.lines:
        verdict = ("gold" if line.right else "") if ranked else words[line.right]
        place = f" {markdown_cell(line.text or '')} |" if ranked else ""
        yield f"| {markdown_cell(line.source)} | {markdown_cell(line.answer or '–')} | {verdict} |{place}"
    yield ""
    for line in case.lines:
        if line.text is not None and not ranked:
            yield f"{markdown_cell(line.source)}:"
            yield ""
            yield from (f"    {printable(one)}".rstrip() for one in line.text[:LONGEST].split("\n"))
            yield ""
