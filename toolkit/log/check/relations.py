"""Checks of relations between rows, in blocks of examples: ids, keys, parents, judgements, rounds.

A block holds the rows of all tables whose example_id lies in a range, so that everything but the uniqueness of
trace ids can be decided within it; for that, 8 bytes per trace are kept until the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from toolkit.log.check.faults import Faults, Message
from toolkit.log.contract.problems import backticked
from toolkit.log.contract.schema import keys_of, kind_of
from toolkit.log.read.example_blocks import BLOCK_ROWS, block_id_ranges
from toolkit.log.read.log import ROW, Log, collect

_RUN = ["example_id", "pool", "action", "parent_id"]


@dataclass
class _GapCount:
    """Counts gaps in sample indices over all blocks. Gaps are a note, not a fault."""

    groups: int = 0
    traces: int = 0
    first: str = ""


def _check_traces(
    faults: Faults, traces: pl.DataFrame, examples: pl.DataFrame, gaps: _GapCount, unknown_parent: Message
) -> None:
    """Checks the parents, sample indices and judgements of a block's traces."""
    revisions = traces.filter(pl.col("parent_id").is_not_null())
    if revisions.height:
        message = "{parent_id} is itself a revision of {trace_id}: a chain of revisions must begin with a solve"
        parents = traces.select("example_id", parent_id="trace_id")
        unknown = revisions.join(parents, on=["parent_id", "example_id"], how="anti")
        faults.add_rows("traces", "parent_id", "unknown", unknown, unknown_parent)
        faults.add_rows("traces", "parent_id", "cycle", _cyclic_revisions(traces, revisions), message)
    _check_indices(faults, traces, gaps)
    judged = traces.filter(pl.col("correct").is_not_null())
    if judged.height:
        message = "is null, but other traces of example {example_id} are judged: judge all or none"
        partly = traces.filter(pl.col("correct").is_null()).join(judged, on="example_id", how="semi")
        faults.add_rows("traces", "correct", "partly-judged", partly, message)
        _check_judged_equally(faults, judged)
        _check_judged_by_labels(faults, judged, examples)
    _check_words_seen(faults, "traces", traces, examples, _RUN, "sample_index")


def _cyclic_revisions(traces: pl.DataFrame, revisions: pl.DataFrame) -> pl.DataFrame:
    """The revisions whose chain of parents leads back to themselves, without those that are their own parent."""
    known = traces.unique("trace_id", keep="first", maintain_order=True).with_row_index("at")
    places = known.select("at", "example_id", parent_id="trace_id")
    links = known.join(places, on=["parent_id", "example_id"], how="inner", suffix="_parent")
    links = links.filter(pl.col("at") != pl.col("at_parent"))
    above = np.full(known.height + 1, known.height)  # the last place means no parent, and is its own
    above[links["at"].to_numpy()] = links["at_parent"].to_numpy()
    for _ in range(known.height.bit_length()):  # doubles the steps: at the end only cycles are left
        if (above == known.height).all():
            break
        above = above[above]
    inside = pl.DataFrame({"at": np.unique(above[above < known.height])}, schema={"at": known.schema["at"]})
    return revisions.join(known.join(inside, on="at").select(ROW), on=ROW, how="semi")


def _check_indices(faults: Faults, traces: pl.DataFrame, gaps: _GapCount) -> None:
    """Checks that sample indices count from 0 in (example, pool, action, parent). Repeats are faults, gaps counted."""
    coded = traces.select(ROW, "sample_index", group=pl.struct(_RUN).hash()).sort("group", "sample_index", ROW)
    same = pl.col("group") == pl.col("group").shift()
    before = pl.when(same).then(pl.col("sample_index").shift()).otherwise(-1)
    step = coded.with_columns(step=pl.col("sample_index") - before)
    again = step.filter(pl.col("step") == 0)
    rows = traces.join(again.select(ROW), on=ROW, how="semi")
    faults.add_rows("traces", "sample_index", "duplicate-index", rows, _repeated_index_message)
    broken = step.filter(pl.col("step") > 1)
    if broken.height:
        after = step.join(broken.group_by("group").agg(gap=pl.col("sample_index").min()), on="group")
        place = traces.filter(pl.col(ROW) == broken.sort(ROW)[ROW][0]).row(0, named=True)
        gaps.first = gaps.first or f"example {backticked(place['example_id'])}, pool {backticked(place['pool'])}"
        gaps.groups += broken["group"].n_unique()
        gaps.traces += after.filter(pl.col("sample_index") >= pl.col("gap")).height


def _repeated_index_message(row: dict[str, object]) -> str:
    what = (
        f"example {backticked(row['example_id'])}, pool {backticked(row['pool'])}, action {backticked(row['action'])}"
    )
    if row["parent_id"] is not None:
        what += f", parent {backticked(row['parent_id'])}"
    return f"{backticked(row['sample_index'])} occurs twice in {what}: number the samples 0, 1, 2 …"


def _check_judged_equally(faults: Faults, judged: pl.DataFrame) -> None:
    answered = judged.filter(pl.col("answer").is_not_null() & ~pl.col("contested").fill_null(False))
    coded = answered.select(key=pl.struct("example_id", "answer").hash(), correct="correct")
    both = coded.unique().filter(pl.col("key").is_duplicated())
    rows = answered.filter(coded["key"].is_in(both["key"].implode())).sort(ROW)
    first = pl.col("correct").first().over("example_id", "answer")
    example = "answer {answer} of example {example_id}"
    message = f"is {{correct}} for {example}, which an earlier trace judges differently: judge equal answers alike"
    message += ", or mark them `contested`, as one import of all their files with `--set answers.conflicts=keep` does"
    faults.add_rows("traces", "correct", "judged-differently", rows.filter(pl.col("correct") != first), message)


def _check_judged_by_labels(faults: Faults, judged: pl.DataFrame, examples: pl.DataFrame) -> None:
    classes = examples.filter(pl.col("labels").list.len() > 0).select("example_id", "gold")
    closed = judged.filter(~pl.col("opaque").fill_null(False)).join(classes, on="example_id")
    right = pl.col("answer").eq_missing(pl.col("gold")) & pl.col("gold").is_not_null()
    example = "answer {answer} and gold {gold} of example {example_id}"
    message = f"is {{correct}} for {example}, which has labels: correct is answer = gold"
    faults.add_rows("traces", "correct", "not-by-labels", closed.filter(pl.col("correct") != right), message)


def _check_listwise(faults: Faults, verifications: pl.DataFrame, traces: pl.DataFrame) -> None:
    """Checks that of a call that ranks several traces, if all its rows are logged, only the first has the cost."""
    listed = verifications.filter(pl.col("candidates").is_not_null())
    group = ["example_id", "pool", "action", "parent_id", "verifier"]
    placed = listed.join(
        traces.select("trace_id", "example_id", "pool", "action", "parent_id", "sample_index"),
        on=["trace_id", "example_id"],
    ).with_columns(rows=pl.len().over(group), place=pl.col("sample_index").rank("ordinal").over(group))
    alone = placed.filter((pl.col("candidates") == pl.col("rows")) & (pl.col("place") > 1))
    owner = "the row with the lowest sample_index, the others hold 0"
    for name in ("prompt_tokens", "completion_tokens", "latency_s", "device_s"):
        message = f"{{{name}}}: the cost of a call that ranks several traces belongs to {owner}"
        faults.add_rows("verifications", name, "paid-twice", alone.filter(pl.col(name) > 0), message)


def _check_numbering(faults: Faults, table: str, rows: pl.DataFrame, group: list[str], name: str) -> None:
    """Checks that the column `name` (`hop`, `round`) counts 0, 1, 2 … within each group."""
    ordered = rows.unique([*group, name], keep="any").sort(*group, name)
    before = pl.col(name).shift(fill_value=-1).over(group)
    broken = ordered.with_columns(before=before).filter(pl.col(name) > pl.col("before") + 1)

    def message(row: dict[str, object]) -> str:
        missing = int(str(row["before"])) + 1
        where = _group_text(row, group)
        return f"{backticked(row[name])} comes without {name} {missing} ({where}): log every {name} from 0"

    faults.add_rows(table, name, "gap", broken, message)


def _group_text(row: Mapping[str, object], group: Sequence[str]) -> str:
    return ", ".join(f"{name.removesuffix('_id')} {backticked(row[name])}" for name in group)


def _check_words_seen(
    faults: Faults, table: str, rows: pl.DataFrame, examples: pl.DataFrame, group: list[str], order: str
) -> None:
    """Checks the number of words seen: at most the text's length, and never falling within a group."""
    placed = rows.drop_nulls("position")
    if not placed.height:
        return
    lengths = examples.select("example_id", "length").drop_nulls()
    message = "{position} lies beyond the text of example {example_id}: {length} is its `length`, in words"
    beyond = placed.join(lengths, on="example_id").filter(pl.col("position") > pl.col("length"))
    faults.add_rows(table, "position", "beyond-length", beyond, message)
    ordered = placed.sort(*group, order, ROW).with_columns(before=pl.col("position").shift().over(group))

    def falling_message(row: dict[str, object]) -> str:
        where = f"{_group_text(row, group)}, {order} {row[order]}"
        return f"{row['position']} comes after {row['before']} ({where}): a later position is not lower"

    falls = ordered.filter(pl.col("position") < pl.col("before"))
    faults.add_rows(table, "position", "falls", falls, falling_message)


_CLAIM = ["example_id", "pool", "claim"]


def _check_claims(faults: Faults, checks: pl.DataFrame, examples: pl.DataFrame) -> None:
    """Checks that a claim and its unit stay the same in all its rounds, and that a supported claim ends there."""
    for name, unit in (("matches_error", "claim"), ("gold_verdict", "claim"), ("unit", "claim"),
                       ("unit_words", "unit"), ("unit_entities", "unit")):  # fmt: skip
        group = ["example_id", "pool", unit]
        ordered = checks.drop_nulls(group).sort("claim", "round", ROW)
        first = ordered.with_columns(before=pl.col(name).first().over(group))
        changed = first.filter(pl.col(name).ne_missing(pl.col("before")))
        faults.add_rows("checks", name, "value-changes", changed, partial(_changed_message, name, unit, group))
    alone = checks.with_columns(rows=pl.len().over(_CLAIM)).filter((pl.col("verdict") == "none") & (pl.col("rows") > 1))
    message = "is `none`, but claim {claim} of example {example_id} has other rows: give it a number of its own"
    faults.add_rows("checks", "verdict", "shared-claim", alone, message)
    ended = checks.filter(pl.col("verdict") == "supported").group_by(_CLAIM).agg(ended=pl.col("round").min())
    later = checks.join(ended, on=_CLAIM).filter(pl.col("round") > pl.col("ended"))
    message = "{round} comes after round {ended}, which supported claim {claim} of example {example_id}: end it there"
    faults.add_rows("checks", "round", "after-supported", later, message)
    sound = examples.filter(~pl.col("gold_error")).select("example_id")
    matching = checks.filter(pl.col("matches_error")).join(sound, on="example_id", how="semi")
    message = "is true, but the `gold_error` of example {example_id} is false: there is no error to match"
    faults.add_rows("checks", "matches_error", "match-without-error", matching, message)


def _changed_message(name: str, unit: str, group: Sequence[str], row: dict[str, object]) -> str:
    value, first = (f"`{str(row[key]).lower()}`" for key in (name, "before"))
    return (
        f"{value}, but an earlier row has {first} ({_group_text(row, group)}): write the same on every row of a {unit}"
    )


def _check_claim_stages(faults: Faults, checks: pl.DataFrame) -> None:
    """Checks that each claim is followed in one stage only."""
    mixed = checks.unique([*_CLAIM, "stage"]).group_by(_CLAIM).len().filter(pl.col("len") > 1)
    rows = checks.join(mixed, on=_CLAIM, how="semi").sort("round", ROW)
    changed = rows.with_columns(first=pl.col("stage").first().over(_CLAIM)).filter(pl.col("stage") != pl.col("first"))

    def message(row: dict[str, object]) -> str:
        what = f"claim {row['claim']} of example {backticked(row['example_id'])} began in {backticked(row['first'])}"
        return f"{backticked(row['stage'])}, but {what}: a claim's stage never changes"

    faults.add_rows("checks", "stage", "stage-changes", changed, message)


_COLUMNS = {
    "examples": ("example_id", "gold", "labels", "length", "gold_error"),
    "traces": (
        "example_id", "trace_id", "pool", "action", "parent_id", "sample_index", "answer", "correct", "opaque",
        "contested", "position",
    ),
    "verifications": (
        "example_id", "trace_id", "verifier", "candidates",
        "prompt_tokens", "completion_tokens", "latency_s", "device_s",
    ),
    "features": ("example_id", "trace_id"),
    "hidden_states": ("example_id", "trace_id", "layer", "token"),
    "rounds": ("example_id", "pool", "hop", "round"),
    "checks": (
        "example_id", "pool", "claim", "round", "stage", "position", "verdict", "matches_error", "gold_verdict", "unit",
        "unit_words", "unit_entities",
    ),
}  # fmt: skip


_COMPARED = {"examples": "gold", "traces": "answer"}
"""Columns of text that are only compared for equality."""
_STATES = 64
"""Characters of such a text that stay in memory, more than a message shows."""


def check_relations(faults: Faults, tables: Sequence[str], known: Sequence[str]) -> list[str]:
    """Adds the faults between rows of `tables`. Ids may be looked up in the tables `known`. Returns notes."""
    log, gaps = faults.log, _GapCount()
    hashes: list[np.ndarray] = []
    bare = Log(log.address, None, {}, ())
    empty = {name: bare.scan(name, _COLUMNS[name], rows=True).collect() for name in ("examples", "traces")}
    for low, high in block_id_ranges(log, known, BLOCK_ROWS):
        here = pl.col("example_id").is_between(pl.lit(low), pl.lit(high))
        scans = {name: log.scan(name, _COLUMNS[kind_of(name)], rows=True).filter(here) for name in known}
        held = {name: scan.with_columns(_text_start_and_hash(_COMPARED.get(name, ""))) for name, scan in scans.items()}
        frames = {name: collect(scan, log) for name, scan in held.items()}
        examples, traces = (frames.get(name, empty[name]) for name in empty)
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
                faults.add_rows(
                    table, "trace_id", "unknown", unknown, lambda row: _unknown_trace_text(log, row, "trace_id")
                )
        if "traces" in tables:
            _check_traces(faults, traces, examples, gaps, lambda row: _unknown_trace_text(log, row, "parent_id"))
        if "verifications" in tables:
            _check_listwise(faults, frames["verifications"], traces)
        if "rounds" in tables:
            _check_numbering(faults, "rounds", frames["rounds"], ["example_id", "pool"], "hop")
            _check_numbering(faults, "rounds", frames["rounds"], ["example_id", "pool", "hop"], "round")
        if "checks" in tables:
            checks = frames["checks"]
            _check_numbering(faults, "checks", checks, _CLAIM, "round")
            _check_claim_stages(faults, checks)
            _check_words_seen(faults, "checks", checks, examples, _CLAIM, "round")
            _check_claims(faults, checks, examples)
    if "traces" in tables:
        _check_trace_ids_across(faults, hashes)
    if not gaps.groups:
        return []
    return [
        f"sample indices have gaps in {gaps.groups:,} of (example, pool, action, parent), first in {gaps.first}: "
        f"the {gaps.traces:,} traces after a gap are not replayed"
    ]


def _check_keys(faults: Faults, table: str, frame: pl.DataFrame, hashes: list[np.ndarray]) -> None:
    """Adds rows with the key of an earlier row. Equal trace ids in different blocks are checked at the end."""
    keys = list(keys_of(table))
    hashed = frame.select(pl.struct(keys).hash() if len(keys) > 1 else pl.col(keys[0]).hash()).to_series()
    if table == "traces":
        hashes.append(hashed.to_numpy())
    else:
        _add_duplicates(faults, table, keys, frame.filter(hashed.is_duplicated()))


def _check_trace_ids_across(faults: Faults, hashes: list[np.ndarray]) -> None:
    """Adds equal trace ids of the whole log. Ids with equal hashes are compared themselves."""
    every = np.sort(np.concatenate([*hashes, np.empty(0, np.uint64)]))
    twice = np.unique(every[1:][every[1:] == every[:-1]])
    if len(twice):
        same_hash = pl.col("trace_id").hash().is_in(pl.Series(twice).implode())
        rows = faults.log.scan("traces", ["trace_id"], rows=True).filter(same_hash)
        _add_duplicates(faults, "traces", ["trace_id"], collect(rows, faults.log))


def _add_duplicates(faults: Faults, table: str, keys: list[str], candidates: pl.DataFrame) -> None:
    later = candidates.sort(ROW).filter(~pl.struct(keys).is_first_distinct())

    def message(row: dict[str, Any]) -> str:
        named = ", ".join(f"{key} {backticked(row[key])}" for key in keys)
        return f"a second row of {named}: keep one; a retry belongs into a log of its own, to be merged"

    faults.add_rows(table, keys[0] if len(keys) < 3 else keys[-1], "duplicate", later, message)


def _text_start_and_hash(name: str) -> list[pl.Expr]:
    """The start of a text and a hash of the whole, which together recognise equal texts. Whole answers of millions of
    traces would not fit in memory.
    """
    text = pl.col(name)
    short = pl.concat_str(text.str.head(_STATES), text.hash().cast(pl.String), separator="\n")
    return [pl.when(text.str.len_bytes() > _STATES).then(short).otherwise(text).alias(name)] if name else []


def _unknown_trace_text(log: Log, row: dict[str, Any], column: str) -> str:
    """The message about an id without a trace in the row's example: it is unknown, or belongs to another example."""
    trace_id = row[column]
    match = collect(log.scan("traces", ["example_id", "trace_id"]).filter(pl.col("trace_id") == trace_id).head(1), log)
    if not match.height:
        return f"{backticked(trace_id)} is unknown: add it to traces, or remove the row"
    of = f"{backticked(trace_id)} is a trace of example {backticked(match['example_id'][0])}"
    return f"{of}, the row's example_id is {backticked(row['example_id'])}: correct one of them"
