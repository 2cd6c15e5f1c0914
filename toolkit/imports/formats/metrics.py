"""Which of a format's metrics says whether a sample is right: one that is 0 or 1 in every sample, where 1 is better."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

KNOWN = (
    "exact_match", "extractive_match", "math_verify", "acc", "pass@1", "em", "quasi_exact_match", "qem",
    "prefix_exact_match",
)  # fmt: skip

_LOWER = re.compile(
    r"toxic|stereotyp|unsafe|hallucinat|attack|perplexity|error|brier|(^|_)(wer|cer|ter|ece)(_|$)", re.IGNORECASE
)
"""Names of metrics that are better where they are lower."""


def verdict_metric(samples: Iterable[Mapping[str, Any]]) -> str | None:
    """The metric that is a verdict, by each sample's metrics: a known name, else the first that came.

    None where none is 0 or 1 throughout. A metric that is null in a sample says nothing of it.
    """
    seen: dict[str, bool] = {}
    for sample in samples:
        note_metrics(seen, sample)
    return best_metric(seen)


def note_metrics(seen: dict[str, bool], sample: Mapping[str, Any]) -> None:
    """Put into `seen`, by metric, whether it has been 0 or 1 in every sample until this one."""
    for name, value in sample.items():
        if value is not None:
            seen[name] = seen.get(name, True) and verdict(value) is not None


def best_metric(verdicts: Mapping[str, bool], higher: Mapping[str, bool] | None = None) -> str | None:
    """The metric that is a verdict, of those that are 0 or 1 throughout and better where higher; None where none is.

    `higher`: what is known of them; of others their names tell it.
    """
    known = higher or {}
    found = [name for name, whole in verdicts.items() if whole and known.get(name, not _LOWER.search(name))]
    return next((name for name in KNOWN if name in found), found[0] if found else None)


def verdict(value: Any) -> bool | None:
    """A metric's value as right or wrong; None where it is neither 0 nor 1."""
    return bool(value) if isinstance(value, bool | int | float) and value in (0, 1) else None
