"""What every table of the study has around it: warnings, what the log lacks, what is published of others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from replay.studies.factcheck.published import CAP, TOTALS, published_claims
from replay.studies.factcheck.study import LARGER, OTHER, Study
from replay.studies.kit.gaps import Gap, said_of
from replay.studies.kit.layout import Shown, Surroundings
from replay.studies.kit.sheet import Sheet

OWN_CAPS = (*LARGER, "B.3", "B.4")
"""Tables whose rows say their cap themselves, or that have none."""


def surroundings(studies: Sequence[Study], name: str) -> Surroundings[Study]:
    """Of the tables of a log of this name."""
    simulated = studies[0].simulated
    return Surroundings(
        simulated=simulated,
        suffix=f", {name} (simulated)" if simulated else f", {name}",
        above=lambda sheet, parts: said_of(parts, lambda one: one.warnings.get(sheet.runs, one.warnings[""])),
        below=_unlike,
        gaps=lambda sheet, parts: map(Gap, said_of(parts, lambda one: one.missing.get(sheet.runs, ()))),
    )


def _unlike(sheet: Sheet[Study], parts: Sequence[Study], shown: Shown) -> list[str]:
    """How the published numbers of a table are of something else than its own."""
    return said_of(parts, lambda study: unlike(study, sheet.number, shown.published)) if shown.published else []


def unlike(study: Study, number: str, columns: Collection[str]) -> Iterator[str]:
    """How the published numbers in some columns of a table are of something else than a data set's own."""
    numbers = study.setting.published
    if numbers is None or not number:
        return
    if not any(numbers.dataset.lower() in name.lower() for name in (study.name, study.dataset)):
        of = f"`{study.name}` ({study.dataset})"
        yield f"published: of {numbers.dataset}, which {of} is not by its name: differences are between data sets too"
        if number in OTHER:
            yield f"published: of a prompted verifier of 7B parameters, here of `{study.setting.other_verifier}`"
    if not TOTALS.isdisjoint(columns) and study.other_claims(number):
        ours = " or ".join(f"{n:,}" for n in sorted({methods.n for methods in study.runs_of(number)} - {0}))
        yield f"published totals are of {published_claims(numbers):,} claims, these of {ours}: no differences"
    if number not in OWN_CAPS and study.setting.cap != CAP:
        yield f"published: with {CAP} traces a claim at most, here with {study.setting.cap}"
