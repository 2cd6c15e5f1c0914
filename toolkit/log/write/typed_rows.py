"""Rows as the contract wants them, before they are written: types, no nulls where a value is required, order."""

from __future__ import annotations

import polars as pl

from toolkit.log.contract.conversion import can_convert, cast, is_lossy, not_finite, state_type, type_name, wrong_type
from toolkit.log.contract.problems import LogError, Problem, backticked
from toolkit.log.contract.schema import HIDDEN, keys_of, kind_of, schema_of, target_type


def to_contract(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The rows in the contract's types, with its columns in its order and further ones after them.

    LogError names the table, the column and the first row where that can't be done without loss, where a
    required column is missing or null, and where a number is NaN or infinite.
    """
    contract = schema_of(table)
    present = dict(frame.schema)
    for name, column in contract.items():
        if name not in present and not column.may_be_absent:
            raise Problem(table, name, None, f"is missing ({type_name(column.dtype)})", "missing-column").error()
    exprs = []
    for name in [*(n for n in contract if n in present), *(n for n in present if n not in contract)]:
        if "\0" in name:  # Arrow has no such names
            raise LogError(f"`{table}`, column {name!r}: its name holds a NUL: rename it", code="invalid")
        source, target = present[name], target_type(table, name, present[name])
        if name == "state" and kind_of(table) == HIDDEN:
            target = state_type(source, lambda: next(iter(frame["state"].list.len().drop_nulls()), None))
        if not can_convert(source, target):
            raise Problem(table, name, 0, wrong_type(source, target), "type").error()
        flagged = is_lossy(pl.col(name), source, target)
        if flagged is not None:
            _raise_first(frame, flagged, table, name, f"does not fit {type_name(target)} without loss", "lossy")
        exprs.append(cast(pl.col(name), source, target))
    converted = frame.select(exprs)
    for name, dtype in converted.schema.items():
        if name in contract and not contract[name].nullable:
            _raise_first(converted, pl.col(name).is_null(), table, name, "is null where a value is required", "null")
        flagged = not_finite(pl.col(name), dtype)
        if flagged is not None:
            what = "is not a number: write null for not recorded" if dtype.is_float() else "holds NaN or infinity"
            _raise_first(converted, flagged, table, name, what, "not-finite")
    return converted


def _raise_first(frame: pl.DataFrame, flagged: pl.Expr, table: str, name: str, fault: str, code: str) -> None:
    row = frame.select(flagged.fill_null(False).arg_max().alias("row"), flagged.any().alias("any")).row(0)
    if row[1]:
        raise Problem(table, name, int(row[0]), f"{backticked(frame[name][row[0]])} {fault}", code).error()


def contract_rows(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The rows as a shard holds them: in the contract's types, then sorted."""
    return sort_rows(to_contract(frame, table), table)


def sort_rows(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    """The rows sorted by example_id, then by the order within an example, then by key; by bytes, not locale."""
    order = ["example_id", *(c for c in ("pool", "action", "sample_index") if c in frame.columns), *keys_of(table)]
    return frame.sort(list(dict.fromkeys(order)), maintain_order=True)
