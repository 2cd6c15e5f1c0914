"""Columns of SeVRA's rows with their types: verdicts, counts and numbers, whatever the files wrote them as."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from toolkit.errors import ThinkbackError

VERDICTS = (
    "base_correct", "final_correct", "verified_correct", "helpful_fix", "harmful_flip", "base_finalizer_used",
    "action_finalizer_used", "intervention_response_empty", "simulated",
)  # fmt: skip
COUNTS = ("action_actual_tokens", "base_actual_tokens", "verification_tokens")
FEATURES = ("difficulty", "verification_need", "constraint_density", "ambiguity_score", "retrieval_need")
TEXTS = (
    "action", "base_pool", "dataset", "task_type", "split", "query", "question", "model", "base_model", "base_response",
    "base_done_reason", "action_done_reason", "intervention_response", "final_response", "action_response",
    "base_answer", "final_answer",
)  # fmt: skip
WORDS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
MOST = 2**31 - 1


def typed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with verdicts as bool, token counts as int, scores and features as float, texts as text.

    Raises ThinkbackError that names the column and the first row (from 1) of a value that is none.
    """
    readers: Mapping[tuple[str, ...], Callable[[pl.Series, str], pl.Series]] = {
        VERDICTS: _verdict, COUNTS: _count, ("gate_score", *FEATURES): _number, TEXTS: _text,
    }  # fmt: skip
    found = [read(rows[name], name) for names, read in readers.items() for name in names if name in rows.columns]
    rows = rows.with_columns(found)
    held = rows.schema.get("features")
    if isinstance(held, pl.Struct):
        inner = [_number(rows["features"].struct.field(one.name), f"features.{one.name}") for one in held.fields]
        rows = rows.with_columns(pl.struct(inner).alias("features"))
    elif held is not None and held != pl.Null:
        raise ThinkbackError(f"column `features` of the rows holds {held}; it is an object of numbers in each row")
    return rows


def _verdict(values: pl.Series, name: str) -> pl.Series:
    if values.dtype in (pl.Boolean, pl.Null):
        return values.cast(pl.Boolean)
    plain = _text(values, name).str.strip_chars().str.to_lowercase()
    read = plain.replace_strict(WORDS, default=None, return_dtype=pl.Boolean)
    return _checked(read, values, name, "a verdict is true or false, or 1 or 0")


def _count(values: pl.Series, name: str) -> pl.Series:
    read = _number(values, name)
    whole = pl.Series(read.name, (read >= 0) & (read <= MOST) & (read == read.floor()))
    kept = pl.select(pl.when(whole).then(read)).to_series().cast(pl.Int32).alias(read.name)
    return _checked(kept, values, name, "tokens are counted in whole numbers from 0")


def _number(values: pl.Series, name: str) -> pl.Series:
    if values.dtype.is_nested():
        raise ThinkbackError(f"column `{name}` of the rows holds {values.dtype}; give numbers")
    read = values.cast(pl.Float64, strict=False)
    finite = pl.select(pl.when(read.is_finite()).then(read)).to_series().alias(read.name)
    return _checked(finite, values, name, "give a number")


def _text(values: pl.Series, name: str) -> pl.Series:
    if values.dtype.is_nested():
        raise ThinkbackError(f"column `{name}` of the rows holds {values.dtype}; give one text in each row")
    return values.cast(pl.String)


def _checked(read: pl.Series, values: pl.Series, name: str, advice: str) -> pl.Series:
    odd = read.is_null() & values.is_not_null()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ThinkbackError(f"column `{name}` of the rows holds `{values[row]}` in row {row + 1:,}; {advice}")
    return read


def check_verdicts(rows: pl.DataFrame) -> None:
    """Raise where an accept row changes the verdict or spends tokens, or a fix or flip contradicts the verdicts."""
    base, final = pl.col("base_correct"), pl.col("final_correct")
    changed = rows.select(((pl.col("action") == "accept") & (final != base)).fill_null(False)).to_series()
    _refuse(rows, changed, "it accepts, and its `final_correct` differs from its `base_correct`")
    if "action_actual_tokens" in rows.columns:
        spent = pl.col("action_actual_tokens")
        odd = rows.select(((pl.col("action") == "accept") & (spent > 0)).fill_null(False)).to_series()
        _refuse(rows, odd, "it accepts, which spends nothing, and its `action_actual_tokens` is not 0")
    for name, meant in (("helpful_fix", ~base & final), ("harmful_flip", base & ~final)):
        if name in rows.columns:
            odd = rows.select((pl.col(name) != meant).fill_null(False)).to_series()
            _refuse(rows, odd, f"`{name}` contradicts `base_correct` and `final_correct`")


def _refuse(rows: pl.DataFrame, odd: pl.Series, what: str) -> None:
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ThinkbackError(
            f"row {row + 1:,} of the rows (example `{rows['example_id'][row]}`, action `{rows['action'][row]}`): "
            f"{what}; {int(odd.sum()):,} rows do so: correct them"
        )
