"""The rows of further tables that policies of a result read, such as rounds: saved with it, and read as a block again.

A policy that reads such rows alone is explained from them as from the log, since its settings are saved, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from replay.data.block import LogBlock
from replay.data.needs import Needs, needs_of_all
from replay.data.read import BlockRequest, read_block
from replay.policies.base import KINDS, Policy, needs_of_policies, read_policy
from replay.runs.passes.passes import ReplayPlan
from replay.runs.passes.store import FrameWriter
from replay.runs.saved.provenance import PolicyRecord
from replay.runs.saved.saved_folder import SavedFolder
from toolkit.log import collect
from toolkit.log.contract.schema import keys_of, schema_of
from toolkit.table_rows import TableRows

EXAMPLES_AT_ONCE = 2048
TEXTS = frozenset({"sub_question", "claim_text"})
"""Columns that hold what was written, which a result saved without texts lacks."""


def write_rows(folder: Path, plan: ReplayPlan, policies: Sequence[Policy], texts: bool) -> None:
    """Write the rows of further tables that a result's policies read on its examples, a file for each table.

    `texts`: with the columns that hold what was written.
    """
    explained = needs_of_all(policy.explanation_needs(plan.contents) for policy in policies)
    needs = Needs(tables=(needs_of_policies(policies, plan.contents) | explained).tables)
    tables = {table for table, _, _ in needs.tables if any(policy.table == table for policy in policies)}
    examples = plan.examples.frame
    with ExitStack() as held:
        files = {table: held.enter_context(FrameWriter(folder / f"{table}.parquet")) for table in sorted(tables)}
        for start in range(0, len(examples) if tables else 0, EXAMPLES_AT_ONCE):
            block = read_block(plan.log, examples[start : start + EXAMPLES_AT_ONCE], BlockRequest(needs))
            for (table, pool), rows in block.tables.items():
                ids = block.examples["example_id"].gather(rows.example)
                columns = pl.all() if texts else pl.exclude(*TEXTS)
                frame = rows.frame.select(ids, pl.lit(pool).alias("pool"), columns)
                files[table].write_row_group(frame)


def row_files() -> list[str]:
    """The names of files that a saved result may have with rows of further tables."""
    return [f"{table}.parquet" for table in sorted({kind.table for kind in KINDS.values()} - {""})]


def without_texts(frame: pl.DataFrame) -> pl.DataFrame:
    """The saved rows of a table without the columns that hold what was written."""
    return frame.drop(*TEXTS, strict=False)


def has_texts(folder: SavedFolder, table: str) -> bool:
    """Whether the saved rows of a table have the texts that its log has columns for."""
    there = pl.read_parquet_schema(folder.verified_path(f"{table}.parquet"))
    return all(name in there for name in TEXTS & {*schema_of(table)})


def saved_policy(record: PolicyRecord, folder: SavedFolder) -> Policy | None:
    """The policy of a record as it was replayed, where it reads rows that a saved result has; None for any other."""
    kind = KINDS.get(record.kind)
    if kind is None or not kind.table or not folder.has_file(f"{kind.table}.parquet"):
        return None
    compared = [field for field in fields(kind) if field.compare and field.name in record.settings]
    keys = [one.name for one in compared if one.metadata.get("key", True) and one.name not in ("name", "against")]
    table = _non_null({name: record.settings[name] for name in keys})
    policy = read_policy({"kind": record.kind, **table}, record.name, {})
    return policy.filled(
        **{one.name: record.settings[one.name] for one in compared if one.name not in (*keys, "against")}
    )


def _non_null(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that are null, which no table gives."""
    tables = {name: _non_null(value) if isinstance(value, Mapping) else value for name, value in settings.items()}
    return {name: value for name, value in tables.items() if value is not None}


def saved_block(folder: SavedFolder, table: str, examples: pl.DataFrame) -> LogBlock:
    """A block with the saved rows of a table, of all pools, on some `examples` of the result (sorted by id)."""
    rows = pl.scan_parquet(folder.verified_path(f"{table}.parquet"))
    numbered = examples.select("example_id").with_row_index("e").lazy()
    frame = collect(rows.join(numbered, on="example_id", how="inner"))
    frame = frame.with_columns(pl.lit(None, pl.String).alias(name) for name in TEXTS - {*frame.columns})
    keys = [key for key in keys_of(table) if key not in ("example_id", "pool")]
    tables = {}
    for pool in collect(rows.select("pool").unique())["pool"].sort():
        mine = frame.filter(pool=pool).sort("e", *keys)
        counts = np.bincount(mine["e"].to_numpy(), minlength=len(examples))
        tables[table, pool] = TableRows(mine.drop("e", "example_id", "pool"), np.concatenate([[0], np.cumsum(counts)]))
    return LogBlock(examples, pl.Series("answer", [], pl.String), {}, {}, np.zeros((0, 3), np.int64), (), tables)
