"""The verifiers of a log as its report has them: how well each tells right traces from wrong ones, and the sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.runs.figures.score_data import scores_of_log
from replay.runs.passes.example_set import resampling_units, stratum_names
from replay.runs.result.result import Result
from toolkit.errors import counted
from toolkit.log import Log
from toolkit.show import IntervalCell, NumberWithInterval
from toolkit.stats.curves.arrays import Interval
from toolkit.stats.curves.roc import auc_intervals

MOST = 6
"""How many verifiers the sentence names."""


@dataclass(frozen=True)
class VerifierAuc:
    """The area under the ROC curve of a verifier on one pool: over all traces, and within examples."""

    verifier: str
    pool: str
    auc: Interval
    auc_within: Interval


def verifier_aucs(log: Log, result: Result) -> tuple[VerifierAuc, ...]:
    """The areas of each verifier on the compared examples, the best first; those unknown are left out.

    The pool is one that some policy reads it on, if any does; of several the one with most scored traces.
    """
    scores = scores_of_log(log, result.examples["example_id"]).filter(pl.col("score").is_finite())
    units = result.examples.select("example_id", unit=resampling_units(result.examples))
    column = result.summariser.outcomes.examples.strata
    if column is not None:
        units = units.with_columns(stratum=stratum_names(result.examples, column))
    scores = scores.join(units, on="example_id").sort("example_id")
    pairs_read = frozenset(pair for policy in result.policies for pair in _verifier_pool_pairs_read(policy.settings))
    best: dict[str, tuple[bool, int, str]] = {}
    groups = scores.partition_by("verifier", "slice", as_dict=True)
    for (verifier, pool), rows in groups.items():
        place = ((verifier, pool) in pairs_read, rows.height, str(pool))
        best[str(verifier)] = max(best.get(str(verifier), place), place)
    settings, areas = result.summariser.settings, []
    for verifier, (*_, pool) in best.items():
        rows = groups[verifier, pool]
        intervals = auc_intervals(
            rows["score"], rows["correct"], rows["example_id"], cluster=rows["unit"],
            stratum=None if column is None else rows["stratum"], settings=settings,
        )  # fmt: skip
        if intervals.auc.estimate is not None:
            areas.append(VerifierAuc(verifier, pool, intervals.auc, intervals.auc_within))
    return tuple(sorted(areas, key=lambda area: (-(area.auc.estimate or 0.0), area.verifier)))


def _verifier_pool_pairs_read(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(verifier, pool) pairs that a policy, or a part of it, reads."""
    verifier, pool = settings.get("verifier"), settings.get("pool")
    if isinstance(verifier, str) and isinstance(pool, str):
        yield verifier, pool
    for inner in settings.values():
        if isinstance(inner, Mapping):
            yield from _verifier_pool_pairs_read(inner)


def verifier_sentences(areas: Sequence[VerifierAuc], n: int) -> Iterator[str]:
    """The sentence on how well verifiers tell right from wrong on `n` examples; none without areas."""
    verifier_areas = []
    for area in areas:
        notes = [f"{counted(area.auc.n, 'example')} of {n:,}"] if area.auc.n < n else []
        if area.auc_within.estimate is not None:
            notes.append(f"{_auc_text(area.auc_within)} among traces of one example")
        verifier_areas.append(
            f"`{area.verifier}` {_auc_text(area.auc)} on `{area.pool}`" + (f" ({'; '.join(notes)})" if notes else "")
        )
    if verifier_areas:
        more = f"; {len(verifier_areas) - MOST:,} more" if len(verifier_areas) > MOST else ""
        yield (
            "A right trace of the examples compared scores above a wrong one with probability: "
            f"{'; '.join(verifier_areas[:MOST])}{more}."
        )


def _auc_text(area: Interval) -> str:
    return NumberWithInterval(3).show(IntervalCell(area.estimate or 0.0, area.low, area.high))
