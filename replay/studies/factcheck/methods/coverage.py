"""The table of prediction sets, class by class, where the promise of each holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replay.analyses.tune.fitted import ClassCoverage
from replay.studies.kit.cells import PolicyCells
from replay.studies.kit.sheet import Row, Value, intervals, numbers

METRICS = (
    intervals("Coverage, %", "coverage", metric="coverage", scale=100),
    intervals("Set size", "set_size", metric="set_size"),
    intervals("Answered, %", "answer_rate", metric="answer_rate", scale=100),
    intervals("Accuracy among answered, %", "accuracy_answered", metric="accuracy_answered", scale=100),
)  # fmt: skip
COVERAGE = (
    numbers("Claims", "claims", 0),
    numbers("Promised, %", "promised", 1),
    numbers("Threshold", "threshold", 4),
    *METRICS,
)
COVERAGE_NOTES = (
    "coverage: claims of the class whose set holds it; promised on average over development splits, not for each",
    "a dash for a threshold: the class is in every set, since too few claims of it were learnt from, or a "
    "share alpha of them has no verified trace of their label",
)


def coverage(parts: Sequence[ClassCoverage]) -> Iterator[Row]:
    """Prediction sets class by class, where the promise of each holds."""
    for found in parts:
        values: dict[str, Value] = {
            "claims": found.part.n,
            "promised": 100 * (1 - found.alpha),
            "threshold": found.threshold,
        }
        yield Row((found.policy, found.label), PolicyCells(found.part, found.policy), values)
