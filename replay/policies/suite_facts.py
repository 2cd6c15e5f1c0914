"""What the standard suite reads of a log: how many traces and rounds pools have, their scores and signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import polars as pl

from replay.data.conditions import has_test_and_other_splits, ids_where
from replay.data.contents import Contents
from replay.data.prices import PRICE, Prices
from toolkit.columns import OutcomeColumn
from toolkit.errors import counted, listed
from toolkit.log import Log, collect

ROUNDS, CHECKS = "rounds", "checks"
MIN_SHARE = 0.95
"""Share of a pool's examples that must have what a policy of the suite reads."""
DIGITS = 3
MOST_NAMED = 3
LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Shares of the guesses that score below the thresholds of the suite, and of the examples on which its cascades
go on.
"""
SHARES = (0.1, 0.25, 0.5)
"""Shares of the examples on which the gates of the suite fire."""


@dataclass(frozen=True)
class ScoreRange:
    """A verifier that scored a pool, with the range of its scores. `gaps`: whether some answers of the traces that 95 %
    of the examples have lack a score; `complete`: whether none does, of the traces beyond these either.
    """

    verifier: str
    lowest: float
    highest: float
    gaps: bool = False
    complete: bool = True


@dataclass(frozen=True)
class _DoubtSignal:
    """A signal of first attempts that tells of doubt: where it is low or, if it is yes or no, where it is yes."""

    source: str
    name: str
    quantiles: Mapping[float, float] | None

    @property
    def label(self) -> str:
        """The doubtful values, as a policy's name has them."""
        return f"{self.name} is low" if self.quantiles is not None else self.name

    def gate_table(self, shares: Sequence[float] = SHARES) -> dict[str, Any]:
        """The table of a gate that fires on these shares of the examples, where the signal is most doubtful."""
        if self.quantiles is None:
            return {self.source: self.name, "at_least": 1}
        values = list(dict.fromkeys(float(f"{self.quantiles[share]:.{DIGITS}g}") for share in shares))
        return {self.source: self.name, "below": values if len(values) > 1 else values[0]}


@dataclass(frozen=True)
class GuessScores:
    """The scores of guesses on an unfolding question: the key and the name by which the stop `at_least` reads them, and
    the values at which policies answer.
    """

    key: str
    name: str
    values: tuple[float, ...]


@dataclass(frozen=True)
class SuitePool:
    """A pool of first attempts: how many traces 95 % of its examples have, who scored them, and its signals.

    `even`: whether every example has as many; `most`: the most that one of the log has. `whole`: whether it can't be
    cut short; `size` is then the most of an example. `positioned`: whether its traces are guesses while a question
    unfolds, and `guesses` what their scores are. `doubts`: the scores of its first trace. `paid`: mean cost of a trace,
    None where it is not known. `models`: those that wrote it.
    """

    name: str
    size: int
    most: int
    even: bool
    opaque: bool
    whole: bool
    positioned: bool = False
    scores: tuple[ScoreRange, ...] = ()
    guesses: tuple[GuessScores, ...] = ()
    signals: tuple[_DoubtSignal, ...] = ()
    doubts: tuple[_DoubtSignal, ...] = ()
    paid: float | None = None
    models: frozenset[str] = frozenset()

    @property
    def gives_one_attempt(self) -> bool:
        """Whether its first trace alone can be replayed."""
        return self.size == 1 or not self.whole


@dataclass(frozen=True)
class RoundsPool:
    """A pool of retrieval rounds: how many rounds the hops of 95 % of the examples have, whether first-stage ranks are
    logged, and the keys of the ranking by which it explored, if that was not by relevance.
    """

    name: str
    size: int
    ranked: bool
    explored: Mapping[str, Any]


@dataclass(frozen=True)
class ChecksPool:
    """A pool of checks: the most rounds of a claim, the most claims of a text's stream, and the most of one of its
    units, 0 where a row of the stream has none.
    """

    name: str
    rounds: int
    claims: int
    unit_claims: int


@dataclass(frozen=True)
class SuiteFacts:
    """What the suite has read of a log. `left_out`: what it leaves out, and why; `skipped`: what policies go on
    without.
    """

    pools: tuple[SuitePool, ...]
    rounds: tuple[RoundsPool, ...]
    checks: tuple[ChecksPool, ...]
    revisions: frozenset[tuple[str, str, str]]
    columns: Mapping[str, pl.Series]
    left_out: tuple[str, ...]
    skipped: tuple[str, ...] = ()
    currency: bool = False  # whether the cost is comparable between models: money or seconds
    loops: tuple[str, ...] = ()
    """Pools of loops whose traces have one order."""
    most: Mapping[str, int] = field(default_factory=dict)
    """The most traces of an example, of pools that no loop stopped."""

    def pools_to_vote_on(self, fewest: int) -> list[SuitePool]:
        """The pools of at least `fewest` traces whose answers can be voted on; guesses with a position cannot."""
        return [pool for pool in self.pools if pool.size >= fewest and not (pool.opaque or pool.positioned)]

    def name_in_pool(self, pool: SuitePool, what: str) -> str:
        """The name of a policy: `what`, and the pool's name if another pool has as many traces."""
        if what == "first":
            return pool.name
        alone = sum(one.size > 1 for one in self.pools) == 1
        return what if alone else f"{pool.name}: {what}"

    def may_cost_more(self, second: SuitePool, traces: int, first: SuitePool) -> bool:
        """Whether `traces` traces of pool `second` may cost more than one of `first`; other models' always may
        where the cost is tokens or calls, which are not one currency.
        """
        known = first.paid is not None and second.paid is not None and (self.currency or first.models == second.models)
        return not known or traces * (second.paid or 0.0) > (first.paid or 0.0)

    @property
    def is_test_only(self) -> bool:
        """Whether every example is of the split `test`."""
        return "split" in self.columns and bool((self.columns["split"] == "test").all())

    def count_values(self, column: str) -> int:
        """How many values a column of examples has; 0 where there is no such column."""
        return self.columns[column].drop_nulls().n_unique() if column in self.columns else 0


def read_facts(
    log: Log, contents: Contents, where: str | None = None, prices: Prices | None = None,
    cost: OutcomeColumn | None = None,
) -> SuiteFacts:  # fmt: skip
    """What the suite reads of a log, by a few scans over counts, scores and signals of the examples to report.

    What a trace costs is its `cost`, by default money with `prices`, else tokens.

    These are the ones of an SQL condition `where`, else those of a test split, else all.
    """
    named = [name for name in ("split", "dataset") if name in contents.example_columns]
    examples = collect(log.scan("examples", ["example_id", *named]), log)
    if where is not None:
        examples = examples.filter(pl.col("example_id").is_in(ids_where(log, where, "where").implode()))
    columns = {name: examples[name] for name in named}
    traces = log.scan("traces", _trace_columns(contents)).filter(pl.col("action") == "solve")
    if where is None and has_test_and_other_splits(columns.get("split")):
        examples = examples.filter(pl.col("split") == "test")
    traces = traces.join(examples.lazy().select("example_id"), on="example_id", how="semi")
    sizes, uneven, short = _pool_sizes_and_warnings(log, traces, examples, contents.whole)
    scores, left_out, skipped = _score_ranges(log, contents, traces, sizes)
    signals = _doubt_signals(log, contents, traces)
    doubts, gaps = _doubt_scores(log, contents, traces) if contents.verifiers and len(sizes) > 1 else ({}, [])
    models, paid = models_and_costs(log, traces, prices, cost)
    guesses = _guess_scores(log, contents, traces, scores)
    pools = tuple(
        SuitePool(
            name=name,
            size=size,
            most=contents.sizes[name],
            even=name not in uneven,
            opaque=name in contents.opaque,
            whole=name in contents.whole,
            positioned=name in contents.positioned,
            scores=tuple(scores.get(name, ())),
            guesses=tuple(guesses.get(name, ())),
            signals=tuple(signals.get(name, ())),
            doubts=tuple(doubts.get(name, ())),
            paid=paid.get(name),
            models=models[name],
        )
        for name, size in sorted(
            sizes.items(), key=lambda item: (item[1], paid.get(item[0], inf), _name_sort_key(item[0]))
        )
        if name not in contents.stopped | contents.ordered
    )
    rounds, fewer = _rounds_pools(log, contents, examples)
    return SuiteFacts(
        pools,
        rounds,
        _check_pools(log, contents),
        contents.revisions,
        columns,
        (*short, *left_out, *gaps, *fewer),
        tuple(skipped),
        (cost.unit if cost is not None else "" if prices is None else "currency") in CURRENCIES,
        tuple(sorted((contents.stopped | contents.ordered) & sizes.keys())),
        {pool: size for pool, size in contents.sizes.items() if pool not in contents.stopped},
    )


def _name_sort_key(name: str) -> list[str | int]:
    """The parts of a name, its digits as numbers: budget 512 comes before 2048."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", name))]


def _check_pools(log: Log, contents: Contents) -> tuple[ChecksPool, ...]:
    if not contents.rows(CHECKS):
        return ()
    rows = log.scan(CHECKS, ["example_id", "pool", "stage", "claim", "round", "verdict", "unit"])
    stream = pl.col("stage") == "stream"
    rows = rows.with_columns(named=stream & (pl.col("verdict") != "none"))
    distinct = pl.col("claim").filter("named").n_unique()
    texts = rows.group_by("pool", "example_id").agg(claims=distinct)
    units = rows.group_by("pool", "example_id", "unit").agg(unit_claims=distinct)
    most = [
        rows.group_by("pool").agg(pl.col("round").max() + 1, without=(stream & pl.col("unit").is_null()).any()),
        texts.group_by("pool").agg(pl.col("claims").max()),
        units.group_by("pool").agg(pl.col("unit_claims").max()),
    ]
    pools = most[0].join(most[1], on="pool").join(most[2], on="pool").sort("pool")
    pools = pools.select("pool", "round", "claims", pl.when("without").then(0).otherwise("unit_claims"))
    return tuple(ChecksPool(*row) for row in collect(pools, log).iter_rows())


def _rounds_pools(log: Log, contents: Contents, examples: pl.DataFrame) -> tuple[tuple[RoundsPool, ...], list[str]]:
    """The pools of rounds that 95 % of the examples have, and a line for each pool left out."""
    if not contents.rows(ROUNDS):
        return (), []
    rows = log.scan(ROUNDS, ["example_id", "pool", "hop"]).join(examples.lazy(), on="example_id", how="semi")
    hops = rows.group_by("pool", "example_id", "hop").len().group_by("pool", "example_id").agg(pl.col("len").min())
    least = pl.col("len").quantile(1 - MIN_SHARE, "lower").cast(pl.Int64)
    sizes = collect(hops.group_by("pool").agg(least, examples=pl.len()).sort("pool"), log)
    pools, lines = [], []
    for name, size, count in sizes.iter_rows():
        if count < MIN_SHARE * len(examples):
            lines.append(f"pool `{name}` of rounds, which {count:,} of {len(examples):,} examples have")
            continue
        explored = contents.pool_setting(name, "explore")
        ranked = contents.least(ROUNDS, name, "retrieval_rank") is not None
        pools.append(RoundsPool(name, size, ranked, explored if isinstance(explored, Mapping) else {}))
    return tuple(pools), lines


OF_TRACES = ("finish_reason", "finalizer_used", "sum_logprob")
OF_COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "cost")
CURRENCIES = ("currency", "s", "€")
"""Units of costs that are comparable between models."""


def _trace_columns(contents: Contents) -> list[str]:
    columns = [name for name in (*OF_TRACES, *OF_COSTS) if name in contents.trace_columns]
    return ["trace_id", "example_id", "pool", "action", "sample_index", "answer", "model", *columns]


def _pool_sizes_and_warnings(
    log: Log, traces: pl.LazyFrame, examples: pl.DataFrame, whole: frozenset[str]
) -> tuple[dict[str, int], frozenset[str], list[str]]:
    """How many traces 95 % of each pool's examples have, or one has where pools are replayed `whole`; the pools where
    others have more or fewer; a line for each pool with more.
    """
    counts = traces.group_by("pool", "example_id").agg(traces=pl.len())
    least = pl.col("traces").quantile(1 - MIN_SHARE, "lower").cast(pl.Int64)
    sizes = counts.group_by("pool").agg(
        size=least, fewest=pl.col("traces").min(), most=pl.col("traces").max(),
        short=(pl.col("traces") <= least).sum(), examples=pl.len(),
    )  # fmt: skip
    entire = pl.col("pool").is_in(sorted(whole))
    frame = collect(sizes.sort("pool").with_columns(size=pl.when(entire).then("most").otherwise("size")), log)
    groups = _longer_pools_advice(log, counts, examples, frame) if "dataset" in examples.columns else {}
    uneven = frame.filter(pl.col("fewest") < pl.col("most"))["pool"]
    lines = [
        f"policies of more than {counted(size, 'sample')} of pool `{pool}`: {short:,} of {examples:,} examples have "
        f"{'one' if size == 1 else f'{size:,}'} only{groups.get(pool, '')}"
        for pool, size, most, short, examples in frame.select("pool", "size", "most", "short", "examples").iter_rows()
        if most > size
    ]
    return dict(frame.select("pool", "size").iter_rows()), frozenset(uneven), lines


def _longer_pools_advice(log: Log, counts: pl.LazyFrame, examples: pl.DataFrame, sizes: pl.DataFrame) -> dict[str, str]:
    """Pool -> a line of advice, where some data sets have more of its traces than others."""
    least = pl.col("traces").quantile(1 - MIN_SHARE, "lower").cast(pl.Int64)
    whose = counts.join(examples.lazy().select("example_id", "dataset"), on="example_id").drop_nulls("dataset")
    dataset_sizes = collect(whose.group_by("pool", "dataset").agg(dataset_size=least), log).join(
        sizes.select("pool", "size"), on="pool"
    )
    hints = {}
    for (pool,), rows in (
        dataset_sizes.filter(pl.col("dataset_size") > pl.col("size")).sort("pool", "dataset").group_by("pool")
    ):
        names = rows["dataset"].to_list()
        verb, quoted = "has" if len(names) == 1 else "have", names[0].replace("'", "''")
        hints[str(pool)] = (
            f", but data set {listed(names, MOST_NAMED)} {verb} more, with a suite of its own where "
            f"`dataset = '{quoted}'`"
        )
    return hints


def _score_ranges(
    log: Log, contents: Contents, traces: pl.LazyFrame, sizes: Mapping[str, int]
) -> tuple[dict[str, list[ScoreRange]], list[str], list[str]]:
    """Pool -> the verifiers that scored 95 % of its answers, or every answer of 95 % of its examples; a line for each
    other verifier, and one for each that skipped answers.
    """
    if not contents.verifiers:
        return {}, [], []
    verified = log.scan("verifications", ["trace_id", "verifier", "score"])
    first = pl.col("sample_index") < pl.col("pool").replace_strict(sizes, default=0)
    every = traces.filter(pl.col("answer").is_not_null() | pl.col("pool").is_in(sorted(contents.opaque)))
    every = every.select("trace_id", "example_id", "pool", first=first)
    valid = every.filter("first")
    answers = valid.group_by("pool", "example_id").agg(answers=pl.len())
    beyond = every.group_by("pool").agg(beyond=(~pl.col("first")).sum())
    beyond_scored = (
        every.filter(~pl.col("first")).join(verified, on="trace_id").group_by("pool", "verifier")
        .agg(beyond_scored=pl.col("score").is_not_null().sum())
    )  # fmt: skip
    by_example = valid.join(verified, on="trace_id").group_by("pool", "verifier", "example_id").agg(
        scored=pl.col("score").is_not_null().sum(),
        lowest=pl.col("score").min(),
        highest=pl.col("score").max(),
    )  # fmt: skip
    coverage = by_example.join(answers, on=["pool", "example_id"]).group_by("pool", "verifier").agg(
        full=(pl.col("scored") >= pl.col("answers")).sum(), lowest=pl.col("lowest").min(),
        highest=pl.col("highest").max(), scored=pl.col("scored").sum(),
    )  # fmt: skip
    whole = answers.group_by("pool").agg(examples=pl.len(), answers=pl.col("answers").sum())
    whole = whole.join(beyond, on="pool")
    coverage = coverage.join(beyond_scored, on=["pool", "verifier"], how="left")
    frame = collect(coverage.join(whole, on="pool").sort("pool", "verifier"), log)
    ranges: dict[str, list[ScoreRange]] = {}
    places, skipped = dict[str, list[str]](), []
    frame = frame.with_columns(complete=pl.col("beyond_scored").fill_null(0) >= pl.col("beyond"))
    for pool, verifier, count, lowest, highest, scored, examples, total, complete in frame.select(
        "pool", "verifier", "full", "lowest", "highest", "scored", "examples", "answers", "complete"
    ).iter_rows():
        if lowest is not None and (count >= MIN_SHARE * examples or scored >= MIN_SHARE * total):
            gaps = scored < total
            ranges.setdefault(pool, []).append(ScoreRange(verifier, lowest, highest, gaps, complete and not gaps))
            if scored < total:
                skipped.append(
                    f"{total - scored:,} of {total:,} answers of pool `{pool}`, which `{verifier}` did not score"
                )
        else:
            places.setdefault(verifier, []).append(f"{count:,} of {examples:,} examples of pool `{pool}`")
    cure = 'a policy of your own with `on_unscored = "skip"` can use its other scores'
    left_out = [
        f"verifier `{verifier}` is left out, as it scored every answer on {', '.join(parts)} only: {cure}"
        for verifier, parts in places.items()
    ]
    return ranges, left_out, skipped


def _guess_scores(
    log: Log, contents: Contents, traces: pl.LazyFrame, scores: Mapping[str, list[ScoreRange]]
) -> dict[str, list[GuessScores]]:
    """Pool with positions -> the scores of its guesses: those of its verifiers, else their log-probabilities."""
    guesses = traces.filter(pl.col("pool").is_in(sorted(contents.positioned)))
    by_pool: dict[str, list[GuessScores]] = {}
    for pool in sorted(contents.positioned):
        mine = guesses.filter(pl.col("pool") == pool)
        named = [one.verifier for one in scores.get(pool, ())]
        for name in named:
            scored = log.scan("verifications", ["trace_id", "verifier", "score"]).filter(pl.col("verifier") == name)
            rows = scored.join(mine, on="trace_id", how="semi")
            by_pool.setdefault(pool, []).append(GuessScores("verifier", name, _values_at_levels(log, rows, "score")))
        if not named and "sum_logprob" in contents.trace_columns:
            values = _values_at_levels(log, mine, "sum_logprob")
            by_pool.setdefault(pool, []).extend([GuessScores("signal", "sum_logprob", values)] if values else [])
    return by_pool


def _values_at_levels(log: Log, rows: pl.LazyFrame, column: str) -> tuple[float, ...]:
    """The values of a column below which the shares `LEVELS` of its rows lie, each once; empty without any."""
    named = [pl.col(column).quantile(share, "higher").alias(f"{share}") for share in LEVELS]
    values = collect(rows.select(named), log).row(0)
    return tuple(dict.fromkeys(float(f"{value:.{DIGITS}g}") for value in values if value is not None))


def _doubt_signals(log: Log, contents: Contents, traces: pl.LazyFrame) -> dict[str, list[_DoubtSignal]]:
    """Pool -> the signals of its first traces that differ between examples."""
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
    quantiles = [pl.col(name).quantile(share, "higher").alias(f"{name}{share}") for name in numbers for share in LEVELS]
    logged = [pl.col(name).is_not_null().mean().alias(name) for name in numbers]
    frame = collect(first.group_by("pool").agg(*shares, *quantiles, *logged), log)
    signals: dict[str, list[_DoubtSignal]] = {}
    for row in frame.iter_rows(named=True):
        pool_signals = signals.setdefault(row["pool"], [])
        pool_signals += [_DoubtSignal("signal", name, None) for name in known if 0 < (row[name] or 0.0) < 1]
        for name in numbers:
            values = {share: row[f"{name}{share}"] for share in LEVELS}
            if (row[name] or 0.0) >= MIN_SHARE and values[LEVELS[0]] != values[LEVELS[-1]]:
                pool_signals.append(_DoubtSignal("signal", name, values))
    return signals


def _doubt_scores(
    log: Log, contents: Contents, traces: pl.LazyFrame
) -> tuple[dict[str, list[_DoubtSignal]], list[str]]:
    """Pool -> the verifiers with a score of every first answer, if scores differ; a line for each other one."""
    valid = pl.col("answer").is_not_null() | pl.col("pool").is_in(sorted(contents.opaque))
    first = traces.filter((pl.col("sample_index") == 0) & valid).select("trace_id", "pool")
    scores = log.scan("verifications", ["trace_id", "verifier", "score"]).drop_nulls("score")
    quantiles = [pl.col("score").quantile(share, "higher").alias(str(share)) for share in LEVELS]
    by_verifier = first.join(scores, on="trace_id").group_by("pool", "verifier").agg(*quantiles, scored=pl.len())
    frame = by_verifier.join(first.group_by("pool").agg(traces=pl.len()), on="pool").sort("pool", "verifier")
    doubts: dict[str, list[_DoubtSignal]] = {}
    lines = []
    for row in collect(frame, log).iter_rows(named=True):
        values = {share: row[str(share)] for share in LEVELS}
        if MIN_SHARE * row["traces"] <= row["scored"] < row["traces"]:
            what = f"{row['traces'] - row['scored']:,} of {row['traces']:,} first answers of pool `{row['pool']}`"
            lines.append(f"cascades by `{row['verifier']}`, which did not score {what}")
        elif row["scored"] == row["traces"] and values[LEVELS[0]] != values[LEVELS[-1]]:
            doubts.setdefault(row["pool"], []).append(_DoubtSignal("verifier", row["verifier"], values))
    return doubts, lines


def models_and_costs(
    log: Log, traces: pl.LazyFrame, prices: Prices | None, cost: OutcomeColumn | None = None
) -> tuple[dict[str, frozenset[str]], dict[str, float]]:
    """Pool -> the models that wrote it; pool -> the mean `cost` of a trace if known, by default money, and without
    `prices` tokens.
    """
    there = traces.collect_schema().names()
    missing = [pl.lit(None, pl.Float64 if name == "latency_s" else pl.Int64).alias(name)
               for name in OF_COSTS[:3] if name not in there]  # fmt: skip
    spent = _cost_of_trace((PRICE if prices is not None else "total_tokens") if cost is None else cost.name, prices)
    paid = pl.when(spent.is_null().any()).then(None).otherwise(spent.mean())
    frame = collect(traces.with_columns(missing).group_by("pool").agg(pl.col("model").unique(), paid=paid), log)
    models = {pool: frozenset(names) for pool, names in frame.select("pool", "model").iter_rows()}
    return models, dict(frame.select("pool", "paid").drop_nulls().iter_rows())


def _cost_of_trace(name: str, prices: Prices | None) -> pl.Expr:
    """What a trace costs, by the name of an outcome column; null where traces do not have it."""
    read, written = pl.col("prompt_tokens"), pl.col("completion_tokens")
    if name == PRICE and prices is not None:
        return prices.price_expression("model")
    known = {
        "total_tokens": pl.coalesce(read + written, written),
        "prompt_tokens": read,
        "completion_tokens": written,
        **dict.fromkeys(("latency_s", "generation_s", "device_s", "cost_eur"), pl.col("latency_s")),
        **dict.fromkeys(("traces", "calls", "operations"), pl.lit(1.0)),
    }
    return known.get(name, pl.lit(None)).cast(pl.Float64)
