"""Seconds: the wall-clock of the runs that made a log, of a pool and a verifier and of which claims it is; and device
seconds of generation and of verification apart, for euros, since a run's outcomes hold their sum alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from replay.analyses.budgets.pool_depth import PoolDepth
from replay.data.conditions import examples_where
from replay.runs.passes.example_set import resampling_units
from replay.runs.result.result import Result
from toolkit.errors import listed
from toolkit.log import Log, collect, source_parts
from toolkit.show import IntervalCell, remark
from toolkit.stats import Settings, interval, unit_numbers

SECONDS = "wall_clock_s"
NOT_LOGGED = "the log has no wall-clock (`wall_clock_s` of the pool and the verifier in the manifest's `source`)"
UNNAMED_RUNS = "some of the log's {runs} runs do not say their data set, so the wall-clock of the runs is not summed"
MOST_NAMED = 4
"""The most pools that a reason names."""


@dataclass(frozen=True)
class WallClock:
    """Seconds that `runs` runs took to make a pool and a verifier's scores; None where they are not logged.

    `why`: why their sum is not that of exhaustive best-of-N on the claims reported; empty where it is.
    """

    pool_s: float | None
    verifier_s: float | None
    runs: int = 0
    why: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Seconds that exhaustive best-of-N took on the reported claims; None where they are not known."""
        return None if self.why or self.pool_s is None or self.verifier_s is None else self.pool_s + self.verifier_s


@dataclass(frozen=True)
class _ModelTimings:
    """The entries on one model in all parts of a manifest's `source`; `of_pool`: on the pool alone."""

    seconds: tuple[float | None, ...]
    of_pool: bool

    @property
    def total_seconds(self) -> float | None:
        """The sum over the parts; None where a part has no number."""
        known = [second for second in self.seconds if second is not None]
        return sum(known) if known and len(known) == len(self.seconds) else None


@dataclass(frozen=True)
class _WallClockRequest:
    """What a wall-clock is asked for: so many traces of a pool, and their scores, on the examples of `where`."""

    pool: str
    verifier: str
    traces: int
    where: str | None


def wall_clock(
    log: Log, pool: str, verifier: str, *, traces: int, depth: PoolDepth, where: str | None = None
) -> WallClock:
    """The wall-clock of a pool and a verifier, summed over the runs that made them for the data sets of `where`.

    A merged log has the runs of its parts. What copies of one run say alike counts once; runs of several data sets are
    never added up. `traces`: how many of the pool exhaustive best-of-N takes; `depth`: how many there are.
    """
    request = _WallClockRequest(pool, verifier, traces, where)
    source = log.manifest.source if log.manifest is not None else None
    every = collect(log.scan("examples", ["example_id", "dataset"]), log)
    others = set(every["dataset"].drop_nulls()) - set(examples_where(log, where, "dataset")["dataset"].drop_nulls())
    parts = [part for part in source_parts(source) if _dataset_of_run(part) not in others]
    pool_entries, scored = (
        _model_timings(parts, "pools", pool, pool),
        _model_timings(parts, "verifiers", verifier, pool),
    )
    runs = max(len(pool_entries.seconds), len(scored.seconds))
    datasets_known = all(_dataset_of_run(part) is not None for part in parts if _has_timings(part, request))
    if others and runs > 1 and not datasets_known:
        return WallClock(None, None, runs, (UNNAMED_RUNS.format(runs=runs),))
    if pool_entries.total_seconds is None or scored.total_seconds is None:
        return WallClock(
            pool_entries.total_seconds,
            scored.total_seconds,
            runs,
            tuple(_missing_seconds_reasons(request, pool_entries, scored)),
        )
    elsewhere = others if datasets_known else set()
    ran = every.filter(~pl.col("dataset").is_in(list(elsewhere)).fill_null(False))
    return WallClock(
        pool_entries.total_seconds,
        scored.total_seconds,
        runs,
        tuple(_differences_to_best_of_n(log, request, depth, ran, scored.of_pool)),
    )


def _pools_scored_by_verifier(log: Log, verifier: str, claims: pl.Series) -> tuple[str, ...]:
    traces = log.scan("traces", ["trace_id", "example_id", "pool"])
    traces = traces.filter(pl.col("example_id").is_in(claims.implode()))
    scores = log.scan("verifications", ["trace_id", "verifier"]).filter(pl.col("verifier") == verifier)
    pools = traces.join(scores, on="trace_id", how="semi").select(pl.col("pool").unique().sort())
    return tuple(collect(pools, log)["pool"].drop_nulls())


def _dataset_of_run(part: Mapping[str, Any]) -> str | None:
    """The data set of a run, by its settings or by a simulation's source; None where neither names one."""
    settings = part.get("settings")
    name = settings.get("data.dataset") if isinstance(settings, Mapping) else part.get("data_set")
    return name if isinstance(name, str) else None


def _has_timings(part: Mapping[str, Any], request: _WallClockRequest) -> bool:
    return any(
        isinstance(section := part.get(kind), Mapping) and name in section
        for kind, name in (("pools", request.pool), ("verifiers", request.verifier))
    )


def _model_timings(parts: Collection[Mapping[str, Any]], kind: str, name: str, pool: str) -> _ModelTimings:
    seconds: dict[str, float | None] = {}
    pool_only = True
    for part in parts:
        section = part.get(kind)
        entry = section.get(name) if isinstance(section, Mapping) else None
        if not isinstance(entry, Mapping):
            continue
        by_pool = entry.get("pools")
        apart = by_pool.get(pool) if isinstance(by_pool, Mapping) else None
        same = [entry, *(part.get(key) for key in ("recipe", "seed", "shard", "settings"))]
        seconds[json.dumps(same, sort_keys=True, default=str)] = _seconds_of_entry(
            apart if apart is not None else entry
        )
        pool_only = pool_only and (kind == "pools" or apart is not None)
    return _ModelTimings(tuple(seconds.values()), pool_only)


def _seconds_of_entry(entry: Any) -> float | None:
    value = entry.get(SECONDS) if isinstance(entry, Mapping) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _missing_seconds_reasons(request: _WallClockRequest, pool: _ModelTimings, verifier: _ModelTimings) -> Iterator[str]:
    """Reasons why the runs' logs do not give the seconds."""
    if not any(one is not None for one in (*pool.seconds, *verifier.seconds)):
        yield remark("no_wall_clock", NOT_LOGGED)
        return
    for what, name, entries in (("pool", request.pool, pool), ("verifier", request.verifier, verifier)):
        if entries.total_seconds is None:
            silent, of = sum(second is None for second in entries.seconds), len(entries.seconds)
            runs = f"{silent} of its {of} runs do" if of > 1 else "the manifest does"
            text = f"{runs} not say how long {what} `{name}` took (`{SECONDS}` in the manifest's `source`)"
            yield remark("no_wall_clock", text)


def _differences_to_best_of_n(
    log: Log, request: _WallClockRequest, depth: PoolDepth, examples: pl.DataFrame, pool_only: bool
) -> Iterator[str]:
    """How the runs differ from exhaustive best-of-N on the reported claims, in words; `examples`: the runs' claims."""
    scan = log.scan("traces", ["example_id", "pool"]).filter(pl.col("pool") == request.pool)
    have = collect(scan.filter(pl.col("example_id").is_in(examples["example_id"].implode())).select("example_id"), log)
    ran, claims = have["example_id"].unique(), examples_where(log, request.where)["example_id"]
    reported = int(ran.is_in(claims.implode()).sum())
    if reported < len(ran):
        yield remark("other_claims", f"the wall-clock covers {len(ran):,} claims, this table {reported:,} of them")
    if depth.largest != request.traces or depth.shorter:
        text = f"the wall-clock covers all {depth.largest:,} traces a claim, this table {request.traces:,}"
        yield remark("other_traces", text)
    pools = () if pool_only else _pools_scored_by_verifier(log, request.verifier, examples["example_id"])
    others = [pool for pool in pools if pool != request.pool]
    if others:
        text = f"the wall-clock of `{request.verifier}` includes traces of {listed(others, MOST_NAMED)}"
        yield remark("other_pools", text)


PARTS = ("generation", "verification")


def device_seconds(
    log: Log, pool: str, result: Result, settings: Settings
) -> dict[tuple[str, str], IntervalCell | None]:
    """Mean device seconds per example of each (policy, part), with its interval; None where some are not logged.

    Of policies that draw the pool as it was generated: what one generated is the first `traces` traces.
    """
    outcomes = result.outcomes.select("policy", "example_id", "traces", "device_s").collect()
    traces = log.scan("traces", ["example_id", "pool", "action", "sample_index", "device_s"])
    traces = traces.filter((pl.col("pool") == pool) & (pl.col("action") == "solve"))
    of_trace = collect(traces.select("example_id", "sample_index", pl.col("device_s").cast(pl.Float64)), log)
    of_trace = of_trace.sort("example_id", "sample_index").with_columns(pl.col("device_s").fill_null(np.nan))
    until = of_trace.select(
        "example_id",
        traces=pl.col("sample_index").cast(pl.Float64) + 1,
        generation=pl.col("device_s").cum_sum().over("example_id"),
    )
    none = pl.when(pl.col("traces") == 0).then(0.0)
    split = outcomes.join(until, on=["example_id", "traces"], how="left", maintain_order="left").with_columns(
        generation=none.otherwise("generation").fill_null(np.nan), device_s=pl.col("device_s").fill_null(np.nan)
    )
    split = split.with_columns(verification=pl.col("device_s") - pl.col("generation"))
    examples = collect(log.scan("examples", ["example_id", "cluster"]), log)
    seconds: dict[tuple[str, str], IntervalCell | None] = {}
    for (policy,), rows in split.join(examples, on="example_id", how="left").sort("example_id").group_by("policy"):
        units = unit_numbers(resampling_units(rows))
        for part in PARTS:
            mean = interval(rows[part].to_numpy(), cluster=units, settings=settings, rate=False)
            whole = mean.n == len(rows) and mean.estimate is not None
            seconds[str(policy), part] = IntervalCell(mean.estimate or 0.0, mean.low, mean.high) if whole else None
    return seconds
