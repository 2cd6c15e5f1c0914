"""What tests need besides the plain install, and whether it is here: `make test` leaves nothing out for want of it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("dashboard", "generate", "lora", "mathematics", "notebooks", "retrieval", "serving", "xgboost-cpu")
VARIABLE = "THINKBACK_EXTRAS"
"""Set to `required`, an extra that is missing ends the run before its first test."""


def requirements(extras: Iterable[str] = NEEDED) -> list[str]:
    """What pyproject.toml lists under some extras."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return [requirement for extra in extras for requirement in listed[extra]]


def lacking(wanted: Iterable[str]) -> list[str]:
    """Names of the distributions that are not installed, those behind a requirement's own extras too."""
    found: dict[str, None] = {}
    for requirement in map(Requirement, wanted):
        try:
            inner = distribution(requirement.name).requires or []
        except PackageNotFoundError:
            found[requirement.name] = None
            continue
        marked = [one for one in map(Requirement, inner) if one.marker is not None]
        for extra in requirement.extras:
            chosen = [str(one.name) for one in marked if one.marker and one.marker.evaluate({"extra": extra})]
            found |= dict.fromkeys(lacking(chosen))
    return list(found)
