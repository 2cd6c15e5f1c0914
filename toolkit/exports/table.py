"""A log as one flat table with a row for each trace, for tools that know nothing of logs.

The columns are those of the trace's example, of the trace, `score.VERIFIER` for each verifier and `feature.NAME` for
each feature. A further column of the examples becomes `example.NAME` where the traces have a column of its name. Cells
are data and stay as they are. The rows are made and written block by block, so memory does not grow with the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import polars as pl

from toolkit.errors import ConflictError, EmptyError, argument, listed, require_known
from toolkit.log import Log, collect
from toolkit.log.read.example_blocks import block_id_ranges

ROWS = 100_000
"""Traces in memory at one time; those of an example stay together."""
_ORDER = ("example_id", "pool", "action", "parent_id", "sample_index", "trace_id")
_KEYS = ("trace_id", "example_id")

Write = Callable[[pl.DataFrame], None]


def export_table(log: Log, out: Path, to: str) -> int:
    """Writes a row for each trace as `parquet`, `jsonl` or `csv`, sorted by example; returns the number of rows.

    ThinkbackError where the log has no traces, or two columns of the table would have one name.
    """
    require_known(to, WRITERS, f"unknown format {argument('to')} `{to}`")
    if not log.rows("traces"):
        raise EmptyError(f"log `{log.address}` has no traces, so the table would have no rows")
    verifiers = collect(log.scan("verifications", ["verifier"]).unique(), log)["verifier"].sort().to_list()
    rows = 0
    with WRITERS[to](out) as write:
        for first, last in block_id_ranges(log, ["traces"], ROWS):
            table = _flat_rows(log, pl.col("example_id").is_between(pl.lit(first), pl.lit(last)), verifiers)
            write(table)
            rows += table.height
    return rows


def _flat_rows(log: Log, block: pl.Expr, verifiers: list[str]) -> pl.DataFrame:
    traces, examples = (_columns_to_export(log, table, block) for table in ("traces", "examples"))
    shared = [name for name in examples.columns if name in traces.columns and name != "example_id"]
    examples = examples.rename({name: f"example.{name}" for name in shared})
    parts = [examples.columns, [name for name in traces.columns if name != "example_id"]]
    table = traces.join(examples, on="example_id", how="left").sort(_ORDER)
    if log.has("verifications"):
        columns = ["trace_id", "example_id", "verifier", "score"]
        given = collect(log.scan("verifications", columns).filter(block), log)
        scores = given.group_by("trace_id").agg(
            pl.col("score").filter(pl.col("verifier") == name).first().alias(f"score.{name}") for name in verifiers
        )
        parts.append(scores.drop("trace_id").columns)
        table = table.join(scores, on="trace_id", how="left", maintain_order="left")
    if log.has("features"):
        features = _columns_to_export(log, "features", block).unique("trace_id", keep="any").drop("example_id")
        features = features.rename({name: f"feature.{name}" for name in features.columns if name not in _KEYS})
        parts.append(features.drop("trace_id").columns)
        table = table.join(features, on="trace_id", how="left", maintain_order="left")
    names = [name for part in parts for name in part]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConflictError(
            f"the log's own columns {listed(twice)} have names of columns that the table adds: rename them"
        )
    return table.select(names)


def _columns_to_export(log: Log, table: str, block: pl.Expr) -> pl.DataFrame:
    """The columns of a log's table that are exported, and those that its rows are sorted by."""
    order = _ORDER if table == "traces" else ()
    return collect(log.scan(table, list(dict.fromkeys([*log.columns(table), *order]))).filter(block), log)


@contextmanager
def _parquet_writer(out: Path) -> Iterator[Write]:
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None

    def write(table: pl.DataFrame) -> None:
        nonlocal writer
        rows = table.to_arrow(compat_level=pl.CompatLevel.oldest())
        writer = writer or pq.ParquetWriter(out, rows.schema, compression="zstd")
        writer.write_table(rows)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


@contextmanager
def _jsonl_writer(out: Path) -> Iterator[Write]:
    with out.open("wb") as file:
        yield lambda table: table.write_ndjson(file)


@contextmanager
def _csv_writer(out: Path) -> Iterator[Write]:
    """Yields a function that writes CSV: lists as JSON, an empty text as `""`, null as an empty cell."""
    with out.open("wb") as file:

        def write(table: pl.DataFrame) -> None:
            lists = [name for name, dtype in table.schema.items() if dtype.is_nested()]
            texts = table.with_columns(_json_texts(table[name]) for name in lists)
            texts.write_csv(file, include_header=file.tell() == 0)

        yield write


def _json_texts(values: pl.Series) -> pl.Series:
    whole = pl.struct(v=pl.col(values.name)).struct.json_encode()
    text = whole.str.strip_prefix('{"v":').str.strip_suffix("}")
    return (
        values.to_frame().select(pl.when(pl.col(values.name).is_not_null()).then(text).alias(values.name)).to_series()
    )


WRITERS: Mapping[str, Callable[[Path], AbstractContextManager[Write]]] = {
    "parquet": _parquet_writer, "jsonl": _jsonl_writer, "csv": _csv_writer
}  # fmt: skip
