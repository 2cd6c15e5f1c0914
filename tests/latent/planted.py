"""Logs with planted states, and what a verifier on them is worth."""

from __future__ import annotations

import polars as pl

from toolkit.log import Log, collect
from toolkit.stats import auc, auc_within


def scores(log: Log, verifier: str) -> pl.DataFrame:
    """trace_id, score, fold, correct, example_id and split of a verifier's scores."""
    own = log.scan("verifications", ["trace_id", "verifier", "score", "fold"]).filter(pl.col("verifier") == verifier)
    traces = log.scan("traces", ["trace_id", "example_id", "correct", "sample_index"])
    joined = own.join(traces, on="trace_id").join(log.scan("examples", ["example_id", "split"]), on="example_id")
    return collect(joined, log).sort("trace_id")


def areas(frame: pl.DataFrame) -> tuple[float, float]:
    """Pooled and within questions."""
    return auc(frame["score"], frame["correct"]), auc_within(frame["score"], frame["correct"], frame["example_id"])


def best_of_n(frame: pl.DataFrame) -> float:
    """Share of questions on which the highest score is of a right trace."""
    best = frame.sort("score", "sample_index", descending=[True, False]).group_by("example_id").first()
    return float(best["correct"].mean())
