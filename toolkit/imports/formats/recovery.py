"""SeVRA's logged outcomes: recovery rows (one per example and action) and replay rows (one per example, no id).

Rows hold verdicts and, unless we exported them, no answers, so their traces are opaque; prompt and completion tokens
come as one sum, unless the usage tells them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from toolkit.errors import ThinkbackError, argument, listed, suggest
from toolkit.files import check_replaceable
from toolkit.imports.formats.recovery_columns import FEATURES, MOST, TEXTS, check_labels, check_verdicts, indexed, typed
from toolkit.imports.formats.recovery_tables import answered_by, examples_of, features_of, told_fields, traces_of
from toolkit.imports.rows.sources import PLACES, SourceRules, read_sources
from toolkit.log import write_log

ACCEPT = "accept"
BASE, SPLIT = "base", "test"
NEEDED = ("example_id", "action", "base_correct", "final_correct")
OF_EXAMPLE = ("gold", "labels", "cluster")
MAX_NAMED = 3
SUMS = "tokens are sums of prompt and completion; they are in completion_tokens"


@dataclass(frozen=True)
class RecoveryReport:
    """What an import of recovery or replay rows did; `notes` are lines for people."""

    examples: int
    traces: int
    notes: tuple[str, ...]

    def told(self) -> tuple[str, ...]:
        """What a user is told of the import."""
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
    """Recovery rows into a log with a pool of base attempts and a revision of each for every other action.

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
    rows, counted = indexed(_rows(sources, NEEDED))
    _one_base(rows)
    check_verdicts(rows)
    shared = [pl.col(c).drop_nulls().first().over("example_id") for c in OF_EXAMPLE if c in rows.columns]
    rows = rows.with_columns(shared)
    answered = answered_by(rows)
    check_labels(rows, answered)
    pool = base or _base_pool(rows)
    rows, repeats = _first_wins(rows, drop_repeats)
    rows, gone = _complete(rows, exclude_incomplete)
    attempts = rows.filter(pl.col("action") == ACCEPT).unique("example_id", keep="first", maintain_order=True)
    revisions, gaps = _numbered(rows.filter(pl.col("action") != ACCEPT))
    if (revisions["action"] == pool).any():  # revisions' pools have the names of their actions
        raise ThinkbackError(
            f"the rows have an action `{pool}`, as the pool of base attempts: name that with {argument('base')}"
        )
    examples = examples_of(attempts, split or SPLIT)
    traces = traces_of(attempts, revisions, pool, answered)
    tables = {"examples": examples, "traces": traces}
    found = features_of(attempts)
    if found is not None:
        tables["features"] = found
    origin = {"imported": "recovery rows", "files": [Path(source).name for source in sources]}
    simulated = _simulated(rows)
    write_log(out, name=name or "recovery", tables=tables, source=origin, simulated=simulated)
    notes = [
        "the rows are simulated, and so is the log" if simulated else "",
        counted,
        *repeats,
        *gone,
        gaps,
        _unsplit(attempts, split),
        "" if answered else "the rows hold verdicts and no answers: votes are refused",
        "" if "prompt_tokens" in told_fields(rows, "base_usage") else SUMS,
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
    table = read_sources([str(source) for source in sources], SourceRules(frozenset(TEXTS))).table
    rows = table.computable(table.frame.columns, TEXTS).drop(PLACES, strict=False)
    if rows.is_empty():
        raise ThinkbackError(f"{listed(sources)} {'is' if len(sources) == 1 else 'are'} empty: no rows to import")
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
    known = rows["sample_index"].is_not_null()
    first = pl.struct("example_id", "action", "sample_index").is_first_distinct()
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
        kept = f"{what}: kept as rollouts of their own; `drop_repeats` drops them"
        notes.append(f"dropped {what}" if drop_equal else kept)
    return rows.filter(~again & ~equal if drop_equal else ~again), notes


def _numbered(revisions: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Revisions with an index each: their own, else by order after the last one given; and a note on gaps."""
    of = ("example_id", "action")
    last = pl.col("sample_index").max().over(of).cast(pl.Int64).fill_null(-1)
    place = last + pl.col("sample_index").is_null().cum_sum().over(of).cast(pl.Int64)
    made = revisions.with_columns(sample_index=pl.coalesce(pl.col("sample_index").cast(pl.Int64), place))
    beyond = made.filter(pl.col("sample_index") > MOST)
    if len(beyond):
        raise ThinkbackError(f"the sample indices of {_listed(beyond)} are too large: number rows 0, 1, 2 …")
    spans = made.group_by(of, maintain_order=True).agg(pl.col("sample_index").max() + 1, rows=pl.len())
    broken = spans.filter(pl.col("sample_index") != pl.col("rows"))
    note = (
        f"{_examples(broken.unique('example_id'))} a gap in the sample indices of an action ({_listed(broken)}): "
        "revisions after it are kept and not replayed; number the rows of each action 0, 1, 2 …"
    )
    return made.with_columns(pl.col("sample_index").cast(pl.Int32)), note if len(broken) else ""


def _simulated(rows: pl.DataFrame) -> bool:
    """Whether any row says that it comes of a simulated log."""
    return "simulated" in rows.columns and bool(rows["simulated"].any())


def _base_pool(rows: pl.DataFrame) -> str:
    """The name that the rows have for the pool of the base attempts."""
    if "base_pool" not in rows.columns:
        return BASE
    named = rows["base_pool"].drop_nulls().unique().sort()
    if len(named) > 1:
        raise ThinkbackError(
            f"the rows' base attempts are of {len(named):,} pools ({listed(list(named[:MAX_NAMED]))}), and an example "
            f"has one base attempt: import the rows of each by themselves, or name one for all with {argument('base')}"
        )
    return str(named[0]) if len(named) else BASE


def _unsplit(attempts: pl.DataFrame, split: str | None) -> str:
    """A note on examples that were put into a split because their rows name none; empty where that was asked for."""
    count = attempts["split"].null_count() if "split" in attempts.columns else len(attempts)
    if not count or split is not None:
        return ""
    return (
        f"{count:,} of {len(attempts):,} examples name no split and are in `{SPLIT}`: a gate is fitted and tuned on "
        "other examples; give the rows a column `split`, or import them apart with `split` and merge"
    )


def _one_base(rows: pl.DataFrame) -> None:
    """Refuse examples whose rows tell of different base attempts."""
    told = ("base_correct", "base_response", "base_actual_tokens", "base_finalizer_used")
    _refuse_several(rows, [name for name in (*told, *OF_EXAMPLE) if name in rows.columns])
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
            raise ThinkbackError(
                f"{what}: complete the rows, or leave those examples out with {argument('exclude_incomplete')}"
            )
        notes.append(f"left out: {what}")
        rows = rows.filter(~pl.col("example_id").is_in(lacking["example_id"].implode()))
    if set(rows["action"]) <= {ACCEPT}:
        raise ThinkbackError("the rows have no action but `accept`, so there is nothing to intervene with")
    return rows, notes


def _examples(frame: pl.DataFrame) -> str:
    return f"{len(frame):,} example{'s have' if len(frame) > 1 else ' has'}"


def _listed(frame: pl.DataFrame) -> str:
    return listed(list(frame["example_id"].unique(maintain_order=True)[:MAX_NAMED]))
