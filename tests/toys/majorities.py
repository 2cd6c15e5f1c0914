"""A study of one table: how often a majority of so many votes is right, and what it costs."""

from collections.abc import Iterator
from dataclasses import dataclass

from replay.data.conditions import examples_where, in_dataset
from replay.kinds.sample import Sample
from replay.runs.result.result import Result
from replay.runs.result.run import run
from replay.studies.kit.cells import PolicyCells
from replay.studies.kit.report import StudyReport, record_of
from replay.studies.kit.sheet import Captions, Row, Sheet, intervals, numbers, tables_of
from toolkit.log import AnyLog, open_log


@dataclass(frozen=True)
class Votes:
    """What was found on one data set."""

    dataset: str
    result: Result


def rows(found: Votes) -> Iterator[Row]:
    for policy in found.result.policies:
        yield Row((policy.name,), PolicyCells(found.result.statistics, policy.name))


VOTES = Sheet[Votes](
    "votes",
    "Majorities",
    ("Votes",),
    (
        intervals("Right, %", "accuracy_pct", metric="accuracy", scale=100),
        numbers("Tokens", "tokens", 0, metric="total_tokens"),
    ),
    rows,
    ("percent, resampled by question",),
)


def study_majorities(log: AnyLog, *, sizes: tuple[int, ...] = (1, 2, 3), resamples: int = 10_000) -> StudyReport:
    """More votes: are they worth their tokens?"""
    made = open_log(log)
    policies = [Sample(name=f"{size}", max_traces=size, select="majority") for size in sizes]
    parts = [
        Votes(name, run(made, policies, where=in_dataset(None, name), resamples=resamples))
        for name in examples_where(made, None, "dataset")["dataset"].unique().sort()
    ]
    return StudyReport(
        f"Majorities, on {made.name}",
        tables_of([VOTES], parts, Captions(simulated=made.simulated)),
        record=record_of("majorities", parts, lambda one: {"dataset": one.dataset}, lambda one: one.result.provenance),
        parts=parts,
    )
