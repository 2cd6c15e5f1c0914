"""Numbers of a run as rows of tables take them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from replay.runs.passes.coverage import CALLS_FAILED, LEFT_OUT
from replay.runs.result.result import Result
from replay.studies.kit.gaps import told_left_out
from toolkit.notes import Note, Severity
from toolkit.show import ShownInterval
from toolkit.stats import Interval, PairedInterval, Summary

TOLD = (CALLS_FAILED, LEFT_OUT)
"""Codes of the notes that stand above every table, as warnings do."""


@dataclass(frozen=True)
class PolicyCells:
    """A policy of a run: what a row of a table is of."""

    statistics: Summary
    policy: str

    def cell(self, metric: str, scale: float = 1.0) -> ShownInterval | None:
        """Estimate and interval of a metric, times `scale`; None where it is not known."""
        return cell(self.statistics, self.policy, metric, scale)


def cell(statistics: Summary, policy: str, metric: str, scale: float = 1.0) -> ShownInterval | None:
    """One cell of a summary."""
    rows = statistics.summary.filter(policy=policy, metric=metric).select("estimate", "low", "high").rows()
    return ShownInterval.of(rows[0], scale) if rows else None


def means(statistics: Summary, policy: str) -> dict[str, ShownInterval | None]:
    """Every metric of a policy with its interval."""
    frame = statistics.summary.filter(policy=policy).select("metric", "estimate", "low", "high")
    return {metric: ShownInterval.of(cells) for metric, *cells in frame.iter_rows()}


def compared(comparisons: pl.DataFrame, policy: str, against: str, metric: str) -> tuple[float | None, ...] | None:
    """Difference, its ends and p-value, where the two policies are compared."""
    found = comparisons.filter(policy=policy, baseline=against, metric=metric)
    return next(found.select("difference", "low", "high", "p_value").iter_rows(), None)


def warnings_of(result: Result | None) -> tuple[str, ...]:
    """What a run says above its table: its warnings, which calls of the log failed, and which examples are left out for
    which reason.
    """
    notes = result.notes if result is not None else ()
    return tuple(str(note) for note in notes if note.severity is Severity.WARNING or note.code in TOLD)


def warned(dataset: str, result: Result, alone: bool) -> Iterator[str]:
    """Warnings on a data set and which calls of its log failed, with its name where it is not `alone`."""
    named = "" if alone else f"{dataset}: "
    for note in result.notes:
        if note.severity is Severity.WARNING or note.code == CALLS_FAILED:
            yield str(replace(note, text=f"{named}{note.text}"))


def notes_beyond(result: Result, unshown: Collection[str]) -> tuple[Note, ...]:
    """What a run says, without what it says of `unshown` metrics alone, which no table has."""
    return tuple(one for one in result.notes if not one.metrics or not set(one.metrics) <= set(unshown))


def told_of_run(dataset: str, result: Result, alone: bool) -> Iterator[str]:
    """Its warnings and how many examples it leaves out, with the data set's name where it is not `alone`."""
    yield from warned(dataset, result, alone)
    yield from (f"{'' if alone else f'{dataset}: '}{told}" for told in told_left_out(result.excluded))


def shown(found: Interval | None, scale: float = 1.0) -> ShownInterval | None:
    """An interval of the toolkit's statistics as a cell, times `scale`."""
    if found is None or found.estimate is None:
        return None
    return ShownInterval(found.estimate, found.low, found.high).times(scale)


def difference(found: PairedInterval, scale: float = 1.0) -> ShownInterval | None:
    """A paired difference as a cell, times `scale`."""
    if found.difference is None:
        return None
    return ShownInterval(found.difference, found.low, found.high).times(scale)


def estimate(found: Any) -> float | None:
    """The estimate of a cell."""
    return None if found is None else found.estimate
