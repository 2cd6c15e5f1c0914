"""Calibration of the verifiers: whether a score is the chance that a trace is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from replay.data.conditions import asked_about
from replay.runs.passes.example_set import resampling_units
from toolkit.log import Log, collect
from toolkit.stats import Settings
from toolkit.stats.curves.calibration import ClusteredCalibration, clustered_calibration


@dataclass(frozen=True)
class VerifierCalibration:
    """What a verifier's scores of the first `cap` traces of one pool say; None where it scored no judged one."""

    verifier: str
    cap: int
    found: ClusteredCalibration | None

    @property
    def missing(self) -> str:
        """Why numbers are not known; empty where all are."""
        if self.found is None:
            return f"`{self.verifier}` scored no trace that is judged"
        if self.found.ece is None:
            return f"scores of `{self.verifier}` lie beyond 0 and 1: no probabilities, so they have no calibration"
        return ""


def calibrations(
    log: Log, pool: str, verifiers: Iterable[str], *, cap: int, where: str | None = None, settings: Settings
) -> Iterator[VerifierCalibration]:
    """Of the first `cap` traces of the examples of `where`; traces of an example are resampled together."""
    for verifier in verifiers:
        rows = _scored_traces(log, pool, verifier, cap, where)
        found = None
        if not rows.is_empty():
            found = clustered_calibration(rows["score"], rows["correct"], rows["unit"], settings=settings)
        yield VerifierCalibration(verifier, cap, found)


def _scored_traces(log: Log, pool: str, verifier: str, cap: int, where: str | None = None) -> pl.DataFrame:
    """Score, correct and unit of every valid trace within the cap with a score and a verdict, example after example.

    Of examples with labels only traces whose answer is one of them are valid, as only these are ever verified.
    """
    examples = asked_about(log, where, "cluster", "labels")
    units = examples.select("example_id", "labels", unit=resampling_units(examples))
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct"]
    traces = log.scan("traces", columns).filter(
        (pl.col("pool") == pool) & (pl.col("action") == "solve") & (pl.col("sample_index") < cap)
    )
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(pl.col("verifier") == verifier)
    scored = traces.join(scores.select("trace_id", "score"), on="trace_id").join(units.lazy(), on="example_id")
    labelled = pl.col("labels").list.len() > 0
    valid = pl.col("answer").is_not_null() & (
        ~labelled.fill_null(False) | pl.col("labels").list.contains(pl.col("answer"))
    )
    rows = collect(scored.filter(valid).drop_nulls(["score", "correct"]), log).sort("example_id", "sample_index")
    return rows.select("score", pl.col("correct").cast(pl.Float64), "unit")
