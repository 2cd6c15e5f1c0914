"""How well verifiers tell right traces from wrong ones, where policies read them, on the examples that are reported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.runs.figures.score_data import scores_of_log
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from replay.runs.saved.provenance import PolicyRecord
from toolkit.log import Log
from toolkit.stats.curves.arrays import Interval
from toolkit.stats.curves.roc import auc_intervals


@dataclass(frozen=True)
class VerifierArea:
    """The area under the ROC curve of a verifier on one pool: over all traces, and among those of one example."""

    verifier: str
    pool: str
    auc: Interval
    auc_within: Interval


def verifier_areas(log: Log, result: Result) -> tuple[VerifierArea, ...]:
    """Of each verifier its areas on the examples compared, the best first; none that is not known.

    The pool is one that some policy reads it on, if any does; of several the one with most scored traces.
    """
    scores = scores_of_log(log, result.examples["example_id"]).filter(pl.col("score").is_finite())
    units = result.examples.select("example_id", unit=resampling_units(result.examples))
    scores = scores.join(units, on="example_id")
    read = frozenset(_read(result.policies))
    best: dict[str, tuple[bool, int, str]] = {}
    groups = scores.partition_by("verifier", "slice", as_dict=True)
    for (verifier, pool), rows in groups.items():
        place = ((verifier, pool) in read, rows.height, str(pool))
        best[str(verifier)] = max(best.get(str(verifier), place), place)
    settings, areas = result.summariser.settings, []
    for verifier, (*_, pool) in best.items():
        rows = groups[verifier, pool]
        found = auc_intervals(
            rows["score"], rows["correct"], rows["example_id"], cluster=rows["unit"], settings=settings
        )
        if found.auc.estimate is not None:
            areas.append(VerifierArea(verifier, pool, found.auc, found.auc_within))
    return tuple(sorted(areas, key=lambda area: (-(area.auc.estimate or 0.0), area.verifier)))


def _read(policies: Iterable[PolicyRecord]) -> Iterator[tuple[str, str]]:
    """Verifiers with the pools that policies, or parts of them, read them on."""
    for policy in policies:
        yield from _of_settings(policy.settings)


def _of_settings(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    verifier, pool = settings.get("verifier"), settings.get("pool")
    if isinstance(verifier, str) and isinstance(pool, str):
        yield verifier, pool
    for inner in settings.values():
        if isinstance(inner, Mapping):
            yield from _of_settings(inner)
