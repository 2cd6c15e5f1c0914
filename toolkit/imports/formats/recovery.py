"""SeVRA's logged outcomes: recovery rows (one per example and action) and replay rows (one per example, no id).

Rows hold verdicts and, unless we exported them, no answers, so their traces are opaque; prompt and completion tokens
come as one sum, unless the usage tells them apart. Verdicts, counts and numbers are read whatever the files wrote them
as. A column that the rows lack is null in the tables of the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import polars as pl

from toolkit.errors import (
    AmbiguousError,
    ConflictError,
    EmptyError,
    IncompleteError,
    InvalidError,
    LimitError,
    RequiredError,
    argument,
    counted,
    listed,
    suggest,
)
from toolkit.files import check_replaceable
from toolkit.imports.files.literals import parse_lists
from toolkit.imports.rows.sources import PLACES, SourceRules, read_sources
from toolkit.log import write_log
from toolkit.notes import remark

ACCEPT = "accept"
BASE, SPLIT = "base", "test"
NEEDED = ("example_id", "action", "base_correct", "final_correct")
NEEDED_OF_REPLAY = ("base_correct", "verified_correct", "gate_score", "verification_tokens")
OF_EXAMPLE = ("gold", "labels", "cluster")
FEATURES = ("difficulty", "verification_need", "constraint_density", "ambiguity_score", "retrieval_need")
INDEX = ("sample_index", "rollout", "sample")
RESPONSES = ("intervention_response", "final_response", "action_response")
CALLS = ("max_tokens", "latency_s", "device_s", "sum_logprob", "tokens_estimated")
"""What our own rows tell of a call beside its tokens, each as `base_NAME` and `action_NAME`."""
USAGE = {"done_reason": "text", "prompt_tokens": "count", "completion_tokens": "count"}
MAX_NAMED = 3
SUMS = "tokens are sums of prompt and completion; they are in completion_tokens"


def _base_and_action_names(*names: str) -> tuple[str, ...]:
    return tuple(f"{whose}_{name}" for whose in ("base", "action") for name in names)


COLUMNS = {
    "verdict": (
        "base_correct", "final_correct", "verified_correct", "helpful_fix", "harmful_flip", "simulated",
        "intervention_response_empty", *_base_and_action_names("finalizer_used", "tokens_estimated"),
    ),
    "count": (*_base_and_action_names("actual_tokens", "max_tokens"), "verification_tokens"),
    "seconds": _base_and_action_names("latency_s", "device_s"),
    "number": ("gate_score", *_base_and_action_names("sum_logprob"), *FEATURES),
    "text": (
        "action", "base_pool", "dataset", "task_type", "split", "query", "question", "model", "base_model",
        "base_response", *_base_and_action_names("done_reason"), *RESPONSES, "base_answer", "final_answer", "gold",
        "cluster",
    ),
}  # fmt: skip
"""The columns that are read, by the kind of their values."""
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


@dataclass(frozen=True)
class RecoveryReport:
    """The result of an import of recovery or replay rows. `notes` are lines for people."""

    examples: int
    traces: int
    notes: tuple[str, ...]

    def lines(self) -> tuple[str, ...]:
        return self.notes


def import_recovery(
    sources: Sequence[str],
    out: str | Path,
    *,
    name: str | None = None,
    split: str | None = None,
    exclude_incomplete: bool = False,
    drop_repeats: bool = False,
    base: str | None = None,
) -> RecoveryReport:
    """Imports recovery rows as a log with a pool of base attempts and, for each further action, a revision of each.

    That pool is called `base`, by default what the rows' `base_pool` says, else "base"; examples whose rows name no
    split are in `split`, by default "test".
    Rows of one example, action and sample index are repeats, of which the first wins, and the index is kept; rows
    without one are rollouts in their order, after those that have one, and of those that are equal throughout the
    first wins with `drop_repeats`. `exclude_incomplete` leaves out examples without an accept row or without an
    action that others have; without it they are an error.
    Of rows that `export_recovery` wrote, what it names comes back, and no more.
    ThinkbackError, and nothing is written, for that, missing columns, values of another type, verdicts that
    contradict each other or gold answers of a label space, accept rows that spend tokens, or base attempts that
    differ within an example.
    """
    check_replaceable(out, force=False)
    rows, notes = _with_sample_index(_rows(sources, NEEDED))
    _check_base(rows)
    _check_verdicts(rows)
    rows = rows.with_columns(pl.col(c).drop_nulls().first().over("example_id") for c in OF_EXAMPLE if c in rows.columns)
    answered = _has_answers(rows)
    _check_labels(rows, answered)
    pool = base or _base_pool(rows)
    rows = _complete_examples(_drop_repeats(rows, drop_repeats, notes), exclude_incomplete, notes)
    attempts = rows.filter(pl.col("action") == ACCEPT).unique("example_id", keep="first", maintain_order=True)
    revisions = _number_revisions(rows.filter(pl.col("action") != ACCEPT), notes)
    if (revisions["action"] == pool).any():  # revisions' pools have the names of their actions
        raise ConflictError(
            f"the rows have an action `{pool}`, as the pool of base attempts: name that with {argument('base')}"
        )
    unsplit = attempts["split"].null_count() if "split" in attempts.columns else len(attempts)
    if unsplit and split is None:
        text = (
            f"{unsplit:,} of {len(attempts):,} examples name no split and are in `{SPLIT}`: a gate is fitted and tuned"
            " on other examples; give the rows a column `split`, or import them apart with `split` and merge"
        )
        notes.append(remark("no_split", text))
    notes += [] if answered else [remark("no_answers", "the rows hold verdicts and no answers: votes are refused")]
    notes += [] if "prompt_tokens" in _object_fields(rows, "base_usage") else [SUMS]
    tables = {
        "examples": _examples_table(attempts, split or SPLIT),
        "traces": _traces_table(attempts, revisions, pool, answered),
        "features": _features_table(attempts),
    }
    return _write_log("recovery", sources, out, name, rows, tables, notes)


def import_replay(
    sources: Sequence[str], out: str | Path, *, name: str | None = None, action: str = "active_verify"
) -> RecoveryReport:
    """Imports replay rows (base_correct, verified_correct, gate_score, verification_tokens) with a verifier `gate`."""
    check_replaceable(out, force=False)
    rows = _rows(sources, NEEDED_OF_REPLAY)
    number = pl.int_range(1, len(rows) + 1).cast(pl.String).str.zfill(len(str(len(rows))))
    rows = rows.with_columns(example_id="line " + number).with_columns(base=pl.col("example_id") + " base")
    base, revision, none = pl.col("base"), pl.col("example_id") + f" {action}", pl.lit(0, pl.Int32)
    shared: dict[str, Any] = {"model": pl.lit("unknown"), "sample_index": none, "opaque": pl.lit(True)}
    extra: dict[str, Any] = {"action": pl.lit("solve"), "pool": pl.lit(BASE), "correct": "base_correct"}
    attempts = rows.select("example_id", trace_id=base, answer=base, **shared, **extra)
    extra = {"action": pl.lit(action), "pool": pl.lit(action), "correct": "verified_correct", "parent_id": base}
    tokens = {"prompt_tokens": none, "completion_tokens": pl.col("verification_tokens")}
    revised = rows.select("example_id", trace_id=revision, answer=revision, **shared, **extra, **tokens)
    score: dict[str, Any] = {
        "verifier": pl.lit("gate"),
        "score": "gate_score",
        "prompt_tokens": none,
        "completion_tokens": none,
    }
    tables = {
        "examples": rows.select("example_id", dataset=pl.lit("replay"), split=pl.lit(SPLIT), question=pl.lit("")),
        "traces": pl.concat([attempts, revised], how="diagonal"),
        "verifications": rows.select("example_id", trace_id=base, **score),
    }
    unnamed = "the rows have no ids, so examples are named by line: pairing with other files is impossible"
    notes = [unnamed, "tokens of the base attempts are not in the rows"]
    return _write_log("replay rows", sources, out, name, rows, tables, notes)


def _write_log(
    kind: str,
    sources: Sequence[str],
    out: str | Path,
    name: str | None,
    rows: pl.DataFrame,
    tables: dict[str, pl.DataFrame],
    notes: list[str],
) -> RecoveryReport:
    """Writes the log, which is marked as simulated if any row says that it comes from a simulation."""
    simulated = "simulated" in rows.columns and bool(rows["simulated"].any())
    origin = {"imported": f"{kind.removesuffix(' rows')} rows", "files": [Path(source).name for source in sources]}
    filled = {table: frame for table, frame in tables.items() if frame.width}
    write_log(out, name=name or kind, tables=filled, source=origin, simulated=simulated)
    if simulated and kind == "recovery":
        notes.insert(0, "the rows are simulated, and so is the log")
    return RecoveryReport(len(tables["examples"]), len(tables["traces"]), tuple(notes))


def _rows(sources: Sequence[str], needed: Sequence[str]) -> pl.DataFrame:
    """Reads the rows: verdicts as bool, token counts as int, scores and features as float, texts as text.

    ThinkbackError that names the column and the first row (from 1) of a value of another kind.
    """
    table = read_sources([str(source) for source in sources], SourceRules(frozenset(COLUMNS["text"]))).table
    rows = table.with_numbers(table.frame.columns, COLUMNS["text"]).drop(PLACES, strict=False)
    if rows.is_empty():
        raise EmptyError(f"{listed(sources)} {'is' if len(sources) == 1 else 'are'} empty: no rows to import")
    for name in needed:
        if name not in rows.columns:
            raise RequiredError(f"the rows have no column `{name}`; {suggest(name, rows.columns)}")
        if rows[name].null_count():
            row = int(rows[name].is_null().arg_max() or 0) + 1
            raise InvalidError(f"column `{name}` of the rows is null in row {row:,}; give every row a value")
    kinds = {name: kind for kind, names in COLUMNS.items() for name in names if name in rows.columns}
    rows = rows.with_columns(_convert_values(rows[name], name, kind) for name, kind in kinds.items())
    if "labels" in rows.columns:
        rows = rows.with_columns(_labels(rows["labels"]))
    for name in ("features", *_base_and_action_names("usage")):
        rows = _type_object_fields(rows, name) if name in rows.columns else rows
    if "action" in rows.columns and (rows["action"] == "solve").any():
        raise ConflictError("the rows have an action `solve`, which names first attempts in a log: rename it")
    return rows.with_columns(pl.col("example_id").cast(pl.String)) if "example_id" in rows.columns else rows


def _type_object_fields(rows: pl.DataFrame, name: str) -> pl.DataFrame:
    """Gives the fields of an object column types, of usage only to known fields. Without the column nothing changes."""
    held = rows[name]
    if not isinstance(held.dtype, pl.Struct):
        if held.null_count() < len(held):
            what = "numbers" if name == "features" else "an ending and token counts"
            _raise_unfit(held, held.is_not_null(), name, f"it takes an object of {what} in each row")
        return rows.drop(name)
    for key in {"example_id", "trace_id"}.intersection(held.struct.fields) if name == "features" else ():
        raise ConflictError(f"column `features` of the rows has a field `{key}`, which names rows of a log: rename it")
    kinds = {key: "number" if name == "features" else USAGE.get(key) for key in held.struct.fields}
    inner = [
        _convert_values(held.struct.field(key), f"{name}.{key}", kind).alias(key) for key, kind in kinds.items() if kind
    ]
    return rows.with_columns(pl.struct(inner).alias(name)) if inner else rows.drop(name)


def _with_sample_index(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """The rows with `sample_index` as int from whatever column has it, null where none does, and the first notes.

    Where no row has the index 0 and some have 1, they count from 1, and all are one less.
    """
    index = next((name for name in INDEX if name in rows.columns), None)
    if index is None:
        return rows.with_columns(sample_index=pl.lit(None, pl.Int32)), []
    read = _convert_values(rows[index], index, "index").alias("sample_index")
    if read.min() == 1:
        return rows.with_columns(read - 1), [f"`{index}` counts from 1, and sample indices from 0: they are one less"]
    return rows.with_columns(read), []


def _convert_values(values: pl.Series, name: str, kind: str) -> pl.Series:
    """Converts values to a kind. ThinkbackError for the first that does not fit, such as any list or object."""
    value, advice = _KINDS[kind]
    flat = pl.repeat(None, len(values), dtype=pl.Null, eager=True) if values.dtype.is_nested() else values
    return _check_converted(flat.to_frame("value").select(value).to_series().alias(values.name), values, name, advice)


def _labels(values: pl.Series) -> pl.Series:
    advice = "labels are a list of strings, each of them once"
    items, kind = parse_lists(values) if values.dtype == pl.String else (values, values.dtype)
    flat = isinstance(kind, pl.List) and not (kind.inner.is_nested() or kind.inner.is_float())
    if not flat and items.null_count() < len(items):
        _raise_unfit(items, items.is_not_null(), "labels", advice)
    read = (items if flat else items.cast(pl.Null)).cast(pl.List(pl.String)).alias("labels")
    listed_ = pl.col("labels").list
    whole = pl.when((listed_.n_unique() == listed_.len()) & ~listed_.contains(None)).then(pl.col("labels"))
    return _check_converted(read.to_frame().select(whole).to_series(), values, "labels", advice)


def _check_converted(read: pl.Series, values: pl.Series, name: str, advice: str) -> pl.Series:
    odd = read.is_null() & values.is_not_null()
    if odd.any():
        _raise_unfit(values, odd, name, advice)
    return read


def _raise_unfit(values: pl.Series, odd: pl.Series, name: str, advice: str) -> NoReturn:
    row = int(odd.arg_max() or 0)
    held = values.dtype if values.dtype.is_nested() else f"`{values[row]}`"
    raise InvalidError(f"column `{name}` of the rows holds {held} in row {row + 1:,}; {advice}")


def _check_verdicts(rows: pl.DataFrame) -> None:
    """Raises where an accept row changes the verdict or spends tokens, or a fix or flip contradicts the verdicts."""
    base, final, accepts = pl.col("base_correct"), pl.col("final_correct"), pl.col("action") == ACCEPT
    _raise_first(rows, accepts & (final != base), "the row accepts, but its `final_correct` is not its `base_correct`")
    if (spent := "action_actual_tokens") in rows.columns:
        what = f"the row accepts, which spends nothing, but its `{spent}` is not 0"
        _raise_first(rows, accepts & (pl.col(spent) > 0), what)
    for name, meant in (("helpful_fix", ~base & final), ("harmful_flip", base & ~final)):
        if name in rows.columns:
            _raise_first(rows, pl.col(name) != meant, f"`{name}` contradicts `base_correct` and `final_correct`")


def _check_labels(rows: pl.DataFrame, answered: bool) -> None:
    """Raises where gold is not among the labels, or where a verdict on an answer among labels does not follow gold.

    Without answers (`answered` false) verdicts are not checked against labels.
    """
    if "labels" not in rows.columns:
        return
    closed, gold = pl.col("labels").list.len().fill_null(0) > 0, _column_or_null(rows, "gold", pl.String())
    outside = closed & ~pl.col("labels").list.contains(gold) & gold.is_not_null()
    _raise_first(rows, outside, "its `gold` is not one of its `labels`")
    for whose in ("base", "final") if answered else ():
        right = pl.col(f"{whose}_answer").eq_missing(gold) & gold.is_not_null()
        what = f"with `labels`, an answer is right where it is the `gold` one, and its `{whose}_correct` disagrees"
        _raise_first(rows, closed & (pl.col(f"{whose}_correct") != right), what)


def _raise_first(rows: pl.DataFrame, condition: pl.Expr, fault: str) -> None:
    odd = rows.select(condition.fill_null(False)).to_series()
    if odd.any():
        row = int(odd.arg_max() or 0)
        raise InvalidError(
            f"row {row + 1:,} of the rows (example `{rows['example_id'][row]}`, action `{rows['action'][row]}`): "
            f"{fault}; {int(odd.sum()):,} rows do so: correct them"
        )


def _check_base(rows: pl.DataFrame) -> None:
    """Raises for examples whose rows describe different base attempts."""
    columns = ("base_correct", "base_response", "base_actual_tokens", "base_finalizer_used", *OF_EXAMPLE)
    of_accepts = ("query", "question", "features", *FEATURES)
    for names, those in ((columns, rows), (of_accepts, rows.filter(pl.col("action") == ACCEPT))):
        known = [name for name in names if name in rows.columns]
        values = those.group_by("example_id", maintain_order=True).agg(pl.col(known).drop_nulls().n_unique())
        odd = values.filter(pl.any_horizontal(pl.col(known) > 1)) if known else values.clear()
        if len(odd):
            differing = ", ".join(f"`{name}`" for name in known if (odd[name] > 1).any())
            raise ConflictError(
                f"{_examples_with_verb(odd)} several base samples ({_listed_ids(odd)}): rows differ in {differing}"
                "; give each base attempt an example of its own"
            )


def _base_pool(rows: pl.DataFrame) -> str:
    """The name of the base attempts' pool, as the rows give it."""
    named = rows["base_pool"].drop_nulls().unique().sort() if "base_pool" in rows.columns else pl.Series([BASE])
    if len(named) > 1:
        raise AmbiguousError(
            f"the rows' base attempts are of {len(named):,} pools ({listed(list(named[:MAX_NAMED]))}), and an example "
            f"has one base attempt: import the rows of each by themselves, or name one for all with {argument('base')}"
        )
    return str(named[0]) if len(named) else BASE


def _has_answers(rows: pl.DataFrame) -> bool:
    """Whether the rows hold answers: both columns are there, and no right verdict lacks an answer."""
    if not {"base_answer", "final_answer"} <= set(rows.columns):
        return False
    lacking = [pl.col(f"{one}_correct") & pl.col(f"{one}_answer").is_null() for one in ("base", "final")]
    return not rows.select(pl.any_horizontal(lacking).any()).item()


def _drop_repeats(rows: pl.DataFrame, drop_equal: bool, notes: list[str]) -> pl.DataFrame:
    """The rows without repeats: the first one stays. A row without a sample index is a rollout of its own."""
    known = rows["sample_index"].is_not_null()
    first = pl.struct("example_id", "action", "sample_index").is_first_distinct()
    again = rows.select(~first).to_series() & known
    accepts = rows.filter(~again & (rows["action"] == ACCEPT))
    more = accepts.filter(~accepts["example_id"].is_first_distinct())
    if len(more):
        notes.append(f"dropped {len(more):,} accept rows: earlier ones accept the same ({_listed_ids(more)})")
    if again.any():
        what = f"one of the same example, action and sample came before ({_listed_ids(rows.filter(again))})"
        notes.append(f"dropped {int(again.sum()):,} rows: {what}")
    whole = rows.select(pl.struct(pl.all()).struct.json_encode()).to_series()
    equal = ~whole.is_first_distinct() & ~known & (rows["action"] != ACCEPT)
    if equal.any():
        those = rows.filter(equal)
        what = f"{len(those):,} rows without a sample index are equal to one before ({_listed_ids(those)})"
        text = f"{what}: kept as rollouts of their own; `drop_repeats` drops them"
        notes.append(f"dropped {what}" if drop_equal else text)
    return rows.filter(~again & ~equal if drop_equal else ~again)


def _complete_examples(rows: pl.DataFrame, exclude: bool, notes: list[str]) -> pl.DataFrame:
    """The examples with an accept row and every action that the rows have. Others raise an error, or are left out."""
    actions = rows.group_by("example_id", maintain_order=True).agg(pl.col("action").unique())
    for action in [ACCEPT, *sorted(set(rows["action"]) - {ACCEPT})]:
        lacking = actions.filter(~pl.col("action").list.contains(action))
        if lacking.is_empty():
            continue
        if len(lacking) == len(actions):
            raise EmptyError(f"no example has a row of action `{action}`: add one for each base attempt")
        what = f"{_examples_with_verb(lacking)} no row of action `{action}` ({_listed_ids(lacking)})"
        if not exclude:
            raise IncompleteError(
                f"{what}: complete the rows, or leave those examples out with {argument('exclude_incomplete')}"
            )
        notes.append(f"left out: {what}")
        rows = rows.filter(~pl.col("example_id").is_in(lacking["example_id"].implode()))
    if set(rows["action"]) <= {ACCEPT}:
        raise EmptyError("the rows have no action but `accept`, so there is nothing to intervene with")
    return rows


def _number_revisions(revisions: pl.DataFrame, notes: list[str]) -> pl.DataFrame:
    """The revisions with a sample index each: the given one, else the next ones in order."""
    of = ("example_id", "action")
    last = pl.col("sample_index").max().over(of).cast(pl.Int64).fill_null(-1)
    place = last + pl.col("sample_index").is_null().cum_sum().over(of).cast(pl.Int64)
    filled = revisions.with_columns(sample_index=pl.coalesce(pl.col("sample_index").cast(pl.Int64), place))
    beyond = filled.filter(pl.col("sample_index") > MOST)
    if len(beyond):
        raise LimitError(f"the sample indices of {_listed_ids(beyond)} are too large: number rows 0, 1, 2 …")
    spans = filled.group_by(of, maintain_order=True).agg(pl.col("sample_index").max() + 1, rows=pl.len())
    broken = spans.filter(pl.col("sample_index") != pl.col("rows"))
    if len(broken):
        notes.append(
            f"{_examples_with_verb(broken.unique('example_id'))} a gap in the sample indices of an action"
            f" ({_listed_ids(broken)}): revisions after it are kept and not replayed; number the rows of each"
            " action 0, 1, 2 …"
        )
    return filled.with_columns(pl.col("sample_index").cast(pl.Int32))


def _examples_table(attempts: pl.DataFrame, split: str) -> pl.DataFrame:
    """The table `examples`, from the accept rows. `split` is for rows that name none."""
    return attempts.select(
        "example_id",
        *[name for name in OF_EXAMPLE if name in attempts.columns],
        dataset=_first_text(attempts, ("dataset", "task_type"), "recovery"),
        split=_first_text(attempts, ("split",), split),
        question=_first_text(attempts, ("query", "question"), ""),
    )


def _traces_table(attempts: pl.DataFrame, revisions: pl.DataFrame, pool: str, answered: bool) -> pl.DataFrame:
    """The table `traces`: a base attempt in `pool` for each accept row, and a trace for each revision.

    Without answers (`answered` false) the traces are opaque.
    """
    base, action = pl.col("example_id") + " base", pl.col("action")
    response = next((c for c in RESPONSES if c in revisions.columns), "")
    numbered = pl.concat_str("example_id", "action", pl.col("sample_index").cast(pl.String), separator=" ")
    bases = _call_traces(
        attempts, "base", "base", base, answered,
        pool=pl.lit(pool), action=pl.lit("solve"), sample_index=pl.lit(0, pl.Int32),
        model=_first_text(attempts, ("base_model", "model"), "unknown"),
        text=_column_or_null(attempts, "base_response", pl.String()),
    )  # fmt: skip
    revised = _call_traces(
        revisions, "action", "final", numbered, answered,
        pool=action, action=action, sample_index=pl.col("sample_index"), parent_id=base,
        model=_first_text(revisions, ("model",), "unknown"), text=_column_or_null(revisions, response, pl.String()),
        response_empty=_column_or_null(revisions, "intervention_response_empty", pl.Boolean()),
    )  # fmt: skip
    return pl.concat([bases, revised], how="diagonal")


def _call_traces(
    rows: pl.DataFrame, whose: str, verdict: str, trace: pl.Expr, answered: bool, **more: pl.Expr
) -> pl.DataFrame:
    """Traces named `trace`, with the calls and tokens of `whose`, and the answers and verdicts of `verdict`.

    Prompt and completion tokens are as the usage tells them, where they make the total or none is given. Else the total
    goes to the completion's tokens, and the prompt's are 0.
    """
    total, usage = _column_or_null(rows, f"{whose}_actual_tokens", pl.Int32()), f"{whose}_usage"
    known = _object_fields(rows, usage)
    cells = {name: pl.col(usage).struct.field(name) if name in known else pl.lit(None) for name in USAGE}
    prompt, completion = (cells[f"{one}_tokens"].cast(pl.Int32) for one in ("prompt", "completion"))
    apart = total.is_null() | (prompt.cast(pl.Int64) + completion.cast(pl.Int64) == total).fill_null(False)
    types = {"max_tokens": pl.Int32(), "tokens_estimated": pl.Boolean()}
    calls = {name: f"{whose}_{name}" for name in CALLS if f"{whose}_{name}" in rows.columns}
    return rows.select(
        "example_id",
        trace_id=trace,
        answer=pl.col(f"{verdict}_answer") if answered else trace,
        correct=pl.col(f"{verdict}_correct"),
        opaque=pl.lit(not answered),
        finish_reason=pl.coalesce(cells["done_reason"], _column_or_null(rows, f"{whose}_done_reason", pl.String())),
        finalizer_used=_column_or_null(rows, f"{whose}_finalizer_used", pl.Boolean()),
        prompt_tokens=pl.when(apart).then(prompt).otherwise(0).cast(pl.Int32),
        completion_tokens=pl.when(apart).then(completion).otherwise(total),
        **{name: pl.col(column).cast(types.get(name, pl.Float32())) for name, column in calls.items()},
        **more,
    )


def _features_table(attempts: pl.DataFrame) -> pl.DataFrame:
    """The table of the base attempts' features: the paper's five and any others. It has no columns without any."""
    inner = {name: pl.col("features").struct.field(name) for name in _object_fields(attempts, "features")}
    columns = inner | {name: pl.col(name) for name in FEATURES if name in attempts.columns and name not in inner}
    typed = {name: column.cast(pl.Float64) for name, column in columns.items()}
    key = {"trace_id": pl.col("example_id") + " base"}
    return attempts.select("example_id", **key, **typed) if typed else pl.DataFrame()


def _object_fields(frame: pl.DataFrame, column: str) -> list[str]:
    """The fields of an object column; empty where the rows lack the column."""
    held = frame.schema.get(column)
    return [field.name for field in held.fields] if isinstance(held, pl.Struct) else []


def _first_text(frame: pl.DataFrame, names: Sequence[str], default: str) -> pl.Expr:
    """The first of some columns that is not empty, row by row; else `default`."""
    return pl.coalesce(*(pl.col(name) for name in names if name in frame.columns), pl.lit(default))


def _column_or_null(frame: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.Expr:
    return pl.col(name) if name in frame.columns else pl.lit(None, dtype)


def _examples_with_verb(frame: pl.DataFrame) -> str:
    return f"{counted(len(frame), 'example')} {'have' if len(frame) > 1 else 'has'}"


def _listed_ids(frame: pl.DataFrame) -> str:
    return listed(list(frame["example_id"].unique(maintain_order=True)[:MAX_NAMED]))
