"""Columns of SeVRA's rows with their types: verdicts, counts and numbers, whatever the files wrote them as."""

from __future__ import annotations

from typing import NoReturn

import polars as pl

from toolkit.errors import ThinkbackError
from toolkit.imports.files.literals import lists

CALLS: dict[str, pl.DataType] = {
    "max_tokens": pl.Int32(), "latency_s": pl.Float32(), "device_s": pl.Float32(), "sum_logprob": pl.Float32(),
    "tokens_estimated": pl.Boolean(),
}  # fmt: skip
"""What our own rows tell of a call beside its tokens, each as `base_NAME` and `action_NAME`."""
USAGE = {"done_reason": "text", "prompt_tokens": "count", "completion_tokens": "count"}
FEATURES = ("difficulty", "verification_need", "constraint_density", "ambiguity_score", "retrieval_need")
INDEX = ("sample_index", "rollout", "sample")


def _both(*names: str) -> tuple[str, ...]:
    return tuple(f"{whose}_{name}" for whose in ("base", "action") for name in names)


VERDICTS = (
    "base_correct", "final_correct", "verified_correct", "helpful_fix", "harmful_flip", "intervention_response_empty",
    "simulated", *_both("finalizer_used", "tokens_estimated"),
)  # fmt: skip
COUNTS = (*_both("actual_tokens", "max_tokens"), "verification_tokens")
SECONDS = _both("latency_s", "device_s")
NUMBERS = ("gate_score", *_both("sum_logprob"), *FEATURES)
TEXTS = (
    "action", "base_pool", "dataset", "task_type", "split", "query", "question", "model", "base_model", "base_response",
    "base_done_reason", "action_done_reason", "intervention_response", "final_response", "action_response",
    "base_answer", "final_answer", "gold", "cluster",
)  # fmt: skip
WORDS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
MOST = 2**31 - 1
_VALUE = pl.col("value")
_REAL = _VALUE.cast(pl.Float64, strict=False)
_FINITE = pl.when(_REAL.is_finite()).then(_REAL)
_INTEGER = pl.when(_REAL.is_between(0, MOST) & (_REAL.floor() == _REAL)).then(_REAL).cast(pl.Int32)
_TRUTH = _VALUE.cast(pl.String).str.strip_chars().str.to_lowercase()
_KINDS: dict[str, tuple[pl.Expr, str]] = {
    "verdict": (
        _TRUTH.replace_strict(WORDS, default=None, return_dtype=pl.Boolean),
        "a verdict is true or false, or 1 or 0",
    ),
    "count": (_INTEGER, "tokens are integers from 0"),
    "index": (_INTEGER, "sample indices are integers from 0"),
    "seconds": (pl.when(_FINITE >= 0).then(_FINITE), "seconds are numbers from 0"),
    "number": (_FINITE, "give a number"),
    "text": (_VALUE.cast(pl.String), "give one string in each row"),
}
"""How a value of each kind is read, null where it is not of that kind, and what to do then."""
_COLUMNS = {VERDICTS: "verdict", COUNTS: "count", SECONDS: "seconds", NUMBERS: "number", TEXTS: "text"}


def typed(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with verdicts as bool, token counts as int, scores and features as float, texts as text.

    Raises ThinkbackError that names the column and the first row (from 1) of a value of another kind.
    """
    kinds = [(name, kind) for names, kind in _COLUMNS.items() for name in names if name in rows.columns]
    rows = rows.with_columns(_read(rows[name], name, kind) for name, kind in kinds)
    if "labels" in rows.columns:
        rows = rows.with_columns(_labels(rows["labels"], "labels"))
    for name in ("features", *_both("usage")):
        if name in rows.columns:
            rows = _object(rows, name)
    return rows


def _object(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """The rows with the fields of an object typed: of usage those that are known; without one, without the column."""
    held = rows[name]
    if not isinstance(held.dtype, pl.Struct):
        if held.null_count() < len(held):
            what = "numbers" if name == "features" else "an ending and token counts"
            _unfit(held, held.is_not_null(), name, f"it is an object of {what} in each row")
        return rows.drop(name)
    taken = {"example_id", "trace_id"} & {field.name for field in held.dtype.fields} if name == "features" else ()
    for key in taken:
        raise ThinkbackError(f"column `features` of the rows has a field `{key}`, which names rows of a log: rename it")
    kinds = {field.name: "number" if name == "features" else USAGE.get(field.name) for field in held.dtype.fields}
    inner = [_read(held.struct.field(key), f"{name}.{key}", kind).alias(key) for key, kind in kinds.items() if kind]
    return rows.with_columns(pl.struct(inner).alias(name)) if inner else rows.drop(name)


def indexed(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows with `sample_index` as int from what they call it, null where they give none, and a note.

    Where no row has the index 0 and some have 1, they count from 1, and all are one less.
    """
    own = next((name for name in INDEX if name in rows.columns), None)
    if own is None:
        return rows.with_columns(sample_index=pl.lit(None, pl.Int32)), ""
    read = _read(rows[own], own, "index").alias("sample_index")
    if read.min() == 1:
        return rows.with_columns(read - 1), f"`{own}` counts from 1, and sample indices from 0: they are one less"
    return rows.with_columns(read), ""


def _read(values: pl.Series, name: str, kind: str) -> pl.Series:
    """The values as those of a kind; ThinkbackError for the first that is not, such as any list or object."""
    made, advice = _KINDS[kind]
    flat = pl.repeat(None, len(values), dtype=pl.Null, eager=True) if values.dtype.is_nested() else values
    return _checked(flat.to_frame("value").select(made).to_series().alias(values.name), values, name, advice)


def _labels(values: pl.Series, name: str) -> pl.Series:
    advice = "labels are a list of strings, each of them once"
    found, kind = lists(values) if values.dtype == pl.String else (values, values.dtype)
    flat = isinstance(kind, pl.List) and not (kind.inner.is_nested() or kind.inner.is_float())
    if not flat and found.null_count() < len(found):
        _unfit(found, found.is_not_null(), name, advice)
    read = (found if flat else found.cast(pl.Null)).cast(pl.List(pl.String)).alias(name)
    items = pl.col(name).list
    whole = pl.when((items.n_unique() == items.len()) & ~items.contains(None)).then(pl.col(name))
    return _checked(read.to_frame().select(whole).to_series(), values, name, advice)


def _checked(read: pl.Series, values: pl.Series, name: str, advice: str) -> pl.Series:
    odd = read.is_null() & values.is_not_null()
    if odd.any():
        _unfit(values, odd, name, advice)
    return read


def _unfit(values: pl.Series, odd: pl.Series, name: str, advice: str) -> NoReturn:
    row = int(odd.arg_max() or 0)
    held = values.dtype if values.dtype.is_nested() else f"`{values[row]}`"
    raise ThinkbackError(f"column `{name}` of the rows holds {held} in row {row + 1:,}; {advice}")


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


def check_labels(rows: pl.DataFrame, answered: bool) -> None:
    """Raise where a gold answer is not one of the labels, or a verdict on an answer among labels is not by gold.

    Without answers (`answered` false) verdicts are not checked against labels.
    """
    if "labels" not in rows.columns:
        return
    closed = pl.col("labels").list.len().fill_null(0) > 0
    gold = pl.col("gold") if "gold" in rows.columns else pl.lit(None, pl.String)
    outside = rows.select(closed & ~pl.col("labels").list.contains(gold) & gold.is_not_null()).to_series()
    _refuse(rows, outside.fill_null(False), "its `gold` is not one of its `labels`")
    for whose in ("base", "final") if answered else ():
        right = pl.col(f"{whose}_answer").eq_missing(gold) & gold.is_not_null()
        odd = rows.select(closed & (pl.col(f"{whose}_correct") != right)).to_series()
        what = f"with `labels`, an answer is right where it is the `gold` one, and its `{whose}_correct` disagrees"
        _refuse(rows, odd, what)


def _refuse(rows: pl.DataFrame, odd: pl.Series, what: str) -> None:
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise ThinkbackError(
            f"row {row + 1:,} of the rows (example `{rows['example_id'][row]}`, action `{rows['action'][row]}`): "
            f"{what}; {int(odd.sum()):,} rows do so: correct them"
        )
