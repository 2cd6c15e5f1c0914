"""What a policy gives on a block beside its outcome: remarks for notes, and the verifications that it may pay.

Remarks are counts by kind and subject, which add up over blocks and become notes at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from toolkit.notes import Note, Severity
from toolkit.stopping.unscored import PARTIAL, UnscoredTreatment

Counts = Mapping[str, int]
"""Subject of a remark, such as a verifier's name -> how often it was remarked on."""


@dataclass(frozen=True)
class RemarkKind:
    """A kind of remark: its code and severity, and how its note is worded from all subjects together.

    `says` gives the sentences of a run, from the counts by subject and the `facts`. `about_policies`: whether subjects
    are policies. Kinds are equal by value: those of parts of a run add up.
    """

    code: str
    says: Callable[..., list[str]]
    severity: Severity = Severity.NOTE
    about_policies: bool = False
    facts: tuple[Hashable, ...] = ()

    def notes(self, counts: Counts) -> list[Note]:
        policies = tuple(counts) if self.about_policies else ()
        return [Note(self.code, text, self.severity, policies) for text in self.says(counts, *self.facts)]


@dataclass(frozen=True)
class Remark:
    """One remark on a subject."""

    kind: RemarkKind
    subject: str
    count: int = 1


@dataclass(frozen=True)
class PayableVerifications:
    """Verifications that a policy may pay: those of the `traces` (E, T) of a slice, by one verifier.

    `unscored`: what becomes of valid ones among them without a score.
    """

    slice: str
    verifier: str
    traces: np.ndarray
    unscored: UnscoredTreatment = PARTIAL
