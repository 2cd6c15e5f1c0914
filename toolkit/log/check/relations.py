"""What rows say of each other, in blocks of examples: ids, keys, parents, judgements, rounds.

A block holds the rows of all tables whose example_id lies in a range, so that everything but the uniqueness of
trace ids can be decided within it; for that, 8 bytes per trace are kept until the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from toolkit.log.check.faults import Faults
from toolkit.log.check.groups import Gaps, check_listwise, check_rounds, check_stages, check_traces
from toolkit.log.contract.problems import shown
from toolkit.log.contract.schema import keys_of, kind_of
from toolkit.log.read.example_blocks import BLOCK_ROWS, example_blocks
from toolkit.log.read.log import ROW, Log, collect

_COLUMNS = {
    "examples": ("example_id", "gold", "labels"),
    "traces": (
        "example_id", "trace_id", "pool", "action", "parent_id", "sample_index", "answer", "correct", "opaque",
        "contested",
    ),
    "verifications": (
        "example_id", "trace_id", "verifier", "candidates",
        "prompt_tokens", "completion_tokens", "latency_s", "device_s",
    ),
    "features": ("example_id", "trace_id"),
    "hidden_states": ("example_id", "trace_id", "layer", "token"),
    "rounds": ("example_id", "pool", "hop", "round"),
    "checks": ("example_id", "pool", "claim", "round", "stage"),
}  # fmt: skip


_COMPARED = {"examples": "gold", "traces": "answer"}
"""Texts of which it only counts whether they are equal."""
_KEPT = 64
"""Characters of such a text that are held: more than a message shows."""


def check_relations(faults: Faults, tables: Sequence[str], known: Sequence[str]) -> list[str]:
    """Add the faults between rows of `tables`; `known` are those that ids may be looked up in. Returns notes."""
    log, gaps = faults.log, Gaps()
    hashes: list[np.ndarray] = []
    asked = set(tables)
    for low, high in example_blocks(log, known, BLOCK_ROWS):
        here = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        scans = {name: log.scan(name, _COLUMNS[kind_of(name)], rows=True).filter(here) for name in known}
        held = {name: scan.with_columns(_shortened(_COMPARED.get(name, ""))) for name, scan in scans.items()}
        frames = {name: collect(scan, log) for name, scan in held.items()}
        examples = frames.get("examples", _empty(log, "examples"))
        traces = frames.get("traces", _empty(log, "traces"))
        for table in tables:
            _check_keys(faults, table, frames[table], hashes)
            frame = frames[table]
            if table != "examples" and ("examples" in known or not log.has("examples")):
                unknown = frame.join(examples, on="example_id", how="anti")
                message = "{example_id} is unknown: add it to examples, or remove the rows"
                faults.add_rows(table, "example_id", "unknown", unknown, message)
                frame = frame.join(unknown, on="example_id", how="anti") if unknown.height else frame
            if "trace_id" in keys_of(table) and table != "traces" and ("traces" in known or not log.has("traces")):
                unknown = frame.join(traces, on=["trace_id", "example_id"], how="anti")
                faults.add_rows(table, "trace_id", "unknown", unknown, lambda row: _unknown_trace(log, row, "trace_id"))
        if "traces" in asked:
            check_traces(faults, traces, examples, gaps, lambda row: _unknown_trace(log, row, "parent_id"))
        if "verifications" in asked:
            check_listwise(faults, frames["verifications"], traces)
        if "rounds" in asked:
            check_rounds(faults, "rounds", frames["rounds"], ["example_id", "pool", "hop"])
        if "checks" in asked:
            check_rounds(faults, "checks", frames["checks"], ["example_id", "pool", "claim"])
            check_stages(faults, frames["checks"])
    if "traces" in asked:
        _check_trace_ids_across(faults, hashes)
    return gaps.notes()


def _empty(log: Log, table: str) -> pl.DataFrame:
    names = _COLUMNS[table]
    return Log(log.address, None, {}, ()).scan(table, names, rows=True).collect()


def _check_keys(faults: Faults, table: str, frame: pl.DataFrame, hashes: list[np.ndarray]) -> None:
    """Rows with the key of an earlier row. Traces may meet their like in another block, so theirs come last."""
    keys = list(keys_of(table))
    hashed = frame.select(pl.struct(keys).hash() if len(keys) > 1 else pl.col(keys[0]).hash()).to_series()
    if table == "traces":
        hashes.append(hashed.to_numpy())
    else:
        _add_duplicates(faults, table, keys, frame.filter(hashed.is_duplicated()))


def _check_trace_ids_across(faults: Faults, hashes: list[np.ndarray]) -> None:
    """Equal trace ids in the whole log: those whose hashes are equal are compared themselves."""
    every = np.sort(np.concatenate([*hashes, np.empty(0, np.uint64)]))
    twice = np.unique(every[1:][every[1:] == every[:-1]])
    if len(twice):
        same_hash = pl.col("trace_id").hash().is_in(pl.Series(twice).implode())
        rows = faults.log.scan("traces", ["trace_id"], rows=True).filter(same_hash)
        _add_duplicates(faults, "traces", ["trace_id"], collect(rows, faults.log))


def _add_duplicates(faults: Faults, table: str, keys: list[str], candidates: pl.DataFrame) -> None:
    if not candidates.height:
        return
    later = candidates.sort(ROW).filter(~pl.struct(keys).is_first_distinct())

    def message(row: dict[str, Any]) -> str:
        named = ", ".join(f"{key} {shown(row[key])}" for key in keys)
        return f"a second row of {named}: keep one; a retry belongs into a log of its own, to be merged"

    faults.add_rows(table, keys[0] if len(keys) < 3 else keys[-1], "duplicate", later, message)


def _shortened(name: str) -> list[pl.Expr]:
    """A text without what comes after its beginning, but for a hash by which equal ones are known; whole answers of a
    thousand words would be held for millions of traces.
    """
    text = pl.col(name)
    short = pl.concat_str(text.str.head(_KEPT), text.hash().cast(pl.String), separator="\n")
    return [pl.when(text.str.len_bytes() > _KEPT).then(short).otherwise(text).alias(name)] if name else []


def _unknown_trace(log: Log, row: dict[str, Any], column: str) -> str:
    """An id that no trace of the row's example has: does no example have it, or another one?"""
    trace_id = row[column]
    found = collect(log.scan("traces", ["example_id", "trace_id"]).filter(pl.col("trace_id") == trace_id).head(1), log)
    if not found.height:
        return f"{shown(trace_id)} is unknown: add it to traces, or remove the row"
    of = f"{shown(trace_id)} is a trace of example {shown(found['example_id'][0])}"
    return f"{of}, the row's example_id is {shown(row['example_id'])}: correct one of them"
