"""What policies remark on block by block: counts by kind and subject that add up, and become notes at the end."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

from toolkit.notes import Note, Severity

Counts = Mapping[str, int]
"""Subject, such as a verifier's name, to how often it was remarked on."""


@dataclass(frozen=True)
class RemarkKind:
    """A kind of remark: its code and severity, and how it is said of all its subjects together.

    `says` gives the sentences of a run, from the counts by subject and the `facts`. `about_policies`: whether subjects
    are policies. Kinds are equal by value: those of parts of a run add up.
    """

    code: str
    says: Callable[..., list[str]]
    severity: Severity = Severity.NOTE
    about_policies: bool = False
    facts: tuple[Hashable, ...] = ()

    def notes(self, counts: Counts) -> list[Note]:
        """The notes of a run."""
        policies = tuple(counts) if self.about_policies else ()
        return [Note(self.code, text, self.severity, policies) for text in self.says(counts, *self.facts)]


@dataclass(frozen=True)
class Remark:
    """One remark on a subject."""

    kind: RemarkKind
    subject: str
    count: int = 1
