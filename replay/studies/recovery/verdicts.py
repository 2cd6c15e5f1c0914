"""What a study says of the verdict on a data set: why it may be too good, its sentences, who is left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from replay.analyses.recommend.recommend import NO_REASON, UNDECIDED, Recommendation
from replay.studies.kit.cells import told_of_run
from replay.studies.recovery.around import Ran


class Judged(Ran, Protocol):
    """What was found on a data set, with a verdict."""

    @property
    def recommendation(self) -> Recommendation:
        """The verdict, with its sentences."""
        ...

    def caveats(self) -> Iterator[str]:
        """Why the verdict may be too good."""
        ...


def told_verdict(study: Judged) -> Iterator[str]:
    """What stands beside a verdict, before its sentences, and these."""
    yield from (f"CAVEAT: {one}." for one in study.caveats())
    if study.recommendation.verdict == UNDECIDED:
        yield NO_REASON
    yield from study.recommendation.sentences


def said_of_verdicts(studies: Sequence[Judged]) -> Iterator[str]:
    """What the screen says: every verdict with its sentences, warnings, and who is left out."""
    for study in studies:
        yield f"{study.dataset}: {study.recommendation.verdict}"
        yield from (f"  {sentence}" for sentence in told_verdict(study))
    for study in studies:
        yield from told_of_run(study.dataset, study.result, len(studies) == 1)
