"""Calibration of the verifiers: whether a score is the chance that a trace is right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl

from replay.runs.example_set import resampling_units
from replay.studies.factcheck.runs import FactcheckSetting
from toolkit.log import Log, collect
from toolkit.show import ShownInterval
from toolkit.stats import Interval
from toolkit.stats.reliability import ClusteredCalibration, clustered_calibration


@dataclass(frozen=True)
class VerifierCalibration:
    """What a verifier's scores of the traces of one pool say; None where it scored no judged trace of them."""

    verifier: str
    found: ClusteredCalibration | None

    @property
    def missing(self) -> str:
        """Why numbers are not known; empty where all are."""
        if self.found is None:
            return f"`{self.verifier}` scored no trace that is judged"
        if self.found.ece is None:
            return f"scores of `{self.verifier}` lie beyond 0 and 1: no probabilities, so they have no calibration"
        return ""


def calibrations(log: Log, setting: FactcheckSetting, verifiers: Iterable[str]) -> Iterator[VerifierCalibration]:
    """Of the first traces of the claims reported, up to the cap; traces of a claim are resampled together."""
    for verifier in verifiers:
        rows = scored_traces(log, setting, verifier)
        found = None
        if not rows.is_empty():
            found = clustered_calibration(rows["score"], rows["correct"], rows["unit"], settings=setting.settings)
        yield VerifierCalibration(verifier, found)


def scored_traces(log: Log, setting: FactcheckSetting, verifier: str) -> pl.DataFrame:
    """Score, correct and unit of every valid trace within the cap with a score and a verdict, claim after claim.

    Only valid ones are ever verified: their answer is one of the claim's labels.
    """
    claims = setting.claims(log, "cluster", "labels")
    units = claims.select("example_id", "labels", unit=resampling_units(claims))
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct"]
    traces = log.scan("traces", columns).filter(
        (pl.col("pool") == setting.pool) & (pl.col("action") == "solve") & (pl.col("sample_index") < setting.cap)
    )
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(pl.col("verifier") == verifier)
    scored = traces.join(scores.select("trace_id", "score"), on="trace_id").join(units.lazy(), on="example_id")
    valid = scored.filter(pl.col("labels").list.contains(pl.col("answer"))).drop_nulls(["score", "correct"])
    rows = collect(valid, log).sort("example_id", "sample_index")
    return rows.select("score", pl.col("correct").cast(pl.Float64), "unit")


def shown(found: Interval | None, scale: float = 1.0) -> ShownInterval | None:
    """An interval as tables show it."""
    if found is None or found.estimate is None:
        return None
    return ShownInterval(found.estimate, found.low, found.high).times(scale)
