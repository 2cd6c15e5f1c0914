"""Numbers of a run as rows of tables take them, and what it says of them: warnings, gaps, who is left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from replay.runs.passes.coverage import CALLS_FAILED, LEFT_OUT
from replay.runs.passes.reuse import first_ids_text
from replay.runs.result.result import Result
from toolkit.notes import Note, Severity
from toolkit.show import IntervalCell, remark
from toolkit.stats import Interval, PairedInterval, Summary


@dataclass(frozen=True)
class PolicyCells:
    """One policy of a run, as the object of a table's row."""

    statistics: Summary
    policy: str

    def cell(self, metric: str, scale: float = 1.0) -> IntervalCell | None:
        return cell(self.statistics, self.policy, metric, scale)


def cell(statistics: Summary, policy: str, metric: str, scale: float = 1.0) -> IntervalCell | None:
    """Returns estimate and interval of a policy's metric in a summary; None where the summary lacks it."""
    rows = statistics.summary.filter(policy=policy, metric=metric).select("estimate", "low", "high").rows()
    return IntervalCell.of(rows[0], scale) if rows else None


def warnings_of(
    result: Result | None, codes: Collection[str] = (CALLS_FAILED, LEFT_OUT), prefix: str = ""
) -> tuple[str, ...]:
    """Returns the warnings of a run, and its notes with certain codes (by default on failed calls and on examples left
    out), each after `prefix`.
    """
    notes = [note for note in result.notes if note.severity is Severity.WARNING or note.code in codes] if result else []
    return tuple(note_line(replace(note, text=f"{prefix}{note.text}")) for note in notes)


def note_line(note: Note) -> str:
    """Returns a note as a line that keeps the note's code."""
    return remark(note.code, str(note))


def notes_without_metrics(result: Result, unshown: Collection[str]) -> tuple[Note, ...]:
    """Returns the notes of a run, without those that concern only `unshown` metrics."""
    return tuple(note for note in result.notes if not note.metrics or not set(note.metrics) <= set(unshown))


def interval_cell(interval: Interval | PairedInterval | None, scale: float = 1.0) -> IntervalCell | None:
    """Makes a table cell of an interval of a mean or of a paired difference, times `scale`."""
    if interval is None:
        return None
    middle = interval.difference if isinstance(interval, PairedInterval) else interval.estimate
    return IntervalCell.of((middle, interval.low, interval.high), scale)


def read_interval(name: str, scale: float = 1.0) -> Callable[[Any], IntervalCell | None]:
    """Returns a function that makes a cell of an object's attribute `name`, an interval, times `scale`."""
    return lambda one: interval_cell(getattr(one, name), scale)


def estimate(entry: Any) -> float | None:
    """Returns the estimate of a cell; None for a dash."""
    return None if entry is None else entry.estimate


def group_by_reason(missing: Mapping[str, str]) -> list[str]:
    """Groups missing names by reason; a reason that holds for more than two names stands without them."""
    names_by_reason: dict[str, list[str]] = {}
    for name, why in missing.items():
        names_by_reason.setdefault(why, []).append(name)
    texts = (why if len(names) > 2 else f"{', '.join(names)}: {why}" for why, names in names_by_reason.items())
    return [remark(UNSERVED, text) for text in texts]


def unlogged_note(what: str, of: str) -> str:
    """Says that numbers are dashes because `what` is not logged for every call of the kind `of`."""
    return remark(UNLOGGED, f"{what} are not logged for every {of}, so numbers that need them are dashes")


LEFT_OUT_FILE = "left_out.csv"
UNSERVED, UNLOGGED = "unserved", "unlogged"
"""Codes of lines: what the log cannot serve; what is not logged of every call."""


def left_out_note(excluded: Mapping[str, str]) -> tuple[str, ...]:
    """Says how many examples a run leaves out, names some, and names the file with all of them."""
    if not excluded:
        return ()
    one = len(excluded) == 1
    such = first_ids_text(sorted(excluded)) if len(excluded) <= 3 else f"such as {first_ids_text(sorted(excluded))}"
    which = f"{len(excluded):,} example{' is' if one else 's are'} left out, {such}"
    return (remark(LEFT_OUT, f"{which}; `{LEFT_OUT_FILE}` names {'it' if one else 'all of them'} with the reason"),)
