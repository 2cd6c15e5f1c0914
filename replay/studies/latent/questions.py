"""The study's questions, and what intervals say of each: yes, no, or not decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from replay.studies.latent.gains import Gain
from toolkit.stats import PairedInterval


class Answer(StrEnum):
    """What an interval says of a question."""

    YES = "yes"
    NO = "no"
    PARTLY = "yes and no"
    UNDECIDED = "not decided"
    UNASKED = "not asked"


class VerdictOn(StrEnum):
    """What is asked of a data set, as tables and reports write it."""

    CHANCE = "is the verifier better than chance"
    RANDOM = "is the best of a question's traces by its scores better than a random one"
    LOGPROBS = "does the verifier beat log-probabilities"
    WEIGHTED = "does voting weighted by its scores beat plain voting at equal samples"
    BEST = "does best-of-n by its scores beat plain voting at equal samples"
    CONDITIONAL = "does conditional voting beat plain voting at equal samples"
    ELSEWHERE = "does conditional voting beat plain voting in the pool that is best for it"
    COIN = "do its scores beat a coin in conditional voting"
    ORACLE = "does any strategy reach the oracle"


@dataclass(frozen=True)
class Verdict:
    """The answer to one question. `over`: which area it is of; `against`: what the shown difference is to; `scale`: of
    the difference for people; `where`: the mean samples at which there is a gain, and a loss; `why` it is not asked.
    """

    question: VerdictOn
    answer: Answer
    over: str = ""
    against: str = ""
    difference: PairedInterval | None = None
    gained: tuple[float, ...] = ()
    lost: tuple[float, ...] = ()
    why: str = ""


def answered(difference: PairedInterval) -> Answer:
    """What one interval says of whether a difference is above 0."""
    if difference.low is None or difference.high is None:
        return Answer.UNDECIDED
    return Answer.YES if difference.low > 0 else Answer.NO if difference.high < 0 else Answer.UNDECIDED


def gain_verdict(question: VerdictOn, gains: Sequence[Gain]) -> Verdict:
    """Yes where some setting is above, and none below; no where some is below, and none above; else both, or neither.

    The intervals hold for all settings at once, so one that leaves out 0 is enough. Shown is the one that decides, or
    the largest difference.
    """
    answers = [answered(one.difference) for one in gains]
    up = [one for one, answer in zip(gains, answers, strict=True) if answer is Answer.YES]
    down = [one for one, answer in zip(gains, answers, strict=True) if answer is Answer.NO]
    found = {
        (True, False): Answer.YES, (False, True): Answer.NO, (True, True): Answer.PARTLY,
    }.get((bool(up), bool(down)), Answer.UNDECIDED)  # fmt: skip
    shown = min(down, key=_size) if found is Answer.NO else max(up or gains, key=_size)
    plain = f"plain voting of pool {shown.pool}" if shown.pool else "plain voting"
    rival = "a coin" if question is VerdictOn.COIN else plain
    against = f"{rival}, {shown.samples:.3g} samples"
    return Verdict(
        question, found, against=against, difference=shown.difference,
        gained=tuple(one.samples for one in up), lost=tuple(one.samples for one in down),
    )  # fmt: skip


def _size(gain: Gain) -> float:
    return gain.difference.difference if gain.difference.difference is not None else 0.0
