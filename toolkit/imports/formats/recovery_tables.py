"""The tables of a log that SeVRA's recovery rows become: examples, base attempts and their revisions, features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from toolkit.imports.formats.recovery_columns import CALLS, FEATURES

RESPONSES = ("intervention_response", "final_response", "action_response")


def answered_by(rows: pl.DataFrame) -> bool:
    """Whether the rows hold answers: both columns, and no right verdict without one."""
    if not {"base_answer", "final_answer"} <= set(rows.columns):
        return False
    lacking = (pl.col("base_correct") & pl.col("base_answer").is_null()) | (
        pl.col("final_correct") & pl.col("final_answer").is_null()
    )
    return not rows.select(lacking.any()).item()


def told_fields(frame: pl.DataFrame, column: str) -> list[str]:
    """Fields of a column of objects; none where the rows have no such column."""
    held = frame.schema.get(column)
    return [field.name for field in held.fields] if isinstance(held, pl.Struct) else []


def examples_of(attempts: pl.DataFrame, split: str) -> pl.DataFrame:
    """The examples of accept rows, one row each; `split` is of those that name none."""
    return attempts.select(
        "example_id",
        *[name for name in ("gold", "labels", "cluster") if name in attempts.columns],
        dataset=_text(attempts, ("dataset", "task_type"), "recovery"),
        split=_text(attempts, ("split",), split),
        question=_text(attempts, ("query", "question"), ""),
    )


def traces_of(attempts: pl.DataFrame, revisions: pl.DataFrame, pool: str, answered: bool) -> pl.DataFrame:
    """A base attempt in `pool` for each accept row, and a trace for each revision, with its `sample_index`.

    Without answers (`answered` false) the traces are opaque.
    """
    base = pl.col("example_id") + " base"
    response = next((c for c in RESPONSES if c in revisions.columns), "")
    bases = _traces(
        attempts, "base", "base", base, answered,
        pool=pl.lit(pool), action=pl.lit("solve"), sample_index=pl.lit(0, pl.Int32),
        model=_text(attempts, ("base_model", "model"), "unknown"), text=_column(attempts, "base_response", pl.String),
    )  # fmt: skip
    numbered = pl.concat_str("example_id", "action", pl.col("sample_index").cast(pl.String), separator=" ")
    revised = _traces(
        revisions, "action", "final", numbered, answered,
        pool=pl.col("action"), action=pl.col("action"), sample_index=pl.col("sample_index"), parent_id=base,
        model=_text(revisions, ("model",), "unknown"), text=_column(revisions, response, pl.String),
        response_empty=_column(revisions, "intervention_response_empty", pl.Boolean),
    )  # fmt: skip
    return pl.concat([bases, revised], how="diagonal")


def _traces(
    rows: pl.DataFrame, whose: str, verdict: str, trace: pl.Expr, answered: bool, **own: pl.Expr
) -> pl.DataFrame:
    """Traces named `trace`: calls and tokens are those of `whose`, answers and verdicts those of `verdict`."""
    reason = _column(rows, f"{whose}_done_reason", pl.String)
    named = {name: f"{whose}_{name}" for name in CALLS}
    return rows.select(
        "example_id",
        trace_id=trace,
        answer=pl.col(f"{verdict}_answer") if answered else trace,
        correct=pl.col(f"{verdict}_correct"),
        opaque=pl.lit(not answered),
        finish_reason=pl.coalesce(_usage(rows, whose, "done_reason", pl.String), reason),
        finalizer_used=_column(rows, f"{whose}_finalizer_used", pl.Boolean),
        **_tokens(rows, whose),
        **{name: pl.col(told).cast(CALLS[name]) for name, told in named.items() if told in rows.columns},
        **own,
    )


def features_of(base: pl.DataFrame) -> pl.DataFrame | None:
    """The features of the base attempts, the five of the paper and any others; None where the rows have none."""
    inner = told_fields(base, "features")
    flat = [name for name in FEATURES if name in base.columns]
    if not inner and not flat:
        return None
    columns = {name: pl.col("features").struct.field(name).cast(pl.Float64) for name in inner}
    columns |= {name: pl.col(name).cast(pl.Float64) for name in flat if name not in inner}
    return base.select("example_id", trace_id=pl.col("example_id") + " base", **columns)


def _text(frame: pl.DataFrame, names: Sequence[str], default: str) -> pl.Expr:
    found = [pl.col(name).cast(pl.String) for name in names if name in frame.columns]
    return pl.coalesce(*found, pl.lit(default))


def _column(frame: pl.DataFrame, name: str, dtype: Any) -> pl.Expr:
    return pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)


def _usage(frame: pl.DataFrame, whose: str, key: str, dtype: Any) -> pl.Expr:
    """A field of `base_usage` or `action_usage`, null where there is none."""
    column = f"{whose}_usage"
    return pl.col(column).struct.field(key) if key in told_fields(frame, column) else pl.lit(None, dtype)


def _tokens(frame: pl.DataFrame, whose: str) -> dict[str, pl.Expr]:
    """Prompt and completion tokens as the usage tells them, where they make the total or none is given.

    Else the total goes to the completion's tokens, and the prompt's are 0.
    """
    total = _column(frame, f"{whose}_actual_tokens", pl.Int32)
    prompt, completion = (_usage(frame, whose, f"{one}_tokens", pl.Int32) for one in ("prompt", "completion"))
    made = prompt.cast(pl.Int64) + completion.cast(pl.Int64) == total
    told = total.is_null() | made.fill_null(False)
    return {
        "prompt_tokens": pl.when(told).then(prompt).otherwise(0).cast(pl.Int32),
        "completion_tokens": pl.when(told).then(completion).otherwise(total),
    }
