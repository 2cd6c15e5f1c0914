"""The published numbers of the thesis on frontier-aware iterative retrieval, by data set, and which are whole counts.

Its names: MQA is MuSiQue, WQA is 2WikiMultiHopQA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from replay.studies.kit.published import PublishedRow, PublishedWork

WORK = PublishedWork(
    "fair", {"mqa": "MQA", "musique": "MQA", "wqa": "WQA", "2wikimultihopqa": "WQA", "2wiki": "WQA"},
    prefixed=frozenset({"5.1", "5.4", "fig5.1"}),
)  # fmt: skip
QUESTIONS = {"MQA": 1252, "WQA": 1200}
"""Questions that the thesis evaluates."""
ROUNDING = 0.0051
"""Half of the last printed digit of a percentage, and a little."""
_RETRIEVERS = {"self-ask": "Self-Ask", "sunar": "SUNAR", "fair": "FAIR", "first-stage": "SPLADE", "splade": "SPLADE",
               "gold": "gold"}  # fmt: skip
"""Names of evidence -> the thesis's."""
_READERS = (("gpt-4o-mini", "gpt-4o-mini"), ("llama", "Llama 3.1 8B"), ("deepseek", "DeepSeek-R1 7B"))
_GAINS = ("cover_em_pct", "gain_over_single_shot_pct")


def published_recall(dataset: str | None, name: str) -> PublishedRow:
    """Returns the published recall of a retriever at 1 and 10 documents (table 5.1); empty where there is none."""
    return WORK.row("5.1", dataset, retriever=name.replace("SELF-ASK", "Self-Ask"))


def published_answers(dataset: str | None, evidence: str, model: str, form: str) -> PublishedRow:
    """Returns the published cover-EM of answers by evidence: without reasoning (figure 5.1) or of one chain (table
    5.4); empty where there is none.
    """
    retriever = _RETRIEVERS.get(evidence)
    if form == "direct":
        return marked(dataset, WORK.row("fig5.1", dataset, retriever=retriever) if _is_small_gpt(model) else {})
    return marked(dataset, WORK.row("5.4", dataset, retriever=retriever, reasoner=_reader_name(model)))


def published_selection(dataset: str | None, evidence: str, model: str, kind: str, selector: str) -> PublishedRow:
    """Returns the published cover-EM of a way of selecting among ten chains, and its gain (table 5.5); empty where
    there is none.
    """
    if not _is_small_gpt(model):
        return {}
    row = WORK.row(
        "5.5",
        dataset,
        kind=kind,
        selector=selector,
        evidence="gold" if evidence == "gold" else _RETRIEVERS.get(evidence),
    )
    return marked(dataset, {key: row[key] for key in _GAINS if key in row})


def marked(dataset: str | None, row: PublishedRow) -> PublishedRow:
    """Returns a published row with `whole`: `no` where its cover-EM is no whole count of the data set's questions."""
    value = row.get(_GAINS[0])
    known = None if dataset is None else WORK.dataset(dataset)
    if value is None or known is None:
        return row
    return {**row, "whole": "yes" if _is_whole_count(float(value), QUESTIONS[known]) else "no"}


def _is_whole_count(percent: float, questions: int) -> bool:
    """Whether a printed percentage can come from a whole number of questions."""
    return abs(100 * round(percent * questions / 100) / questions - percent) <= ROUNDING


def unlike_whole_counts(tables: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each published cover-EM of some tables, by table and row, that is no whole count."""
    for table, rows in tables.items():
        for row in rows:
            for key, value in row.items():
                dataset = row.get("dataset") or key.split("_")[0].upper()
                known = key.endswith("cover_em_pct") and dataset in QUESTIONS and value is not None
                if known and not _is_whole_count(value, QUESTIONS[dataset]):
                    yield f"{table}: {value} ({dataset})"


def _reader_name(model: str) -> str | None:
    return next((name for part, name in _READERS if part in model.lower()), None)


def _is_small_gpt(model: str) -> bool:
    return _reader_name(model) == "gpt-4o-mini"
