"""A simulated log of any size, written block by block; `generate.simulation.grid_model` documents the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from generate.simulation import grid_model
from toolkit.arguments import checks_arguments
from toolkit.errors import InvalidError, argument
from toolkit.files import replacing
from toolkit.progress import Advance, no_progress, progress
from toolkit.settings import check, setting

if TYPE_CHECKING:
    from toolkit.log import Log

MOST_TRACES = 4_096  # a block is drawn whole: more would not fit in memory
ROWS_PER_SHARD = 500_000  # traces gathered before a shard is written
TABLES = ("examples", "traces", "verifications", "features")


@dataclass(frozen=True)
class GridSize:
    """The size of a simulated log. `labels` is the size of the label space, 0 for open numeric answers."""

    examples: int = setting(low=1, high=10**9)
    traces: int = setting(low=1, high=MOST_TRACES)
    labels: int = setting(3, low=0)
    seed: int = setting(0, low=0)

    def __post_init__(self) -> None:
        check(self)
        if self.labels == 1:
            raise InvalidError(f"{argument('labels')} is 1; it takes 0 (open numeric answers), or at least 2")


def label_names(labels: int) -> list[str]:
    """The names of so many labels: A, B, … Z, L27, L28 …"""
    return [chr(ord("A") + j) if j < 26 else f"L{j + 1}" for j in range(labels)]


def simulate_tables(
    *, examples: int, traces: int, labels: int = 3, seed: int = 0, model: grid_model.Model | None = None
) -> dict[str, pl.DataFrame]:
    """The tables `examples`, `traces`, `verifications` and `features` of a simulated log, in memory.

    `labels` is the size of the label space, 0 for open numeric answers. The pools are `n<traces>` and the
    greedy `probe`. Raises ThinkbackError for sizes and seeds that make no sense.
    """
    blocks = list(_table_blocks(GridSize(examples, traces, labels, seed), model or grid_model.Model()))
    return {table: pl.concat([block[table] for block in blocks]) for table in TABLES}


@checks_arguments(out="a folder")
def simulate(
    out: str | Path,
    *,
    examples: int,
    traces: int,
    labels: int = 3,
    seed: int = 0,
    name: str | None = None,
    force: bool = False,
    model: grid_model.Model | None = None,
) -> Log:
    """Writes a simulated log to `out`, a block of examples at a time, so that memory does not grow with `examples`.

    The manifest says `simulated: true` and lists the model's parameters. `out` appears when the log is whole;
    one that exists is refused, or with `force` replaced.
    """
    model = model or grid_model.Model()
    size = GridSize(examples, traces, labels, seed)
    source = {"simulated_by": "generate.simulation.grid", **asdict(size), "model": asdict(model)}
    shards = _shard_tables(_table_blocks(size, model), size.traces)
    title = name or f"simulated-{examples}x{traces}-k{labels}-s{seed}"
    with progress("simulating", examples, "examples") as advance:
        return write_simulated(out, shards, name=title, source=source, force=force, advance=advance)


def write_simulated(
    out: str | Path, shards: Iterable[Mapping[str, pl.DataFrame]], *, name: str, source: Mapping[str, Any],
    force: bool, advance: Advance = no_progress, pools: Mapping[str, Mapping[str, Any]] | None = None,
) -> Log:  # fmt: skip
    """Writes a sealed log of simulated tables, shard by shard, whole or not at all. `advance` counts its examples.

    `pools`: what the manifest says of single pools.
    """
    from toolkit.log import LogWriter, open_log

    with replacing(out, force) as directory:
        writer, settings = LogWriter(directory), {} if pools is None else {"pools": pools}
        for tables in shards:
            for table, frame in tables.items():
                if not frame.is_empty():
                    writer.append(table, frame)
            advance(tables["examples"].height)
        writer.seal(
            validate=False, name=name, simulated=True, source=source, **settings
        )  # the tests validate what is made here
    return open_log(out)


def _shard_tables(blocks: Iterator[dict[str, pl.DataFrame]], traces: int) -> Iterator[dict[str, pl.DataFrame]]:
    """Joins blocks into shards of about ROWS_PER_SHARD traces."""
    while held := list(islice(blocks, max(1, ROWS_PER_SHARD // (grid_model.BLOCK * traces)))):
        yield {table: pl.concat([block[table] for block in held]) for table in TABLES}


def _table_blocks(size: GridSize, model: grid_model.Model) -> Iterator[dict[str, pl.DataFrame]]:
    examples, traces, labels, seed = size.examples, size.traces, size.labels, size.seed
    names = label_names(labels)
    # the greedy trace is drawn first: it does not depend on the number of sampled ones
    pools = (
        grid_model.PoolPlan("probe", 1, 0.0, model.sharpening),
        grid_model.PoolPlan(f"n{traces}", traces, model.temperature, 1.0),
    )
    for block in range(-(-examples // grid_model.BLOCK)):
        rng = np.random.default_rng([seed, block])
        wanted = min(grid_model.BLOCK, examples - block * grid_model.BLOCK)
        drawn = grid_model.draw_examples(rng, model, labels, seed, block)
        blocks = [
            _pool_tables(
                model, names, pool, drawn.ids.head(wanted), grid_model.draw_traces(rng, model, labels, drawn, pool)
            )
            for pool in pools
        ]
        tables = {table: pl.concat([block[table] for block in blocks]) for table in TABLES[1:]}
        yield {"examples": _examples_frame(drawn, names).head(wanted), **tables}


def _examples_frame(drawn: grid_model.DrawnExamples, names: list[str]) -> pl.DataFrame:
    labels = pl.Series([names or None], dtype=pl.List(pl.String))
    return pl.DataFrame({"example_id": drawn.ids}).select(
        "example_id",
        dataset=pl.lit("simulated"),
        split=pl.when(pl.Series(drawn.dev)).then(pl.lit("dev")).otherwise(pl.lit("test")),
        question=pl.lit("simulated question ") + pl.col("example_id"),
        gold=_answer_strings(drawn.gold, names),
        labels=pl.lit(labels).first(),
    )


def _answer_strings(codes: np.ndarray, names: list[str]) -> pl.Series:
    """The answers as the log writes them, (n,), from label indices or numbers (n,)."""
    numbers = pl.Series("answer", codes)
    return pl.Series("answer", names).gather(numbers) if names else numbers.cast(pl.String)


def _pool_tables(
    model: grid_model.Model, names: list[str], pool: grid_model.PoolPlan, ids: pl.Series, drawn: grid_model.DrawnTraces
) -> dict[str, pl.DataFrame]:
    """The rows of each table for one pool, for the block's examples in `ids`."""

    def flattened(values: np.ndarray) -> np.ndarray:  # (BLOCK, T) -> (n·T,)
        return np.ascontiguousarray(values[: ids.len()]).reshape(-1)

    def rounded_column(values: np.ndarray, decimals: int) -> pl.Series:
        return pl.Series(np.round(flattened(values), decimals).astype(np.float32))

    keys = _key_columns(ids, pool.name, pool.traces)
    traces = keys.select(
        "trace_id",
        "example_id",
        pool=pl.lit(pool.name),
        action=pl.lit("solve"),
        parent_id=pl.lit(None, pl.String),
        sample_index="sample_index",
        model=pl.lit("simulated"),
        temperature=pl.lit(pool.temperature, pl.Float32),
        max_tokens=pl.lit(model.max_tokens, pl.Int32),
        text=pl.lit(None, pl.String),
        answer=pl.when(pl.Series(flattened(drawn.valid))).then(_answer_strings(flattened(drawn.codes), names)),
        correct=pl.Series(flattened(drawn.right)),
        prompt_tokens=pl.Series(flattened(drawn.prompts).astype(np.int32)),
        completion_tokens=pl.Series(flattened(drawn.tokens).astype(np.int32)),
        finish_reason=pl.when(pl.Series(flattened(drawn.cut))).then(pl.lit("length")).otherwise(pl.lit("stop")),
        finalizer_used=pl.Series(flattened(drawn.finalizer)),
        latency_s=rounded_column(drawn.seconds, 3),
        device_s=rounded_column(drawn.seconds / model.concurrency, 4),
        sum_logprob=rounded_column(drawn.logprob, 3),
    )
    features = keys.select(
        "trace_id",
        "example_id",
        *(pl.Series(name, flattened(values)) for name, values in drawn.features.items()),
        length=pl.Series(np.round(flattened(drawn.tokens) / model.max_tokens, 4)),
    )
    scored = [_verifications(model, traces, v, flattened(scores)) for v, scores in drawn.scores.items()]
    return {"traces": traces, "verifications": pl.concat(scored), "features": features}


def _key_columns(ids: pl.Series, pool: str, traces: int) -> pl.DataFrame:
    """The columns trace_id, example_id and sample_index of a pool's rows, example by example."""
    n, width = ids.len(), len(str(traces - 1))
    sample = pl.col("sample_index").cast(pl.String).str.zfill(width)
    return pl.DataFrame(
        {
            "example_id": ids.gather(np.repeat(np.arange(n), traces)),
            "sample_index": np.tile(np.arange(traces, dtype=np.int32), n),
        }
    ).with_columns(trace_id=pl.col("example_id") + f"/{pool}/" + sample)


def _verifications(model: grid_model.Model, traces: pl.DataFrame, verifier: str, scores: np.ndarray) -> pl.DataFrame:
    """The verifications by one verifier of the valid traces. It reads prompt and completion and writes one token."""
    read = pl.col("prompt_tokens") + pl.col("completion_tokens")
    seconds = 0.01 + model.prompt_token_s * read
    return traces.select(
        "trace_id",
        "example_id",
        verifier=pl.lit(verifier),
        score=pl.Series(scores),
        prompt_tokens=read,
        completion_tokens=pl.lit(1, pl.Int32),
        latency_s=seconds.round(3).cast(pl.Float32),
        device_s=(seconds / model.concurrency).round(4).cast(pl.Float32),
    ).filter(traces["answer"].is_not_null())
