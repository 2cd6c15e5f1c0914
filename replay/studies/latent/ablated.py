"""What the study's ablations found on a data set: numbers alone, for its tables and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toolkit.stats import Interval


@dataclass(frozen=True)
class Ablations:
    """Of one data set.

    `transfer`: pooled AUC on its reported traces by the data set that a verifier was trained on. `readers`: that of
    verifiers on the states of a model, by the name of these states. `missing`: why something was not found, by what.
    """

    transfer: Mapping[str, Interval] = field(default_factory=dict)
    readers: Mapping[str, Interval] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
