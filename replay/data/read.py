"""Reading a block of a log: rows of traces, scores, features and further tables become the arrays of a block."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from replay.data.abandoned import cut_off_pool
from replay.data.block import SCORE_COSTS, TRACE_COSTS, LogBlock, LoggedPool, Scores
from replay.data.needs import Needs
from replay.data.prices import Prices
from replay.data.replies import SharedCosts
from toolkit.errors import InvalidError, MismatchError, RequiredError
from toolkit.log import Log, collect
from toolkit.log.contract.manifest import PER_REQUEST, PROMPT_BILLED
from toolkit.log.contract.schema import keys_of
from toolkit.table_rows import TableRows

OUTSIDE = "answer outside"
"""A temporary column of answers outside the label space; the space in its name keeps it apart from a log's columns."""


@dataclass(frozen=True)
class BlockRequest:
    """A request for blocks: the parts of the log, the column that judges in place of `correct`, and prices of calls."""

    needs: Needs
    measure: str | None = None
    prices: Prices | None = None
    identified: bool = False
    """Whether blocks hold the ids of traces, too."""


def read_block(log: Log, examples: pl.DataFrame, request: BlockRequest) -> LogBlock:
    """Read the traces, verifications and rows of further tables of `examples` (sorted by id) that `request` names.

    `examples` has example_id and labels. Raises ThinkbackError when a measure is not within [0, 1] or a
    model or verifier has no price.
    """
    rows = examples.select("example_id").with_row_index("e").lazy()
    within = examples["example_id"][0], examples["example_id"][-1]
    traces = _read_traces(log, examples, rows, within, request)
    others = pl.Series("answer", sorted(request.needs.answers), dtype=pl.String)
    named = sorted(request.needs.answers_as)
    texts = (traces[_answer_text_column(name)].alias("answer") for name in named)
    vocabulary = pl.concat([traces["answer"], traces[OUTSIDE], others, *texts]).unique().drop_nulls().sort()
    words = pl.DataFrame({"answer": vocabulary, "word": np.arange(len(vocabulary), dtype=np.int32)})
    traces = _with_answer_numbers(traces, words, "answer", "word", "code")
    for name in named:
        traces = _with_answer_numbers(traces, words, _answer_text_column(name), f"word as {name}", f"code as {name}")
    scores = _read_scores(log, traces, within, request)
    whole = log.pools_without_prefix()
    billed = pools_billed_by_request(log)
    pools = {
        name: _read_pool_arrays(
            name, len(examples), traces.filter(pl.col("slice") == name), scores, request, name in whole, billed
        )
        for name in sorted(request.needs.pools | set(request.needs.slices.values()))
    }
    if request.measure is not None:
        _require_one_measure(examples, pools.values(), request.measure)
    for pool, tokens in sorted(request.needs.cuts):
        cut = cut_off_pool(
            pools[pool], tokens, _trace_prices(traces.filter(pl.col("slice") == pool), tokens, pools[pool], request)
        )
        pools[cut.name] = cut
    actions = {name: action for action, name in request.needs.slices.items()}
    tables = _read_tables(log, rows, len(examples), within, request.needs)
    return LogBlock(examples, vocabulary, pools, actions, *_answers_outside_labels(traces, words), tables)


def _read_tables(
    log: Log, rows: pl.LazyFrame, examples: int, within: tuple[str, str], needs: Needs
) -> dict[tuple[str, str], TableRows]:
    """The rows of further tables on a block, by table and pool."""
    tables = {}
    for table in sorted({table for table, _, _ in needs.tables}):
        pools = sorted({pool for one, pool, _ in needs.tables if one == table})
        columns = sorted({column for one, _, column in needs.tables if one == table})
        keys = [key for key in keys_of(table) if key in columns]
        scan = log.scan(table, ["example_id", "pool", *columns], within=within).filter(pl.col("pool").is_in(pools))
        frame = _with_example_numbers(collect(scan, log), rows)
        frame = frame if _is_strictly_ascending(frame, ["e", *keys]) else frame.sort("e", *keys)
        for pool in pools:
            of_pool = frame if len(pools) == 1 else frame.filter(pl.col("pool") == pool)
            counts = np.bincount(of_pool["e"].to_numpy(), minlength=examples)
            offsets = np.concatenate([[0], np.cumsum(counts)])
            tables[table, pool] = TableRows(of_pool.select(columns), offsets)
    return tables


def _with_example_numbers(frame: pl.DataFrame, rows: pl.LazyFrame) -> pl.DataFrame:
    """The rows of the examples in `rows` (e, example_id), with `e`. Neighbours of one example are looked up once."""
    runs = frame["example_id"].rle().struct.unnest()
    places = rows.collect().rename({"example_id": "value"})
    of_runs = runs.join(places, on="value", how="left", maintain_order="left")["e"]
    e = of_runs.gather(np.repeat(np.arange(len(runs)), runs["len"].to_numpy()))
    numbered = frame.drop("example_id").with_columns(e=e)
    return numbered.drop_nulls("e") if e.null_count() else numbered


def _is_strictly_ascending(frame: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Whether rows are in ascending order of keys that no two rows share."""
    before, after = np.zeros(max(len(frame) - 1, 0), bool), np.ones(max(len(frame) - 1, 0), bool)
    for key in keys:
        values = frame[key].to_numpy()
        before |= after & (values[:-1] < values[1:])
        after &= values[:-1] == values[1:]
    return bool(before.all())


def _with_answer_numbers(traces: pl.DataFrame, words: pl.DataFrame, column: str, word: str, code: str) -> pl.DataFrame:
    """The traces with `word`, the vocabulary number of a column's text, and `code`, its number among the texts of its
    slice and example by first appearance.
    """
    numbers = words.rename({"answer": column, "word": word})
    traces = traces.join(numbers, on=column, how="left", maintain_order="left")
    known, owner = pl.col(word).is_not_null(), ("slice", "e")
    first = traces.with_columns(pl.when(known).then(pl.col("s").min().over(*owner, word)).alias(code))
    return first.with_columns((pl.col(code).rank("dense").over(*owner).cast(pl.Int32) - 1).alias(code))


def _answer_text_column(name: str) -> str:
    """The name of a temporary column, of texts that stand in place of valid answers."""
    return f"votes as {name}"


def _answers_outside_labels(
    traces: pl.DataFrame, words: pl.DataFrame
) -> tuple[np.ndarray, tuple[tuple[str, ...], ...]]:
    """The traces whose label is outside the label space, (N, 3): row of the example, number of the answer, number of a
    set of slices; then these sets by number. A trace counts once, however many slices it is in.
    """
    strange = traces.filter(pl.col(OUTSIDE).is_not_null()).rename({OUTSIDE: "said"})
    once = strange.group_by("trace_id").agg(pl.col("e", "said").first(), pl.col("slice").unique().sort())
    slices = once.select("slice").unique().sort("slice").with_row_index("number")
    rows = once.join(words, left_on="said", right_on="answer").join(slices, on="slice")
    numbers = rows.select(pl.col("e", "word", "number").cast(pl.Int64)).sort("e", "word", "number")
    return numbers.to_numpy().reshape(-1, 3), tuple(map(tuple, slices["slice"].to_list()))


def _require_one_measure(examples: pl.DataFrame, pools: Iterable[LoggedPool], measure: str) -> None:
    """Raise where a measure is null on some traces of an example but not on all."""
    known, missing = np.zeros(len(examples), dtype=bool), np.zeros(len(examples), dtype=bool)
    for pool in pools:
        known |= (pool.has_trace & ~np.isnan(pool.judged)).any(axis=1)
        missing |= (pool.has_trace & np.isnan(pool.judged)).any(axis=1)
    if (known & missing).any():
        name = examples["example_id"][int((known & missing).argmax())]
        raise MismatchError(
            f"measure `{measure}` of traces is null for some traces of example `{name}` and not for others; "
            "give it for all of them or for none"
        )


def _read_traces(
    log: Log, examples: pl.DataFrame, rows: pl.LazyFrame, within: tuple[str, str], request: BlockRequest
) -> pl.DataFrame:
    """The block's traces with columns e, slice, s, valid answers, costs and judgement; sorted by slice, e, s."""
    columns = ["trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "answer", "model"]
    columns += ["correct", "credit", "prompt_tokens", "completion_tokens", "finish_reason", "finalizer_used"]
    columns += ["latency_s", "device_s", "opaque", "contested", "reads", "request"]
    columns += ["cost"] if request.prices and request.prices.logged else []
    columns += [request.measure] if request.measure else []
    columns += sorted(request.needs.answers_as)
    columns += [*sorted(request.needs.trace_columns), *(["token_logprobs"] if request.needs.suffixes else [])]
    solves = (pl.col("action") == "solve") & pl.col("pool").is_in(sorted(request.needs.pools))
    revisions = pl.col("action").is_in(sorted({action for action, _, _ in request.needs.actions}))
    scan = log.scan("traces", list(dict.fromkeys(columns)), within=within).filter(solves | revisions)
    frame = _drop_traces_after_gaps(collect(scan.join(rows, on="example_id", how="inner"), log))
    if request.needs.features:
        inputs = sorted(request.needs.features)
        features = log.scan("features", ["trace_id", "example_id", *inputs], within=within)
        numbers = features.select("trace_id", *(pl.col(n).cast(pl.Float64).alias(f"feature {n}") for n in inputs))
        frame = frame.join(collect(numbers, log), on="trace_id", how="left", maintain_order="left")
    frame = _add_slice_names(frame, request.needs)
    logprobs = pl.col("token_logprobs").cast(pl.List(pl.Float64))  # not logged: null; the sum of none: 0
    as_answers = [pl.col(name).alias(_answer_text_column(name)) for name in sorted(request.needs.answers_as)]
    return _valid_answers(frame.with_columns(as_answers), examples).with_columns(
        pl.col("sample_index").alias("s"),
        (pl.col("finish_reason") == "length").cast(pl.Float64).alias("truncated"),
        pl.col("finalizer_used").cast(pl.Float64).alias("finalizers"),
        pl.col(request.measure or "correct").cast(pl.Float64).alias("judged"),
        pl.when(pl.col("action") == "solve").then(0).otherwise(pl.col("reads").fill_null(1)).alias("reads"),
        *(pl.col(c).cast(pl.Float64) for c in ("credit", *TRACE_COSTS[2:], *sorted(request.needs.trace_columns))),
        *(logprobs.list.tail(k).list.sum().alias(suffix_signal_name(k)) for k in sorted(request.needs.suffixes)),
    )


def read_texts(log: Log, example: str, needs: Needs) -> pl.DataFrame:
    """The logged texts of one example's traces: slice, sample, trace_id, text; numbered as its block numbers them."""
    columns = ["trace_id", "example_id", "pool", "action", "parent_id", "sample_index", "text"]
    scan = log.scan("traces", columns).filter(pl.col("example_id") == example).with_columns(e=pl.lit(0))
    rows = _add_slice_names(_drop_traces_after_gaps(collect(scan, log)), needs)
    return rows.select("slice", pl.col("sample_index").cast(pl.Int64).alias("sample"), "trace_id", "text")


def _add_slice_names(frame: pl.DataFrame, needs: Needs) -> pl.DataFrame:
    """First attempts (slice: their pool) and revisions (their action's slice), numbered in it; sorted."""
    first = frame.filter((pl.col("action") == "solve") & pl.col("pool").is_in(sorted(needs.pools)))
    first = first.with_columns(slice=pl.col("pool"))
    parts = [first]
    for (action, base, pool), name in needs.slices.items():
        parent = first.filter((pl.col("pool") == base) & (pl.col("sample_index") == 0))
        in_slice = (
            pl.col("action") == action if pool is None else (pl.col("action") == action) & (pl.col("pool") == pool)
        )
        parts.append(
            frame.filter(in_slice)
            .join(parent.select(parent_id="trace_id"), on="parent_id", how="semi")
            .sort("e", "pool", "sample_index")
            .with_columns(
                slice=pl.lit(name),
                sample_index=pl.int_range(pl.len()).over("e").cast(pl.Int32),
                behind_gap=(pl.col("behind_gap") / pl.len().over("e", "pool")).sum().over("e").round().cast(pl.Int64),
            )
        )
    return pl.concat(parts).sort("slice", "e", "sample_index")


def suffix_signal_name(tokens: int) -> str:
    """The name in `LoggedPool.signals` of the summed log-probability of the last `tokens` tokens."""
    return f"last {tokens}"


def _drop_traces_after_gaps(frame: pl.DataFrame) -> pl.DataFrame:
    """The traces before the first gap in the sample indices of their run, with how many come after it."""
    run = ("e", "pool", "action", "parent_id")
    frame = frame.sort(*run, "sample_index")
    place = pl.int_range(pl.len()).over(*run)
    behind = (pl.col("sample_index") != place).sum().over(*run).cast(pl.Int64)
    return frame.with_columns(behind_gap=behind).filter(pl.col("sample_index") == place)


def _valid_answers(frame: pl.DataFrame, examples: pl.DataFrame) -> pl.DataFrame:
    """The traces with answers outside their example's label space moved to another column; verdicts alone stay."""
    opaque = pl.col("opaque").fill_null(False)
    spaces = examples.select("labels").unique(maintain_order=True)["labels"].to_list()
    if all(not labels for labels in spaces):
        return frame.with_columns(**{OUTSIDE: pl.lit(None, pl.String)})
    if len(spaces) == 1:
        inside = pl.col("answer").is_in(spaces[0]) | opaque
    else:
        frame = frame.join(examples.select("example_id", "labels"), on="example_id", how="left", maintain_order="left")
        labels = pl.col("labels")
        inside = labels.list.len().fill_null(0).eq(0) | labels.list.contains(pl.col("answer")) | opaque
    moved = {"answer": pl.when(inside).then("answer"), OUTSIDE: pl.when(~inside).then("answer")}
    return frame.with_columns(**moved).drop("labels", strict=False)


def _read_scores(log: Log, traces: pl.DataFrame, within: tuple[str, str], request: BlockRequest) -> pl.DataFrame:
    """The verifications of the block's traces, with columns slice, verifier, e, s, and which costs each lacks."""
    names = sorted({verifier for _, verifier in request.needs.scores})
    columns = ["trace_id", "verifier", "example_id", "score", "candidates", "prompt_tokens", "completion_tokens"]
    place = traces.select("trace_id", "slice", "e", "s").lazy()
    scan = (
        log.scan("verifications", [*columns, "latency_s", "device_s"], within=within)
        .filter(pl.col("verifier").is_in(names))
        .join(place, on="trace_id", how="inner")
        .with_columns(
            pl.any_horizontal(pl.col("prompt_tokens", "completion_tokens").is_null()).alias(
                _missing_cost_message(SCORE_COSTS[0])
            ),
            *(pl.col(name).is_null().alias(_missing_cost_message(name)) for name in SCORE_COSTS[1:]),
            pl.col("candidates").fill_null(0),
            pl.col("latency_s", "device_s").cast(pl.Float64).fill_null(0.0),
            *([request.prices.price_expression("verifier").alias("price")] if request.prices else []),
            verification_tokens=pl.col("prompt_tokens").fill_null(0) + pl.col("completion_tokens").fill_null(0),
        )
    )
    frame = collect(scan, log)
    if request.prices:
        tokens = pl.any_horizontal(pl.col("prompt_tokens", "completion_tokens") > 0)
        _require_all_prices(
            frame.filter(tokens), "verifier", request.prices
        )  # one without tokens costs nothing at any price
        frame = frame.with_columns(pl.col("price").fill_null(0.0))
    return frame


def _missing_cost_message(cost: str) -> str:
    return f"lacks {cost}"


def _read_pool_arrays(
    name: str, examples: int, traces: pl.DataFrame, scores: pl.DataFrame, request: BlockRequest, whole: bool,
    billed: frozenset[str],
) -> LoggedPool:  # fmt: skip
    """Reads one slice of traces into arrays by example and sample index (E, T)."""
    if request.prices:
        _require_all_prices(traces, "model", request.prices)
        traces = traces.with_columns(request.prices.price_expression("model").alias("price"))
    row, column = traces["e"].to_numpy(), traces["s"].to_numpy()
    shape = (examples, int(column.max(initial=0)) + 1)
    costs = TRACE_COSTS + (("price",) if request.prices else ())
    signals = [*sorted(request.needs.trace_columns), *(suffix_signal_name(k) for k in sorted(request.needs.suffixes))]
    judged = _column_by_example_and_sample(traces, "judged", shape)
    if request.measure is not None and ((judged < 0) | (judged > 1)).any():
        raise InvalidError(f"measure `{request.measure}` of traces has values outside 0 to 1")
    behind_gap = np.zeros(examples, dtype=np.int32)
    behind_gap[row] = traces["behind_gap"].to_numpy()
    return LoggedPool(
        name=name,
        size=np.bincount(row, minlength=examples).astype(np.int32),
        behind_gap=behind_gap,
        code=_column_by_example_and_sample(traces, "code", shape, -1, np.int32),
        word=_column_by_example_and_sample(traces, "word", shape, -1, np.int32),
        costs={cost: _column_by_example_and_sample(traces, cost, shape) for cost in costs},
        judged=judged,
        credit=_column_by_example_and_sample(traces, "credit", shape),
        reads=_column_by_example_and_sample(traces, "reads", shape, 0, np.int32),
        scores={
            verifier: _score_arrays(
                scores.filter((pl.col("slice") == name) & (pl.col("verifier") == verifier)), shape, request
            )
            for verifier in request.needs.verifiers_on_slice(name)
        },
        signals={signal: _column_by_example_and_sample(traces, signal, shape) for signal in signals},
        features={
            feature: _column_by_example_and_sample(traces, f"feature {feature}", shape)
            for feature in sorted(request.needs.features)
        },
        whole=whole,
        trace_ids=_column_by_example_and_sample(traces, "trace_id", shape, None, object)
        if request.identified
        else None,
        opaque=_true_mask(traces, "opaque", shape),
        contested=_true_mask(traces, "contested", shape),
        shared=_shared_reply_costs(traces, shape, request, billed),
        code_as={
            one: _column_by_example_and_sample(traces, f"code as {one}", shape, -1, np.int32)
            for one in request.needs.answers_as
        },
        word_as={
            one: _column_by_example_and_sample(traces, f"word as {one}", shape, -1, np.int32)
            for one in request.needs.answers_as
        },
    )


def pools_billed_by_request(log: Log) -> frozenset[str]:
    """The pools whose prompts were billed once for the samples of one request."""
    manifest = log.manifest
    if manifest is None:
        return frozenset()
    return frozenset(name for name in manifest.pools if manifest.pool_setting(name, PROMPT_BILLED) == PER_REQUEST)


def _shared_reply_costs(
    traces: pl.DataFrame, shape: tuple[int, int], request: BlockRequest, billed: frozenset[str]
) -> SharedCosts | None:
    """What traces of one reply share; None where each came alone. `billed`: pools whose prompts were billed once."""
    if traces["request"].is_null().all():
        return None
    first = pl.col("s").min().over("e", "request")
    alone = pl.col("request").is_null()
    prompt = pl.when(pl.col("pool").is_in(list(billed))).then("prompt_tokens").otherwise(0.0)
    rows = traces.with_columns(reply=pl.when(alone).then("s").otherwise(first), shared_prompt=prompt)
    costs = {
        "latency_s": _column_by_example_and_sample(rows, "latency_s", shape),
        "prompt_tokens": _column_by_example_and_sample(rows, "shared_prompt", shape),
    }
    if request.prices and not request.prices.logged:
        of_prompt = rows.with_columns(prompt_tokens="shared_prompt", completion_tokens=pl.lit(0.0))
        rows = of_prompt.with_columns(request.prices.price_expression("model").alias("shared_price"))
        costs["price"] = _column_by_example_and_sample(rows, "shared_price", shape)
    reply = np.broadcast_to(np.arange(shape[1]), shape).copy()
    reply[rows["e"].to_numpy(), rows["s"].to_numpy()] = rows["reply"].to_numpy()
    return SharedCosts(reply, costs)


def _trace_prices(traces: pl.DataFrame, tokens: int, pool: LoggedPool, request: BlockRequest) -> np.ndarray | None:
    """Price (E, T) of the prompts and so many tokens of the traces of a pool; None without prices."""
    if request.prices is None or request.prices.logged:
        return None
    cut = traces.with_columns(completion_tokens=pl.lit(float(tokens)))
    return _column_by_example_and_sample(
        cut.with_columns(request.prices.price_expression("model").alias("price")), "price", pool.code.shape
    )


def _true_mask(traces: pl.DataFrame, column: str, shape: tuple[int, int]) -> np.ndarray | None:
    """Mask (E, T) of the traces on which a column is true; None where it is true on none."""
    return _column_by_example_and_sample(traces, column, shape, False, bool) if traces[column].any() else None


def _score_arrays(frame: pl.DataFrame, shape: tuple[int, int], request: BlockRequest) -> Scores:
    names = SCORE_COSTS + (("price",) if request.prices else ())
    lacking = [cost for cost in SCORE_COSTS if frame[_missing_cost_message(cost)].any()]
    return Scores(
        score=_column_by_example_and_sample(frame, "score", shape),
        candidates=_column_by_example_and_sample(frame, "candidates", shape, 0),
        costs={cost: _column_by_example_and_sample(frame, cost, shape, 0.0) for cost in names},
        lacking={
            cost: _column_by_example_and_sample(frame, _missing_cost_message(cost), shape, False, bool)
            for cost in lacking
        },
    )


def _column_by_example_and_sample(
    frame: pl.DataFrame, column: str, shape: tuple[int, int], fill: float | None = np.nan, dtype: type = np.float64
) -> np.ndarray:
    """A column of rows as an array (E, T), by their example `e` and sample `s`; `fill` where there is no value."""
    out: np.ndarray = np.full(shape, fill, dtype=dtype)
    values = frame[column]
    known = values.fill_null(fill) if values.null_count() else values
    out[frame["e"].to_numpy(), frame["s"].to_numpy()] = known.to_numpy()
    return out


def _require_all_prices(frame: pl.DataFrame, column: str, prices: Prices) -> None:
    if prices.logged:
        return
    unpriced: Sequence[str] = sorted(set(frame[column].unique().to_list()) - set(prices.per_million))
    if unpriced:
        raise RequiredError(f"{column} `{unpriced[0]}` has no price; add it to `[prices]` (0 is a price)")
