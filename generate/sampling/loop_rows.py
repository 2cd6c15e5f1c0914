"""The log's rows of what loops gave: traces with their costs, verifications, and rows of further tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from generate.engines.base import Completion
from generate.loops.loop import stop_record_of
from generate.loops.requests import Paid, Row, Trace, count_calls
from generate.recipes.recipe import LoopStep
from generate.sampling.samples import SCHEMA, TOKEN_LISTS, first_and_last_moment, trace_id
from generate.signals.signal import score_rows
from toolkit.errors import ConflictError
from toolkit.log import schema_of
from toolkit.log.contract.manifest import ORDERED, STOPPED

COSTS = ("prompt_tokens", "completion_tokens", "latency_s", "device_s")
"""What every answer costs."""
OF_ENGINES = ("reasoning_tokens", "cached_tokens", "cost", "sum_logprob")
"""What only an engine tells."""


def costs_of(paid: Sequence[Paid]) -> dict[str, Any]:
    """The costs of some answers, added up; None where one of them is not known."""
    return {name: _sum_or_null([getattr(one, name) for one in paid], 0) for name in COSTS}


def _sum_or_null(parts: Sequence[Any], nothing: Any = None) -> Any:
    return (None if None in parts else sum(parts)) if parts else nothing


def trace_row_of(
    step: LoopStep, model: str, example_id: str, index: int, trace: Trace, began: float | None
) -> dict[str, Any]:
    """A trace's row without its answer. began: when the first call of the example was sent, in seconds since 1970."""
    written = [one for one in trace.paid if type(one) is Completion]
    last = written[-1] if written else None
    alone = last if len(written) == 1 else None
    started, arrived = first_and_last_moment(written, began)
    return {
        "trace_id": trace_id(example_id, step.pool, index),
        "example_id": example_id,
        "pool": step.pool,
        "action": "solve",
        "parent_id": None,
        "sample_index": index,
        "model": model,
        "temperature": getattr(step.loop, "temperature", None),
        "max_tokens": getattr(step.loop, "max_tokens", None),
        "text": trace.text,
        "reasoning": trace.reasoning,
        **costs_of(trace.paid),
        **{name: _sum_or_null([getattr(one, name) for one in written]) for name in OF_ENGINES},
        "tokens_estimated": any(one.tokens_estimated for one in written),
        "finish_reason": trace.finish_reason or getattr(last, "finish_reason", None),
        "finalizer_used": False,
        **{name: getattr(last, name, None) for name in (*TOKEN_LISTS, "tool_calls")},
        "completion_ids": getattr(alone, "token_ids", None),
        "request": getattr(alone, "request", None),
        "started_s": started,
        "arrived_s": arrived,
    }


def answer_text_of(trace: Trace) -> tuple[str | None, bool]:
    """The text that a trace's answer is read from, and whether a limit cut it off."""
    written = [one for one in trace.paid if type(one) is Completion]
    ended = trace.finish_reason or (written[-1].finish_reason if written else None)
    return (trace.text if trace.read is None else trace.read), ended == "length" and not trace.read_whole


def loop_columns(rows: Mapping[str, Trace]) -> pl.DataFrame:
    """The columns that loops add to traces, by the trace's id: the calls of language models, and those of a row."""
    listed = []
    for name, trace in rows.items():
        known = [column for column in trace.columns if column in SCHEMA or column == "calls"]
        if known:
            raise ConflictError(f"trace `{name}`: the log has a column `{known[0]}`: give the loop's another name")
        listed.append({"trace_id": name, "calls": count_calls(trace.paid), **trace.columns})
    return pl.DataFrame(listed, schema_overrides={"calls": pl.Int32}, infer_schema_length=None)


def verifications_of(rows: Mapping[str, tuple[str, Trace]]) -> pl.DataFrame:
    """The verifications of traces (trace's id -> example, trace); a trace without a score has none."""
    return score_rows([
        {"trace_id": name, "verifier": verifier, "example_id": example, "score": scores.value, **costs_of((scores,))}
        for name, (example, trace) in rows.items()
        for verifier, scores in trace.verified.items()
        if scores.value is not None
    ])  # fmt: skip


def further_table_rows(table: str, rows: Iterator[tuple[str, str, Row]]) -> pl.DataFrame:
    """The rows of a further table, from (example, pool, row)."""
    kinds = {name: column.dtype for name, column in schema_of(table).items()}
    frame = pl.DataFrame([
        {"example_id": example, "pool": pool, **row.columns,
         **({"calls": count_calls(row.paid), **costs_of(row.paid)} if row.paid else {})}
        for example, pool, row in rows
        if row.table == table
    ], infer_schema_length=None)  # fmt: skip
    empty = [name for name, kind in frame.schema.items() if kind == pl.List(pl.Null) and name in kinds]
    return frame.with_columns(pl.col(name).cast(kinds[name]) for name in empty)


def pool_settings(step: LoopStep) -> dict[str, Any]:
    """What a manifest says of a loop's pool under `pools`."""
    stopped = stop_record_of(step.loop, step.name)
    prefix = {} if getattr(step.loop, "prefix", True) else {"prefix": False}
    ordered = {ORDERED: True} if getattr(step.loop, "ordered", False) else {}
    explored = getattr(step.loop, "explore_record", None)
    explore = {} if explored is None else {"explore": explored}
    names = ("sees", "match", "match_engine", "claims") if getattr(step.loop, "table", None) == "checks" else ()
    sees = {name: value for name in names if (value := getattr(step.loop, name, None)) is not None}
    return prefix | ordered | explore | sees | ({} if stopped is None else {STOPPED: dict(stopped)})
