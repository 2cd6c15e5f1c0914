"""One block of examples of a log as arrays: what the engine replays.

Every array is (E, T): row = example, in example_id order; column = sample index. A null number is NaN.
What a policy may see (answers, costs, scores) and what it may not (`judged`, `credit`) are kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import polars as pl

from replay.orders import example_hashes
from toolkit.errors import ThinkbackError
from toolkit.log import Log, collect

TRACE_COSTS = ("finalizers", "truncated", "prompt_tokens", "completion_tokens", "latency_s", "device_s")
SCORE_COSTS = ("verification_tokens", "latency_s", "device_s")


@dataclass(frozen=True)
class Prices:
    """Prices per million tokens, prompt and completion, by model or verifier; each that is used needs an entry."""

    per_million: Mapping[str, tuple[float, float]]

    def expr(self, name: str) -> pl.Expr:
        """Price of a call, from its tokens and the model or verifier in column `name` (unpriced: null)."""
        prompt = pl.col(name).replace_strict(
            {k: v[0] for k, v in self.per_million.items()}, default=None, return_dtype=pl.Float64
        )
        completion = pl.col(name).replace_strict(
            {k: v[1] for k, v in self.per_million.items()}, default=None, return_dtype=pl.Float64
        )
        return (pl.col("prompt_tokens") * prompt + pl.col("completion_tokens") * completion) / 1e6


@dataclass(frozen=True)
class Scores:
    """One verifier on one pool."""

    score: np.ndarray  # (E, T), NaN: not verified
    candidates: np.ndarray  # (E, T), 0: not listwise
    costs: Mapping[str, np.ndarray]  # SCORE_COSTS (and price): (E, T), unlogged counted as 0

    def slice(self, start: int, stop: int) -> Scores:
        """The examples from `start` up to `stop`, as views."""
        cut = np.s_[start:stop]
        costs = {name: values[cut] for name, values in self.costs.items()}
        return Scores(self.score[cut], self.candidates[cut], costs)

    @cached_property
    def listwise(self) -> np.ndarray:
        """Examples whose traces were ranked against each other in one call: bool (E,)."""
        return np.any(self.candidates > 0, axis=1)


@dataclass(frozen=True)
class Pool:
    """One pool of traces of a block, up to the first gap in each example's sample indices."""

    name: str
    size: np.ndarray  # (E,) traces before the first gap
    behind_gap: np.ndarray  # (E,) logged traces after the gap, which are not replayed
    code: np.ndarray  # (E, T) answer's number within the example, by first appearance; -1: invalid
    word: np.ndarray  # (E, T) answer's number in the block's vocabulary; -1: invalid
    costs: Mapping[str, np.ndarray]  # TRACE_COSTS (and price): (E, T)
    judged: np.ndarray  # (E, T) correctness (or the run's measure) as 0..1; NaN: unjudged
    credit: np.ndarray  # (E, T)
    reads: np.ndarray  # (E,) traces of the base's pool that some revision here saw; 0 for first attempts
    scores: Mapping[str, Scores]
    features: Mapping[str, np.ndarray]  # (E, T), NaN: null

    def slice(self, start: int, stop: int) -> Pool:
        """The examples from `start` up to `stop`, as views."""
        cut = np.s_[start:stop]
        return replace(
            self,
            size=self.size[cut],
            behind_gap=self.behind_gap[cut],
            code=self.code[cut],
            word=self.word[cut],
            costs={name: values[cut] for name, values in self.costs.items()},
            judged=self.judged[cut],
            credit=self.credit[cut],
            reads=self.reads[cut],
            scores={name: scores.slice(start, stop) for name, scores in self.scores.items()},
            features={name: values[cut] for name, values in self.features.items()},
        )

    @cached_property
    def words(self) -> np.ndarray:
        """Vocabulary number of each answer code: int32 (E, A)."""
        words = np.full((len(self.code), max(self.answers, 1)), -1, dtype=np.int32)
        row, column = np.nonzero(self.code >= 0)
        words[row, self.code[row, column]] = self.word[row, column]
        return words

    @cached_property
    def answers(self) -> int:
        """How many answer codes there are at most."""
        return int(self.code.max(initial=-1)) + 1


@dataclass(frozen=True)
class Block:
    """A slice of the log: examples in example_id order, and their pools."""

    examples: pl.DataFrame
    vocabulary: pl.Series  # (V,) the answers that `word` numbers
    pools: Mapping[str, Pool]
    free: frozenset[str]  # verifiers with verifications whose tokens or seconds are not logged

    def slice(self, start: int, stop: int) -> Block:
        """The examples from `start` up to `stop`, as views."""
        pools = {name: pool.slice(start, stop) for name, pool in self.pools.items()}
        return replace(self, examples=self.examples[start:stop], pools=pools)

    @cached_property
    def hashes(self) -> np.ndarray:
        """Hashes of the example ids for the random orders: uint64 (E,)."""
        return example_hashes(self.examples["example_id"].to_list())


@dataclass(frozen=True)
class Request:
    """What a run needs of a log: pools, actions (of a base pool's sample 0) and verifiers by pool."""

    pools: frozenset[str]
    verifiers: Mapping[str, frozenset[str]]
    actions: Mapping[tuple[str, str], str]  # (action, base pool) -> name of the resulting pool
    measure: str | None = None
    prices: Prices | None = None
    features: Mapping[str, frozenset[str]] = field(default_factory=dict)  # by pool


def read_block(log: Log, examples: pl.DataFrame, request: Request) -> Block:
    """Read the traces and verifications of `examples` (sorted by id) that `request` names.

    `examples` has example_id and labels. Raises ThinkbackError when a measure is not within [0, 1] or a
    model or verifier has no price.
    """
    rows = examples.select("example_id").with_row_index("e").lazy()
    low, high = examples["example_id"][0], examples["example_id"][-1]
    within = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
    traces = _read_traces(log, examples, rows, within, request)
    vocabulary = traces["answer"].unique().drop_nulls().sort()
    words = pl.DataFrame({"answer": vocabulary, "word": np.arange(len(vocabulary), dtype=np.int32)})
    traces = traces.join(words, on="answer", how="left", maintain_order="left")
    scores, free = _read_scores(log, traces, within, request)
    traces = _with_features(log, traces, within, request)
    pools = {}
    for name in sorted(traces["slice"].unique().to_list()):
        pools[name] = _pool(name, len(examples), traces.filter(pl.col("slice") == name), scores, request)
    for name in sorted((set(request.pools) | set(request.actions.values())) - set(pools)):
        pools[name] = _pool(name, len(examples), traces.clear(), scores, request)
    if request.measure is not None:
        _measured_alike(examples, pools.values(), request.measure)
    return Block(examples, vocabulary, pools, free)


def _measured_alike(examples: pl.DataFrame, pools: Iterable[Pool], measure: str) -> None:
    """Raise where a measure is given for some traces of an example and not for others."""
    known, missing = np.zeros(len(examples), dtype=bool), np.zeros(len(examples), dtype=bool)
    for pool in pools:
        there = np.arange(pool.judged.shape[1]) < pool.size[:, None]
        known |= (there & ~np.isnan(pool.judged)).any(axis=1)
        missing |= (there & np.isnan(pool.judged)).any(axis=1)
    if (known & missing).any():
        name = examples["example_id"][int((known & missing).argmax())]
        raise ThinkbackError(
            f"measure `{measure}` of traces is null for some traces of example `{name}` and not for others; "
            "give it for all of them or for none"
        )


def _read_traces(
    log: Log, examples: pl.DataFrame, rows: pl.LazyFrame, within: pl.Expr, request: Request
) -> pl.DataFrame:
    """Traces of the block with columns e, slice, s, valid answers, costs and judgement; sorted by slice, e, s."""
    wanted = ["trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "answer", "model"]
    wanted += ["correct", "credit", "prompt_tokens", "completion_tokens", "finish_reason", "finalizer_used"]
    wanted += ["latency_s", "device_s", "opaque", "reads", *([request.measure] if request.measure else [])]
    names = set(request.pools) | {base for _, base in request.actions}
    solves = (pl.col("action") == "solve") & pl.col("pool").is_in(sorted(names))
    revisions = pl.col("action").is_in(sorted({action for action, _ in request.actions}))
    scan = log.scan("traces", list(dict.fromkeys(wanted))).filter(within & (solves | revisions))
    frame = collect(scan.join(rows, on="example_id", how="inner"), log)
    first = frame.filter(pl.col("action") == "solve").with_columns(slice=pl.col("pool"))
    parts = [first]
    for (action, base), name in request.actions.items():
        parent = first.filter((pl.col("pool") == base) & (pl.col("sample_index") == 0))
        parts.append(
            frame.filter(pl.col("action") == action)
            .join(parent.select(parent_id="trace_id"), on="parent_id", how="semi")
            .sort("example_id", "pool", "sample_index")
            .with_columns(slice=pl.lit(name), sample_index=pl.int_range(pl.len()).over("e").cast(pl.Int32))
        )
    frame = pl.concat(parts).sort("slice", "e", "sample_index")
    place = pl.int_range(pl.len()).over("slice", "e")
    behind = (pl.col("sample_index") != place).sum().over("slice", "e")
    frame = frame.with_columns(behind_gap=behind).filter(pl.col("sample_index") == place)
    return _valid_answers(frame, examples).with_columns(
        pl.col("sample_index").alias("s"),
        (pl.col("finish_reason") == "length").cast(pl.Float64).alias("truncated"),
        pl.col("finalizer_used").cast(pl.Float64).alias("finalizers"),
        pl.col(request.measure or "correct").cast(pl.Float64).alias("judged"),
        *(pl.col(c).cast(pl.Float64) for c in ("credit", *TRACE_COSTS[2:])),
    )


def _valid_answers(frame: pl.DataFrame, examples: pl.DataFrame) -> pl.DataFrame:
    """Null the answers that lie outside their example's label space; verdicts without answers stay."""
    opaque = pl.col("opaque").fill_null(False)
    spaces = examples.select("labels").unique(maintain_order=True)["labels"].to_list()
    if all(not labels for labels in spaces):
        return frame
    if len(spaces) == 1:
        inside = pl.col("answer").is_in(spaces[0]) | opaque
        return frame.with_columns(answer=pl.when(inside).then("answer"))
    labels = examples.select("example_id", "labels")
    inside = pl.col("labels").list.len().fill_null(0).eq(0) | pl.col("labels").list.contains(pl.col("answer")) | opaque
    joined = frame.join(labels, on="example_id", how="left", maintain_order="left")
    return joined.with_columns(answer=pl.when(inside).then("answer")).drop("labels")


def _read_scores(
    log: Log, traces: pl.DataFrame, within: pl.Expr, request: Request
) -> tuple[pl.DataFrame, frozenset[str]]:
    """Verifications of the block's traces with columns slice, verifier, e, s, and the verifiers with unlogged costs."""
    names = sorted(set().union(*request.verifiers.values())) if request.verifiers else []
    columns = [
        "trace_id",
        "verifier",
        "example_id",
        "score",
        "candidates",
        "prompt_tokens",
        "completion_tokens",
    ]
    columns += ["latency_s", "device_s"]
    place = traces.select("trace_id", "slice", "e", "s").lazy()
    scan = (
        log.scan("verifications", columns)
        .filter(within & pl.col("verifier").is_in(names))
        .join(place, on="trace_id", how="inner")
        .with_columns(
            (pl.col("prompt_tokens").fill_null(0) + pl.col("completion_tokens").fill_null(0)).alias(
                "verification_tokens"
            ),
            pl.any_horizontal(pl.col("prompt_tokens", "completion_tokens", "latency_s").is_null()).alias("free"),
            pl.col("candidates").fill_null(0),
            pl.col("latency_s", "device_s").cast(pl.Float64).fill_null(0.0),
            *([request.prices.expr("verifier").alias("price")] if request.prices else []),
        )
    )
    frame = collect(scan, log)
    free = frozenset(frame.filter("free")["verifier"].unique().to_list())
    if request.prices:
        _all_priced(frame, "verifier", request.prices)
        frame = frame.with_columns(pl.col("price").fill_null(0.0))
    return frame, free


def _with_features(log: Log, traces: pl.DataFrame, within: pl.Expr, request: Request) -> pl.DataFrame:
    """The traces with a column `feature:NAME` for every feature that is asked for; null where there is none."""
    names = sorted(set().union(*request.features.values())) if request.features else []
    if not names:
        return traces
    scan = log.scan("features", ["trace_id", "example_id", *names]).filter(within)
    frame = collect(scan.select("trace_id", *(pl.col(n).cast(pl.Float64).alias(f"feature:{n}") for n in names)), log)
    return traces.join(frame, on="trace_id", how="left", maintain_order="left")


def _pool(name: str, examples: int, traces: pl.DataFrame, scores: pl.DataFrame, request: Request) -> Pool:
    """Spread the rows of one slice over (E, T)."""
    if request.prices:
        _all_priced(traces, "model", request.prices)
        traces = traces.with_columns(request.prices.expr("model").alias("price"))
    row, column = traces["e"].to_numpy(), traces["s"].to_numpy()
    shape = (examples, int(column.max(initial=0)) + 1)

    def spread(values: pl.Series, fill: float, dtype: type) -> np.ndarray:
        out: np.ndarray = np.full(shape, fill, dtype=dtype)
        out[row, column] = values.fill_null(fill).to_numpy()
        return out

    costs = {c: spread(traces[c], np.nan, np.float64) for c in TRACE_COSTS + (("price",) if request.prices else ())}
    judged = spread(traces["judged"], np.nan, np.float64)
    if request.measure is not None and ((judged < 0) | (judged > 1)).any():
        raise ThinkbackError(f"measure `{request.measure}` of traces has values outside 0 to 1")
    word = spread(traces["word"], -1, np.int32)
    reads = np.zeros(examples, dtype=np.int32)
    np.maximum.at(reads, row, traces["reads"].fill_null(1).to_numpy())
    behind_gap = np.zeros(examples, dtype=np.int32)
    behind_gap[row] = traces["behind_gap"].to_numpy()
    verifiers = {}
    for verifier in sorted(request.verifiers.get(name, ())):
        verifiers[verifier] = _scores(
            scores.filter((pl.col("slice") == name) & (pl.col("verifier") == verifier)), shape, request
        )
    return Pool(
        name=name,
        size=np.bincount(row, minlength=examples).astype(np.int32),
        behind_gap=behind_gap,
        code=_codes(row, column, word),
        word=word,
        costs=costs,
        judged=judged,
        credit=spread(traces["credit"], np.nan, np.float64),
        reads=reads,
        scores=verifiers,
        features={
            feature: spread(traces[f"feature:{feature}"], np.nan, np.float64)
            for feature in sorted(request.features.get(name, ()))
        },
    )


def _scores(frame: pl.DataFrame, shape: tuple[int, int], request: Request) -> Scores:
    row, column = frame["e"].to_numpy(), frame["s"].to_numpy()

    def spread(values: pl.Series, fill: float) -> np.ndarray:
        out = np.full(shape, fill)
        out[row, column] = values.cast(pl.Float64).to_numpy()
        return out

    names = SCORE_COSTS + (("price",) if request.prices else ())
    return Scores(
        score=spread(frame["score"], np.nan),
        candidates=spread(frame["candidates"], 0),
        costs={c: spread(frame[c], 0.0) for c in names},
    )


def _codes(row: np.ndarray, column: np.ndarray, word: np.ndarray) -> np.ndarray:
    """Number the valid answers of each example by first appearance: int32 (E, T), -1 where invalid."""
    codes = np.full(word.shape, -1, dtype=np.int32)
    words = word[row, column]
    row, column, words = row[words >= 0].astype(np.int64), column[words >= 0], words[words >= 0]
    if not len(row):
        return codes
    key = row * (int(words.max()) + 1) + words
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first, kind="stable")
    owner = row[first[by_appearance]]
    start = np.searchsorted(owner, owner, side="left")
    number = np.empty(len(first), dtype=np.int32)
    number[by_appearance] = np.arange(len(first)) - start
    codes[row, column] = number[inverse]
    return codes


def _all_priced(frame: pl.DataFrame, column: str, prices: Prices) -> None:
    unpriced: Sequence[str] = sorted(set(frame[column].unique().to_list()) - set(prices.per_million))
    if unpriced:
        raise ThinkbackError(f"{column} `{unpriced[0]}` has no price; add it to `[prices]` (0 is a price)")
