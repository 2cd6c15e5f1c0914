"""Three texts as the paper's figure 1 shows one: their words, claims, rounds, the act and the error; chosen by rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.policies.base import Policy
from replay.runs.explain.explain import explain
from replay.studies.buzz.acts import Acts, Texts
from replay.studies.buzz.claims import Claims
from replay.studies.kit.runs import mean_cell
from toolkit.log import Log
from toolkit.printable import printable
from toolkit.show import SIMULATED, IntervalCell, NumberWithInterval, remark, table_of
from toolkit.show.tables.table import markdown_cell
from toolkit.stats import Settings

NEAREST, LOST, ALARM = "the error is found", "the error is not found", "a false alarm"
RULES = {
    NEAREST: "it finds the error, of all texts nearest to the word that first shows it, else the first",
    LOST: "a text with an error that it does not find, the first on which a claim names it, else the first",
    ALARM: "it acts on a text without an error, the first",
}
LONGEST = 2_000
_NO_CASE = "no_case"


@dataclass(frozen=True, eq=False)
class Case:
    """A text on which a rule holds, as it does on `count` of `of` texts, `share` in percent. `rounds`: those that were
    paid, in order, and which was acted on; `first`: the word that shows the error, NaN without one; `line`: all of it.
    """

    kind: str
    count: int
    of: int
    share: IntervalCell | None
    example: str
    question: str
    length: float
    first: float
    rounds: pl.DataFrame
    line: str

    def frequency(self) -> str:
        """Says on how many texts the rule holds, with the interval of the share."""
        share = "" if self.share is None else f", {NumberWithInterval(1).show(self.share)} %"
        return f"{self.count:,} of {self.of:,} texts{share}"


@dataclass(frozen=True)
class IllustrativeCases:
    """The cases of a data set, and why kinds of cases are missing."""

    cases: tuple[Case, ...] = ()
    missing: tuple[str, ...] = ()


def choose_cases(
    log: Log, policies: Sequence[Policy], texts: Texts, acts: Acts, claims: Claims, settings: Settings
) -> IllustrativeCases:
    """Chooses a text for each rule. `policies`: the one that acts, resolved."""
    cases, missing = [], []
    named = np.nan_to_num(claims.names_error(stream=False)) == 1
    distance = np.where(acts.timed, np.abs(acts.deviation), np.inf)
    for kind, mask, rank in (
        (NEAREST, acts.finds == 1, distance), (LOST, acts.finds == 0, ~named), (ALARM, acts.false_alarm == 1, ~named),
    ):  # fmt: skip
        of = (acts.false_alarm if kind == ALARM else acts.finds) >= 0
        if not mask.any():
            missing.append(remark(_NO_CASE, f"figure 1: the log has no text of the case `{kind}`"))
            continue
        at = int(np.flatnonzero(mask)[np.argmin(np.where(mask, rank, np.inf)[mask])])
        share = mean_cell(np.where(of, mask, np.nan), texts.unit, settings)
        example = str(texts.frame["example_id"][at])
        stage = explain(log, list(policies), policies[0].name, example).stages[-1]
        question = texts.frame["question"][at] if "question" in texts.frame.columns else None
        cases.append(
            Case(
                kind, int(mask.sum()), int(of.sum()), share, example, question or "", float(texts.length[at]),
                float(texts.first[at]), stage.rows, stage.ending,
            )
        )  # fmt: skip
    if cases and not any(case.question for case in cases):
        missing.append(remark(_NO_CASE, "figure 1: no `question` of examples, so its words are without text"))
    return IllustrativeCases(tuple(cases), tuple(missing))


COLUMNS = (
    "dataset", "case", "texts", "of", "example_id", "stage", "claim", "round", "position", "verdict", "confidence",
    "matches_error", "acts", "claim_text",
)  # fmt: skip


def cases_csv(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the rounds of all cases as CSV; `cases` pairs each data set with its cases."""
    rows = [
        (dataset, case.kind, case.count, case.of, case.example,
         *(row[name] for name in ("stage", "claim", "round", "position", "verdict", "confidence", "matches_error",
                                  "buzz", "claim_text")))
        for dataset, of_dataset in cases for case in of_dataset.cases for row in case.rounds.iter_rows(named=True)
    ]  # fmt: skip
    frame = pl.DataFrame(rows, schema=COLUMNS, orient="row", infer_schema_length=None)
    return table_of(frame).csv({"simulated": "true"} if simulated else {})


def cases_markdown(cases: Sequence[tuple[str, IllustrativeCases]], simulated: bool) -> str:
    """Writes the cases as Markdown, each text on one line with its rounds, the act and the error."""
    lines = ["## Cases", "", *[f"> **{SIMULATED}**", ""] * simulated]
    lines += [
        "Each text with the rounds [claim.round verdict] behind the words that they had: + supported, - refuted, ? not "
        "enough. Rules see gold.",
        "",
    ]
    for dataset, of_dataset in cases:
        for case in of_dataset.cases:
            lines += _case_markdown(dataset, case)
    return "\n".join(lines).rstrip() + "\n"


def _case_markdown(dataset: str, case: Case) -> Iterator[str]:
    yield f"### {case.kind[0].upper()}{case.kind[1:]}: `{printable(case.example)}`, {markdown_cell(dataset)}"
    yield ""
    yield f"- {RULES[case.kind]}; so on {case.frequency()}"
    yield ""
    yield f"    {printable(case.line[:LONGEST])}"
    yield ""
