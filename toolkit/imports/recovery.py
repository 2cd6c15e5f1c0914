"""SeVRA's logged outcomes: recovery rows (one per example and action) and replay rows (one per example, no id).

Rows hold verdicts and, unless we exported them, no answers, so their traces are opaque; prompt and completion tokens
come as one sum, unless the usage tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from toolkit.errors import ThinkbackError, suggest
from toolkit.files import check_replaceable
from toolkit.imports.literals import TEXT_OF
from toolkit.imports.recovery_columns import FEATURES, check_verdicts, typed
from toolkit.imports.sources import PLACES, read_sources
from toolkit.log import write_log

ACCEPT = "accept"
BASE, SPLIT = "base", "test"
NEEDED = ("example_id", "action", "base_correct", "final_correct")
INDEX = ("sample_index", "rollout", "sample")
SHOWN = 3
SUMS = "tokens are sums of prompt and completion; they stand in completion_tokens"


@dataclass(frozen=True)
class RecoveryReport:
    """What an import of recovery or replay rows did; `notes` are lines for people."""

    examples: int
    traces: int
    notes: tuple[str, ...]


def import_recovery(
    sources: Sequence[str],
    out: str | Path,
    *,
    name: str | None = None,
    split: str | None = None,
    exclude: bool = False,
    drop_repeats: bool = False,
    base: str | None = None,
) -> RecoveryReport:
    """Recovery rows into a log with a pool of base attempts and a revision of each for every other action.

    That pool is called `base`, by default what the rows' `base_pool` says, else "base"; examples whose rows name no
    split are in `split`, by default "test".
    Rows of one example, action and sample index are repeats, of which the first wins; rows without an index are
    rollouts in their order, and of those that are equal throughout the first wins with `drop_repeats`. `exclude`
    leaves out examples without an accept row or without an action that others have; otherwise they are an error.
    ThinkbackError, and nothing is written, for that, missing columns, values of another type, verdicts that
    contradict each other, accept rows that spend tokens, or base attempts that differ within an example.
    """
    check_replaceable(out, force=False)
    rows = _rows(sources, NEEDED)
    _one_base(rows)
    check_verdicts(rows)
    pool = base or _base_pool(rows)
    rows, repeats = _first_wins(rows, drop_repeats)
    rows, gone = _complete(rows, exclude)
    attempts = rows.filter(pl.col("action") == ACCEPT).unique("example_id", keep="first", maintain_order=True)
    revisions = rows.filter(pl.col("action") != ACCEPT)
    _check_pools(revisions, pool)
    examples = attempts.select(
        "example_id",
        dataset=_text(attempts, ("dataset", "task_type"), "recovery"),
        split=_text(attempts, ("split",), split or SPLIT),
        question=_text(attempts, ("query", "question"), ""),
    )
    answered = _answered(rows)
    traces = pl.concat([_base_traces(attempts, pool, answered), _revision_traces(revisions, answered)], how="diagonal")
    tables = {"examples": examples, "traces": traces}
    found = _features(attempts)
    if found is not None:
        tables["features"] = found
    origin = {"imported": "recovery rows", "files": [Path(source).name for source in sources]}
    simulated = _simulated(rows)
    write_log(out, name=name or "recovery", tables=tables, source=origin, simulated=simulated)
    notes = [
        "the rows are simulated, and so is the log" if simulated else "",
        *repeats,
        *gone,
        _unsplit(attempts, split),
        "" if answered else "the rows hold verdicts and no answers: votes are refused",
        "" if "prompt_tokens" in _told(rows, "base_usage") else SUMS,
    ]
    return RecoveryReport(len(examples), len(traces), tuple(note for note in notes if note))


def import_replay(
    sources: Sequence[str], out: str | Path, *, name: str | None = None, action: str = "active_verify"
) -> RecoveryReport:
    """Replay rows (base_correct, verified_correct, gate_score, verification_tokens) into a log with verifier `gate`."""
    check_replaceable(out, force=False)
    rows = _rows(sources, ("base_correct", "verified_correct", "gate_score", "verification_tokens"))
    width = len(str(len(rows)))
    number = pl.int_range(1, len(rows) + 1).cast(pl.String).str.zfill(width)
    ids = rows.select(example_id=pl.lit("line ") + number).to_series()
    examples = pl.DataFrame({"example_id": ids}).with_columns(
        dataset=pl.lit("replay"), split=pl.lit("test"), question=pl.lit("")
    )
    shared = {"example_id": ids, "model": ["unknown"] * len(ids), "sample_index": [0] * len(ids), "opaque": True}
    base = pl.DataFrame(
        {**shared, "trace_id": ids + " base", "pool": BASE, "action": "solve", "correct": rows["base_correct"]}
    )
    revised = pl.DataFrame(
        {
            **shared, "trace_id": ids + f" {action}", "pool": action, "action": action, "parent_id": ids + " base",
            "correct": rows["verified_correct"], "prompt_tokens": 0, "completion_tokens": rows["verification_tokens"],
        }
    )  # fmt: skip
    traces = pl.concat([base, revised], how="diagonal").with_columns(answer=pl.col("trace_id"))
    scores = pl.DataFrame({"trace_id": ids + " base", "verifier": "gate", "example_id": ids}).with_columns(
        score=rows["gate_score"], prompt_tokens=pl.lit(0), completion_tokens=pl.lit(0)
    )
    origin = {"imported": "replay rows", "files": [Path(source).name for source in sources]}
    tables = {"examples": examples, "traces": traces, "verifications": scores}
    write_log(out, name=name or "replay rows", tables=tables, source=origin, simulated=_simulated(rows))
    note = "the rows have no ids, so examples are named by line: pairing with other files is impossible"
    return RecoveryReport(len(examples), len(traces), (note, "tokens of the base attempts are not in the rows"))


def _rows(sources: Sequence[str], needed: Sequence[str]) -> pl.DataFrame:
    rows = read_sources([str(source) for source in sources], frozenset()).frame
    rows = rows.drop([name for name in rows.columns if name.startswith(TEXT_OF) or name in PLACES])
    if rows.is_empty():
        listed = ", ".join(f"`{source}`" for source in sources)
        raise ThinkbackError(f"{listed} {'is' if len(sources) == 1 else 'are'} empty: no rows to import")
    for name in needed:
        if name not in rows.columns:
            raise ThinkbackError(f"the rows have no column `{name}`; {suggest(name, rows.columns)}")
        if rows[name].null_count():
            row = int(rows[name].is_null().arg_max() or 0) + 1
            raise ThinkbackError(f"column `{name}` of the rows is null in row {row:,}; give every row a value")
    rows = typed(rows)
    if "action" in rows.columns and (rows["action"] == "solve").any():
        raise ThinkbackError("the rows have an action `solve`, which names first attempts in a log: rename it")
    return rows.with_columns(pl.col("example_id").cast(pl.String)) if "example_id" in rows.columns else rows


def _first_wins(rows: pl.DataFrame, drop_equal: bool) -> tuple[pl.DataFrame, list[str]]:
    """Rows without repeats, and what is said of those. A row without a sample index is a rollout of its own."""
    index = next((name for name in INDEX if name in rows.columns), None)
    known = rows[index].is_not_null() if index is not None else pl.repeat(False, len(rows), eager=True)
    first = pl.struct("example_id", "action", *([index] if index is not None else [])).is_first_distinct()
    again = rows.select(~first).to_series() & known
    notes = []
    accepts = rows.filter(~again & (rows["action"] == ACCEPT))
    more = accepts.filter(~accepts["example_id"].is_first_distinct())
    if len(more):
        notes.append(f"dropped {len(more):,} accept rows: their examples have one before ({_listed(more)})")
    if again.any():
        told = _listed(rows.filter(again))
        notes.append(
            f"dropped {int(again.sum()):,} rows: one of the same example, action and sample came before ({told})"
        )
    whole = rows.select(pl.struct(pl.all()).struct.json_encode()).to_series()
    equal = ~whole.is_first_distinct() & ~known & (rows["action"] != ACCEPT)
    if equal.any():
        what = (
            f"{int(equal.sum()):,} rows without a sample index are equal to one before ({_listed(rows.filter(equal))})"
        )
        kept = f"{what}: kept as rollouts of their own; `--drop-repeats` drops them"
        notes.append(f"dropped {what}" if drop_equal else kept)
    return rows.filter(~again & ~equal if drop_equal else ~again), notes


def _simulated(rows: pl.DataFrame) -> bool:
    """Whether any row says that it comes of a simulated log."""
    return "simulated" in rows.columns and bool(rows["simulated"].any())


def _base_pool(rows: pl.DataFrame) -> str:
    """The name that the rows have for the pool of the base attempts."""
    if "base_pool" not in rows.columns:
        return BASE
    named = rows["base_pool"].drop_nulls().unique().sort()
    if len(named) > 1:
        listed = ", ".join(f"`{name}`" for name in named[:SHOWN])
        raise ThinkbackError(
            f"the rows' base attempts are of {len(named):,} pools ({listed}), and an example has one base attempt: "
            "import the rows of each by themselves, or name one for all with `--base`"
        )
    return str(named[0]) if len(named) else BASE


def _check_pools(revisions: pl.DataFrame, base: str) -> None:
    """Refuse an action called as the pool of the base attempts: revisions' pools have the names of their actions."""
    if (revisions["action"] == base).any():
        raise ThinkbackError(f"the rows have an action `{base}`, as the pool of base attempts: name that with `--base`")


def _unsplit(attempts: pl.DataFrame, split: str | None) -> str:
    """A note on examples that were put into a split because their rows name none; empty where that was asked for."""
    count = attempts["split"].null_count() if "split" in attempts.columns else len(attempts)
    if not count or split is not None:
        return ""
    return (
        f"{count:,} of {len(attempts):,} examples name no split and are in `{SPLIT}`: a gate is fitted and tuned on "
        "other examples; give the rows a column `split`, or import them apart with `--split` and merge"
    )


def _one_base(rows: pl.DataFrame) -> None:
    """Refuse examples whose rows tell of different base attempts."""
    told = ("base_correct", "base_response", "base_actual_tokens", "base_finalizer_used")
    _refuse_several(rows, [name for name in told if name in rows.columns])
    accepts = rows.filter(pl.col("action") == ACCEPT)
    _refuse_several(accepts, [name for name in ("query", "question", "features", *FEATURES) if name in rows.columns])


def _refuse_several(rows: pl.DataFrame, told: Sequence[str]) -> None:
    distinct = rows.group_by("example_id", maintain_order=True).agg(pl.col(c).drop_nulls().n_unique() for c in told)
    odd = distinct.filter(pl.any_horizontal(pl.col(told) > 1)) if told else distinct.clear()
    if len(odd):
        raise ThinkbackError(
            f"{_examples(odd)} several base samples ({_listed(odd)}): their rows differ in "
            f"{', '.join(f'`{c}`' for c in told if (odd[c] > 1).any())}; give each base attempt an example of its own"
        )


def _complete(rows: pl.DataFrame, exclude: bool) -> tuple[pl.DataFrame, list[str]]:
    """Examples with an accept row and with every action that the rows have; the others refused, or left out."""
    actions = rows.group_by("example_id", maintain_order=True).agg(pl.col("action").unique())
    notes = []
    for action in [ACCEPT, *sorted(set(rows["action"]) - {ACCEPT})]:
        lacking = actions.filter(~pl.col("action").list.contains(action))
        if lacking.is_empty():
            continue
        if len(lacking) == len(actions):
            raise ThinkbackError(f"no example has a row of action `{action}`: add one for each base attempt")
        what = f"{_examples(lacking)} no row of action `{action}` ({_listed(lacking)})"
        if not exclude:
            raise ThinkbackError(f"{what}: complete the rows, or leave those examples out with `--exclude-incomplete`")
        notes.append(f"left out: {what}")
        rows = rows.filter(~pl.col("example_id").is_in(lacking["example_id"].implode()))
    if set(rows["action"]) <= {ACCEPT}:
        raise ThinkbackError("the rows have no action but `accept`, so there is nothing to intervene with")
    return rows, notes


def _examples(frame: pl.DataFrame) -> str:
    return f"{len(frame):,} example{'s have' if len(frame) > 1 else ' has'}"


def _listed(frame: pl.DataFrame) -> str:
    return ", ".join(f"`{name}`" for name in frame["example_id"].unique(maintain_order=True)[:SHOWN])


def _text(frame: pl.DataFrame, names: Sequence[str], default: str) -> pl.Expr:
    found = [pl.col(name).cast(pl.String) for name in names if name in frame.columns]
    return pl.coalesce(*found, pl.lit(default))


def _told(frame: pl.DataFrame, column: str) -> set[str]:
    """Fields of a column of objects; none where the rows have no such column."""
    usage = frame.schema.get(column)
    return {field.name for field in usage.fields} if isinstance(usage, pl.Struct) else set()


def _usage(frame: pl.DataFrame, column: str, key: str, dtype: Any = pl.String) -> pl.Expr:
    """A field of `base_usage` or `action_usage`, null where there is none."""
    known = key in _told(frame, column)
    return pl.col(column).struct.field(key).cast(dtype, strict=False) if known else pl.lit(None, dtype)


def _prompt(frame: pl.DataFrame, column: str, total: pl.Expr) -> pl.Expr:
    """Prompt tokens as the usage tells them, where they and the completion's make the total; else 0 of a total."""
    parts = [_usage(frame, column, f"{one}_tokens", pl.Int32) for one in ("prompt", "completion")]
    told = pl.when(parts[0] + parts[1] == total).then(parts[0])
    return pl.coalesce(told, pl.when(total.is_not_null()).then(0)).cast(pl.Int32)


def _done(frame: pl.DataFrame, whose: str) -> pl.Expr:
    """Why the base's or the action's call ended, from its usage or a column of its own."""
    own = _column(frame, f"{whose}_done_reason", pl.String)
    return pl.coalesce(_usage(frame, f"{whose}_usage", "done_reason"), own)


def _answered(rows: pl.DataFrame) -> bool:
    """Whether the rows hold answers: both columns, and no right verdict without one."""
    if not {"base_answer", "final_answer"} <= set(rows.columns):
        return False
    lacking = (pl.col("base_correct") & pl.col("base_answer").is_null()) | (
        pl.col("final_correct") & pl.col("final_answer").is_null()
    )
    return not rows.select(lacking.any()).item()


def _column(frame: pl.DataFrame, name: str, dtype: Any) -> pl.Expr:
    return pl.col(name).cast(dtype) if name in frame.columns else pl.lit(None, dtype)


def _base_traces(base: pl.DataFrame, pool: str, answered: bool) -> pl.DataFrame:
    trace = pl.col("example_id") + " base"
    tokens = _column(base, "base_actual_tokens", pl.Int32)
    prompt = _prompt(base, "base_usage", tokens)
    return base.select(
        "example_id",
        trace_id=trace,
        pool=pl.lit(pool),
        action=pl.lit("solve"),
        sample_index=pl.lit(0, pl.Int32),
        model=_text(base, ("base_model", "model"), "unknown"),
        text=_column(base, "base_response", pl.String),
        answer=pl.col("base_answer") if answered else trace,
        correct=pl.col("base_correct"),
        opaque=pl.lit(not answered),
        prompt_tokens=prompt,
        completion_tokens=tokens - prompt,
        finish_reason=_done(base, "base"),
        finalizer_used=_column(base, "base_finalizer_used", pl.Boolean),
    )


def _revision_traces(rows: pl.DataFrame, answered: bool) -> pl.DataFrame:
    index = pl.int_range(pl.len()).over("example_id", "action").cast(pl.Int32)
    trace = pl.col("example_id") + " " + pl.col("action") + " " + index.cast(pl.String)
    tokens = _column(rows, "action_actual_tokens", pl.Int32)
    prompt = _prompt(rows, "action_usage", tokens)
    response = next(
        (c for c in ("intervention_response", "final_response", "action_response") if c in rows.columns), ""
    )
    return rows.select(
        "example_id",
        trace_id=trace,
        pool=pl.col("action"),
        action=pl.col("action"),
        parent_id=pl.col("example_id") + " base",
        sample_index=index,
        model=_text(rows, ("model",), "unknown"),
        text=_column(rows, response, pl.String),
        answer=pl.col("final_answer") if answered else trace,
        correct=pl.col("final_correct"),
        opaque=pl.lit(not answered),
        prompt_tokens=prompt,
        completion_tokens=tokens - prompt,
        finish_reason=_done(rows, "action"),
        finalizer_used=_column(rows, "action_finalizer_used", pl.Boolean),
        response_empty=_column(rows, "intervention_response_empty", pl.Boolean),
    )


def _features(base: pl.DataFrame) -> pl.DataFrame | None:
    """The five task features of the base attempts, or of those that the rows have."""
    held = base.schema.get("features")
    inner = [field.name for field in held.fields] if isinstance(held, pl.Struct) else []
    flat = [name for name in FEATURES if name in base.columns]
    if not inner and not flat:
        return None
    columns = {name: pl.col("features").struct.field(name).cast(pl.Float64) for name in inner}
    columns |= {name: pl.col(name).cast(pl.Float64) for name in flat if name not in inner}
    return base.select("example_id", trace_id=pl.col("example_id") + " base", **columns)
