"""What intervals say of a study's questions: yes, no, or not decided; and the table of these verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from replay.studies.kit.sheet import Row, Sheet, intervals, words
from toolkit.show import IntervalCell, NumberWithInterval
from toolkit.stats import rules_out_loss


class Answer(StrEnum):
    """The answer to a question by an interval: yes, no, undecided, or not asked."""

    YES = "yes"
    NO = "no"
    PARTLY = "yes and no"
    UNDECIDED = "not decided"
    UNASKED = "not asked"


class _HasLimits(Protocol):
    """An object with both limits of an interval, or None for both."""

    @property
    def low(self) -> float | None: ...

    @property
    def high(self) -> float | None: ...


def is_above(difference: _HasLimits) -> Answer:
    """Answers whether a difference is above 0, by its interval."""
    if difference.low is None or difference.high is None:
        return Answer.UNDECIDED
    return Answer.YES if difference.low > 0 else Answer.NO if difference.high < 0 else Answer.UNDECIDED


def answer_of_several(answers: Iterable[Answer]) -> Answer:
    """Answers yes where some difference is above 0 and none below, no where some is below and none above; else both,
    or undecided. The intervals must hold for all differences at once.
    """
    there = set(answers)
    if {Answer.YES, Answer.NO} <= there:
        return Answer.PARTLY
    return next((one for one in (Answer.YES, Answer.NO) if one in there), Answer.UNDECIDED)


def answer_on_loss(difference: _HasLimits, margin: float, units: int) -> Answer:
    """Answers whether a difference is a loss of more than a margin; no where the lower limit rules that out."""
    if difference.low is None or difference.high is None:
        return Answer.UNDECIDED
    if rules_out_loss(difference.low, margin, units):
        return Answer.NO
    return Answer.YES if difference.high < -margin else Answer.UNDECIDED


def answer_on_losses(answers: Iterable[Answer]) -> Answer:
    """Answers whether some of several differences is a loss, by the answer on each; no where all are ruled out. The
    intervals must hold for all differences at once.
    """
    there = set(answers)
    return Answer.YES if Answer.YES in there else Answer.NO if there == {Answer.NO} else Answer.UNDECIDED


@dataclass(frozen=True)
class Finding:
    """The answer to one question of a study, with the difference that it rests on.

    `difference`: what decides, in `unit`; `decided_by`: what it is between, and where else one is shown; `why`: it is
    not asked.
    """

    question: str
    answer: Answer
    difference: IntervalCell | None = None
    unit: str = "points"
    decided_by: str = ""
    why: str = ""

    def sentence(self) -> str:
        """The answer in words, for people."""
        by = self.decided_by or self.why
        text = f"{self.question}? {self.answer.value}{f': {by}' if by else ''}"
        if self.difference is None:
            return text
        return f"{text}, {NumberWithInterval(2, signed=True).show(self.difference)} {self.unit}"

    def record(self) -> dict[str, Any]:
        """The answer as data."""
        ends = self.difference
        limits = None if ends is None else [ends.estimate, ends.low, ends.high]
        return {
            "question": self.question, "verdict": self.answer.value, "difference": limits, "unit": self.unit,
            "decided_by": self.decided_by or None, "why": self.why or None,
        }  # fmt: skip


def finding_on_any(
    question: str, gaps: Mapping[str, IntervalCell], against: str, needs: str = "the log cannot serve it"
) -> Finding:
    """Answers whether any of several differences (by name) is above 0; their intervals hold for all at once.

    Shown is the largest difference that decides, else the largest one. `against`: what the differences are of, with
    `{}` where the name of the one shown belongs, by default the end. `needs`: why it is not asked without any.
    """
    if not gaps:
        return Finding(question, Answer.UNASKED, why=needs)
    answers = {place: is_above(gap) for place, gap in gaps.items()}
    decision = answer_of_several(answers.values())
    up, down = ([place for place, answer in answers.items() if answer is one] for one in (Answer.YES, Answer.NO))
    decisive = min(down, key=lambda place: gaps[place].estimate) if decision is Answer.NO else None
    decider = decisive or max(up or gaps, key=lambda place: gaps[place].estimate)
    return Finding(question, decision, gaps[decider], decided_by=_deciding_text(against, decider, answers))


def finding_on_all(
    question: str, gaps: Mapping[str, IntervalCell], against: str, needs: str = "the log cannot serve it"
) -> Finding:
    """Answers whether all of several differences (by name) are above 0: no where some are below and none above, both
    where some are above and some below. Shown is the least one. The rest is as for `finding_on_any`.
    """
    if not gaps:
        return Finding(question, Answer.UNASKED, why=needs)
    answers = {place: is_above(gap) for place, gap in gaps.items()}
    decision = answer_of_several(answers.values())
    if decision is Answer.YES and set(answers.values()) != {Answer.YES}:
        decision = Answer.UNDECIDED
    decider = min(gaps, key=lambda place: gaps[place].estimate)
    return Finding(question, decision, gaps[decider], decided_by=_deciding_text(against, decider, answers))


def _deciding_text(against: str, decider: str, answers: Mapping[str, Answer]) -> str:
    """Says what the difference that decides is of, and of several which are above and below 0."""
    text = against.replace("{}", decider) if "{}" in against else f"{against}, {decider}"
    sides = (("above", Answer.YES), ("below", Answer.NO)) if len(answers) > 1 else ()
    places = [(side, [place for place, one in answers.items() if one is answer]) for side, answer in sides]
    return "; ".join([text, *(f"{side} at {_places_text(some)}" for side, some in places if some)])


def _places_text(places: Sequence[str]) -> str:
    most = 4
    return ", ".join(places[:most]) + (f" and {len(places) - most} more" if len(places) > most else "")


def findings_sheet(
    of: Callable[[Any], Iterable[Finding]], notes: Sequence[str], dataset: str = "Dataset"
) -> Sheet[Any]:
    """Makes the table of verdicts of a study; `dataset` is the heading of its data sets. Empty where no question is
    asked.
    """

    def rows_of_findings(study: Any) -> Iterator[Row]:
        for one in of(study):
            unit, by = one.unit if one.difference is not None else "", one.decided_by or one.why
            values = {"verdict": one.answer.value, "difference": one.difference, "unit": unit, "decided_by": by}
            yield Row((f"{one.question}?",), values=values)

    columns = (
        words("Verdict", "verdict"), intervals("Difference", "difference", 2, signed=True), words("Unit", "unit"),
        words("Decided by", "decided_by", drop=1),
    )  # fmt: skip
    return Sheet(
        "verdicts", "What the log says", ("Question",), columns, rows_of_findings, tuple(notes), dataset, optional=True
    )
