"""A verifier's score of a first attempt against the entropy of the votes on its question (LiLaVe 2025, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.conditions import examples_where, ids_where
from replay.runs.passes.example_set import resampling_units
from toolkit.arguments import checks_arguments
from toolkit.log import AnyLog, Log, collect, open_log
from toolkit.stats import Interval, unit_numbers
from toolkit.stats.curves.roc import mean_with_influences
from toolkit.stats.limits.student import single_critical_value

PARTS = 5
"""How many groups by score the questions are in."""
FEWEST = 10
"""The fewest questions for which a correlation is given."""


@dataclass(frozen=True)
class _ScoreRange:
    """Questions whose first attempt has a score from `low` to `high`: the entropy of their votes, as a share of the
    largest possible, and the share of votes that are right.
    """

    low: float
    high: float
    questions: int
    entropy: Interval
    right: Interval


@dataclass(frozen=True)
class VotesEntropy:
    """Spearman's correlation of score and entropy over questions, and both by fifths of the score.

    `probe`: the pool of the scored attempts, None where they are the first of `pool` and the others vote.
    """

    pool: str
    probe: str | None
    correlation: Interval
    parts: tuple[_ScoreRange, ...]


@checks_arguments()
def votes_entropy(
    log: AnyLog, verifier: str, *, pool: str, probe: str | None = None, where: str | None = None, level: float = 0.95
) -> VotesEntropy | None:
    """Correlation of a verifier's score of one attempt with the entropy of the answers in a pool; None where too few
    questions have both, or either is the same for all.

    The correlation's interval is that of Bonett and Wright (2000), with as many observations as there are questions, or
    clusters.
    """
    opened_log = open_log(log)
    frame = _question_scores(opened_log, verifier, pool, probe, where)
    if frame.height < FEWEST or frame["score"].n_unique() < 2 or frame["entropy"].n_unique() < 2:
        return None
    frame = frame.sort("score", "example_id")
    ranks = frame.select(pl.col("score", "entropy").rank("average"))
    correlation = float(np.corrcoef(ranks["score"].to_numpy(), ranks["entropy"].to_numpy())[0, 1])
    unit = unit_numbers(frame["unit"])
    size = int(unit.max()) + 1
    parts = []
    for part in np.array_split(np.arange(frame.height), PARTS):
        rows = frame[part]
        intervals = [
            mean_with_influences(rows[name].to_numpy(), unit[part], size).interval(level)
            for name in ("entropy", "right")
        ]
        parts.append(_ScoreRange(rows["score"][0], rows["score"][-1], rows.height, *intervals))
    return VotesEntropy(pool, probe, _correlation_interval(correlation, size, level), tuple(parts))


def _correlation_interval(correlation: float, units: int, level: float) -> Interval:
    if units < FEWEST or abs(correlation) >= 1:
        return Interval(correlation, None, None, units, None)
    half = single_critical_value(level, units) * np.sqrt((1 + correlation**2 / 2) / (units - 3))
    low, high = np.tanh(np.arctanh(correlation) + np.array([-half, half]))
    return Interval(correlation, float(low), float(high), units, "t")


def _question_scores(log: Log, verifier: str, pool: str, probe: str | None, where: str | None) -> pl.DataFrame:
    """example_id, unit, score, entropy and right of every question that has all of them."""
    columns = ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "correct", "opaque"]
    pools = [pool] if probe is None else [pool, probe]
    traces = log.scan("traces", columns).filter(pl.col("pool").is_in(pools), pl.col("action") == "solve")
    if where is not None:
        traces = traces.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    frame = collect(traces, log).sort("example_id", "sample_index", "trace_id")
    first = frame.filter(pl.col("pool") == (probe or pool)).unique("example_id", keep="first", maintain_order=True)
    votes = frame.filter(pl.col("pool") == pool).join(first, on="trace_id", how="anti")
    votes = votes.filter(
        pl.col("answer").is_not_null(), pl.col("correct").is_not_null(), ~pl.col("opaque").fill_null(False)
    )
    share = pl.len() / pl.col("count").first()
    several = votes.with_columns(count=pl.len().over("example_id")).filter(pl.col("count") > 1)
    shares = several.group_by("example_id", "answer").agg(
        share=share, count=pl.col("count").first(), right=pl.col("correct").sum() / pl.col("count").first()
    )
    spread = -(pl.col("share") * pl.col("share").log()).sum() / pl.col("count").first().log()
    of_votes = shares.group_by("example_id").agg(entropy=spread, right=pl.col("right").sum())
    verifications = collect(log.scan("verifications", ["trace_id", "verifier", "score"]).filter(verifier=verifier), log)
    scores = first.select("trace_id", "example_id").join(verifications.select("trace_id", "score"), on="trace_id")
    examples = examples_where(log, None, "cluster")
    units = examples.select("example_id", unit=resampling_units(examples))
    known = scores.filter(pl.col("score").is_finite()).join(of_votes, on="example_id").join(units, on="example_id")
    return known.with_columns(pl.col("entropy").clip(0, 1))
