"""The table of hours and euros of verifying methods: generation, verification, and the rest of the wall-clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from replay.studies.factcheck.budgets.verifying_study import VerifyingStudy
from replay.studies.factcheck.methods.method_columns import MethodOfRun, euros, price_note
from replay.studies.factcheck.methods.methods import BEST, TITLES, VERIFYING
from replay.studies.kit.cells import estimate
from replay.studies.kit.sheet import Row, Sheet, Value, numbers

PARTS = ("generation", "verification")
NAMED = (("Gen.", "generation"), ("Ver.", "verification"), ("Other", "other"))


def _rows(study: VerifyingStudy, theirs: Callable[[Any, str], Mapping[str, Any]]) -> Iterator[Row]:
    for name in VERIFYING:
        of = MethodOfRun(study.main, name)
        hours = {part: estimate(of.cell(f"{part}_s", of.cells.n / 3600)) for part in PARTS}
        costs = {part: estimate(euros(of, part)) for part in PARTS}
        other = _other_h(study, **hours) if name == BEST else None
        hours["other"], costs["other"] = other, None if other is None else other * study.setting.eur_per_h
        hours["total"], costs["run"] = _sum(hours.values()), _sum(costs.values())
        values: dict[str, Value] = {f"{part}_h": value for part, value in hours.items()}
        values |= {f"{part}_cost_eur": value for part, value in costs.items()}
        yield Row((TITLES[name],), values=values, **theirs(study, name))


def _sum(found: Iterable[float | None]) -> float | None:
    """The sum of numbers that are all known."""
    values = list(found)
    return None if None in values else sum(value or 0 for value in values)


def _other_h(study: VerifyingStudy, generation: float | None, verification: float | None) -> float | None:
    if study.wall.seconds is None or generation is None or verification is None:
        return None
    other = study.wall.seconds / 3600 - generation - verification
    return other if other >= 0 else None


def _notes(study: VerifyingStudy) -> Iterator[str]:
    yield price_note(study.setting, study.main)
    yield told_wall(study)


def told_wall(study: VerifyingStudy) -> str:
    """What the wall-clock of the log's runs is, or why it says nothing of the rest."""
    wall = study.wall
    if wall.pool_s is None or wall.verifier_s is None:
        return "; ".join(wall.why)
    runs = "run" if wall.runs == 1 else f"{wall.runs} runs"
    both = f"{wall.pool_s / 3600:.3f} h for pool `{study.setting.pool}` and {wall.verifier_s / 3600:.3f} h for verifier"
    told = f"wall-clock of the log's {runs}: {both} `{study.setting.verifier}`"
    if wall.why:
        return f"{told}; no rest is told: {'; '.join(wall.why)}"
    generation, verification = (study.main.total(BEST, metric) for metric in ("generation_s", "verification_s"))
    if generation is not None and verification is not None and (wall.seconds or 0.0) < generation + verification:
        return f"{told}; calls ran in parallel: that is shorter than their sum, so there is no rest"
    return told


def runtime_sheet(name: str, title: str, theirs: Callable[[Any, str], Mapping[str, Any]], **keys: Any) -> Sheet[Any]:
    """The table; `theirs` is what the row of a method has of the published one, `keys` are further ones of the sheet.

    A method that stops early was not run, so it has no rest.
    """
    hours = (numbers(f"{head} h", f"{part}_h") for head, part in (*NAMED, ("Total", "total")))
    costs = (
        numbers(f"{head} cost, €", f"{part}_cost_eur", 3, significant=2) for head, part in (*NAMED, ("Run", "run"))
    )
    rest = "other: wall-clock less generation and verification; a replayed method that stops early has none"
    return Sheet(name, title, ("Method",), (*hours, *costs), lambda one: _rows(one, theirs), (_notes, rest), **keys)
