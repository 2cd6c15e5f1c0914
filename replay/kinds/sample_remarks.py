"""What a `sample` policy remarks on: scores that do not mean what it takes them for, and rows that a fit leaves out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from replay.policies.remarks import Counts, Remark, RemarkKind
from replay.sampling.learned import NullRows
from toolkit.errors import listed
from toolkit.notes import Severity

ROUNDING = 1e-6
"""A score counts as outside 0 to 1 when it is farther out than this."""
MAX_NAMED = 5
"""Policies that are named at most."""


def _outside(verifiers: Counts) -> str:
    several = len(verifiers) > 1
    return f"verifier{'s' if several else ''} {listed(sorted(verifiers))} score{'' if several else 's'} outside [0, 1]"


def _clipped(verifiers: Counts) -> list[str]:
    return [
        f"{_outside(verifiers)}. The surrogate clips its predictions to [0, 1]; where all are clipped, traces are "
        "verified in generation order (with `bonus`: by uncertainty)"
    ]


def _negative(verifiers: Counts) -> list[str]:
    return [f"negative scores count against an answer in a weighted vote: {listed(sorted(verifiers))}"]


def _raw_margin(verifiers: Counts) -> list[str]:
    return [f"{_outside(verifiers)}; the stop `margin` is in units of these raw scores"]


NEGATIVE = RemarkKind("negative_weights", _negative, Severity.WARNING)
CLIPPED = RemarkKind("clipped_predictions", _clipped, Severity.WARNING)
RAW_MARGIN = RemarkKind("raw_margin", _raw_margin)


def score_remarks(
    verifier: str, scores: np.ndarray, summed: bool, predicted: bool, raw_margin: bool
) -> Iterator[Remark]:
    """Of a policy that adds scores (E, T) up, predicts them within 0 and 1, or has a margin in units of raw scores."""
    if summed and (scores < 0).any():
        yield Remark(NEGATIVE, verifier)
    if (predicted or raw_margin) and ((scores < -ROUNDING) | (scores > 1 + ROUNDING)).any():
        if predicted:
            yield Remark(CLIPPED, verifier)
        if raw_margin:
            yield Remark(RAW_MARGIN, verifier)


def rows_left_out(lost: NullRows) -> RemarkKind:
    """The remark on policies with a prior whose fit left the same rows out, which they share."""
    return RemarkKind("prior_left_out", _left_out, about_policies=True, facts=(lost,))


def _left_out(policies: Counts, lost: NullRows) -> list[str]:
    traces, verb = ("trace", "is") if lost.traces == 1 else ("traces", "are")
    features = "feature" if len(lost.features) == 1 else "one of the features"
    return [
        f"prior of {listed(list(policies), MAX_NAMED)}: {lost.traces:,} {traces} of {lost.examples:,} of the "
        f"{lost.of:,} examples of `on` {verb} left out of the fit ({features} {listed(lost.features)} is null)"
    ]
