"""Example cases as files: trace by trace with their texts, for programs, for people, and for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.runs.explain.explain import explain
from replay.runs.result.result import Result
from replay.studies.factcheck.runs import ADAPTIVE, BEST, FactcheckSetting, Methods, method_policies
from toolkit.errors import counted
from toolkit.log import Log, collect
from toolkit.printable import printable
from toolkit.show import SIMULATED, remark, table_of

NO_TEXT = "the log has no texts of traces"


@dataclass(frozen=True)
class _CaseTrace:
    """One trace of a case: answer, verdict, score, and the `margin` by which the best answer leads once it is
    verified.
    """

    number: int
    answer: str | None
    right: bool | None
    score: float | None
    margin: float | None
    text: str | None


@dataclass(frozen=True)
class Case:
    """A claim with its traces. `kind` names the rule that chose the claim; `ending` says why the method `stopping`
    ended after `used` traces.

    `answer` is that of `method`. `claims`: how many claims the rule holds on.
    """

    kind: str
    claims: int
    example: str
    claim: str
    gold: str | None
    method: str
    answer: str | None
    right: bool | None
    used: int
    cap: int
    ending: str
    stopping: str
    traces: tuple[_CaseTrace, ...]

    @property
    def margin(self) -> float | None:
        """The margin when `stopping` ended, or after the last trace where it ended beyond the traces shown."""
        return self.traces[min(self.used, len(self.traces)) - 1].margin if self.traces else None

    @property
    def best(self) -> float | None:
        return max((trace.score for trace in self.traces if trace.score is not None), default=None)


@dataclass(frozen=True)
class IllustrativeCases:
    """The example cases of a data set, and the reasons why kinds of cases are missing."""

    cases: tuple[Case, ...] = ()
    missing: tuple[str, ...] = ()


COLUMNS = (
    "dataset", "case", "example_id", "claim", "gold", "method", "answer", "right", "stops_after", "trace",
    "trace_answer", "trace_right", "score", "margin", "text",
)  # fmt: skip


def cases_csv(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the traces of all cases as CSV, one row per trace; `cases` pairs each data set with its cases."""
    rows = [
        (dataset, c.kind, c.example, c.claim, c.gold, c.method, c.answer, c.right, c.used, t.number + 1, t.answer,
         t.right, t.score, t.margin, t.text)
        for dataset, dataset_cases in cases for c in dataset_cases.cases for t in c.traces
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row", infer_schema_length=None)
    return table_of(frame).csv({"simulated": "true"} if simulated else {})


def cases_in_words(cases: Sequence[tuple[str, IllustrativeCases]]) -> Iterator[str]:
    """Describes each case in a line, without its texts."""
    for dataset, dataset_cases in cases:
        for case in dataset_cases.cases:
            gold, answer = _quoted_name(case.gold), f"{_quoted_name(case.answer)} ({_right_word(case.right)})"
            ends = f"ends after {case.used} of {counted(case.cap, 'trace')}, margin then {_number_or_dash(case.margin)}"
            which = f"{dataset}, {case.kind}: {_quoted_name(case.example)}"
            yield f"{which}; gold {gold}; answer of {case.method}: {answer}; {case.stopping} {ends}"
        yield from (f"{dataset}: {why}" for why in dataset_cases.missing)
    yield "traces and texts of the cases are in `cases.csv`, and at the end of `report.md`"


def _quoted_name(text: str | None) -> str:
    return "none" if text is None else f"`{printable(text).replace('`', chr(39))}`"


def cases_markdown(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the cases as Markdown, with the texts of claims and traces."""
    lines = ["## Example cases", ""]
    lines += [f"> **{SIMULATED}**", ""] * simulated
    lines += ["The first claim, by its id, on which each rule holds; the rules and the verdicts see gold.", ""]
    for dataset, dataset_cases in cases:
        for case in dataset_cases.cases:
            lines += _case_markdown(dataset, case)
        lines += [f"- {_escaped(dataset)}: {_escaped(why)}" for why in dataset_cases.missing]
    return "\n".join(lines).rstrip() + "\n"


def _case_markdown(dataset: str, case: Case) -> Iterator[str]:
    yield f"### {_escaped(case.kind[0].upper() + case.kind[1:])}: `{printable(case.example)}`, {_escaped(dataset)}"
    yield ""
    yield from _code_block(case.claim)
    yield ""
    yield f"- gold: {_escaped(case.gold)}; answer of {case.method}: {_escaped(case.answer)} ({_right_word(case.right)})"
    ending = f" ({case.ending})" if case.ending else ""
    stops = f"{case.stopping} ends after {case.used} of {counted(case.cap, 'trace')}{ending}"
    yield f"- {stops}; margin then: {_number_or_dash(case.margin)}"
    yield f"- best score: {_number_or_dash(case.best)}; the rule fits {counted(case.claims, 'claim')}"
    yield ""
    yield "| trace | answer |  | score | margin after it |"
    yield "| --: | :-- | :-- | --: | --: |"
    for one in case.traces:
        cells = (
            str(one.number + 1),
            _escaped(one.answer),
            _right_word(one.right),
            _number_or_dash(one.score),
            _number_or_dash(one.margin),
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    if all(trace.text is None for trace in case.traces):
        yield f"- {NO_TEXT}"
        yield ""
    for one in case.traces:
        if one.text is not None:
            yield f"Trace {one.number + 1}:"
            yield ""
            yield from _code_block(one.text)
            yield ""


def _code_block(text: str) -> Iterator[str]:
    """Indents a text as a Markdown code block, line by line."""
    return (f"    {printable(line)}".rstrip() for line in text.split("\n"))


def _right_word(right: bool | None) -> str:
    return {None: "unjudged", True: "right", False: "wrong"}[right]


def _number_or_dash(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _escaped(text: Any) -> str:
    """Escapes a text of the log so that Markdown shows it as it is, on one line."""
    if text is None:
        return "–"
    line = printable(str(text))
    for sign in "\\|*_`<":
        line = line.replace(sign, f"\\{sign}")
    return line


WRONG = "the verifier is wrong"
ENDINGS = {"rule": "the margin held", "cap": "the cap was reached", "exhausted": "the log ran out of traces"}


def example_cases(log: Log, setting: FactcheckSetting, main: Methods) -> IllustrativeCases:
    """Chooses three claims: one on which adaptive stopping ends as early as it may, one on which it takes all traces,
    and one on which the verifier prefers a wrong trace although it scored a right one.
    """
    if main.result is None:
        return IllustrativeCases(missing=tuple(dict.fromkeys(main.missing.values())))
    known, entries, missing = {policy.name for policy in main.result.policies}, [], []
    for kind, method, ids in _claims_by_kind(log, setting, main.result):
        if method not in known:
            missing.append(remark("no_case", f"{kind}: {main.missing.get(method, 'not replayed')}"))
        elif ids.is_empty():
            missing.append(remark("no_case", f"{kind}: no claim"))
        else:
            entries.append(_example_case(log, setting, main.result, kind, method, ids))
    return IllustrativeCases(tuple(entries), tuple(missing))


def _claims_by_kind(log: Log, setting: FactcheckSetting, result: Result) -> Iterator[tuple[str, str, pl.Series]]:
    """Yields each kind of case with its method and the ids of the claims on which its rule holds, sorted."""
    rows = result.outcomes.select("policy", "example_id", "traces", "ending", "correct").collect()
    adaptive, best = (rows.filter(policy=name).sort("example_id") for name in (ADAPTIVE, BEST))
    least = setting.margin.min_valid
    early = adaptive.filter((pl.col("ending") == "rule") & (pl.col("traces") == least))["example_id"]
    late = adaptive.filter((pl.col("ending") == "cap") & (pl.col("traces") == setting.cap))["example_id"]
    wrong = best.filter(pl.col("correct") == 0)["example_id"]
    right = _scored_traces(log, setting, wrong).filter(pl.col("correct") & pl.col("score").is_not_null())["example_id"]
    yield f"stops after {counted(least, 'trace')}", ADAPTIVE, early
    yield f"takes all {counted(setting.cap, 'trace')}", ADAPTIVE, late
    yield WRONG, BEST, wrong.filter(wrong.is_in(right.implode()))


def _scored_traces(log: Log, setting: FactcheckSetting, ids: pl.Series) -> pl.DataFrame:
    """Reads the first traces of examples, up to the cap, with the verifier's scores."""
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct"]
    traces = log.scan("traces", columns).filter(
        (pl.col("pool") == setting.pool) & (pl.col("action") == "solve") & (pl.col("sample_index") < setting.cap)
        & pl.col("example_id").is_in(ids.implode())
    )  # fmt: skip
    scores = log.scan("verifications", ["trace_id", "verifier", "score"])
    scores = scores.filter(pl.col("verifier") == setting.verifier).select("trace_id", "score")
    return collect(traces.join(scores, on="trace_id", how="left"), log).sort("example_id", "sample_index")


def _example_case(log: Log, setting: FactcheckSetting, result: Result, kind: str, method: str, ids: pl.Series) -> Case:
    example = str(ids[0])
    example_row = collect(
        log.scan("examples", ["example_id", "question", "gold"]).filter(pl.col("example_id") == example), log
    )
    explanation = explain(log, method_policies(setting, (method,)), method, example, texts=True)
    outcomes = result.outcomes.filter(pl.col("example_id") == example).select("policy", "traces", "ending")
    stop = next(outcomes.collect().filter(policy=ADAPTIVE).iter_rows(named=True), {})
    texts = {} if explanation.texts is None else dict(explanation.texts.select("sample", "text").iter_rows())
    right = dict(_scored_traces(log, setting, ids[:1]).select("sample_index", "correct").iter_rows())
    outcome = explanation.outcomes.row(0, named=True)
    return Case(
        kind=kind,
        claims=len(ids),
        example=example,
        claim=example_row["question"][0],
        gold=example_row["gold"][0],
        method=method,
        answer=outcome["answer"],
        right=None if outcome["correct"] is None else bool(outcome["correct"]),
        used=int(stop.get("traces", setting.cap)),
        cap=setting.cap,
        ending=ENDINGS.get(stop.get("ending", ""), ""),
        stopping=ADAPTIVE,
        traces=tuple(
            _CaseTrace(number, answer, right.get(number), score, lead, texts.get(number))
            for number, answer, score, lead in explanation.steps.select("sample", "answer", "score", "lead").iter_rows()
            if number is not None
        ),
    )
