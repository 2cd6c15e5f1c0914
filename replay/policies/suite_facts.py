"""What the standard suite asks of a log: how many traces pools have, who scored them, which signals tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from replay.data.conditions import has_test, matching
from replay.data.contents import Contents
from toolkit.errors import counted, listed
from toolkit.log import Log, collect

MIN_SHARE = 0.95
"""Share of a pool's examples that must have what a policy of the suite reads."""
DIGITS = 3
MOST_NAMED = 3
SHARES = (0.1, 0.25, 0.5)
"""Shares of the examples on which the gates of the suite fire."""


@dataclass(frozen=True)
class ScoreRange:
    """A verifier that scored a pool, and the range of its scores."""

    verifier: str
    lowest: float
    highest: float


@dataclass(frozen=True)
class _DoubtSignal:
    """A signal of first attempts that is doubtful where it is low, or, of yes and no, where it is yes."""

    source: str
    name: str
    quantiles: Mapping[float, float] | None

    @property
    def label(self) -> str:
        """The doubtful values, as a name of a policy says them."""
        return f"{self.name} is low" if self.quantiles is not None else self.name

    def gate(self) -> dict[str, Any]:
        """The gate's table: thresholds below which it fires on the suite's shares of the examples."""
        if self.quantiles is None:
            return {self.source: self.name, "at_least": 1}
        values = list(dict.fromkeys(float(f"{self.quantiles[share]:.{DIGITS}g}") for share in SHARES))
        return {self.source: self.name, "below": values if len(values) > 1 else values[0]}


@dataclass(frozen=True)
class Pool:
    """A pool of first attempts: how many traces 95 % of its examples have, who scored them, and its signals.

    `even`: whether every example has as many.
    """

    name: str
    size: int
    even: bool
    opaque: bool
    whole: bool
    scores: tuple[ScoreRange, ...] = ()
    signals: tuple[_DoubtSignal, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Facts of a log for the suite. `left_out`: what it leaves out, and why, for people."""

    pools: tuple[Pool, ...]
    revisions: frozenset[tuple[str, str, str]]
    columns: Mapping[str, pl.Series]
    left_out: tuple[str, ...]

    def voting(self, fewest: int) -> list[Pool]:
        """Pools whose answers can be put to the vote."""
        return [pool for pool in self.pools if pool.size >= fewest and not pool.opaque]

    def called(self, pool: Pool, what: str) -> str:
        """A policy's name: without the pool's where no other pool has as many traces to choose from."""
        if what == "first":
            return pool.name
        alone = sum(one.size > 1 for one in self.pools) == 1
        return what if alone else f"{pool.name}: {what}"

    def values(self, column: str) -> int:
        """Number of values of a column of examples; 0 where there is none."""
        return self.columns[column].drop_nulls().n_unique() if column in self.columns else 0


def read_facts(log: Log, contents: Contents, where: str | None = None) -> Facts:
    """A few scans over counts, scores and signals of the examples to report; texts are not read.

    These are the ones of an SQL condition `where`, else those of a test split, else all.
    """
    named = [name for name in ("split", "dataset") if name in contents.example_columns]
    examples = collect(log.scan("examples", ["example_id", *named]), log)
    if where is not None:
        examples = examples.filter(pl.col("example_id").is_in(matching(log, where, "where").implode()))
    columns = {name: examples[name] for name in named}
    traces = log.scan("traces", _trace_columns(contents)).filter(pl.col("action") == "solve")
    if where is None and has_test(columns.get("split")):
        examples = examples.filter(pl.col("split") == "test")
    traces = traces.join(examples.lazy().select("example_id"), on="example_id", how="semi")
    sizes, uneven, short = _sizes(log, traces, examples)
    scores, left_out = _scores(log, contents, traces, sizes)
    signals = _signals(log, contents, traces)
    pools = tuple(
        Pool(
            name=name,
            size=size,
            even=name not in uneven,
            opaque=name in contents.opaque,
            whole=name in contents.whole,
            scores=tuple(scores.get(name, ())),
            signals=tuple(signals.get(name, ())),
        )
        for name, size in sorted(sizes.items(), key=lambda item: (item[1], item[0]))
    )
    return Facts(pools, contents.revisions, columns, (*short, *left_out))


OF_TRACES = ("finish_reason", "finalizer_used", "sum_logprob")


def _trace_columns(contents: Contents) -> list[str]:
    columns = [name for name in OF_TRACES if name in contents.trace_columns]
    return ["trace_id", "example_id", "pool", "action", "sample_index", "answer", *columns]


def _sizes(log: Log, traces: pl.LazyFrame, examples: pl.DataFrame) -> tuple[dict[str, int], frozenset[str], list[str]]:
    """Numbers of traces that 95 % of a pool's examples have; the pools where some have more or fewer, and a line
    for each with more.
    """
    counts = traces.group_by("pool", "example_id").agg(traces=pl.len())
    least = pl.col("traces").quantile(1 - MIN_SHARE, "lower").cast(pl.Int64)
    sizes = counts.group_by("pool").agg(
        size=least, fewest=pl.col("traces").min(), most=pl.col("traces").max(),
        short=(pl.col("traces") <= least).sum(), examples=pl.len(),
    )  # fmt: skip
    frame = collect(sizes.sort("pool"), log)
    groups = _longer(log, counts, examples, frame) if "dataset" in examples.columns else {}
    uneven = frame.filter(pl.col("fewest") < pl.col("most"))["pool"]
    lines = [
        f"policies of more than {counted(size, 'sample')} of pool `{pool}`: {short:,} of {examples:,} examples have "
        f"{'one' if size == 1 else f'{size:,}'} only{groups.get(pool, '')}"
        for pool, size, most, short, examples in frame.select("pool", "size", "most", "short", "examples").iter_rows()
        if most > size
    ]
    return dict(frame.select("pool", "size").iter_rows()), frozenset(uneven), lines


def _longer(log: Log, counts: pl.LazyFrame, examples: pl.DataFrame, sizes: pl.DataFrame) -> dict[str, str]:
    """Advice by pool where some data sets have more of its traces than the others."""
    least = pl.col("traces").quantile(1 - MIN_SHARE, "lower").cast(pl.Int64)
    whose = counts.join(examples.lazy().select("example_id", "dataset"), on="example_id").drop_nulls("dataset")
    dataset_sizes = collect(whose.group_by("pool", "dataset").agg(own=least), log).join(
        sizes.select("pool", "size"), on="pool"
    )
    hints = {}
    for (pool,), rows in dataset_sizes.filter(pl.col("own") > pl.col("size")).sort("pool", "dataset").group_by("pool"):
        names = rows["dataset"].to_list()
        verb, quoted = "has" if len(names) == 1 else "have", names[0].replace("'", "''")
        hints[str(pool)] = (
            f", but data set {listed(names, MOST_NAMED)} {verb} more, with a suite of its own where "
            f"`dataset = '{quoted}'`"
        )
    return hints


def _scores(
    log: Log, contents: Contents, traces: pl.LazyFrame, sizes: Mapping[str, int]
) -> tuple[dict[str, list[ScoreRange]], list[str]]:
    """Verifiers by pool that scored every answer of 95 % of its examples; a line for each other one."""
    if not contents.verifiers:
        return {}, []
    verified = log.scan("verifications", ["trace_id", "verifier", "score"])
    first = pl.col("sample_index") < pl.col("pool").replace_strict(sizes, default=0)
    valid = traces.filter(first & (pl.col("answer").is_not_null() | pl.col("pool").is_in(sorted(contents.opaque))))
    valid = valid.select("trace_id", "example_id", "pool")
    answers = valid.group_by("pool", "example_id").agg(asked=pl.len())
    by_example = valid.join(verified, on="trace_id").group_by("pool", "verifier", "example_id").agg(
        scored=pl.col("score").is_not_null().sum(),
        lowest=pl.col("score").min(),
        highest=pl.col("score").max(),
    )  # fmt: skip
    coverage = by_example.join(answers, on=["pool", "example_id"]).group_by("pool", "verifier").agg(
        served=(pl.col("scored") >= pl.col("asked")).sum(), lowest=pl.col("lowest").min(),
        highest=pl.col("highest").max(),
    )  # fmt: skip
    whole = answers.group_by("pool").agg(examples=pl.len())
    frame = collect(coverage.join(whole, on="pool").sort("pool", "verifier"), log)
    ranges: dict[str, list[ScoreRange]] = {}
    left_out = []
    for pool, verifier, count, lowest, highest, examples in frame.select(
        "pool", "verifier", "served", "lowest", "highest", "examples"
    ).iter_rows():
        if count >= MIN_SHARE * examples:
            ranges.setdefault(pool, []).append(ScoreRange(verifier, lowest, highest))
        else:
            left_out.append(
                f"verifier `{verifier}`, which scored every answer on {count:,} of {examples:,} "
                f"examples of pool `{pool}`"
            )
    return ranges, left_out


def _signals(log: Log, contents: Contents, traces: pl.LazyFrame) -> dict[str, list[_DoubtSignal]]:
    """Signals by pool: those of sample 0 that differ between examples."""
    first = traces.filter(pl.col("sample_index") == 0)
    yes_or_no = {
        "truncated": (pl.col("finish_reason") == "length", "finish_reason"),
        "finalizer_used": (pl.col("finalizer_used"), "finalizer_used"),
    }
    known = {name: value for name, (value, column) in yes_or_no.items() if column in contents.trace_columns}
    shares = [value.mean().alias(name) for name, value in known.items()]
    numbers = ["sum_logprob"] if "sum_logprob" in contents.trace_columns else []
    if not shares and not numbers:
        return {}
    quantiles = [pl.col(name).quantile(share, "higher").alias(f"{name}{share}") for name in numbers for share in SHARES]
    logged = [pl.col(name).is_not_null().mean().alias(name) for name in numbers]
    frame = collect(first.group_by("pool").agg(*shares, *quantiles, *logged), log)
    signals: dict[str, list[_DoubtSignal]] = {}
    for row in frame.iter_rows(named=True):
        pool_signals = signals.setdefault(row["pool"], [])
        pool_signals += [_DoubtSignal("signal", name, None) for name in known if 0 < (row[name] or 0.0) < 1]
        for name in numbers:
            values = {share: row[f"{name}{share}"] for share in SHARES}
            if (row[name] or 0.0) >= MIN_SHARE and values[SHARES[0]] != values[SHARES[-1]]:
                pool_signals.append(_DoubtSignal("signal", name, values))
    return signals
